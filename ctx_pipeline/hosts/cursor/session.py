"""From the bubbles of a conversation, else from its transcript, to rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts.cursor.paths import BUBBLE, COMPOSER, STATE, TRANSCRIPT, asked_at, safe_id, stored, time_of
from ctx_pipeline.hosts.cursor.record_types import FIELDS, action_of
from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, newest_first, records_of
from ctx_pipeline.hosts.record_values import exit_status, flat, items, mapping, number, read_json, text, tokens, words, written
from ctx_pipeline.model.declared import Formats
from ctx_pipeline.model.host_records import BILLED, REFUSED
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes

_PERSON, _MODEL = 1, 2
_QUERY = lazy_pattern(r"<user_query>(.*?)</user_query>", re.DOTALL)
_QUERY_END = "</user_query>"
_MARK = lazy_pattern(r"^(user|assistant):[ \t]*$", re.MULTILINE)
_ENDED = lazy_pattern(r"\nTurn ended: (success|error|aborted)(?:: ([^\n]*?))?\.?\Z")
_UNTOLD = "[REDACTED]"
_OMITTED = lazy_pattern(r"\[Oversize transcript blob omitted: [^\]]*\]\Z")
_ARGUMENT = lazy_pattern(r"\s*([\w-]+)(?:: |=)(.*)", re.DOTALL)
_PART = lazy_pattern(r"^[ \t]*\[(Thinking|Tool call|Tool result)\][ \t]?(.*)$", re.MULTILINE)
_STATUS = {"completed": "completed", "success": "completed", "aborted": "interrupted", "cancelled": "interrupted", "error": "errored"}
_REJECTED = frozenset({"rejected", "reject", "denied"})


def known() -> Formats:
    """Return the fields of JSONL records that are known."""
    return Formats(FIELDS)


def parse(session: SessionInput) -> Parsed:
    """Return the rows of one conversation; its transcript repeats what the database says, and is read only without it."""
    rows = Rows("cursor", session.session_id)
    composer: dict[str, Any] = {}
    composed = Place("", 0, 0, 0, 0)
    bubbles: dict[str, tuple[Place, dict[str, Any]]] = {}
    for place, value in records_of(newest_first(session, STATE), rows):
        found = stored(written(value).encode())
        if found is None:
            rows.unknown_record(place, "row", value, ts=None)
            continue
        key, body = found
        if key.startswith(BUBBLE):
            bubbles.setdefault(key.rpartition(":")[2], (place, body))
        elif key.startswith(COMPOSER):
            if not composer:
                composer, composed = body, place
                _describe(rows, place, body)
        else:
            rows.unknown_record(place, key.partition(":")[0], value, ts=None)
    for number_, message in enumerate(map(mapping, items(composer.get("conversation")))):
        bubbles.setdefault(words(message.get("bubbleId")) or f"{number_}", (composed, message))
    for name, (place, body) in _ordered(composer, bubbles):
        _bubble(rows, place, name, body, words(mapping(composer.get("modelConfig")).get("modelName")))
    if not bubbles:
        threads: set[str] = set()
        for stream in newest_first(session, TRANSCRIPT):
            if stream.thread_id not in threads:
                threads.add(stream.thread_id)
                _transcript(rows, stream)
    elif status := _STATUS.get(words(composer.get("status"))):
        rows.facts.status = status
    return rows.parsed()


def _ordered(
    composer: dict[str, Any], bubbles: dict[str, tuple[Place, dict[str, Any]]]
) -> Iterator[tuple[str, tuple[Place, dict[str, Any]]]]:
    """Yield the bubbles in the order of the conversation; those that it no longer names stand at their time."""
    listed = [words(mapping(header).get("bubbleId")) for header in items(composer.get("fullConversationHeadersOnly"))]
    order = {name: at for at, name in enumerate(listed) if name in bubbles}
    names = sorted(bubbles, key=lambda name: order.get(name, len(order)))
    if any(name not in order for name in names):
        times = {name: time_of(bubbles[name][1].get("createdAt")) for name in names}
        if all(ts is not None for ts in times.values()):
            names.sort(key=lambda name: times[name] or 0)
    yield from ((name, bubbles[name]) for name in names)


def _describe(rows: Rows, place: Place, composer: dict[str, Any]) -> None:
    facts = rows.facts
    if title := words(composer.get("name")):
        facts.title, facts.title_source = title, "ai"
    facts.branch = words(composer.get("createdOnBranch")) or None
    where = mapping(mapping(composer.get("workspaceIdentifier")).get("uri"))
    facts.cwd = words(where.get("fsPath")) or words(where.get("path")) or None
    parent = words(mapping(composer.get("subagentInfo")).get("parentComposerId"))
    facts.parent_session = safe_id(parent) if parent else None
    ts = time_of(composer.get("createdAt"))
    limit = tokens(composer.get("contextTokenLimit"))
    rows.thread(rows.session_id).context_window = limit or None
    for model, charge in mapping(composer.get("usageData")).items():
        said = {
            "model": text(model),
            "requests": number(mapping(charge).get("amount")),
            "cents": number(mapping(charge).get("costInCents")),
        }
        if said["requests"] or said["cents"]:
            rows.event(place, "attachment", BILLED, "system", written({k: v for k, v in said.items() if v}), ts=ts)
    for todo in items(composer.get("todos")):
        rows.event(place, "todo", "todos", "assistant", flat(todo) or written(todo), ts=ts)


def _bubble(rows: Rows, place: Place, name: str, bubble: dict[str, Any], model: str) -> None:
    """Add the rows of one message: what the person typed, or a step of the model."""
    ts, kind = time_of(bubble.get("createdAt")), bubble.get("type")
    said = text(bubble.get("text")) or ""
    if rows.facts.cwd is None:
        rows.facts.cwd = next((words(uri).removeprefix("file://") for uri in items(bubble.get("workspaceUris")) if words(uri)), None)
    if kind == _PERSON:
        rows.event(place, "prompt", "bubble", "user", said, ts=ts)
        rows.facts.status = "unknown"
        return
    if kind != _MODEL:
        rows.unknown_record(place, f"bubble/{written(kind)[:40]}", bubble, ts=ts)
        return
    model = words(mapping(bubble.get("modelInfo")).get("modelName")) or model
    key = f"{rows.session_id}:{name}" if name else f"{rows.session_id}:{place.line}"
    if thought := flat(mapping(bubble.get("thinking")).get("text")):
        rows.event(place, "reasoning", "bubble", "assistant", thought, ts=ts, key=key)
    if said.strip():
        rows.event(place, "answer", "bubble", "assistant", said, ts=ts, parent=rows.last_prompt, key=key)
        rows.facts.status = "completed"
    if tool := mapping(bubble.get("toolFormerData")):
        _tool(rows, place, tool, ts, key)
    if wrong := mapping(bubble.get("errorDetails")):
        rows.event(place, "error", "bubble/error", "system", flat(wrong) or written(wrong), ts=ts)
    count = mapping(bubble.get("tokenCount"))
    usage = Usage(tokens(count.get("inputTokens")), tokens(count.get("outputTokens")))
    if usage.context + usage.output:
        rows.model_call(place, key, "" if model == "default" else model, usage, ts=ts)


def _tool(rows: Rows, place: Place, tool: dict[str, Any], ts: int | None, key: str) -> None:
    name = words(tool.get("name")) or "unknown"
    raw = tool.get("rawArgs") or tool.get("params")
    arguments = read_json(raw) if isinstance(raw, str) else raw
    call_id = words(tool.get("toolCallId")) or f"{place.stream}.{place.line}"
    action = action_of(name)
    rows.tool_call(place, call_id, name, action, arguments if isinstance(arguments, dict) else raw, subtype="bubble/tool", ts=ts, key=key)
    result, status = tool.get("result"), words(tool.get("status"))
    refused = words(tool.get("userDecision")) in _REJECTED or status in _REJECTED
    if result is None and not refused and status not in {"completed", "error", "cancelled"}:
        return
    found = mapping(read_json(result)) if isinstance(result, str) else mapping(result)
    ended = exit_status(found.get("exitCode", found.get("exitCodeV2"))) if action == "shell" else None
    said = (
        next((part for field in ("output", "contents", "rejected") if (part := flat(found.get(field)))), "")
        or flat(result)
        or written(found)
    )
    failed = status in {"error", "cancelled"} or refused
    rows.tool_result(place, call_id, said, subtype=REFUSED if refused else "bubble/tool", ts=ts, failed=failed, status=ended)


# Transcripts: JSON lines of role and blocks, before 2026 plain text with marks. No time but that of a question, in late versions.


def _transcript(rows: Rows, stream: StreamBytes) -> None:
    thread = stream.thread_id if stream.thread_id.startswith(f"{rows.session_id}/") else rows.session_id
    if thread != rows.session_id:
        rows.thread(thread, "subagent", parent_thread_id=rows.session_id)
    if not stream.rel.endswith(".txt") or stream.data.lstrip()[:1] == b"{":
        for place, value in records_of([stream], rows):
            _record(rows, place, value, thread)
        return
    _plain(rows, stream, thread)


def _record(rows: Rows, place: Place, value: dict[str, Any], thread: str) -> None:
    role, body = words(value.get("role")), mapping(value.get("message")).get("content")
    blocks = [{"type": "text", "text": body}] if isinstance(body, str) else [mapping(block) for block in items(body)]
    if role not in {"user", "assistant"}:
        kind = words(value.get("type"))
        if kind == "turn_ended":
            _ended(rows, place, value, thread)
        elif kind == "metadata":
            rows.event(place, "attachment", kind, "system", written(value), ts=None, thread=thread)
        else:
            rows.unknown_record(place, kind or "record", value, ts=None, thread=thread)
        return
    for block in blocks:
        kind = words(block.get("type"))
        if kind == "text" and role == "user":
            _asked(rows, place, flat(block.get("text")), thread)
        elif kind == "text":
            _answered(rows, place, flat(block.get("text")), role, thread)
        elif kind in {"thinking", "reasoning"}:
            rows.event(place, "reasoning", kind, "assistant", flat(block.get("thinking")) or flat(block), ts=None, thread=thread)
        elif kind == "tool_use":
            name = words(block.get("name")) or "unknown"
            call_id = words(block.get("id")) or f"{place.stream}.{place.line}.{len(rows.tools)}"
            rows.tool_call(place, call_id, name, action_of(name), block.get("input"), subtype=kind, ts=None, thread=thread)
        elif kind == "tool_result":
            call_id = words(block.get("tool_use_id")) or _open_call(rows, thread) or f"{place.stream}.{place.line}"
            rows.tool_result(
                place, call_id, flat(block.get("content")), subtype=kind, ts=None, thread=thread, failed=block.get("is_error") is True
            )
        elif kind == "image":
            rows.event(place, "attachment", kind, "user", None, ts=None, thread=thread)
        else:
            rows.unknown_record(place, f"block/{kind}", block, ts=None, thread=thread)


def _ended(rows: Rows, place: Place, value: dict[str, Any], thread: str) -> None:
    """Add how a turn ended: by itself, by an error with its text, or by the person."""
    rows.event(place, "attachment", "turn_ended", "system", written(value), ts=None, thread=thread)
    status = _STATUS.get(words(value.get("status")), "")
    if status == "errored":
        rows.event(place, "error", "turn_ended", "system", flat(value.get("error")) or "error", ts=None, thread=thread)
    elif status == "interrupted":
        rows.event(place, "injected", "interrupt", "user", flat(value.get("error")) or None, ts=None, thread=thread)
    if thread == rows.session_id:
        rows.facts.status = status or rows.facts.status


def _answered(rows: Rows, place: Place, said: str, subtype: str, thread: str) -> None:
    """Add an answer; behind it stands what the model thought, as ``[REDACTED]`` where that was kept from the transcript."""
    if _OMITTED.match(said):
        rows.event(place, "attachment", "omitted", "system", said, ts=None, thread=thread)
        return
    answer = _unmarked(said)
    if answer != said:
        rows.event(place, "reasoning", "redacted", "assistant", None, ts=None, thread=thread)
    if answer.strip() or answer == said:
        rows.event(place, "answer", subtype, "assistant", answer, ts=None, thread=thread, parent=rows.last_prompt)
        rows.facts.status = "completed"


def _unmarked(said: str) -> str:
    """Return a text without the marks behind it."""
    whole = end = len(said.rstrip())
    while said.endswith(_UNTOLD, 0, end):
        end -= len(_UNTOLD)
        while end and said[end - 1].isspace():
            end -= 1
    return said[:end] if end < whole else said


def _open_call(rows: Rows, thread: str) -> str:
    """Return the id of the first call of a thread that waits for its result: blocks of results name none."""
    return next((tool.call_id for tool in rows.tools.values() if tool.thread == thread and tool.result is None), "")


def _asked(rows: Rows, place: Place, said: str, thread: str) -> None:
    cut = said.rfind(_QUERY_END) + len(_QUERY_END) if _QUERY_END in said else 0
    typed, ts = [part.strip() for part in _QUERY.findall(said[:cut])], asked_at(said)
    for part in typed or [said]:
        rows.event(place, "prompt" if thread == rows.session_id else "injected", "user", "user", part, ts=ts, thread=thread)
    if typed and (around := (_QUERY.sub("", said[:cut]) + said[cut:]).strip()):
        rows.event(place, "injected", "user/context", "system", around, ts=None, thread=thread)


def _plain(rows: Rows, stream: StreamBytes, thread: str) -> None:
    """Read a transcript of plain text: ``user:`` and ``assistant:`` on lines of their own, parts marked in brackets."""
    said = stream.data.decode("utf-8", "replace")
    last_line = max(0, said.rfind("\n", 0, len(said.rstrip())))
    closed = _ENDED.match(said, last_line, len(said.rstrip()))
    marks = list(_MARK.finditer(said, 0, closed.start() if closed else len(said)))
    bounds = [*(mark.start() for mark in marks), closed.start() if closed else len(said)]
    offsets = _offsets(said, bounds)
    for at, mark in enumerate(marks):
        rows.lines += 1
        end = bounds[at + 1]
        (first, line), last = offsets[at], min(len(stream.data), offsets[at + 1][0])
        place = Place(stream.stream, stream.generation, min(first, last - 1), last, line)
        body = said[mark.end() : end]
        if mark[1] == "user":
            _asked(rows, place, body.strip(), thread)
        else:
            _answer(rows, place, body, thread)
    if closed:
        first, line = offsets[-1]
        place = Place(stream.stream, stream.generation, min(first + 1, len(stream.data) - 1), len(stream.data), line + 1)
        _ended(rows, place, {"status": closed[1], "error": closed[2] or ""}, thread)


def _offsets(said: str, bounds: list[int]) -> list[tuple[int, int]]:
    """Return how many bytes and lines stand before each of these characters, which ascend."""
    found: list[tuple[int, int]] = []
    before = size = line = 0
    for bound in bounds:
        part = said[before:bound]
        before, size, line = bound, size + len(part.encode("utf-8", "replace")), line + part.count("\n")
        found.append((size, line))
    return found


def _answer(rows: Rows, place: Place, body: str, thread: str) -> None:
    parts = list(_PART.finditer(body))
    spans: list[tuple[str, str, int, int]] = [("", "", 0, parts[0].start() if parts else len(body))]
    spans += [(p[1], p[2], p.end(), parts[n + 1].start() if n + 1 < len(parts) else len(body)) for n, p in enumerate(parts)]
    for kind, head, start, end in spans:
        inside, prose = _inside(body[start:end]) if kind else ("", body[start:end])
        if kind == "Thinking":
            rows.event(place, "reasoning", "text", "assistant", f"{head}\n{inside}".strip(), ts=None, thread=thread)
        elif kind == "Tool call":
            name = head.strip() or "unknown"
            arguments = read_json(inside) or {found[1]: found[2].strip() for line in inside.split("\n") if (found := _ARGUMENT.match(line))}
            call_id = f"{place.stream}.{place.line}.{len(rows.tools)}"
            rows.tool_call(place, call_id, name, action_of(name), arguments, subtype="text", ts=None, thread=thread)
        elif kind == "Tool result":
            call_id = _open_call(rows, thread) or f"{place.stream}.{place.line}"
            rows.tool_result(place, call_id, inside.strip() or None, subtype="text", ts=None, thread=thread)
        if prose.strip():
            _answered(rows, place, prose.strip(), "text", thread)


def _inside(body: str) -> tuple[str, str]:
    """Return the indented lines behind a mark, and the prose after them."""
    lines = body.split("\n")
    at = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith((" ", "\t"))), len(lines))
    return "\n".join(line.strip() for line in lines[:at]).strip(), "\n".join(lines[at:])
