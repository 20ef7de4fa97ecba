"""From all captured streams of a Codex session to its rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.hosts.codex import exec_stream, record_types, replay
from ctx_pipeline.hosts.codex.discovery import subagent
from ctx_pipeline.hosts.codex.event_messages import EVENTS
from ctx_pipeline.hosts.codex.items import ITEMS, Families, joined
from ctx_pipeline.hosts.codex.paths import LOOSE, ROLLOUT
from ctx_pipeline.hosts.codex.record_types import value_of, written
from ctx_pipeline.hosts.codex.rows import REPLAYED
from ctx_pipeline.hosts.codex.thread_lines import read_thread
from ctx_pipeline.hosts.codex.thread_state import Walk
from ctx_pipeline.hosts.codex.usage import Counter
from ctx_pipeline.model import usage_rules
from ctx_pipeline.model.declared import Formats
from ctx_pipeline.model.raw import Parsed, SessionFacts, ThreadFacts
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.titles import title_in_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ctx_pipeline.hosts.codex.record_types import Payload
    from ctx_pipeline.hosts.codex.thread_lines import Entry
    from ctx_pipeline.model.raw import SessionInput, StreamBytes


_KEY, _THREAD, _TS, _OWNER = map(MODEL_CALLS.names.index, ("call_key", "thread_id", "ts", "owner"))
"""owner, copy_of and rule follow one another"""

_NAME_LENGTH = 60
"""Indexes cut the prompts that stand in for names at about this length."""


def parse(session: SessionInput) -> Parsed:
    """Return the rows and facts of a session; the root thread comes first."""
    threads: dict[str, list[StreamBytes]] = {}
    streamed: dict[str, list[StreamBytes]] = {}
    for stream in session.streams:
        if stream.kind == ROLLOUT or (stream.kind == LOOSE and exec_stream.thread_of(stream.data) is None):
            threads.setdefault(stream.thread_id, []).append(stream)
        elif stream.kind == LOOSE:
            streamed.setdefault(stream.thread_id, []).append(stream)
    ids = sorted({*threads, *streamed}, key=lambda t: (t != session.session_id, t))
    siblings = frozenset(ids)
    parsed = Parsed()
    for thread_id in ids:
        if thread_id not in threads:
            _add_streamed(parsed, exec_stream.read(session.session_id, thread_id, streamed[thread_id], session.hints.get(thread_id, {})))
            continue
        lines = read_thread(threads[thread_id])
        told = session.hints.get(thread_id, {}).get("parent_thread_id")
        walk = _walk(session.session_id, thread_id, siblings, lines.entries, told if told != thread_id else None)
        parsed.events += walk.rows.events
        parsed.model_calls += walk.rows.model_calls
        parsed.tool_calls += walk.rows.tool_rows()
        parsed.quarantined += lines.quarantined
        parsed.repaired += lines.repaired
        parsed.lines += lines.count
        for label, count in walk.rows.unknown.items():
            parsed.unknown[label] = parsed.unknown.get(label, 0) + count
        facts = _thread_facts(walk, threads[thread_id], session.hints.get(thread_id, {}))
        parsed.threads.append(facts)
        if len(parsed.threads) == 1:
            parsed.facts = _session_facts(walk, facts, session.hints.get(thread_id, {}))
    if len(parsed.threads) > 1:
        parsed.model_calls = _without_repeats(session.session_id, parsed)
    if _archived(session):
        parsed.facts.status = "archived"
    return parsed


def _without_repeats(session_id: str, parsed: Parsed) -> list[tuple]:
    """Return the model calls, those as copies that a thread repeats with the running totals of the thread that spawned it."""
    calls: dict[str, dict[str, int | None]] = {}
    for row in parsed.model_calls:
        if row[_OWNER]:
            calls.setdefault(row[_THREAD], {})[row[_KEY]] = row[_TS]
    repeated = usage_rules.replays(calls, {thread.thread_id: thread.parent_thread_id for thread in parsed.threads})
    if not repeated:
        return parsed.model_calls
    return [
        (*row[:_OWNER], False, session_id, REPLAYED, *row[_OWNER + 3 :]) if row[_KEY] in repeated else row for row in parsed.model_calls
    ]


def _archived(session: SessionInput) -> bool:
    """Return whether the root thread was put away: the database says so, or the agent moved its rollout."""
    if session.hints.get(session.session_id, {}).get("archived"):
        return True
    rels = [s.rel for s in session.streams if s.kind == ROLLOUT and s.current and s.thread_id == session.session_id]
    return bool(rels) and all(rel.startswith("archived_sessions/") for rel in rels)


def _add_streamed(parsed: Parsed, thread: exec_stream.Streamed) -> None:
    """Add a thread that has no rollout."""
    parsed.events += thread.rows.events
    parsed.model_calls += thread.rows.model_calls
    parsed.tool_calls += thread.rows.tool_rows()
    parsed.quarantined += thread.quarantined
    parsed.repaired += thread.repaired
    parsed.lines += thread.lines
    for label, count in thread.rows.unknown.items():
        parsed.unknown[label] = parsed.unknown.get(label, 0) + count
    parsed.threads.append(thread.facts)
    if len(parsed.threads) == 1:
        title = thread.facts.title
        parsed.facts = SessionFacts(title=title, title_source="custom" if title else "none", status=thread.facts.status)


def _walk(session_id: str, thread_id: str, siblings: frozenset[str], entries: Sequence[Entry], told: str | None) -> Walk:
    copies, parent = replay.copied(entries, told)
    records = (e.payload for e in entries if e.type == "token_usage_record" and e.payload)
    walk = Walk(session_id, thread_id, siblings, Families(entries[copies:] if copies else entries), Counter(records))
    if copies and entries[0].payload is not None:
        walk.origin = replay.origin(entries[0].payload, parent) or told
        root = safe_id(parent.session_id) if parent is not None else None
        walk.origin_session = session_id if walk.origin in siblings else root or walk.origin
        for entry in entries[:copies]:
            _copy(walk, entry)
        entries = entries[copies:]
    item_of, event_of, others = ITEMS.get, EVENTS.get, _OTHERS
    for entry in entries:
        payload = entry.payload
        kind = entry.type
        if payload is None:
            walk.unknown(entry, payload)
        elif kind == "response_item":
            item_of(payload.type or ("message" if payload.role else ""), _unknown)(walk, entry, payload)
        elif kind == "event_msg":
            event_of(payload.type or "", _unknown)(walk, entry, payload)
        elif kind is None:
            _bare(walk, entry, payload)
        else:
            others.get(kind, _unknown)(walk, entry, payload)
    return walk


def _copy(walk: Walk, entry: Entry) -> None:
    """Note where a line of replayed history stood, without its text; its usage becomes a copy."""
    payload = entry.payload
    kind = entry.type
    if payload is None:
        walk.rows.event(entry, "injected", f"replay/{kind}"[:100], "system", None)
    elif kind == "session_meta" and walk.meta is None:
        _session_meta(walk, entry, payload)
    elif kind == "event_msg" and payload.type == "token_count":
        walk.count(entry, walk.counter.count(payload.info), payload, copied=True)
    elif kind == "token_usage_record":
        walk.count(entry, walk.counter.record(payload), payload, copied=True)
    else:
        if kind == "turn_context":
            walk.model = payload.model or walk.model
        label = f"replay/{kind}/{payload.type}" if payload.type else f"replay/{kind}"
        walk.rows.event(entry, "injected", label[:100], "system", None)


def _unknown(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.unknown(entry, payload)


def _session_meta(walk: Walk, entry: Entry, payload: Payload) -> None:
    if walk.meta is not None:
        # Codex Desktop writes its first record again at each resume
        walk.rows.event(entry, "attachment", "session_meta/resumed", "system", _meta_text(payload))
        return
    walk.meta = payload
    walk.cwd = payload.cwd or walk.cwd
    walk.rows.event(entry, "session_start", "session_meta", "system", _meta_text(payload))
    base = payload.base_instructions
    text = base if isinstance(base, str) else base.text if base else payload.instructions
    if text:
        walk.rows.event(entry, "injected", "session_meta/instructions", "system", text, block=1)


def _meta_text(meta: Payload) -> str:
    facts = {
        "originator": meta.originator,
        "version": meta.cli_version,
        "source": value_of(meta.source),
        "cwd": meta.cwd,
        "model_provider": meta.model_provider,
        "history_mode": meta.history_mode,
        "thread_source": meta.thread_source,
        "forked_from": meta.forked_from_id,
        "commit": meta.git.commit_hash if meta.git else None,
    }
    return written({k: v for k, v in facts.items() if v is not None})


def _turn_context(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.model = payload.model or walk.model
    walk.cwd = walk.cwd or payload.cwd
    facts = {"model": payload.model, "effort": payload.effort, "cwd": payload.cwd, "approval_policy": payload.approval_policy}
    if facts != walk.context:
        walk.context = facts
        walk.rows.event(entry, "attachment", "turn_context", "system", written(facts))


def _compacted(walk: Walk, entry: Entry, payload: Payload) -> None:
    message = payload.message
    walk.rows.event(entry, "compaction", "compacted", "system", message if isinstance(message, str) else None)
    ended = {"window_number": payload.window_number, "window_id": payload.window_id, "context_tokens": walk.held}
    known = {name: value for name, value in ended.items() if value is not None}
    if known:
        walk.rows.event(entry, "attachment", "compacted/window", "system", written(known), block=1)


def _usage_record(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.count(entry, walk.counter.record(payload), payload)


def _note_unknown(walk: Walk, entry: Entry, payload: Payload) -> None:
    del payload
    walk.note(entry, entry.type or "?")


def _between_agents(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.note(entry, entry.type or "?", kind="injected", actor="subagent", text=joined(payload.content) or None)


def _bare(walk: Walk, entry: Entry, payload: Payload) -> None:
    if payload.record_type is not None:
        return
    if walk.meta is None and payload.type is None and payload.role is None:
        _session_meta(walk, entry, payload)
    else:
        ITEMS.get(payload.type or ("message" if payload.role else ""), _unknown)(walk, entry, payload)


_OTHERS: dict[str, Callable[[Walk, Entry, Payload], None]] = {
    "session_meta": _session_meta,
    "turn_context": _turn_context,
    "compacted": _compacted,
    "token_usage_record": _usage_record,
    "inter_agent_communication": _between_agents,
    "inter_agent_communication_metadata": _note_unknown,
    "world_state": _note_unknown,
    "retained_context": _note_unknown,
    "security_risk_score": _note_unknown,
    "realtime_item": _note_unknown,
}


_LAST = {"prompt": "abandoned", "subagent_start": "abandoned", "error": "errored", "reasoning": "interrupted", "tool_result": "interrupted"}
"""What the last telling event says of a thread whose turn has no end."""


def _thread_facts(walk: Walk, streams: Sequence[StreamBytes], hints: Mapping[str, str]) -> ThreadFacts:
    meta = walk.meta
    parent = next((s.parent_thread_id for s in streams if s.parent_thread_id), None) or hints.get("parent_thread_id")
    kind, agent = "main", None
    if meta is not None:
        spawned, _ = subagent(meta)
        agent = meta.agent_nickname or meta.agent_role or spawned
        if spawned in {"review", "compact"}:
            kind = spawned
        elif spawned or meta.parent_thread_id or meta.thread_source == "subagent":
            kind = "subagent"
        elif meta.forked_from_id:
            kind = "fork"
        elif parent and walk.rows.thread_id != walk.rows.session_id:
            kind = "subagent"
    git = meta.git if meta is not None else None
    return ThreadFacts(
        thread_id=walk.rows.thread_id,
        kind=kind,
        parent_thread_id=parent,
        agent=agent,
        title=_title(walk, hints)[0],
        cwd=walk.cwd,
        branch=git.branch if git else None,
        version=meta.cli_version or None if meta else None,
        status=_status(walk),
        context_window=walk.window,
    )


def _session_facts(walk: Walk, thread: ThreadFacts, hints: Mapping[str, str]) -> SessionFacts:
    title, source = _title(walk, hints)
    git = walk.meta.git if walk.meta is not None else None
    parent = thread.parent_thread_id if thread.parent_thread_id != walk.rows.session_id else None
    return SessionFacts(
        title=title,
        title_source=source,
        cwd=walk.cwd,
        repository=_remote(git.repository_url) if git and git.repository_url else walk.cwd,
        branch=thread.branch,
        version=thread.version,
        parent_session=walk.origin_session if walk.origin_session not in {None, walk.rows.session_id} else parent,
        status=thread.status,
    )


def _status(walk: Walk) -> str:
    """Return how the thread ended: as its last turn says, else as its last event shows."""
    if walk.status != "unknown":
        return walk.status
    for row in reversed(walk.rows.events):
        kind, subtype = row[6], row[7]
        if kind in _LAST:
            return _LAST[kind]
        if kind == "answer":
            return "unknown" if subtype.endswith("/commentary") else "completed"
        if kind == "tool_call":
            return "interrupted" if walk.rows.tools[-1].result_event is None else "unknown"
    return "unknown"


def _title(walk: Walk, hints: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the title and where it comes from; a name that only repeats the prompt's beginning is no name."""
    asked = " ".join((walk.first_prompt or "").split())
    for name, source in ((hints.get("title"), "custom"), (walk.name, "custom"), (hints.get("derived_title"), "summary")):
        if name and not (asked and asked.startswith(" ".join(name.split()).rstrip("….")[:_NAME_LENGTH])):
            return name, source
    prompt = walk.first_prompt or hints.get("first_prompt")
    if prompt:
        return title_in_lines(prompt.partition("\n")[0]), "prompt"
    return None, "none"


