"""Homes of OpenCode, as documents and as a database, made from the format that docs/hosts describes; nobody's records are in them."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from ctx_pipeline.hosts.opencode import HOST
from ctx_pipeline.storage.raw import databases

FOLDER = "/home/ada/notes"
BEGIN = 1_772_618_400_000
"""2026-03-04 10:00 UTC in milliseconds"""

MAIN, CHILD, FORK = "ses_main000000000001", "ses_child00000000001", "ses_fork000000000001"


def tokens(asked: int, said: int, *, thought: int = 0, read: int = 0, written: int = 0, total: int | None = None) -> dict[str, Any]:
    """Return the tokens of a step."""
    found = {"input": asked, "output": said, "reasoning": thought, "cache": {"read": read, "write": written}}
    return found if total is None else found | {"total": total}


def session(name: str = MAIN, title: str = "Contents for the notes", **fields: Any) -> dict[str, Any]:
    """Return the document of a session."""
    about = {"id": name, "projectID": "p1", "directory": FOLDER, "title": title, "version": "1.2.10"}
    return about | {"time": {"created": BEGIN, "updated": BEGIN + 60_000}} | fields


def user(name: str, second: int, owner: str = MAIN) -> dict[str, Any]:
    """Return a message of the person."""
    return {"id": name, "sessionID": owner, "role": "user", "time": {"created": BEGIN + 1_000 * second}, "agent": "build"}


def assistant(name: str, second: int, used: dict[str, Any], cost: float = 0, owner: str = MAIN, **fields: Any) -> dict[str, Any]:
    """Return a message of the model."""
    about = {
        "id": name,
        "sessionID": owner,
        "role": "assistant",
        "modelID": "claude-sonnet-4-5",
        "providerID": "anthropic",
        "agent": "build",
    }
    when = {"created": BEGIN + 1_000 * second, "completed": BEGIN + 1_000 * second + 500}
    return about | {"time": when, "path": {"cwd": FOLDER, "root": FOLDER}, "cost": cost, "tokens": used} | fields


def part(name: str, message: str, kind: str, owner: str = MAIN, **fields: Any) -> dict[str, Any]:
    """Return a part of a message."""
    return {"id": name, "messageID": message, "sessionID": owner, "type": kind} | fields


def tool(name: str, message: str, what: str, given: dict[str, Any], *, owner: str = MAIN, **state: Any) -> dict[str, Any]:
    """Return a tool call."""
    when = {"start": BEGIN + 5_000, "end": BEGIN + 6_000}
    return part(
        name, message, "tool", owner, tool=what, callID=f"call_{name}", state={"input": given, "time": when, "status": "completed"} | state
    )


def everything() -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return sessions, messages and parts of one session with everything that happens in it, and of one that it started."""
    first, second = tokens(100, 40, thought=10, read=2_000, written=300), tokens(20, 30, read=2_400)
    messages = [
        user("msg_01", 1),
        assistant("msg_02", 2, second, 0.0093),
        user("msg_03", 20),
        assistant("msg_04", 21, tokens(50, 25, thought=5, read=100, total=175), summary=True),
        assistant("msg_05", 30, tokens(0, 0), error={"name": "MessageAbortedError", "data": {"message": "Aborted"}}),
        user("msg_06", 5, CHILD),
        assistant("msg_07", 6, tokens(300, 8), owner=CHILD, agent="explore"),
    ]
    parts = [
        part("prt_01", "msg_01", "text", text="add a table of contents to notes.md"),
        part("prt_02", "msg_01", "text", text="Called the Read tool", synthetic=True),
        part("prt_03", "msg_01", "file", mime="text/plain", filename="notes.md", url=f"file://{FOLDER}/notes.md"),
        part("prt_04", "msg_02", "step-start"),
        part("prt_05", "msg_02", "reasoning", text="Three headings.", time={"start": BEGIN + 3_000, "end": BEGIN + 3_500}),
        tool(
            "prt_06",
            "msg_02",
            "bash",
            {"command": "make check"},
            output="no rule",
            metadata={"exit": 2, "output": "no rule"},
            title="check",
        ),
        tool("prt_07", "msg_02", "task", {"prompt": "look"}, output="two files", metadata={"sessionId": CHILD}, title="look"),
        part("prt_08", "msg_02", "step-finish", reason="tool-calls", cost=0.0083, tokens=first),
        tool(
            "prt_09", "msg_02", "edit", {"filePath": f"{FOLDER}/notes.md"}, status="error", error="The user rejected permission to use this"
        ),
        part("prt_10", "msg_02", "text", text="The check fails.", time={"start": BEGIN + 7_000, "end": BEGIN + 7_500}),
        part("prt_11", "msg_02", "step-finish", reason="stop", cost=0.001, tokens=second),
        part("prt_12", "msg_02", "patch", hash="abc", files=[f"{FOLDER}/notes.md"]),
        part("prt_13", "msg_03", "compaction", auto=True),
        part("prt_14", "msg_04", "text", text="Contents were asked for."),
        part("prt_15", "msg_04", "a-part-of-next-year"),
        part("prt_16", "msg_06", "text", CHILD, text="look for headings"),
        part("prt_17", "msg_07", "text", CHILD, text="Three."),
    ]
    child = session(CHILD, "Child session - 2026-03-04T10:00:05.000Z", parentID=MAIN)
    return [session(), child], messages, parts


