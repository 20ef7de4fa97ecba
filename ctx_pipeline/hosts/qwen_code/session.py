"""From chat records to rows: one record a message of the model's API, system records beside them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts._row_builder import Place, Records, Rows, Tokens, count, object_of, objects_of, plain, text_of
from ctx_pipeline.hosts.gemini_cli.conversation import ACTIONS, Conversation
from ctx_pipeline.hosts.gemini_cli.discovery import SESSION_KINDS as RECORDINGS
from ctx_pipeline.hosts.qwen_code.discovery import AGENT
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
    records = Records(session)
    rows = Rows(session, _ACTIONS)
    older: dict[str, Conversation] = {}
    seen: set[tuple[str, str]] = set()
    for stream in sorted(records.streams, key=lambda s: s.thread_id != session.session_id):
        thread = stream.thread_id
        if stream.kind in RECORDINGS:
            older.setdefault(thread, Conversation(rows, thread)).read(records, stream)
            continue
        agent = stream.kind == AGENT
        kind = "subagent" if agent else "fork" if stream.parent_thread_id else None
        rows.thread(thread, kind=kind, parent_thread_id=stream.parent_thread_id)
        for record, place in records.of(stream):
            name = text_of(record, "uuid")
            if name is None or (thread, name) not in seen:
                seen.add((thread, name or ""))
                _record(rows, thread, record, place, name)
    for conversation in older.values():
        conversation.write()
    return rows.parsed(records)


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
        rows.unrecognized(thread, place, f"record/{kind}" if kind else "record", record, ts=ts)


def _user(rows: Rows, thread: str, record: dict[str, Any], place: Place, ts: int | None) -> None:
    parts = objects_of(object_of(record, "message").get("parts"))
    if any("functionResponse" in part for part in parts):
        _results(rows, thread, record, place, ts)
        return
    text = text_of(object_of(record, "systemPayload"), "displayText", "content") or _text_in(parts)
    subtype = text_of(record, "subtype")
    if record.get("isSidechain") is True and subtype is None:
        rows.event(thread, place, "subagent_start", "assistant", text, ts=ts, subtype="agent_prompt")
    elif subtype is None or subtype in _PROMPTS:
        rows.event(thread, place, "prompt", "user", text, ts=ts, subtype=subtype)
    elif subtype in _SYSTEM:
        rows.event(thread, place, "injected", "system", text, ts=ts, subtype=subtype)
    else:
        rows.unrecognized(thread, place, f"user/{subtype}", record, ts=ts)


def _assistant(rows: Rows, thread: str, record: dict[str, Any], place: Place, ts: int | None, *, key: str) -> None:
    for part in objects_of(object_of(record, "message").get("parts")):
        text = text_of(part, "text")
        if part.get("thought"):
            rows.event(thread, place, "reasoning", "assistant", text, ts=ts, key=key)
        elif text:
            rows.event(thread, place, "answer", "assistant", text, ts=ts, key=key)
        elif call := object_of(part, "functionCall"):
            rows.tool_call(thread, place, text_of(call, "id"), text_of(call, "name") or "unknown", call.get("args"), ts=ts, key=key)
        elif part:
            rows.event(thread, place, "attachment", "assistant", plain(part), ts=ts, key=key, subtype="part")
    rows.model_call(thread, place, key, text_of(record, "model"), used(object_of(record, "usageMetadata")), ts=ts)


def used(usage: Mapping[str, Any]) -> Tokens:
    """Return the tokens of an answer.

    The prompt's count holds the cached ones. Thoughts stand beside the candidates, but where the total says that they
    are inside of them, as with providers of the OpenAI shape. A total alone counts as output.
    """
    names = ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")
    asked, said, cached, thoughts, tool = (count(usage.get(name)) for name in names)
    total = count(usage.get("totalTokenCount"))
    cached = min(cached, asked)
    inside = thoughts <= said and total == asked + said + tool
    if not (asked or said or thoughts or tool):
        return Tokens(output=total)
    return Tokens(asked - cached + tool, said if inside else said + thoughts, cached, 0, thoughts)


def _results(rows: Rows, thread: str, record: dict[str, Any], place: Place, ts: int | None) -> None:
    told = object_of(record, "toolCallResult")
    status = text_of(told, "status")
    found = False
    for part in objects_of(object_of(record, "message").get("parts")):
        answer = object_of(part, "functionResponse")
        if not answer:
            continue
        found = True
        response = object_of(answer, "response")
        text = text_of(response, "output", "error") or (plain(response) if response else "")
        exit_line = _EXIT.search(text) if _ACTIONS.get(text_of(answer, "name") or "") == "shell" else None
        rows.tool_result(
            thread,
            place,
            text_of(answer, "id") or text_of(told, "callId"),
            text,
            ts=ts,
            failed="error" in response or status in {"error", "cancelled"},
            status=int(exit_line[1]) if exit_line else None,
            subtype=DENIED if status == "cancelled" else None,
        )
    if not found:
        failed = status in {"error", "cancelled"}
        rows.tool_result(thread, place, text_of(told, "callId"), told.get("resultDisplay") or "", ts=ts, failed=failed)


def _system(rows: Rows, thread: str, record: dict[str, Any], place: Place, ts: int | None) -> None:
    subtype, payload = text_of(record, "subtype"), object_of(record, "systemPayload")
    kind = _SYSTEM.get(subtype or "")
    if kind is None:
        rows.unrecognized(thread, place, f"system/{subtype}" if subtype else "system", record, ts=ts)
    elif kind == "compaction":
        _compressed(rows, thread, payload, place, ts)
    elif kind == "title":
        title = text_of(payload, "customTitle")
        rows.event(thread, place, "title", "system", title, ts=ts, subtype=subtype)
        if title and thread == rows.session_id:
            rows.facts.title = None  # the last one stands
            rows.title(title, "ai" if payload.get("titleSource") == "auto" else "custom")
    elif subtype == "rewind":
        rows.event(thread, place, "injected", "user", str(count(payload.get("truncatedCount"))), ts=ts, subtype=subtype)
    elif kind == "attachment":
        rows.event(thread, place, kind, "system", plain(payload), ts=ts, subtype=subtype)
    else:
        text = text_of(payload, "rawCommand", "displayText", "userText", "message") or plain(payload)
        rows.event(thread, place, kind, "system", text, ts=ts, subtype=subtype)


def _compressed(rows: Rows, thread: str, payload: dict[str, Any], place: Place, ts: int | None) -> None:
    """A compaction; one that made nothing smaller left the window as it was."""
    info = object_of(payload, "info")
    before, after = count(info.get("originalTokenCount")), count(info.get("newTokenCount"))
    history = objects_of(payload.get("compressedHistory"))
    if before and after >= before:
        rows.event(thread, place, "attachment", "system", plain(info), ts=ts, subtype="chat_compression/failed")
        return
    summary = next((text for turn in history if (text := _text_in(objects_of(turn.get("parts"))))), "")
    rows.event(thread, place, "compaction", "system", summary, ts=ts, subtype="chat_compression")


def _text_in(parts: list[dict[str, Any]]) -> str:
    return "\n".join(text for part in parts if not part.get("thought") and (text := text_of(part, "text")))
