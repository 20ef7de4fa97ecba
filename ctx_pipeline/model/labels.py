"""What tables print where the records say nothing; the same words name it in filters and in ``ctx explain``."""

from __future__ import annotations

UNNAMED = "(not recorded)"
"""A model that the records do not name."""

UNDATED = "(no time)"
"""Calls without a time."""
