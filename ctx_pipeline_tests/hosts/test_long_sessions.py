"""Long and hostile sessions of hosts are read in time proportional to them."""

from __future__ import annotations

import json
from time import process_time

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.raw import SessionInput, StreamBytes

MOST = 3.0
"""Seconds of the processor; each of these took more before, most of them more than ten times as many."""


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def said(role: str, text: str) -> str:
    return lines({"role": role, "message": {"content": [{"type": "text", "text": text}]}})


def chat() -> str:
    calls = [f"c{number}__vscode-1" for number in range(6_000)]
    shown = [{"kind": "toolInvocationSerialized", "toolCallId": call} for call in calls]
    rounds = [{"toolCalls": [{"id": call, "name": "readFile"} for call in calls]}]
    request = {"requestId": "r", "message": "m", "response": shown, "result": {"metadata": {"toolCallRounds": rounds}}}
    return json.dumps({"responderUsername": "GitHub Copilot", "requests": [request]})


def tree() -> str:
    entries = ({"type": "label", "id": f"e{n}", "parentId": f"e{n - 1}", "timestamp": "2026-03-04T10:00:00Z"} for n in range(25_000))
    return lines(*entries)


def recording() -> str:
    return lines(*({"type": "info", "id": f"e{n}", "timestamp": "2026-03-04T10:00:00Z", "content": "x"} for n in range(30_000)))


CURSOR = "projects/x/agent-transcripts/s"
HISTORY = "tasks/s/api_conversation_history.json"
TURN = f"user:\n{'owls ' * 200}\nassistant:\n[Tool call] ls\n  path: nests\n[Tool result] ls\n  one\n"


@pytest.mark.feature("hosts.fuzz")
@pytest.mark.parametrize(
    ("host", "kind", "rel", "text"),
    [
        ("cursor", "transcript", f"{CURSOR}.jsonl", lambda: said("user", f"<user_query>{' ' * 4_000}x")),
        ("cursor", "transcript", f"{CURSOR}.jsonl", lambda: said("assistant", f"a{' ' * 100_000}b")),
        ("cursor", "transcript", f"{CURSOR}.txt", lambda: TURN * 2_000),
        ("cursor", "transcript", f"{CURSOR}.txt", lambda: f"user:\nhi\nTurn ended: error: {' ' * 80_000}x\nuser:\nmore"),
        ("cline", "history", HISTORY, lambda: json.dumps([{"role": "user", "content": f"<task>{' ' * 4_000}x"}])),
        ("cline", "history", HISTORY, lambda: json.dumps([{"role": "user", "content": "<mode_notice>" * 20_000}])),
        ("copilot", "chat", "globalStorage/emptyWindowChatSessions/s.json", chat),
        ("pi_agent", "session", "sessions/2026_s.jsonl", tree),
        ("gemini_cli", "chat", "tmp/p/chats/session-x.jsonl", recording),
    ],
    ids=["open query", "blanks in an answer", "turns", "blanks in a line", "open task", "open notices", "calls", "tree", "recording"],
)
def test_a_long_session_is_read_in_time_proportional_to_it(host: str, kind: str, rel: str, text) -> None:
    session = SessionInput(host, "s", (StreamBytes("0" * 16, kind, rel, 0, text().encode(), "s"),))

    before = process_time()
    found = discovery.host(host).records.parse(session)

    assert process_time() - before < MOST
    assert found.events
