"""What of an event is searched, and from a person's words to FTS5 expressions and snippets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SAID_CHARS = 16_384
DONE_CHARS = 8_192
"""Longest documents; what follows in a text is not searched."""

SAID = frozenset({"prompt", "injected", "answer", "reasoning", "title", "compaction"})
DONE = frozenset({"tool_call", "tool_result", "error", "todo"})
"""Event kinds that are searched, by column."""

_WORDS = 24
_TOKEN = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"\s+")
_MOST_PLACES = 500
"""Places of words in a text that are looked at for a snippet."""

_STOP = frozenset(
    (
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "can",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "is",
        "it",
        "its",
        "me",
        "my",
        "not",
        "of",
        "on",
        "or",
        "our",
        "so",
        "that",
        "the",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    )
)


def documents(kinds: Iterable[str], texts: Iterable[str | None], first: int = 0) -> list[tuple[int, str | None, str | None]]:
    """Return (row, said, done) of the events that are searched; ``first`` is the row of the first one."""
    return [
        (row, text[:SAID_CHARS], None) if kind in SAID else (row, None, text[:DONE_CHARS])
        for row, (kind, text) in enumerate(zip(kinds, texts, strict=True), first)
        if text and (kind in SAID or kind in DONE)
    ]


class Question(NamedTuple):
    """A text as FTS5 expressions from strict to loose; all empty for a text without a word."""

    tokens: tuple[str, ...] = ()
    """its words, in lower case, each once"""
    telling: tuple[str, ...] = ()
    """those that are no stop words; all where there are only stop words"""
    phrase: str = ""
    every: str = ""
    some: str = ""
    any: str = ""
    beginnings: str = ""


class Snippet(NamedTuple):
    """Some of a text on one line, and where in it the words stand as (start, end)."""

    text: str
    marks: tuple[tuple[int, int], ...]


def question(text: str) -> Question:
    """Return what to look for: the words in their order, all that tell something, any of these, any word, words that begin so.

    The first 2,000 characters and 24 words count. Nothing in a text is an operator.
    """
    words = [w for w in (" ".join(_TOKEN.findall(part)) for part in text[:2000].split()) if w][:_WORDS]
    tokens = tuple(dict.fromkeys(t.lower() for w in words for t in w.split()))[:_WORDS]
    if not tokens:
        return Question()
    telling = tuple(t for t in tokens if t not in _STOP) or tokens
    whole = [w for w in words if not _STOP.issuperset(w.lower().split())] or words
    return Question(
        tokens,
        telling,
        phrase=f'"{" ".join(words)}"',
        every=" AND ".join(f'"{w}"' for w in whole),
        some=" OR ".join(f'"{t}"' for t in telling),
        any=" OR ".join(f'"{t}"' for t in tokens),
        beginnings=" OR ".join(f'"{t}" *' for t in telling),
    )


def named(name: str) -> str:
    """Return the expression that finds rows in which a file name or path stands; empty where it has no letter or digit."""
    words = _TOKEN.findall(name[:1000])
    return f'done : "{" ".join(words)}"' if words else ""


def snippet(text: str, words: Sequence[str], width: int = 240) -> Snippet:
    """Return about ``width`` characters of a text on one line, from where most of the words stand together."""
    places = _places(text, words)
    if not places:
        places = _places(text, words, beginning=True)
    start = max(0, _best(places, width) - width // 4) if places else 0
    end = min(len(text), start + width)
    return _cut(text, start, end, [(a, b) for a, b in places if start <= a and b <= end])


def around(text: str, start: int, end: int, width: int = 240) -> Snippet:
    """Return about ``width`` characters of a text on one line, with one place of it marked."""
    first = max(0, start - width // 4)
    last = min(len(text), max(first + width, min(end, start + width)))
    return _cut(text, first, last, [(start, min(end, last))])


def _places(text: str, words: Sequence[str], *, beginning: bool = False) -> list[tuple[int, int]]:
    """Return the first places of the words in a text, as (start, end)."""
    if not words:
        return []
    choice = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    after = "" if beginning else r"(?![^\W_])"
    found = re.finditer(rf"(?<![^\W_])(?:{choice}){after}", text, re.IGNORECASE)
    return [match.span() for match, _ in zip(found, range(_MOST_PLACES), strict=False)]


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
    """Return a piece of a text with every run of white space as one space, and its marks moved accordingly."""
    pieces: list[str] = ["…"] if start else []
    length = len(pieces)
    moved = []
    edges = [start, *(edge for mark in marks for edge in mark), end]
    for number in range(len(edges) - 1):
        raw = text[edges[number] : edges[number + 1]]
        piece = _BLANK.sub(" ", raw)
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
