"""Fitting a conversation into a budget of tokens."""
