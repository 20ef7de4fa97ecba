"""What of an event is searched, and from a person's words to FTS5 expressions and snippets."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SAID_CHARS = 16_384
DONE_CHARS = 8_192
"""Longest documents; what follows in a text is not searched, but for paths in a tool call."""

SAID = frozenset({"prompt", "injected", "answer", "reasoning", "title", "compaction"})
DONE = frozenset({"tool_call", "tool_result", "error", "todo"})
"""Event kinds that are searched, by column."""

_WORDS = 24
_TOKEN = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"\s+")
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
"""Letters of scripts in which words are not set apart by spaces (Han, Kana) or not from what is added to them (Hangul)."""

_SIGN = re.compile(f"[{_UNSPACED}]")
_LEADS = bytes((*range(0xE3, 0xEE), 0xEF, 0xF0))
"""First bytes that these letters have in UTF-8."""
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_BLANKS = re.compile(r"\\[\\nrt]")
"""Escapes of JSON that part words."""

_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_PATH = re.compile(r"(?<![\w.@~/-])[\w.@~-]*(?:/[\w.@-]+)+")
_LOOKED = 1_000_000
_PATHS_CHARS = 4_096
"""Paths beyond the first part of a long tool call: how far they are looked for, and characters of them that are searched."""

_WHOLE = ("(?<!LETTER)", "(?!LETTER)")
_ESCAPE = (r"(?<=\\[nrt])", "(?!LETTER)")
_BEGINNING = ("(?<!LETTER)", "")
"""What stands before and after a word in a text (LETTER is any but a sign): whole words, those after an escape, beginnings of words."""

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
    r"""Return (row, said, done) of the events that are searched; ``first`` is the row of the first one.

    Arguments of a tool call are read as what they stand for (``a\nb`` is two words). Signs of Han, Kana and Hangul are
    words of their own, so that a word is found inside a run of them.
    """
    found: list[tuple[int, str | None, str | None]] = []
    for row, (kind, text) in enumerate(zip(kinds, texts, strict=True), first):
        if not text:
            continue
        if kind in SAID:
            told = text[:SAID_CHARS]
            found.append((row, told if told.isascii() else _spaced(told), None))
        elif kind in DONE:
            told = _arguments(text) if kind == "tool_call" else text[:DONE_CHARS]
            found.append((row, None, told if told.isascii() else _spaced(told)))
    return found


def _arguments(text: str) -> str:
    """Return what is searched of a tool call: its first characters without JSON's escapes, and paths named later."""
    told = text[:DONE_CHARS]
    if len(text) > DONE_CHARS:
        later = dict.fromkeys(_PATH.findall(text, DONE_CHARS - 200, _LOOKED))
        told = f"{told} {' '.join(later)[:_PATHS_CHARS]}"
    if "\\" in told and told[0] in "{[":
        told = _BLANKS.sub(" ", told)
        if "\\u" in told:
            told = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), told).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return told


def _spaced(text: str) -> str:
    """Return a text with each sign of an unspaced script set apart."""
    if text.isascii():
        return text
    raw = text.encode("utf-8", "replace")
    # a tenth of all texts has some other sign: to look for these bytes takes a third of the time of the expression
    if len(raw) == len(raw.translate(None, _LEADS)) or _SIGN.search(text) is None:
        return text
    return _SIGN.sub(r" \g<0> ", text)


def _pieces(token: str) -> list[str]:
    """Return what is looked for of a token: itself, or every two signs of an unspaced script that follow on each other."""
    if token.isascii() or _SIGN.search(token) is None:
        return [token]
    pieces = []
    for run in _RUN.findall(token):
        apart = _SIGN.match(run) is not None and len(run) > 1
        pieces += [f"{a} {b}" for a, b in pairwise(run)] if apart else [run]
    return pieces


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
    parts = [found for part in text[:2000].split() if (found := _TOKEN.findall(part))][:_WORDS]
    words = [" ".join(_spaced(" ".join(part)).split()) for part in parts]
    tokens = tuple(dict.fromkeys(piece.lower() for part in parts for token in part for piece in _pieces(token)))[:_WORDS]
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
    words = _spaced(" ".join(_TOKEN.findall(name[:1000]))).split()
    return f'done : "{" ".join(words)}"' if words else ""


def snippet(text: str, words: Sequence[str], width: int = 240) -> Snippet:
    """Return about ``width`` characters of a text on one line, from where most of the words stand together."""
    places = _whole(text, words)
    for before, after in (_WHOLE, _ESCAPE, _BEGINNING):
        places = places or _places(text, words, before, after)
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
    return sign.isalnum() and (sign.isascii() or _SIGN.match(sign) is None)


def _places(text: str, words: Sequence[str], before: str, after: str) -> list[tuple[int, int]]:
    """Return the first places of the words in a text, as (start, end): words between two patterns, signs anywhere."""
    letter = r"[^\W_]" if text.isascii() else rf"[^\W_{_UNSPACED}]"
    spelled = [re.escape(word) for word in sorted(words, key=len, reverse=True) if not _SIGN.match(word)]
    before, after = before.replace("LETTER", letter), after.replace("LETTER", letter)
    choice = f"{before}(?:{'|'.join(spelled)}){after}"
    found = re.finditer(choice, text, re.IGNORECASE) if spelled else iter(())
    places = [match.span() for match, _ in zip(found, range(_MOST_PLACES), strict=False)]
    if signs := [re.escape(word.replace(" ", "")) for word in words if _SIGN.match(word)]:
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
