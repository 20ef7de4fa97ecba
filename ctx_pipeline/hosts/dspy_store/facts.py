"""From the captured lines of a callback store to facts of one shape, whichever table they came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from ctx_pipeline.hosts._lines import MAX_INT, read_records
from ctx_pipeline.model.codec import LATEST, micros
from ctx_pipeline.model.raw import Quarantined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.hosts._lines import Records
    from ctx_pipeline.model.raw import StreamBytes

Int = Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)]
_EARLIEST = 946_684_800_000_000
ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Usage(Struct, gc=False):
    """Tokens of one call; prompt tokens include cached and written ones."""

    prompt_tokens: Int | None = None
    completion_tokens: Int | None = None
    cache_read_tokens: Int | None = None
    cache_write_tokens: Int | None = None
    reasoning_tokens: Int | None = None


class Payload(Struct, gc=False):
    """Body of a log row of any kind."""

    mode: str | None = None
    model: str | None = None
    cwd: str | None = None
    version: str | None = None
    module: str | None = None
    error: str | None = None
    state: str | None = None
    started: Int | None = None
    ended: Int | None = None
    usage: Usage | None = None
    cost: float | None = None
    cache_hit: bool = False
    messages: Any = None
    completions: list[Any] | None = None
    reasoning: str | None = None
    call_type: str | None = None
    tool: str | None = None
    inputs: Any = None
    output: Any = None


class Row(Struct, gc=False):
    """A row of any table of a store, with the columns that are read."""

    # log
    seq: Int | None = None
    at: Int | None = None
    kind: str | None = None
    call_id: str | None = None
    parent_call_id: str | None = None
    payload: str | None = None
    # sessions, lm_calls, tool_calls
    id: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    model: str | None = None
    mode: str | None = None
    terminal_state: str | None = None
    prompt_tokens: Int | None = None
    completion_tokens: Int | None = None
    cache_read_tokens: Int | None = None
    cache_write_tokens: Int | None = None
    cost: float | None = None
    error: str | None = None
    messages_json: str | None = None
    completion: str | None = None
    call_type: str | None = None
    tool_name: str | None = None
    input_json: str | None = None
    output_text: str | None = None


class Line(Struct, gc=False):
    """One captured line."""

    table: str | None = None
    row: Row | None = None


class Fact(NamedTuple):
    """One thing that a store says of a session, with its place."""

    stream: StreamBytes
    line: int
    start: int
    end: int
    at: int | None
    kind: str
    call_id: str | None
    parent: str | None
    payload: Payload
    block: int = 0


class Facts:
    """The facts of one session over all its streams, each once and in order of writing."""

    def __init__(self, streams: Sequence[StreamBytes]) -> None:
        self.facts: list[Fact] = []
        self.quarantined: list[Quarantined] = []
        self.unknown: dict[str, int] = {}
        self.repaired = self.count = 0
        self._lines: set[bytes] = set()
        self._calls: set[tuple[str, str]] = set()
        self._sessions = False
        for stream in sorted(streams, key=lambda s: (not s.current, -s.generation, s.rel, s.stream)):
            self._add(stream)
        self.facts.sort(key=lambda f: (f.at is None, f.at or 0))

    def _add(self, stream: StreamBytes) -> None:
        read: Records = read_records(stream, decoder)
        self.quarantined += read.quarantined
        self.repaired += read.repaired
        self.count += read.count
        session_row = self._sessions
        for value, line, start, end in zip(read.values, read.lines, read.starts, read.ends, strict=True):
            text = stream.data[start:end].strip()
            row = value.row
            if text in self._lines or row is None:
                continue
            self._lines.add(text)
            place = (stream, line, start, end)
            if value.table == "log":
                self._log(place, row)
            elif value.table == "sessions":
                if not session_row:
                    self._sessions = True
                    self._session(place, row)
            elif value.table in {"lm_calls", "tool_calls"}:
                self._legacy(place, row, value.table)

    def _log(self, place: tuple[StreamBytes, int, int, int], row: Row) -> None:
        stream, line, start, end = place
        try:
            payload = body.decode(row.payload or "{}")
        except ERRORS as error:
            self.quarantined.append(Quarantined(stream.stream, stream.generation, line, start, end, f"payload: {type(error).__name__}"))
            return
        kind = row.kind or "?"
        if not self._new(kind, row.call_id):
            return
        payload.started, payload.ended = _time(payload.started), _time(payload.ended)
        fact = Fact(*place, _time(row.at), kind, row.call_id, row.parent_call_id, payload)
        if kind not in KNOWN:
            self.unknown[kind[:100]] = self.unknown.get(kind[:100], 0) + 1
        self.facts.append(fact)

    def _session(self, place: tuple[StreamBytes, int, int, int], row: Row) -> None:
        began, ended = micros(row.started_at), micros(row.ended_at)
        self.facts.append(Fact(*place, began, "session_start", None, None, Payload(mode=row.mode, model=row.model)))
        if ended is not None:
            self.facts.append(Fact(*place, ended, "session_end", None, None, Payload(state=row.terminal_state), 1))

    def _legacy(self, place: tuple[StreamBytes, int, int, int], row: Row, table: str) -> None:
        kind = "lm_call" if table == "lm_calls" else "tool_call"
        if not self._new(kind, row.id):
            return
        began, ended = micros(row.started_at), micros(row.ended_at)
        payload = Payload(model=row.model, error=row.error, started=began, ended=ended)
        if kind == "lm_call":
            payload.usage = Usage(row.prompt_tokens, row.completion_tokens, row.cache_read_tokens, row.cache_write_tokens)
            payload.cost = row.cost
            payload.messages = _loaded(row.messages_json)
            payload.completions = None if row.completion is None else [row.completion]
            payload.call_type = row.call_type
        else:
            payload.tool = row.tool_name
            payload.inputs = _loaded(row.input_json)
            payload.output = row.output_text
        self.facts.append(Fact(*place, ended if ended is not None else began, kind, row.id, None, payload))

    def _new(self, kind: str, call_id: str | None) -> bool:
        if call_id is None:
            return True
        if (kind, call_id) in self._calls:
            return False
        self._calls.add((kind, call_id))
        return True


KNOWN = frozenset({"session_start", "session_end", "module_start", "module_end", "lm_call", "tool_call"})

decoder = msgspec.json.Decoder(Line)
body = msgspec.json.Decoder(Payload)
_anything = msgspec.json.Decoder()


def _time(value: int | None) -> int | None:
    """Return a time in microseconds; None for one that no clock of these years shows."""
    return value if value is not None and _EARLIEST <= value < LATEST else None


def _loaded(text: str | None) -> Any:
    """Return the value of a JSON text, the text itself when it is none."""
    if text is None:
        return None
    try:
        return _anything.decode(text)
    except ERRORS:
        return text
