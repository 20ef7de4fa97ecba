"""A home of GitHub Copilot, made from the description of its formats in ``docs/hosts/copilot.md``: nobody's sessions.

``python -m ctx_pipeline_tests.factories.copilot FOLDER`` writes it; ``samples/copilot/home`` is what it writes.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

CLI, CHAT, LOG, JOINED = (f"c0b1107a-0000-4000-8000-00000000000{n}" for n in (1, 2, 3, 4))
START = 1_772_359_200_000
"""2026-03-01T10:00:00Z in milliseconds"""


def at(seconds: float) -> str:
    """Return the ISO time so many seconds after the start of all samples."""
    whole = int(seconds)
    return f"2026-03-01T{10 + whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{int(seconds * 1000) % 1000:03d}Z"


def lines(records: list[dict[str, Any]]) -> str:
    """Return records as JSONL."""
    return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


class Log:
    """Events in one envelope, each with the one before it as its parent."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def add(self, seconds: float, kind: str, agent: str = "", **data: Any) -> Log:
        number = len(self.records)
        parent = self.records[-1]["id"] if self.records else None
        record = {"type": kind, "data": data, "id": f"e{number:04d}", "timestamp": at(seconds), "parentId": parent}
        self.records.append({**record, "agentId": agent} if agent else record)
        return self


def cli_events() -> list[dict[str, Any]]:
    """A session of the CLI: a command that fails, an edit, a subagent, a refused command, a resumption."""
    log = Log()
    where = {
        "cwd": "/home/ada/birds",
        "gitRoot": "/home/ada/birds",
        "branch": "main",
        "repository": "ada/birds",
        "repositoryHost": "github.com",
    }
    log.add(0, "session.start", sessionId=CLI, version=1, producer="copilot-agent", copilotVersion="1.0.91", startTime=at(0), context=where)
    log.add(1, "system.message", role="system", content="You are the GitHub Copilot CLI.")
    log.add(2, "user.message", content="count the birds", transformedContent="<now/>count the birds", messageId="m1")
    log.add(3, "assistant.turn_start", turnId="0")
    call = {"toolCallId": "t1", "name": "bash", "arguments": {"command": "pytest -q", "description": "Run tests"}}
    log.add(5, "assistant.message", messageId="a1", model="claude-sonnet-4.5", content="", reasoningText="Run the tests first.",
            toolRequests=[call], outputTokens=40)  # fmt: skip
    log.add(6, "tool.execution_start", toolCallId="t1", toolName="bash", arguments=call["arguments"])
    log.add(9, "tool.execution_complete", toolCallId="t1", success=True, result={"content": "1 failed\n<exited with exit code 1>"})
    edit = {"toolCallId": "t2", "name": "edit", "arguments": {"path": "/home/ada/birds/count.py", "old_str": "1", "new_str": "2"}}
    task = {"toolCallId": "t3", "name": "task", "arguments": {"agent_type": "explore", "prompt": "find nests"}}
    log.add(10, "assistant.message", messageId="a2", model="claude-sonnet-4.5", content="I fix the count.", toolRequests=[edit, task],
            outputTokens=60)  # fmt: skip
    log.add(11, "tool.execution_start", toolCallId="t2", toolName="edit", arguments=edit["arguments"])
    log.add(12, "tool.execution_complete", toolCallId="t2", success=True, result={"content": "File updated."})
    log.add(13, "tool.execution_start", toolCallId="t3", toolName="task", arguments=task["arguments"])
    log.add(13.5, "subagent.started", toolCallId="t3", agentName="explore", agentDisplayName="Explore", agentDescription="Explores")
    log.add(14, "assistant.message", agent="t3", messageId="s1", model="claude-haiku-4.5", content="One nest.", parentToolCallId="t3",
            outputTokens=7)  # fmt: skip
    log.add(15, "subagent.completed", toolCallId="t3", agentName="explore", agentDisplayName="Explore", totalTokens=500)
    log.add(15.5, "tool.execution_complete", toolCallId="t3", success=True, result={"content": "One nest."})
    refused = {"toolCallId": "t4", "name": "bash", "arguments": {"command": "rm -rf nests"}}
    log.add(16, "assistant.message", messageId="a3", model="claude-sonnet-4.5", content="", toolRequests=[refused], outputTokens=9)
    log.add(17, "permission.requested", requestId="p1", permissionRequest={"kind": "shell", "toolCallId": "t4"})
    log.add(18, "permission.completed", requestId="p1", toolCallId="t4",
            result={"kind": "denied-interactively-by-user", "feedback": "keep the nests"})  # fmt: skip
    log.add(
        19,
        "tool.execution_complete",
        toolCallId="t4",
        success=False,
        error={"message": "The user rejected this tool call.", "code": "rejected"},
    )
    log.add(
        20, "assistant.message", messageId="a4", model="claude-sonnet-4.5", content="Two birds, one nest.", toolRequests=[], outputTokens=8
    )
    log.add(21, "session.shutdown", **shutdown(CLI, sonnet=(1200, 117, 800), haiku=(300, 7, 0), cost=1))
    log.add(60, "session.resume", resumeTime=at(60), eventCount=20)
    log.add(61, "user.message", content="commit it", messageId="m2")
    log.add(
        63, "session.compaction_complete", success=True, preCompactionTokens=1500, postCompactionTokens=200, summaryContent="Two birds."
    )
    log.add(64, "assistant.message", messageId="a5", model="claude-sonnet-4.5", content="Committed.", toolRequests=[], outputTokens=20)
    log.add(65, "session.shutdown", **shutdown(CLI, sonnet=(1700, 137, 1000), haiku=(300, 7, 0), cost=2))
    log.add(66, "session.feather_found", feather="blue")
    return log.records


