"""The line of an output that is told where no line of it says what went wrong."""

from __future__ import annotations

import re

from ctx_pipeline.model.display import SEQUENCE, truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern

_TAG = lazy_pattern(
    r"</?tool_use_error>|^(?:Error: )?Exit code -?\d{1,10}$"
    r"|^(?:Chunk ID: \w+|Wall time:? .*|Process (?:exited with code|running with session ID) \d+|Original token count: \d+|Output:"
    r"|Script (?:completed|failed)|Warning: truncated output \(original token count: \d+\)|Total output lines: \d+|\{\x22chunk_id\x22:.*)$",
    re.MULTILINE,
)
"""What agents write around an output."""

_SAYS = lazy_pattern(r"""^(?![\u2500-\u257f=])(?!.*[\u2500-\u257f=]{4}$)(?!"[\w-]{1,40}": ?-?[\d.]{1,20},?$).*[^\W\d_]{2}""")
"""A line with a word in it that is no part of a frame, no heading that a rule follows, and no number of a JSON object."""


def says(line: str) -> bool:
    """Tell whether a line says something: it is no frame, no heading of a rule and no number of a JSON object."""
    return _SAYS.search(line) is not None


def first_line_of(text: str, longest: int) -> str:
    """Return the first line of an output that says something, cut, without what the agent wrote around it; empty where none does."""
    lines = map(str.strip, _TAG.sub(" ", SEQUENCE.sub("", text[:4_000])).splitlines())
    return truncate(next((line for line in lines if says(line)), ""), longest)
