"""From what a person types to the words that are looked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 4000
_MOST = 48
_POSITION = re.compile(r"(?::\d+){1,2}$")
_ABOVE = re.compile(r"^.*/(?=[^/]+/[^/]+$)")
_WORD = re.compile(r"[^\W_](?:[\w./:@+-]*\w)?")

_HALF_AT_END, _HALF_AT_START = re.compile(r"\s\S{0,200}\Z"), re.compile(r"\A\S{0,200}\s")

_STOP = """
    a about after again all also am an and any are aren as at be been before being but by can cannot could did didn do does doesn
    doing don done down each else few for from further get gets getting give go goes going got had has hasn have haven having he her
    here hers him his how i if in into is isn it its itself just let like ll make many may me might more most much must my need no nor
    not now of off on once one only or other our out over own please re really same see she should shouldn so some such than that the
    their them then there these they thing things this those through to too try under until up us use ve very want was wasn way we
    were weren what when where which while who whom why will with won would wouldn yes yet you your yours
"""
STOP_WORDS = frozenset(_STOP.split())
"""Words that match nothing."""


def words_of(query: str) -> list[str]:
    """Return the words and identifiers of a query that say something, each once; at most 48.

    Stop words are left out, so a query of stop words alone gives nothing. Of a long text
    the first and the last words count: an output says at its end what went wrong. Of a
    path from the root the last folder and the file count, of any without a line's number.
    """
    found: dict[str, None] = {}
    text = query if len(query) <= 2 * _LONGEST else f"{_HALF_AT_END.sub('', query[:_LONGEST])} {_HALF_AT_START.sub('', query[-_LONGEST:])}"
    text = text.replace("\0", " ")
    for match in _WORD.finditer(text):
        word = _POSITION.sub("", match.group())
        if "/" in word and text[match.start() - 1 : match.start()] == "/":
            word = _ABOVE.sub("", word)
        low = word.lower()
        if low in STOP_WORDS or (len(low) == 1 and low.isascii()):
            continue
        found.setdefault(low if word.islower() or word.istitle() else word, None)
    words = list(found)
    return words if len(words) <= _MOST else words[: _MOST // 2] + words[-_MOST // 2 :]


def error_words(text: str, significant_terms: Callable[[str], str]) -> list[str]:
    """Return the words of the line of a pasted output that says what went wrong, as ``telling`` picks it.

    Of a single line there are none: it is looked for as it stands.
    """
    return words_of(significant_terms(text)) if "\n" in text.strip() else []
