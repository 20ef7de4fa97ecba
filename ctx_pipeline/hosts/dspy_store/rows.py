"""From the facts of a DSPy session to rows of the tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from ctx_pipeline.hosts._lines import MAX_INT, read_records
from ctx_pipeline.hosts.record_values import tokens
from ctx_pipeline.model.codec import LATEST, micros
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Parsed, Quarantined, SessionFacts, ThreadFacts
from ctx_pipeline.model.titles import title_in_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.hosts._lines import Records
    from ctx_pipeline.model.raw import SessionInput, StreamBytes


# From the captured lines of a callback store to facts of one shape, whichever table they came from.


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


HOST = "dspy"
NANO = 1_000_000_000
STATES = frozenset({"completed", "errored", "abandoned", "interrupted"})

_MARKER = lazy_pattern(r"\[\[ ## \w+ ## \]\]")
_FORM = lazy_pattern(r"\n\s*Respond with (?:the corresponding output fields|a JSON object)\b.*", re.DOTALL)
"""what DSPy's adapters write behind a program's question"""


def parse(session: SessionInput) -> Parsed:
    """Return the rows of one session of a callback store."""
    facts = Facts(session.streams)
    rows = _Rows(session.session_id)
    for fact in facts.facts:
        rows.add(fact)
    parsed = Parsed(
        facts=SessionFacts(
            title=rows.title,
            title_source="prompt" if rows.first_prompt else "none",
            cwd=rows.cwd,
            repository=rows.cwd,
            version=rows.version,
            status=rows.status,
        ),
        events=rows.events,
        model_calls=rows.model_calls,
        tool_calls=rows.tool_calls,
        quarantined=facts.quarantined,
        unknown=facts.unknown,
        repaired=facts.repaired,
        lines=facts.count,
    )
    parsed.threads.append(
        ThreadFacts(session.session_id, agent=rows.mode, title=rows.title, cwd=rows.cwd, version=rows.version, status=rows.status)
    )
    return parsed


class _Rows:
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.events: list[tuple] = []
        self.model_calls: list[tuple] = []
        self.tool_calls: list[tuple] = []
        self.mode: str | None = None
        self.cwd: str | None = None
        self.version: str | None = None
        self.first_prompt: str | None = None
        self.status = "unknown"
        self._asked: str | None = None
        self._systems: set[str] = set()
        self._parent: str | None = None
        self._blocks: dict[tuple[str, int, int], int] = {}

    @property
    def title(self) -> str | None:
        text = _MARKER.sub(" ", _FORM.sub("", self.first_prompt or ""))
        return title_in_lines(text) or self.mode

    def add(self, fact: Fact) -> None:
        body = fact.payload
        if fact.kind == "lm_call":
            self._lm_call(fact)
        elif fact.kind == "tool_call":
            self._tool_call(fact)
        elif fact.kind == "session_start":
            self.mode = self.mode or body.mode
            self.cwd = self.cwd or body.cwd
            self.version = self.version or body.version
            self._event(fact, "session_start", "system", body.mode, ts=fact.at)
        elif fact.kind == "session_end":
            self.status = body.state if body.state in STATES else "unknown"
            self._event(fact, "session_end", "system", body.state, ts=fact.at)
        elif fact.kind in KNOWN:
            self._event(fact, "error" if body.error else "attachment", "system", body.error or body.module, ts=fact.at)
        else:
            text = fact.stream.data[fact.start : fact.end].decode("utf-8", "replace").strip()
            self._event(fact, "unknown", "system", text, ts=fact.at)

    def _lm_call(self, fact: Fact) -> None:
        body = fact.payload
        began = body.started if body.started is not None else fact.at
        ended = body.ended if body.ended is not None else fact.at
        self._messages(fact, began)
        key = fact.call_id or f"{self.session_id}:{fact.stream.stream}.{fact.line}"
        if body.reasoning:
            self._event(fact, "reasoning", "assistant", body.reasoning, ts=ended, key=key)
        if body.error is not None:
            self._event(fact, "error", "system", body.error, ts=ended)
        else:
            text = "\n".join(_plain(c) for c in body.completions) if body.completions else None
            self._event(fact, "answer", "assistant", text, ts=ended, key=key, parent=self._parent)
        usage = body.usage or Usage()
        prompt, output = tokens(usage.prompt_tokens), tokens(usage.completion_tokens)
        if body.error is not None and not (prompt or output):
            return
        if body.cache_hit:
            # DSPy answered from its own cache: nothing was asked for and nothing is billed
            usage, prompt, output = Usage(), 0, 0
        read = min(tokens(usage.cache_read_tokens), prompt)
        written = min(tokens(usage.cache_write_tokens), prompt - read)
        cost = 0 if body.cache_hit else _nano(body.cost)
        fresh = prompt - read - written
        self.model_calls.append(
            (
                *(key, HOST, self.session_id, self.session_id, ended, body.model or ""),
                *(fresh, output, written, 0, read, tokens(usage.reasoning_tokens), prompt),
                *(None, None, 0, cost, None, None, False, True, None, "own"),
                *_place(fact),
            )
        )

    def _messages(self, fact: Fact, began: int | None) -> None:
        """Add what was asked, once: a program sends its history again with every call."""
        asked = None
        for role, text in _message_texts(fact.payload.messages):
            if role in {"system", "developer"}:
                if text not in self._systems:
                    self._systems.add(text)
                    self._event(fact, "injected", "system", text, ts=began)
            elif role == "user":
                asked = text
        if asked is not None and asked != self._asked:
            self._asked = asked
            self.first_prompt = self.first_prompt or asked
            self._parent = self._event(fact, "prompt", "user", asked, ts=began)

    def _tool_call(self, fact: Fact) -> None:
        body = fact.payload
        began = body.started if body.started is not None else fact.at
        ended = body.ended if body.ended is not None else fact.at
        call_id = fact.call_id or f"{fact.stream.stream}.{fact.line}"
        arguments = "" if body.inputs is None else _plain(body.inputs)
        output = body.error if body.error is not None else "" if body.output is None else _plain(body.output)
        seq = len(self.events)
        call = self._event(fact, "tool_call", "assistant", arguments, ts=began, call_id=call_id, parent=self._parent)
        result = self._event(fact, "tool_result", "tool", output, ts=ended, call_id=call_id, parent=call)
        self.tool_calls.append(
            (
                *(call_id, HOST, self.session_id, self.session_id, seq, body.tool or "unknown", "other", [], [], [], None),
                *(body.error is not None, None, None, len(arguments), len(output), began, ended, call, result),
            )
        )

    def _event(
        self,
        fact: Fact,
        kind: str,
        actor: str,
        text: str | None,
        *,
        ts: int | None,
        key: str | None = None,
        call_id: str | None = None,
        parent: str | None = None,
    ) -> str:
        place = _place(fact)
        where = (fact.stream.stream, fact.stream.generation, fact.line)
        block = self._blocks.get(where, 0)
        self._blocks[where] = block + 1
        event_id = f"{place[0]}.{place[1]}.{fact.line}.{block}"
        subtype = f"{fact.kind}/{fact.payload.call_type}"[:100] if fact.payload.call_type else fact.kind[:100]
        seq = len(self.events)
        head = (event_id, HOST, self.session_id, self.session_id, seq, ts)
        self.events.append((*head, kind, subtype, actor, text, parent, call_id, key, *place))
        return event_id


def _place(fact: Fact) -> tuple:
    return (fact.stream.stream, fact.stream.generation, fact.start, fact.end, fact.line)


def _message_texts(messages: Any) -> Iterator[tuple[str, str]]:
    if isinstance(messages, str):
        yield "user", messages
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            content = message.get("content")
            if isinstance(content, list):
                content = "\n".join(b["text"] for b in content if isinstance(b, dict) and isinstance(b.get("text"), str))
            if isinstance(content, str) and content:
                yield str(message.get("role")), content


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except (msgspec.MsgspecError, OverflowError, ValueError, RecursionError, TypeError):
        return repr(value)


def _nano(cost: float | None) -> int | None:
    if cost is None or not 0 <= cost < 1_000_000:
        return None
    return round(cost * NANO)
