"""The one reading of a session: pure functions over its rows, one module a question."""
