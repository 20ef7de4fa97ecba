"""Copies of files of a store while others write: databases as of one moment, other files whole, each proved by its digest."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO

from ctx_pipeline.errors import StoreDamaged, StoreFull
from ctx_pipeline.storage import temporary
from ctx_pipeline.storage.connections import is_full, reading
from ctx_pipeline.storage.files import translated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_BLOCK = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy_file(source: Path, target: Path, *, modified_ns: int | None = None) -> str:
    """Copy a file whole or not at all, durably, for its owner alone; return the SHA-256 of what was read.

    Raises FileNotFoundError where the source is gone, and StoreDamaged where the copy does not
    read as what was written.
    """

    def copy(read: BinaryIO, written: BinaryIO) -> str:
        state = hashlib.sha256()
        while block := read.read(_BLOCK):
            state.update(block)
            written.write(block)
        return state.hexdigest()

    return write_through(source, target, copy, modified_ns=modified_ns)


def write_through(source: Path, target: Path, change: Callable[[BinaryIO, BinaryIO], str | None], *, modified_ns: int | None = None) -> str:
    """Write what ``change`` makes of a file, whole or not at all, durably, for its owner alone; return the SHA-256 of what lies there.

    Raises FileNotFoundError where the source is gone, and StoreDamaged where ``change`` returns
    the SHA-256 of what it wrote and the file does not read so.
    """
    _folder(target.parent)
    fresh = target.with_name(temporary.name())
    try:
        with source.open("rb") as read, os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
            expected = change(read, written)
            written.flush()
            os.fsync(written.fileno())
        told = sha256_of(fresh)
        if expected not in {None, told}:
            raise StoreDamaged(f"the copy {target} does not read as it was written", hint="check the disk", path=str(target))
        if modified_ns is not None:
            os.utime(fresh, ns=(modified_ns, modified_ns))
        fresh.replace(target)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise translated(error, target) from error
    finally:
        fresh.unlink(missing_ok=True)
    return told


def copy_database(source: Path, target: Path) -> str:
    """Copy a SQLite database as it is at one moment, whoever writes it; return the SHA-256 of the copy.

    Raises StoreDamaged where SQLite does not find the copy whole.
    """
    _folder(target.parent)
    fresh = target.with_name(temporary.name())
    try:
        os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with (
            closing(reading(source)) as read,
            closing(sqlite3.connect(fresh)) as written,
        ):
            read.backup(written)
            written.execute("PRAGMA journal_mode=DELETE")
            (answer,) = written.execute("PRAGMA quick_check(1)").fetchone()
        if answer != "ok":
            raise StoreDamaged(f"{source} is damaged: {answer}", hint="ctx repair", path=str(source))
        handle = os.open(fresh, os.O_RDWR)
        os.fsync(handle)
        os.close(handle)
        told = sha256_of(fresh)
        fresh.replace(target)
    except sqlite3.Error as error:
        if is_full(error):
            raise StoreFull(f"no room left for {target}", path=str(target)) from error
        raise StoreDamaged(f"{source} cannot be copied: {error}", hint="ctx repair", path=str(source)) from error
    except OSError as error:
        raise translated(error, target) from error
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    return told


def _folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
