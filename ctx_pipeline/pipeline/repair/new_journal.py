"""The journal begun anew: what can still be read of a lost one, and what was forgotten."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.storage import store_marker
from ctx_pipeline.storage.journal import NAME, SCHEMA, Journal

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.storage import Store

LEASE = "journal"
_WAIT = 30.0
"""Seconds: a person waits for another writer."""

_OLDEST = "SELECT id, at, actor, kind, schema, payload FROM facts ORDER BY id"
_Row = tuple[str, str, str, int, str]


class NewJournal(NamedTuple):
    """What became of the lost journal."""

    facts: int
    """read from it and kept"""
    tombstones: int
    """taken from the file beside it, which keep forgotten sessions out"""
    aside: str
    """name of the old file, empty where there is none"""


def new_journal(store: Store) -> NewJournal:
    """Begin the journal anew with all that can be read of the lost one and the tombstones beside it; the old file is kept.

    A journal that can be read is left alone: StoreError. Of two processes the second finds it made.
    """
    with store.ledger.lease(LEASE, wait=_WAIT):
        return _begun_anew(store, store.home / NAME)


def _begun_anew(store: Store, path: Path) -> NewJournal:
    if journal_sound(store) and path.exists() and whole(path):
        raise StoreError(f"{path} can be read", hint="it stays as it is", path=str(path))
    store.journal.close()
    store.__dict__.pop("journal", None)
    known = _readable(path)
    seen = {(at, kind) for at, _, kind, _, _ in known}
    beside = [
        (at, "ctx", kind, SCHEMA, json.dumps(payload))
        for at, kind, payload in store_marker.facts_beside_journal(store.home)
        if (at, kind) not in seen
    ]
    aside = set_aside(path)
    with closing(Journal(path, anew=True)) as journal:
        journal.restore([*beside, *known])
    return NewJournal(len(known), len(beside), aside)


def journal_sound(store: Store) -> bool:
    """Tell whether the journal is there and can be read, or was never begun."""
    try:
        store.journal.demand()
    except StoreDamaged:
        return False
    return True


def whole(path: Path) -> bool:
    """Ask SQLite whether a file is a database without damage that it sees."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.Error:
        return False


def set_aside(path: Path) -> str:
    """Rename a file, and the log of a database with it, after the time; return its new name, empty where there is none."""
    day = datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
    moved = ""
    for suffix in ("-shm", "-wal", ""):
        old = path.with_name(path.name + suffix)
        if old.exists():
            moved = f"{path.name}.damaged-{day}{suffix}"
            mode = 0o700 if old.is_dir() else 0o600
            old.rename(path.with_name(moved)).chmod(mode)
    return moved


def _readable(path: Path) -> list[_Row]:
    """Return the facts before and after what is damaged, in order."""
    found: dict[int, _Row] = {}
    for query in (_OLDEST, f"{_OLDEST} DESC") if path.exists() else ():
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as old:
                for number, *row in old.execute(query):
                    found[number] = tuple(row)
        except sqlite3.Error:
            continue
    return [row for _, row in sorted(found.items()) if _is_fact(row)]


def _is_fact(row: tuple[Any, ...]) -> bool:
    try:
        return isinstance(json.loads(row[4]), dict) and all(isinstance(text, str) for text in row[:3]) and isinstance(row[3], int)
    except (ValueError, TypeError):
        return False
