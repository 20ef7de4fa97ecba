"""Homes of Amp, made from the format that docs/hosts describes, with invented threads."""

from __future__ import annotations

import json
from typing import Any

FOLDER = "/home/ada/notes"
BEGIN = 1_772_618_400_000
MESSAGES = "T-0a0a0a0a-0000-4000-8000-00000000000a"
LEDGER = "T-0b0b0b0b-0000-4000-8000-00000000000b"
FORK = "T-0c0c0c0c-0000-4000-8000-00000000000c"


def at(second: int) -> str:
    """Return a time of the sample day."""
    return f"2026-03-04T10:00:{second:02d}.000Z"


def usage(second: int, model: str, asked: int, said: int, *, read: int = 0, written: int = 0) -> dict[str, Any]:
    """Return the usage of an answer."""
    counts = {"inputTokens": asked, "outputTokens": said, "cacheReadInputTokens": read, "cacheCreationInputTokens": written}
    return counts | {"model": model, "timestamp": at(second), "totalInputTokens": asked + read + written}


def result(call: str, **run: Any) -> dict[str, Any]:
    """Return the answer of a tool."""
    return {"type": "tool_result", "toolUseID": call, "run": run}


def thread(name: str, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Return the document of a thread."""
    platform = {"os": "linux", "client": "CLI", "clientVersion": "0.0.1767830505-ga62310"}
    env = {"initial": {"trees": [{"displayName": "notes", "uri": f"file://{FOLDER}"}], "platform": platform}}
    return {"v": 40, "id": name, "created": BEGIN, "title": "Contents for the notes", "env": env, "messages": messages} | fields


def messages() -> list[dict[str, Any]]:
    """Return the messages of a thread with everything that happens in one."""
    bash = {"type": "tool_use", "id": "b1", "name": "Bash", "input": {"cmd": "make check", "cwd": FOLDER}}
    edit = {"type": "tool_use", "id": "e1", "name": "edit_file", "input": {"path": f"{FOLDER}/notes.md"}}
    claude = "claude-sonnet-4-5"
    return [
        {
            "role": "user",
            "messageId": 0,
            "content": [{"type": "text", "text": "add a table of contents"}],
            "meta": {"sentAt": BEGIN + 1_000},
        },
        {
            "role": "assistant",
            "messageId": 1,
            "content": [{"type": "thinking", "thinking": "Three headings."}, {"type": "text", "text": "I look."}, bash, edit],
            "usage": usage(2, claude, 10, 50, read=900, written=100),
        },
        {
            "role": "user",
            "messageId": 2,
            "content": [result("b1", status="done", result={"output": "no rule", "exitCode": 2}), result("e1", status="cancelled")],
        },
        {
            "role": "assistant",
            "messageId": 3,
            "content": [{"type": "text", "text": "It fails."}],
            "usage": usage(4, "gpt-5", 0, 20, read=800, written=300),
        },
        {"role": "assistant", "messageId": 4, "content": [{"type": "a-block-of-next-year"}]},
    ]


def ledger() -> list[dict[str, Any]]:
    """Return a ledger over the messages: an entry names the message that it led to."""
    first = {
        "id": "l1",
        "timestamp": at(2),
        "model": "claude-sonnet-4-5",
        "credits": 1.25,
        "tokens": {"input": 10, "output": 50},
        "toMessageId": 1,
    }
    title = {"id": "l2", "timestamp": at(3), "model": "claude-haiku-4-5", "credits": 0.1, "tokens": {"input": 30, "output": 5}}
    return [first, title]


def fork() -> dict[str, Any]:
    """Return a thread that was forked behind the first answer: it holds a copy of it, and what happens beside questions and answers."""
    run = {"status": "done", "result": {"output": "all is well", "exitCode": 0}}
    typed = {"type": "manual_bash_invocation", "args": {"cmd": "make check"}, "toolRun": run}
    delete = {"type": "tool_use", "id": "d1", "name": "Bash", "input": {"cmd": "rm notes.md"}}
    own = [
        {"role": "info", "messageId": 2, "content": [typed, {"type": "text", "text": "Load the skill first."}]},
        {"role": "user", "messageId": 3, "content": [{"type": "text", "text": "start over"}]},
        {
            "role": "assistant",
            "messageId": 4,
            "content": [delete],
            "state": {"type": "cancelled"},
            "usage": usage(7, "gemini-3-pro", 0, 6, read=400, written=50),
        },
        {"role": "user", "messageId": 5, "content": [result("d1", status="rejected-by-user", reason="no")]},
        {"role": "user", "messageId": 6, "content": [{"type": "text", "text": "look at all notes"}], "parentToolUseId": "t1"},
        {
            "role": "assistant",
            "messageId": 7,
            "content": [{"type": "text", "text": "Two notes."}],
            "parentToolUseId": "t1",
            "usage": usage(9, "claude-haiku-4-5", 40, 8),
        },
        {"role": "assistant", "messageId": 8, "content": [], "state": {"type": "error", "error": {"message": "overloaded"}}},
    ]
    came_from = {"threadID": MESSAGES, "type": "fork", "role": "child", "messageIndex": 1, "createdAt": BEGIN + 5_000}
    return thread(FORK, messages()[:2] + own, title="Forked: contents", relationships=[came_from])


def home() -> dict[str, str]:
    """Return the files of a home."""
    with_ledger = thread(LEDGER, messages()[:3], title="Another thread", usageLedger={"events": ledger()})
    return {
        f"threads/{MESSAGES}.json": json.dumps(thread(MESSAGES, messages()), indent=2),
        f"threads/{LEDGER}.json": json.dumps(with_ledger, indent=2),
    }


def with_fork() -> dict[str, str]:
    """Return the files of a home in which a thread was forked."""
    return home() | {f"threads/{FORK}.json": json.dumps(fork(), indent=2)}
