"""The part of an event that a memory rests on: around the words that decide, not the beginning of a long output."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WIDTH = 200
"""Characters of an excerpt, the marks of what is left out apart."""

_LED, _LEAST = 40, 4
"""Characters shown before the deciding words, and of the shortest words that decide anything."""

_SAID = ("quotes", "error", "said")
_CHANGED = ("change", "idiom")
_RAN = ("commands", "failed", "passed", "did", "steps", "narrowed", "refused")
_PLACE = re.compile(r"^\S*?:\d+(?::\d+)*:?\s+")
_MARKED = re.compile(r"`([^`]+)`")
_ENDED_WELL = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:passed|passing|succeeded)\b|\btest result: ok\b|\bAll checks passed|\bno issues found"
    r"|(?<!\d)0 (?:issues|errors|failed)\b|\bok\s+\S+\s+(?:\d[\d.]*s|\(cached\))|\bBUILD SUCCESS(?:FUL)?\b"
    r"|\bfiles? (?:left unchanged|already formatted)",
    re.IGNORECASE,
)
"""A line with which a runner of tests, a linter or a build says that all is well; the last one sums up."""


def excerpt(text: str, kind: str, body: Mapping[str, Any]) -> str:
    """Return what an event shows of a memory with this body, on one line: the words that decide with what stands around them.

    Of a result that is what was said or went wrong, else the last line that says that all is well, else its end;
    of a call the line that was changed or the command, else its beginning.
    """
    flat = " ".join(text.split())
    if len(flat) <= WIDTH:
        return flat
    for words in _deciding(kind, body):
        at = flat.find(words)
        if at >= 0:
            return _around(flat, at, len(words))
    if kind != "tool_result":
        return _around(flat, 0, 0)
    ended = list(_ENDED_WELL.finditer(flat))
    return _around(flat, ended[-1].start(), len(ended[-1][0])) if ended else _around(flat, len(flat), 0)


def _around(flat: str, at: int, length: int) -> str:
    """Return an excerpt that holds the words at a place whole where they fit: from the beginning when that holds them."""
    first = 0 if at + length <= WIDTH else max(0, min(at - min(_LED, max(0, WIDTH - length)), len(flat) - WIDTH))
    last = min(len(flat), first + WIDTH)
    return f"{'…' if first else ''}{flat[first:last]}{'…' if last < len(flat) else ''}"


def _deciding(kind: str, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of a body that decide in an event of this kind, also as JSON writes them, the most telling first."""
    for name in (*_CHANGED, *_RAN) if kind == "tool_call" else _SAID:
        for found in _strings(body.get(name)):
            flat = " ".join(found.split()).rstrip("…")
            bare = _PLACE.sub("", flat)
            # paths in an error are shortened, so that its end is looked for too
            looked_for = _MARKED.findall(flat) if name == "steps" else (flat, bare, bare[-60:].lstrip())
            for words in dict.fromkeys(w for w in looked_for if len(w) >= _LEAST):
                yield words
                escaped = json.dumps(words, ensure_ascii=False)[1:-1]
                if escaped != words:
                    yield escaped


def _strings(value: Any) -> list[str]:
    """Return the texts of a value: of a change the new line before the old one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [value[k] for k in ("line", "after", "new", "before", "old") if isinstance(value.get(k), str) and value[k]]
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []
