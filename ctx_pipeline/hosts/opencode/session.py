"""From sessions, messages and parts to rows, whether each is a document or a row of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.hosts.opencode.discovery import DATABASE, MESSAGE, PART, SESSION
from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, longest_first, objects_of_document, records_of
from ctx_pipeline.hosts.record_values import decoded, mapping, nano_dollars, objects_of, text_of, tokens, when, written
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.host_records import DENIED, OUT, REFUSED, Change, usual
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes

_ACTIONS = {
    "read": "read",
    **dict.fromkeys(("edit", "multiedit", "patch", "apply_patch"), "edit"),
    "write": "write",
    "bash": "shell",
    **dict.fromkeys(("glob", "grep", "list", "codesearch", "lsp"), "search"),
    **dict.fromkeys(("webfetch", "websearch"), "web"),
    "task": "task",
    **dict.fromkeys(("todowrite", "todoread", "plan_enter", "plan_exit"), "plan"),
    "question": "ask",
}
_PARTS = ("text", "reasoning", "tool", "file", "agent", "subtask", "step-start", "step-finish", "snapshot", "patch", "retry", "compaction")
_NO_TITLE = lazy_pattern(r"(?:New session|Child session) - \d{4}-\d{2}-\d{2}T[\d:.]+Z")
_REJECTED = lazy_pattern(r"The user (?:rejected|dismissed|has specified a rule)")
_ABORTED = "Tool execution aborted"


class _Item(NamedTuple):
    value: dict[str, Any]
    place: Place


def window(kind: str, subtype: str | None, text: str | None, _record: Callable[[], bytes]) -> str | Change:
    """Return what an event does to the window; the order to compact and marks of steps were never sent."""
    return OUT if subtype in {"compaction", "ignored"} else usual(kind, text)


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a session and of those that it started."""
    rows = Rows("opencode", session.session_id, _ACTIONS, ended_by_last=True)
    threads: dict[str, _Thread] = {}
    for stream in sorted(longest_first(session), key=lambda s: s.kind != DATABASE):
        threads.setdefault(stream.thread_id, _Thread()).read(rows, stream)
    for name, thread in sorted(threads.items(), key=lambda item: (item[0] != session.session_id, item[0])):
        thread.write(rows, name)
    return rows.parsed()


class _Thread:
    """What is stored of one session, each thing once by its id; what the database has goes before a document of it."""

    def __init__(self) -> None:
        self.parent: str | None = None
        self.session: dict[str, Any] = {}
        self.messages: dict[str, _Item] = {}
        self.parts: dict[str, dict[str, _Item]] = {}
        self.todos: dict[str, _Item] = {}
        self.unrecognized: list[_Item] = []

    def read(self, rows: Rows, stream: StreamBytes) -> None:
        self.parent = self.parent or stream.parent_thread_id
        found = records_of([stream], rows) if stream.kind == DATABASE else objects_of_document(stream, rows)
        for place, record in found:
            table, value = (text_of(record, "table"), mapping(record.get("row"))) if stream.kind == DATABASE else (stream.kind, record)
            if "data" in value:
                value = {**decoded(value["data"]), **{name: value.get(name) for name in ("id", "message_id", "time_created")}}
            name = text_of(value, "id") or f"{place.stream}.{place.line}"
            if table == SESSION:
                self.session = {**value, **self.session}
            elif table == MESSAGE:
                self.messages.setdefault(name, _Item(value, place))
            elif table == PART:
                owner = text_of(value, "messageID", "message_id") or ""
                self.parts.setdefault(owner, {}).setdefault(name, _Item(value, place))
            elif table == "todo":
                self.todos.setdefault(written(value), _Item(value, place))
            else:
                self.unrecognized.append(_Item(record, place))

    def write(self, rows: Rows, thread: str) -> None:
        """Add the rows of the session; parts without their message come last."""
        about = self.session
        rows.thread(
            thread,
            kind="subagent" if self.parent else None,
            parent_thread_id=self.parent,
            cwd=text_of(about, "directory"),
            version=text_of(about, "version"),
            agent=text_of(about, "agent"),
        )
        title = text_of(about, "title")
        if thread == rows.session_id and title and not _NO_TITLE.fullmatch(title):
            rows.title(title, "ai")
        for name, message in sorted(self.messages.items(), key=lambda item: (_created(item[1].value) or 0, item[0])):
            _Message(rows, thread, message, [p for _, p in sorted(self.parts.pop(name, {}).items())], subagent=bool(self.parent)).write()
        for orphans in self.parts.values():
            for part in orphans.values():
                _Message(rows, thread, part._replace(value={}), [part], subagent=bool(self.parent)).write()
        for todo in self.todos.values():
            rows.event(todo.place, "todo", None, "system", written(todo.value), ts=when(todo.value.get("time_created")), thread=thread)
        for item in self.unrecognized:
            rows.unknown_record(item.place, "record", item.value, ts=None, thread=thread)


