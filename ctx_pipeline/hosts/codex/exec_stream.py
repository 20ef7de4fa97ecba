"""The output of ``codex exec --json``: items without times and without a model.

The same run usually wrote a rollout too, which says more and is read in its place. A
stream's only clock is the time in its thread's id.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from ctx_pipeline.hosts._lines import read_records
from ctx_pipeline.hosts._values import without_blobs
from ctx_pipeline.hosts.codex import tools
from ctx_pipeline.hosts.codex.record_types import FAILURES, Usage, written
from ctx_pipeline.hosts.codex.rows import OWN, Rows, Tool
from ctx_pipeline.hosts.codex.thread_lines import Entry
from ctx_pipeline.hosts.codex.usage import GUESSED_MODEL, Key, columns
from ctx_pipeline.model.agent_config import HeadlessAnswer
from ctx_pipeline.model.raw import ThreadFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.model.raw import Quarantined, StreamBytes


_BEGINNINGS = ("thread.started", "session.created")
_KEPT = frozenset({"turn.started", "item.plan.delta", "request_user_input"})
_HEAD_LINES = 8


class _Error(Struct, gc=False):
    message: str | None = None


class _Change(Struct, gc=False):
    path: str | None = None
    kind: str | None = None


class _Todo(Struct, gc=False):
    text: str | None = None
    completed: bool = False


class _Item(Struct, gc=False):
    id: str | None = None
    type: str | None = None
    item_type: str | None = None
    """name of ``type`` in the first builds"""
    text: str | None = None
    message: str | None = None
    command: str | None = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    status: str | None = None
    changes: list[_Change] | None = None
    server: str | None = None
    tool: str | None = None
    arguments: Raw = Raw()
    result: Raw = Raw()
    query: str | None = None
    items: list[_Todo] | None = None


class _Line(Struct, gc=False):
    type: str | None = None
    thread_id: str | None = None
    session_id: str | None = None
    item: _Item | None = None
    usage: Usage | None = None
    error: _Error | str | None = None
    message: str | None = None


_decoder = msgspec.json.Decoder(_Line)


def thread_of(head: bytes) -> str | None:
    """Return the thread that a stream of ``codex exec --json`` names in its first lines; None for any other file."""
    for raw in head.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]:
        try:
            line: _Line = _decoder.decode(raw.lstrip(b"\xef\xbb\xbf"))
        except FAILURES:
            continue
        if line.type in _BEGINNINGS:
            return line.thread_id or line.session_id
    return None


def born(thread: str) -> int | None:
    """Return the time in a UUIDv7 (microseconds since 1970 UTC), None for other ids."""
    if len(thread) != 36 or thread[14] != "7":
        return None
    try:
        return int(thread[:8] + thread[9:13], 16) * 1000
    except ValueError:
        return None


class Streamed(Struct):
    """Rows and facts of a thread that only streams tell of."""

    rows: Rows
    facts: ThreadFacts
    quarantined: list[Quarantined]
    repaired: int
    lines: int


def read(session_id: str, thread_id: str, streams: Sequence[StreamBytes], hints: Mapping[str, str]) -> Streamed:
    """Return the rows of a thread from its streams; a stream that another one begins with is left out."""
    rows = Rows(session_id, thread_id)
    time = born(thread_id)
    bad: list[Quarantined] = []
    repaired = count = 0
    status = "unknown"
    read_streams = []
    for stream in _different(streams):
        found = read_records(stream, _decoder)
        bad += found.quarantined
        repaired += found.repaired
        count += found.count
        prefix = f"{stream.stream}.{stream.generation}."
        entries = [
            (Entry(stream, prefix, line, 0, start, end, None, value.type, None), value)
            for value, line, start, end in zip(found.values, found.lines, found.starts, found.ends, strict=True)
        ]
        for (former, _), (entry, _) in pairwise(entries):
            if entry.line == former.line:
                entry.block = former.block + 10
        read_streams.append(entries)
    read_streams.sort(key=lambda entries: next((v.usage.key() for _, v in entries if v.usage), (0,) * 5))
    usages = _own_usage([v.usage.key() for entries in read_streams for _, v in entries if v.type == "turn.completed" and v.usage])
    for entries in read_streams:
        for entry, line in entries:
            kind = line.type or ""
            if line.item is not None and kind.startswith("item.") and kind not in _KEPT:
                _item(rows, entry, kind, line.item)
            elif kind == "turn.completed":
                status = "completed"
                rows.event(entry, "attachment", kind, "system", None)
                usage = next(usages, None) if line.usage else None
                if usage is not None and any(usage[1]):
                    entry.ts = time
                    call = columns(f"exec.{usage[0]}", usage[1])
                    rows.call(entry, call, f"{thread_id}:{call.key}", GUESSED_MODEL, guessed=True, tier=None, copy_of=None, rule=OWN)
            elif kind in {"turn.failed", "error"}:
                status = "errored"
                said = line.error.message if isinstance(line.error, _Error) else line.error
                rows.event(entry, "error", kind, "system", said or line.message)
            elif kind in _BEGINNINGS:
                entry.ts = time
                rows.event(entry, "session_start", kind, "system", None)
            elif kind in _KEPT:
                rows.event(entry, "attachment", kind, "system", None)
            else:
                _unknown(rows, entry, kind or "none")
    facts = ThreadFacts(thread_id, title=hints.get("title") or hints.get("first_prompt"), status=status)
    return Streamed(rows, facts, bad, repaired, count)


def _different(streams: Sequence[StreamBytes]) -> list[StreamBytes]:
    kept: list[StreamBytes] = []
    for stream in sorted(streams, key=lambda s: (-len(s.data), not s.current, s.stream, s.generation)):
        if not any(other.data.startswith(stream.data.rstrip()) for other in kept):
            kept.append(stream)
    return sorted(kept, key=lambda s: (s.rel, s.stream, s.generation))


def _own_usage(turns: list[Key]) -> Iterator[tuple[str, Key]]:
    """Yield a key and the tokens of each turn.

    Builds differ in whether a turn says its own tokens or those of the thread so far.
    Numbers that never fall from turn to turn are taken as running totals.
    """
    totals = all(now >= before for a, b in pairwise(turns) for before, now in zip(a, b, strict=True))
    before: Key = (0, 0, 0, 0, 0)
    for number, turn in enumerate(turns):
        name = ".".join(map(str, turn))
        if totals:
            grown = tuple(now - was for now, was in zip(turn, before, strict=True))
            before = turn
            yield name, (grown[0], grown[1], grown[2], grown[3], grown[4])
        else:
            yield f"{number}.{name}", turn


def _item(rows: Rows, entry: Entry, stage: str, item: _Item) -> None:
    kind = item.type or item.item_type or "none"
    subtype = f"{stage}/{kind}"[:100]
    if kind in _TOOLS:
        _tool(rows, entry, stage, item, kind)
    elif stage != "item.completed":
        if kind not in _SAID:
            _unknown(rows, entry, subtype)
    elif kind in {"agent_message", "assistant_message"}:
        rows.assistant_event(entry, "answer", subtype, item.text, parent=None)
    elif kind == "reasoning":
        rows.assistant_event(entry, "reasoning", subtype, item.text, parent=None)
    elif kind in {"plan", "todo_list"}:
        listed = "\n".join(f"[{'x' if todo.completed else ' '}] {todo.text or ''}" for todo in item.items or ())
        rows.event(entry, "todo", subtype, "assistant", item.text or listed)
    elif kind == "error":
        rows.event(entry, "error", subtype, "system", item.message or item.text)
    else:
        _unknown(rows, entry, subtype)


_SAID = frozenset({"agent_message", "assistant_message", "reasoning", "plan", "todo_list", "error"})
_TOOLS = frozenset({"command_execution", "file_change", "mcp_tool_call", "collab_tool_call", "web_search"})


def _tool(rows: Rows, entry: Entry, stage: str, item: _Item, kind: str) -> None:
    touched, text = _asked(item, kind)
    tool = rows.open.get(item.id or "")
    if tool is None or tool.result_event is not None:
        tool = rows.tool(entry, item.id, touched, text, f"{stage}/{kind}"[:100], parent=None)
    if stage != "item.completed":
        return
    tool.paths = tool.paths or touched.paths
    _ended(tool, item)
    block = int(tool.call_event == f"{entry.prefix}{entry.line}.{entry.block}")
    rows.result(entry, item.id or tool.call_id, _output(item), f"{stage}/{kind}"[:100], block=block)


def _asked(item: _Item, kind: str) -> tuple[tools.FileAccess, str]:
    if kind == "command_execution":
        command = item.command or ""
        return tools.FileAccess("command_execution", "shell", (), (command,) if command else ()), command
    if kind == "file_change":
        changes = [c for c in item.changes or () if c.path]
        paths = tuple(dict.fromkeys(c.path or "" for c in changes))
        added = bool(changes) and all(c.kind == "add" for c in changes)
        return tools.FileAccess("file_change", "write" if added else "edit", paths), "\n".join(paths)
    if kind == "web_search":
        return tools.FileAccess("web_search", "web", (), (item.query,) if item.query else ()), item.query or ""
    arguments = without_blobs(bytes(item.arguments).decode("utf-8", "replace"))
    if kind == "mcp_tool_call":
        return tools.FileAccess(f"{item.server or 'mcp'}.{item.tool or 'tool'}", "mcp"), arguments
    return tools.FileAccess(item.tool or kind, "task"), arguments


def _ended(tool: Tool, item: _Item) -> None:
    if item.exit_code is not None and abs(item.exit_code) < 1 << 31:
        tool.exit = item.exit_code
    tool.is_error = item.status == "failed" or bool(tool.exit)


def _output(item: _Item) -> str:
    if item.aggregated_output is not None:
        return item.aggregated_output
    result = bytes(item.result).decode("utf-8", "replace")
    return without_blobs(result) if result and result != "null" else item.status or ""


def _unknown(rows: Rows, entry: Entry, label: str) -> None:
    text: Any = entry.stream.data[entry.start : entry.end].decode("utf-8", "replace").strip()
    name = label[:100] if label.isprintable() else ascii(label)[:100]
    rows.unknown[f"exec/{name}"] = rows.unknown.get(f"exec/{name}", 0) + 1
    rows.event(entry, "unknown", f"exec/{name}", "system", without_blobs(text) or written(None))


# What codex exec --json prints: items as they are completed, then the turn with its tokens.


def read_headless(records: Iterable[Mapping[str, Any]]) -> HeadlessAnswer:
    """Return the last message of the agent with the tokens of all turns; an error where no turn was completed.

    The stream names neither the model nor a cost.
    """
    text, error = "", ""
    done = False
    tokens = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    for record in records:
        kind = record.get("type")
        item = record.get("item")
        if (
            kind == "item.completed"
            and isinstance(item, dict)
            and item.get("type") == "agent_message"
            and isinstance(item.get("text"), str)
        ):
            text = item["text"]
        elif kind == "turn.completed":
            done, error = True, ""
            usage = record.get("usage")
            for name, value in (usage if isinstance(usage, dict) else {}).items():
                if name in tokens and isinstance(value, int) and value > 0:
                    tokens[name] += value
        elif kind in ("turn.failed", "error"):
            told = record.get("error")
            done = False
            error = str(told.get("message") if isinstance(told, dict) else record.get("message") or kind)[:300]
    if not done:
        text, error = "", error or "the stream ended without a completed turn"
    return HeadlessAnswer(text, None, tokens["input_tokens"], tokens["cached_input_tokens"], tokens["output_tokens"], None, error)
