"""From the chat, the events and the usage database of one Copilot session to rows, each thing once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts.copilot.chat import ChatReader, charge_of, folder_of, read_chats, results_of, usages_of
from ctx_pipeline.hosts.copilot.events import Closing, EventReader
from ctx_pipeline.hosts.copilot.paths import CHAT, DESCRIPTION, EVENTS, STORE, TRANSCRIPT, workspace_folder
from ctx_pipeline.hosts.copilot.record_types import FIELDS
from ctx_pipeline.hosts.record_rows import Rows, Usage, newest_first, records_of, whole
from ctx_pipeline.hosts.record_values import mapping, number, text, tokens, when, words, written
from ctx_pipeline.model.declared import Formats
from ctx_pipeline.model.host_records import BILLED

if TYPE_CHECKING:
    from ctx_pipeline.hosts.copilot.chat import Chat, Request
    from ctx_pipeline.hosts.record_rows import Record
    from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes

HOST = "copilot"

_NAME_BY_PERSON = "user_named: true"


def known() -> Formats:
    """Return the fields of JSONL records that are known."""
    return Formats(FIELDS)


def parse(session: SessionInput) -> Parsed:
    """Return the rows of one session; a chat that a transcript tells too is read from the transcript."""
    rows = Rows(HOST, session.session_id)
    chat = read_chats(sorted(newest_first(session, CHAT), key=lambda s: not s.rel.endswith(".jsonl")), rows)
    rows.facts.cwd = folder_of(chat)
    results = results_of(chat)
    events = EventReader(rows, results)
    records = list(records_of(newest_first(session, EVENTS, TRANSCRIPT), rows))
    told = Counter(
        (text(mapping(r.value.get("data")).get("content")) or "").strip() for r in records if r.value.get("type") == "user.message"
    )
    talk = ChatReader(rows, results)
    first = next((ts for r in records if (ts := when(text(r.value.get("timestamp")))) is not None), None)
    later: list[Request] = []
    twice: list[Request] = []
    for request in chat.requests:
        if told[request.asked.strip()] > 0:
            told[request.asked.strip()] -= 1
            twice.append(request)
        elif first is not None and (request.ts or first) < first:
            talk.read(request)
        else:
            later.append(request)
    events.read(records)
    for request in twice:
        talk.close(request)
    for request in later:
        talk.read(request)
    if chat.requests:
        rows.facts.status = talk.status
    stored = list(records_of(newest_first(session, STORE), rows))
    _stored(rows, stored, untold=not (chat.requests or events.prompts))
    _count(rows, chat, events, [r for r in stored if r.value.get("table") == "assistant_usage_events"])
    _entitle(rows, chat, newest_first(session, DESCRIPTION), stored)
    if rows.facts.cwd is None:
        about = (session.hints.get(workspace_folder(stream.rel) or "", {}) for stream in session.streams)
        rows.facts.cwd = next((told["cwd"] for told in about if "cwd" in told), None)
    return rows.parsed()


# Usage: from the database, else from the events, else from each request.


def _count(rows: Rows, chat: Chat, events: EventReader, stored: list[Record]) -> None:
    if any([_from_row(rows, record) for record in stored]):  # noqa: C419 - each row is counted
        return
    if events.usages:
        for place, ts, thread, key, model, usage in events.usages:
            rows.model_call(place, key, model, usage, ts=ts, thread=thread)
    elif events.closings:
        _closed(rows, events)
    else:
        counted = False
        for request in chat.requests:
            for key, model, usage in usages_of(request, rows.session_id):
                counted = True
                rows.model_call(request.place, key, model, usage, ts=request.ts)
        if not counted:
            _messages(rows, events, 0)
    for request in chat.requests:
        if charge := charge_of(request):
            _billed(rows, request.place, charge, request.ts)


def _billed(rows: Rows, place: Any, charge: dict[str, Any], ts: int | None) -> None:
    rows.event(place, "attachment", BILLED, "system", written({k: v for k, v in charge.items() if v}), ts=ts)


def _from_row(rows: Rows, record: Record) -> bool:
    """Count a row of ``assistant_usage_events``: one model call, whose prompt includes what the cache served and took."""
    row = mapping(record.value.get("row"))
    names = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    read, write, reasoning = (row.get(name) for name in names)
    usage = Usage.whole_prompt(row.get("input_tokens"), row.get("output_tokens"), read=read, write=write, reasoning=reasoning)
    ts = when(text(row.get("created_at")))
    model = words(row.get("copilot_usage_model")) or words(row.get("model"))
    charge = {"model": model, "premium_requests": number(row.get("request_multiplier")), "nano_aiu": tokens(row.get("total_nano_aiu"))}
    if charge["premium_requests"] or charge["nano_aiu"]:
        _billed(rows, record.place, charge, ts)
    if not usage.context + usage.output:
        return False
    agent = words(row.get("agent_id"))
    thread = f"{rows.session_id}/{agent[:128]}" if agent not in {"", "main"} else rows.session_id
    key = words(row.get("api_call_id")) or f"{rows.session_id}:{tokens(row.get('id'))}"
    rows.thread(thread, "subagent", parent_thread_id=rows.session_id)
    rows.model_call(record.place, key, model, usage, ts=ts, thread=thread)
    return True


def _closed(rows: Rows, events: EventReader) -> None:
    """Count what each ``session.shutdown`` adds: versions differ in whether it repeats what an earlier one counted."""
    before: Closing | None = None
    for closing in events.closings:
        if before is not None and _repeats(before, closing):
            closing.whole = True
        for model, usage in closing.models.items():
            counted = _difference(usage, before.models.get(model)) if before is not None and closing.whole else usage
            if counted.context + counted.output:
                rows.model_call(closing.place, f"{closing.key}:{model}", model, counted, ts=closing.ts)
            charged = closing.credits[model]
            if before is not None and closing.whole:
                earlier = before.credits.get(model, {})
                charged = {unit: max(0.0, amount - earlier.get(unit, 0.0)) for unit, amount in charged.items()}
            if any(charged.values()):
                _billed(rows, closing.place, {"model": model, **charged}, closing.ts)
        before = closing
    _messages(rows, events, events.closings[-1].said)


def _repeats(before: Closing, closing: Closing) -> bool:
    """Tell whether an account includes the one before it.

    The messages' own output tokens decide where they are recorded; else an account that
    falls nowhere is taken as a running total.
    """
    output = sum(usage.output for usage in closing.models.values())
    if closing.said > before.said > 0:
        return abs(output - closing.said) <= abs(output - (closing.said - before.said))
    return all(
        model in closing.models and all(now >= then for now, then in zip(closing.models[model], usage, strict=True))
        for model, usage in before.models.items()
    )


def _difference(usage: Usage, before: Usage | None) -> Usage:
    return Usage(*(max(0, now - then) for now, then in zip(usage, before, strict=True))) if before else usage


def _messages(rows: Rows, events: EventReader, said: int) -> None:
    """Count the output of the messages that no account includes: those of a session that goes on, or whose end was lost."""
    passed = 0
    for place, ts, thread, key, model, output in events.messages:
        passed += output
        if output and passed > said:
            rows.model_call(place, key, model, Usage(output=output), ts=ts, thread=thread)


# What the database and the files beside a session tell.


def _stored(rows: Rows, stored: list[Record], *, untold: bool) -> None:
    """Read the tables of the database; its turns are the conversation only where nothing else tells it."""
    for place, value in stored:
        table, row = words(value.get("table")), mapping(value.get("row"))
        if table == "sessions":
            facts = rows.facts
            facts.cwd = facts.cwd or words(row.get("cwd")) or None
            facts.branch = facts.branch or words(row.get("branch")) or None
            facts.repository = facts.repository or words(row.get("repository")) or None
        elif table == "turns":
            if not untold:
                continue
            ts = when(text(row.get("timestamp")))
            parent = rows.event(place, "prompt", table, "user", text(row.get("user_message")), ts=ts)
            if answer := text(row.get("assistant_response")):
                rows.event(place, "answer", table, "assistant", answer, ts=ts, parent=parent)
                rows.facts.status = "completed"
        elif table in {"checkpoints", "session_files", "session_refs", "forge_trajectory_events"}:
            rows.event(place, "attachment", table, "system", written(row), ts=when(text(row.get("created_at"))))
        elif table != "assistant_usage_events":
            rows.unknown_record(place, f"table/{table}" if table else "record", value, ts=None)


def _entitle(rows: Rows, chat: Chat, descriptions: list[StreamBytes], stored: list[Record]) -> None:
    """Choose the title: the person's, the model's, the summary of the database; the first prompt comes last."""
    facts = rows.facts
    told = [(words(chat.state.get("customTitle")), "custom")]
    for stream in descriptions:
        lines = stream.data.decode("utf-8", "replace").splitlines()
        said = {name.strip(): value.strip().strip("'\"") for name, found, value in (line.partition(":") for line in lines) if found}
        source = "custom" if any(line.strip() == _NAME_BY_PERSON for line in lines) else "ai"
        told.append((words(said.get("name")) or words(said.get("summary")), source))
        for name in ("cwd", "branch"):
            if getattr(facts, name) is None and said.get(name):
                setattr(facts, name, words(said[name]))
        if stream is descriptions[0]:
            rows.event(whole(stream), "attachment", "workspace.yaml", "system", written(said), ts=None)
    told += [(words(mapping(r.value.get("row")).get("summary")), "summary") for r in stored if r.value.get("table") == "sessions"]
    for title, source in told:
        if title:
            facts.title, facts.title_source = title, source
            return
