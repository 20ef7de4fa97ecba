"""Whether a record holds the final count of a call's output, or only the first one of its stream."""

from __future__ import annotations

FIRST_COUNT = 3
"""Output tokens that a record may hold where only the first count of a stream was written."""
LONG_TEXT = 200
"""Characters from which an answer cannot have so few tokens."""


def is_first_count(output: int, characters: int) -> bool:
    """Tell whether the recorded output tokens of a call are too few for the text that it wrote."""
    return output <= FIRST_COUNT and characters >= LONG_TEXT
