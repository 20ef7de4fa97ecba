"""From chat records to rows: one record a message of the model's API, system records beside them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts.gemini_cli.conversation import ACTIONS, Conversation
from ctx_pipeline.hosts.gemini_cli.discovery import SESSION_KINDS as RECORDINGS
from ctx_pipeline.hosts.qwen_code.discovery import AGENT
from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, longest_first, records_of
from ctx_pipeline.hosts.record_values import mapping, objects_of, text_of, tokens, written
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.declared import Formats
from ctx_pipeline.model.host_records import DENIED, OUT, Change, usual
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctx_pipeline.model.raw import Parsed, SessionInput

_ACTIONS = {**ACTIONS, "skill": "other", "save_memory": "other"}
_EXIT = lazy_pattern(r"^Exit Code: (-?\d{1,10})\b", re.MULTILINE)

_PROMPTS = frozenset({"mid_turn_user_message", "realtime_message", "user_text_elements"})
"""Subtypes of user records that a person typed."""

_SYSTEM = {
    **dict.fromkeys(("slash_command", "at_command", "notification", "background_task_completed", "cron"), "injected"),
    **dict.fromkeys(("goal_runtime", "agent_launch_prompt", "rewind"), "injected"),
    "chat_compression": "compaction",
    "custom_title": "title",
    "agent_retry": "error",
    **dict.fromkeys(
        (
            *("ui_telemetry", "attribution_snapshot", "parent_session", "session_source", "session_execution_engine", "omni_recall"),
            *("session_model", "session_approval_mode", "agent_bootstrap", "agent_session_ready", "file_history_snapshot"),
            *("session_notes", "session_artifact_event", "session_artifact_snapshot", "session_sources_snapshot", "branch_checkpoint"),
            *("goal_state", "goal_turn_end", "turn_result"),
            *("managed_session_header_v1", "managed_session_event_v1", "managed_session_commit_v1"),
        ),
        "attachment",
    ),
}
"""subtype of a record that is no message of the API -> kind of its event"""


def known() -> Formats:
    """Return the known fields of records."""
    fields = (
        "uuid parentUuid sessionId timestamp type subtype provenance cwd version gitBranch promptId message usageMetadata model"
        " contextWindowSize toolCallResult systemPayload agentId agentName agentColor isSidechain agentRunId agentRound"
        " externalInputKind forkedFrom daemonPromptId goalContext backgroundTurn deliveredTurn"
    )
    usage = "promptTokenCount candidatesTokenCount thoughtsTokenCount cachedContentTokenCount toolUsePromptTokenCount totalTokenCount"
    details = "promptTokensDetails candidatesTokensDetails cacheTokensDetails trafficType"
    return Formats(
        {"": frozenset(fields.split()), "message": frozenset({"role", "parts"}), "usageMetadata": frozenset(f"{usage} {details}".split())}
    )


def window(kind: str, subtype: str | None, text: str | None, _record: Callable[[], bytes]) -> str | Change:
    """Return what an event does to the window: a rewind takes turns back, commands of the program were never sent."""
    if subtype == "rewind":
        return Change("rollback", turns=int(text) if text and text.isdecimal() else 0)
    return OUT if subtype in {"slash_command", "info", "warning"} else usual(kind, text)


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a session and of its subagents."""
    rows = Rows("qwen_code", session.session_id, _ACTIONS, ended_by_last=True)
    older: dict[str, Conversation] = {}
    seen: set[tuple[str, str]] = set()
    for stream in sorted(longest_first(session), key=lambda s: s.thread_id != session.session_id):
        thread = stream.thread_id
        if stream.kind in RECORDINGS:
            older.setdefault(thread, Conversation(rows, thread)).read(stream)
            continue
        agent = stream.kind == AGENT
        kind = "subagent" if agent else "fork" if stream.parent_thread_id else None
        rows.thread(thread, kind=kind, parent_thread_id=stream.parent_thread_id)
        for place, record in records_of([stream], rows):
            name = text_of(record, "uuid")
            if name is None or (thread, name) not in seen:
                seen.add((thread, name or ""))
                _record(rows, thread, record, place, name)
    for conversation in older.values():
        conversation.write()
    return rows.parsed()


def _record(rows: Rows, thread: str, record: dict[str, Any], place: Place, name: str | None) -> None:
    version, branch = text_of(record, "version"), text_of(record, "gitBranch")
    facts = rows.thread(thread, cwd=text_of(record, "cwd"), version=version, branch=branch, agent=text_of(record, "agentName"))
    window = record.get("contextWindowSize")
    if type(window) is int and 0 < window < 10**12:
        facts.context_window = window
    kind, ts = text_of(record, "type"), micros(text_of(record, "timestamp"))
    if kind == "user":
        _user(rows, thread, record, place, ts)
    elif kind == "assistant":
        _assistant(rows, thread, record, place, ts, key=name or f"{place.stream}.{place.line}")
    elif kind == "tool_result":
        _results(rows, thread, record, place, ts)
    elif kind == "system":
        _system(rows, thread, record, place, ts)
    else:
        rows.unknown_record(place, f"record/{kind}" if kind else "record", record, ts=ts, thread=thread)


