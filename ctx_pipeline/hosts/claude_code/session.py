"""All streams of one Claude Code session become rows of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple

from ctx_pipeline.hosts.claude_code import record_types, system_records
from ctx_pipeline.hosts.claude_code.discovery import agent_of_todos, safe_id
from ctx_pipeline.hosts.claude_code.record_types import AgentMeta, DecodeErrors, Index, Prompt, index_decoder, meta_decoder, prompt_decoder
from ctx_pipeline.hosts.claude_code.thread import Gathered, Thread
from ctx_pipeline.hosts.claude_code.transcript import walk
from ctx_pipeline.model.agent_config import HeadlessAnswer
from ctx_pipeline.model.declared import Formats
from ctx_pipeline.model.host_records import APPROVED_PLAN, approved_plan
from ctx_pipeline.model.raw import Parsed, SessionFacts, ThreadFacts
from ctx_pipeline.model.titles import title_in_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctx_pipeline.model.raw import SessionInput, StreamBytes


# Files beside the transcripts: todo and task states, agent descriptions, workflow runs, spilled results.


_KINDS = {"todos": "todo", "tasks": "todo", "workflow": "attachment"}


def read_side_file(state: Gathered, stream: StreamBytes) -> None:
    """Add what a side file says: a description to its thread, or one event that holds its text.

    File history and spilled results are no events: a spilled text stands in its tool
    result, and the contents of edited files stay in raw.
    """
    if stream.kind == "agent_meta":
        _describe(state, stream)
    kind = _KINDS.get(stream.kind)
    if kind is None or not stream.data.strip():
        return
    thread = _thread_of(state, stream)
    text = stream.data.decode("utf-8", "replace").strip()
    if stream.kind == "todos" and text == "[]":
        return
    thread.rows.append(
        (
            f"{stream.stream}.{stream.generation}.0.0",
            state.host,
            state.session_id,
            thread.thread_id,
            len(thread.rows),
            None,
            kind,
            f"file/{stream.kind}",
            "system",
            text,
            None,
            None,
            None,
            stream.stream,
            stream.generation,
            0,
            len(stream.data),
            0,
        ),
    )


def _thread_of(state: Gathered, stream: StreamBytes) -> Thread:
    """Return the thread that a todo list belongs to, else the main one."""
    agent = agent_of_todos(stream.rel) if stream.kind == "todos" else None
    thread = state.threads.get(f"{state.session_id}/{agent}") if agent else None
    return thread or state.threads[state.session_id]


def _describe(state: Gathered, stream: StreamBytes) -> None:
    try:
        meta: AgentMeta = meta_decoder.decode(stream.data)
    except DecodeErrors:
        state.count_unknown("file/agent_meta")
        return
    thread = state.threads.get(stream.thread_id)
    if thread is not None:
        thread.agent = meta.agent_type or thread.agent
        thread.title = meta.description or thread.title


def hints(kind: str, data: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield (session, field, value) from the prompt history and the session indexes.

    ``first_prompt`` comes once for each session; ``title`` is the index's summary, which
    may be stale.
    """
    if kind == "history":
        known: set[str] = set()
        for line in data.split(b"\n"):
            try:
                prompt: Prompt = prompt_decoder.decode(line)
            except DecodeErrors:
                continue
            session = prompt.session_id
            if session and session not in known and prompt.display and not prompt.display.startswith("/"):
                known.add(session)
                yield session, "first_prompt", title_in_lines(prompt.display)
    elif kind == "index":
        try:
            index: Index = index_decoder.decode(data)
        except DecodeErrors:
            return
        for entry in index.entries or ():
            if entry.session_id and entry.summary:
                yield entry.session_id, "title", title_in_lines(entry.summary)


