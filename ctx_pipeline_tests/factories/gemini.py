"""Homes of Gemini CLI and Qwen Code, made from the formats that docs/hosts describe; no record of a real person is in them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

FOLDER = "/home/ada/notes"
PROJECT = hashlib.sha256(FOLDER.encode()).hexdigest()
DOCUMENT = "1d1d1d1d-0000-4000-8000-000000000001"
LINES = "2e2e2e2e-0000-4000-8000-000000000002"
AGENT = "3f3f3f3f-0000-4000-8000-000000000003"


def at(second: int) -> str:
    """Return a time of the sample day."""
    return f"2026-03-04T10:{second // 60:02d}:{second % 60:02d}.000Z"


def tokens(asked: int, said: int, cached: int = 0, thoughts: int = 0, tool: int = 0) -> dict[str, int]:
    """Return the counts of a message as the API sends them: the prompt's holds the cached ones, the total everything once."""
    total = asked + said + thoughts + tool
    return {"input": asked, "output": said, "cached": cached, "thoughts": thoughts, "tool": tool, "total": total}


def message(name: str, second: int, kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    """Return a message."""
    return {"id": name, "timestamp": at(second), "type": kind, "content": content} | fields


def call(name: str, second: int, tool: str, args: dict[str, Any], output: str | None, *, status: str = "success") -> dict[str, Any]:
    """Return a tool call with its answer, in the shape in which the message holds it."""
    answered = [{"functionResponse": {"id": name, "name": tool, "response": {"error" if status == "error" else "output": output}}}]
    return {"id": name, "name": tool, "args": args, "status": status, "timestamp": at(second)} | (
        {"result": answered} if output is not None else {}
    )


def document() -> dict[str, Any]:
    """Return a session of the earlier format, one document."""
    thought = {"subject": "Headings", "description": "The file has three of them.", "timestamp": at(3)}
    read = call("read-1", 4, "read_file", {"file_path": f"{FOLDER}/notes.md"}, "# One\n# Two\n# Three")
    failed = call("shell-1", 8, "run_shell_command", {"command": "make check"}, "Output: no rule\nExit Code: 2")
    stopped = call(
        "write-1", 9, "write_file", {"file_path": f"{FOLDER}/toc.md", "content": "x"}, "[Operation Cancelled]", status="cancelled"
    )
    return {
        "sessionId": DOCUMENT,
        "projectHash": PROJECT,
        "startTime": at(0),
        "lastUpdated": at(20),
        "messages": [
            message("m1", 1, "user", "add a table of contents to notes.md"),
            message(
                "m2",
                4,
                "gemini",
                "I look at the file.",
                toolCalls=[read],
                thoughts=[thought],
                model="gemini-2.5-pro",
                tokens=tokens(900, 40, 600, 25),
            ),
            message(
                "m3", 8, "gemini", "", toolCalls=[failed, stopped], thoughts=[], model="gemini-2.5-flash", tokens=tokens(1000, 30, tool=50)
            ),
            message("m4", 10, "info", "Request cancelled."),
            message("m5", 12, "error", "[API Error: quota]"),
            message("m6", 14, "later-invention", "words of next year"),
            message("m7", 20, "gemini", [{"text": "The check fails."}], thoughts=[], model="gemini-2.5-pro", tokens=None),
        ],
        "summary": "Contents for the notes",
    }


def lines() -> list[dict[str, Any]]:
    """Return a session of the later format: messages are written again, a turn is taken back, history is compressed."""
    asked = message(
        "n1", 101, "user", [{"text": "write the tests @plan.md plus its whole text"}], displayContent=[{"text": "write the tests @plan.md"}]
    )
    begun = message("n2", 103, "gemini", "On it.", thoughts=[], tokens=None, model="gemini-3-pro-preview")
    ran = call("shell-2", 105, "run_shell_command", {"command": "pytest -q"}, "Output: 3 passed\nExit Code: 0")
    done = begun | {"toolCalls": [ran], "tokens": tokens(2000, 80, 1500, 20)}
    other = message("n3", 110, "user", "now rename the module")
    wrong = message("n4", 112, "gemini", "Renamed.", thoughts=[], tokens=tokens(2200, 10), model="gemini-3-pro-preview")
    summary = message("n5", 120, "user", [{"text": "<state_snapshot>tests written</state_snapshot>"}])
    return [
        {"sessionId": LINES, "projectHash": PROJECT, "startTime": at(100), "lastUpdated": at(100), "kind": "main"},
        asked,
        begun,
        {"$set": {"lastUpdated": at(103)}},
        done,
        other,
        wrong,
        {"$rewindTo": "n3"},
        {"$set": {"messages": [summary, done], "lastUpdated": at(120)}},
        message("n6", 121, "user", "and the changelog"),
        message("n7", 123, "gemini", "Done.", thoughts=[], tokens=tokens(700, 15), model="gemini-3-pro-preview"),
        {"$set": {"summary": "Tests and a changelog"}},
    ]


def agent() -> list[dict[str, Any]]:
    """Return a subagent of the session of the later format."""
    return [
        {
            "sessionId": AGENT,
            "projectHash": PROJECT,
            "startTime": at(104),
            "lastUpdated": at(104),
            "kind": "subagent",
            "directories": [FOLDER],
        },
        message("a1", 104, "user", "find the tests"),
        message("a2", 105, "gemini", "They are in tests/.", thoughts=[], tokens=tokens(300, 12), model="gemini-2.5-flash"),
    ]


def jsonl(records: list[dict[str, Any]]) -> str:
    """Return records as JSON lines."""
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)


