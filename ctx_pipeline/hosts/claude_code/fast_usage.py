"""The model calls of a session without its events: what a look at usage needs, in a tenth of the time.

Only the fields that decide about usage are decoded. A session in which more than that
decides (a thread in several files, sidechains inside a transcript, a fork that shows
late, a broken line) is left to the full parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from ctx_pipeline.hosts.claude_code.discovery import USAGE_KINDS, safe_id
from ctx_pipeline.hosts.claude_code.record_types import Count, DecodeErrors, ForkedFrom, Usage
from ctx_pipeline.hosts.claude_code.usage import SYNTHETIC, ModelCalls
from ctx_pipeline.hosts.claude_code.usage import _supersedes as supersedes
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.raw import Parsed, SessionFacts

if TYPE_CHECKING:
    from ctx_pipeline.model.raw import SessionInput, StreamBytes

_ORDER = {"transcript": 0, "agent": 1, "journal": 2}


class _Message(Struct, gc=False):
    id: str | None = None
    role: str | None = None
    model: str | None = None
    usage: Usage | None = None


class _Record(Struct, gc=False, rename="camel"):
    type: str | None = None
    uuid: str | None = None
    is_sidechain: bool | None = None
    timestamp: str | None = None
    request_id: str | None = None
    forked_from: ForkedFrom | None = None
    message: _Message | str | None = None
    cost_usd: Count | float | None = field(name="costUSD", default=None)


class _Where(Struct, gc=False):
    cwd: str | None = None


_decoder = msgspec.json.Decoder(_Record)
_where = msgspec.json.Decoder(_Where)


def usage(session: SessionInput) -> Parsed | None:
    """Return the model calls, the first working directory and the declared parent of a session; None where only parsing tells."""
    streams = sorted((s for s in session.streams if s.kind in USAGE_KINDS), key=lambda s: (_ORDER[s.kind], s.thread_id, s.stream))
    if len({s.thread_id for s in streams}) < len(streams) or not all(s.current for s in streams):
        return None
    calls = ModelCalls(session.host, session.session_id)
    seen: dict[str, str | None] = {}
    lines = 0
    for stream in streams:
        count = _count(calls, stream, seen)
        if count is None:
            return None
        lines += count
    facts = SessionFacts(cwd=next(filter(None, map(_cwd, streams)), None))
    return Parsed(facts=facts, model_calls=calls.rows(), lines=lines)


def _count(calls: ModelCalls, stream: StreamBytes, seen: dict[str, str | None]) -> int | None:
    """Add a stream's usage and return its number of lines; None where a line needs the full parser."""
    data = stream.data
    if not data:
        return 0
    try:
        records: list[Any] = _decoder.decode_lines(data)
    except DecodeErrors:
        return None
    thread = stream.thread_id
    main = "/" not in thread
    may_fork = main and stream.parent_thread_id is None
    add = calls.add
    held: tuple[str, Usage, str | None, str | None, int] | None = None
    for number, record in enumerate(records):
        if may_fork and record.forked_from is not None:
            origin = record.forked_from.session_id
            if origin and safe_id(origin) != thread:
                return None
        message = record.message
        if message.__class__ is not _Message:
            continue
        used = message.usage
        if used is None or (record.type or message.role) != "assistant" or message.model == SYNTHETIC:
            continue
        if main and record.is_sidechain:
            return None
        uuid = record.uuid
        if uuid is not None:
            if uuid in seen:
                if seen[uuid] == record.timestamp:
                    continue
                return None
            seen[uuid] = record.timestamp
        key = message.id or record.request_id or uuid
        if key is None:
            return None
        if held is not None:
            if held[0] == key and record.cost_usd is None and used.iterations is None and supersedes(used, held[1]):
                held = (key, used, message.model or held[2], record.timestamp, number)
                continue
            add(held[0], held[1], held[2], None, (thread, micros(held[3]), stream, 0, 0, held[4]))
            held = None
        if record.cost_usd is None and used.iterations is None:
            held = (key, used, message.model, record.timestamp, number)
        else:
            add(key, used, message.model, record.cost_usd, (thread, micros(record.timestamp), stream, 0, 0, number))
    if held is not None:
        add(held[0], held[1], held[2], None, (thread, micros(held[3]), stream, 0, 0, held[4]))
    return len(records)


def _cwd(stream: StreamBytes) -> str | None:
    """Return the first working directory that a stream names."""
    data = stream.data
    at = data.find(b'"cwd"')
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        try:
            found = _where.decode(data[start:end]).cwd
        except DecodeErrors:
            found = None
        if found:
            return found
        at = data.find(b'"cwd"', end)
    return None
