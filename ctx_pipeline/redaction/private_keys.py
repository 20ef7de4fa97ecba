"""Private keys as text holds them: whole, cut, or a line at a time behind numbers, marks and quotes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.redaction.shapes import ALNUM, Detector, Planted, letters

if TYPE_CHECKING:
    import random

_LONGEST = 40_000
_GAP = 1_000
"""Bytes between two lines of a key: a line number, a path, a quote."""
_BREAKS = 24
"""Line breaks between two lines of a key, for its headers and for what stands around lines in JSON."""

_NAME = rb"[ +](?:[A-Z0-9]{1,12}[ +]){0,3}PRIVATE[ +]KEY(?:[ +]BLOCK)? ?-{4,5}"
_BEGIN = rb"-{4,5} ?BEGIN" + _NAME + rb"|Private-Lines: ?[0-9]{1,4}(?![0-9])"
_END = rb"-{4,5} ?END" + _NAME + rb"|Private-MAC: ?[0-9a-f]{40,64}"
_PATTERN = rb"(?P<begin>" + _BEGIN + rb")|(?:" + _END + rb")"
_MARKED = re.compile(_PATTERN)
_ENDED = re.compile(rb"-{0,2}(?:" + _END + rb")")
_STOP = re.compile(rb"----|Private-(?:MAC|Lines):")
_RUN = re.compile(rb"[A-Za-z0-9+/=]{32,}")
_DRAWN = re.compile(rb"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])")
_BASE64 = ALNUM.encode() + b"+/="
_FIGURES = re.compile(rb"[0-9]+")


def marked(data: bytes) -> bool:
    """Tell whether the first or last line of a private key stands in a text."""
    return _MARKED.search(data) is not None


def around(data: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    """Return the span of the key whose first or last line was matched, None where no key stands there."""
    return _from_begin(data, match) if match["begin"] else _to_end(data, match)


def _material(run: re.Match[bytes]) -> bool:
    """Tell a line of a key from a path and a checksum."""
    text = run[0]
    return text.count(b"/") * 6 <= len(text) and _DRAWN.match(text) is not None


def _from_begin(data: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    known = at = match.end()
    most = at + _LONGEST
    last = None
    while at < most:
        stop = _STOP.search(data, at, known + _GAP)
        run = _RUN.search(data, at, stop.start() if stop else known + _GAP + 32)
        if run is None or data.count(b"\n", known, run.start()) > _BREAKS:
            break
        run = _RUN.match(data, run.start()) or run
        at = run.end()
        if _material(run):
            known, last = at, run
    stop = _STOP.search(data, known, most)
    ended = _ENDED.match(data, stop.start()) if stop else None
    if ended and (last or _RUN.search(data, match.end(), ended.start())):
        return match.start(), ended.end()
    return (match.start(), _cut(data, last)) if last else None


def _cut(data: bytes, last: re.Match[bytes]) -> int:
    """Return where a key ends that has no last line: a short line that stands as the last whole one does belongs to it."""
    lead = data[data.rfind(b"\n", max(0, last.start() - _GAP), last.start()) + 1 : last.start()]
    end = at = last.end()
    for _ in range(_BREAKS // 4):
        feed = data.find(b"\n", at, at + _GAP) + 1
        if not feed:
            break
        after = data.find(b"\n", feed, feed + _GAP)
        at = after if after >= 0 else min(len(data), feed + _GAP)
        line = data[feed:at].rstrip(b"\"',;\\ \t\r")
        before = line.rstrip(_BASE64)
        if len(before) < len(line) and _FIGURES.sub(b"0", before) == _FIGURES.sub(b"0", lead):
            end = feed + len(line)
            break
    return end if lead else len(data) - len(data[end:].lstrip())


def _to_end(data: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    low = max(0, match.start() - _LONGEST)
    low = max(low, data.rfind(b"----", low, match.start()) + 4)
    at, first = match.start(), None
    for run in reversed([*_RUN.finditer(data, low, match.start())]):
        if at - run.end() > _GAP or data.count(b"\n", run.end(), at) > _BREAKS:
            break
        at = run.start()
        if _material(run):
            first = run
    if first is None:
        return None
    mark = first[0][:1] == b"+" and len(first[0]) % 4 == 1
    return first.start() + mark, match.end()


def _plant(rng: random.Random) -> Planted:
    lines = "\n".join(letters(rng, ALNUM + "+/", 64) for _ in range(4))
    secret = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"
    return Planted(f"cat id_rsa\n{secret}\n", secret)


PRIVATE_KEY = Detector(
    "private-key",
    "private key (PEM, OpenSSH, PGP, PuTTY, also of a Google service account), the whole block or what is there of it",
    (b"-----BEGIN", b"---- BEGIN", b"-----END", b"---- END", b"Private-Lines:", b"Private-MAC:"),
    _PATTERN,
    _plant,
    around=around,
)
