"""Reads one JSONL stream into event rows: the hot loop of the parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts._lines import read_records
from ctx_pipeline.hosts.claude_code.discovery import safe_id
from ctx_pipeline.hosts.claude_code.injected_text import injected_by
from ctx_pipeline.hosts.claude_code.prompts import (
    action_of,
    answer_call,
    arguments_of,
    attached,
    join,
    unknown_block,
    user_parts,
    user_texts,
)
from ctx_pipeline.hosts.claude_code.record_types import Message, Record, record_decoder
from ctx_pipeline.hosts.claude_code.system_records import Notice, label_of, notice
from ctx_pipeline.hosts.claude_code.thread import Call, Gathered, Orphan, Part, Pending, Place, Thread
from ctx_pipeline.hosts.claude_code.usage import SYNTHETIC
from ctx_pipeline.model.codec import micros

if TYPE_CHECKING:
    from ctx_pipeline.hosts.claude_code.record_types import Block
    from ctx_pipeline.hosts.claude_code.thread import Gathered, Part
    from ctx_pipeline.model.raw import StreamBytes


_ANSWER = ("answer", None, "assistant")
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def answer_parts(state: Gathered, place: Place, message: Message) -> list[Part]:
    """Return the events of an assistant record, blocks in order; one without text when it has none."""
    said: tuple[str, str | None, str] = _ANSWER
    if place.record.is_api_error_message:
        said = ("error", "api_error_message", "system")
    elif message.model == SYNTHETIC:
        said = ("injected", "synthetic", "system")
    content = message.content
    if not isinstance(content, list):
        return [_text(place, said, content)]
    parts: list[Part] = []
    for block in content:
        if isinstance(block, str):
            parts.append(_text(place, said, block))
            continue
        kind = block.type
        if kind == "text":
            parts.append(_text(place, said, block.text))
        elif kind == "thinking":
            parts.append(("reasoning", None, "assistant", block.thinking, None))
        elif kind in _CALLS:
            parts.append(_call(place, block, len(parts)))
        elif kind == "redacted_thinking":
            parts.append(("reasoning", kind, "assistant", None, None))
        else:
            parts += _rare(state, place, block, len(parts))
    return parts or [_text(place, said, None)]


def _text(place: Place, said: tuple[str, str | None, str], text: str | None) -> Part:
    """Return the event of one text block; a blank one, and one that is written again at its old time, is no answer.

    One without a text field is: the call was made, and what it said was not recorded.
    """
    if said is _ANSWER and text is not None:
        if not text or text.isspace():
            return ("injected", "empty", "assistant", text, None)
        if place.thread.replays(place.ts, text):
            return ("injected", "replay", "assistant", text, None)
    return (*said, text, None)


def _call(place: Place, block: Block, index: int) -> Part:
    tool = block.name or "unknown"
    raw = block.input
    text = str(raw, "utf-8", "replace")
    action = action_of(tool)
    paths, ranges, argv, after = arguments_of(action, raw)
    event = f"{place.event}{index}"
    call_id = block.id or event
    calls = place.thread.calls
    if call_id not in calls:
        calls[call_id] = Call(
            place.seq + index, tool, action, paths, ranges, argv, None, False, None, after, len(text), 0, place.ts, None, event, None
        )
        if (early := place.thread.early.pop(call_id, None)) is not None:
            join(calls[call_id], early)
    kind = block.type
    return ("tool_call", None if kind == "tool_use" else kind, "assistant", text, call_id)


def _rare(state: Gathered, place: Place, block: Block, index: int) -> list[Part]:
    kind = block.type or ""
    if kind == "tool_result" or kind.endswith("_tool_result"):
        return answer_call(state, place, block, index)
    if kind in ("image", "document"):
        return [attached(block, None)]
    if kind == "fallback":
        return [("attachment", kind, "system", block.text, None)]
    if kind == "compaction":
        said = block.content
        return [("compaction", kind, "system", said if isinstance(said, str) else block.text, None)]
    return [unknown_block(state, f"assistant/{label_of(block.type)}", block, place)]


_TS = 5
"""The time's place in an event row."""

_NO_ROW: tuple[Any, ...] = (None,)


