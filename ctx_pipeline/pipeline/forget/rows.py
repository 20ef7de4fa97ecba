"""Rows of forgotten sessions out of the lake, while nobody else writes the cells that held them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreError, StoreLocked
from ctx_pipeline.model.tables import FACTS_ASSET, NORMALIZED, TABLES
from ctx_pipeline.pipeline import plan
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage import session_notes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


LAKE = "normalized"
WAIT = 600.0
"""Seconds for which forgetting waits for a writer to end."""

_WHOLE = tuple(asset.key for asset in (plan.CONSOLIDATED, plan.MEMORIES, plan.SEARCH, plan.WAREHOUSE, plan.SITE))
_MANIFESTS = "lake/_manifests/"

Gone = dict[str, set[str]]
"""host -> forgotten sessions"""


@contextmanager
def alone(store: Store, cells: Iterable[Cell], *, wait: float | None = None) -> Iterator[None]:
    """Hold the leases of every asset in these cells and of all that is made of the whole store, waited for as long as forgetting waits."""
    wait = WAIT if wait is None else wait
    assets = {
        *derived(store),
        FACTS_ASSET,
        *(f"signals/{n}" for n in discovery.families()),
        *(f"mined/{n}" for n in discovery.methods()),
    }
    with ExitStack() as leases:
        leases.enter_context(store.ledger.lease(LAKE, wait=wait))
        for cell in sorted(set(cells)):
            for asset in sorted(assets):
                leases.enter_context(store.ledger.lease(f"{asset}@{cell.key}", wait=wait))
        for asset in _WHOLE:
            leases.enter_context(store.ledger.lease(asset, wait=wait))
        yield


def derived(store: Store) -> list[str]:
    """Return the fact tables, signal families, methods and token counts that hold rows, also those whose file is gone."""
    return [name for name in assets(store) if name.startswith(("facts/", "signals/", "mined/", "tokens/"))]


def assets(store: Store) -> list[str]:
    """Return every asset that has a manifest, by key."""
    names = {rel.split("/")[2] for rel in store.files.walk(_MANIFESTS.rstrip("/"))}
    return sorted(name.replace(".", "/", 1) for name in names)


def holding(store: Store, asset: str, gone: Gone) -> set[Cell]:
    """Return the cells of an asset whose parts have rows of forgotten sessions, dead ones too."""
    return {
        cell
        for cell, manifest in store.lake.manifests(asset).items()
        if any(s in gone.get(cell.host, ()) for p in manifest.parts for s in p.sessions)
    }


def drop_derived(store: Store, cells: Collection[Cell]) -> None:
    """Drop the facts, readings, candidates and token counts of these cells; the stages make them again."""
    for asset in derived(store):
        for cell in store.lake.manifests(asset):
            if cell in cells:
                store.lake.drop(asset, cell)
                store.ledger.forget_asset(asset, [cell])


def purge(store: Store, cell: Cell, gone: Collection[str]) -> None:
    """Rewrite the parts of a cell that still hold rows of forgotten sessions; a cell without a session is dropped."""
    import msgspec.structs

    manifest = store.lake.manifest(LAKE, cell)
    if manifest is None or not any(s in gone for p in manifest.parts for s in p.sessions):
        if manifest is not None and not manifest.of_table("sessions") and cell not in set(store.ledger.cells()):
            _drop(store, cell)
        return
    from ctx_pipeline.storage.lake.columns import of_used_values
    from ctx_pipeline.storage.lake.reading import read_part

    parts = []
    moved = []
    for part in manifest.parts:
        if not any(s in gone for s in part.sessions):
            parts.append(part)
            continue
        live = [s for s in part.live if s not in gone]
        if live:
            rows = read_part(store.files.local(part.path), part, TABLES[part.table].names, live)
            made = store.lake.write_part(LAKE, cell, part.table, of_used_values(rows))
            parts.append(made)
            if part.table == "events":
                moved += [(cell.host, s, made.path) for s in live]
    if parts:
        hashes = {session: value for session, value in manifest.hashes.items() if session not in gone}
        store.lake.commit(LAKE, cell, msgspec.structs.replace(manifest, parts=tuple(parts), hashes=hashes))
        store.ledger.set_parts(moved)
    else:
        _drop(store, cell)


def unnamed(store: Store) -> list[str]:
    """Return the files of the lake that no manifest names."""
    named = {part.path for asset in assets(store) for m in store.lake.manifests(asset).values() for part in m.parts}
    return [rel for rel in store.files.walk("lake") if not rel.startswith(_MANIFESTS) and rel not in named]


def remove_unnamed_parts(store: Store, cells: Iterable[Cell], gone: Gone) -> None:
    """Remove the parts that no manifest names: all of these cells and of the memories, elsewhere those with forgotten rows.

    In other cells an unnamed part may be what another stage is about to commit.
    """
    mine = tuple(f"/host={cell.host}/month={cell.month}/" for cell in (*cells, plan.WHOLE))
    for rel in unnamed(store):
        if any(folder in rel for folder in mine) or _holds(store, rel, gone):
            store.files.remove(rel)


def _holds(store: Store, rel: str, gone: Gone) -> bool:
    _, table, host, *_ = rel.split("/")
    sessions = gone.get(host.removeprefix("host="), ())
    if not sessions or table not in TABLES or "session_id" not in TABLES[table].names or not rel.endswith(".parquet"):
        return False
    try:
        return any(session in sessions for (session,) in store.lake.scan(rel, table, ["session_id"]))
    except (StoreError, OSError):
        return not store.files.exists(rel)


def _drop(store: Store, cell: Cell) -> None:
    store.lake.drop(LAKE, cell)
    for table in NORMALIZED:
        store.ledger.forget_asset(f"normalized/{table}", [cell])


# What older detectors left in clear, out of the files that nothing names any more.


KEPT = "redaction.txt"
"""File of the store that names the detectors by which all of it was last written."""

_WAIT = 10.0
"""Seconds for which a writer is waited for."""


def clean_past(store: Store, settings: Settings) -> int:
    """Remove what other detectors than today's have written and nothing names any more; return how many parts of the lake.

    Tables, warehouse and page are made anew where their text changed. The parts before them
    would stay for an hour, and their words in the index of the history for ever: both go at
    once, and words that were said of sessions are redacted where they lie, so that a secret
    that was overlooked is in raw alone. Nothing is done while
    another process writes; the next page that is drawn sees to it.
    """
    redactor = Redactor(settings.patterns)
    version = redactor.version.encode()
    if store.files.exists(KEPT) and store.files.read(KEPT) == version:
        return 0
    session_notes.rewrite(store, redactor.redact_values)
    left = unnamed(store)
    if left:
        cells = store.ledger.cells()
        try:
            with alone(store, cells, wait=_WAIT):
                remove_unnamed_parts(store, cells, {})
                store.search.rebuild(store.lake)
            store.ledger.compact()
        except StoreLocked:
            return 0
    store.files.write(KEPT, version)
    return len(left)
