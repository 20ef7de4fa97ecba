"""Text behind base64, and keys that a line break parts, as they read; each place known in the original."""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.redaction.detectors import DETECTORS, entropy
from ctx_pipeline.redaction.shapes import ALNUM
from ctx_pipeline.redaction.views import View

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

SHAPE = 3
"""Raised when other texts are seen through."""

_WORDS = (b"http://", b"https://", b"postgres", b"mysql://", b"redis:", b"amqp:", b"mongodb")
_LEAST_WORD, _LEAST_SIGN = 3, 4
_LEAST_RUN = 20
_AROUND = 6_000
"""Characters of base64 on either side of a telling word that are read."""

_MUCH = 4_000_000
"""Bytes that this process reads before the fast machine is worth its building."""
_READ = [0]

_SHORT = 4_000
"""Bytes up to which a text is looked at without a machine, until the process has read so many such bytes in all."""
_LITTLE = 100_000
_TRIED = [0]

_RUN = lazy_pattern(rb"[A-Za-z0-9+/]*+={0,2}")
_LEAST = lazy_pattern(rb"[A-Za-z0-9+/]{%d}" % (_LEAST_RUN - 2))
_LETTERS = ALNUM.encode() + b"+/"
_UNPRINTED = lazy_pattern(rb"[^\t\n\r -~\x80-\xff]")

_NEXT_GROUPS = 8
_TEXT = lazy_pattern(
    rb"[\x80-\xbf]{0,3}+(?:[\t\n\r -~]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})*+"
    rb"(?:[\xc2-\xf4][\x80-\xbf]{0,2})?"
)
"""Text in UTF-8, also one that begins or ends inside a letter."""

_KEY = rb"[A-Za-z0-9_.+/=%~$:,-]"
_PARTED = lazy_pattern(_KEY + rb"{5,400}+(?:\r?\n" + _KEY + rb"{4,400}+){1,6}")
_FEED = lazy_pattern(rb"(?<=" + _KEY + rb"{4})\r?\n(?=" + _KEY + rb"{4})")
_FIGURES = lazy_pattern(rb"[0-9][^0-9]*[0-9]")
_RISE = lazy_pattern(rb"(?=[a-z0-9][A-Z])")
_LEAST_RISES = 3
_LEAST_REST, _LEAST_DRAWN = 8, 2.5
"""Bytes, and bits a byte, of what the next line adds to a key that is whole without it."""


Span = tuple[int, int]

_BESIDE = 80
"""Bytes on either side of a sign in which a line break is looked for."""