def documents() -> dict[str, str]:
    """Return the files of a home of the era of documents."""
    sessions, messages, parts = everything()
    files = {f"storage/session/p1/{s['id']}.json": json.dumps(s, indent=2) for s in sessions}
    files |= {f"storage/message/{m['sessionID']}/{m['id']}.json": json.dumps(m, indent=2) for m in messages}
    return files | {f"storage/part/{p['messageID']}/{p['id']}.json": json.dumps(p, indent=2) for p in parts}


def forked() -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the session and a fork of it: copies of its messages and parts under new ids."""
    sessions, messages, parts = everything()
    new = [m | {"id": m["id"].replace("msg_0", "msg_9"), "sessionID": FORK} for m in messages if m["sessionID"] == MAIN]
    copied = [
        p | {"id": p["id"].replace("prt_", "prt_9"), "messageID": p["messageID"].replace("msg_0", "msg_9"), "sessionID": FORK}
        for p in parts
        if p["sessionID"] == MAIN
    ]
    new += [user("msg_98", 50, FORK), assistant("msg_99", 51, tokens(11, 7), owner=FORK)]
    return [*sessions, session(FORK, "Contents for the notes (fork #1)")], [*messages, *new], [*parts, *copied]


def write_database(path: Path, made: tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]) -> Path:
    """Write sessions, messages and parts as a database of the later era, its newest rows still in the log."""
    sessions, messages, parts = made
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    times = "time_created INTEGER, time_updated INTEGER"
    connection.execute(
        f"CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT, version TEXT, {times})"
    )
    connection.execute(f"CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, data TEXT, {times})")
    connection.execute(f"CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT, {times})")
    connection.execute(f"CREATE TABLE todo (session_id TEXT, content TEXT, status TEXT, priority TEXT, position INTEGER, {times})")
    for s in sessions:
        created = s["time"]["created"]
        row = (s["id"], "p1", s.get("parentID"), s["directory"], s["title"], s["version"], created, created)
        connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    for m in messages:
        body = {k: v for k, v in m.items() if k not in {"id", "sessionID"}}
        created = m["time"]["created"]
        connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (m["id"], m["sessionID"], json.dumps(body), created, created))
    for p in parts:
        body = {k: v for k, v in p.items() if k not in {"id", "sessionID", "messageID"}}
        row = (p["id"], p["messageID"], p["sessionID"], json.dumps(body), BEGIN, BEGIN)
        connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.execute("INSERT INTO todo VALUES (?, 'write the contents', 'pending', 'high', 0, ?, ?)", (MAIN, BEGIN, BEGIN))
    connection.commit()
    connection.close()
    return path


def database_streams(path: Path, made: tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]) -> dict[str, str]:
    """Return the rows of each session as they are captured."""
    declared = HOST.files.databases["database"]
    write_database(path, made)
    return {f"{path.name}#{name}": databases.read(path, declared, name).decode() for name in databases.streams(path, declared)}


def sample_home() -> dict[str, str]:
    """Return a home that was brought to the era of the database: the main session is there twice."""
    with tempfile.TemporaryDirectory() as folder:
        rows = database_streams(Path(folder) / "opencode.db", everything())
    return {rel: text for rel, text in documents().items() if CHILD not in text} | rows
