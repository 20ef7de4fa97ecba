"""What of an event is searched, and from a person's words to FTS5 expressions."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

SAID_CHARS = 16_384
DONE_CHARS = 8_192
"""Longest documents; what follows in a text is not searched, but for paths in a tool call."""

SAID = frozenset({"prompt", "injected", "answer", "reasoning", "title", "compaction"})
DONE = frozenset({"tool_call", "tool_result", "error", "todo"})
"""Event kinds that are searched, by column."""

WORDS = 24
"""Most words of a question that are looked for."""

CHARS = 2_000
"""Characters of a question that are looked at."""
_TOKEN = lazy_pattern(r"[^\W_]+")
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
"""Letters of scripts in which words are not set apart by spaces (Han, Kana) or not from what is added to them (Hangul)."""

SIGN = lazy_pattern(f"[{UNSPACED}]")
_LEADS = bytes((*range(0xE3, 0xEE), 0xEF, 0xF0))
"""First bytes that these letters have in UTF-8."""
_RUN = lazy_pattern(f"[{UNSPACED}]+|[^{UNSPACED}]+")
_BLANKS = lazy_pattern(r"\\[\\nrt]")
"""Escapes of JSON that part words."""

_ESCAPED = lazy_pattern(r"\\u([0-9a-fA-F]{4})")
QUOTING = lazy_pattern(r"[\[{]\s*[\"'\[{]|(?:const|let|var|await) |text\(")
"""What JSON begins with, unlike a log (``[INFO]``), or a script that a tool ran: a sign behind a backslash is no part of a word there."""
_PATH = lazy_pattern(r"(?<![\w.@~/-])[\w.@~-]*(?:/[\w.@-]+)+")
_LOOKED = 1_000_000
_PATHS_CHARS = 4_096
"""Paths beyond the first part of a long tool call: how far they are looked for, and characters of them that are searched."""

_CUT_OFF = lazy_pattern(r"(?i)(?<=\w)['\u2019](t|m|d|ll|re|ve)\b")
"""What an apostrophe cuts off a word: a token in the index that says nothing; an s is so common that it weighs nothing anyway."""

STOP = frozenset(
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

    Arguments of a tool call, scripts that one ran and JSON that one printed are read as what they stand for (``a\nb`` is
    two words). Signs of Han, Kana and Hangul are words of their own, so that a word is found inside a run of them.
    """
    found: list[tuple[int, str | None, str | None]] = []
    for row, (kind, text) in enumerate(zip(kinds, texts, strict=True), first):
        if not text:
            continue
        if kind in SAID:
            told = text[:SAID_CHARS]
            found.append((row, told if told.isascii() else _spaced(told), None))
        elif kind in DONE:
            told = _arguments(text) if kind == "tool_call" else _meant(text[:DONE_CHARS])
            found.append((row, None, told if told.isascii() else _spaced(told)))
    return found


def _arguments(text: str) -> str:
    """Return what is searched of a tool call: its first characters without escapes, and paths named later."""
    told = text[:DONE_CHARS]
    if len(text) > DONE_CHARS:
        later = dict.fromkeys(_PATH.findall(text, DONE_CHARS - 200, _LOOKED))
        told = f"{told} {' '.join(later)[:_PATHS_CHARS]}"
    return _meant(told)


def _meant(told: str) -> str:
    if QUOTING.match(told) and "\\" in told:
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
    if len(raw) == len(raw.translate(None, _LEADS)) or SIGN.search(text) is None:
        return text
    return SIGN.sub(r" \g<0> ", text)


def _pieces(token: str) -> list[str]:
    """Return what is looked for of a token: itself, or every two signs of an unspaced script that follow on each other."""
    if token.isascii() or SIGN.search(token) is None:
        return [token]
    pieces = []
    for run in _RUN.findall(token):
        apart = SIGN.match(run) is not None and len(run) > 1
        pieces += [f"{a} {b}" for a, b in pairwise(run)] if apart else [run]
    return pieces


