"""Removes sessions from every layer for good."""
