"""Hand-made callback stores of DSPy programs: the log, and the tables that ctxrot wrote."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ctx_pipeline.storage.callback_store import LogRow, append, open_log

BEGIN = 1_767_225_600_000_000
"""2026-01-01 00:00:00 UTC"""


def react(session: str = "5e55104a0001", begin: int = BEGIN) -> list[LogRow]:
    """A program that asks a model, uses a tool and asks again."""
    second = 1_000_000
    system = {"role": "system", "content": "Your input fields are: question"}
    asked = {"role": "user", "content": "[[ ## question ## ]]\nHow tall is Mont Blanc?"}
    return [
        LogRow(begin, session, "session_start", None, None, {"mode": "react", "model": "openai/gpt-5.4-mini", "cwd": "/code/climb"}),
        LogRow(
            begin + 2 * second,
            session,
            "lm_call",
            "lm1",
            "m1",
            {
                "model": "openai/gpt-5.4-mini",
                "started": begin + second,
                "ended": begin + 2 * second,
                "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "cache_read_tokens": 600, "reasoning_tokens": 10},
                "cost": 0.000135,
                "messages": [system, asked],
                "completions": ["I look it up"],
                "reasoning": "a search will do",
            },
        ),
        LogRow(
            begin + 3 * second,
            session,
            "tool_call",
            "t1",
            "m1",
            {"tool": "search", "started": begin + 2 * second, "ended": begin + 3 * second, "inputs": {"q": "Mont Blanc"}, "output": 4808},
        ),
        LogRow(
            begin + 5 * second,
            session,
            "lm_call",
            "lm2",
            "m1",
            {
                "model": "openai/gpt-5.4-mini",
                "started": begin + 3 * second,
                "ended": begin + 5 * second,
                "usage": {"prompt_tokens": 1100, "completion_tokens": 20},
                "messages": [system, asked],
                "completions": ["4808 m"],
            },
        ),
        LogRow(begin + 6 * second, session, "session_end", None, None, {"state": "completed"}),
    ]


def write_log(path: Path, rows: list[LogRow]) -> Path:
    """Write log rows into a store and return its path."""
    connection = open_log(path)
    append(connection, rows)
    connection.close()
    return path


def write_legacy(path: Path, session: str = "c0ffee000001") -> Path:
    """Write the tables of an existing ``ctxrot.db``: one session, one call, one tool."""
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, started_at TEXT NOT NULL, ended_at TEXT, model TEXT, mode TEXT, terminal_state TEXT);
        CREATE TABLE lm_calls (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, seq INT NOT NULL, model TEXT NOT NULL,
          started_at TEXT NOT NULL, ended_at TEXT, duration_ms INT, prompt_tokens INT, completion_tokens INT,
          cache_read_tokens INT, cache_write_tokens INT, cost REAL, error TEXT, messages_json TEXT, completion TEXT,
          prompt_char_count INT, completion_char_count INT, call_type TEXT, iteration INT, parent_seq INT);
        CREATE TABLE tool_calls (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, after_seq INT NOT NULL, tool_name TEXT NOT NULL,
          started_at TEXT NOT NULL, ended_at TEXT, duration_ms INT, output_tokens_est INT, error TEXT, input_json TEXT, output_text TEXT,
          output_char_count INT);
        CREATE TABLE somebody_elses (id TEXT);
        """
    )
    connection.execute(
        "INSERT INTO sessions VALUES (?, '2026-02-01T10:00:00+00:00', '2026-02-01T10:00:09+00:00', NULL, 'predict', 'errored')", (session,)
    )
    connection.execute(
        "INSERT INTO lm_calls VALUES ('call1', ?, 1, 'openai/gpt-4o-mini', '2026-02-01T10:00:01+00:00', '2026-02-01T10:00:02.500000+00:00',"
        " 1500, 200, 30, 50, 0, 0.002, NULL, ?, 'Paris', NULL, NULL, NULL, NULL, NULL)",
        (session, '[{"role": "user", "content": "capital of France?"}]'),
    )
    connection.execute(
        "INSERT INTO tool_calls VALUES ('tool1', ?, 1, 'lookup', '2026-02-01T10:00:03+00:00', '2026-02-01T10:00:04+00:00', 1000, 2, 'boom',"
        " '{\"kwargs\": {\"x\": 1}}', '', 0)",
        (session,),
    )
    connection.commit()
    connection.close()
    return path
