"""Collects the rows of one thread in the order of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ctx_pipeline.hosts.codex.thread_lines import Entry
    from ctx_pipeline.hosts.codex.tools import FileAccess
    from ctx_pipeline.hosts.codex.usage import Call

HOST = "codex"
REPLAYED = "replayed history"
OWN = "own"
_PARENT, _CALL_KEY = 10, 12


class Tool(Struct, gc=False):
    """A tool call while its result is awaited."""

    call_id: str
    seq: int
    name: str
    action: str
    paths: tuple[str, ...]
    argv: tuple[str, ...]
    exit: int | None
    is_error: bool
    before_sha: str | None
    after_sha: str | None
    in_chars: int
    out_chars: int
    started: int | None
    ended: int | None
    call_event: str
    result_event: str | None
    ranges: tuple[str, ...] = ()


class Rows:
    """Events, model calls and tool calls of one thread; seq counts from 0."""

    def __init__(self, session_id: str, thread_id: str) -> None:
        self.session_id = session_id
        self.thread_id = thread_id
        self.events: list[tuple] = []
        self.model_calls: list[tuple] = []
        self.tools: list[Tool] = []
        self.open: dict[str, Tool] = {}
        """call id -> the latest call of that id"""
        self.models: dict[str, None] = {}
        self.unknown: dict[str, int] = {}
        self._said: list[int] = []
        self._ids: set[str] = set()

    def event(
        self,
        entry: Entry,
        kind: str,
        subtype: str,
        actor: str,
        text: str | None,
        *,
        parent: str | None = None,
        call_id: str | None = None,
        block: int = 0,
    ) -> str:
        """Add an event and return its id."""
        stream = entry.stream
        line = entry.line
        events = self.events
        event_id = f"{entry.prefix}{line}.{entry.block + block}"
        events.append(
            (
                event_id,
                HOST,
                self.session_id,
                self.thread_id,
                len(events),
                entry.ts,
                kind,
                subtype,
                actor,
                text,
                parent,
                call_id,
                None,
                stream.stream,
                stream.generation,
                entry.start,
                entry.end,
                line,
            )
        )
        return event_id

    def assistant_event(
        self, entry: Entry, kind: str, subtype: str, text: str | None, *, parent: str | None, call_id: str | None = None
    ) -> str:
        """Add an event of the assistant, tied to the model call that is counted next, and return its id."""
        self._said.append(len(self.events))
        return self.event(entry, kind, subtype, "assistant", text, parent=parent, call_id=call_id)

    def call(
        self, entry: Entry, call: Call, key: str, model: str, *, guessed: bool, tier: str | None, copy_of: str | None, rule: str
    ) -> None:
        """Add a model call and tie what was said since the last one to it."""
        stream = entry.stream
        if model:
            self.models.setdefault(model, None)
        self.model_calls.append(
            (
                key,
                HOST,
                self.session_id,
                self.thread_id,
                entry.ts,
                model,
                call.input,
                call.output,
                call.cache_write,
                0,
                call.cache_read,
                call.reasoning,
                call.context,
                tier,
                None,
                0,
                None,
                None,
                None,
                guessed,
                rule != REPLAYED,
                copy_of,
                rule,
                stream.stream,
                stream.generation,
                entry.start,
                entry.end,
                entry.line,
            )
        )
        events = self.events
        tied = (key,)
        for seq in self._said:
            row = events[seq]
            events[seq] = row[:_CALL_KEY] + tied + row[_CALL_KEY + 1 :]
        self._said.clear()

    def tool(self, entry: Entry, call_id: str | None, touched: FileAccess, text: str, subtype: str, *, parent: str | None) -> Tool:
        """Add a tool call and its event; a second call of the same id gets an id of its own."""
        call_id = wanted = call_id or f"line.{entry.line}.{entry.block}"
        number = 1
        while call_id in self._ids:
            number += 1
            call_id = f"{wanted}#{number}"
        self._ids.add(call_id)
        seq = len(self.events)
        event = self.assistant_event(entry, "tool_call", subtype, text, parent=parent, call_id=call_id)
        tool = Tool(
            call_id,
            seq,
            touched.tool,
            touched.action,
            touched.paths,
            touched.argv,
            None,
            False,
            None,
            None,
            len(text),
            0,
            entry.ts,
            None,
            event,
            None,
        )
        self.tools.append(tool)
        self.open[wanted] = tool
        return tool

    def result(self, entry: Entry, call_id: str | None, text: str, subtype: str, *, block: int = 0) -> Tool | None:
        """Add the event of a tool's result, join it with its call and return the call; None without one."""
        tool = self.open.get(call_id or "")
        if tool is None:
            self.event(entry, "tool_result", subtype, "tool", text, call_id=call_id, block=block)
            return None
        event = self.event(entry, "tool_result", subtype, "tool", text, parent=tool.call_event, call_id=tool.call_id, block=block)
        if tool.result_event is None:
            tool.result_event = event
            tool.ended = entry.ts
            tool.out_chars = len(text)
        return tool

    def adopt(self, seq: int, tool: Tool) -> None:
        """Make an event that came before its call the call's result."""
        row = self.events[seq]
        self.events[seq] = (*row[:_PARENT], tool.call_event, tool.call_id, *row[_PARENT + 2 :])
        tool.result_event, tool.ended, tool.out_chars = row[0], row[5], len(row[9] or "")

    def tool_rows(self) -> list[tuple]:
        """Return the rows of tool_calls in order of calling."""
        session, thread = self.session_id, self.thread_id
        return [
            (
                t.call_id,
                HOST,
                session,
                thread,
                t.seq,
                t.name,
                t.action,
                list(t.paths),
                list(t.ranges),
                list(t.argv),
                t.exit,
                t.is_error,
                t.before_sha,
                t.after_sha,
                t.in_chars,
                t.out_chars,
                t.started,
                t.ended,
                t.call_event,
                t.result_event,
            )
            for t in self.tools
        ]
