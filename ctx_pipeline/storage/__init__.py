"""The store under ``CTX_HOME``: ledger, raw, journal, lake and indexes behind one value."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.storage import blocked, store_marker, temporary
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.journal import Journal
    from ctx_pipeline.storage.lake import Lake
    from ctx_pipeline.storage.lake.parquet_text import PageReader
    from ctx_pipeline.storage.ledger import Ledger
    from ctx_pipeline.storage.memory_index import MemoryIndex
    from ctx_pipeline.storage.own_sessions import Shown, ShownSessions
    from ctx_pipeline.storage.search_index import SearchIndex


FORGETTING = "forgetting.json"
"""What a call of ``ctx forget`` is removing; it lies in the store until that has ended."""

_FORGETTING_SECONDS = 5.0
"""How long a reader waits for a forgetting to end."""


class Store:
    """One store; its parts open when they are first used."""

    def __init__(self, home: Path, *, first_month: str, read_only: bool = False) -> None:
        self.home = home
        self.read_only = read_only
        self.files = Files(home)
        self._first_month = first_month

    @cached_property
    def ledger(self) -> Ledger:
        """Sources, segments, sessions, ownership, leases; raises StoreDamaged where the store had one and has none."""
        from ctx_pipeline.storage.ledger import Ledger

        path = self.home / "ledger.db"
        if lost := store_marker.lost_ledger(self.home):
            raise StoreDamaged(f"{path} is {lost}", hint="ctx doctor --rebuild-ledger", path=str(path))
        made = Ledger(path, first_month=self._first_month, read_only=self.read_only)
        if not self.read_only and not store_marker.marked(self.home):
            self._mark(made)
        return made

    def _mark(self, ledger: Ledger) -> None:
        """Mark the store as begun, once its ledger and its journal are there; what was forgotten before is kept beside the journal."""
        from ctx_pipeline.storage.journal import ANEW, LOST

        if not (self.home / "journal.db").exists() and ledger.asset_cells("memory/consolidated"):
            raise StoreDamaged(f"{self.home / 'journal.db'} is missing: {LOST}", hint=ANEW, path=str(self.home / "journal.db"))
        for fact in self.journal.facts():
            if fact.kind in store_marker.KEPT_BESIDE:
                store_marker.keep_beside(self.home, fact.kind, fact.payload, fact.at)
        store_marker.mark(self.home)

    @cached_property
    def journal(self) -> Journal:
        """What was said through ``ctx`` itself."""
        from ctx_pipeline.storage.journal import Journal

        return Journal(self.home / "journal.db", read_only=self.read_only)

    @cached_property
    def lake(self) -> Lake:
        """Parquet parts and their manifests."""
        from ctx_pipeline.storage.lake import Lake

        return Lake(self.files, recorded=self._recorded, derived=self._made if self.read_only else None, fence=self._fence)

    def _fence(self) -> None:
        """Raise LeaseLost where another process took over a lease that is held here."""
        if "ledger" in self.__dict__:
            self.ledger.demand_leases()

    def _made(self) -> list[tuple[str, Cell]]:
        """Return the assets and cells that something was made of, as the ledger says."""
        return self.ledger.recorded()

    def _recorded(self) -> set[Cell]:
        """Return the cells that have tables, as the ledger says."""
        return set(self.ledger.asset_cells("normalized/events"))

    def shown(self, sessions: Iterable[tuple[str, str]] | None = None) -> dict[tuple[str, str], Shown]:
        """Return title and project of some sessions (host, id), or of all."""
        return self.shown_sessions.of(sessions)

    @cached_property
    def shown_sessions(self) -> ShownSessions:
        """Titles and projects without the rest of the ledger."""
        from ctx_pipeline.storage.own_sessions import ShownSessions

        return ShownSessions(self.home / "ledger.db")

    @cached_property
    def archived(self) -> frozenset[tuple[str, str]]:
        """Sessions (host, id) that the tables say are archived; none where they cannot be read."""
        from ctx_pipeline.storage.warehouse.session_queries import archived_sessions

        try:
            return archived_sessions(self.lake)
        except StoreError:
            return frozenset()

    @cached_property
    def page_reader(self) -> PageReader:
        """Single events without Arrow."""
        from ctx_pipeline.storage.lake.parquet_text import PageReader

        return PageReader(self.files.local)

    @cached_property
    def search(self) -> SearchIndex:
        """Full-text index over the history."""
        from ctx_pipeline.storage.search_index import SearchIndex

        return SearchIndex(self.home / "search.db")

    @cached_property
    def memories(self) -> MemoryIndex:
        """Full-text index over the memories."""
        from ctx_pipeline.storage.memory_index import MemoryIndex

        return MemoryIndex(self.home / "memory.db")

    @cached_property
    def cases(self) -> MemoryIndex:
        """Full-text index over the tasks that were solved."""
        from ctx_pipeline.storage.memory_index import MemoryIndex

        return MemoryIndex(self.home / "cases.db")

    @property
    def warehouse_path(self) -> Path:
        """The DuckDB file with views over the lake."""
        return self.home / "serving" / "ctx.duckdb"

    def close(self) -> None:
        """Close what was opened by this thread."""
        for name in ("ledger", "journal", "search", "memories", "cases", "shown_sessions"):
            part: Any = self.__dict__.get(name)
            if part is not None and hasattr(part, "close"):
                part.close()

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close what was opened."""
        self.close()


_notices: dict[str, str] = {}


def notices() -> list[str]:
    """Return, once, what a person should know of the stores that were opened."""
    found = [sentence for home, sentence in _notices.items() if store_marker.rebuilt(Path(home))]
    _notices.clear()
    return found


def may_write(home: Path) -> bool:
    """Tell whether files can be made in a store, or it can be begun."""
    return not home.exists() or os.access(home, os.W_OK)


def open_store(settings: Settings, *, read_only: bool = False) -> Store:
    """Return the store of these settings; made if it is missing.

    With ``read_only`` no file is created, and a missing store is a StoreError; so is one that
    still holds what is being forgotten. Otherwise what ended processes were writing is removed.
    """
    from ctx_pipeline import discovery

    home = Path(settings.home)
    if store_marker.rebuilt(home):
        _notices[str(home)] = (
            f"the ledger of {home} was lost and made again from raw: calls and texts are right; "
            "titles, projects and what the homes still hold come back with: ctx run"
        )
    discovery.look_in(home / "config")
    if read_only:
        if not store_marker.begun(home):
            raise StoreError("nothing was captured yet", hint=to_capture(settings), path=str(home))
        wait_for_forget(home)
    else:
        Files(home).folder(home)
        temporary.remove_orphans(home)
        blocked.make_way_in(home)
    return Store(home, first_month=settings.first_month, read_only=read_only)


def to_capture(settings: Settings) -> str:
    """Return the command that captures the sessions, and whose they are where they are samples."""
    return "ctx run, which captures the sample sessions" if settings.demo_roots else "ctx run"


def wait_for_forget(home: Path) -> None:
    """Return when nothing of the store is being forgotten; StoreError where that does not end within seconds."""
    path = home / FORGETTING
    if not path.exists():
        return
    import time

    deadline = time.monotonic() + _FORGETTING_SECONDS
    while path.exists():
        if time.monotonic() >= deadline:
            raise StoreError(
                f"sessions are being forgotten in {home}, and nothing is shown before that has ended",
                hint="where it was interrupted, this ends it: ctx forget --finish",
                path=str(home),
            )
        time.sleep(0.05)
