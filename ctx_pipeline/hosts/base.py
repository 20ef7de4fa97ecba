"""Rows of one session for hosts whose records are objects: events, tool calls and model calls in the order of the tables."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.hosts._values import without_blobs
from ctx_pipeline.model.codec import LATEST, micros
from ctx_pipeline.model.host_records import FileChange, difference
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Parsed, Quarantined, SessionFacts, ThreadFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctx_pipeline.model.raw import SessionInput, StreamBytes

_EARLIEST = 946_684_800_000_000
_MOST_TOKENS = 10**12
_MOST_DOLLARS = 1_000_000
NANO = 1_000_000_000
TITLE = 200
"""Characters of a title that is made of a prompt."""


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
    _latest: dict[str, Tool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.thread(self.session_id)

    def thread(self, thread_id: str, kind: str = "main", **said: Any) -> ThreadFacts:
        """Return the facts of a thread, which are made when it is first named."""
        known = self.threads.get(thread_id)
        if known is None:
            known = self.threads[thread_id] = ThreadFacts(thread_id, kind)
        for name, value in said.items():
            if value is not None and getattr(known, name) is None:
                setattr(known, name, value)
        return known

    def event(
        self,
        place: Place,
        kind: str,
        subtype: str,
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
        where = (place.stream, place.generation, place.line)
        block = self._blocks.get(where, 0)
        self._blocks[where] = block + 1
        event_id = f"{place.stream}.{place.generation}.{place.line}.{block}"
        seq = self._seqs.get(owner, 0)
        self._seqs[owner] = seq + 1
        head = (event_id, self.host, self.session_id, owner, seq, ts)
        self.events.append((*head, kind, subtype[:100], actor, said, parent, call_id, key, *place))
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
        call_id: str,
        name: str,
        action: str,
        arguments: Any,
        *,
        subtype: str,
        ts: int | None,
        thread: str = "",
        key: str | None = None,
        actor: str = "assistant",
        parent: str | None = None,
    ) -> Tool:
        """Add a call and return it; a call of an id that its thread had before gets one of its own."""
        owner = thread or self.session_id
        own_id, again = call_id, 1
        while (owner, own_id) in self.tools:
            again += 1
            own_id = f"{call_id}#{again}"
        paths, ranges, argv = accessed(arguments, action)
        said = written(arguments) if arguments is not None else ""
        seq = self._seqs.get(owner, 0)
        event = self.event(place, "tool_call", subtype, actor, said, ts=ts, thread=owner, parent=parent, call_id=own_id, key=key)
        tool = Tool(own_id, owner, seq, name or "unknown", action, paths, ranges, argv, len(said), ts, event)
        self.tools[owner, own_id] = self._latest[call_id] = tool
        return tool

    def tool_of(self, call_id: str) -> Tool | None:
        """Return the latest call of an id in any thread."""
        return self._latest.get(call_id)

    def tool_result(
        self,
        place: Place,
        call_id: str,
        said: str | None,
        *,
        subtype: str,
        ts: int | None,
        thread: str = "",
        failed: bool = False,
        status: int | None = None,
    ) -> str:
        """Add the result of a call; the first one of a call is joined with it."""
        tool = self._latest.get(call_id)
        owner = tool.thread if tool else thread
        own_id = tool.call_id if tool else call_id
        event = self.event(
            place, "tool_result", subtype, "tool", said, ts=ts, thread=owner, parent=tool.event if tool else None, call_id=own_id
        )
        if tool and tool.result is None:
            tool.result, tool.ended, tool.out_chars = event, ts, len(said or "")
            tool.exit, tool.is_error = status, failed or bool(status)
        return event

    def model_call(
        self,
        place: Place,
        key: str,
        model: str,
        usage: Usage,
        *,
        ts: int | None,
        thread: str = "",
        cost: int | None = None,
        tier: str | None = None,
        guessed: bool = False,
    ) -> None:
        """Add a model call unless one of its key is there."""
        if key in self.calls:
            return
        head = (key, self.host, self.session_id, thread or self.session_id, ts, model)
        counts = (usage.input, usage.output, usage.cache_write, 0, usage.cache_read, usage.reasoning, usage.context)
        self.calls[key] = (*head, *counts, tier, None, 0, cost, None, None, guessed, True, None, "own", *place)

    def parsed(self) -> Parsed:
        """Return what was collected."""
        facts = self.facts
        if facts.title is None and self.first_prompt:
            facts.title, facts.title_source = " ".join(self.first_prompt.split())[:TITLE] or None, "prompt"
            facts.title_source = "prompt" if facts.title else "none"
        facts.repository = facts.repository or facts.cwd
        main = self.threads[self.session_id]
        main.title, main.status = facts.title, facts.status
        for name in ("cwd", "branch", "version"):
            setattr(main, name, getattr(facts, name))
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


def _row(rows: Rows, tool: Tool) -> tuple:
    return (
        *(tool.call_id, rows.host, rows.session_id, tool.thread, tool.seq, tool.name, tool.action, tool.paths, tool.ranges, tool.argv),
        *(tool.exit, tool.is_error, None, None, tool.in_chars, tool.out_chars, tool.started, tool.ended, tool.event, tool.result),
    )


# Values of any shape, made fit for a column.


def text(value: Any) -> str | None:
    """Return a text that can be stored; None for any other value."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def words(value: Any) -> str:
    """Return a text without blanks around it; empty for any other value."""
    return (text(value) or "").strip()