def _user(rows: Rows, thread: str, record: dict[str, Any], place: Place, ts: int | None) -> None:
    parts = objects_of(mapping(record.get("message")).get("parts"))
    if any("functionResponse" in part for part in parts):
        _results(rows, thread, record, place, ts)
        return
    text = text_of(mapping(record.get("systemPayload")), "displayText", "content") or _text_in(parts)
    subtype = text_of(record, "subtype")
    if record.get("isSidechain") is True and subtype is None:
        rows.event(place, "subagent_start", "agent_prompt", "assistant", text, ts=ts, thread=thread)
    elif subtype is None or subtype in _PROMPTS:
        rows.event(place, "prompt", subtype, "user", text, ts=ts, thread=thread)
    elif subtype in _SYSTEM:
        rows.event(place, "injected", subtype, "system", text, ts=ts, thread=thread)
    else:
        rows.unknown_record(place, f"user/{subtype}", record, ts=ts, thread=thread)


def _assistant(rows: Rows, thread: str, record: dict[str, Any], place: Place, ts: int | None, *, key: str) -> None:
    for part in objects_of(mapping(record.get("message")).get("parts")):
        text = text_of(part, "text")
        if part.get("thought"):
            rows.event(place, "reasoning", None, "assistant", text, ts=ts, thread=thread, key=key)
        elif text:
            rows.event(place, "answer", None, "assistant", text, ts=ts, thread=thread, key=key)
        elif call := mapping(part.get("functionCall")):
            rows.tool_call(
                place, text_of(call, "id"), text_of(call, "name") or "unknown", None, call.get("args"), ts=ts, thread=thread, key=key
            )
        elif part:
            rows.event(place, "attachment", "part", "assistant", written(part), ts=ts, thread=thread, key=key)
    rows.model_call(place, key, text_of(record, "model"), used(mapping(record.get("usageMetadata"))), ts=ts, thread=thread)


def used(usage: Mapping[str, Any]) -> Usage:
    """Return the tokens of an answer.

    The prompt's count holds the cached ones. Thoughts stand beside the candidates, but where the total says that they
    are inside of them, as with providers of the OpenAI shape. A total alone counts as output.
    """
    names = ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")
    asked, said, cached, thoughts, tool = (tokens(usage.get(name)) for name in names)
    total = tokens(usage.get("totalTokenCount"))
    cached = min(cached, asked)
    inside = thoughts <= said and total == asked + said + tool
    if not (asked or said or thoughts or tool):
        return Usage(output=total)
    return Usage(asked - cached + tool, said if inside else said + thoughts, cache_read=cached, reasoning=thoughts)


def _results(rows: Rows, thread: str, record: dict[str, Any], place: Place, ts: int | None) -> None:
    told = mapping(record.get("toolCallResult"))
    status = text_of(told, "status")
    found = False
    for part in objects_of(mapping(record.get("message")).get("parts")):
        answer = mapping(part.get("functionResponse"))
        if not answer:
            continue
        found = True
        response = mapping(answer.get("response"))
        text = text_of(response, "output", "error") or (written(response) if response else "")
        exit_line = _EXIT.search(text) if _ACTIONS.get(text_of(answer, "name") or "") == "shell" else None
        rows.tool_result(
            place,
            text_of(answer, "id") or text_of(told, "callId"),
            text,
            ts=ts,
            thread=thread,
            failed="error" in response or status in {"error", "cancelled"},
            status=int(exit_line[1]) if exit_line else None,
            subtype=DENIED if status == "cancelled" else None,
        )
    if not found:
        failed = status in {"error", "cancelled"}
        rows.tool_result(place, text_of(told, "callId"), told.get("resultDisplay") or "", ts=ts, thread=thread, failed=failed)


def _system(rows: Rows, thread: str, record: dict[str, Any], place: Place, ts: int | None) -> None:
    subtype, payload = text_of(record, "subtype"), mapping(record.get("systemPayload"))
    kind = _SYSTEM.get(subtype or "")
    if kind is None:
        rows.unknown_record(place, f"system/{subtype}" if subtype else "system", record, ts=ts, thread=thread)
    elif kind == "compaction":
        _compressed(rows, thread, payload, place, ts)
    elif kind == "title":
        title = text_of(payload, "customTitle")
        rows.event(place, "title", subtype, "system", title, ts=ts, thread=thread)
        if title and thread == rows.session_id:
            rows.facts.title = None  # the last one stands
            rows.title(title, "ai" if payload.get("titleSource") == "auto" else "custom")
    elif subtype == "rewind":
        rows.event(place, "injected", subtype, "user", str(tokens(payload.get("truncatedCount"))), ts=ts, thread=thread)
    elif kind == "attachment":
        rows.event(place, kind, subtype, "system", written(payload), ts=ts, thread=thread)
    else:
        text = text_of(payload, "rawCommand", "displayText", "userText", "message") or written(payload)
        rows.event(place, kind, subtype, "system", text, ts=ts, thread=thread)


def _compressed(rows: Rows, thread: str, payload: dict[str, Any], place: Place, ts: int | None) -> None:
    """A compaction; one that made nothing smaller left the window as it was."""
    info = mapping(payload.get("info"))
    before, after = tokens(info.get("originalTokenCount")), tokens(info.get("newTokenCount"))
    history = objects_of(payload.get("compressedHistory"))
    if before and after >= before:
        rows.event(place, "attachment", "chat_compression/failed", "system", written(info), ts=ts, thread=thread)
        return
    summary = next((text for turn in history if (text := _text_in(objects_of(turn.get("parts"))))), "")
    rows.event(place, "compaction", "chat_compression", "system", summary, ts=ts, thread=thread)


def _text_in(parts: list[dict[str, Any]]) -> str:
    return "\n".join(text for part in parts if not part.get("thought") and (text := text_of(part, "text")))