def with_words(text: str, others: Mapping[str, str]) -> str:
    """Return a text with other words in the place of some, which are in lower case and each what is looked for of a token."""
    return _TOKEN.sub(lambda token: "".join(others.get(run.lower(), run) for run in _RUN.findall(token[0])), text)


class Question(NamedTuple):
    """A text as FTS5 expressions from strict to loose; all empty for a text without a word."""

    tokens: tuple[str, ...] = ()
    """its words, in lower case, each once"""
    significant_terms: tuple[str, ...] = ()
    """those that are no stop words; all where there are only stop words"""
    phrase: str = ""
    every: str = ""
    some: str = ""
    any: str = ""
    beginnings: str = ""
    telling: int = 0
    """words that are no stop words, identifiers and paths as one word each"""
    identifiers: tuple[str, ...] = ()
    """names that its words may be in code: words that follow on each other written as one, and the words of one such name"""


def question(text: str) -> Question:
    """Return what to look for: the words in their order, all that tell something, any of these, any word, words that begin so.

    Of 2,000 characters and 24 words as many count at the beginning as at the end: what is pasted says at its end what went
    wrong. Nothing in a text is an operator.
    """
    text = text if len(text) <= CHARS else f"{text[: CHARS // 2]} {text[-CHARS // 2 :]}"
    every = [found for part in text.split() if (found := _TOKEN.findall(part))]
    runs = [every] if len(every) <= WORDS else [every[: WORDS // 2], every[-WORDS // 2 :]]
    parts = [part for run in runs for part in run]
    phrases = ['"{}"'.format(" ".join(" ".join(_spaced(" ".join(part)).split()) for part in run)) for run in runs]
    words = [" ".join(_spaced(" ".join(part)).split()) for part in parts]
    tokens = tuple(dict.fromkeys(piece.lower() for part in parts for token in part for piece in _pieces(token)))
    tokens = tokens if len(tokens) <= WORDS else (*tokens[: WORDS // 2], *tokens[-WORDS // 2 :])
    if not tokens:
        return Question()
    idle = STOP.union(cut.lower() for cut in _CUT_OFF.findall(text))
    significant_terms = tuple(t for t in tokens if t not in idle) or tokens
    whole = [w for w in words if not idle.issuperset(w.lower().split())] or words
    return Question(
        tokens,
        significant_terms,
        phrase=" AND ".join(phrases) if parts else "",
        every=" AND ".join(f'"{w}"' for w in whole),
        some=" OR ".join(f'"{t}"' for t in significant_terms),
        any=" OR ".join(f'"{t}"' for t in tokens),
        beginnings=" OR ".join(f'"{t}" *' for t in significant_terms),
        telling=len(dict.fromkeys(whole)),
        identifiers=_identifiers([token for part in parts for token in part], idle),
    )


JOINED = 4
"""Most words of a name in code that are looked for written as one: ``user prompt submit`` finds ``UserPromptSubmit``."""

_HUMP = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def _identifiers(tokens: Sequence[str], idle: Collection[str]) -> tuple[str, ...]:
    """Return telling words that follow on each other written as one (``user prompt``: ``userprompt``), and the words of ``userPrompt``."""
    told = [token.lower() if token.isascii() and token.isalpha() and token.lower() not in idle else "" for token in tokens]
    runs = (told[i : i + size] for i in range(len(told)) for size in range(2, JOINED + 1) if i + size <= len(told))
    apart = (_HUMP.findall(token) for token in tokens if token.isascii() and token.isalpha())
    found = ["".join(run) for run in runs if all(run)] + [" ".join(words).lower() for words in apart if len(words) > 1]
    return tuple(dict.fromkeys(found))[:WORDS]


def named(name: str) -> str:
    """Return the expression that finds rows in which a file name or path stands; empty where it has no letter or digit."""
    words = _spaced(" ".join(_TOKEN.findall(name[:1000]))).split()
    return f'done : "{" ".join(words)}"' if words else ""
