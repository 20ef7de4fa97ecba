"""Homes of Pi, made from the format that docs/hosts describes; every record in them is invented."""

from __future__ import annotations

import json
from typing import Any

FOLDER = "/home/ada/notes"
BEGIN = 1_772_618_400_000
MAIN = "7d7d7d7d-0000-4000-8000-000000000007"
FORK = "8e8e8e8e-0000-4000-8000-000000000008"
FILE = f"sessions/--home-ada-notes--/2026-03-04T10-00-00-000Z_{MAIN}.jsonl"
FORK_FILE = f"sessions/--home-ada-notes--/2026-03-04T11-00-00-000Z_{FORK}.jsonl"


def at(second: int) -> str:
    """Return a time of the sample day."""
    return f"2026-03-04T10:{second // 60:02d}:{second % 60:02d}.000Z"


def entry(name: str, parent: str | None, second: int, kind: str, /, **fields: Any) -> dict[str, Any]:
    """Return an entry below another one."""
    return {"type": kind, "id": name, "parentId": parent, "timestamp": at(second)} | fields


def message(name: str, parent: str | None, second: int, role: str, /, **fields: Any) -> dict[str, Any]:
    """Return an entry with a message."""
    return entry(name, parent, second, "message", message={"role": role, "timestamp": BEGIN + 1_000 * second} | fields)


def usage(asked: int, said: int, read: int = 0, written: int = 0, cost: float = 0.0) -> dict[str, Any]:
    """Return usage with its total."""
    total = asked + said + read + written
    return {"input": asked, "output": said, "cacheRead": read, "cacheWrite": written, "totalTokens": total, "cost": {"total": cost}}


def model(name: str, parent: str, second: int, blocks: list[dict[str, Any]], used: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return an answer of the model."""
    about = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5", "stopReason": "stop"}
    return message(name, parent, second, "assistant", **(about | {"content": blocks, "usage": used} | fields))


def text(words: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": words}


def lines() -> list[dict[str, Any]]:
    """Return a session with everything that happens in one; after the third prompt the person goes back to the first answer."""
    bash = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "npm test"}}
    edit = {"type": "toolCall", "id": "c2", "name": "edit", "arguments": {"path": "notes.md", "oldText": "a", "newText": "b"}}
    return [
        {"type": "session", "version": 3, "id": MAIN, "timestamp": at(0), "cwd": FOLDER},
        entry("a0", None, 0, "model_change", provider="anthropic", modelId="claude-sonnet-4-5"),
        message("a1", "a0", 1, "user", content=[text("make the tests pass")]),
        model("a2", "a1", 2, [{"type": "thinking", "thinking": "They fail."}, bash], usage(10, 50, 900, 100, 0.002), stopReason="toolUse"),
        message(
            "a3",
            "a2",
            4,
            "toolResult",
            toolCallId="c1",
            toolName="bash",
            content=[text("1 failed\n\nCommand exited with code 1")],
            isError=True,
        ),
        model("a4", "a3", 6, [text("I edit."), edit], usage(5, 20, 1_000), stopReason="toolUse"),
        message("a5", "a4", 7, "toolResult", toolCallId="c2", toolName="edit", content=[text("Edited.")], isError=False),
        message("a6", "a5", 8, "bashExecution", command="git status", output="clean", exitCode=0, cancelled=False, truncated=False),
        message("a7", "a6", 9, "user", content="and the changelog"),
        model("a8", "a7", 10, [text("Written.")], usage(7, 9, 1_100), stopReason="aborted", errorMessage="Request was aborted"),
        entry("b1", "a5", 20, "branch_summary", fromId="a8", summary="The changelog was begun."),
        message("b2", "b1", 21, "user", content="leave the changelog"),
        entry("b3", "b2", 22, "compaction", summary="Tests pass.", firstKeptEntryId="b2", tokensBefore=5_000),
        model("b4", "b3", 23, [text("Left.")], usage(3, 4, 500)),
        entry("b5", "b4", 24, "session_info", name="Tests that pass"),
        entry("b6", "b5", 25, "custom", customType="an-extension", data={"x": 1}),
        entry("b7", "b6", 26, "an-entry-of-next-year"),
    ]


def fork() -> list[dict[str, Any]]:
    """Return a session that was branched from the first one: its file begins with copies."""
    head = {"type": "session", "version": 3, "id": FORK, "timestamp": at(60), "cwd": FOLDER, "parentSession": f"/home/ada/.pi/agent/{FILE}"}
    own = [message("f1", "a2", 61, "user", content="try vitest"), model("f2", "f1", 62, [text("Tried.")], usage(2, 6, 700))]
    return [head, *lines()[1:4], *own]


def home() -> dict[str, str]:
    """Return the files of a home."""
    return {FILE: "".join(json.dumps(r) + "\n" for r in lines())}


def home_with_fork() -> dict[str, str]:
    """Return the files of a home with a fork."""
    return home() | {FORK_FILE: "".join(json.dumps(r) + "\n" for r in fork())}
