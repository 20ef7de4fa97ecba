"""Counting tokens without a network, and saying files with fewer of them."""
