"""The SQLite file of a store: opened, extended, appended to; the documented tables follow the log."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import weakref
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

import msgspec

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import CtxError, SchemaTooNew, StoreDamaged, StoreError, StoreFull, StoreLocked
from ctx_pipeline.model.callback_log import INSERT, LATER_COLUMNS, SCHEMA, VERSION
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.process.process_identity import Owner
from ctx_pipeline.rot.content import as_text, chars, decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.settings import Settings


Entry = tuple[int, str, str, str | None, str | None, str | bytes]
"""at, session, kind, call, parent call, payload as JSON text or its UTF-8 bytes"""

WAIT_SECONDS = 5.0

COLUMNS: dict[str, tuple[str, ...]] = {
    "lm_calls": (
        *("id", "session_id", "seq", "model", "started_at", "ended_at", "duration_ms"),
        *("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "cost", "error", "messages_json", "completion"),
        *("prompt_char_count", "completion_char_count", "call_type", "iteration", "parent_seq"),
    ),
    "tool_calls": (
        *("id", "session_id", "after_seq", "tool_name", "started_at", "ended_at", "duration_ms"),
        *("output_tokens_est", "error", "input_json", "output_text", "output_char_count"),
    ),
}
"""documented table of calls -> its columns, in the order in which rows are put together here"""


_OWN_COLUMNS: dict[str, set[str]] = {
    "log": {"seq", "at", "session_id", "kind", "payload"},
    "sessions": {"id", "started_at"},
    "lm_calls": {"id", "session_id", "seq"},
    "tool_calls": {"id", "session_id", "tool_name"},
}
"""table -> the columns without which it is another program's"""

_TEXTS = frozenset({"messages_json", "input_json"})


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Stored(msgspec.Struct):
    mode: str | None = None
    model: str | None = None
    state: str | None = None
    owner: str | None = None
    error: str | None = None
    started: int | None = None
    ended: int | None = None
    usage: _Usage | None = None
    cost: float | None = None
    messages: msgspec.Raw = msgspec.Raw()
    completions: msgspec.Raw = msgspec.Raw()
    call_type: str | None = None
    iteration: int | None = None
    number: int | None = None
    parent_number: int | None = None
    tool: str | None = None
    inputs: msgspec.Raw = msgspec.Raw()
    output: msgspec.Raw = msgspec.Raw()
    after_number: int | None = None
    output_tokens_est: int | None = None


_payload = msgspec.json.Decoder(_Stored)


class Holder(Protocol):
    """Something that holds a connection to a store."""

    path: Path

    @property
    def holds(self) -> bool:
        """Whether the connection is open."""


_holders: weakref.WeakSet[Holder] = weakref.WeakSet()


def hold(holder: Holder) -> None:
    """Remember who has a connection: a forked child must not open the same file beside an inherited one."""
    _holders.add(holder)


def connected_stores() -> set[Path]:
    """Return the stores to which this process has a connection."""
    return {h.path.resolve() for h in list(_holders) if h.holds}


def iso(at: int | None) -> str | None:
    """Return microseconds since 1970 as the documented ISO 8601 text with ``+00:00``."""
    return None if at is None else datetime.fromtimestamp(at / 1_000_000, UTC).isoformat()


