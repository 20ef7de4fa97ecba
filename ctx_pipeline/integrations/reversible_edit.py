"""A change of somebody else's file: written whole, with a backup, and taken back to the same bytes where nobody changed it since."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.settings import Settings

FOLDER = "wiring"
"""Backups and receipts, in the store."""

_LARGEST = 64 << 20
ADDED, UNCHANGED, RESTORED, REMOVED, ABSENT = "added", "unchanged", "restored", "removed", "absent"


@dataclass(frozen=True)
class Change:
    """What was done to a file: added, unchanged, restored (to the same bytes), removed (our entries only) or absent."""

    path: Path
    did: str
    backup: Path | None = None


def read(path: Path) -> str | None:
    """Return the text of a file, None when there is none; raises SettingsError for what is no readable text file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise SettingsError(f"{path} was left as it is: it is no file of settings", hint="look at what it is", path=str(path))
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} was left as it is: it is no UTF-8 text", hint="mend the file", path=str(path)) from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}", hint="check its permissions", path=str(path)) from error


def put(settings: Settings, path: Path, edit: Callable[[str], str], *, own: Callable[[str], bool]) -> Change:
    """Write the edited text, after a backup of the one before; unchanged where the edit changes nothing.

    ``own(text)`` tells whether entries of ours are in a text already: such a text is no
    state to go back to.
    """
    before = read(path)
    after = edit(before or "")
    if before is not None and after == before:
        return Change(path, UNCHANGED)
    files = Files(settings.home)
    name = f"{FOLDER}/{digest(str(path), size=16)}"
    receipt = _receipt(files, name)
    backup = None
    if before is None:
        kept: dict[str, object] = {"existed": False}
    elif receipt and receipt.get("after") == _hash(before):
        kept = {key: receipt[key] for key in ("existed", "backup") if key in receipt}
    elif own(before):
        kept = {}
    else:
        backup = f"{name}-{_hash(before)[:12]}.backup"
        files.write(backup, before.encode())
        kept = {"existed": True, "backup": backup}
    files.write(f"{name}.json", json.dumps({"path": str(path), "after": _hash(after), **kept}).encode())
    _replace(path, before, after)
    return Change(path, ADDED, files.local(backup) if backup else None)


def revert(settings: Settings, path: Path, edit: Callable[[str], str]) -> Change:
    """Restore the bytes from before :func:`put` where nobody changed the file since, else write the edited text."""
    files = Files(settings.home)
    name = f"{FOLDER}/{digest(str(path), size=16)}"
    receipt = _receipt(files, name)
    now = read(path)
    if now is None:
        files.remove(f"{name}.json")
        return Change(path, ABSENT)
    if receipt and receipt.get("after") == _hash(now) and "existed" in receipt:
        backup = str(receipt.get("backup", ""))
        if not receipt["existed"]:
            Path(os.path.realpath(path)).unlink()
        else:
            _replace(path, now, files.read(backup).decode("utf-8"))
            files.remove(backup)
        files.remove(f"{name}.json")
        return Change(path, RESTORED)
    after = edit(now)
    if after == now:
        return Change(path, ABSENT)
    _replace(path, now, after)
    files.remove(f"{name}.json")
    return Change(path, REMOVED)


def _receipt(files: Files, name: str) -> dict[str, object] | None:
    if not files.exists(f"{name}.json"):
        return None
    try:
        value = json.loads(files.read(f"{name}.json"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _replace(path: Path, before: str | None, after: str) -> None:
    """Write a file whole or not at all, behind its links, with the mode it had; raises SettingsError when it changed meanwhile."""
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(real.stat().st_mode) if before is not None else 0o600
        temporary = real.with_name(f".{real.name}.{token_hex(4)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(after.encode())
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            if read(path) != before:
                raise SettingsError(f"{path} changed while it was edited", hint="run the command again", path=str(path))
            temporary.replace(real)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}", hint="check its permissions", path=str(path)) from error