def shutdown(_session: str, *, sonnet: tuple[int, int, int], haiku: tuple[int, int, int], cost: float) -> dict[str, Any]:
    """Return the account at the end of a process: prompt (with what was cached), output and cache reads by model."""

    def metric(counts: tuple[int, int, int], billed: float) -> dict[str, Any]:
        usage = {"inputTokens": counts[0], "outputTokens": counts[1], "cacheReadTokens": counts[2], "cacheWriteTokens": 0}
        return {"requests": {"count": 4, "cost": billed}, "usage": usage}

    models = {"claude-sonnet-4.5": metric(sonnet, cost), "claude-haiku-4.5": metric(haiku, 0)}
    changes = {"filesModified": [], "linesAdded": 1, "linesRemoved": 1}
    return {"shutdownType": "routine", "modelMetrics": models, "codeChanges": changes, "sessionStartTime": START, "totalApiDurationMs": 9}


def request(chat: str, number: int, asked: str, response: list[Any], **more: Any) -> dict[str, Any]:
    """Return a request of a chat."""
    return {
        "requestId": f"request_{chat[-1]}{number}",
        "message": {"text": asked, "parts": []},
        "variableData": {"variables": []},
        "response": response,
        "agent": {"id": "github.copilot.editsAgent", "name": "agent"},
        "modelId": "copilot/gpt-5",
        "timestamp": START + 60_000 * number,
        **more,
    }


def terminal(call_id: str, command: str, **more: Any) -> dict[str, Any]:
    """Return the part of a response that shows a command."""
    data = {"kind": "terminal", "commandLine": {"original": command}, "language": "sh"}
    part = {
        "kind": "toolInvocationSerialized",
        "toolCallId": call_id,
        "toolId": "run_in_terminal",
        "isComplete": True,
        "isConfirmed": {"type": 4},
    }
    return {**part, "invocationMessage": {"value": "Running command"}, "toolSpecificData": data, **more}


def chat_document() -> dict[str, Any]:
    """A chat as one document: a command with its rounds, an edit without a tool, a cancelled request, one that hit the quota."""
    rounds = [
        {
            "id": "round_1",
            "response": "",
            "thinking": {"id": "th1", "text": "Look first.", "tokens": 5},
            "toolCalls": [{"id": "call_1__vscode-177", "name": "run_in_terminal", "arguments": '{"command":"ls nests"}'}],
        },
        {"id": "round_2", "response": "Three nests.", "toolCalls": []},
    ]
    context = "<workspace_info>I am working in a workspace with the following folders:\n- /home/ada/nests\n</workspace_info>"
    metadata = {
        "toolCallRounds": rounds,
        "toolCallResults": {"call_1__vscode-177": {"content": [{"value": "a b c"}]}},
        "renderedGlobalContext": [{"type": 1, "text": context}],
        "promptTokens": 900,
        "outputTokens": 80,
        "resolvedModel": "gpt-5-2025-08-07",
    }
    first = request(
        CHAT,
        1,
        "how many nests?",
        [
            {"kind": "thinking", "value": "Look first.", "id": "th1"},
            terminal("call_1", "ls nests"),
            {"value": "Three nests, see "},
            {"kind": "inlineReference", "name": "nests.md", "inlineReference": {"path": "/home/ada/nests/nests.md"}},
            {"value": "."},
        ],
        result={"timings": {"totalElapsed": 900}, "details": "GPT-5 • 1x", "metadata": metadata},
        modelState={"value": 1, "completedAt": START + 61_000},
    )
    second = request(
        CHAT,
        2,
        "write it down",
        [
            {"value": "I write it."},
            {
                "kind": "textEditGroup",
                "uri": {"path": "/home/ada/nests/nests.md", "scheme": "file"},
                "edits": [[{"text": "3"}]],
                "done": True,
            },
            {"kind": "undoStop", "id": "u1"},
            {"kind": "birdsong", "value": "tweet"},
        ],
        result={"metadata": {"promptTokens": 1000, "outputTokens": 30}},
        modelState={"value": 2},
    )
    third = request(
        CHAT,
        3,
        "and the eggs?",
        [],
        result={"errorDetails": {"message": "You have exhausted your premium model quota.", "isQuotaExceeded": True}},
        modelState={"value": 3},
    )
    named = {"version": 3, "sessionId": CHAT, "creationDate": START, "responderUsername": "GitHub Copilot", "customTitle": "Nests"}
    return {**named, "requests": [first, second, third]}


def mutations() -> list[dict[str, Any]]:
    """A chat as a log: pushed, streamed, changed, spliced and deleted; a request with credits; one mutation of no place."""
    empty = {"version": 3, "sessionId": LOG, "creationDate": START, "responderUsername": "GitHub Copilot", "requests": []}
    asked = request(LOG, 1, "name the bird", [])
    taken_back = request(LOG, 2, "wrong window", [])
    return [
        {"kind": 0, "v": {**empty, "inputState": {"inputText": "na"}}},
        {"kind": 2, "k": ["requests"], "v": [asked]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "A wr"}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "A wren."}], "i": 0},
        {"kind": 1, "k": ["requests", 0, "promptTokens"], "v": 400},
        {"kind": 1, "k": ["requests", 0, "completionTokens"], "v": 12},
        {"kind": 1, "k": ["requests", 0, "copilotCredits"], "v": 1.6},
        {"kind": 1, "k": ["requests", 0, "modelState"], "v": {"value": 1}},
        {"kind": 2, "k": ["requests"], "v": [taken_back]},
        {"kind": 2, "k": ["requests"], "v": [request(LOG, 3, "is it rare?", [])], "i": 1},
        {"kind": 3, "k": ["inputState", "inputText"]},
        {"kind": 1, "k": ["customTitle"], "v": "A wren"},
        {"kind": 1, "k": ["requests", 9, "vote"], "v": 1},
    ]


def transcript() -> list[dict[str, Any]]:
    """The transcript of a chat that a document tells too."""
    log = Log()
    log.add(60, "session.start", sessionId=JOINED, version=1, producer="copilot-agent", copilotVersion="0.37.0", startTime=at(60))
    log.add(60, "user.message", content="list the owls", attachments=[])
    log.add(61, "assistant.turn_start", turnId="0")
    read = {
        "toolCallId": "call_7",
        "name": "read_file",
        "arguments": '{"filePath":"/home/ada/owls.txt","startLine":1,"endLine":9}',
        "type": "function",
    }
    log.add(62, "assistant.message", messageId="x1", content="Let me look.", toolRequests=[read], reasoningText="A file has them.")
    log.add(62, "tool.execution_start", toolCallId="call_7", toolName="read_file", arguments={"filePath": "/home/ada/owls.txt"})
    log.add(63, "tool.execution_complete", toolCallId="call_7", success=True)
    log.add(64, "assistant.message", messageId="x2", content="Barn owl.", toolRequests=[])
    log.add(65, "assistant.turn_end", turnId="0")
    return log.records