def connect(path: Path, *, wait: float = WAIT_SECONDS) -> sqlite3.Connection:
    """Return a connection that may write; the file is made (0600), migrated and set to WAL as needed.

    Raises SchemaTooNew, StoreLocked, StoreFull or StoreDamaged.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
    except (sqlite3.Error, OSError) as error:
        raise named(error, path) from error
    try:
        _extend(connection, path)
    except (sqlite3.Error, OSError) as error:
        connection.close()
        raise named(error, path) from error
    except StoreError:
        connection.close()
        raise
    return connection


State = tuple[tuple[int, int], tuple[int, int] | None]
"""Size and time of a store that no program has open, and of the rows in its log."""


def connect_readonly(path: Path, *, wait: float = WAIT_SECONDS) -> tuple[sqlite3.Connection, State | None]:
    """Return a connection that cannot write and makes no file beside the store, and the state at which it stays, None of one that moves.

    Raises StoreError where there is no store, StoreDamaged for another file.
    """
    if not path.is_file():
        raise StoreError(f"there is no callback store at {path}", hint="name one with --db, or run the program first", path=str(path))
    try:
        state = still(path)
        with _as_it_lies(path, state) as uri:
            connection = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA query_only = 1")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except (sqlite3.Error, OSError) as error:
        raise named(error, path) from error
    return connection, state


@contextmanager
def _as_it_lies(path: Path, state: State | None) -> Iterator[str]:
    """Yield the address under which SQLite reads a store, newest rows included, without making a log or its index beside it."""
    if state is None:
        yield f"{path.as_uri()}?mode=ro"
    elif state[-1] is None:
        yield f"{path.as_uri()}?mode=ro&immutable=1"
    else:
        # rows of a program that ended in the middle: the copy is needed until it is open
        with TemporaryDirectory(prefix="ctx-", ignore_cleanup_errors=True) as folder:
            copy = Path(folder) / "copy.db"
            shutil.copyfile(path, copy)
            shutil.copyfile(_beside(path, "wal"), _beside(copy, "wal"))
            yield f"{copy.as_uri()}?mode=rw"


def still(path: Path) -> State | None:
    """Return the state of a store, None of one that is gone, that a program has open, or that has no log."""
    log = _beside(path, "wal")
    try:
        with path.open("rb") as file:
            logged = file.read(20)[18:19] == b"\x02"
        if not logged or _beside(path, "shm").exists():
            return None
        store, rows = path.stat(), log.stat() if log.exists() else None
    except FileNotFoundError:
        return None
    return (store.st_size, store.st_mtime_ns), (rows.st_size, rows.st_mtime_ns) if rows is not None and rows.st_size else None


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}-{what}")


def _extend(connection: sqlite3.Connection, path: Path) -> None:
    if _foreign(connection):
        raise StoreError(f"{path.name} is the database of another program", hint="name another file for the store", path=str(path))
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        message = f"{path.name} has schema {version}, this version knows {VERSION}"
        raise SchemaTooNew(message, hint="update ctx_pipeline", path=str(path), version=version)
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if version == VERSION and not lacking(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table, columns in lacking(connection).items():
            for column, kind in columns.items():
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        for statement in _statements(SCHEMA):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _foreign(connection: sqlite3.Connection) -> bool:
    """Tell whether a database has tables, and they are not those of a store; nothing is changed."""
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")}
    ours = names & _OWN_COLUMNS.keys()
    if names and not ours:
        return True
    return any(_OWN_COLUMNS[table] - {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} for table in ours)


def _statements(script: str) -> list[str]:
    found, part = [], ""
    for line in script.splitlines():
        part += line + "\n"
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found


def lacking(connection: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """Return the columns that existing documented tables do not have; a table that is missing is not named."""
    found: dict[str, dict[str, str]] = {}
    for table, columns in LATER_COLUMNS.items():
        present = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        missing = {name: kind for name, kind in columns.items() if name not in present}
        if present and missing:
            found[table] = missing
    return found


def append(connection: sqlite3.Connection, entries: Iterable[Entry], *, batch: str | None = None, after: str | None = None) -> bool:
    """Append entries to the log and follow them in the tables, in one transaction.

    A named batch is taken in once: False, and nothing appended, when it was before.
    ``after`` names the batch of this process whose place in the list this one takes.
    Raises sqlite3.Error and leaves nothing then.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        if batch is not None:
            taken = connection.execute("INSERT OR IGNORE INTO spills VALUES (?, ?)", (batch, time.time_ns() // 1000)).rowcount
            if not taken:
                connection.execute("ROLLBACK")
                return False
        if after is not None:
            connection.execute("DELETE FROM spills WHERE name = ?", (after,))
        for entry in entries:
            connection.execute(INSERT, entry)
            _follow(connection, entry)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return True


def _follow(connection: sqlite3.Connection, entry: Entry) -> None:
    at, session, kind, call, _, text = entry
    try:
        body = _payload.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return
    if kind == "session_start":
        connection.execute(
            "INSERT INTO sessions (id, started_at, model, mode) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET started_at = min(started_at, excluded.started_at), "
            "model = coalesce(model, excluded.model), mode = coalesce(mode, excluded.mode)",
            (session, iso(at), body.model, body.mode),
        )
    elif kind == "session_end":
        connection.execute(
            "INSERT INTO sessions (id, started_at, ended_at, terminal_state) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET ended_at = excluded.ended_at, terminal_state = excluded.terminal_state",
            (session, iso(at), iso(at), body.state),
        )
    elif kind == "lm_call" and call is not None:
        connection.execute(insert("lm_calls"), _lm_row(at, session, call, body))
        connection.execute("UPDATE sessions SET model = ? WHERE id = ? AND model IS NULL", (body.model, session))
    elif kind == "tool_call" and call is not None:
        connection.execute(insert("tool_calls"), _tool_row(at, session, call, body))


def insert(table: str) -> str:
    """Return the statement that adds a row to a table of calls, or replaces the one of the same id."""
    columns = COLUMNS[table]
    places = ("CAST(? AS TEXT)" if name in _TEXTS else "?" for name in columns)
    return f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join(places)})"


