"""Folders that stand where a file of the store belongs: moved out of the way by who writes, so that the file is a missing one."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

ASIDE = ".folder-"
"""Stands in the name of a folder that was not empty, before a number; what is in it stays as it is."""

_OF_STORE = frozenset(
    {
        "ledger.db",
        "journal.db",
        "search.db",
        "memory.db",
        "cases.db",
        "contexts.db",
        "store.json",
        "checked.json",
        "rebuilt.txt",
        "plan.json",
    }
    | {
        "summary.json",
        "uses.json",
        "effect.json",
        "memory_checks.json",
        "combined_candidates.json",
        "served_tools.json",
        "packed.txt",
        "swept.txt",
        "raw_checked.txt",
    }
    | {"redaction.txt", "backups.json", "schedule.json"}
)
"""Files that a store has at its top, where a person may have folders beside them. Without the note of the key and of what is
being forgotten less would be encrypted or erased: these stay as they are, and the command that reads them fails."""
_PLACES = ("serving", "dagster")
"""Folders that are the store's own; those of others are looked at when they are written or read."""
_FILES = frozenset({".db", ".duckdb", ".json", ".jsonl", ".txt", ".yaml"})


def make_way(path: Path) -> bool:
    """Move a folder out of the place of a file: an empty one is removed, another gets a name beside it; tell whether there was one."""
    if path.is_symlink() or not path.is_dir():
        return False
    try:
        path.rmdir()
    except OSError:
        path.rename(next(free for n in count(1) if not (free := path.with_name(f"{path.name}{ASIDE}{n}")).exists()))
    return True


def make_way_in(home: Path) -> None:
    """Do so for the databases and notes of a store; a store that takes no change stays as it is."""
    for place in ("", *_PLACES):
        with suppress(OSError), os.scandir(home / place) as entries:
            for entry in entries:
                known = os.path.splitext(entry.name)[1] in _FILES if place else entry.name in _OF_STORE  # noqa: PTH122 - each command asks
                if known and entry.is_dir(follow_symlinks=False):
                    make_way(Path(entry.path))
