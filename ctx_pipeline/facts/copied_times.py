"""Times that are not those of what happened: a copy stamps every record with the moment at which it was made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ctx_pipeline.model.codec import OF_A_COPY

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctx_pipeline.model.session_view import SessionView

_WRITES = 1_000
"""Microseconds of the clock with which hosts stamp records: a copy goes on into the next tick."""


def copied_times(view: SessionView) -> Collection[int]:
    """Return the times, in microseconds, at which a copy stamped records of a session anew; what happened then is not recorded.

    Those are moments that :data:`OF_A_COPY` records and more carry, up to the last of the
    ticks of the clock that follow each other there. Reads all kinds of events of the table ``turns``.
    """
    return view.once(_copied)


def _copied(view: SessionView) -> frozenset[int]:
    counted = Counter(event.ts for event in view.events if event.ts is not None)
    found = {at for at, many in counted.items() if many >= OF_A_COPY}
    for step in (-_WRITES, _WRITES):
        for at in sorted(found):
            while (at := at + step) in counted:
                found.add(at)
    return frozenset(found)
