"""What tells a store that lost a file from one that was never begun, and what was forgotten, kept beside the journal.

``store.json`` is written once, after the ledger and the journal of a new store are there:
where it lies, an empty or missing one of them was lost. ``tombstones.jsonl`` repeats the
facts of the journal that keep forgotten sessions and lines out (hashes, no content).
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreError
from ctx_pipeline.storage import temporary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MARKER = "store.json"
STONES = "tombstones.jsonl"
REBUILT = "rebuilt.txt"
"""Lies there from the time when a lost ledger was made again until a run has worked all out again."""

NOTED = "checked.json"
"""Sizes, times and digests of derived files as the last run left them, and what was found damaged since."""
SCHEMA = 1

KEPT_BESIDE = frozenset({"tombstone", "blanked"})
"""Kinds of facts that a lost journal must not take with it."""


def begun(home: Path) -> bool:
    """Tell whether a store was made in a folder, whatever became of its files since."""
    return (home / MARKER).exists() or (home / "ledger.db").exists() or _holds(home / "raw")


def marked(home: Path) -> bool:
    """Tell whether the store has its marker; one that cannot be read is one."""
    return (home / MARKER).exists()


def mark(home: Path) -> None:
    """Write the marker where there is none."""
    about = {"store_id": os.urandom(16).hex(), "created_at": now(), "schema": SCHEMA}
    fresh = home / temporary.name()
    try:
        fresh.write_bytes(b"")
        fresh.chmod(0o600)
        fresh.write_text(json.dumps(about) + "\n", "utf-8")
        with suppress(FileExistsError):
            os.link(fresh, home / MARKER)
    except OSError as error:
        raise StoreError(f"{home / MARKER} cannot be written: {error.strerror}", hint="check CTX_HOME and its permissions") from error
    finally:
        fresh.unlink(missing_ok=True)


def rebuilt(home: Path) -> bool:
    """Tell whether the ledger was made again and no run has ended since."""
    return (home / REBUILT).exists()


def noted(home: Path) -> dict[str, Any]:
    """Return what was noted of derived files, by their names; nothing where that cannot be read."""
    try:
        found = json.loads((home / NOTED).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def lost_ledger(home: Path) -> str:
    """Return what became of a ledger that was there: "missing" or "empty"; empty where it is there or was never made."""
    try:
        # never opened here: to close it would drop the locks of this process's connections to it
        status = (home / "ledger.db").stat()
    except FileNotFoundError:
        size = None
    else:
        size = None if stat.S_ISDIR(status.st_mode) else status.st_size
    # one that another process is making is empty for a moment: its store has neither marker nor raw
    if size or not (marked(home) or _holds(home / "raw")):
        return ""
    return "missing" if size is None else "empty"


def keep_beside(home: Path, kind: str, payload: Mapping[str, Any], at: str) -> None:
    """Append a fact to the tombstones beside the journal, durably."""
    line = json.dumps({"at": at, "kind": kind, "payload": payload}, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    path = home / STONES
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, f"{line}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}", hint="check CTX_HOME and its permissions") from error


def facts_beside_journal(home: Path) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (time, kind, payload) of the facts kept beside the journal, oldest first, each once; a cut line is left out."""
    try:
        lines = (home / STONES).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in dict.fromkeys(lines):
        try:
            fact = json.loads(line)
            found.append((str(fact["at"]), str(fact["kind"]), dict(fact["payload"])))
        except (ValueError, TypeError, KeyError):
            continue
    return found


def stones_of(facts: Iterable[tuple[str, str, Mapping[str, Any]]]) -> list[tuple[str, str, str, str]]:
    """Return (host, kind, hash, time) of the tombstones among such facts."""
    return [
        (str(host), str(what), str(name), at)
        for at, kind, payload in facts
        if kind == "tombstone"
        for host, what, name in payload["stones"]
    ]


def now() -> str:
    """Return the time as the journal writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _holds(folder: Path) -> bool:
    """Tell whether there is any file below a folder."""
    return any(names for _, _, names in os.walk(folder))
