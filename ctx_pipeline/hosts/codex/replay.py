"""How much of the beginning of a forked or spawned thread is a copy of its parent.

Codex writes the parent's whole history into the new file, each line stamped with the
time of the fork. The copy is found from this file alone: lines that follow each other
within a quarter of a second, or that are older than the thread, up to the last one
that a new thread cannot have written so soon (token counts, answers, tool output, ends
of turns). Turns that began before the thread did are copied however late they stand.

A file without any sign of a parent is such a copy when its first turn began before the
thread did, or when its first two model calls ended within one burst: no thread can have
made two calls so soon. Whose history it is then stays unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.hosts.codex.discovery import subagent
from ctx_pipeline.hosts.codex.usage import Counter
from ctx_pipeline.model.codec import micros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.hosts.codex.record_types import Payload
    from ctx_pipeline.hosts.codex.thread_lines import Entry

BURST = 250_000
"""Microseconds between two lines of one copy, at most; an own answer takes longer."""

AT_ONCE = 2_500_000
"""Microseconds in which a burst without a sign must hold two calls."""

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


class Turn(Protocol):
    """What a record says of the turn that it opens."""

    type: str | None
    turn_id: str | None
    started_at: Any


def copied(entries: Sequence[Entry], told: str | None = None) -> tuple[int, Payload | None]:
    """Return how many leading entries are the parent's, and the parent's session_meta where the file has one.

    ``told`` is the parent that the host's database names.
    """
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
    born = micros(own.timestamp) or entries[0].ts
    declared = parent is not None or told is not None or own.forked_from_id or own.parent_thread_id or subagent(own)[1]
    if not declared and not (born and (_old_turn(entries, born) or _two_calls_at_once(entries))):
        return 0, None
    return (_end(entries, begin, born) if born else begin if parent else 0) or (begin if parent else 0), parent


def origin(own: Payload, parent: Payload | None) -> str | None:
    """Return the thread that a copy was taken from."""
    named = safe_id(parent.id) if parent else None
    return named or safe_id(own.forked_from_id) or subagent(own)[1] or safe_id(own.parent_thread_id)


def _old_turn(entries: Sequence[Entry], born: int) -> bool:
    """Tell whether the first turn that says when it began did so before the thread."""
    turns = (e for e in entries if e.type == "turn_context" or (e.payload is not None and e.payload.type in _TURNS))
    when = next((began for e in turns if (began := began_at(e.type, e.payload)) is not None), None)
    return when is not None and older(when, born)


def _two_calls_at_once(entries: Sequence[Entry]) -> bool:
    """Tell whether the burst that a file begins with holds two model calls."""
    first: int | None = None
    last = entries[0].ts
    counter: Counter | None = None
    for entry in entries:
        ts, payload = entry.ts, entry.payload
        if ts is not None and last is not None and abs(ts - last) > BURST:
            return False
        last = ts if ts is not None else last
        if payload is None or not (entry.type == "token_usage_record" or payload.type == "token_count"):
            continue
        if counter is None:
            counter = Counter(e.payload for e in entries if e.type == "token_usage_record" and e.payload)
        call = counter.record(payload) if entry.type == "token_usage_record" else counter.count(payload.info)
        if call is None or ts is None:
            continue
        if first is not None:
            return ts - first <= AT_ONCE
        first = ts
    return False


def older(began: int, born: int) -> bool:
    """Tell whether a turn began before its thread did, clocks of one machine allowed for."""
    return began < born - _SLACK


def _end(entries: Sequence[Entry], begin: int, born: int) -> int:
    begun = [began_at(e.type, e.payload) for e in entries]
    old = [n for n, when in enumerate(begun) if n >= begin and when is not None and older(when, born)]
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


def began_at(kind: str | None, payload: Turn | None) -> int | None:
    """Return when the turn that a line opens began, from its UUIDv7 (milliseconds) or its own clock (seconds), None where neither says."""
    if payload is None or not (kind == "turn_context" or payload.type in _TURNS):
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