def tokens(value: Any) -> int:
    """Return a number of tokens that can be believed, else 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else 0


def number(value: Any) -> float | None:
    """Return a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float(_MOST_TOKENS) ** 2:
        return None
    return float(value)


def nano_dollars(value: Any) -> int | None:
    """Return dollars as nano-dollars; None for what is no price of a call."""
    dollars = number(value)
    return None if dollars is None or dollars >= _MOST_DOLLARS else round(dollars * NANO)


def when(value: Any) -> int | None:
    """Return microseconds since 1970 of milliseconds or of an ISO text; None for a time outside 2000 to 2100."""
    if isinstance(value, str):
        return micros(value) or (when(int(value)) if value.isascii() and value.isdecimal() and len(value) < 16 else None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LATEST:
        return None
    found = int(value * 1_000)
    return found if _EARLIEST <= found < LATEST else None


def exit_status(value: Any) -> int | None:
    """Return the exit status of a program."""
    return value if type(value) is int and -(2**31) <= value < 2**32 else None


def mapping(value: Any) -> dict[str, Any]:
    """Return an object, an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return an array, an empty one for any other value."""
    return value if isinstance(value, list) else []


def written(value: Any) -> str:
    """Return a text as it is, any other value as JSON without large base64 strings."""
    if isinstance(value, str):
        return without_blobs(text(value) or "")
    try:
        said = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError, TypeError):
        return ""
    return without_blobs(said.encode("utf-8", "replace").decode())


def read_json(data: bytes | str) -> Any:
    """Return the value of a JSON text, None where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def flat(value: Any, depth: int = 6) -> str:
    """Return the words in a text, in blocks of texts, or in an object that holds them."""
    if isinstance(value, str):
        return text(value) or ""
    if depth and isinstance(value, list):
        return "\n".join(part for item in value if (part := flat(item, depth - 1)))
    if depth and isinstance(value, dict):
        return next((part for name in ("text", "value", "content", "message") if (part := flat(value.get(name), depth - 1))), "")
    return ""


# What a call's arguments name.


_PATHS = (
    "path",
    "filePath",
    "file_path",
    "target_file",
    "targetFile",
    "absolute_path",
    "relative_workspace_path",
    "filename",
    "dirPath",
    "uri",
)
_MANY = ("paths", "filePaths", "files", "replacements", "edits")
_COMMANDS = ("command", "cmd", "commands")
_PATCH = lazy_pattern(r"^\*\*\* (?:(?:Update|Add|Delete) File|Move to): (.+)$", re.MULTILINE)
_STARTS, _ENDS = ("startLine", "start_line", "start_line_one_indexed"), ("endLine", "end_line", "end_line_one_indexed_inclusive")


def accessed(arguments: Any, action: str) -> tuple[list[str], list[str], list[str]]:
    """Return the files, the line ranges and the command that a call's arguments name."""
    if isinstance(arguments, str):
        arguments = read_json(arguments) if arguments.startswith("{") else {"input": arguments}
    said = mapping(arguments)
    argv = [command for name in _COMMANDS for command in _texts(said.get(name))][:50] if action == "shell" else []
    if action in {"shell", "task", "ask", "plan", "mcp", "web"}:
        return [], [], argv
    paths = dict.fromkeys(_named(said))
    if action == "edit":
        patch = next((p for name in ("input", "patch", "diff") if isinstance(p := said.get(name), str)), "")
        paths |= dict.fromkeys((text(path) or "").strip() for path in _PATCH.findall(patch))
    return [path for path in paths if path][:200], _range(said), argv


