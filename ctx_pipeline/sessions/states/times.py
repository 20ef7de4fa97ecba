"""The times of rows, be they integers or datetimes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import OF_A_COPY, iso

if TYPE_CHECKING:
    from collections.abc import Sequence


def micros(ts: Any) -> int:
    """Return a time as microseconds since 1970; 0 for none."""
    if ts is None or isinstance(ts, int):
        return ts or 0
    # of 80 ms, which a hook does not have; the rows that it reads hold integers
    from ctx_pipeline.model.codec import row_micros as of_datetime

    return of_datetime(ts) or 0


def written(ts: Any) -> str | None:
    """Return a time as states write it; None for none."""
    return iso(micros(ts)) if ts is not None else None


def believable(events: Sequence[Any]) -> list[int | None]:
    """Return when each of a thread's events happened, as far as their times can be believed.

    None for an event without a time, with that of a copy, or with one before that of an
    event in front of it.
    """
    counted = Counter(e.ts for e in events if e.ts is not None)
    found: list[int | None] = []
    latest = 0
    for event in events:
        at = micros(event.ts) if event.ts is not None and counted[event.ts] < OF_A_COPY else 0
        found.append(at if at and at >= latest else None)
        latest = max(latest, at)
    return found
