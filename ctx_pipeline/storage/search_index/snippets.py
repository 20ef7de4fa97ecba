"""The snippet of a hit: the part of a text where most of the words stand together, with their places marked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.storage.search_index.tokenize import QUOTING, SIGN, UNSPACED
from ctx_pipeline.storage.search_index.word_forms import forms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BLANK = lazy_pattern(r"\s+")
_MEANT = lazy_pattern(r"(?:\s|\\[nrt])+|\\([\\\"])")
"""The same in JSON and scripts, where escapes stand for blanks, quotes and backslashes."""
_WHOLE = ("(?<!LETTER)", "(?!LETTER)")
_ESCAPE = (r"(?<=\\[nrt])", "(?!LETTER)")
_BEGINNING = ("(?<!LETTER)", "")
"""What stands before and after a word in a text (LETTER is any but a sign): whole words, those after an escape, beginnings of words."""

_MOST_PLACES = 500
"""Places of words in a text that are looked at for a snippet."""


class Snippet(NamedTuple):
    """Some of a text on one line, and where in it the words stand as (start, end)."""

    text: str
    marks: tuple[tuple[int, int], ...]


def snippet(text: str, words: Sequence[str], width: int = 240) -> Snippet:
    """Return about ``width`` characters of a text on one line, from where most of the words stand together."""
    places = _whole(text, words)
    for before, after in (_WHOLE, _ESCAPE, _BEGINNING):
        places = places or _places(text, words, before, after)
    places = places or _whole(text, [form for word in words for form in forms_of(word)])
    start = max(0, _best(places, width) - width // 4) if places else 0
    end = min(len(text), start + width)
    return _cut(text, start, end, [(a, b) for a, b in places if start <= a and b <= end])


def around(text: str, start: int, end: int, width: int = 240) -> Snippet:
    """Return about ``width`` characters of a text on one line, with one place of it marked."""
    first = max(0, start - width // 4)
    last = min(len(text), max(first + width, min(end, start + width)))
    return _cut(text, first, last, [(start, min(end, last))])


def _whole(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first places of whole words of ASCII letters in a text; nothing where other words are to be found, or letters move.

    A fifth of the time of an expression that looks for all of them without case.
    """
    lowered = text.lower()
    if len(lowered) != len(text) or not all(word.isascii() for word in words):
        return []
    places = []
    for word in words:
        size, left = len(word), _MOST_PLACES
        place = lowered.find(word)
        while place >= 0 and left:
            end = place + size
            if not (_is_letter(lowered[place - 1 : place]) or _is_letter(lowered[end : end + 1])):
                places.append((place, end))
                left -= 1
            # no whole word begins inside of a run of letters
            place = lowered.find(word, end)
    places.sort()
    return places[:_MOST_PLACES]


def _is_letter(sign: str) -> bool:
    return sign.isalnum() and (sign.isascii() or SIGN.match(sign) is None)


def _places(text: str, words: Sequence[str], before: str, after: str) -> list[tuple[int, int]]:
    """Return the first places of the words in a text, as (start, end): words between two patterns, signs anywhere."""
    letter = r"[^\W_]" if text.isascii() else rf"[^\W_{UNSPACED}]"
    spelled = [re.escape(word) for word in sorted(words, key=len, reverse=True) if not SIGN.match(word)]
    before, after = before.replace("LETTER", letter), after.replace("LETTER", letter)
    choice = f"{before}(?:{'|'.join(spelled)}){after}"
    found = re.finditer(choice, text, re.IGNORECASE) if spelled else iter(())
    places = [match.span() for match, _ in zip(found, range(_MOST_PLACES), strict=False)]
    if signs := [re.escape(word.replace(" ", "")) for word in words if SIGN.match(word)]:
        pairs = re.finditer(f"(?=({'|'.join(signs)}))", text)
        places = _merged([*places, *(match.span(1) for match, _ in zip(pairs, range(_MOST_PLACES), strict=False))])
    return places


def _merged(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return places in order, those that overlap or touch as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _best(places: Sequence[tuple[int, int]], width: int) -> int:
    """Return where the window begins that has the most places in it."""
    best, most, first = places[0][0], 0, 0
    reach = width * 3 // 4
    for number, (_, end) in enumerate(places):
        while end - places[first][0] > reach and first < number:
            first += 1
        if number - first + 1 > most:
            best, most = places[first][0], number - first + 1
    return best


def _cut(text: str, start: int, end: int, marks: Sequence[tuple[int, int]]) -> Snippet:
    """Return a piece of a text with every run of white space as one space, of JSON without its escapes, and its marks moved accordingly."""
    blank = _MEANT if "\\" in text and QUOTING.match(text) else _BLANK
    pieces: list[str] = ["…"] if start else []
    length = len(pieces)
    moved = []
    edges = [start, *(edge for mark in marks for edge in mark), end]
    for number in range(len(edges) - 1):
        raw = text[edges[number] : edges[number + 1]]
        piece = blank.sub(lambda match: (match.lastindex and match[1]) or " ", raw)
        if piece.startswith(" ") and (length == 0 or pieces[-1:] == ["…"] or (pieces and pieces[-1].endswith(" "))):
            piece = piece[1:]
        if number % 2 == 1 and piece:
            moved.append((length, length + len(piece)))
        if piece:
            pieces.append(piece)
            length += len(piece)
    told = "".join(pieces).rstrip()
    kept = tuple((a, min(b, len(told))) for a, b in moved if a < len(told))
    return Snippet(told + ("…" if end < len(text) else ""), kept)
