"""The page: ``ctx dashboard``, and what serves it."""
