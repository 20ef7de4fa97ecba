"""The model calls of a session without its events: what a look at usage needs, in a tenth of the time.

Threads that begin with a copy of another one, threads in several files, packed files
and files of other eras than the wrapped one are left to the full parser.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.hosts.codex import record_types
from ctx_pipeline.hosts.codex.discovery import subagent
from ctx_pipeline.hosts.codex.paths import LOOSE, ROLLOUT
from ctx_pipeline.hosts.codex.replay import AT_ONCE, began_at, older
from ctx_pipeline.hosts.codex.rows import HOST, OWN
from ctx_pipeline.hosts.codex.usage import GUESSED_MODEL, LIMITS, Call, Counter
from ctx_pipeline.model.codec import LATEST, micros
from ctx_pipeline.model.raw import Parsed, SessionFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.raw import SessionInput, StreamBytes

_WINDOWS = ("primary", "secondary")
_MOST_PERCENT = 1_000
"""Percent used above which a record is not believed."""
_MONTHS = 366 * 1_440
"""Minutes of the longest window that is believed."""
_TS = 4
"""The time's place in a row of model_calls."""


class _Payload(Struct, gc=False):
    """The fields of a body that decide about usage."""

    type: str | None = None
    info: record_types.Info | None = None
    model: str | None = None
    thread_settings: record_types.Settings | None = None
    turn_id: str | None = None
    started_at: Any = None
    thread_id: str | None = None
    response_id: str | None = None
    usage: record_types.Usage | None = None
    thread_token_usage: record_types.Usage | None = None


class _Line(Struct, gc=False):
    timestamp: str | None = None
    type: str | None = None
    payload: _Payload | None = None


class _Limit(Struct, gc=False):
    used_percent: float | None = None
    window_minutes: int | None = None
    resets_at: int | None = None
    resets_in_seconds: float | None = None


class _Limits(Struct, gc=False):
    primary: _Limit | None = None
    secondary: _Limit | None = None


class _Limited(Struct, gc=False):
    rate_limits: _Limits | None = None


class _LimitLine(Struct, gc=False):
    timestamp: str | None = None
    payload: _Limited | None = None


_decoder = msgspec.json.Decoder(_Line)
_limit_line = msgspec.json.Decoder(_LimitLine)
_limits = msgspec.json.Decoder(_Limits)


def usage(session: SessionInput) -> Parsed | None:
    """Return the model calls and the root thread's repository of a session; None where only parsing tells."""
    if any(s.kind == LOOSE for s in session.streams) or any("parent_thread_id" in told for told in session.hints.values()):
        return None
    streams = [s for s in session.streams if s.kind == ROLLOUT]
    if len({s.thread_id for s in streams}) < len(streams) or not all(s.current and s.rel.endswith(".jsonl") for s in streams):
        return None
    parsed = Parsed()
    for stream in sorted(streams, key=lambda s: (s.thread_id != session.session_id, s.thread_id)):
        said = _facts(stream)
        rows = _rows(stream, session.session_id, said[1]) if said is not None else None
        if said is None or rows is None:
            return None
        facts = said[0]
        if parsed.facts.cwd is None:
            parsed.facts = facts
        parsed.model_calls += rows
    return parsed


def _facts(stream: StreamBytes) -> tuple[SessionFacts, int | None] | None:
    """Return where a thread works and when it began; None for one that may begin with a copy, and where the first line does not say."""
    data = stream.data
    end = data.find(b"\n") + 1
    try:
        first = record_types.wrapped.decode(data[:end] if end else data)
    except record_types.FAILURES:
        return None
    meta = first.payload
    if first.type != "session_meta" or meta is None or data.find(b'"session_meta"', end, end + 200) >= 0:
        return None
    if meta.forked_from_id or meta.parent_thread_id or stream.parent_thread_id or subagent(meta)[1]:
        return None
    cwd = meta.cwd
    if not cwd:
        return None
    remote = meta.git.repository_url if meta.git else None
    born = (micros(meta.timestamp) or micros(first.timestamp)) if meta.id is not None else None
    return SessionFacts(cwd=cwd, repository=remote or cwd), born


