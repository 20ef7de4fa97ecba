"""Recorded command lines: how a shell reads them, what they read, write and destroy."""
