"""The context library: stores for messages, windows within a token budget, retrieval, and time travel over context trees."""
