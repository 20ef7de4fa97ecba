"""``CtxRotStore``: the SQLite store of callbacks, by its documented methods."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING, Any, Self

from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.callback_log import encode
from ctx_pipeline.rot import database, overflow, store_locations
from ctx_pipeline.rot.content import decoded
from ctx_pipeline.rot.reading import Reading

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from ctx_pipeline.rot.database import Entry

_TOKENS = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")


class CtxRotStore(Reading):
    """Sessions, model calls and tool calls of DSPy programs.

    ``read_only`` never writes a byte and raises StoreError where there is no store;
    otherwise the file is made or migrated, spill files of ended processes are taken in and
    their unfinished sessions marked abandoned. Times are seconds since 1970. Errors are
    StoreError and below: StoreLocked, StoreFull, StoreDamaged, SchemaTooNew.
    """

    def __init__(self, db_path: str | os.PathLike[str] = store_locations.DEFAULT, read_only: bool = False) -> None:
        chosen = store_locations.settings()
        self.path = store_locations.store_path(db_path, chosen=chosen)
        self.read_only = read_only
        self._lock = threading.RLock()
        self._closed = True
        database.hold(self)
        if read_only:
            self._connection = database.connect_readonly(self.path)
            self._closed = False
            return
        self._connection = database.connect(self.path)
        try:
            overflow.take_in_others(self._connection, self.path, chosen.home)
            database.mark_abandoned(self._connection)
        except sqlite3.Error as error:
            self._connection.close()
            raise database.named(error, self.path) from error
        self._closed = False

    @property
    def holds(self) -> bool:
        """Whether the connection is open."""
        return not self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def insert_session(self, session_id: str, started_at: float, model: str | None = None, mode: str | None = None) -> None:
        """Add a session that began at ``started_at``."""
        self._append([(_micros(started_at), session_id, "session_start", None, None, encode({"model": model, "mode": mode}))])

    def update_session_end(self, session_id: str, ended_at: float, terminal_state: str) -> None:
        """Say when and how a session ended."""
        if self._only_in_tables(session_id):
            self._execute(
                "UPDATE sessions SET ended_at = ?, terminal_state = ? WHERE id = ?",
                (database.iso(_micros(ended_at)), terminal_state, session_id),
            )
        else:
            self._append([(_micros(ended_at), session_id, "session_end", None, None, encode({"state": terminal_state}))])

    def insert_lm_call(
        self,
        *,
        id: str,  # noqa: A002 - the documented name
        session_id: str,
        seq: int,
        model: str,
        started_at: float,
        ended_at: float,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        cost: float | None = None,
        error: str | None = None,
        messages_json: str | None = None,
        completion: str | None = None,
        prompt_char_count: int | None = None,
        completion_char_count: int | None = None,
        call_type: str | None = None,
        iteration: int | None = None,
        parent_seq: int | None = None,
    ) -> None:
        """Add a model call."""
        began, ended = _micros(started_at), _micros(ended_at)
        tokens = (prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens)
        row = (
            *(id, session_id, seq, model, database.iso(began), database.iso(ended), (ended - began) // 1000, *tokens, cost, error),
            *(messages_json, completion, prompt_char_count, completion_char_count, call_type, iteration, parent_seq),
        )
        payload = {
            "model": model,
            "started": began,
            "ended": ended,
            "usage": dict(zip(_TOKENS, tokens, strict=True)),
            "cost": cost,
            "error": error,
            "messages": None if messages_json is None else decoded(messages_json),
            "completions": None if completion is None else [completion],
            "call_type": call_type,
            "iteration": iteration,
            "number": seq,
            "parent_number": parent_seq,
        }
        self._insert("lm_calls", row, (ended, session_id, "lm_call", id, None, _given(payload)))

    def insert_tool_call(
        self,
        *,
        id: str,  # noqa: A002 - the documented name
        session_id: str,
        after_seq: int,
        tool_name: str,
        started_at: float,
        ended_at: float,
        output_tokens_est: int = 0,
        error: str | None = None,
        input_json: str | None = None,
        output_text: str | None = None,
        output_char_count: int | None = None,
    ) -> None:
        """Add a tool call."""
        began, ended = _micros(started_at), _micros(ended_at)
        row = (
            *(id, session_id, after_seq, tool_name, database.iso(began), database.iso(ended), (ended - began) // 1000),
            *(output_tokens_est, error, input_json, output_text, output_char_count),
        )
        payload = {
            "tool": tool_name,
            "started": began,
            "ended": ended,
            "inputs": None if input_json is None else decoded(input_json),
            "output": output_text,
            "error": error,
            "after_number": after_seq,
            "output_tokens_est": output_tokens_est,
        }
        self._insert("tool_calls", row, (ended, session_id, "tool_call", id, None, _given(payload)))

    def truncate_all(self) -> None:
        """Delete every session, and give the room back to the disk."""
        with self._lock:
            self._delete(None)
            self._execute("VACUUM")

    def delete_sessions(self, session_ids: Iterable[str]) -> None:
        """Delete some sessions with their calls."""
        with self._lock:
            self._delete(list(session_ids))

    def vacuum(self) -> None:
        """Give the room of deleted rows back to the disk."""
        self._execute("VACUUM")

    def close(self) -> None:
        """Close the store; doing it twice is allowed. The last writer to close removes the journal files."""
        if not self._closed:
            self._closed = True
            self._connection.close()

    def _insert(self, table: str, row: tuple, entry: Entry) -> None:
        with self._lock:
            if not self._only_in_tables(entry[1]):
                self._append([entry])
            self._execute(database.insert(table), row)

    def _only_in_tables(self, session_id: str) -> bool:
        """Tell whether a session was written by a program without the log: its rows stay together in the tables."""
        known = self._rows("SELECT 1 FROM sessions WHERE id = ?", (session_id,))
        return bool(known) and not self._rows("SELECT 1 FROM log WHERE session_id = ? LIMIT 1", (session_id,))

    def _append(self, entries: list[Entry]) -> None:
        with self._lock:
            try:
                database.append(self._connection, entries)
            except sqlite3.Error as error:
                raise database.named(error, self.path) from error

    def _delete(self, ids: list[str] | None) -> None:
        self._execute("BEGIN IMMEDIATE")
        try:
            for table, key in (*((t, "session_id") for t in ("log", "lm_calls", "tool_calls")), ("sessions", "id")):
                if ids is None:
                    self._execute(f"DELETE FROM {table}")
                for session in ids or ():
                    self._execute(f"DELETE FROM {table} WHERE {key} = ?", (session,))
        except BaseException:
            self._execute("ROLLBACK")
            raise
        self._execute("COMMIT")

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        with self._lock:
            try:
                self._connection.execute(statement, values)
            except sqlite3.Error as error:
                raise database.named(error, self.path) from error


def absorb_overflow(path: Path) -> None:
    """Take in the spill files that wait for a store, if there are any and it can be written now."""
    if overflow.waiting(path, store_locations.settings().home):
        try:
            CtxRotStore(path).close()
        except StoreError:
            return


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _given(payload: dict[str, Any]) -> str:
    return encode({name: value for name, value in payload.items() if value is not None})
