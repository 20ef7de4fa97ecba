"""What the context windows of captured sessions held, and when."""
