"""Reads of what had been read before in the same window, and whether there was a reason."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.facts.file_accesses import CHANGES, READ, accesses_by_call
from ctx_pipeline.signals.inputs.timeline import timelines

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

AFTER_COMPACTION, AFTER_EDIT, NO_REASON = "after a compaction", "after an edit", "without reason"
_END = 10**9
_AGAIN = 0.5
"""Part of the lines of a read that an earlier one must have shown for it to be a read again."""

_Span = tuple[int, int]


class Reread(NamedTuple):
    """One file that was read again."""

    path: str
    reason: str
    event: str
    """of the call that read it again"""
    tokens: float
    """billed tokens of what came back; 0 where no call followed"""


def rereads(view: SessionView) -> list[Reread]:
    """Return the reads again of a session, thread by thread: each thread is a window of its own.

    A read counts when an earlier one in the thread showed at least half of its lines.
    Reads and changes through the shell count as far as their words name files and lines;
    failed calls neither read nor change.
    """
    sizes = {r.call_event: size for line in view.once(timelines) for r, size in zip(line.results, line.sizes, strict=True)}
    compacted: dict[str, list[int]] = {}
    for event in view.of_kinds("compaction"):
        compacted.setdefault(event.thread_id, []).append(event.seq)
    threads: dict[str, _Window] = {}
    found: list[Reread] = []
    for event, accesses in view.once(accesses_by_call).items():
        first = accesses[0]
        window = threads.get(first.thread_id)
        if window is None:
            window = threads[first.thread_id] = _Window(compacted.get(first.thread_id, []))
        shown = [a for a in accesses if a.did == READ and a.told]
        for access in shown:
            reason = window.reason(access.path, _spans(access.lines), first.seq)
            if reason:
                found.append(Reread(access.path, reason, event, sizes.get(event, 0.0) / len(shown)))
        for access in accesses:
            if access.did in CHANGES:
                window.edited[access.path] = first.seq
    return found


class _Window:
    """What one thread has read and changed so far."""

    def __init__(self, compacted: list[int]) -> None:
        self._compacted = compacted
        self._read: dict[str, list[tuple[int, list[_Span]]]] = {}
        self.edited: dict[str, int] = {}

    def reason(self, path: str, spans: list[_Span], seq: int) -> str | None:
        """Note a read and return why it repeats an earlier one; None where it does not."""
        earlier = self._read.setdefault(path, [])
        last = next((at for at, known in reversed(earlier) if _covered(spans, known) >= _AGAIN), None)
        earlier.append((seq, spans))
        if last is None:
            return None
        if bisect_right(self._compacted, seq) > bisect_right(self._compacted, last):
            return AFTER_COMPACTION
        return AFTER_EDIT if self.edited.get(path, -1) >= last else NO_REASON


def _spans(text: str) -> list[_Span]:
    """Return ranges of lines as pairs; the whole file where none is told."""
    found = []
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or (dash and not last)):
            found.append((int(first), int(last) if last else _END))
    return found or [(1, _END)]


def _covered(new: list[_Span], old: list[_Span]) -> float:
    """Return the part of the new lines that are among the old ones."""
    size = sum(last - first + 1 for first, last in new)
    both = sum(max(0, min(last, b) - max(first, a) + 1) for first, last in new for a, b in old)
    return both / size if size > 0 else 0.0
