"""A home of Cursor, made from the description of its formats in ``docs/hosts/cursor.md``: nobody's conversations.

``python -m ctx_pipeline_tests.factories.cursor FOLDER`` writes it; ``samples/cursor/home`` is what it writes.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

TALK, WRITTEN, PLAIN, CHILD = (f"c0b50000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3, 4))
START = 1_772_359_200_000
"""2026-03-01T10:00:00Z in milliseconds"""

WHEN = "Sunday, Mar 1, 2026, 12:31 PM (UTC+3)"


def bubbles() -> dict[str, dict[str, Any]]:
    """The messages of a conversation: a question, a read, a command that fails, a refused one, an answer, an error."""

    def tool(name: str, arguments: dict[str, Any], result: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
        said = {"rawArgs": json.dumps(arguments), "result": json.dumps(result) if result is not None else None}
        return {"name": name, "status": status, "toolCallId": f"tool_{name}_{len(arguments)}", **said, **more}

    def bubble(seconds: int, kind: int, said: str = "", **more: Any) -> dict[str, Any]:
        return {"_v": 3, "type": kind, "text": said, "createdAt": f"2026-03-01T10:00:{seconds:02d}.000Z", **more}

    read = tool("read_file_v2", {"path": "/home/ada/birds/birds.txt"}, {"contents": "wren\nowl"})
    failed = tool("run_terminal_command_v2", {"command": "pytest -q", "cwd": ""}, {"output": "1 failed", "exitCode": 1})
    refused = tool("run_terminal_command_v2", {"command": "rm -rf nests"}, None, "cancelled", userDecision="rejected")
    return {
        "b1": bubble(0, 1, "count the birds", workspaceUris=["file:///home/ada/birds"]),
        "b2": bubble(2, 2, thinking={"text": "Look first."}, tokenCount={"inputTokens": 900, "outputTokens": 40}),
        "b3": bubble(3, 2, toolFormerData=read, tokenCount={"inputTokens": 0, "outputTokens": 0}),
        "b4": bubble(5, 2, toolFormerData=failed, modelInfo={"modelName": "gpt-5"}, tokenCount={"inputTokens": 1000, "outputTokens": 20}),
        "b5": bubble(6, 2, toolFormerData=refused),
        "b6": bubble(8, 2, "Two birds.", tokenCount={"inputTokens": 1100, "outputTokens": 10}),
        "b7": bubble(9, 3, "tweet"),
    }


def composer() -> dict[str, Any]:
    """What the database says of the conversation."""
    headers = [{"bubbleId": name, "type": bubble["type"]} for name, bubble in bubbles().items()]
    charged = {"claude-4.5-sonnet": {"amount": 2, "costInCents": 8}}
    about = {"_v": 10, "composerId": TALK, "name": "Counting birds", "status": "completed", "createdAt": START, "createdOnBranch": "main"}
    return {**about, "modelConfig": {"modelName": "claude-4.5-sonnet"}, "usageData": charged, "fullConversationHeadersOnly": headers}


def keys() -> dict[str, dict[str, Any]]:
    """Return keys and values of the conversation."""
    return {**{f"bubbleId:{TALK}:{name}": bubble for name, bubble in bubbles().items()}, f"composerData:{TALK}": composer()}


def transcript() -> list[dict[str, Any]]:
    """The transcript of an agent: roles and blocks, without times and ids."""
    asked = "<user_query>\nname the owls\n</user_query>"
    call = {"type": "tool_use", "name": "Shell", "input": {"command": "ls owls"}}
    return [
        {
            "role": "user",
            "message": {"content": [{"type": "text", "text": f"<timestamp>{WHEN}</timestamp>\n<open_files>a.txt</open_files>\n{asked}"}]},
        },
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "I look."}, call]}},
        {"role": "user", "message": {"content": [{"type": "tool_result", "content": "barn"}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "Barn owl."}]}},
        {"type": "turn_ended", "status": "success"},
        {"type": "moulted", "feathers": 2},
    ]


PLAIN_TEXT = """user:
<user_query>
find the nest
</user_query>

assistant:
[Thinking] It is in the oak.
I look at the oak.
[Tool call] Read
  path=oak.txt
[Tool result] Read
  a nest
The nest is in the oak.
"""


def rows() -> str:
    """Return the rows of the conversation as they are captured: values are bytes."""
    found = [
        {"row": {"key": key, "value": base64.b64encode(json.dumps(value).encode()).decode()}, "table": "cursorDiskKV"}
        for key, value in sorted(keys().items())
    ]
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in found)


def write_state(path: Path, more: dict[str, str] | None = None) -> None:
    """Write a state database with the conversation, and other keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("ItemTable", "cursorDiskKV"):
            connection.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        connection.execute("INSERT INTO ItemTable VALUES ('cursorAuth/accessToken', 'eyJhbGciOi-the-persons-own')")
        said = {**{key: json.dumps(value) for key, value in keys().items()}, **(more or {})}
        connection.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", [(key, value.encode()) for key, value in said.items()])


def write(home: Path) -> None:
    """Write the home; a stream of a database is a file named ``<path>#<stream>``."""
    folder = "projects/home-ada-owls/agent-transcripts"
    lines = "".join(json.dumps(record) + "\n" for record in transcript())
    child = "".join(json.dumps(record) + "\n" for record in transcript()[:2])
    files = {
        f"globalStorage/state.vscdb#{TALK}": rows(),
        f"{folder}/{TALK}/{TALK}.jsonl": lines,
        f"{folder}/{WRITTEN}/{WRITTEN}.jsonl": lines,
        f"{folder}/{WRITTEN}/subagents/{CHILD}.jsonl": child,
        f"{folder}/{PLAIN}.txt": PLAIN_TEXT,
    }
    for rel, said in files.items():
        path = home / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
