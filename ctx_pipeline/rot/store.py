"""``CtxRotStore``: the SQLite store of callbacks, by its documented methods."""

from __future__ import annotations

import sqlite3
import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.callback_log import LATER_COLUMNS, encode
from ctx_pipeline.rot import database, worker
from ctx_pipeline.rot.content import decoded

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ctx_pipeline.rot.database import Entry


# What a store says of its sessions, by the documented names; stores of any age are read as they are.


_SESSION = ("id", "started_at", "ended_at", "model", "mode", "terminal_state")
_GROWTH = ("seq", "prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "cost", "model")
_TREE = ("seq", "model", "prompt_tokens", "completion_tokens", "cost", "duration_ms", "call_type", "iteration", "parent_seq", "completion")
_CONTENT = ("seq", "messages_json", "completion", "prompt_char_count", "completion_char_count", "prompt_tokens", "completion_tokens")
_FEED = ("started_at", "session_id", "model", "prompt_tokens", "completion_tokens", "cache_read_tokens", "cost", "duration_ms", "error")
_TOOL_FEED = ("started_at", "session_id", "tool_name", "duration_ms", "output_tokens_est", "error")
_LM_FULL = ("id", "session_id", "seq", "model", "started_at", "prompt_tokens", "completion_tokens", *LATER_COLUMNS["lm_calls"])
_TOOL_FULL = ("id", "session_id", "tool_name", "started_at", *LATER_COLUMNS["tool_calls"])


class Reading:
    """The reading half of a store."""

    path: Path
    _connection: sqlite3.Connection
    _looks = 0
    """Times that a store was opened anew because a program wrote to it"""

    def get_latest_session_id(self) -> str | None:
        """Return the id of the session that began last, None for an empty store."""
        rows = self._rows("SELECT id FROM sessions ORDER BY started_at DESC LIMIT 1")
        return rows[0][0] if rows else None

    def get_session_ids(self, since: str | None = None, until: str | None = None, terminal_state: str | None = None) -> list[str]:
        """Return session ids by their beginning; both bounds are ISO 8601 texts, inclusive, and a whole day counts whole.

        A bound of ten characters is a day (UTC): ``until`` then takes in that day to its end.
        """
        if until is not None and len(until) == 10:
            until += "T23:59:59.999999+00:00"
        wanted = [("started_at >= ?", since), ("started_at <= ?", until)]
        where = " AND ".join(clause for clause, value in wanted if value is not None)
        rows = self._select("sessions", _SESSION, where or "1", tuple(v for _, v in wanted if v is not None), "started_at, id")
        return [r["id"] for r in rows if terminal_state is None or self._state(r) == terminal_state]

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        """Return id, started_at, ended_at, model, mode and terminal_state of a session, None for an unknown one."""
        rows = self._select("sessions", _SESSION, "id = ?", (session_id,))
        if not rows:
            return None
        return {**rows[0], "terminal_state": self._state(rows[0])}

    def is_running(self, session_id: str) -> bool:
        """Tell whether a session has no end yet and the process that began it runs on this machine."""
        begun = self._begun(session_id) if self._has_log else None
        if begun is None or not database.alive(begun):
            return False
        session = self.get_session(session_id)
        return session is not None and session["terminal_state"] is None

    def get_session_summary(self, session_id: str) -> dict[str, Any]:
        """Return the totals of a session's calls; zeros for an unknown one."""
        calls = self._select("lm_calls", (*_GROWTH, "duration_ms"), "session_id = ?", (session_id,))

        def total(name: str) -> int:
            return sum(c[name] or 0 for c in calls)

        prompt, read = total("prompt_tokens"), total("cache_read_tokens")
        return {
            "total_calls": len(calls),
            "total_prompt": prompt,
            "total_completion": total("completion_tokens"),
            "total_cache_read": read,
            "cache_hit_pct": round(read / prompt * 100 if prompt > 0 else 0.0, 1),
            "total_cost": sum(c["cost"] or 0 for c in calls),
            "total_duration_ms": total("duration_ms"),
            "max_prompt_tokens": max((c["prompt_tokens"] or 0 for c in calls), default=0),
        }

    def get_growth_data(self, session_id: str) -> list[dict[str, Any]]:
        """Return tokens, cost and model of each call of a session, in the order in which they ended."""
        return self._select("lm_calls", _GROWTH, "session_id = ?", (session_id,), "seq")

    def get_tool_impact(self, session_id: str) -> list[dict[str, Any]]:
        """Return tool_name, call_count and avg_tokens (whole, of estimates) of each tool, the largest first."""
        sizes: dict[str, list[int]] = {}
        for call in self._select("tool_calls", ("tool_name", "output_tokens_est"), "session_id = ?", (session_id,)):
            sizes.setdefault(call["tool_name"], []).append(call["output_tokens_est"] or 0)
        rows = [{"tool_name": name, "call_count": len(s), "avg_tokens": sum(s) // len(s)} for name, s in sizes.items()]
        return sorted(rows, key=lambda r: -r["avg_tokens"])

    def get_tools_by_iteration(self, session_id: str) -> dict[int, list[dict[str, Any]]]:
        """Return seq of the call before -> tool_name, output_tokens_est and duration_ms of the tools that ran after it."""
        names = ("after_seq", "tool_name", "output_tokens_est", "duration_ms")
        found: dict[int, list[dict[str, Any]]] = {}
        for call in self._select("tool_calls", names, "session_id = ?", (session_id,), "after_seq, started_at"):
            found.setdefault(call.pop("after_seq") or 0, []).append(call)
        return found

    def get_rlm_tree_data(self, session_id: str) -> list[dict[str, Any]]:
        """Return the calls of a session with their place in an RLM: action, sub_query or extract.

        A store that was written without ``extract`` reports the last action as one when it
        has a smaller prompt than the one before.
        """
        rows = self._select("lm_calls", _TREE, "session_id = ?", (session_id,), "seq")
        actions = [r for r in rows if r["call_type"] == "action"]
        if len(actions) > 1 and actions[-1]["prompt_tokens"] < actions[-2]["prompt_tokens"]:
            actions[-1]["call_type"] = "extract"
        return rows

    def get_feed_sessions(self, limit: int = 200) -> list[dict[str, Any]]:
        """Return the sessions that have a model call, the newest first, with their totals."""
        rows = self._rows(
            "SELECT min(c.started_at) AS began, c.session_id, sum(c.prompt_tokens), sum(c.completion_tokens), "
            f"{self._sum('cache_read_tokens')}, {self._sum('cost')}, {self._sum('duration_ms')}, count(*), "
            f"{'count(c.error)' if 'error' in self._columns['lm_calls'] else '0'} "
            "FROM lm_calls c GROUP BY c.session_id ORDER BY began DESC LIMIT ?",
            (limit,),
        )
        names = ("started_at", "session_id", "prompt_tokens", "completion_tokens", "cache_read_tokens", "cost", "duration_ms")
        feed = []
        for row in rows:
            found = dict(zip((*names, "call_count", "error_count"), row, strict=True))
            last = self._rows("SELECT model FROM lm_calls WHERE session_id = ? ORDER BY seq DESC LIMIT 1", (row[1],))
            session = self.get_session(row[1])
            feed.append({**found, "model": last[0][0], "terminal_state": session["terminal_state"] if session else None})
        return feed

    def get_feed_lm_calls(self, session_id: str | None = None, limit: int = 200) -> list[dict[str, Any]]:
        """Return model calls, the newest first."""
        return self._feed("lm_calls", _FEED, session_id, limit)

    def get_feed_tool_calls(self, session_id: str | None = None, limit: int = 200) -> list[dict[str, Any]]:
        """Return tool calls, the newest first."""
        return self._feed("tool_calls", _TOOL_FEED, session_id, limit)

    def get_lm_call_content(self, session_id: str) -> list[dict[str, Any]]:
        """Return messages and completion of the calls that were stored with content, in order."""
        if "messages_json" not in self._columns["lm_calls"]:
            return []
        return self._select("lm_calls", _CONTENT, "session_id = ? AND messages_json IS NOT NULL", (session_id,), "seq")

    def get_tool_call_content(self, session_id: str) -> list[dict[str, Any]]:
        """Return input and output of the tool calls that were stored with content, in order of their beginning."""
        if "input_json" not in self._columns["tool_calls"]:
            return []
        names = ("id", "input_json", "output_text", "output_char_count")
        rows = self._select("tool_calls", names, "session_id = ? AND input_json IS NOT NULL", (session_id,), "started_at, id")
        return [{"tool_call_id": r.pop("id"), **r} for r in rows]

    def get_lm_calls_full(self, session_id: str) -> list[dict[str, Any]]:
        """Return every column of a session's model calls, in order."""
        return self._select("lm_calls", _LM_FULL, "session_id = ?", (session_id,), "seq")

    def get_tool_calls_full(self, session_id: str) -> list[dict[str, Any]]:
        """Return every column of a session's tool calls, by their beginning."""
        return self._select("tool_calls", _TOOL_FULL, "session_id = ?", (session_id,), "started_at, id")

    def get_log(self, session_id: str) -> list[dict[str, Any]]:
        """Return the log of a session (at, kind, call_id, parent_call_id, payload as text), empty for one of an older store."""
        if not self._has_log:
            return []
        names = ("seq", "at", "kind", "call_id", "parent_call_id", "payload")
        rows = self._rows(f"SELECT {', '.join(names)} FROM log WHERE session_id = ? ORDER BY seq", (session_id,))
        return [dict(zip(names, row, strict=True)) for row in rows]

    def get_log_after(self, seq: int, session_id: str | None = None) -> list[dict[str, Any]]:
        """Return the log rows behind a number, of one session or all: what was written since."""
        if not self._has_log:
            return []
        names = ("seq", "at", "session_id", "kind", "payload")
        clause, values = ("", ()) if session_id is None else (" AND session_id = ?", (session_id,))
        rows = self._rows(f"SELECT {', '.join(names)} FROM log WHERE seq > ?{clause} ORDER BY seq", (seq, *values))
        return [dict(zip(names, row, strict=True)) for row in rows]

    def get_last_log_seq(self) -> int:
        """Return the number of the newest log row, 0 without one."""
        rows = self._rows("SELECT max(seq) FROM log") if self._has_log else []
        return rows[0][0] or 0 if rows else 0

    def change_mark(self) -> tuple[int, int]:
        """Return two numbers that change when another program has written."""
        (version,) = self._rows("PRAGMA data_version")[0]
        return int(version), self._connection.total_changes + self._looks

    def _state(self, session: dict[str, Any]) -> str | None:
        """Return how a session ended; abandoned when nothing says so and its process is gone."""
        if session["terminal_state"] is not None or not self._has_log:
            known: str | None = session["terminal_state"]
            return known
        begun = self._begun(session["id"])
        return "abandoned" if begun is not None and database.gone(begun) else None

    def _begun(self, session_id: str) -> str | None:
        rows = self._rows("SELECT payload FROM log WHERE session_id = ? AND kind = 'session_start' LIMIT 1", (session_id,))
        return rows[0][0] if rows else None

    def _feed(self, table: str, names: tuple[str, ...], session_id: str | None, limit: int) -> list[dict[str, Any]]:
        where, values = ("1", ()) if session_id is None else ("session_id = ?", (session_id,))
        return self._select(table, names, where, values, f"started_at DESC, rowid DESC LIMIT {int(limit)}")

    def _sum(self, name: str) -> str:
        return f"sum(c.{name})" if name in self._columns["lm_calls"] else "NULL"

    def _select(
        self, table: str, names: tuple[str, ...], where: str, values: tuple[Any, ...] = (), order: str = "rowid"
    ) -> list[dict[str, Any]]:
        present = self._columns[table]
        if not present:
            return []
        wanted = ", ".join(name if name in present else f"NULL AS {name}" for name in names)
        rows = self._rows(f"SELECT {wanted} FROM {table} WHERE {where} ORDER BY {order}", values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise database.named(error, self.path) from error
        except sqlite3.Error as error:
            raise database.named(error, self.path) from error

    @cached_property
    def _columns(self) -> dict[str, set[str]]:
        return {table: {row[1] for row in self._rows(f"PRAGMA table_info({table})")} for table in LATER_COLUMNS}

    @cached_property
    def _has_log(self) -> bool:
        return bool(self._rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'log'"))


_TOKENS = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")


class CtxRotStore(Reading):
    """Sessions, model calls and tool calls of DSPy programs.

    ``read_only`` never writes a byte and raises StoreError where there is no store;
    otherwise the file is made or migrated, spill files of ended processes are taken in and
    their unfinished sessions marked abandoned. Times are seconds since 1970. Errors are
    StoreError and below: StoreLocked, StoreFull, StoreDamaged, SchemaTooNew.
    """

    def __init__(self, db_path: str | os.PathLike[str] = database.DEFAULT, read_only: bool = False) -> None:
        chosen = database.settings()
        self.path = database.store_path(db_path, chosen=chosen)
        self.read_only = read_only
        self._lock = threading.RLock()
        self._closed = True
        self._lay: database.State | None = None
        database.hold(self)
        if read_only:
            self._look()
            self._closed = False
            return
        self._connection = database.connect(self.path)
        try:
            worker.take_in_others(self._connection, self.path, chosen.home)
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

    def _look(self) -> None:
        """Open the store to read it, and note how it lay there if no program had it open: what is written later is not seen so."""
        self._connection, self._lay = database.connect_readonly(self.path)
        self._looks += 1

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple]:
        if self._lay is None:
            return super()._rows(query, values)
        with self._lock:
            while True:
                changed: StoreError | None = None
                try:
                    rows = super()._rows(query, values)
                except StoreError as error:
                    changed, rows = error, []
                if self._lay is None or self._lay == database.still(self.path):
                    if changed:
                        raise changed
                    return rows
                self._connection.close()
                self._look()

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
    if worker.waiting(path, database.settings().home):
        try:
            CtxRotStore(path).close()
        except StoreError:
            return


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _given(payload: dict[str, Any]) -> str:
    return encode({name: value for name, value in payload.items() if value is not None})


# Several callback stores watched together, those that are made later included.


T = TypeVar("T")

LOOK_SECONDS = 2.0
"""How often it is asked which stores there are; at every look while there are none."""


class Watched:
    """The stores that ``paths`` names, each opened for reading; one that cannot be read is left out and named in ``refused``."""

    def __init__(self, paths: Callable[[], Sequence[Path]]) -> None:
        self._paths = paths
        self._stores: dict[Path, CtxRotStore] = {}
        self._seen: dict[Path, int] = {}
        self._looked = float("-inf")
        self.refused: dict[Path, StoreError] = {}

    @property
    def stores(self) -> list[CtxRotStore]:
        """The stores that are open now."""
        now = time.monotonic()
        if not self._stores or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            wanted = list(self._paths())
            for path in [p for p in self._stores if p not in wanted or not p.exists()]:
                self._drop(path)
            for path in wanted:
                if path not in self._stores:
                    self._open(path)
        return list(self._stores.values())

    def change_mark(self) -> tuple[Any, ...]:
        """Return what changes when a program has written, or a store has come or gone."""
        return tuple((str(store.path), mark) for store in self.stores if (mark := self._asked(store, CtxRotStore.change_mark)))

    def get_feed_sessions(self, limit: int = 200) -> list[dict[str, Any]]:
        """Return the sessions of all stores, the newest first; each row names its store."""
        rows: list[dict[str, Any]] = []
        for store in self.stores:
            found = self._asked(store, lambda s: s.get_feed_sessions(limit)) or []
            rows += [{**row, "store": str(store.path)} for row in found]
        return sorted(rows, key=lambda r: r["started_at"] or "", reverse=True)[:limit]

    def store_of(self, path: str) -> CtxRotStore | None:
        """Return the open store of a row."""
        return next((s for s in self.stores if str(s.path) == path), None)

    def latest(self, count: int, session_id: str | None = None) -> list[dict[str, Any]]:
        """Return the last log rows of all stores in the order of their time; ``fresh`` goes on behind them."""
        rows: list[dict[str, Any]] = []
        for store in self.stores:
            last = self._asked(store, CtxRotStore.get_last_log_seq) or 0
            begin = 0 if session_id is not None else max(0, last - 20 * count)
            rows += self._after(store, begin, session_id) if count else []
            self._seen[store.path] = last
        return sorted(rows, key=_at)[-count:] if count else []

    def fresh(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """Return the log rows that no call has returned, in the order of their time; all of a store that has just come."""
        rows: list[dict[str, Any]] = []
        for store in self.stores:
            found = self._after(store, self._seen.setdefault(store.path, 0), session_id)
            if found:
                self._seen[store.path] = found[-1]["seq"]
            rows += found
        return sorted(rows, key=_at)

    def close(self) -> None:
        """Close every store."""
        for path in list(self._stores):
            self._drop(path)

    def _after(self, store: CtxRotStore, seq: int, session_id: str | None) -> list[dict[str, Any]]:
        rows = self._asked(store, lambda s: s.get_log_after(seq, session_id)) or []
        return [row for row in rows if row["kind"] != "module_end"]

    def _asked(self, store: CtxRotStore, question: Callable[[CtxRotStore], T]) -> T | None:
        """Return what a store says; one that has become unreadable is dropped."""
        try:
            return question(store)
        except StoreError as error:
            self.refused[store.path] = error
            self._drop(store.path)
            return None

    def _open(self, path: Path) -> None:
        try:
            self._stores[path] = CtxRotStore(path, read_only=True)
            self.refused.pop(path, None)
        except StoreError as error:
            self.refused[path] = error

    def _drop(self, path: Path) -> None:
        store = self._stores.pop(path, None)
        if store is not None:
            store.close()
        if not path.exists():
            self._seen.pop(path, None)


def _at(row: dict[str, Any]) -> int:
    return int(row["at"])
