"""What of an event is searched, and from a person's words to FTS5 expressions and snippets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SAID_CHARS = 16_384
DONE_CHARS = 8_192
"""Longest documents; what follows in a text is not searched."""

SAID = frozenset({"prompt", "injected", "answer", "reasoning", "title", "compaction"})
DONE = frozenset({"tool_call", "tool_result", "error", "todo"})
"""Event kinds that are searched, by column."""

_WORDS = 24
_TOKEN = re.compile(r"[^\W_]+")
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


def snippet(text: str, query: str, width: int = 240) -> str:
    """Return about ``width`` characters of the text around the first place where the query's words meet, on one line."""
    words = sorted({w.lower() for w in _TOKEN.findall(query)} - _STOP, key=len, reverse=True) or _TOKEN.findall(query.lower())
    lowered = text.lower()
    places = [p for p in (lowered.find(query.strip().lower()), *(lowered.find(w) for w in words)) if p >= 0]
    start = max(0, (places[0] if places else 0) - width // 3)
    end = min(len(text), start + width)
    piece = " ".join(text[start:end].split())
    return ("…" if start else "") + piece + ("…" if end < len(text) else "")


def matches(text: str) -> Iterator[str]:
    """Yield FTS5 expressions from strict to loose; none for a text without a word."""
    words = [w for w in (" ".join(_TOKEN.findall(part)) for part in text[:2000].split()) if w][:_WORDS]
    if not words:
        return
    yield f'"{" ".join(words)}"'
    if len(words) > 1:
        yield " AND ".join(f'"{w}"' for w in words)
    tokens = list(dict.fromkeys(t.lower() for w in words for t in w.split()))
    telling = [t for t in tokens if t not in _STOP] or tokens
    if len(tokens) > 1:
        yield " AND ".join(f'"{t}"' for t in telling)
        yield " OR ".join(f'"{t}"' for t in telling)
        yield " OR ".join(f'"{t}"' for t in tokens)
    yield " OR ".join(f'"{t}" *' for t in telling)