_LINES = {"transcript": 0, "agent": 1, "journal": 2}
_DETACHED = "HEAD"
"""What is recorded as the branch where none is checked out."""


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a session.

    Main transcripts are read before agent files, the longest current stream of a thread
    first: what an older generation or a copy in another project folder repeats is taken
    once.
    """
    state = Gathered.of(session)
    ordered = sorted(
        (s for s in session.streams if s.kind in _LINES),
        key=lambda s: (_LINES[s.kind], s.thread_id, not s.current, -len(s.data), s.stream, -s.generation),
    )
    for stream in session.streams:
        if stream.kind == "tool_result" and stream.current:
            state.spilled[stream.rel.rpartition("/")[2]] = stream.data.decode("utf-8", "replace")
    streams_of: dict[str, int] = {}
    for stream in ordered:
        streams_of[stream.thread_id] = streams_of.get(stream.thread_id, 0) + 1
    for stream in ordered:
        if stream.kind == "agent":
            state.thread(stream.thread_id, _agent_kind(stream))
    for stream in ordered:
        thread = state.threads.get(stream.thread_id) or state.thread(stream.thread_id, "main")
        if streams_of[stream.thread_id] > 1 and thread.plain_lines is None:
            thread.plain_lines = set()
        walk(state, stream, thread)
    for stream in sorted(session.streams, key=lambda s: (s.kind, s.rel, s.stream, s.generation)):
        if stream.kind not in _LINES and stream.current:
            read_side_file(state, stream)
    _adopt(state)
    _promote(state)
    return _rows(state, session)


def _agent_kind(stream: StreamBytes) -> str:
    return "compact" if stream.rel.rpartition("/")[2].startswith("agent-acompact") else "subagent"


def _adopt(state: Gathered) -> None:
    """Give rows whose parent came later their parent, and agents the thread that called them."""
    for thread, first, last, parent_uuid in state.orphans:
        found = state.firsts.get(parent_uuid)
        if found is not None:
            parent = found[0]
            for index in range(first, last):
                row = thread.rows[index]
                thread.rows[index] = (*row[:10], parent, *row[11:])
    for agent, spawner in state.spawned.items():
        child = state.threads.get(f"{state.session_id}/{safe_id(agent)}")
        if child is not None and child.thread_id != spawner and not _descends(state, spawner, child.thread_id):
            child.parent = spawner


def _descends(state: Gathered, thread_id: str, ancestor: str) -> bool:
    """Return whether a thread stands below another, so that a hostile file makes no ring."""
    here: str | None = thread_id
    for _ in range(len(state.threads) + 1):
        if here is None:
            return False
        if here == ancestor:
            return True
        thread = state.threads.get(here)
        here = thread.parent if thread else None
    return True


def _promote(state: Gathered) -> None:
    """Make queued words that were sent in no other record the prompts that they are."""
    for thread, index, words in state.pending:
        if words in state.prompts:
            continue
        state.prompts.add(words)
        row = thread.rows[index]
        thread.rows[index] = (*row[:6], "prompt", *row[7:])


def _rows(state: Gathered, session: SessionInput) -> Parsed:
    host, session_id = state.host, state.session_id
    parsed = Parsed(
        model_calls=state.usage.rows(),
        quarantined=state.quarantined,
        unknown=state.unknown,
        repaired=state.repaired,
        lines=state.lines,
        line_ids=list(state.firsts),
        branch_titles={leaf: text for leaf, text in state.titles.summaries.items() if leaf not in state.firsts},
    )
    for thread in state.threads.values():
        parsed.events += thread.rows
        tid = thread.thread_id
        parsed.tool_calls += [(call_id, host, session_id, tid, *astuple(call)) for call_id, call in thread.calls.items()]
        parsed.threads.append(
            ThreadFacts(
                tid, thread.kind, thread.parent, thread.agent, thread.title, thread.cwd, thread.branch, thread.version, status(thread)
            ),
        )
    main = state.threads[session_id]
    first = next((t for t in state.threads.values() if t.cwd), main)
    title, source = _title(state, session, main)
    main_facts = parsed.threads[0]
    main_facts.title = title
    parsed.facts = SessionFacts(
        title=title,
        title_source=source,
        cwd=first.cwd,
        branch=first.branch,
        last_branch=main.last_branch if main.last_branch != _DETACHED else None,
        version=first.version,
        parent_session=safe_id(state.forked_from) if state.forked_from and state.forked_from != session_id else None,
        status=main_facts.status if main.rows else "unknown",
    )
    return parsed


def _title(state: Gathered, session: SessionInput, main: Thread) -> tuple[str | None, str]:
    """Return the title and its source: custom, ai, summary of a branch of this session, first prompt."""
    titles = state.titles
    hints = session.hints.get(state.session_id, {})
    summary = next((text for leaf, text in reversed(titles.summaries.items()) if leaf in state.firsts), None)
    asks = (row[9] if row[6] == "prompt" else approved_plan(row[6], row[7], row[9]) for row in main.rows)
    prompt = next((ask for ask in asks if ask and ask.strip()), None)
    for text, source in (
        (titles.custom, "custom"),
        (titles.ai, "ai"),
        (summary or hints.get("title"), "summary"),
        (prompt or hints.get("first_prompt"), "prompt"),
    ):
        if text and text.strip():
            return title_in_lines(text), source
    return None, "none"


def status(thread: Thread) -> str:
    """Return how a thread ended, by its last telling event.

    An answer is completed, an error errored, an interrupt or an unanswered tool call
    interrupted, a prompt without any answer abandoned.
    """
    for row in reversed(thread.rows):
        kind = row[6]
        if kind == "answer":
            return "completed"
        if kind == "error":
            return "errored"
        if kind == "injected" and row[7] == "interrupt":
            return "interrupted"
        if kind == "tool_call":
            call = thread.calls.get(row[11])
            return "interrupted" if call is None or call.result_event is None else "unknown"
        if kind in ("prompt", "subagent_start") or row[7] == APPROVED_PLAN:
            return "abandoned"
        if kind in ("tool_result", "reasoning"):
            return "interrupted"
    return "unknown"


# Who is named in the prompt history, and when: sessions whose transcripts may be gone.


_LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999."""


