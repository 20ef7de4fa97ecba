"""Parrot, an agent that nobody has: one file that makes it a host.

Its home holds ``chats/<id>.jsonl``. The first line names the chat (``id``, ``cwd``,
``model``); the others are words (``who``, ``say``), commands (``run``, ``status``) and
usage (``call``, ``tokens`` as prompt and answer).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.agent_config import Agent, Headless, HeadlessAnswer
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.declared import HomeFiles, Host, Records
from ctx_pipeline.model.raw import Identity, Parsed, Quarantined, SessionFacts, SessionInput, StreamBytes, ThreadFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KEY = "parrot"


def classify(rel: str) -> str | None:
    """Return the kind of a file of the home."""
    return "chat" if rel.startswith("chats/") and rel.endswith(".jsonl") else None


def enter(rel: str) -> bool:
    """Tell whether a folder holds chats."""
    return rel in {"", "chats"}


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a file is: its name says it."""
    name = rel.rpartition("/")[2].removesuffix(".jsonl")
    if kind != "chat" or not name.replace("-", "").isalnum() or len(name) > 100:
        return None
    first = _object(head.partition(b"\n")[0]) or {}
    return Identity(name, first_ts=micros(_text(first.get("at"))))


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a chat; a file that lies in two homes is read once."""
    parsed = Parsed(SessionFacts(), [ThreadFacts(session.session_id)])
    streams = sorted(session.streams, key=lambda s: (not s.current, -len(s.data), s.stream))
    seen: set[bytes] = set()
    for stream in streams:
        _read(session, stream, parsed, seen)
        seen.update(stream.data.splitlines())
    facts = parsed.facts
    said = next((row[9] for row in parsed.events if row[6] == "prompt" and row[9]), None)
    facts.title, facts.title_source = (said[:80], "prompt") if said else (None, "none")
    facts.repository = facts.cwd
    if any(row[6] == "answer" for row in parsed.events):
        facts.status = "completed"
    return parsed


def _read(session: SessionInput, stream: StreamBytes, parsed: Parsed, seen: set[bytes]) -> None:
    start = 0
    used = {row[0] for row in parsed.model_calls}
    for number, line in enumerate(stream.data.splitlines(keepends=True)):
        end = start + len(line)
        place = (stream.stream, stream.generation, start, end, number)
        start = end
        if not line.strip() or line.rstrip(b"\r\n") in seen:
            continue
        parsed.lines += 1
        record = _object(line)
        if record is None:
            parsed.quarantined.append(Quarantined(*place[:2], number, place[2], end, "not a record"))
            continue
        ids = (session.host, session.session_id, session.session_id)
        ts = micros(_text(record.get("at")))
        event = f"{stream.stream}.{stream.generation}.{number}.0"
        call = f"{event}.run" if "run" in record else None
        kind, actor, text = _meaning(record, parsed)
        key = _text(record.get("call"))
        parsed.events.append((event, *ids, len(parsed.events), ts, kind, None, actor, text, None, call, key, *place))
        if call:
            failed = record.get("status") not in {0, None}
            command = [text] if text else []
            row = (
                len(parsed.events) - 1,
                "run",
                "shell",
                [],
                [],
                command,
                None,
                failed,
                None,
                None,
                len(text or ""),
                0,
                ts,
                None,
                event,
                None,
            )
            parsed.tool_calls.append((call, *ids, *row))
        asked, answered = _tokens(record.get("tokens"))
        if key and key not in used and asked + answered:
            used.add(key)
            model = _text(record.get("model")) or ""
            sizes = (asked, answered, 0, 0, 0, 0, asked)
            parsed.model_calls.append((key, *ids, ts, model, *sizes, None, None, 0, None, None, None, False, True, None, "own", *place))


def _meaning(record: dict[str, Any], parsed: Parsed) -> tuple[str, str, str | None]:
    """Return kind, actor and text of a record, and note what it says of the chat."""
    if "id" in record:
        parsed.facts.cwd = parsed.facts.cwd or _text(record.get("cwd"))
        return "session_start", "system", None
    if "run" in record:
        return "tool_call", "assistant", _text(record["run"])
    if record.get("who") == "person":
        return "prompt", "user", _text(record.get("say"))
    if record.get("who") == "parrot":
        return "answer", "assistant", _text(record.get("say"))
    parsed.unknown["record"] = parsed.unknown.get("record", 0) + 1
    return "unknown", "system", json.dumps(record)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _tokens(value: Any) -> tuple[int, int]:
    whole = isinstance(value, list) and len(value) == 2 and all(type(n) is int and 0 <= n < 10**12 for n in value)
    return (value[0], value[1]) if whole else (0, 0)


def _answered(records: Iterable[Mapping[str, Any]]) -> HeadlessAnswer:
    """Return what the stream of a parrot that was asked without a person says."""
    return HeadlessAnswer("".join(str(record["say"]) for record in records if record.get("who") == "parrot"))


HOST = Host(
    key=KEY,
    title="Parrot",
    version=1,
    files=HomeFiles(
        roots_env="PARROT_HOME",
        roots_default=("~/.parrot",),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=frozenset({"chat"}),
    ),
    records=Records(parse=parse),
    agent=Agent(
        resume="parrot --again {session_id}",
        headless=Headless(("parrot", "--answer"), read=_answered, method="parrot_headless"),
    ),
)