def _remote(url: str) -> str:
    """Return a remote URL without credentials and without ``.git``."""
    return re.sub(r"^([a-z+]+://)[^/@]*@", r"\1", url.strip()).removesuffix(".git")


# The fields of a rollout's lines that are known: those that are read, and those left out because they say nothing
# more.


_TURNS = (
    *("approvals_reviewer", "collaboration_mode", "collaboration_mode_kind", "comp_hash", "current_date", "developer_instructions"),
    *("memory_mode", "multi_agent_mode", "multi_agent_version", "permission_profile", "personality", "realtime_active", "root_turn_id"),
    *("sandbox_policy", "timezone", "truncation_policy", "user_instructions", "workspace_roots", "dynamic_tools", "context_window"),
    *("history_mode", "model_provider", "agent_path", "time_to_first_token_ms", "duration_ms"),
)
_ITEMS = (
    *("encrypted_content", "full", "formatted_output", "stdout", "stderr", "aggregated_output", "images", "local_images", "text_elements"),
    *("memory_citation", "execution", "process_id", "internal_chat_message_metadata_passthrough", "last_agent_message", "completed_at"),
    *("action_name", "app_name", "connector_id", "link_id", "client_id", "goal", "threadId", "state", "duration", "num_turns"),
    *("replacement_history", "first_window_id", "previous_window_id", "window_id", "window_number"),
    *("latest_token_usage_record", "turn_token_usage", "new_thread_id", "sender_thread_id", "new_agent_nickname", "new_agent_role"),
)

_FORMATS = Formats(
    fields={
        "": frozenset((*record_types.Line.__struct_encode_fields__, "ordinal", "metadata", *record_types.Payload.__struct_encode_fields__)),
        "payload": frozenset((*record_types.Payload.__struct_encode_fields__, *_TURNS, *_ITEMS)),
        "payload.info": frozenset(record_types.Info.__struct_encode_fields__),
        "payload.usage": frozenset((*record_types.Usage.__struct_encode_fields__, "total_tokens")),
        "payload.info.last_token_usage": frozenset((*record_types.Usage.__struct_encode_fields__, "total_tokens")),
    }
)


def known() -> Formats:
    """Return the fields that are known."""
    return _FORMATS
