"""Figures of single sessions, kept so that what goes over all sessions is added up: one SQLite file that may go at any time.

A figure is kept with what the session's rows were when it was worked out. One that was
made of other rows is not given; whoever asks works it out of the tables.
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage.connections import readable_text, reading
from ctx_pipeline.storage.lake.manifests import FOLDER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store

FILE = "serving/sessions.db"

_PATIENCE = 5.0
_TABLES = """
CREATE TABLE IF NOT EXISTS figures (
    figure TEXT NOT NULL, host TEXT NOT NULL, session_id TEXT NOT NULL, made_of TEXT NOT NULL,
    first INTEGER, last INTEGER, total BLOB NOT NULL, PRIMARY KEY (figure, host, session_id)
) WITHOUT ROWID;
-- what is kept of which rows is asked at every run, without the figures themselves
CREATE INDEX IF NOT EXISTS kept_of ON figures (figure, host, session_id, made_of);
CREATE TABLE IF NOT EXISTS parts (
    figure TEXT NOT NULL, host TEXT NOT NULL, session_id TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (figure, host, session_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS versions (figure TEXT PRIMARY KEY, version TEXT NOT NULL) WITHOUT ROWID;
"""

Key = tuple[str, str]
"""host, session id"""


class Present(NamedTuple):
    """A session of the tables as they are now."""

    cell: Cell
    made_of: str
    """what identifies its rows; empty while they are being replaced"""
    with_origins: str
    """the same with the rows of the sessions that it holds calls of, or was told as its parents"""


class KeptFigure(NamedTuple):
    """A figure of a session: of all of it, and the first and the last moment that it speaks of."""

    made_of: str
    first: int | None
    last: int | None
    total: bytes


class NewFigure(NamedTuple):
    """A figure to keep."""

    figure: str
    key: Key
    kept: KeptFigure
    parts: bytes
    """the same by quarter of an hour"""


_present: dict[Path, tuple[tuple[Any, ...], dict[Key, Present]]] = {}


def present(store: Store) -> dict[Key, Present]:
    """Return every session that the tables hold; nobody may change it."""
    seen = stamp_of(store.home, "ledger.db", "ledger.db-wal", f"{FOLDER}/normalized")
    known = _present.get(store.home)
    if known is None or known[0] != seen:
        known = _present[store.home] = (seen, _read_present(store))
    return known[1]


def stamp_of(home: Path, *names: str) -> tuple[Any, ...]:
    """Return what changes when one of these files of a store does."""
    found = []
    for name in names:
        try:
            status = (home / name).stat()
            # a reader makes an empty log beside a database, and takes it away
            found.append((status.st_mtime_ns, status.st_size, status.st_ino) if status.st_size else (0, 0, 0))
        except FileNotFoundError:
            found.append((0, 0, 0))
    return tuple(found)


def _read_present(store: Store) -> dict[Key, Present]:
    known = {
        (host, session): (decoded, *made) if clean else ()
        for host, session, clean, decoded, *made in store.ledger.query(
            "SELECT host, session_id, normalized_fp IS captured_fp, code_version, normalized_fp, content_hash, rows FROM sessions"
        )
    }
    found: dict[Key, Present] = {}
    for cell, manifest in store.lake.manifests("normalized").items():
        for part in manifest.of_table("sessions"):
            for session in part.live:
                rows = known.get((cell.host, session))
                made_of = digest(manifest.hashes.get(session, ""), *rows, size=32) if rows else ""
                found[cell.host, session] = Present(cell, made_of, made_of)
    for key, origins in store.ledger.origins().items():
        if (one := found.get(key)) and one.made_of:
            rows_of = [found[origin].made_of for origin in sorted(origins) if origin in found]
            found[key] = one._replace(with_origins=digest(one.made_of, *rows_of, size=32))
    return found


def read_figures(home: Path, figure: str, version: str, known: Mapping[Key, KeptFigure] | None = None) -> dict[Key, KeptFigure]:
    """Return what is kept of a figure by this version; nothing where the file is missing or no such file.

    What is ``known`` of this version already, and was made of the same rows, is not read again.
    """
    if not (home / FILE).is_file():
        return {}
    before = known or {}
    with suppress(sqlite3.Error), closing(_reader(home)) as connection:
        if connection.execute("SELECT version FROM versions WHERE figure = ?", (figure,)).fetchone() != (version,):
            return {}
        columns = "SELECT host, session_id, made_of, first, last, total FROM figures WHERE figure = ?"
        found: dict[Key, KeptFigure] = {}
        new: Iterable[tuple[Any, ...]]
        if before:
            listed = connection.execute("SELECT host, session_id, made_of FROM figures WHERE figure = ?", (figure,)).fetchall()
            found = {(host, name): old for host, name, rows in listed if (old := before.get((host, name))) and old.made_of == rows}
            asked = ((figure, host, name) for host, name, _ in listed if (host, name) not in found)
            new = (row for one in asked for row in connection.execute(f"{columns} AND host = ? AND session_id = ?", one))
        else:
            new = connection.execute(columns, (figure,))
        for host, session, rows, first, last, sealed in new:
            if (total := _opened(sealed, figure, host, session, rows, first, last)) is not None:
                found[host, session] = KeptFigure(rows, first, last, total)
        return found
    return {}


def made_of(home: Path, versions: Mapping[str, str], keys: Collection[Key] | None = None) -> dict[str, dict[Key, str]]:
    """Return figure -> session (all, or these) -> what its figure was made of, of the figures that are kept by these versions."""
    found: dict[str, dict[Key, str]] = {figure: {} for figure in versions}
    if (home / FILE).is_file():
        with suppress(sqlite3.Error), closing(_reader(home)) as connection:
            known = set(connection.execute("SELECT figure, version FROM versions").fetchall()) & set(versions.items())
            of_figure = "SELECT host, session_id, made_of FROM figures WHERE figure = ?"
            for figure, _ in known:
                if keys is None:
                    rows = connection.execute(of_figure, (figure,)).fetchall()
                else:
                    of_session = f"{of_figure} AND host = ? AND session_id = ?"
                    rows = [row for key in keys for row in connection.execute(of_session, (figure, *key))]
                found[figure] = {(host, session): text for host, session, text in rows}
    return found


def parts(home: Path, figure: str, keys: Collection[Key]) -> dict[Key, bytes]:
    """Return what is kept of a figure by quarter of an hour, for some sessions."""
    found: dict[Key, bytes] = {}
    with suppress(sqlite3.Error), closing(_reader(home)) as connection:
        for key in keys:
            row = connection.execute("SELECT data FROM parts WHERE figure = ? AND host = ? AND session_id = ?", (figure, *key)).fetchone()
            if row and (data := _opened(row[0], figure, *key)) is not None:
                found[key] = data
    return found


SEAL = 16
"""Bytes of the digest before a figure."""


_PACKED = 400
"""Bytes from which on a figure is compressed."""
ZIPPED = b"\xc1"
"""What a compressed one begins with: a byte that MessagePack and JSON never use."""


def _sealed(data: bytes, *about: object) -> bytes:
    """Return bytes, the many of them compressed, behind a digest of them and of what they are about.

    SQLite has none, and a figure that changed is a wrong report.
    """
    return _under_seal(ZIPPED + zlib.compress(data) if len(data) >= _PACKED else data, *about)


def _under_seal(data: bytes, *about: object) -> bytes:
    return digest(data, *about, size=SEAL).encode() + data


def _opened(sealed: bytes, *about: object) -> bytes | None:
    """Return what was sealed; None where it is not what was kept."""
    return unzipped(sealed[SEAL:]) if _seal_holds(sealed, about) else None


def _seal_holds(sealed: bytes, about: Iterable[object]) -> bool:
    """Tell whether bytes of a database are what was sealed."""
    return isinstance(sealed, bytes) and len(sealed) > SEAL and _under_seal(sealed[SEAL:], *about) == sealed


def unzipped(data: bytes) -> bytes:
    """Return a figure as it was before it was compressed, if it was. Raises zlib.error."""
    return zlib.decompress(data[1:]) if data.startswith(ZIPPED) else data


def sealed_as_kept(home: Path) -> bool:
    """Tell whether every figure is what was kept, by its digest; every row is read. Raises sqlite3.Error."""
    with closing(_reader(home)) as connection:
        connection.text_factory = readable_text
        figures = connection.execute("SELECT total, figure, host, session_id, made_of, first, last FROM figures")
        by_quarter = connection.execute("SELECT data, figure, host, session_id FROM parts")
        return all(_seal_holds(sealed, about) for rows in (figures, by_quarter) for sealed, *about in rows)


def keep(home: Path, versions: Mapping[str, str], new: Sequence[NewFigure], there: Collection[Key] | None = None) -> None:
    """Keep new figures, and drop those of other versions and, where it is told which are there, of sessions that are not any more.

    Where nothing can be written now, nothing is: what is not kept is worked out when it is asked for.
    """
    path = home / FILE
    with suppress(OSError, sqlite3.Error):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            _write(path, versions, new, there)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode not in _NO_SUCH_FILE:
                raise
            path.unlink(missing_ok=True)  # what it held is worked out again
            _write(path, versions, new, there)


_NO_SUCH_FILE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""Errors of a file that is no database, or one of other tables."""


def _write(path: Path, versions: Mapping[str, str], rows: Sequence[NewFigure], there: Collection[Key] | None) -> None:
    with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
        path.chmod(0o600)
        connection.execute("PRAGMA secure_delete = ON")
        connection.executescript(_TABLES)
        connection.execute("BEGIN IMMEDIATE")
        known = dict(connection.execute("SELECT figure, version FROM versions").fetchall())
        for figure in known.keys() | versions.keys():
            if known.get(figure) != versions.get(figure):
                for table in ("figures", "parts", "versions"):
                    connection.execute(f"DELETE FROM {table} WHERE figure = ?", (figure,))
        connection.executemany("INSERT OR REPLACE INTO versions VALUES (?, ?)", sorted(versions.items()))
        if there is not None:
            gone = set(connection.execute("SELECT DISTINCT host, session_id FROM figures").fetchall()) - set(there)
            for table in ("figures", "parts"):
                connection.executemany(f"DELETE FROM {table} WHERE host = ? AND session_id = ?", sorted(gone))
        connection.executemany(
            "INSERT OR REPLACE INTO figures VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(n.figure, *n.key, *n.kept[:3], _sealed(n.kept.total, n.figure, *n.key, *n.kept[:3])) for n in rows],
        )
        connection.executemany(
            "INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?)", [(n.figure, *n.key, _sealed(n.parts, n.figure, *n.key)) for n in rows]
        )
        connection.execute("COMMIT")


def _reader(home: Path) -> sqlite3.Connection:
    return reading(home / FILE, _PATIENCE)
