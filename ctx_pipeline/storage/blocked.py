"""Folders that stand where a file of the store belongs: moved out of the way by who writes, so that the file is a missing one."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

ASIDE = ".folder-"
"""Stands in the name of a folder that was not empty, before a number; what is in it stays as it is."""

_PLACES = ("", "serving", "dagster")
"""Folders whose files have fixed names; those of others are looked at when they are written or read."""
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
    """Do so for the databases and notes of a store, whose names are known; a store that takes no change stays as it is."""
    for place in _PLACES:
        with suppress(OSError), os.scandir(home / place) as entries:
            for entry in entries:
                if os.path.splitext(entry.name)[1] in _FILES and entry.is_dir(follow_symlinks=False):  # noqa: PTH122 - each command asks
                    make_way(Path(entry.path))
