"""What stands in parentheses: ``(d1)``, ``(d0..d3, .block)``, ``(d0, 1, -2)``, ``((d1,0),(d2,0,1))``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.context.errors import InvalidSelector
from ctx_pipeline.context.tree.selectors.query import Hop

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.context.tree.selectors.query import Step

_DEPTH = re.compile(r"d(-?\d+)(?:\.\.d?(-?\d+|\*))?|depth\((-?\d+)\)")
_OFFSET = re.compile(r"(-?\d+)(?:\.\.(-?\d+))?")
_WORDS = frozenset({"first", "last", "all", "min", "max", "*"})
DEPTH_HINT = "depths are -1 (system), 0 (active head), 1 and up; the smaller comes first"
_HINT = "a position is (d1), (d1..d3), (d0, 1), (d0, seg, cont, *:block), ((d1,0),(d2,0))"


def hops_of(text: str, written: str, at: int, inner: Callable[[str, str, int], Step]) -> tuple[tuple[Hop, ...], ...]:
    """Return the hops of each place in parentheses. Raises InvalidSelector."""
    parts = _split(written[1:-1], at + 1)
    if parts and parts[0][0].startswith("("):
        places: list[tuple[Hop, ...]] = []
        for part, where in parts:
            if not (part.startswith("(") and part.endswith(")")):
                raise InvalidSelector(text, where, f"{part!r} is no place", _HINT)
            places += hops_of(text, part, where, inner)
        return tuple(places)
    if not parts:
        raise InvalidSelector(text, at, "an empty position", _HINT)
    first, where = parts[0]
    found = _DEPTH.fullmatch(first)
    if found is None:
        raise InvalidSelector(text, where, f"a position starts with a depth, not {first!r}", _HINT)
    low = int(found[1] or found[3])
    high = low if found[2] is None else None if found[2] == "*" else int(found[2])
    if low < -1 or (high is not None and high < low):
        raise InvalidSelector(text, where, f"{first!r} is no depth", DEPTH_HINT)
    return ((Hop("depth", low, high), *(_hop(text, part, where, inner) for part, where in parts[1:])),)


def _hop(text: str, part: str, at: int, inner: Callable[[str, str, int], Step]) -> Hop:
    if not part:
        raise InvalidSelector(text, at, "a trailing comma marks a place to insert, not one to read", "leave the comma out")
    found = _OFFSET.fullmatch(part)
    if found:
        low = int(found[1])
        high = low if found[2] is None else int(found[2])
        if high < low:
            raise InvalidSelector(text, at, f"{part!r} is no range", "the smaller offset comes first")
        return Hop("offset", low, high)
    if part in _WORDS:
        return Hop(part)
    if part == "seg":
        return Hop("seg")
    named = re.match(r"(cont|block)\b", part)
    if named:
        return Hop("child", step=inner(text, f".{part}", at - 1))
    if part.startswith("*:"):
        return Hop("below", step=inner(text, f".{part[2:]}", at + 1))
    if part[0] in ".#+{[":
        return Hop("below", step=inner(text, part, at))
    raise InvalidSelector(text, at, f"{part!r} is no hop", _HINT)


def _split(inside: str, at: int) -> list[tuple[str, int]]:
    """Return the parts between commas that stand in no bracket or quote, with their positions."""
    parts: list[tuple[str, int]] = []
    level, quote, begin = 0, "", 0
    for place, letter in enumerate(f"{inside},"):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            level += 1
        elif letter in ")]}":
            level -= 1
        elif letter == "," and not level:
            part = inside[begin:place]
            parts.append((part.strip(), at + begin + len(part) - len(part.lstrip())))
            begin = place + 1
    return [] if len(parts) == 1 and not parts[0][0] else parts