def _lm_row(at: int, session: str, call: str, body: _Stored) -> tuple:
    usage = body.usage or _Usage()
    began, ended = body.started if body.started is not None else at, body.ended if body.ended is not None else at
    messages = memoryview(body.messages) or None
    completion = _first(body.completions)
    return (
        *(call, session, body.number or 0, body.model or "unknown", iso(began), iso(ended), (ended - began) // 1000),
        *(usage.prompt_tokens or 0, usage.completion_tokens or 0, usage.cache_read_tokens or 0, usage.cache_write_tokens or 0),
        *(body.cost, body.error, messages, completion),
        *(None if messages is None else chars(decoded(body.messages)), None if completion is None else len(completion)),
        *(body.call_type, body.iteration, body.parent_number),
    )


def _first(completions: msgspec.Raw) -> str | None:
    texts = decoded(completions) if memoryview(completions) else None
    first = texts[0] if isinstance(texts, list) and texts else None
    return first if first is None or isinstance(first, str) else as_text(first)


def _tool_row(at: int, session: str, call: str, body: _Stored) -> tuple:
    began, ended = body.started if body.started is not None else at, body.ended if body.ended is not None else at
    inputs, output = memoryview(body.inputs) or None, body.output
    text = as_text(decoded(output)) if memoryview(output) else None
    return (
        *(call, session, body.after_number or 0, body.tool or "unknown", iso(began), iso(ended), (ended - began) // 1000),
        *(body.output_tokens_est or 0, body.error, inputs, text, None if text is None else len(text)),
    )


def mark_abandoned(connection: sqlite3.Connection) -> list[str]:
    """End every session whose process on this machine is gone and return their ids. Raises sqlite3.Error."""
    ended: list[Entry] = []
    for session, text, last in connection.execute(
        "SELECT s.session_id, s.payload, (SELECT max(l.at) FROM log l WHERE l.session_id = s.session_id) FROM sessions t "
        "CROSS JOIN log s ON s.session_id = t.id AND s.kind = 'session_start' WHERE t.terminal_state IS NULL"
    ).fetchall():
        if gone(text):
            ended.append((last, session, "session_end", None, None, '{"state":"abandoned"}'))
    if ended:
        append(connection, ended)
    return [e[1] for e in ended]


def gone(payload: str) -> bool:
    """Tell whether the process that began a session, by its ``session_start`` payload, has ended on this machine."""
    owner = _owner(payload)
    return owner is not None and owner.dead


def alive(payload: str) -> bool:
    """Tell whether that process runs on this machine."""
    owner = _owner(payload)
    return owner is not None and owner.local and not owner.dead


def _owner(payload: str) -> Owner | None:
    try:
        return Owner.of(_payload.decode(payload).owner or "")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def named(error: Exception, path: Path) -> StoreError:
    """Return the error of this package that an error of SQLite or the system stands for."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreLocked(f"{path.name} is locked by another program", hint="try again when it has finished", path=str(path))
    if "full" in text or "disk I/O" in text or "No space" in text or "too large" in text:
        return StoreFull(f"no room left to write {path.name}", hint="free some space", path=str(path))
    if "readonly" in text or "unable to open" in text or isinstance(error, OSError):
        return StoreError(f"{path} cannot be written: {text}", hint="give it a place that may be written", path=str(path))
    return StoreDamaged(
        f"{path.name} cannot be used as a callback store: {text}", hint="move the file away; a new one is made", path=str(path)
    )


# Where a callback's store lies, and how the sensor learns of it.


DEFAULT = "ctxrot.db"
VARIABLE = "CTX_CALLBACK_STORE"


def settings() -> Settings:
    """Return the settings in force; those of the environment alone when the config file cannot be read."""
    try:
        return settings_module.load()
    except (CtxError, OSError):
        return settings_module.bare()


def store_path(db_path: str | os.PathLike[str] = DEFAULT, *, chosen: Settings | None = None) -> Path:
    """Return the absolute path of a store: the one given, for the default one what ``CTX_CALLBACK_STORE`` names.

    The variable may list several, by commas; the first is written. A folder means
    ``ctxrot.db`` in it.
    """
    path = Path(db_path)
    if os.fspath(db_path) == DEFAULT:
        named = (chosen or settings()).environ.get(VARIABLE, "").partition(",")[0].strip()
        if named:
            path = Path(named).expanduser()
    if path.is_dir():
        path /= DEFAULT
    return path.absolute()


def announce(path: Path, home: Path) -> bool:
    """Drop one file into ``stores/`` of the home that names the store; True when it stands there."""
    name = home / "stores" / digest(str(path), size=16)
    try:
        if name.is_file() and name.read_text("utf-8") == str(path):
            return True
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        name.parent.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(str(path))
    except (OSError, UnicodeError):
        return False
    return True