def _rows(stream: StreamBytes, session_id: str, born: int | None) -> list[tuple] | None:
    """Return the rows of the model calls of a thread born then; None where a line needs the full parser."""
    data = stream.data
    try:
        lines: list[_Line] = _decoder.decode_lines(data)
    except record_types.FAILURES:
        return None
    own = stream.thread_id
    counter = Counter(e.payload for e in lines if e.type == "token_usage_record" and e.payload)  # type: ignore[misc]
    model: str | None = None
    tier: str | None = None
    rows: list[tuple] = []
    turned = born is None
    for number, line in enumerate(lines):
        payload = line.payload
        if payload is None:
            continue
        kind = line.type
        call: Call | None = None
        if kind == "event_msg":
            if payload.type == "token_count":
                call = counter.count(payload.info)
            elif payload.type == "thread_settings_applied" and payload.thread_settings is not None:
                tier = payload.thread_settings.service_tier
        elif kind == "turn_context":
            model = payload.model or model
        if not turned and (began := began_at(kind, payload)) is not None:
            turned = True
            if born is not None and older(began, born):
                return None
        if kind == "token_usage_record":
            call = counter.record(payload)  # type: ignore[arg-type]
            if call is not None and (safe_id(payload.thread_id) or own) != own:
                return None
        if call is None:
            continue
        said = (payload.model or model) if kind == "token_usage_record" else model
        if said is None and kind == "event_msg" and payload.info is not None:
            said = payload.info.model
        named = kind == "token_usage_record" and payload.response_id is not None
        rows.append(
            (
                *(call.key if named else f"{own}:{call.key}", HOST, session_id, own, micros(line.timestamp), said or GUESSED_MODEL),
                *(call.input, call.output, call.cache_write, 0, call.cache_read, call.reasoning, call.context),
                *(tier, None, 0, None, None, None, not said, True, None, OWN),
                *(stream.stream, stream.generation, 0, 0, number),
            )
        )
    times = list(islice((row[_TS] for row in rows if row[_TS] is not None), 2))
    if born is not None and len(times) == 2 and times[1] - times[0] <= AT_ONCE:
        return None
    return rows


def _reset(limit: _Limit, ts: int) -> int | None:
    """Return when a limit is lifted, None where the record does not say or says a time that no clock shows."""
    found: float | None = limit.resets_at * 1_000_000 if limit.resets_at else None
    if found is None and limit.resets_in_seconds is not None:
        found = ts + limit.resets_in_seconds * 1_000_000
    return int(found) if found is not None and 0 < found < LATEST else None


def limits(data: bytes) -> Iterator[tuple[int, str, float, int, int | None]]:
    """Yield the rate limits that a rollout holds where they changed, in order: time, name, percent used, minutes of the window, reset."""
    at = data.find(b'"rate_limits"')
    last: _Limits | None = None
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        try:
            line = _limit_line.decode(data[start:end])
        except record_types.FAILURES:
            line = _LimitLine()
        ts = micros(line.timestamp)
        found = line.payload.rate_limits if line.payload else None
        if ts is not None and found is not None and found != last:
            last = found
            yield from _limit_rows(found, ts)
        at = data.find(b'"rate_limits"', end)


def limits_in_event(subtype: str, ts: int, text: str) -> Iterator[tuple[int, str, float, int, int | None]]:
    """Yield the rate limits that an event holds, as :func:`limits` does."""
    if subtype == LIMITS:
        with suppress(*record_types.FAILURES):
            yield from _limit_rows(_limits.decode(text), ts)


def _limit_rows(found: _Limits, ts: int) -> Iterator[tuple[int, str, float, int, int | None]]:
    for name in _WINDOWS:
        limit: _Limit | None = getattr(found, name)
        if limit is not None and limit.used_percent is not None and 0 <= limit.used_percent <= _MOST_PERCENT:
            minutes = limit.window_minutes or 0
            yield ts, name, limit.used_percent, minutes if 0 <= minutes <= _MONTHS else 0, _reset(limit, ts)
