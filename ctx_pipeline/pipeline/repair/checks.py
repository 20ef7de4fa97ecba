"""Every file of a store held against what it must be: the list that ``ctx doctor``, ``ctx verify --deep`` and ``ctx repair`` share."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreDamaged
from ctx_pipeline.pipeline import capture
from ctx_pipeline.pipeline.forget.sessions import remembered
from ctx_pipeline.pipeline.repair import damaged_outputs, damaged_raw, rebuild
from ctx_pipeline.pipeline.repair.rebuild import SET_ASIDE, whole
from ctx_pipeline.storage import store_marker, temporary
from ctx_pipeline.storage.verified import VerifiedFiles

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import Segment
    from ctx_pipeline.storage.ledger.rows import Source

LEDGER, JOURNAL, CONTEXTS = "ledger.db", "journal.db", "contexts.db"

_DAGSTER = "dagster"
_LATER = "what was made of it comes back by: ctx run"


def everything(store: Store, *, unpacked: bool = True, again: bool = True) -> list[tuple[str, str]]:
    """Return (file, what is wrong) of all that cannot be trusted; every raw object and every part is read. Nothing is changed.

    Unless ``again``, files that an earlier look found right and nothing wrote to since are not.
    Raises RawLocked without the key of encrypted raw objects, unless these are not to be ``unpacked``.
    """
    verified = VerifiedFiles(store.files, again=again)
    if not unpacked:
        verified.leave("raw")
    found = [*damaged_raw.damaged(store, deep=verified if unpacked else None), *databases(store, verified)]
    found += damaged_outputs.damaged(store, deep=verified)
    verified.save()
    return found


def databases(store: Store, verified: VerifiedFiles) -> list[tuple[str, str]]:
    """Ask SQLite whether the files are whole that no run makes again, or no run of the stages."""
    found = []
    try:
        store.journal.demand()
    except StoreDamaged as error:
        found.append((JOURNAL, f"{error.message}; {error.hint}"))
    found_there = (path.relative_to(store.home).as_posix() for path in sorted((store.home / _DAGSTER).rglob("*.db")))
    history = [name for name in found_there if SET_ASIDE not in name]
    hints = {LEDGER: "ctx repair", JOURNAL: "ctx repair", CONTEXTS: "put a backup in its place, or set it aside: ctx repair"}
    for name in (*hints, *history):
        path = store.home / name
        known = any(damaged == name for damaged, _ in found)
        hint = hints.get(name, "the next ctx run sets it aside and begins the history of runs anew")
        if path.exists() and not known and (wrong := verified.wrong_with(name, partial(_wrong_with, store, name, hint))):
            found.append((name, wrong))
    if store_marker.rebuilt(store.home):
        found.append((LEDGER, f"was lost and is made again from raw; {_LATER}"))
    return found


def _wrong_with(store: Store, name: str, hint: str) -> str:
    """Return what is wrong with a database: its pages, as SQLite sees them, or its rows, where they have digests."""
    path = store.home / name
    if name == JOURNAL and (changed := _changed_facts(store)):
        return changed
    if not (whole(path) and (path.stat().st_size or name == CONTEXTS)):
        return f"is damaged; {hint}"
    if name == LEDGER and (tables := _contradicting(store)):
        return f"rows of {', '.join(tables)} are not as they were written; it is made again by: ctx repair"
    return ""


def _changed_facts(store: Store) -> str:
    changed = rebuild.changed_facts(store)
    if not changed:
        return ""
    facts = "1 fact" if len(changed) == 1 else f"{len(changed):,} facts"
    first, kind = changed[0]
    return f"{facts} in it, the first with id {first} ({kind}), changed since written; the others are kept by: ctx repair"


def _contradicting(store: Store) -> list[str]:
    try:
        return store.ledger.contradicting()
    except StoreDamaged as error:
        return [error.message]


def ledger_against_raw(store: Store, settings: Settings) -> list[tuple[str, str]]:
    """Return what the ledger says that neither raw nor the tables nor the journal say.

    Sources, segments and what shared files tell of threads are held against a ledger made of raw alone, titles and
    counts of sessions against their rows of the tables, tombstones against the journal. A changed byte in a row is
    no damage that SQLite sees.
    """
    from ctx_pipeline.storage.ledger import Ledger

    fresh = store.home / temporary.name()
    try:
        with closing(Ledger(fresh, first_month=settings.first_month)) as made:
            made.rebuild(store.files, redact=capture.redactor_of(settings).redact)
            other = {_segment(one): one for one in made.segments()}
            sources = {one.stream: one for one in made.sources().values()}
            hints = set(made.hints())
    finally:
        for suffix in ("", "-wal", "-shm"):
            fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    wrong = sum(_segment(one) not in other for one in store.ledger.segments())
    told = store.ledger.sources()
    lost = {stream for row in store.ledger.undecodable_sessions() for stream, *_ in row.rows.get("raw_lost", ())}
    wrong += sum(
        one.captured > 0 and one.stream not in lost and (one.stream not in sources or _source(one) != _source(sources[one.stream]))
        for one in told.values()
    )
    wrong += sum(hint not in hints for hint in store.ledger.hints() if hint.stream in sources)
    wrong += _sessions_against_tables(store)
    stones = {(one.host, one.kind, one.hash) for one in store.ledger.tombstones()}
    wrong += sum((one.host, one.kind, one.hash) not in stones for one in remembered(store))
    return [(LEDGER, f"contradicts raw, the tables or the journal in {wrong:,} rows; it is made again by: ctx repair")] if wrong else []


def _sessions_against_tables(store: Store) -> int:
    """Return of how many sessions the ledger says what their row of the tables does not; those not yet derived do not count."""
    behind = store.ledger.unfinished_cells()
    wrong = 0
    for cell in store.lake.manifests("normalized").keys() - behind:
        rows = {row.session_id: row for row in store.lake.read_rows("sessions", cell, "normalized")}
        for told in store.ledger.sessions(cells=[cell]):
            row = rows.get(told.session_id)
            wrong += row is not None and not told.dirty and any(getattr(row, name, said) != said for name, said in told.rows.items())
    return wrong


def _segment(one: Segment) -> tuple[object, ...]:
    return one.stream, one.generation, one.start, one.end, one.sha256, one.path


def _source(one: Source) -> tuple[object, ...]:
    return one.host, one.generation, one.captured, one.thread_id, one.parent_thread_id, one.relation, one.root_session_id, one.first_ts
