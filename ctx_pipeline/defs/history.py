"""Dagster's record of runs: disposable, so a damaged one is set aside and begun anew."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreError
from ctx_pipeline.pipeline.repair.new_journal import set_aside, whole

if TYPE_CHECKING:
    from pathlib import Path

_RUNS = "history"
_FILES = {f"{_RUNS}/event_log.db": "event_logs", f"{_RUNS}/runs.db": "runs", "schedules/schedules.db": "jobs"}
"""database below the instance's folder -> a table that it has from its first use on"""


def set_aside_damaged(home: Path) -> list[str]:
    """Rename the databases of an instance that cannot be read, so that Dagster begins them anew; return a sentence for each.

    Runs and their events belong together: both go where one is damaged, empty or missing.
    """
    bad = {name for name, table in _FILES.items() if not _readable(home / name, table)}
    runs = [name for name in _FILES if name.startswith(_RUNS)]
    there = [name for name in runs if (home / name).exists()]
    said = []
    if there and bad.intersection(runs):
        moved = set_aside(home / _RUNS)
        said.append(f"the history of runs in {home / _RUNS} is damaged: it was set aside as {moved} and begins anew")
    for name in sorted(bad.difference(runs)):
        if (home / name).exists():
            moved = set_aside(home / name)
            said.append(f"{home / name} is damaged: it was set aside as {moved}; what was switched on in ctx ui is off again")
    return said


def demand(home: Path) -> None:
    """Raise StoreError for a ``dagster.yaml`` that cannot be read; a person's own is never overwritten."""
    import yaml

    path = home / "dagster.yaml"
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise StoreError(
            f"{path} cannot be read: {next(iter(str(error).splitlines()), '')}",
            hint="it is not the one that ctx writes, so it stays: mend it, or move it away and run again",
            path=str(path),
        ) from error
    if found is not None and not isinstance(found, dict):
        raise StoreError(f"{path} holds no settings", hint="it is not the one that ctx writes, so it stays: mend it, or move it away")


def _readable(path: Path, table: str) -> bool:
    """Tell whether a database can be read and has a table, as far as a look at its pages shows."""
    if not path.exists() or not whole(path):
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None
    except sqlite3.Error:
        return False
