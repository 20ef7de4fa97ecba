"""The schema of the log that DSPy callbacks write and the pipeline reads, shared by writer and readers.

One append-only table is the truth. Beside it stand the documented tables ``sessions``,
``lm_calls`` and ``tool_calls``, written in the same transaction for programs that read
them; rows of an older ``ctxrot.db`` stay in them untouched.

Columns of ``log``: ``seq`` (order of writing), ``at`` (microseconds since 1970 UTC),
``session_id`` (one tree of calls), ``kind``, ``call_id`` and ``parent_call_id`` (the
program's own ids), ``payload`` (JSON object). Kinds and the payload fields that readers
know:

- ``session_start``: mode, model, cwd, version, owner (the process, see below)
- ``module_start``, ``module_end``: module, error
- ``lm_call``, written when it ends: model, started, ended (microseconds), usage
  {prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens,
  reasoning_tokens} (prompt tokens include cached ones), cost (dollars), cache_hit,
  messages, completions, reasoning, finish_reason, tool_calls, parameters, attempts,
  call_type, iteration, number (order of ending in the session), parent_number, error
- ``tool_call``, written when it ends: tool, started, ended, inputs, output, error,
  after_number, output_tokens_est
- ``session_end``: state (completed, errored, abandoned)

``owner`` is the text of a :class:`ctx_pipeline.model.process.process_identity.Owner`: a session without an end
whose process is gone was abandoned. ``spills`` names the spill files that were taken in, so that none is taken
in twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

VERSION = 1
"""``user_version`` of the schema; an existing ``ctxrot.db`` has 0."""

KINDS = ("session_start", "session_end", "module_start", "module_end", "lm_call", "tool_call")

SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    call_id TEXT,
    parent_call_id TEXT,
    payload TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS log_by_session ON log (session_id, seq);
CREATE TRIGGER IF NOT EXISTS log_keeps_rows BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TABLE IF NOT EXISTS spills (name TEXT PRIMARY KEY, at INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    model TEXT,
    mode TEXT,
    terminal_state TEXT
);
CREATE TABLE IF NOT EXISTS lm_calls (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    model TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    duration_ms INTEGER,
    prompt_tokens INTEGER DEFAULT 0,
    completion_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0,
    cost REAL,
    error TEXT,
    messages_json TEXT,
    completion TEXT,
    prompt_char_count INTEGER,
    completion_char_count INTEGER,
    call_type TEXT,
    iteration INTEGER,
    parent_seq INTEGER
);
CREATE TABLE IF NOT EXISTS tool_calls (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    after_seq INTEGER NOT NULL DEFAULT 0,
    tool_name TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    duration_ms INTEGER,
    output_tokens_est INTEGER DEFAULT 0,
    error TEXT,
    input_json TEXT,
    output_text TEXT,
    output_char_count INTEGER
);
CREATE INDEX IF NOT EXISTS sessions_by_start ON sessions (started_at);
CREATE INDEX IF NOT EXISTS lm_calls_by_session ON lm_calls (session_id, seq);
CREATE INDEX IF NOT EXISTS tool_calls_by_session ON tool_calls (session_id, after_seq);
"""

LATER_COLUMNS: dict[str, dict[str, str]] = {
    "sessions": {"ended_at": "TEXT", "model": "TEXT", "mode": "TEXT", "terminal_state": "TEXT"},
    "lm_calls": {
        "ended_at": "TEXT",
        "duration_ms": "INTEGER",
        "cache_read_tokens": "INTEGER DEFAULT 0",
        "cache_write_tokens": "INTEGER DEFAULT 0",
        "cost": "REAL",
        "error": "TEXT",
        "messages_json": "TEXT",
        "completion": "TEXT",
        "prompt_char_count": "INTEGER",
        "completion_char_count": "INTEGER",
        "call_type": "TEXT",
        "iteration": "INTEGER",
        "parent_seq": "INTEGER",
    },
    "tool_calls": {
        "after_seq": "INTEGER NOT NULL DEFAULT 0",
        "ended_at": "TEXT",
        "duration_ms": "INTEGER",
        "output_tokens_est": "INTEGER DEFAULT 0",
        "error": "TEXT",
        "input_json": "TEXT",
        "output_text": "TEXT",
        "output_char_count": "INTEGER",
    },
}
"""table -> columns that stores of older programs may lack, with the type they are added with"""

INSERT = "INSERT INTO log (at, session_id, kind, call_id, parent_call_id, payload) VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT))"
"""takes the payload as text or as its UTF-8 bytes, which cost less memory"""


class LogRow(NamedTuple):
    """One fact to append; ``seq`` is given by the database."""

    at: int
    session_id: str
    kind: str
    call_id: str | None
    parent_call_id: str | None
    payload: dict[str, Any]


def encode(payload: dict[str, Any]) -> str:
    """Return a payload as the JSON text that is stored; keys sorted, odd values as their text."""
    return msgspec.json.encode(payload, enc_hook=str, order="sorted").decode()
