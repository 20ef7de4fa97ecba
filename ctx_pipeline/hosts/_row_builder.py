"""Rows of one session in the order of the tables, built event by event from records that are plain JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline.hosts._lines import read_records
from ctx_pipeline.hosts._values import without_blobs
from ctx_pipeline.model.codec import LATEST
from ctx_pipeline.model.raw import Parsed, Quarantined, SessionFacts, ThreadFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.model.raw import SessionInput, StreamBytes

MOST = 10**12
"""Tokens of a call above which a count is none."""

_EARLIEST = 946_684_800_000_000
_TITLE = 200
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_encode = msgspec.json.Encoder(order="sorted").encode
_objects = msgspec.json.Decoder(dict[str, Any])


class Place(NamedTuple):
    """Where a record stands."""

    stream: str
    generation: int
    start: int
    end: int
    line: int


class Tokens(NamedTuple):
    """Tokens of one model call; ``output`` includes ``reasoning``, ``fresh`` neither cache reads nor writes."""

    fresh: int = 0
    output: int = 0
    read: int = 0
    written: int = 0
    reasoning: int = 0


# Values of records, of whatever type they turn out to be.


def text_of(record: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of these fields that is a text with something in it."""
    return next((v for name in names if isinstance(v := record.get(name), str) and v), None)


