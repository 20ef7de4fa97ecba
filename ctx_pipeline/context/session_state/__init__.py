"""The state of a session as records, and its forms: a view, a snapshot within a byte budget, a block to go on with, a difference."""
