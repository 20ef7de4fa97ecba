"""Rows of one session for hosts whose records are objects: events, tool calls and model calls in the order of the tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.hosts._call_arguments import accessed
from ctx_pipeline.hosts.record_values import exit_status, no_object, tokens, written
from ctx_pipeline.model.raw import Parsed, Quarantined, SessionFacts, ThreadFacts
from ctx_pipeline.model.titles import title_in_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctx_pipeline.model.raw import SessionInput, StreamBytes


class Place(NamedTuple):
    """Where a record stands: the last columns of a row."""

    stream: str
    generation: int
    start: int
    end: int
    line: int


class Usage(NamedTuple):
    """Tokens of one model call; ``input`` is what was neither read from nor written to the cache."""

    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0
    reasoning: int = 0

    @classmethod
    def whole_prompt(cls, prompt: Any, output: Any, *, read: Any = 0, write: Any = 0, reasoning: Any = 0) -> Usage:
        """Return the usage of a call whose recorded prompt includes what the cache served and took."""
        size = tokens(prompt)
        from_cache = min(tokens(read), size)
        to_cache = min(tokens(write), size - from_cache)
        return cls(size - from_cache - to_cache, tokens(output), to_cache, from_cache, tokens(reasoning))

    @property
    def context(self) -> int:
        """Size of the whole prompt."""
        return self.input + self.cache_write + self.cache_read


@dataclass(slots=True)
class Tool:
    """A tool call while its result is awaited."""

    call_id: str
    thread: str
    seq: int
    name: str
    action: str
    paths: list[str]
    ranges: list[str]
    argv: list[str]
    in_chars: int
    started: int | None
    event: str
    exit: int | None = None
    is_error: bool = False
    out_chars: int = 0
    ended: int | None = None
    result: str | None = None


@dataclass(slots=True)
class Rows:
    """The rows of one session; ``seq`` counts by thread, a number of a record's block by its line."""

    host: str
    session_id: str
    actions: Mapping[str, str] = field(default_factory=dict)
    """name of a tool -> what it does, for calls that say nothing else"""
    ended_by_last: bool = False
    """the last event of a thread tells how it ended, where nothing else does"""
    facts: SessionFacts = field(default_factory=SessionFacts)
    threads: dict[str, ThreadFacts] = field(default_factory=dict)
    events: list[tuple] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    lines: int = 0
    repaired: int = 0
    first_prompt: str | None = None
    last_prompt: str | None = None
    """event_id of the latest prompt of the main thread"""
    tools: dict[tuple[str, str], Tool] = field(default_factory=dict)
    calls: dict[str, tuple] = field(default_factory=dict)
    _seqs: dict[str, int] = field(default_factory=dict)
    _blocks: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _latest: dict[tuple[str, str], Tool] = field(default_factory=dict)
    _last: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    read_lines: set[tuple[str, bytes]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.thread(self.session_id)

    def title(self, said: str | None, source: str) -> None:
        """Name the session; a title that comes first stays."""
        if said and said.strip() and self.facts.title is None:
            self.facts.title, self.facts.title_source = title_in_lines(said), source

    def thread(self, thread_id: str, kind: str | None = None, **said: Any) -> ThreadFacts:
        """Return the facts of a thread, which are made when it is first named; what was said first stays, and none is its own parent."""
        if said.get("parent_thread_id") == thread_id:
            kind, said = None, {name: value for name, value in said.items() if name != "parent_thread_id"}
        known = self.threads.get(thread_id)
        if known is None:
            known = self.threads[thread_id] = ThreadFacts(thread_id)
        if kind is not None and known.kind == "main":
            known.kind = kind
        for name, value in said.items():
            if value is not None and getattr(known, name) is None:
                setattr(known, name, value)
        return known

    def event(
        self,
        place: Place,
        kind: str,
        subtype: str | None,
        actor: str,
        said: str | None,
        *,
        ts: int | None,
        thread: str = "",
        parent: str | None = None,
        call_id: str | None = None,
        key: str | None = None,
    ) -> str:
        """Add an event and return its id."""
        owner = thread or self.session_id
        if owner not in self.threads:
            self.thread(owner)
        where = (place.stream, place.generation, place.line)
        block = self._blocks.get(where, 0)
        self._blocks[where] = block + 1
        event_id = f"{place.stream}.{place.generation}.{place.line}.{block}"
        seq = self._seqs.get(owner, 0)
        self._seqs[owner] = seq + 1
        head = (event_id, self.host, self.session_id, owner, seq, ts)
        self.events.append((*head, kind, subtype[:100] if subtype else None, actor, said, parent, call_id, key, *place))
        if kind in _ENDS or subtype == "interrupt":
            self._last[owner] = (kind, subtype)
        if kind == "prompt" and owner == self.session_id:
            self.first_prompt = self.first_prompt or said
            self.last_prompt = event_id
        return event_id

    def unknown_record(self, place: Place, label: str, record: Any, *, ts: int | None, thread: str = "") -> None:
        """Keep a record of an unknown type and count it."""
        name = label[:100]
        self.unknown[name] = self.unknown.get(name, 0) + 1
        self.event(place, "unknown", name, "system", written(record), ts=ts, thread=thread)

    def tool_call(
        self,
        place: Place,
        call_id: str | None,
        name: str,
        action: str | None,
        arguments: Any,
        *,
        ts: int | None,
        subtype: str | None = None,
        thread: str = "",
        key: str | None = None,
        actor: str = "assistant",
        parent: str | None = None,
        paths: Iterable[str] = (),
    ) -> Tool:
        """Add a call and return it; a call without an id, or with one that its thread had before, gets one of its own.

        ``paths`` are files that it names elsewhere than in its arguments; an ``action`` of None is looked up by the tool's name.
        """
        owner = thread or self.session_id
        where = (place.stream, place.generation, place.line)
        call_id = call_id or f"{place.stream}.{place.generation}.{place.line}.{self._blocks.get(where, 0)}"
        own_id, again = call_id, 1
        while (owner, own_id) in self.tools:
            again += 1
            own_id = f"{call_id}#{again}"
        action = (
            action or self.actions.get(name) or self.actions.get(name.lower()) or ("mcp" if "__" in name or name[:3] == "mcp" else "other")
        )
        named, ranges, argv = accessed(arguments, action)
        paths = list(dict.fromkeys([*paths, *named]))
        subtype = subtype or name
        said = written(arguments) if arguments is not None else ""
        seq = self._seqs.get(owner, 0)
        event = self.event(place, "tool_call", subtype, actor, said, ts=ts, thread=owner, parent=parent, call_id=own_id, key=key)
        tool = Tool(own_id, owner, seq, name or "unknown", action, paths, ranges, argv, len(said), ts, event)
        self.tools[owner, own_id] = self._latest[owner, call_id] = self._latest["", call_id] = tool
        return tool

    def tool_of(self, call_id: str) -> Tool | None:
        """Return the latest call of an id in any thread."""
        return self._latest.get(("", call_id))

    def tool_result(
        self,
        place: Place,
        call: Tool | str | None,
        said: Any,
        *,
        ts: int | None,
        subtype: str | None = None,
        thread: str = "",
        failed: bool = False,
        status: int | None = None,
    ) -> str:
        """Add the result of a call, which is that of its thread where more than one has its id; the first result is joined with it."""
        tool = call if isinstance(call, Tool) else self._latest.get((thread or self.session_id, call or "")) or self.tool_of(call or "")
        said = said if said is None else written(said)
        owner = tool.thread if tool else thread
        own_id = tool.call_id if tool else None if call is None else str(call)
        event = self.event(
            place, "tool_result", subtype, "tool", said, ts=ts, thread=owner, parent=tool.event if tool else None, call_id=own_id
        )
        if tool and tool.result is None:
            tool.result, tool.ended, tool.out_chars = event, ts, len(said or "")
            tool.exit, tool.is_error = exit_status(status), failed or bool(exit_status(status))
        return event

    def model_call(
        self,
        place: Place,
        key: str,
        model: str | None,
        usage: Usage,
        *,
        ts: int | None,
        thread: str = "",
        cost: int | None = None,
        tier: str | None = None,
        guessed: bool = False,
    ) -> None:
        """Add a model call unless one of its key is there; one without tokens and cost is none."""
        if key in self.calls or not (any(usage) or cost):
            return
        head = (key, self.host, self.session_id, thread or self.session_id, ts, model or "")
        reasoning = min(usage.reasoning, usage.output)
        counts = (usage.input, usage.output, usage.cache_write, 0, usage.cache_read, reasoning, usage.context)
        self.calls[key] = (*head, *counts, tier, None, 0, cost, None, None, guessed, True, None, "own", *place)

    def parsed(self) -> Parsed:
        """Return what was collected."""
        facts, main = self.facts, self.threads[self.session_id]
        self.title(self.first_prompt, "prompt")
        facts.cwd = facts.cwd or next((t.cwd for t in (main, *self.threads.values()) if t.cwd), None)
        facts.branch, facts.version = facts.branch or main.branch, facts.version or main.version
        facts.repository = facts.repository or facts.cwd
        for thread in self.threads.values() if self.ended_by_last else ():
            if thread.status == "unknown":
                thread.status = _status(*self._last.get(thread.thread_id, ("", None)))
        if facts.status == "unknown":
            facts.status = main.status
        main.title, main.status = facts.title, facts.status
        for name in ("cwd", "branch", "version"):
            setattr(main, name, getattr(main, name) or getattr(facts, name))
        used = {row[3] for row in (*self.events, *self.calls.values())}
        return Parsed(
            facts=facts,
            threads=[t for t in self.threads.values() if t is main or t.thread_id in used],
            events=self.events,
            model_calls=list(self.calls.values()),
            tool_calls=[_row(self, tool) for tool in self.tools.values()],
            quarantined=self.quarantined,
            unknown=self.unknown,
            repaired=self.repaired,
            lines=self.lines,
        )


_ENDS = frozenset({"prompt", "answer", "tool_call", "tool_result", "error"})
"""Kinds of events by the last of which a thread is known to have come to its end, or not."""


def _status(kind: str, subtype: str | None) -> str:
    if kind == "answer":
        return "completed"
    if kind == "error":
        return "errored"
    return "interrupted" if subtype == "interrupt" else "unknown"


def _row(rows: Rows, tool: Tool) -> tuple:
    return (
        *(tool.call_id, rows.host, rows.session_id, tool.thread, tool.seq, tool.name, tool.action, tool.paths, tool.ranges, tool.argv),
        *(tool.exit, tool.is_error, None, None, tool.in_chars, tool.out_chars, tool.started, tool.ended, tool.event, tool.result),
    )


# Records of a JSONL stream, and documents.


class Record(NamedTuple):
    """One decoded record with its place."""

    place: Place
    value: dict[str, Any]


def records_of(streams: Iterable[StreamBytes], rows: Rows) -> Iterator[Record]:
    """Yield the objects of JSONL streams, a line that another file of its thread repeats once; what is broken is quarantined."""
    from ctx_pipeline.hosts._lines import read_records

    seen = rows.read_lines
    for stream in streams:
        read = read_records(stream, _anything())
        rows.quarantined += read.quarantined
        rows.repaired += read.repaired
        rows.lines += read.count
        for value, line, start, end in zip(read.values, read.lines, read.starts, read.ends, strict=True):
            if isinstance(value, dict):
                raw = (stream.thread_id, stream.data[start:end].strip())
                if raw not in seen or read.glued:
                    seen.add(raw)
                    yield Record(Place(stream.stream, stream.generation, start, end, line), value)
            else:
                reason = no_object(value)
                rows.quarantined.append(Quarantined(stream.stream, stream.generation, line, start, end, reason))


_decoder: list[Any] = []


def _anything() -> Any:
    if not _decoder:
        import msgspec

        _decoder.append(msgspec.json.Decoder())
    return _decoder[0]


def document_of(stream: StreamBytes, rows: Rows) -> Any:
    """Return the value of a stream that is one JSON document; a broken one is quarantined and gives None."""
    if not stream.data.strip():
        return None
    rows.lines += 1
    try:
        return json.loads(stream.data.decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        reason = f"not JSON: {getattr(error, 'msg', 'nested too deep')}"
        rows.quarantined.append(Quarantined(stream.stream, stream.generation, 0, 0, len(stream.data), reason))
        return None


def whole(stream: StreamBytes) -> Place:
    """Return the place of a document: all of its stream."""
    return Place(stream.stream, stream.generation, 0, len(stream.data), 0)


def objects_of_document(stream: StreamBytes, rows: Rows) -> Iterator[Record]:
    """Yield the object that a stream is; one that holds anything else is quarantined."""
    value = document_of(stream, rows)
    if isinstance(value, dict):
        yield Record(whole(stream), value)
    elif value is not None:
        reason = no_object(value)
        rows.quarantined.append(Quarantined(stream.stream, stream.generation, 0, 0, len(stream.data), reason))


def longest_first(session: SessionInput) -> list[StreamBytes]:
    """Return all streams of a session, the current ones first and of these the longest."""
    return sorted(session.streams, key=lambda s: (not s.current, -len(s.data), s.rel, s.generation, s.stream))


def newest_first(session: SessionInput, *kinds: str) -> list[StreamBytes]:
    """Return a session's streams of some kinds, the one to believe first: the current, the latest generation, the longest."""
    chosen = [s for s in session.streams if s.kind in kinds and s.data]
    return sorted(chosen, key=lambda s: (not s.current, -s.generation, -len(s.data), s.stream))