def gemini_home() -> dict[str, str]:
    """Return the files of a home of Gemini CLI."""
    chats = f"tmp/{PROJECT}/chats"
    prompts = [
        {"sessionId": DOCUMENT, "messageId": 0, "timestamp": at(1), "type": "user", "message": "add a table of contents to notes.md"}
    ]
    return {
        f"{chats}/session-2026-03-04T10-00-{DOCUMENT[:8]}.json": json.dumps(document(), indent=2),
        f"{chats}/session-2026-03-04T10-01-{LINES[:8]}.jsonl": jsonl(lines()),
        f"{chats}/{LINES}/{AGENT}.jsonl": jsonl(agent()),
        f"tmp/{PROJECT}/logs.json": json.dumps(prompts, indent=2),
    }


# Qwen Code: records of the API's shape, one a line.


QWEN = "4a4a4a4a-0000-4000-8000-000000000004"
BRANCH = "5b5b5b5b-0000-4000-8000-000000000005"


def usage(asked: int, said: int, cached: int = 0, thoughts: int = 0, *, inside: bool = False) -> dict[str, int]:
    """Return usage metadata; ``inside``: the candidates hold the thoughts."""
    return {
        "promptTokenCount": asked,
        "candidatesTokenCount": said,
        "thoughtsTokenCount": thoughts,
        "cachedContentTokenCount": cached,
        "totalTokenCount": asked + said + (0 if inside else thoughts),
    }


def record(number: int, kind: str, session: str = QWEN, **fields: Any) -> dict[str, Any]:
    """Return a record of a session, behind the one before it."""
    head = {
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number > 1 else None,
        "sessionId": session,
        "timestamp": at(200 + number),
    }
    return head | {"type": kind, "cwd": FOLDER, "version": "0.14.2", "gitBranch": "trunk"} | fields


def parts(*found: dict[str, Any], role: str = "model") -> dict[str, Any]:
    """Return a message of the API."""
    return {"role": role, "parts": list(found)}