class _Message:
    """One message with its parts."""

    def __init__(self, rows: Rows, thread: str, item: _Item, parts: list[_Item], *, subagent: bool) -> None:
        self.rows, self.thread, self.value, self.place, self.parts = rows, thread, item.value, item.place, parts
        self.subagent = subagent
        self.ts = _created(item.value)
        self.role = text_of(item.value, "role")
        self.key: str | None = None

    def write(self) -> None:
        value, rows = self.value, self.rows
        if self.role not in {"user", "assistant", None}:
            rows.unknown_record(self.place, f"message/{self.role}", value, ts=self.ts, thread=self.thread)
        if self.role == "assistant":
            path = mapping(value.get("path"))
            rows.thread(self.thread, cwd=text_of(path, "cwd", "root"), agent=text_of(value, "agent", "mode") if self.subagent else None)
        steps = [part for part in self.parts if part.value.get("type") == "step-finish"]
        keys = [self._step(number, part) for number, part in enumerate(steps)] if steps else self._whole()
        for part in self.parts:
            self.key = keys[0] if keys else None
            if part.value.get("type") == "step-finish" and len(keys) > 1:
                del keys[0]
            self._part(part)
        if error := mapping(value.get("error")):
            name = text_of(error, "name") or "error"
            said = text_of(mapping(error.get("data")), "message") or name
            if name == "MessageAbortedError":
                rows.event(self.place, "injected", "interrupt", "user", said, ts=self.ts, thread=self.thread)
            else:
                rows.event(self.place, "error", name, "system", said, ts=self.ts, thread=self.thread)

    def _step(self, number: int, part: _Item) -> str:
        """Count one step; the message repeats the tokens of its last one."""
        return self._count(part.place, part.value, number)

    def _whole(self) -> list[str]:
        return [self._count(self.place, self.value, 0)] if mapping(self.value.get("tokens")) else []

    def _count(self, place: Place, said: Mapping[str, Any], number: int) -> str:
        """Count a call; its key is made of what a fork copies with it, since the ids of a fork are new."""
        used, model = tokens_of(mapping(said.get("tokens"))), text_of(self.value, "modelID")
        time = mapping(self.value.get("time"))
        name = text_of(self.value, "id") if self.ts is None else None
        key = digest(
            name,
            self.ts,
            time.get("completed") if type(time.get("completed")) is int else None,
            model,
            number,
            used.input,
            used.output,
            used.cache_read,
            used.cache_write,
            used.reasoning,
        )
        cost = nano_dollars(said.get("cost")) or None
        self.rows.model_call(place, key, model, used, ts=self.ts, thread=self.thread, cost=cost)
        return key

    def _part(self, part: _Item) -> None:
        value, place, rows = part.value, part.place, self.rows
        kind = text_of(value, "type")
        time = mapping(value.get("time"))
        ts = when(time.get("start")) or self.ts or when(value.get("time_created"))
        if kind == "text":
            self._text(value, place, ts)
        elif kind == "reasoning":
            rows.event(place, "reasoning", None, "assistant", text_of(value, "text"), ts=ts, thread=self.thread, key=self.key)
        elif kind == "tool":
            self._tool(value, place, ts)
        elif kind == "retry":
            error = mapping(value.get("error"))
            said = text_of(mapping(error.get("data")), "message") or text_of(error, "message", "name") or written(error)
            rows.event(place, "error", "retry", "system", said, ts=when(time.get("created")) or ts, thread=self.thread)
        elif kind == "compaction":
            rows.event(place, "injected", "compaction", "system", written(value), ts=ts, thread=self.thread)
        elif kind == "subtask":
            rows.event(place, "injected", "subtask", "user", text_of(value, "prompt"), ts=ts, thread=self.thread)
        elif kind in {"file", "agent", "snapshot", "patch"}:
            rows.event(place, "attachment", kind, "system", written(value), ts=ts, thread=self.thread)
        elif kind not in {"step-start", "step-finish"}:
            rows.unknown_record(place, f"part/{kind}" if kind else "part", value, ts=ts, thread=self.thread)

    def _text(self, value: dict[str, Any], place: Place, ts: int | None) -> None:
        text, rows = text_of(value, "text"), self.rows
        if self.role == "user":
            if value.get("synthetic") or value.get("ignored"):
                subtype = "ignored" if value.get("ignored") else "synthetic"
                rows.event(place, "injected", subtype, "system", text, ts=ts, thread=self.thread)
            elif self.subagent:
                rows.event(place, "subagent_start", "agent_prompt", "assistant", text, ts=ts, thread=self.thread)
            else:
                rows.event(place, "prompt", None, "user", text, ts=ts, thread=self.thread)
        elif self.value.get("summary") is True:
            rows.event(place, "compaction", "summary", "assistant", text, ts=ts, thread=self.thread, key=self.key)
        else:
            rows.event(place, "answer", None, "assistant", text, ts=ts, thread=self.thread, key=self.key)

    def _tool(self, value: dict[str, Any], place: Place, ts: int | None) -> None:
        state = mapping(value.get("state"))
        status, time, metadata = text_of(state, "status"), mapping(state.get("time")), mapping(state.get("metadata"))
        began = when(time.get("start")) or ts
        tool = text_of(value, "tool") or "unknown"
        named = [path for change in objects_of(metadata.get("files")) if (path := text_of(change, "filePath", "relativePath"))]
        call = self.rows.tool_call(
            place, text_of(value, "callID"), tool, None, state.get("input"), ts=began, thread=self.thread, key=self.key, paths=named
        )
        if status not in {"completed", "error"}:
            return
        error = text_of(state, "error") or ""
        code = metadata.get("exit")
        self.rows.tool_result(
            place,
            call,
            text_of(state, "output") or text_of(metadata, "output") or error,
            ts=when(time.get("end")) or began,
            thread=self.thread,
            failed=status == "error",
            status=code if type(code) is int else None,
            subtype=REFUSED if _REJECTED.match(error) else DENIED if error == _ABORTED else None,
        )


def tokens_of(usage: Mapping[str, Any]) -> Usage:
    """Return the tokens of a step.

    The prompt is without what the cache held. Reasoning stands beside the output, but inside of it where the total
    says so, as earlier versions wrote it. A total alone counts as output.
    """
    cache = mapping(usage.get("cache"))
    asked, said, thought, total = (tokens(usage.get(name)) for name in ("input", "output", "reasoning", "total"))
    read, written = tokens(cache.get("read")), tokens(cache.get("write"))
    if not (asked or said or thought or read or written):
        return Usage(output=total)
    inside = thought <= said and total == asked + said + read + written
    return Usage(asked, said if inside else said + thought, cache_read=read, cache_write=written, reasoning=thought)


def _created(value: Mapping[str, Any]) -> int | None:
    return when(mapping(value.get("time")).get("created")) or when(value.get("time_created"))
