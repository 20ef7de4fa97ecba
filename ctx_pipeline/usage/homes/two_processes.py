"""Work on many files that two processes share, each half of the bytes."""

from __future__ import annotations

import marshal
import os
import threading
from typing import TYPE_CHECKING, TypeVar

from ctx_pipeline.model.process.gc_pause import without_collector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

_TWO = 64 << 20
"""Bytes from which two processes are faster than one."""


def in_two(todo: Sequence[T], sizes: Sequence[int], work: Callable[[list[T]], list[tuple]]) -> list[tuple]:
    """Return what ``work`` gives for each, as plain values; where their bytes are many, two processes work."""
    with without_collector():
        if sum(sizes) < _TWO or not hasattr(os, "fork") or threading.active_count() > 1:
            return work(list(todo))
        order = sorted(range(len(todo)), key=lambda n: -sizes[n])
        halves: tuple[list[int], list[int]] = ([], [])
        filled = [0, 0]
        for n in order:
            side = filled[1] < filled[0]
            halves[side].append(n)
            filled[side] += sizes[n]
        theirs, mine = halves
        pending = _apart(lambda: work([todo[n] for n in theirs]))
        done = dict(zip(mine, work([todo[n] for n in mine]), strict=True))
        others = pending()
        if others is None:
            others = work([todo[n] for n in theirs])
        done.update(zip(theirs, others, strict=True))
        return [done[n] for n in range(len(todo))]


def _apart(work: Callable[[], list[tuple]]) -> Callable[[], list[tuple] | None]:
    """Begin work in a forked process; return what waits for it and gives its result, None when the process failed."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(readable)
            with os.fdopen(writable, "wb") as pipe:
                marshal.dump(work(), pipe)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the parent does the work itself
            os._exit(1)
    os.close(writable)

    def result() -> list[tuple] | None:
        with os.fdopen(readable, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        if status:
            return None
        return marshal.loads(told)  # type: ignore[no-any-return]  # noqa: S302 - written by our own child

    return result