def qwen_lines() -> list[dict[str, Any]]:
    """Return a session with everything that happens in one."""
    shell = {"functionCall": {"id": "c1", "name": "run_shell_command", "args": {"command": "npm test", "is_background": False}}}
    edit = {"functionCall": {"id": "c2", "name": "edit", "args": {"file_path": f"{FOLDER}/a.ts", "old_string": "a", "new_string": "b"}}}
    failed = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": "Output: 1 failed\nExit Code: 1"}}}
    refused = {
        "functionResponse": {
            "id": "c2",
            "name": "edit",
            "response": {"error": "[Operation Cancelled] Reason: User did not allow tool call"},
        }
    }
    compressed = {
        "info": {"originalTokenCount": 9000, "newTokenCount": 800},
        "compressedHistory": [parts({"text": "<state_snapshot>"}, role="user")],
    }
    useless = {"info": {"originalTokenCount": 800, "newTokenCount": 900}, "compressedHistory": []}
    return [
        record(1, "user", message=parts({"text": "make the tests pass"}, role="user"), provenance="real_user"),
        record(
            2,
            "assistant",
            model="qwen3-coder-plus",
            contextWindowSize=1_000_000,
            message=parts({"text": "They fail.", "thought": True}, shell),
            usageMetadata=usage(1200, 60, 1000, 20, inside=True),
        ),
        record(3, "tool_result", message=parts(failed, role="user"), toolCallResult={"callId": "c1", "status": "success"}),
        record(4, "assistant", model="qwen3-coder-plus", message=parts({"text": "I edit."}, edit), usageMetadata=usage(1300, 30, 1200)),
        record(5, "tool_result", message=parts(refused, role="user"), toolCallResult={"callId": "c2", "status": "cancelled"}),
        record(6, "system", subtype="slash_command", systemPayload={"phase": "invocation", "rawCommand": "/compress"}),
        record(7, "system", subtype="chat_compression", systemPayload=compressed),
        record(8, "system", subtype="chat_compression", systemPayload=useless),
        record(
            9,
            "system",
            subtype="ui_telemetry",
            systemPayload={"uiEvent": {"event.name": "qwen-code.api_response", "input_token_count": 1300}},
        ),
        record(10, "system", subtype="custom_title", systemPayload={"customTitle": "Tests that pass", "titleSource": "auto"}),
        record(11, "assistant", model="qwen3-coder-plus", message=parts({"text": "They pass."}), usageMetadata=usage(800, 9)),
        record(12, "system", subtype="a-subtype-of-next-year", systemPayload={}),
    ]


def qwen_agent() -> list[dict[str, Any]]:
    """Return a subagent of the session."""
    about = {"agentId": "explore-7f3c", "agentName": "Explore", "isSidechain": True}
    return [
        record(51, "user", message=parts({"text": "look for tests"}, role="user"), **about),
        record(52, "assistant", model="qwen3-coder-flash", message=parts({"text": "Two files."}), usageMetadata=usage(400, 8), **about),
    ]


def qwen_branch() -> list[dict[str, Any]]:
    """Return a branch of the session: its first records copied with their ids, then its own."""
    copied = [r | {"sessionId": BRANCH, "forkedFrom": {"sessionId": QWEN, "messageUuid": r["uuid"]}} for r in qwen_lines()[:2]]
    return [
        *copied,
        record(61, "user", BRANCH, message=parts({"text": "try it with vitest"}, role="user")),
        record(62, "assistant", BRANCH, model="qwen3-coder-plus", message=parts({"text": "Tried."}), usageMetadata=usage(1500, 12, 1200)),
    ]


def qwen_home() -> dict[str, str]:
    """Return the files of a home of Qwen Code, with a recording of its first versions."""
    first = document() | {"sessionId": "6c6c6c6c-0000-4000-8000-000000000006", "summary": None}
    first["messages"] = first["messages"][:2]
    project = "projects/-home-ada-notes"
    return {
        f"{project}/chats/{QWEN}.jsonl": jsonl(qwen_lines()),
        f"{project}/subagents/{QWEN}/agent-explore-7f3c.jsonl": jsonl(qwen_agent()),
        f"tmp/{PROJECT}/chats/session-2026-03-04T10-00-6c6c6c6c.json": json.dumps(first, indent=2),
    }
