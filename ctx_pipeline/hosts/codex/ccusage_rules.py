"""What ccusage makes of rollouts: its rules of which token counts count, run over the same files.

Checked against ccusage 20.0.24 over the published sessions and over one hand-made file a rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts._lines import read_records
from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.hosts.codex import record_types
from ctx_pipeline.hosts.codex.discovery import subagent
from ctx_pipeline.hosts.codex.paths import ROLLOUT
from ctx_pipeline.hosts.codex.usage import GUESSED_MODEL, columns
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.host_records import RivalEntry, Sum

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.raw import StreamBytes

Key = tuple[int, int, int, int, int]

SAME_MOMENT = "it counts a token count once when another file holds an equal one of the same moment and model"
REPLAYED = (
    "it leaves out the replayed beginning of a fork: equal totals where the parent's file is there, else counts at most a second apart"
)
REPEATED = "it leaves out a count that repeats the totals before it"
RETURNED = "it counts totals again that come back after others"
PACKED = "it does not read packed files (.zst)"
RECORD = "it does not know token_usage_record"
SPACED = "it leaves out lines that are not written compactly"
ARCHIVED = "of a thread in several files it reads one"

_MARK = b'"type":"token_count"'
_SECOND = 1_000_000
_NONE: Key = (0, 0, 0, 0, 0)


class _Count:
    """One token count of a thread."""

    __slots__ = ("entry", "totals")

    def __init__(self, entry: RivalEntry, totals: Key | None) -> None:
        self.entry, self.totals = entry, totals


def ccusage(streams: Iterable[StreamBytes]) -> list[RivalEntry]:
    """Return every record that holds tokens, and whether ccusage counts it."""
    rollouts = sorted((s for s in streams if s.kind == ROLLOUT and s.current), key=lambda s: (s.rel.startswith("archived"), s.rel))
    threads: dict[str, tuple[str | None, list[_Count]]] = {}
    left: list[RivalEntry] = []
    for stream in rollouts:
        parent, counts = _counts(stream)
        packed = stream.rel.endswith(".zst")
        if packed or stream.thread_id in threads:
            left += [c.entry._replace(counted=False, rule=PACKED if packed else ARCHIVED) for c in counts]
        else:
            threads[stream.thread_id] = (parent, counts)
    found: list[RivalEntry] = []
    moments: set[tuple[int | None, str, Sum]] = set()
    for parent, counts in threads.values():
        begin = _replayed(counts, threads[parent][1] if parent in threads else None) if parent else 0
        for number, one in enumerate(counts):
            entry = one.entry
            if number < begin and entry.counted:
                entry = entry._replace(counted=False, rule=REPLAYED)
            if entry.counted:
                moment = (entry.ts, entry.model, entry.tokens)
                if moment in moments:
                    entry = entry._replace(counted=False, rule=SAME_MOMENT)
                moments.add(moment)
            found.append(entry)
    return found + left


def _replayed(counts: list[_Count], parents: list[_Count] | None) -> int:
    """Return how many leading counts are taken for the parent's."""
    if parents is not None:
        number = 0
        for one, other in zip(counts, parents, strict=False):
            if one.totals is None or one.totals != other.totals:
                break
            number += 1
        if number:
            return number
    times = [c.entry.ts for c in counts]
    number = 1
    while number < len(times):
        now, before = times[number], times[number - 1]
        if now is None or before is None or now - before > _SECOND:
            break
        number += 1
    return number if number > 1 else 0


def _counts(stream: StreamBytes) -> tuple[str | None, list[_Count]]:
    """Return the thread that a file was forked from, and its token counts in order."""
    read = read_records(stream, record_types.wrapped)
    parent: str | None = None
    model: str | None = None
    first = True
    before: Key | None = None
    seen: set[Key] = set()
    counts: list[_Count] = []
    for number, start, end, line in zip(read.lines, read.starts, read.ends, read.values, strict=True):
        body = line.payload
        if body is None:
            continue
        if line.type == "session_meta" and first:
            first = False
            parent = safe_id(body.forked_from_id) or subagent(body)[1] or safe_id(body.parent_thread_id)
        elif line.type == "turn_context":
            model = body.model or model
        known = line.type == "token_usage_record" and body.usage is not None
        if not known and (line.type != "event_msg" or body.type != "token_count" or body.info is None):
            continue
        if known:
            totals, usage, rule, counted = None, body.usage.key(), RECORD, False
            name = body.response_id or ""
        else:
            total, last = body.info.total_token_usage, body.info.last_token_usage
            totals = total.key() if total is not None else None
            repeat = totals is not None and totals == before
            usage = last.key() if last is not None else _grown(before, totals)
            rule = REPEATED if repeat else RETURNED if totals is not None and totals in seen else ""
            counted = not repeat
            if _MARK not in stream.data[start:end]:
                rule, counted = SPACED, False
            name = f"{stream.thread_id}:{'.'.join(map(str, totals or usage))}"
            before = totals or before
            if totals is not None:
                seen.add(totals)
        if usage == _NONE:
            continue
        call = columns(name, usage)
        size = Sum(call.input, call.output, call.cache_write, 0, call.cache_read)
        entry = RivalEntry(name, stream.stream, start, end, number, micros(line.timestamp), model or GUESSED_MODEL, size, counted, rule)
        counts.append(_Count(entry, totals))
    return parent, counts


def _grown(before: Key | None, now: Key | None) -> Key:
    if now is None:
        return _NONE
    if before is None:
        return now
    a, b = now, before
    return (max(0, a[0] - b[0]), max(0, a[1] - b[1]), max(0, a[2] - b[2]), max(0, a[3] - b[3]), max(0, a[4] - b[4]))
