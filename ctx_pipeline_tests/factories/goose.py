"""Homes of Goose, as lines and as a database, made from the format that docs/hosts describes; they are nobody's."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from ctx_pipeline.hosts.goose import HOST
from ctx_pipeline.storage.raw import databases

FOLDER = "/home/ada/notes"
BEGIN = 1_772_618_400
"""2026-03-04 10:00 UTC in seconds"""

OLD, NEW = "20260304_100000", "20260304_7"


def message(role: str, second: int, *content: dict[str, Any], **metadata: bool) -> dict[str, Any]:
    """Return a message."""
    return {"role": role, "created": BEGIN + second, "content": list(content)} | ({"metadata": metadata} if metadata else {})


def text(words: str) -> dict[str, Any]:
    """Return a text."""
    return {"type": "text", "text": words}


def asked(name: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a request for a tool."""
    return {"type": "toolRequest", "id": name, "toolCall": {"status": "success", "value": {"name": tool, "arguments": arguments}}}


def answered(name: str, words: str, *, status: str = "success") -> dict[str, Any]:
    """Return a tool's answer."""
    result = {"status": status, "value": [text(words)]} if status == "success" else {"status": status, "error": words}
    return {"type": "toolResponse", "id": name, "toolResult": result}


def messages() -> list[dict[str, Any]]:
    """Return the messages of a session with everything that happens in one."""
    edit = asked("t2", "developer__text_editor", {"command": "str_replace", "path": f"{FOLDER}/notes.md"})
    return [
        message("user", 1, text("add a table of contents to notes.md")),
        message(
            "assistant",
            2,
            {"type": "thinking", "thinking": "Three headings.", "signature": ""},
            asked("t1", "developer__shell", {"command": "make"}),
        ),
        message("user", 3, answered("t1", "no rule", status="error")),
        message("assistant", 4, text("I edit."), edit),
        message("user", 5, answered("t2", "The user has declined to run this tool.")),
        message("assistant", 6, {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Compaction complete"}),
        message("user", 7, text("Contents were asked for."), userVisible=False, agentVisible=True),
        message("assistant", 8, text("I go on."), userVisible=False, agentVisible=True),
        message("assistant", 9, text("Done."), {"type": "a-content-of-next-year"}),
    ]


def usage(last: tuple[int, int], whole: tuple[int, int]) -> dict[str, int]:
    """Return the counts of a session: of its last call, and of all."""
    one = {"input_tokens": last[0], "output_tokens": last[1], "total_tokens": sum(last)}
    return one | {"accumulated_input_tokens": whole[0], "accumulated_output_tokens": whole[1], "accumulated_total_tokens": sum(whole)}


def lines() -> str:
    """Return a session of the era of lines; its first line is about it."""
    about = {"working_dir": FOLDER, "description": "Contents for the notes", "message_count": 9} | usage((500, 20), (2_000, 90))
    return "".join(json.dumps(r) + "\n" for r in [about, *messages()])


def write_database(path: Path, *, old: bool = False) -> Path:
    """Write a session as a database; with ``old`` the one of the lines, as the host imports it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    counts = ", ".join(f"{name} INTEGER" for name in usage((0, 0), (0, 0)))
    connection.execute(
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, description TEXT, user_set_name BOOLEAN, session_type TEXT,"
        f" working_dir TEXT, created_at TIMESTAMP, updated_at TIMESTAMP, provider_name TEXT, model_config_json TEXT, {counts})"
    )
    connection.execute(
        "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT, role TEXT, content_json TEXT,"
        " created_timestamp INTEGER, timestamp TIMESTAMP, tokens INTEGER, metadata_json TEXT)"
    )
    name = OLD if old else NEW
    model = json.dumps({"model_name": "claude-sonnet-4-5", "context_limit": 200_000})
    row = (name, "Contents", "", True, "user", FOLDER, "2026-03-04 10:00:00", "2026-03-04 10:00:09", "anthropic", model)
    connection.execute(f"INSERT INTO sessions VALUES ({', '.join('?' * 16)})", (*row, *usage((500, 20), (2_000, 90)).values()))
    for number, m in enumerate(messages()):
        body = (f"m{number}", name, m["role"], json.dumps(m["content"]), m["created"], "2026-03-04", json.dumps(m.get("metadata", {})))
        columns = "message_id, session_id, role, content_json, created_timestamp, timestamp, metadata_json"
        connection.execute(f"INSERT INTO messages ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", body)
    connection.commit()
    connection.close()
    return path


def home() -> dict[str, str]:
    """Return the files of a home of both eras; a row stream as it is captured."""
    declared = HOST.files.databases["database"]
    with tempfile.TemporaryDirectory() as folder:
        path = write_database(Path(folder) / "sessions.db")
        rows = {f"sessions/sessions.db#{name}": databases.read(path, declared, name).decode() for name in databases.streams(path, declared)}
    return {f"sessions/{OLD}.jsonl": lines()} | rows
