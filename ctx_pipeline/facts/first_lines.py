"""The line of an output that is told where no line of it says what went wrong."""

from __future__ import annotations

import re

from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern

_TAG = lazy_pattern(
    r"</?tool_use_error>|^(?:Error: )?Exit code -?\d{1,10}$"
    r"|^(?:Chunk ID: \w+|Wall time: .*|Process (?:exited with code|running with session ID) \d+|Original token count: \d+|Output:)$",
    re.MULTILINE,
)
"""What agents write around an output."""

_SAYS = lazy_pattern(r"^(?![\u2500-\u257f=]).*[^\W\d_]{2}")
"""A line with a word in it that is no part of a frame."""


def first_line_of(text: str, longest: int) -> str:
    """Return the first line of an output that says something, cut, without what the agent wrote around it; empty where none does."""
    lines = map(str.strip, _TAG.sub(" ", text[:4_000]).splitlines())
    return truncate(next((line for line in lines if _SAYS.search(line)), ""), longest)
