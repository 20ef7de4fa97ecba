"""Lines of shared files (prompt histories, indexes) that speak of forgotten sessions, found and blanked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    Span = tuple[int, int]

_LEAST_PROMPT = 12
"""A shorter prompt ("yes", "go on") says nothing of whose it is."""
_PROMPT_HEAD = 80


@dataclass(frozen=True, slots=True)
class Needles:
    """What a line must contain to be about a forgotten session."""

    ids: frozenset[str]
    texts: tuple[bytes, ...]

    @classmethod
    def of(cls, sessions: Iterable[tuple[str, str]], threads: Iterable[str], prompts: Iterable[str], text: str | None) -> Needles:
        """Return the ids, the typed prompts and the text to look for."""
        ids = frozenset({session for _, session in sessions} | set(threads))
        texts: dict[bytes, None] = {}
        for spelling in (*(i for i in sorted(ids) if len(i) >= 8), *(p[:_PROMPT_HEAD] for p in prompts if len(p) >= _LEAST_PROMPT)):
            texts.update(dict.fromkeys(spellings(spelling)))
        if text:
            texts.update(dict.fromkeys(spellings(text)))
        return cls(ids, tuple(texts))

    def about(self, thread_id: str, value: str) -> bool:
        """Tell whether a fact is one of a forgotten thread, or says what was forgotten."""
        return thread_id in self.ids or self.found(value.encode("utf-8", "surrogatepass"))

    def found(self, data: bytes) -> bool:
        """Tell whether bytes contain one of the texts."""
        return any(text in data for text in self.texts)


def spellings(text: str) -> tuple[bytes, ...]:
    """Return the bytes of a text as it stands, and as JSON writes it with and without ASCII escapes."""
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return tuple(dict.fromkeys(form.encode("utf-8", "surrogatepass") for form in forms if form))


def lines_about(data: bytes, needles: Needles) -> list[Span]:
    """Return the lines that contain a needle, without their breaks; all of the data for a needle that spans lines."""
    if not needles.found(data):
        return []
    return [span for span in _lines(data) if needles.found(data[slice(*span)])] or [(0, len(data))]


def lines_like(data: bytes, hashes: Collection[str]) -> list[Span]:
    """Return the lines whose hash is one of these, without their breaks."""
    return [span for span in _lines(data) if line_hash(data[slice(*span)]) in hashes]


def line_hash(line: bytes) -> str:
    """Return the name of a line in the journal: it cannot be read back."""
    return hashlib.sha256(line).hexdigest()


def blank(data: bytes, spans: Iterable[Span]) -> bytes:
    """Return the data with spaces in these places: as long as before, so every byte range still means the same."""
    out = bytearray(data)
    for start, end in spans:
        out[start:end] = b" " * len(data[start:end])
    return bytes(out)


def _lines(data: bytes) -> Iterator[Span]:
    at = 0
    for line in data.splitlines(keepends=True):
        body = len(line.rstrip(b"\r\n"))
        if body:
            yield at, at + body
        at += len(line)
