"""Whether a store holds anything of the person's own: a question that every command asks before it shows samples."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

_TABLES, _RAW = "lake/_manifests/normalized", "raw"
_OF_MACHINES = ("hook.", "measured.", "observation")
"""Beginnings of the kinds of facts that nobody said."""


def holds_sessions(home: Path) -> bool:
    """Tell whether a store has captured a session, also where its tables are gone or its ledger cannot be read."""
    try:
        if any(name.endswith(".json") for name in os.listdir(home / _TABLES)):  # noqa: PTH208 - asked by every command
            return True
    except OSError:
        pass
    if not (home / _RAW).is_dir():
        return False
    from ctx_pipeline.storage.ledger import Ledger

    if not (home / "ledger.db").is_file():
        return _has_raw(home)
    try:
        with closing(Ledger(home / "ledger.db", read_only=True)) as ledger:
            return bool(ledger.cells())
    except StoreError:
        return _has_raw(home)


def holds_words(home: Path) -> bool:
    """Tell whether a store keeps what a person or an agent said (a note, a judgment, a document), or what was learned."""
    if _holds_memories(home):
        return True
    if not (home / "journal.db").is_file():
        return False
    from ctx_pipeline.storage.journal import Journal

    try:
        with closing(Journal(home / "journal.db", read_only=True)) as journal:
            return any(not fact.kind.startswith(_OF_MACHINES) for fact in journal.facts())
    except StoreError:
        return True


def _holds_memories(home: Path) -> bool:
    from ctx_pipeline.storage.memory_index.index import MemoryIndex

    for name in ("memory.db", "cases.db"):
        if (home / name).is_file():
            try:
                with closing(MemoryIndex(home / name)) as index:
                    if index.counts():
                        return True
            except StoreError:
                return True
    return False


def _has_raw(home: Path) -> bool:
    return any(files for _, _, files in os.walk(home / _RAW))
