"""What the published sessions state beyond tokens: who typed what, in which order, which thread, under which name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ctx_pipeline import discovery
from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, TOOL_CALLS
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.homes import live_usage as live
from ctx_pipeline.usage.homes.transcript_files import _source
from ctx_pipeline_tests.conftest import CORPUS

_HOMES = Settings(home=Path("none"), demo_roots={"codex": (CORPUS / "codex",)})


def counted(path: Path) -> live.Counted:
    """Return the one session of a file with all its rows."""
    (found,) = live.read(live.sessions([_source(path)], _HOMES), whole=True)
    return found


def parsed(path: Path) -> Parsed:
    found = counted(path).parsed
    assert found is not None
    return found


def beyond(path: Path, quantity: str) -> str | None:
    """Return our value of a quantity that is not about tokens, as the table writes it; None for one that we cannot tell."""
    if "exec-json" in str(path):
        return exec_usage(path)
    if path.name == "session_index.jsonl":
        return name_of_the_first(path)
    if quantity == "threads counted for this id":
        thread = path.name.partition(".")[0][-36:]
        return str(sum(s.session_id == thread for s in live.sessions(live.sources(_HOMES, host="codex"), _HOMES)))
    if quantity.startswith("malformed lines"):
        return str(with_a_broken_line(path))
    if "dag_" in path.name:
        return in_the_graph(path, quantity)
    found = counted(path)
    events = [EVENTS.row(*row) for row in parsed(path).events]
    prompts = [e.text for e in events if e.kind == "prompt"]
    calls = [TOOL_CALLS.row(*row) for row in parsed(path).tool_calls]
    match quantity:
        case "messages (user+assistant)" | "messages":
            return str(sum(e.kind in {"prompt", "answer"} for e in events))
        case "first user message" | "first user message (cut)":
            return prompts[0]
        case "user messages that a person typed":
            return str(len(prompts))
        case "tool calls in the 2nd message":
            text = next(e.text for e in events if e.event_id == calls[0].call_event)
            return f"{calls[0].tool} {calls[0].call_id} {text}"
        case "project name":
            # that tool writes names with _ in place of -
            return found.project.replace("-", "_")
        case "system messages of subtype task_notification":
            return str(sum(e.subtype == "task-notification" for e in events))
        case "session id":
            return found.session_id
        case "cwd":
            return parsed(path).facts.cwd
        case "session total_tokens":
            # the fixture adds reasoning beside output, which real files hold inside it
            return str(sum(row[12] + row[7] + row[11] for row in found.calls))
        case "thread id / cwd / messages typed / tokens":
            first = json.loads(path.read_text().splitlines()[0])["id"]
            same = "id of first line" if found.session_id == first else found.session_id
            return f"{same} / {parsed(path).facts.cwd} / {len(prompts)} ('{prompts[0]}') / {found.calls or 'none recorded'}"
    return None


def with_a_broken_line(path: Path) -> int:
    """Return how many lines are quarantined when a broken one stands in the middle."""
    lines = path.read_bytes().splitlines(keepends=True)
    data = b"".join((*lines[: len(lines) // 2], b'{"type": broken\n', *lines[len(lines) // 2 :]))
    stream = StreamBytes("0" * 16, "rollout", path.name, 0, data, "abc-123")
    return len(discovery.host("codex").records.parse(SessionInput("codex", "abc-123", (stream,))).quarantined)


def name_of_the_first(path: Path) -> str:
    hints = discovery.host("codex").files.hints
    assert hints is not None
    data = path.read_bytes()
    first = json.loads(data.splitlines()[0])["id"]
    kind = discovery.host("codex").files.classify(path.name)
    return [value for thread, field, value in hints(str(kind), data) if thread == first and field == "title"][-1]


def exec_usage(path: Path) -> str | None:
    """Return the usage of a stream of ``codex exec --json`` laid into a folder of a home."""
    host = discovery.host("codex")
    rel = f"exec/{path.name}"
    kind = host.files.classify(rel)
    if kind is None:
        return None
    data = path.read_bytes()
    identity = host.files.identify(kind, rel, data)
    assert identity is not None
    stream = StreamBytes("0" * 16, kind, rel, 0, data, identity.thread_id)
    (row,) = host.records.parse(SessionInput("codex", identity.thread_id, (stream,))).model_calls
    return f"{row[12]} / {row[10]} / {row[7]}"


def in_the_graph(path: Path, quantity: str) -> str | None:
    """Return what the parents of our events say about a file that holds several sessions of a conversation."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    uuids = [r["uuid"] for r in records]
    events = [EVENTS.row(*row) for row in parsed(path).events]
    line_of = {e.event_id: e.line for e in events}
    parent = {uuids[e.line]: uuids[line_of[e.parent_id]] if e.parent_id else None for e in events}
    session: dict[str, str] = {r["uuid"]: r["sessionId"] for r in records}
    first: dict[str, str] = {}
    for uuid in uuids:
        first.setdefault(session[uuid], uuid)
    at: dict[str, Any] = {name: parent[uuid] for name, uuid in first.items()}
    order: list[str] = []

    def walk(uuid: str) -> None:
        order.append(uuid)
        # a branch of another session stands where it leaves, before the session goes on
        for child in sorted((u for u in uuids if parent[u] == uuid), key=lambda u: session[u] == session[uuid]):
            walk(child)

    walk(uuids[0])
    name = quantity.partition(" ")[0]
    junctions = sorted({uuid for uuid in at.values() if uuid})
    match quantity:
        case "sessions":
            return str(len(first))
        case "order of uuids" | "full order":
            return " ".join(order)
        case "junction points":
            return " ".join(junctions) or "0"
    if quantity.endswith(" uuids"):
        return " ".join(u for u in order if session[u] == name)
    if quantity.endswith("parent session / attached at"):
        return f"{session[at[name]]} / {at[name]}"
    return at[name] if quantity.endswith("attached at") else None
