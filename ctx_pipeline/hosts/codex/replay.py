"""How much of the beginning of a forked or spawned thread is a copy of its parent.

Codex writes the parent's whole history into the new file, each line stamped with the
time of the fork. The copy is found from this file alone: lines that follow each other
within a quarter of a second, or that are older than the thread, up to the last one
that a new thread cannot have written so soon (token counts, answers, tool output, ends
of turns). Turns that began before the thread did are copied however late they stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts.codex.places import safe_id, subagent
from ctx_pipeline.model.codec import micros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.hosts.codex.records import Payload
    from ctx_pipeline.hosts.codex.threads import Entry

BURST = 250_000
"""Microseconds between two lines of one copy, at most; an own answer takes longer."""

_SLACK = 1_000_000
_LATE = frozenset(
    {
        "token_count",
        "agent_message",
        "agent_reasoning",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "web_search_call",
        "web_search_end",
        "exec_command_end",
        "patch_apply_end",
        "mcp_tool_call_end",
        "task_complete",
        "turn_complete",
        "turn_aborted",
        "context_compacted",
    }
)
_TURNS = frozenset({"task_started", "turn_started"})


def copied(entries: Sequence[Entry]) -> tuple[int, Payload | None]:
    """Return how many leading entries are the parent's, and the parent's session_meta where the file has one."""
    own = next((e.payload for e in entries[:1] if e.type == "session_meta" and e.payload), None)
    if own is None or own.id is None:
        return 0, None
    parent = None
    begin = 1
    while begin < len(entries) and entries[begin].type == "session_meta":
        meta = entries[begin].payload
        if meta is None or meta.id in {None, own.id}:
            break
        parent = parent or meta
        begin += 1
    if parent is None and not (own.forked_from_id or own.parent_thread_id or subagent(own)[1]):
        return 0, None
    born = micros(own.timestamp) or entries[0].ts
    return (_end(entries, begin, born) if born else begin if parent else 0) or (begin if parent else 0), parent


def origin(own: Payload, parent: Payload | None) -> str | None:
    """Return the thread that a copy was taken from."""
    named = safe_id(parent.id) if parent else None
    return named or safe_id(own.forked_from_id) or subagent(own)[1] or safe_id(own.parent_thread_id)


def _end(entries: Sequence[Entry], begin: int, born: int) -> int:
    begun = [_began(e) for e in entries]
    old = [n for n, when in enumerate(begun) if n >= begin and when is not None and when < born - _SLACK]
    end = old[-1] + 1 if old else 0
    last = entries[end - 1 if end else 0].ts
    for number in range(max(begin, end), len(entries)):
        entry = entries[number]
        ts, when = entry.ts, begun[number]
        early = ts is not None and ts < born - _SLACK
        if ts is not None and last is not None and abs(ts - last) > BURST and not early:
            break
        if when is not None and when >= born // 1000 * 1000 - 1000:
            break
        last = ts if ts is not None else last
        if when is not None or early or _late(entry):
            end = number + 1
    return end


def _late(entry: Entry) -> bool:
    payload = entry.payload
    if payload is None:
        return False
    if entry.type in {"compacted", "token_usage_record"}:
        return True
    if payload.type == "token_count":
        return payload.info is not None
    return payload.type in _LATE or (payload.type == "message" and payload.role == "assistant")


def _began(entry: Entry) -> int | None:
    """Return when the turn that a line opens began, from its UUIDv7 (milliseconds) or its own clock (seconds), None where neither says."""
    payload = entry.payload
    if payload is None or not (entry.type == "turn_context" or payload.type in _TURNS):
        return None
    text = payload.turn_id or ""
    if len(text) == 36 and text[14] == "7":
        try:
            return int(text[:8] + text[9:13], 16) * 1000
        except ValueError:
            return None
    seconds = payload.started_at
    if isinstance(seconds, int) and 0 < seconds < 4_102_444_800:
        # a whole second: the turn can have begun at any time inside it
        return seconds * 1_000_000 + 999_999
    return None
