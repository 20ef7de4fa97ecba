"""Time in which an agent worked: between records, but for pauses in which nothing ran."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAUSE_MINUTES = 30
"""Minutes without a record from which on a stretch is a pause, unless a tool ran in it: no provider answers so late."""

_PAUSE = PAUSE_MINUTES * 60 * 1_000_000
_QUICK = frozenset({"read", "edit", "write", "search", "web", "plan", "ask"})
"""Actions that take no half hour: such a call waited for the person to allow it or to answer."""

_MOST_SECONDS = {"read": 10, "edit": 10, "write": 10, "search": 30, "plan": 10, "ask": 0, "web": 120}
"""Seconds that a call of an action runs at most: what it takes longer is a wait for the person to allow or answer it."""

_BRIEF = 10_000_000
"""Microseconds up to which the limit of a command is not looked for."""

_AT_ONCE = 2_000_000
"""Microseconds in which an agent makes the calls of one answer."""

_LIMIT = lazy_pattern(r"\"timeout(?:_ms)?\"\s*:\s*(\d{1,12})(?![\d.])", re.ASCII)

Stretch = tuple[int, int]
"""Begin and end, in microseconds since 1970."""


def pauses(moments: Iterable[int], calls: Sequence[Any], texts: dict[str, str]) -> list[Stretch]:
    """Return the pauses between the times of records, in order.

    ``calls`` are rows of ``tool_calls``, ``texts`` their arguments by ``call_event``. A command
    runs no longer than the limit with which it was called, and half an hour without one.
    """
    return [
        (before, after)
        for before, after in pairwise(sorted(moments))
        if after - before > _PAUSE and not any(_ran(call, before, after, texts) for call in calls)
    ]


def may_cover(started: int, ended: int) -> bool:
    """Tell whether a call was open long enough that a pause could lie in it."""
    return ended - started > _PAUSE


def waited(view: Any, call: Any, *, refused: bool = False) -> int:
    """Return the microseconds for which an answered call waited for the person before it ran, as far as they are certain.

    That is what it took beyond what it can have run: nothing where the person refused it or was
    asked by it, a few seconds to read or change a file, for a command the limit with which it
    was called or, without one, that of its host. ``view`` holds the arguments of the call.
    """
    took = int(call.ended - call.started)
    if refused or call.tool in discovery.declared_texts("records.approval_tools"):
        return max(0, took)
    most = _MOST_SECONDS.get(call.action)
    host = discovery.hosts().get(view.host)
    if call.action == "shell" and took > _BRIEF and (most := (host.shell.limit_seconds if host else 0) or None):
        named = _LIMIT.search(view.call_text(call))
        most = int(named[1]) // 1_000 if named is not None else most
    return 0 if most is None else max(0, took - most * 1_000_000)


def queued(calls: Iterable[Any]) -> dict[str, int]:
    """Return ``call_event`` -> microseconds in which a call stood behind others of one answer that were answered before it."""
    found: dict[str, int] = {}
    timed = [call for call in calls if call.started is not None and call.ended is not None]
    together: list[Any] = []
    for call in [*sorted(timed, key=lambda call: (call.thread_id, call.started)), None]:
        first = together[0] if together else call
        if call is None or call.thread_id != first.thread_id or call.started - first.started > _AT_ONCE:
            until = 0
            for one in sorted(together, key=lambda one: int(one.ended)):
                found[one.call_event] = max(0, until - one.started)
                until = int(one.ended)
            together = []
        together.append(call)
    return found


def _ran(call: Any, before: int, after: int, texts: dict[str, str]) -> bool:
    """Tell whether a call was at work all the time between two records."""
    if call.action in _QUICK or call.started is None or call.ended is None or call.started > before or call.ended < after:
        return False
    if call.action != "shell":
        return True
    limit = _LIMIT.search(texts.get(call.call_event) or "")
    return limit is not None and int(limit[1]) * 1_000 >= after - before


def without(whole: Stretch, left_out: Iterable[Stretch]) -> list[Stretch]:
    """Return what is left of a stretch without others, which are in order and lie in it."""
    begin, end = whole
    found = []
    for first, last in left_out:
        found.append((begin, first))
        begin = last
    return [(first, last) for first, last in (*found, (begin, end)) if last > first]


def seconds(stretches: Iterable[Stretch]) -> float:
    """Return the seconds that lie in at least one stretch."""
    total, until = 0, None
    for begin, end in sorted(stretches):
        total += max(0, end - (begin if until is None else max(begin, until)))
        until = end if until is None else max(until, end)
    return total / 1e6


def written(stretches: Iterable[Stretch]) -> list[str]:
    """Return stretches as a table holds them: first-last."""
    return [f"{begin}-{end}" for begin, end in stretches]


def read(texts: Iterable[str] | None) -> list[Stretch]:
    """Return the stretches that a table holds."""
    return [(int(begin), int(end)) for begin, _, end in (text.rpartition("-") for text in texts or ())]
