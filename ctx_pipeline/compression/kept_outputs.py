"""Whole texts behind what was told in fewer words: kept in the store under a handle for some days, read again in parts."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.errors import UnknownName, UsageError
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

FOLDER = "outputs"
DAYS = 7
MOST_BYTES = 64 << 20
"""Bytes of all kept texts; the oldest go."""

PART = 12_000
"""Characters of a part that is read again."""

_HANDLE = lazy_pattern(r"[0-9a-f]{12}")
_TTL = "LEAN_CTX_CACHE_TTL"


class Part(NamedTuple):
    """Lines of a kept text, from ``first`` to ``last`` of ``lines``, counted from 1."""

    text: str
    first: int
    last: int
    lines: int
    more: int = 0
    """the line to read on from; 0 at the end"""
    hits: int = 0
    """lines with the word that was looked for"""


def redacted(text: str, settings: Settings) -> str:
    """Return a text as it may be kept and told: secrets are replaced."""
    redactor = Redactor(settings.patterns)
    return text if redactor.clears(text) else redactor.redact(text)


def handle_of(text: str) -> str:
    """Return the handle of a text: a text cannot hold its own."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def keep(text: str, settings: Settings) -> str:
    """Keep a text (0600) and return its handle; older ones beyond age and room go."""
    import zstandard

    files = Files(settings.home)
    files.folder(settings.home)
    handle = handle_of(text)
    files.write(f"{FOLDER}/{handle}.zst", zstandard.compress(text.encode("utf-8", "surrogatepass"), 3))
    _prune(settings, handle)
    return handle


def seconds(settings: Settings) -> float:
    """Return how long a text is kept, in seconds: seven days, or as ``LEAN_CTX_CACHE_TTL`` says."""
    said = settings.environ.get(_TTL, "")
    return float(said) if said.isdecimal() and int(said) > 0 else DAYS * 86_400.0


def _prune(settings: Settings, newest: str) -> None:
    folder = settings.home / FOLDER
    found = sorted(((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(folder)), reverse=True)
    room, oldest = MOST_BYTES, time.time() - seconds(settings)
    for at, size, path in found:
        room -= size
        if (room < 0 or at < oldest) and newest not in path:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - a path of scandir


def recall(
    handle: str, settings: Settings, *, first: int = 1, last: int | None = None, pattern: str | None = None, context: int = 3
) -> Part:
    """Return lines of a kept text: from ``first`` to ``last`` (from 1), as far as a part holds, of them those around a word.

    ``pattern`` is plain text, found in any case; lines left out between those around it are
    counted. Raises UnknownName for a handle that is not kept (any more), UsageError for lines that are not there.
    """
    import zstandard

    files = Files(settings.home)
    rel = f"{FOLDER}/{handle}.zst"
    if not _HANDLE.fullmatch(handle) or not files.exists(rel) or (settings.home / rel).stat().st_mtime < time.time() - seconds(settings):
        raise UnknownName("output", handle[:40], (), hint=_handles_kept(settings))
    text = zstandard.decompress(files.read(rel)).decode("utf-8", "surrogatepass")
    lines = text.split("\n")
    if text.endswith("\n"):
        lines.pop()
    if first < 1 or first > len(lines):
        raise UsageError(f"the output has lines 1 to {len(lines)}", hint="name one of them")
    if last is not None and last < first:
        raise UsageError(f"the last line, {last}, is before the first one, {first}", hint="give them in their order")
    if pattern:
        return _around(lines, pattern.lower(), context, first - 1, min(last or len(lines), len(lines)))
    chosen = lines[first - 1 : last or len(lines)]
    size = kept = 0
    for line in chosen:
        size += len(line) + 1
        if kept and size > PART:
            break
        kept += 1
    told = "\n".join(chosen[:kept])
    if len(told) > 4 * PART:
        told = f"{told[: 4 * PART]}\n[{len(told) - 4 * PART:,} characters more: ask for a word in them]"
    end = first + kept - 1
    return Part(told + "\n" * (end == len(lines) and text.endswith("\n")), first, end, len(lines), end + 1 if kept < len(chosen) else 0)


def _handles_kept(settings: Settings) -> str:
    """Return which outputs are kept, the newest first."""
    with suppress(FileNotFoundError):
        found = [(e.stat().st_mtime, e.name[:-4]) for e in os.scandir(settings.home / FOLDER) if e.name.endswith(".zst")]
        found = [(at, name) for at, name in found if at >= time.time() - seconds(settings)]
        if found:
            named = [name for _, name in sorted(found, reverse=True)]
            more = f" and {len(named) - 5} older" if len(named) > 5 else ""
            return f"kept, the newest first: {', '.join(named[:5])}{more}"
    return "no output is kept now"


_WIDE = 400


def _surroundings(line: str, word: str) -> str:
    """Return a line, of a long one what stands around a word of it."""
    if len(line) <= _WIDE:
        return line
    begin = max(0, line.lower().find(word) - _WIDE // 2)
    end = begin + _WIDE
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


def _around(lines: list[str], word: str, context: int, begin: int, end: int) -> Part:
    """Return the lines around a word between two places, and how many are left out between them."""
    hits = [n for n in range(begin, end) if word in lines[n].lower()]
    places = sorted({n for hit in hits for n in range(max(begin, hit - context), min(end, hit + context + 1))})
    found: list[str] = []
    size, last = 0, -1
    for n in places:
        told = f"{n + 1}: {_surroundings(lines[n], word)}"
        size += len(told) + 1
        if found and size > PART:
            return Part("\n".join(found), places[0] + 1, last + 1, len(lines), n + 1, len(hits))
        if found and (gap := n - last - 1):
            found.append(f"[{gap} line{'s' * (gap > 1)}]")
        found.append(told)
        last = n
    return Part("\n".join(found), places[0] + 1 if places else 0, last + 1, len(lines), 0, len(hits))
