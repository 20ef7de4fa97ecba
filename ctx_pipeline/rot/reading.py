"""What a store says of its sessions, by the documented names; stores of any age are read as they are."""

from __future__ import annotations

import sqlite3
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.callback_log import LATER_COLUMNS
from ctx_pipeline.rot import database

if TYPE_CHECKING:
    from pathlib import Path

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
        return int(version), self._connection.total_changes

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