def object_of(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object, else an empty one."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count(value: Any) -> int:
    """Return a number of tokens; 0 for one that is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 < value <= MOST else 0


def nano(dollars: Any) -> int | None:
    """Return nano-dollars of a cost in dollars; None for one that is none."""
    if not isinstance(dollars, int | float) or isinstance(dollars, bool) or not 0 <= dollars < 1_000_000:
        return None
    return round(dollars * 1_000_000_000)


def since_epoch(value: Any, unit: int = 1_000) -> int | None:
    """Return microseconds since 1970 of a number of milliseconds, or of units of ``unit`` microseconds; None outside of 2000 to 2100."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < LATEST:
        return None
    ts = int(value * unit)
    return ts if _EARLIEST <= ts < LATEST else None


def plain(value: Any) -> str:
    """Return a text as it is and anything else as JSON, large base64 by its hash."""
    if isinstance(value, str):
        return without_blobs(value)
    try:
        return without_blobs(_encode(value).decode())
    except (msgspec.MsgspecError, OverflowError, ValueError, RecursionError, TypeError):
        return ""


def decoded(text: Any) -> dict[str, Any]:
    """Return the object that a JSON text holds, an empty one where it holds none."""
    if isinstance(text, dict):
        return text
    try:
        return _objects.decode(text) if isinstance(text, str) else {}
    except _FAILURES:
        return {}


class Records:
    """The records of a session's streams, each once; counts lines and notes what could not be decoded."""

    def __init__(self, session: SessionInput) -> None:
        self.streams = sorted(session.streams, key=lambda s: (not s.current, -len(s.data), s.rel, s.generation, s.stream))
        self.quarantined: list[Quarantined] = []
        self.lines = self.repaired = 0
        self._seen: set[tuple[str, bytes]] = set()

    def of(self, stream: StreamBytes) -> Iterator[tuple[dict[str, Any], Place]]:
        """Yield the records of a stream that no stream of its thread before it held."""
        read = read_records(stream, _objects)
        self.lines += read.count
        self.repaired += read.repaired
        self.quarantined += read.quarantined
        new: list[tuple[str, bytes]] = []
        for value, line, start, end in zip(read.values, read.lines, read.starts, read.ends, strict=True):
            mark = (stream.thread_id, stream.data[start:end].strip())
            if mark not in self._seen:
                new.append(mark)
                yield value, Place(stream.stream, stream.generation, start, end, line)
        self._seen.update(new)

    def document(self, stream: StreamBytes) -> Iterator[tuple[dict[str, Any], Place]]:
        """Yield the objects of a stream that is one JSON document; a broken one is quarantined as a whole."""
        kept, before = self.quarantined, self.lines
        self.quarantined = []
        found = list(self.of(stream))
        bad, self.quarantined = self.quarantined, kept
        if bad and not found:
            self.lines = before + 1
            self.quarantined.append(Quarantined(stream.stream, stream.generation, 0, 0, len(stream.data), bad[0].reason))
        else:
            self.quarantined += bad
        yield from found


class Rows:
    """Rows of one session; ids of calls stay unique whatever a record says."""

    def __init__(self, session: SessionInput, actions: Mapping[str, str]) -> None:
        self.host, self.session_id = session.host, session.session_id
        self.actions = actions
        self.facts = SessionFacts()
        self.threads: dict[str, ThreadFacts] = {session.session_id: ThreadFacts(session.session_id)}
        self.unknown: dict[str, int] = {}
        self.events: list[tuple] = []
        self._calls: dict[tuple[str, str], list[Any]] = {}
        self._models: dict[str, tuple] = {}
        self._seqs: dict[str, int] = {}
        self._blocks: dict[tuple[str, int, int], int] = {}
        self._last: dict[str, tuple[str, str | None]] = {}

    def thread(self, thread_id: str, **about: str | None) -> ThreadFacts:
        """Return the facts of a thread, with what is not known yet filled in."""
        facts = self.threads.setdefault(thread_id, ThreadFacts(thread_id))
        for name, value in about.items():
            if value is not None and getattr(facts, name) in {None, "main"}:
                setattr(facts, name, value)
        return facts

    def event(
        self,
        thread: str,
        place: Place,
        kind: str,
        actor: str,
        text: str | None,
        *,
        ts: int | None = None,
        subtype: str | None = None,
        parent: str | None = None,
        call_id: str | None = None,
        key: str | None = None,
    ) -> str:
        """Add an event to a thread and return its id."""
        where = (place.stream, place.generation, place.line)
        block = self._blocks.get(where, 0)
        self._blocks[where] = block + 1
        event_id = f"{place.stream}.{place.generation}.{place.line}.{block}"
        self.threads.setdefault(thread, ThreadFacts(thread))
        seq = self._seqs.get(thread, 0)
        self._seqs[thread] = seq + 1
        if kind in _ENDS or subtype == "interrupt":
            self._last[thread] = (kind, subtype)
        subtype = subtype[:100] if subtype else None
        head = (event_id, self.host, self.session_id, thread, seq, ts)
        self.events.append((*head, kind, subtype, actor, text, parent, call_id, key, *place))
        return event_id

    def unrecognized(self, thread: str, place: Place, label: str, value: Any, *, ts: int | None = None) -> None:
        """Keep a record, or a part of one, of an unknown type and count it by its name."""
        label = label[:100]
        self.unknown[label] = self.unknown.get(label, 0) + 1
        self.event(thread, place, "unknown", "system", plain(value), ts=ts, subtype=label)

    def tool_call(
        self,
        thread: str,
        place: Place,
        call_id: str | None,
        tool: str,
        arguments: Any,
        *,
        ts: int | None = None,
        parent: str | None = None,
        key: str | None = None,
        paths: Sequence[str] = (),
        action: str | None = None,
    ) -> str:
        """Add a call of a tool and return its id; files and the command are read from its arguments."""
        where = (place.stream, place.generation, place.line)
        own = call_id or f"{place.stream}.{place.generation}.{place.line}.{self._blocks.get(where, 0)}"
        while (thread, own) in self._calls:
            own = f"{own}+"
        action = (
            action
            or self.actions.get(tool)
            or self.actions.get(tool.lower())
            or ("mcp" if "__" in tool or tool.startswith("mcp") else "other")
        )
        text = plain(arguments)
        named = list(dict.fromkeys([*paths, *_paths(arguments)])) if action in {"read", "edit", "write", "search"} else list(paths)
        command = _command(arguments) if action == "shell" else []
        seq = self._seqs.get(thread, 0)
        event = self.event(thread, place, "tool_call", "assistant", text, ts=ts, subtype=tool, parent=parent, call_id=own, key=key)
        self._calls[thread, own] = [
            *(own, self.host, self.session_id, thread, seq, tool, action, named, [], command, None),
            *(False, None, None, len(text), 0, ts, None, event, None),
        ]
        return own

    def tool_result(
        self,
        thread: str,
        place: Place,
        call_id: str | None,
        value: Any,
        *,
        ts: int | None = None,
        failed: bool = False,
        status: int | None = None,
        subtype: str | None = None,
    ) -> None:
        """Add what a tool answered; only the first answer of a call closes it."""
        text = plain(value)
        call = self._calls.get((thread, call_id or ""))
        parent = call[-2] if call else None
        event = self.event(thread, place, "tool_result", "tool", text, ts=ts, subtype=subtype, parent=parent, call_id=call_id)
        if call is None or call[-1] is not None:
            return
        status = status if status is not None and -(2**31) <= status < 2**32 else None
        call[10], call[11], call[15], call[17], call[-1] = status, failed or bool(status), len(text), ts, event

    def answered(self, thread: str, call_id: str) -> bool:
        """Tell whether a call has its answer."""
        call = self._calls.get((thread, call_id))
        return call is not None and call[-1] is not None

    def model_call(
        self, thread: str, place: Place, key: str, model: str | None, used: Tokens, *, ts: int | None, cost: int | None = None
    ) -> None:
        """Count the tokens of one model call, once for each key; one without tokens and cost is none."""
        if key in self._models or not (any(used) or cost):
            return
        context = used.fresh + used.read + used.written
        sizes = (used.fresh, used.output, used.written, 0, used.read, min(used.reasoning, used.output), context)
        head = (key, self.host, self.session_id, thread, ts, model or "", *sizes)
        self._models[key] = (*head, None, None, 0, cost, None, None, False, True, None, "own", *place)

    def title(self, text: str | None, source: str) -> None:
        """Name the session; a title that comes first stays."""
        if text and text.strip() and self.facts.title is None:
            self.facts.title, self.facts.title_source = " ".join(text.split())[:_TITLE], source

    def parsed(self, records: Records) -> Parsed:
        """Return all rows, with a title, a status and the main thread's facts where nothing else said them."""
        facts, main = self.facts, self.threads[self.session_id]
        prompts = (row[9] for row in self.events if row[6] == "prompt" and row[3] == self.session_id)
        self.title(next((text for text in prompts if text and text.strip()), None), "prompt")
        for thread in self.threads.values():
            if thread.status == "unknown":
                thread.status = _status(*self._last.get(thread.thread_id, ("", None)))
        facts.cwd = facts.cwd or next((t.cwd for t in (main, *self.threads.values()) if t.cwd), None)
        facts.branch, facts.version = facts.branch or main.branch, facts.version or main.version
        facts.repository = facts.repository or facts.cwd
        facts.status = main.status if facts.status == "unknown" else facts.status
        main.title = main.title or facts.title
        return Parsed(
            facts=facts,
            threads=list(self.threads.values()),
            events=self.events,
            model_calls=list(self._models.values()),
            tool_calls=[tuple(row) for row in self._calls.values()],
            quarantined=records.quarantined,
            unknown=self.unknown,
            repaired=records.repaired,
            lines=records.lines,
        )


_ENDS = frozenset({"prompt", "answer", "tool_call", "tool_result", "error"})
"""Kinds of events by the last of which a thread is known to have come to its end, or not."""


def _status(kind: str, subtype: str | None) -> str:
    if kind == "answer":
        return "completed"
    if kind == "error":
        return "errored"
    return "interrupted" if subtype == "interrupt" else "unknown"


_PATHS = ("file_path", "filePath", "absolute_path", "path", "dir_path", "notebook_path", "file", "filename")
_LISTS = ("paths", "file_paths", "files", "include")
_COMMANDS = ("command", "cmd", "script")


def _paths(arguments: Any) -> Iterator[str]:
    if not isinstance(arguments, dict):
        return
    for name in _PATHS:
        if isinstance(value := arguments.get(name), str) and value:
            yield value
    for name in _LISTS:
        value = arguments.get(name)
        for item in value if isinstance(value, list) else ():
            path = text_of(item, *_PATHS) if isinstance(item, dict) else item
            if isinstance(path, str) and path:
                yield path


def _command(arguments: Any) -> list[str]:
    if not isinstance(arguments, dict):
        return []
    for name in _COMMANDS:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return [value]
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return list(value)
    return []
