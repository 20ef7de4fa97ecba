"""The sessions that were written last, as a hook reads them from the ledger."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.storage.ledger.connection import TABLES
from ctx_pipeline.storage.written_sessions import last_written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.feature("session.handoff")
def test_behind_many_newer_sessions_of_another_agent_the_main_thread_of_a_session_is_told_and_no_subagent(tmp_path: Path) -> None:
    sources = [("claude", f"k{number}", f"k{number}", f"{number}.jsonl", 100 + number) for number in range(3)]
    sources += [("codex", "cx", "cx", "main.jsonl", 5), ("codex", "cx", "sub", "subagent.jsonl", 9)]
    sources += [("opencode", "oc", None, "first.db", 6), ("opencode", "oc", None, "second.db", 7)]
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as writer:
        writer.executescript(TABLES)
        for place, (host, session, thread, rel, ns) in enumerate(sources):
            row = {"host": host, "root": "/r", "rel": rel, "mtime_ns": ns, "thread_id": thread, "session_id": session}
            row |= dict.fromkeys(("kind", "head_hash", "tail_hash", "marker", "state"), "")
            row |= {"stream": f"s{place}", "size": 1, "inode": 1, "generation": 0, "captured": 1}
            writer.execute(f"INSERT INTO sources ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", [*row.values()])
        for host, session in dict.fromkeys((host, session) for host, session, *_ in sources):
            writer.execute("INSERT INTO sessions (host, session_id, month, captured_fp) VALUES (?, ?, '2026-01', '')", [host, session])

    found = last_written(tmp_path / "ledger.db", 2)

    assert [(one.host, one.session_id, one.rel) for one in found] == [
        ("claude", "k2", "2.jsonl"),
        ("claude", "k1", "1.jsonl"),
        ("opencode", "oc", "second.db"),
        ("codex", "cx", "main.jsonl"),
    ]
