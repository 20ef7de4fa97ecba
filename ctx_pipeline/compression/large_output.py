"""Outputs too large to be kept: the first and the last part, and of the middle the lines that first tell of a failure."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from ctx_pipeline.compression.failure_lines import wrong
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HALF = 8 << 20
"""Bytes of the beginning and of the end of an output that are kept."""

MOST_NOTED, _MOST_LOOKED = 20, 2_000
"""Lines of a middle that are noted, each once whatever its numbers, and those that tell of a failure after which no more are looked for."""

_LONGEST_LINE, _LONGEST_NOTE = 1 << 16, 400
_MAY_TELL = (
    *("error", "fail", "fatal", "panic", "exception", "traceback", "assert", "denied", "refused", "cannot", "could not", "unable"),
    *("unexpected", "not found", "no such", "conflict", "rejected", "abort", "timed out", "timeout", "killed", "backoff", "not ok"),
    *("http/", "http 4", "http 5", "status"),
)
"""What stands in a line that is noted, in lower case: a text without any is passed over at once."""

_WARNS = lazy_pattern(r"(?i)\bwarn(?:ing)?s?\b|\bmissing\b|(?<=\w)Warning\b")


class Middle:
    """What stands between the first and the last part of an output: its lines counted, the first failures noted."""

    def __init__(self, first: int) -> None:
        self.first = first
        """number of its first line, counted from 1"""
        self.lines = 0
        self.size = 0
        self.noted: list[tuple[int, str]] = []
        """number and text of lines that tell of a failure"""
        self._forms: set[str] = set()
        self._looked = 0
        self._rest = b""

    def add(self, data: bytes) -> None:
        """Look at what follows; a line that has not ended is held, of a very long one some characters at a time."""
        self.size += len(data)
        ended, newline, rest = (self._rest + data).rpartition(b"\n")
        self._look(ended)
        self.lines += ended.count(b"\n") + len(newline)
        self._rest = rest
        if len(rest) > _LONGEST_LINE:
            self.close()

    def close(self) -> None:
        """Look at what has not ended."""
        self._look(self._rest)
        self._rest = b""

    def _look(self, data: bytes) -> None:
        if len(self.noted) >= MOST_NOTED or self._looked >= _MOST_LOOKED:
            return
        text = data.decode("utf-8", "replace")
        if not _place(text):
            return
        for number, line in enumerate(text.split("\n"), self.first + self.lines):
            hit = _place(line)
            if not hit or not wrong(line) or not wrong(_WARNS.sub("", line)):
                continue
            self._looked += 1
            form = re.sub(r"\d+", "0", line[:_LONGEST_NOTE])
            if form not in self._forms and len(self.noted) < MOST_NOTED:
                self._forms.add(form)
                begin = max(0, hit - _LONGEST_NOTE // 2) if len(line) > _LONGEST_NOTE else 0
                self.noted.append((number, line[begin : begin + _LONGEST_NOTE]))

    def note(self, clean: Callable[[str], str] = str) -> str:
        """Return what stands for the middle: its size, its lines, and those that were noted, each made ``clean``."""
        last = max(self.first, self.first + self.lines - 1)
        told = f"[{self.size:,} bytes in the middle of this output, lines {self.first} to {last}, are neither shown nor kept"
        noted = [f" {number}: {clean(line).strip()}" for number, line in self.noted]
        return "\n".join([f"{told}; of these first tell of a failure:]", *noted]) if noted else f"{told}]"

    def extent(self, lines: int) -> str:
        """Return how much is kept, beside the middle, of an output of which ``lines`` are."""
        if not self.lines:
            return f"all but {self.size:,} bytes of {lines} lines"
        return f"first {self.first - 1} and last {lines - self.first + 1} of {lines + self.lines} lines"


def _place(text: str) -> int:
    """Return where a text may tell of a failure, counted from 1; 0 where it does not."""
    low = text.lower()
    return next((low.find(word) + 1 for word in _MAY_TELL if word in low), 0)


def bounded(pieces: Iterable[bytes], half: int = HALF) -> tuple[bytes, Middle | None]:
    """Return all of an output; of more than twice ``half`` bytes the first and the last part, cut between lines, and the middle."""
    head, tail = bytearray(), deque[bytes]()
    held = 0
    middle: Middle | None = None

    def left_out(piece: bytes) -> None:
        nonlocal middle
        if middle is None:
            end = head.rfind(b"\n", max(0, len(head) - _LONGEST_LINE)) + 1 or len(head)
            middle = Middle(head.count(b"\n", 0, end) + 1)
            middle.add(bytes(head[end:]))
            del head[end:]
        middle.add(piece)

    for piece in pieces:
        room = max(0, half - len(head)) if middle is None else 0
        head += piece[:room]
        tail.append(piece[room:])
        held += len(tail[-1])
        while held - len(tail[0]) >= half:
            held -= len(tail[0])
            left_out(tail.popleft())
    kept = b"".join(tail)
    tail.clear()
    if middle is not None or len(kept) > half:
        end = max(0, len(kept) - half)
        end = kept.find(b"\n", end, end + _LONGEST_LINE) + 1 or end
        left_out(kept[:end])
        kept = kept[end:]
    if middle is not None:
        middle.close()
    return b"".join((head, kept)), middle
