"""``ctx session``."""
