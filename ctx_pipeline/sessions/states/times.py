"""The times of rows, be they integers or datetimes."""

from __future__ import annotations

from typing import Any

from ctx_pipeline.model.codec import iso


def micros(ts: Any) -> int:
    """Return a time as microseconds since 1970; 0 for none."""
    if ts is None or isinstance(ts, int):
        return ts or 0
    # of 80 ms, which a hook does not have; the rows that it reads hold integers
    from ctx_pipeline.context.recorded import micros as of_datetime

    return of_datetime(ts) or 0


def written(ts: Any) -> str | None:
    """Return a time as states write it; None for none."""
    return iso(micros(ts)) if ts is not None else None
