"""The lessons in what a model wrote: what can be read of an answer is read, also where the rest of it is broken."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ctx_pipeline.model.memories import KINDS

_HEAD, _KEY = re.compile(r"\[\[ ## lessons ## \]\]"), re.compile(r'"lessons"\s*:')
_ENDS_EMPTY = re.compile(r'^[ \t]*\{\s*"lessons"\s*:\s*\[\s*\]\s*\}\s*(?:```\s*)?(?:\[\[ ## completed ## \]\]\s*)?\Z', re.MULTILINE)
_MOST_LISTS = 20
"""Places of an answer at which a list is looked for: each may be read to the end."""

_OPENS = re.compile(r'\[(?=\s*[{"\]])|\{')
_BETWEEN = " \t\r\n,"
_MARKER = "[[ ##"
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*+("?)|[{}\[\]]', re.DOTALL)
_COMMA_BEFORE_END = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)


class ReadLessons(NamedTuple):
    """The lessons of an answer as they stand in it, and whether it broke off before its end."""

    lessons: list[Any]
    cut: bool

    @property
    def any_lesson(self) -> bool:
        """Tell whether a lesson is among them."""
        return any(_is_lesson(x) and x["kind"] in KINDS for x in self.lessons)

    @property
    def answers(self) -> bool:
        """Tell whether a lesson is among them, or the list is whole and holds none, or none but those of unknown kinds."""
        return self.any_lesson or (not self.cut and all(map(_is_lesson, self.lessons)))


def _is_lesson(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("kind"), str) and isinstance(item.get("text"), str)


def lessons_in(text: str) -> ReadLessons | None:
    """Return the lessons that an answer lists; None where it lists none.

    Of several lists it is the last with a lesson, but none where the answer ends with an empty list in lines
    of its own: what stood before was a draft. Fences, sentences around the list and commas
    at the end of one are passed over. What cannot be read is None in its place. The lesson in
    which the text breaks off is left out.
    """
    head = _HEAD.search(text)
    begin = head.end() if head else 0
    if _ENDS_EMPTY.search(text, begin):
        return ReadLessons([], cut=False)
    keys = [match.end() for match in _KEY.finditer(text, begin)][-_MOST_LISTS:]
    found = [read for at in keys if (read := _items(text, at))]
    bare = None if found else _items(text, begin)
    # a box of a checklist is no answer
    if bare and (bare.any_lesson if keys else bare.lessons or bare.cut or head):
        return bare
    with_lesson = (read for read in reversed(found) if read.any_lesson)
    return next(with_lesson, None) or next((read for read in found if read.cut), None) or next(iter(found), None)


def _items(text: str, begin: int) -> ReadLessons | None:
    opens = _OPENS.search(text, begin)
    if opens is None:
        return None
    listed = opens[0] == "["
    at = opens.end() if listed else opens.start()
    found: list[Any] = []
    while True:
        while at < len(text) and text[at] in _BETWEEN:
            at += 1
        if at == len(text) or text[at] not in '{"':
            return ReadLessons(found, cut=listed and text[at : at + 1] != "]")
        end = _end_of_item(text, at)
        if end is None:
            return ReadLessons(found, cut=listed or _MARKER not in text[at:])
        found.append(_read(text[at:end]))
        at = end


def _end_of_item(text: str, at: int) -> int | None:
    """Return where an object or a string ends; None where the text ends before."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        if (token.start() > at and depth == 0) or (token[0][0] == '"' and not token[1]):
            return None
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return None


def _read(text: str) -> Any:
    for piece in (text, _COMMA_BEFORE_END.sub(lambda m: m[1] or "", text)):
        try:
            return _DECODER.decode(piece)
        except (ValueError, RecursionError):
            continue
    return None