def _named(said: Mapping[str, Any]) -> Iterator[str]:
    for name in _PATHS:
        yield from _texts(said.get(name))
    for name in _MANY:
        for item in items(said.get(name)):
            yield from _texts(item) if isinstance(item, str) else _named({k: v for k, v in mapping(item).items() if k in _PATHS})


def _texts(value: Any) -> Iterable[str]:
    found = [value] if isinstance(value, str) else [item for item in items(value) if isinstance(item, str)]
    return [text(item.removeprefix("file://")) or "" for item in found]


def _range(said: Mapping[str, Any]) -> list[str]:
    pair = items(said.get("view_range"))[:2]
    first = next((said[name] for name in _STARTS if name in said), pair[0] if len(pair) == 2 else None)
    last = next((said[name] for name in _ENDS if name in said), pair[1] if len(pair) == 2 else None)
    whole = type(first) is int and type(last) is int and 0 < first <= last < _MOST_TOKENS
    return [f"{first}-{last}"] if whole else []


_BEFORE, _AFTER, _WHOLE = (
    ("old_str", "oldString", "old_string"),
    ("new_str", "newString", "new_string"),
    ("file_text", "content", "contents"),
)
_BLOCK = lazy_pattern(r"^[-<]{5,} SEARCH[^\n]*\n(.*?)^={5,}[^\n]*\n(.*?)^[+>]{5,} REPLACE", re.MULTILINE | re.DOTALL)
_DEEPEST = 12
"""Levels of a value in which calls are looked for."""


def changes_of(call_id: str, arguments: Any) -> Iterator[FileChange]:
    """Yield what the arguments of an edit ask for: texts to replace, blocks of them, or a whole file."""
    said = mapping(read_json(arguments) if isinstance(arguments, str) else arguments)
    for part in (said, *map(mapping, items(said.get("replacements")))):
        path = next(_named({k: v for k, v in part.items() if k in _PATHS}), "") or next(
            _named({k: v for k, v in said.items() if k in _PATHS}), ""
        )
        old, new, content = (
            next((t for name in names if (t := text(part.get(name))) is not None), None) for names in (_BEFORE, _AFTER, _WHOLE)
        )
        blocks = _BLOCK.findall(text(part.get("diff")) or "")
        if not path:
            continue
        if old is not None and new is not None:
            yield FileChange(call_id, path, None, None, difference(old, new))
        elif blocks:
            yield FileChange(call_id, path, None, None, "\n".join(difference(before, after) for before, after in blocks))
        elif content is not None:
            yield FileChange(call_id, path, None, content, difference("", content))


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a value, itself too."""
    level = [value]
    for _ in range(_DEEPEST):
        deeper: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                yield one
                deeper += one.values()
            elif isinstance(one, list):
                deeper += one
        level = [one for one in deeper if isinstance(one, dict | list)]


def values_of(data: bytes) -> Iterator[Any]:
    """Yield the value of a document, or those of the lines of a stream; what is broken is left out."""
    whole_value = read_json(data)
    if whole_value is not None:
        yield whole_value
        return
    for line in data.splitlines():
        if (value := read_json(line)) is not None:
            yield value


# Records of a JSONL stream, and documents.


class Record(NamedTuple):
    """One decoded record with its place."""

    place: Place
    value: dict[str, Any]


def records_of(streams: Iterable[StreamBytes], rows: Rows) -> Iterator[Record]:
    """Yield the objects of JSONL streams, a repeated line once; what is broken is quarantined."""
    from ctx_pipeline.hosts._lines import read_records

    seen: set[bytes] = set()
    for stream in streams:
        read = read_records(stream, _anything())
        rows.quarantined += read.quarantined
        rows.repaired += read.repaired
        rows.lines += read.count
        for value, line, start, end in zip(read.values, read.lines, read.starts, read.ends, strict=True):
            if isinstance(value, dict):
                raw = stream.data[start:end].strip()
                if raw not in seen or read.glued:
                    seen.add(raw)
                    yield Record(Place(stream.stream, stream.generation, start, end, line), value)
            else:
                reason = f"not an object: {type(value).__name__}"
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


def newest_first(session: SessionInput, *kinds: str) -> list[StreamBytes]:
    """Return a session's streams of some kinds, the one to believe first: the current, the latest generation, the longest."""
    chosen = [s for s in session.streams if s.kind in kinds and s.data]
    return sorted(chosen, key=lambda s: (not s.current, -s.generation, -len(s.data), s.stream))
