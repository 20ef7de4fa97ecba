"""Search over the whole history."""