def joined_chat() -> dict[str, Any]:
    """The document of the same chat, with usage and the result that the transcript leaves out."""
    metadata = {
        "toolCallRounds": [
            {"id": "r1", "response": "", "toolCalls": [], "usage": {"prompt_tokens": 700, "completion_tokens": 20,
             "prompt_tokens_details": {"cached_tokens": 500}}},
            {"id": "r2", "response": "Barn owl.", "toolCalls": [], "usage": {"prompt_tokens": 800, "completion_tokens": 5}},
        ],
        "toolCallResults": {"call_7": {"content": [{"value": "barn owl\n"}]}},
        "resolvedModel": "gpt-5-2025-08-07",
    }  # fmt: skip
    told = request(JOINED, 1, "list the owls", [{"value": "Barn owl."}], result={"metadata": metadata}, modelState={"value": 1})
    more = request(
        JOINED, 2, "and hawks?", [{"value": "None."}], result={"metadata": {"promptTokens": 90, "outputTokens": 3}}, modelState={"value": 1}
    )
    return {"version": 3, "sessionId": JOINED, "creationDate": START, "responderUsername": "GitHub Copilot", "requests": [told, more]}


def store_rows() -> list[dict[str, Any]]:
    """Rows of ``session-store.db`` of a session whose events are gone: two calls, one of them by a premium model."""

    def row(table: str, **columns: Any) -> dict[str, Any]:
        return {"row": columns, "table": table}

    session = "c0b1107a-0000-4000-8000-000000000005"
    usage = {"session_id": session, "cache_write_tokens": 0, "reasoning_tokens": 4, "copilot_usage_model": None}
    return [
        row("assistant_usage_events", id=7, turn_index=0, model="gpt-5", input_tokens=500, output_tokens=50, cache_read_tokens=300,
            request_multiplier=1.0, total_nano_aiu=556570000, created_at="2026-03-01 11:00:05", **usage),
        row("assistant_usage_events", id=8, turn_index=0, model="gpt-5", input_tokens=600, output_tokens=20, cache_read_tokens=500,
            request_multiplier=0.0, total_nano_aiu=0, created_at="2026-03-01 11:00:09", **usage),
        row("turns", id=1, session_id=session, turn_index=0, user_message="why do birds sing?", assistant_response="To be heard.",
            timestamp="2026-03-01T11:00:00.000Z"),
        row("sessions", id=session, cwd="/home/ada/song", repository="ada/song", branch="dawn", summary="Bird song",
            created_at="2026-03-01T11:00:00.000Z", updated_at="2026-03-01T11:01:00.000Z"),
    ]  # fmt: skip


def write_store(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a database with the rows, each table with the columns that they name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in dict.fromkeys(row["table"] for row in rows):
            mine = [row["row"] for row in rows if row["table"] == table]
            columns = list(mine[0])
            connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", [[row[c] for c in columns] for row in mine])


def write(home: Path) -> None:
    """Write the home; a stream of a database is a file named ``<path>#<stream>``."""
    user = f"workspaceStorage/{'ab' * 16}"
    state = f"session-state/{CLI}"
    files = {
        f"{state}/events.jsonl": lines(cli_events()),
        f"{state}/workspace.yaml": f"id: {CLI}\ncwd: /home/ada/birds\nname: Counting birds\nuser_named: false\n",
        f"{user}/workspace.json": json.dumps({"folder": "file:///home/ada/nests"}),
        f"{user}/chatSessions/{CHAT}.json": json.dumps(chat_document(), indent=1),
        f"globalStorage/emptyWindowChatSessions/{LOG}.jsonl": lines(mutations()),
        f"{user}/chatSessions/{JOINED}.json": json.dumps(joined_chat()),
        f"{user}/GitHub.copilot-chat/transcripts/{JOINED}.jsonl": lines(transcript()),
        "session-store.db#c0b1107a-0000-4000-8000-000000000005": lines(store_rows()),
    }
    for rel, said in files.items():
        path = home / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