def walk(state: Gathered, stream: StreamBytes, main: Thread) -> None:
    """Add the records of a stream to ``main`` (inline sidechains to threads of their own).

    A line whose uuid and time the session has seen is a copy and is passed over; so is,
    in a thread of several streams, a line without a uuid that another stream has word
    for word. Published sessions carry uuids that were redacted to one text: the time
    keeps these apart.
    """
    records = read_records(stream, record_decoder)
    state.quarantined += records.quarantined
    state.repaired += records.repaired
    state.lines += records.count
    firsts, shared, host, session = state.firsts, state.shared_uuids, state.host, state.session_id
    name, generation, data = stream.stream, stream.generation, stream.data
    prefix = f"{name}.{generation}."
    inline, known_lines = main.kind == "main", main.plain_lines
    own_lines: list[bytes] = []
    place = Place(stream, main, Record())
    glued, before, nth = records.glued, -1, 0
    last_uuid, last = None, _NO_ROW  # nearly every line answers the one before it
    record: Record
    for record, line, start, end in zip(records.values, records.lines, records.starts, records.ends, strict=True):
        uuid, parent_uuid, ts = record.uuid, record.parent_uuid, micros(record.timestamp)
        if uuid is not None:
            known = firsts.get(uuid)
            if known is not None:
                if known[_TS] == ts or (uuid, ts) in shared:
                    continue
                shared.add((uuid, ts))
                uuid = None
        elif known_lines is not None:
            own = data[start:end].strip()
            own_lines.append(own)
            if own in known_lines:
                continue
        thread = _sidechain(state, record) if inline and record.is_sidechain else main
        parent = (_NO_ROW if parent_uuid is None else last if parent_uuid == last_uuid else firsts.get(parent_uuid, _NO_ROW))[0]
        if thread.open_facts or record.git_branch not in (None, thread.last_branch):
            _facts(state, thread, record)
        rows = thread.rows
        seq = first = len(rows)
        event = f"{prefix}{line}."
        if glued:
            nth, before, event = _nth(nth, before, line, event)
        place.thread, place.record, place.seq, place.event, place.ts = thread, record, seq, event, ts
        place.number, place.start, place.end = line, start, end
        key, parts = _parts(state, place, record)
        thread_id = thread.thread_id
        for kind, subtype, actor, text, call_id in parts:
            row = (
                f"{event}{seq - first}",
                host,
                session,
                thread_id,
                seq,
                ts,
                kind,
                subtype,
                actor,
                text,
                parent,
                call_id,
                key,
                name,
                generation,
                start,
                end,
                line,
            )
            rows.append(row)
            if uuid is not None and seq == first:
                firsts[uuid] = row
                last_uuid, last = uuid, row
            seq += 1
        if parent is None and parent_uuid is not None:
            state.orphans.append(Orphan(thread, first, seq, parent_uuid))
    if known_lines is not None:
        known_lines.update(own_lines)


def _nth(nth: int, before: int, line: int, event: str) -> tuple[int, int, str]:
    """Return which record of its line this one is, the line, and how its events are named: those of a glued record beside the first's."""
    return (nth + 1, line, f"{event}{nth + 1}-") if line == before else (0, line, event)


def _parts(state: Gathered, place: Place, record: Record) -> tuple[str | None, list[Part]]:
    """Return the key of the model call that wrote a record, where one did, and the record's events."""
    message = record.message
    if isinstance(message, Message):
        role = record.type or message.role
        if role == "assistant":
            return _call_key(state, place, message), answer_parts(state, place, message)
        if role == "user":
            return None, user_parts(state, place, message)
    return None, _notice_parts(state, place)


def _call_key(state: Gathered, place: Place, message: Message) -> str | None:
    """Return the key of the model call that wrote a message, None where the client did; its usage goes to the model calls."""
    model = message.model
    if model == SYNTHETIC:
        return None
    record = place.record
    key = message.id or record.request_id or record.uuid or place.event + "0"
    usage = message.usage
    if usage is not None:
        seen = (place.thread.thread_id, place.ts, place.stream, place.start, place.end, place.number)
        state.usage.add(key, usage, model, record.cost_usd, seen)
    return key


def _facts(state: Gathered, thread: Thread, record: Record) -> None:
    """Keep the first working directory, branch and version, the last branch there, and where a fork came from."""
    thread.cwd = thread.cwd or record.cwd
    if not thread.began:
        thread.branch = record.git_branch or thread.branch
        thread.began = record.git_branch is not None and record.type != "system"
    if record.git_branch and record.cwd == thread.cwd:
        thread.last_branch = record.git_branch
    thread.version = thread.version or record.version
    if record.team_name and record.agent_name:
        thread.agent = thread.agent or record.agent_name
    if record.forked_from is not None and thread.kind == "main":
        state.forked_from = state.forked_from or record.forked_from.session_id
    thread.open_facts = not (thread.cwd and thread.began and thread.version)


def _sidechain(state: Gathered, record: Record) -> Thread:
    """Return the thread of a line that an agent wrote into the main transcript (until about 2.0.2x).

    A line belongs to its parent's sidechain; a root begins the next one.
    """
    agent = record.agent_id
    if agent:
        thread_id = f"{state.session_id}/{safe_id(agent)}"
        thread = state.threads.get(thread_id) or state.thread(f"{state.session_id}/sidechain-{safe_id(agent)}", "sidechain")
    else:
        parent = state.sidechains.get(record.parent_uuid or "")
        if parent is None:
            state.sidechain_count += 1
            parent = state.thread(f"{state.session_id}/sidechain-{state.sidechain_count}", "sidechain")
        thread = parent
    if record.uuid is not None:
        state.sidechains[record.uuid] = thread
    return thread


def _notice_parts(state: Gathered, place: Place) -> list[Part]:
    record = place.record
    said: Notice = notice(record, place.line)
    kind = record.type
    text = said.text
    if said.unknown is not None:
        state.count_unknown(said.unknown)
    elif said.kind == "prompt":
        return user_texts(state, place, text, said.subtype)
    elif said.kind == "title":
        _title(state, record)
    elif kind == "queue-operation":
        _queue(state, place, record, text)
    return [(said.kind, said.subtype, said.actor, text, None)]


def _title(state: Gathered, record: Record) -> None:
    titles = state.titles
    if record.type == "custom-title":
        titles.custom = record.custom_title or titles.custom
    elif record.type == "ai-title":
        titles.ai = record.ai_title or titles.ai
    elif record.type == "summary" and record.summary and record.leaf_uuid:
        titles.summaries[record.leaf_uuid] = record.summary


def _queue(state: Gathered, place: Place, record: Record, text: str | None) -> None:
    """Remember queued words, and forget those that went back into the input line."""
    words = (text or "").strip()
    if record.operation == "enqueue":
        if words and not words.startswith("/") and injected_by(words) is None:
            state.pending.append(Pending(place.thread, place.seq, words))
    elif record.operation == "popAll":
        state.pending.clear()