@cache
def signs() -> dict[bytes, int]:
    """Return what the literals of all detectors look like in base64 -> how far its group begins before it."""
    found: dict[bytes, int] = {}
    for literal in {*_WORDS, *(literal for detector in DETECTORS for literal in detector.literals if len(literal) >= _LEAST_WORD)}:
        for offset, skipped in ((0, 0), (1, 2), (2, 3)):
            sign = base64.b64encode(bytes(offset) + literal)[skipped : (offset + len(literal)) * 4 // 3]
            if len(sign) >= _LEAST_SIGN:
                found.setdefault(sign, skipped)
            else:
                found.update((longer, at) for longer, at in _lengthened(literal, offset) if longer not in found)
    return found


def _lengthened(literal: bytes, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield what a literal of three letters looks like in base64 with each letter that two unknown bits beside it allow."""
    for bits in range(4):
        if offset == 1:
            yield base64.b64encode(bytes((bits, *literal)))[1:5], 1
        else:
            yield base64.b64encode(bytes((0, 0, *literal, bits << 6)))[3:7], 3


@cache
def _beginnings() -> frozenset[bytes]:
    return frozenset(sign[:_LEAST_SIGN] for sign in signs())


@cache
def _machine(*, fast: bool) -> tuple[Any, tuple[int, ...]]:
    """Return the machine of these signs, and how far each group begins before it; the fast one takes four times as long to build."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    kind = Implementation.DFA if fast else Implementation.ContiguousNFA
    return BytesAhoCorasick(list(signs()), implementation=kind), tuple(signs().values())


def packed(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans of base64 in which a telling word stands, ascending; each begins at a group of four."""
    if len(data) <= _SHORT:
        if _LEAST.search(data) is None:
            return
        if _TRIED[0] < _LITTLE and not _machine.cache_info().currsize:
            _TRIED[0] += len(data)
            beginnings = _beginnings()
            if not any(data[at : at + _LEAST_SIGN] in beginnings for at in range(len(data))):
                return
    _READ[0] += len(data)
    machine, skipped = _machine(fast=_READ[0] > _MUCH)
    hits = machine.find_matches_as_indexes(data, overlapping=True)
    yield from spans(data, (start - skipped[index] for index, start, _ in hits))


def spans(data: bytes, begins: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the spans of base64 in which groups of four begin at which a sign was found, ascending."""
    done = 0
    for begin in begins:
        if begin < done or not _goes_on(data, begin + 4):
            continue
        low = max(done, begin - _AROUND)
        left = begin - ((begin - low - len(data[low:begin].rstrip(_LETTERS))) // 4) * 4
        run = _RUN.match(data, begin, begin + _AROUND)
        end = run.end() if run else begin
        if end - left >= _LEAST_RUN:
            yield left, end
            done = end


def _goes_on(data: bytes, start: int) -> bool:
    """Tell whether the groups at a place hold text: a sign of four letters is also found in words and in ids."""
    run = _RUN.match(data, start, start + _NEXT_GROUPS)
    whole = run[0].rstrip(b"=") if run else b""
    return _TEXT.fullmatch(base64.b64decode(whole[: len(whole) // 4 * 4])) is not None


def readings(data: bytes) -> Iterator[View]:
    """Yield the text with what stands in base64 in its place; nothing where there is none."""
    runs = [(start, end, text) for start, end in packed(data) if (text := _text(data[start:end]))]
    if runs:
        yield _view(data, runs)


def _text(run: bytes) -> bytes:
    """Return what base64 holds, empty where it is no text."""
    whole = run[: len(run) // 4 * 4] if not run.endswith(b"=") else run
    try:
        text = base64.b64decode(whole + b"=" * (-len(whole) % 4))
    except ValueError:
        return b""
    return text if len(_UNPRINTED.findall(text)) * 20 <= len(text) else b""


def _view(data: bytes, runs: list[tuple[int, int, bytes]]) -> View:
    parts: list[bytes] = []
    at: list[int] = []
    pieces: list[tuple[int, int, bool]] = []
    joins: list[int] = []
    done = length = 0
    for start, end, text in runs:
        if start > done:
            parts.append(data[done:start])
            at.append(length)
            pieces.append((done, start, True))
            length += start - done
        joins.append(length)
        for group in range(0, len(text), 3):
            first = start + group // 3 * 4
            at.append(length + group)
            pieces.append((first, min(first + 4, end), False))
        parts.append(text)
        length += len(text)
        joins.append(length)
        done = end
    if done < len(data):
        parts.append(data[done:])
        at.append(length)
        pieces.append((done, len(data), True))
    return View(b"".join(parts), tuple(joins), tuple(at), tuple(pieces))


def parted(pattern: re.Pattern[bytes], data: bytes, start: int, end: int) -> list[Span]:
    """Return the line breaks inside a key that begins at a place; none where it is whole, or none.

    A key that is whole without its next line is taken to go on there only where the pattern does and what
    is added looks drawn: keys are also written one a line.
    """
    run = _PARTED.match(data, start, end)
    if run is None or _FIGURES.search(run[0]) is None:
        return []
    feeds = [feed.span() for feed in _FEED.finditer(data, run.start(), run.end())]
    found: list[Span] = []
    reached = 0
    own = pattern.match(data, start, end)
    if own is not None and feeds:
        if own.end() != feeds[0][0]:
            return []
        reached = own.end() - start
    for count, feed in enumerate(feeds, 1):
        after = feeds[count][0] if count < len(feeds) else run.end()
        before = sum(stop - begin for begin, stop in feeds[: count - 1])
        joined = _without(data[start:after], [(begin - start, stop - start) for begin, stop in feeds[:count]])
        match = pattern.match(joined)
        if match is None:
            if reached:
                break
            continue
        rest = joined[feed[0] - start - before : match.end()]
        if len(rest) < (_LEAST_REST if reached else 1) or (reached and not _drawn(rest)):
            break
        found, reached = feeds[:count], match.end()
        if match.end() < len(joined):
            break
    return found


def parted_around(pattern: re.Pattern[bytes], data: bytes, start: int, end: int, back: int) -> list[Span]:
    """Return the line break inside a key of which only a sign in its middle is known, that stands at a place."""
    low, high = max(0, start - back - _BESIDE), min(end, start + _BESIDE)
    for feed in _FEED.finditer(data, low, high):
        place = feed.start() - low
        match = pattern.search(_without(data[low:high], [(place, feed.end() - low)]))
        if match is not None and match.start() < place < match.end():
            return [feed.span()]
    return []


def _drawn(rest: bytes) -> bool:
    written = _FIGURES.search(rest) is None and len(_RISE.findall(rest)) < _LEAST_RISES
    return not written and entropy(rest) >= _LEAST_DRAWN


def _without(data: bytes, spans: Iterable[Span]) -> bytes:
    parts = []
    done = 0
    for start, end in spans:
        parts.append(data[done:start])
        done = end
    return b"".join((*parts, data[done:]))


def rejoined(data: bytes, found: Iterable[Span]) -> View:
    """Return the text without these line breaks."""
    feeds = sorted({*found})
    parts: list[bytes] = []
    at: list[int] = []
    pieces: list[tuple[int, int, bool]] = []
    done = length = 0
    for start, end in [*feeds, (len(data), len(data))]:
        if start > done:
            parts.append(data[done:start])
            at.append(length)
            pieces.append((done, start, True))
            length += start - done
        done = end
    return View(b"".join(parts), (), tuple(at), tuple(pieces))