class _Said(msgspec.Struct, gc=False, rename="camel"):
    session_id: str | None = None
    display: str | None = None
    timestamp: Any = None


_decode = msgspec.json.Decoder(_Said).decode


def mentions(kind: str, data: bytes) -> Iterator[tuple[str, int]]:
    """Yield (session, microseconds since 1970) for each prompt of the history; slash commands open no transcript and are passed over."""
    if kind != "history":
        return
    for line in data.split(b"\n"):
        try:
            said = _decode(line)
        except DecodeErrors:
            continue
        at = said.timestamp
        if not said.session_id or not said.display or said.display.startswith("/") or isinstance(at, bool):
            continue
        if isinstance(at, int | float) and 0 < at <= _LATEST:
            yield said.session_id, int(at * 1000)


# The fields of a transcript's records that are known: those that are read, and those left out because they say
# nothing more.


_ENVELOPE = (
    *("userType", "entrypoint", "slug", "sessionId", "promptId", "promptSource", "teamName", "sessionKind", "agentColor", "agentSetting"),
    *("sourceToolAssistantUUID", "sourceToolUseID", "logicalParentUuid", "isVisibleInTranscriptOnly", "thinkingMetadata", "todos"),
    *("imagePasteIds", "interruptedMessageId", "attributionSkill", "attributionPlugin", "apiErrorStatus", "durationMs"),
)

_FORMATS = Formats(
    fields={
        "": frozenset((*record_types.Record.__struct_encode_fields__, *_ENVELOPE, *system_records.FIELDS)),
        "message": frozenset(
            (
                *record_types.Message.__struct_encode_fields__,
                *("type", "stop_reason", "stop_sequence", "stop_details", "container", "context_management", "diagnostics"),
            )
        ),
        "message.usage": frozenset((*record_types.Usage.__struct_encode_fields__, "inference_geo")),
    }
)


def known() -> Formats:
    """Return the fields that are known."""
    return _FORMATS


# What claude -p --output-format stream-json prints: one record a message, the last one with the answer and its cost.


_NANO = 1_000_000_000


def read_headless(records: Iterable[Mapping[str, Any]]) -> HeadlessAnswer:
    """Return what the ``result`` record says; an error where the stream ended without one."""
    model: str | None = None
    for record in records:
        if record.get("type") == "system" and isinstance(record.get("model"), str):
            model = record["model"]
        if record.get("type") == "result":
            return _result(record, model)
    return HeadlessAnswer("", model, error="the stream ended without a result")


def _result(record: Mapping[str, Any], model: str | None) -> HeadlessAnswer:
    usage = record.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    cached = _count(usage.get("cache_read_input_tokens"))
    fresh = _count(usage.get("input_tokens")) + _count(usage.get("cache_creation_input_tokens"))
    cost = record.get("total_cost_usd")
    text = record.get("result")
    text = text if isinstance(text, str) else ""
    failed = bool(record.get("is_error")) or record.get("subtype") != "success"
    return HeadlessAnswer(
        "" if failed else text,
        model,
        fresh + cached,
        cached,
        _count(usage.get("output_tokens")),
        round(cost * _NANO) if isinstance(cost, int | float) and 0 <= cost < 1e6 else None,
        (text or str(record.get("subtype") or "an error"))[:300] if failed else "",
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
