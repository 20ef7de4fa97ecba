"""One session's drill-down as a data chunk: what happened, which tools, which calls, what was measured and learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.dashboard.figures import milliseconds
from ctx_pipeline.dashboard.page import packed_chunk, script_json
from ctx_pipeline.dashboard.transcript import transcript

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.dashboard.data import SessionLine
    from ctx_pipeline.storage.warehouse.dashboard_queries import Detail
    from ctx_pipeline.storage.warehouse.transcript_queries import WholeSession

    Images = Mapping[str, tuple[str, bytes]]
    Scripts = dict[str, bytes]


def scripts(name: str, line: SessionLine, detail: Detail, rows: WholeSession | None, *, resume: str, images: Images) -> Scripts:
    """Return the scripts that hand a session to the page: its chunk under ``name``, and what of its transcript lies beside it.

    Times are milliseconds since 1970 UTC, cost is in dollars, None where no price is
    known. ``total`` beside each list says how many rows there are where some are left out.
    What rests on events names their positions in the transcript, and how many there are.
    Without ``rows`` the transcript is left out and said to be.
    """
    drawn = transcript(rows, images, line.host) if rows is not None else None
    place = drawn.places if drawn else {}
    told = script_json(
        {
            "facts": _facts(line) | {"resume": resume},
            "transcript": drawn.summary if drawn else None,
            "events_total": line.events,
            "tools": detail.tool_calls,
            "tools_total": line.tool_calls,
            "calls": [(*rest, None if cost is None else cost / 1e9, thread) for *rest, cost, thread in detail.model_calls],
            "calls_total": line.usage.calls,
            "models": [(*row, None if cost is None else cost / 1e9) for *row, cost in detail.models],
            "threads": [(*row, None if cost is None else cost / 1e9) for *row, cost in detail.threads],
            "signals": [[*row, *_places(evidence, place)] if evidence else row for *row, evidence in detail.readings],
            "memories": [(memory, _places(evidence, place)[0]) for memory, evidence in detail.memories],
        }
    )
    # texts of pieces have gone through `seen`: JSON that is packed needs no escapes of a script
    inline = b",".join(drawn.inline if drawn else ())
    made = {name: packed_chunk(name, b'%b,"inline":[%b]}' % (told[:-1], inline))}
    for end, held in drawn.files.items() if drawn else ():
        made[f"{name}-{end}"] = packed_chunk(f"{name}-{end}", b"[%b]" % b",".join(held))
    return made


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
