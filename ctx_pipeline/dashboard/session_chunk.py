"""One session's drill-down as a data chunk: what happened, which tools, which calls, what was measured and learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.dashboard.encode import chunk
from ctx_pipeline.dashboard.numbers import milliseconds

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData, SessionLine
    from ctx_pipeline.storage.page_rows import Detail


def script(name: str, line: SessionLine, detail: Detail, data: PageData) -> bytes:
    """Return the script that hands a session's drill-down to the page under the chunk's name.

    Times are milliseconds since 1970 UTC, cost is in dollars, None where no price is
    known. ``total`` beside each list says how many rows there are where some are left out.
    """
    signals = {s.signal: s for s in data.signals}
    return chunk(
        name,
        {
            "facts": _facts(line),
            "events": [(*rest, text or "", size or 0) for *rest, text, size in detail.events],
            "events_total": line.events,
            "tools": detail.tool_calls,
            "tools_total": line.tool_calls,
            "calls": [(*rest, None if cost is None else cost / 1e9, thread) for *rest, cost, thread in detail.model_calls],
            "calls_total": line.usage.calls,
            "signals": [[*row, signals[row[0]].describe.partition("\n")[0] if row[0] in signals else ""] for row in detail.readings],
            "memories": [list(row) for row in detail.memories],
        },
    )


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
