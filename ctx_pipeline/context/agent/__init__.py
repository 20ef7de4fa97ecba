"""A small agent over a context: calls a provider, runs tools, keeps the history."""
