"""One session's drill-down as a data chunk: what happened, which tools, which calls, what was measured and learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.dashboard.figures import milliseconds
from ctx_pipeline.dashboard.page import chunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.dashboard.data import PageData, SessionLine
    from ctx_pipeline.storage.warehouse.dashboard_queries import Detail


def script(name: str, line: SessionLine, detail: Detail, data: PageData) -> bytes:
    """Return the script that hands a session's drill-down to the page under the chunk's name.

    Times are milliseconds since 1970 UTC, cost is in dollars, None where no price is
    known. ``total`` beside each list says how many rows there are where some are left out.
    An event is known by its position among all events of the session; what rests on
    events names the positions of those that are in the chunk, and how many there are.
    """
    place = {event[5]: event[0] for event in detail.events}
    calls = {event[6]: event[0] for event in detail.events if event[3] == "tool_call" and event[6]}
    tools = {call_id: (tool, failed) for call_id, tool, failed in detail.tools_of}
    return chunk(
        name,
        {
            "facts": _facts(line),
            "events": [_event(event, calls, tools) for event in detail.events],
            "events_total": line.events,
            "tools": detail.tool_calls,
            "tools_total": line.tool_calls,
            "calls": [(*rest, None if cost is None else cost / 1e9, thread) for *rest, cost, thread in detail.model_calls],
            "calls_total": line.usage.calls,
            "models": [(*row, None if cost is None else cost / 1e9) for *row, cost in detail.models],
            "signals": [[*row, data.meanings.get(row[0], ""), *_places(evidence, place)] for *row, evidence in detail.readings],
            "memories": [[*row, *_places(evidence, place)] for *row, evidence in detail.memories],
        },
    )


def _event(event: tuple[Any, ...], calls: Mapping[str, int], tools: Mapping[str, tuple[str, bool]]) -> tuple[Any, ...]:
    """Return an event as the page reads it.

    (pos, thread, time, kind, actor, text, characters); of a tool call also its tool; of a
    result its tool, whether it failed, and the pos of its call where that is shown.
    """
    pos, thread, at, kind, actor, _, call_id, text, size = event
    said = (pos, thread, at, kind, actor, text or "", size or 0)
    if kind == "tool_call":
        return (*said, tools.get(call_id, ("", False))[0])
    if kind == "tool_result":
        return (*said, *tools.get(call_id, ("", False)), calls.get(call_id))
    return said


def _places(evidence: str | None, place: Mapping[str, int]) -> tuple[list[int], int]:
    """Return the positions of the events that are shown, in order, and how many there are in all."""
    if not evidence:
        return [], 0
    named = evidence.split(" ")
    return sorted({place[event_id] for event_id in named if event_id in place}), len(named)


def _facts(line: SessionLine) -> dict[str, Any]:
    u = line.usage
    return {
        "host": line.host,
        "id": line.session_id,
        "cwd": line.cwd,
        "branch": line.branch,
        "version": line.version,
        "parent": line.parent_session,
        "models": list(line.models),
        "first": milliseconds(line.first_ts),
        "last": milliseconds(line.last_ts),
        "threads": line.threads,
        "lines": line.lines,
        "bytes": line.bytes,
        "unknown": line.unknown,
        "quarantined": line.quarantined,
        "compactions": line.compactions,
        "commands": line.commands,
        "failed_commands": line.failed_commands,
        "peak": line.peak_context_tokens,
        "tokens": [u.input_tokens, u.output_tokens, u.cache_writes, u.cache_read_tokens, u.reasoning_tokens],
    }
