"""Keeps the figures of sessions that reports over all of them are added up from."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError
from ctx_pipeline.findings.evidence import keep_newest
from ctx_pipeline.sessions.listing import TASK
from ctx_pipeline.sessions.reports.flaky_tests import TESTS
from ctx_pipeline.sessions.reports.session_gain import GAIN
from ctx_pipeline.sessions.reports.time_spent import TIME
from ctx_pipeline.sessions.reports.uncommitted import UNCOMMITTED
from ctx_pipeline.sessions.reports.work import WORK
from ctx_pipeline.sessions.session_choice import lines
from ctx_pipeline.storage.lake.queries import shared_database
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.session_figures import present
from ctx_pipeline.usage import session_figures
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.repeated_calls import REPEATED
from ctx_pipeline.usage.session_figures import FiguresOfCell
from ctx_pipeline.usage.unrecorded_agents import UNRECORDED
from ctx_pipeline.usage.usage_figures import CALLS, LIMITS, SHARES, USAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

KEPT = (USAGE, CALLS, LIMITS, *SHARES.values(), GAIN, WORK, TIME, TESTS, UNCOMMITTED, TASK, UNRECORDED, REPEATED)


def keep(store: Store, settings: Settings, *, most: int | None = None) -> int:
    """Keep what is missing of every session and return of how many something was; who calls it holds the lease of the warehouse."""
    made = session_figures.keep(store, settings, KEPT, most=most)
    keep_newest(settings)
    return made


def ahead(store: Store, settings: Settings) -> Callable[[Cell, Collection[str]], FiguresOfCell]:
    """Return what begins the figures of some sessions of a cell that are about to be read; what it leaves out :func:`keep` makes."""
    there = present(store)

    def begin(cell: Cell, sessions: Collection[str]) -> FiguresOfCell:
        asked = ((cell.host, session) for session in sessions)
        return FiguresOfCell(store, settings, KEPT, {key: there[key] for key in asked if key in there})

    return begin


def warm(settings: Settings) -> None:
    """Import what answers need, read what the first of them would wait for, and keep the database of queries open."""
    import pyarrow.compute  # noqa: F401 - what reads a column with gaps imports it, a twentieth of a second

    shared_database.keep()
    with suppress(CtxError, OSError), reading(settings) as (store, _):
        lines(store)
        with closing(store.lake.connect()):
            session_figures.warm(store, settings, KEPT)
        usage("daily", settings=settings)
