"""Long text that repeats itself, without the middle of each repetition: where that shows no secret, the whole shows none."""

from __future__ import annotations

from typing import Any, AnyStr

LEAST = 100_000
"""Characters from which a text is looked at; a shorter one is read in a moment."""

_STEP = 32_768
_KEPT = _STEP // 2
"""Characters that stay on either side of what is left out: more than any pattern reaches."""
_PROBE, _LONGEST = 64, 512
"""Characters by which a repetition is known, and the longest unit that is."""


def shortened(text: AnyStr) -> AnyStr:
    """Return a text without the middle of what repeats a unit for long; the text itself where nothing does."""
    if len(text) < LEAST:
        return text
    parts: list[Any] = []
    done = at = 0
    while at + _STEP <= len(text):
        unit = text.find(text[at : at + _PROBE], at + 1, at + _LONGEST + _PROBE) - at
        end = at
        if unit > 0:
            # the same text a unit further on
            while text[end + unit : end + unit + _STEP] == text[end : end + _STEP] and end + unit + _STEP <= len(text):
                end += _STEP
        left_out = max(0, end - at - 2 * _KEPT) // unit * unit if unit > 0 else 0
        if left_out:
            parts.append(text[done : at + _KEPT])
            done = at + _KEPT + left_out
        at = max(end, at + _STEP)
    return text[:0].join((*parts, text[done:])) if parts else text
