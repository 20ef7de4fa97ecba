"""Hand-made Codex homes: every function returns a record, ``write`` puts records into a rollout."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ctx_pipeline.hosts.codex import HOST
from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes

BIRTH = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
THREAD = "019ca9d4-0000-7000-8000-000000000001"
PARENT = "019c0000-0000-7000-8000-00000000000f"


def at(seconds: float) -> str:
    """Time of a record: seconds after BIRTH."""
    return (BIRTH + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def turn_id(seconds: float) -> str:
    """A UUIDv7 whose time is seconds after BIRTH."""
    millis = int((BIRTH + timedelta(seconds=seconds)).timestamp() * 1000)
    text = f"{millis:012x}"
    return f"{text[:8]}-{text[8:]}-7000-8000-000000000000"


def line(seconds: float, kind: str, payload: Any) -> dict[str, Any]:
    return {"timestamp": at(seconds), "type": kind, "payload": payload}


def meta(seconds: float = 0, thread: str = THREAD, **fields: Any) -> dict[str, Any]:
    body = {
        "id": thread,
        "timestamp": at(seconds),
        "cwd": "/code/app",
        "originator": "codex_cli_rs",
        "cli_version": "0.144.0",
        "source": "cli",
    }
    return line(seconds, "session_meta", body | fields)


def item(seconds: float, kind: str, **fields: Any) -> dict[str, Any]:
    return line(seconds, "response_item", {"type": kind} | fields)


def message(seconds: float, role: str, text: str) -> dict[str, Any]:
    block = "output_text" if role == "assistant" else "input_text"
    return item(seconds, "message", role=role, content=[{"type": block, "text": text}])


def event(seconds: float, kind: str, **fields: Any) -> dict[str, Any]:
    return line(seconds, "event_msg", {"type": kind} | fields)


def context(seconds: float, model: str = "gpt-5.5", **fields: Any) -> dict[str, Any]:
    return line(seconds, "turn_context", {"cwd": "/code/app", "model": model, "approval_policy": "never"} | fields)


def usage(total_input: int, cached: int, output: int, reasoning: int = 0, **fields: int) -> dict[str, int]:
    return {
        "input_tokens": total_input,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": reasoning,
        "total_tokens": total_input + output,
    } | fields


def tokens(seconds: float, total: dict[str, int] | None, last: dict[str, int] | None, limits: Any = None) -> dict[str, Any]:
    info = {k: v for k, v in (("total_token_usage", total), ("last_token_usage", last)) if v is not None}
    return event(seconds, "token_count", info=info or None, rate_limits=limits)


def lines(records: list[Any]) -> bytes:
    """Records as the bytes of a rollout."""
    return b"".join(json.dumps(r, separators=(",", ":")).encode() + b"\n" for r in records)


def rel(thread: str = THREAD, folder: str = "sessions/2026/03/01", suffix: str = ".jsonl") -> str:
    return f"{folder}/rollout-2026-03-01T12-00-00-{thread}{suffix}"


def stream(
    data: bytes | list[Any], thread: str = THREAD, *, path: str = "", generation: int = 0, current: bool = True, number: int = 1
) -> StreamBytes:
    """A captured stream over records or bytes."""
    body = lines(data) if isinstance(data, list) else data
    where = path or rel(thread)
    identity = HOST.files.identify("rollout", where, body[:65_536])
    assert identity is not None
    return StreamBytes(f"{number:016x}", "rollout", where, generation, body, identity.thread_id, identity.parent_thread_id, current)


def parse(*streams: StreamBytes, session: str = THREAD, hints: dict[str, dict[str, str]] | None = None) -> Parsed:
    """What the host makes of a session of these streams."""
    return HOST.records.parse(SessionInput("codex", session, streams, hints or {}))


def write(home: Path, records: list[Any], thread: str = THREAD, folder: str = "sessions/2026/03/01") -> Path:
    """Write a rollout into a home and return its path."""
    path = home / rel(thread, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(records))
    return path


def session(thread: str = THREAD, prompt: str = "mend the parser", *, begin: float = 0, calls: int = 2) -> list[dict[str, Any]]:
    """A usual session: a prompt, shell calls, an answer, and usage after each call."""
    records = [meta(begin, thread), context(begin + 1), event(begin + 2, "user_message", message=prompt)]
    for n in range(1, calls + 1):
        now = begin + 10 * n
        records += [
            item(now, "function_call", name="exec_command", call_id=f"call_{n}", arguments=json.dumps({"cmd": f"make step{n}"})),
            item(now + 1, "function_call_output", call_id=f"call_{n}", output=f"Process exited with code 0\nOutput:\nstep {n} done\n"),
            tokens(now + 2, usage(1000 * n, 600 * n, 50 * n, 20 * n), usage(1000, 600, 50, 20)),
        ]
    records += [
        event(begin + 10 * calls + 5, "agent_message", message="done", phase="final_answer"),
        event(begin + 10 * calls + 6, "task_complete"),
    ]
    return records


def state_database(path: Path, threads: list[dict[str, Any]], edges: list[tuple[str, str]] = ()) -> Path:
    """Write a ``state_5.sqlite`` with the columns that titles need."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE threads (id TEXT PRIMARY KEY, title TEXT NOT NULL, name TEXT, archived INTEGER NOT NULL DEFAULT 0)")
    connection.execute("CREATE TABLE thread_spawn_edges (parent_thread_id TEXT, child_thread_id TEXT PRIMARY KEY, status TEXT)")
    connection.execute("CREATE TABLE secrets (id TEXT, token TEXT)")
    connection.execute("INSERT INTO secrets VALUES ('a', 'do-not-read')")
    for row in threads:
        connection.execute("INSERT INTO threads VALUES (:id, :title, :name, :archived)", {"title": "", "name": None, "archived": 0} | row)
    connection.executemany("INSERT INTO thread_spawn_edges VALUES (?, ?, 'open')", edges)
    connection.commit()
    connection.close()
    return path
