"""From chat recordings to rows: messages that are written again with every change, tool calls inside them, tokens a message."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, longest_first, objects_of_document, records_of
from ctx_pipeline.hosts.record_values import mapping, objects_of, text_of, tokens, written
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.declared import Formats
from ctx_pipeline.model.host_records import DENIED, OUT, Change, usual
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes

ACTIONS = {
    **dict.fromkeys(("read_file", "read_many_files"), "read"),
    **dict.fromkeys(("replace", "edit", "edit_file"), "edit"),
    "write_file": "write",
    "run_shell_command": "shell",
    **dict.fromkeys(("glob", "search_file_content", "grep_search", "list_directory", "grep", "ls"), "search"),
    **dict.fromkeys(("google_web_search", "web_fetch", "web_search"), "web"),
    **dict.fromkeys(("codebase_investigator", "delegate_to_agent", "invoke_agent", "task", "agent"), "task"),
    **dict.fromkeys(("enter_plan_mode", "exit_plan_mode", "write_todos", "todo_write"), "plan"),
    **dict.fromkeys(("ask_user", "ask_user_question"), "ask"),
}
"""name of a tool -> what it does; Qwen Code began as a copy and kept most of them"""

_TYPES = ("user", "gemini", "qwen", "info", "warning", "error")
_SETUP = lazy_pattern(r"\s*(?:<session_context>|This is the (?:Gemini CLI|Qwen Code)\. We are setting up the context)")
_EXIT = lazy_pattern(r"^Exit Code: (-?\d{1,10})\b", re.MULTILINE)
_CANCELLED = "cancelled"


class _Message(NamedTuple):
    value: dict[str, Any]
    place: Place


def known() -> Formats:
    """Return the known fields of JSONL recordings."""
    message = "id timestamp type content displayContent toolCalls thoughts tokens model"
    about = "sessionId projectHash startTime lastUpdated summary directories kind messages memoryScratchpad activeExtensionName"
    return Formats(
        {
            "": frozenset(f"{message} {about} $set $rewindTo".split()),
            "$set": frozenset(about.split()),
            "tokens": frozenset({"input", "output", "cached", "thoughts", "tool", "total"}),
        }
    )


def window(kind: str, subtype: str | None, text: str | None, _record: Callable[[], bytes]) -> str | Change:
    """Return what an event does to the window: a rewind takes turns back, notices of the program were never sent."""
    if subtype == "rewind":
        return Change("rollback", turns=int(text) if text and text.isdecimal() else 0)
    return OUT if subtype in {"info", "warning"} else usual(kind, text)


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a session: its recording in each generation, and its subagents'."""
    rows = Rows("gemini_cli", session.session_id, ACTIONS, ended_by_last=True)
    threads: dict[str, list[StreamBytes]] = {}
    for stream in longest_first(session):
        threads.setdefault(stream.thread_id, []).append(stream)
    for thread, streams in sorted(threads.items(), key=lambda item: (item[0] != session.session_id, item[0])):
        parent = next((s.parent_thread_id for s in streams if s.parent_thread_id), None)
        rows.thread(thread, kind="subagent" if parent else None, parent_thread_id=parent)
        conversation = Conversation(rows, thread, subagent=bool(parent))
        for stream in streams:
            conversation.read(stream)
        conversation.write()
    return rows.parsed()


class Conversation:
    """The messages of one thread, the last writing of each in the place of its first."""

    def __init__(self, rows: Rows, thread: str, *, subagent: bool = False) -> None:
        self.rows, self.thread, self.subagent = rows, thread, subagent
        self.messages: dict[str, _Message] = {}
        self.notes: dict[str, list[tuple[str, str, Place]]] = {}
        self.about: dict[str, Any] = {}
        self.unrecognized: list[tuple[dict[str, Any], Place]] = []

    def read(self, stream: StreamBytes) -> None:
        """Take the messages of a stream; what another one said with more in it stays."""
        found = records_of([stream], self.rows) if stream.rel.endswith(".jsonl") else objects_of_document(stream, self.rows)
        standing: dict[str, None] = {}
        for place, record in found:
            if "$rewindTo" in record:
                self._rewind(text_of(record, "$rewindTo"), place, standing)
            elif "$set" in record:
                changed = mapping(record.get("$set"))
                self._describe(changed)
                if "messages" in changed:
                    self._replace(objects_of(changed["messages"]), place, standing)
            elif "messages" in record or "sessionId" in record:
                self._describe(record)
                for message in objects_of(record.get("messages")):
                    self._take(message, place, standing)
            elif text_of(record, "type", "id"):
                self._take(record, place, standing)
            else:
                self.unrecognized.append((record, place))

    def _describe(self, record: Mapping[str, Any]) -> None:
        self.about.update({name: value for name, value in record.items() if name != "messages" and value})

    def _take(self, message: dict[str, Any], place: Place, standing: dict[str, None]) -> None:
        name = text_of(message, "id") or f"{place.stream}.{place.generation}.{place.line}.{len(self.messages)}"
        before = self.messages.get(name)
        same_file = before is not None and before.place[:2] == place[:2]
        if before is None or (*_weight(message), same_file) > (*_weight(before.value), False):
            self.messages[name] = _Message(message, place)
        standing.setdefault(name)

    def _replace(self, messages: list[dict[str, Any]], place: Place, standing: dict[str, None]) -> None:
        """A history written anew: what it leaves out left the window, what it adds came in; masked results change nothing."""
        names = [text_of(message, "id") or "" for message in messages]
        kept = set(names)
        gone = [name for name in standing if name not in kept]
        if gone:
            said = next((_text_in(m.get("content")) for m, n in zip(messages, names, strict=True) if n not in self.messages), "")
            self._noted("compaction", said, place)
        for message, name in zip(messages, names, strict=True):
            if name in self.messages:
                continue
            if gone and message.get("type") == "user" and name not in standing:
                standing[name] = None  # the summary, kept by the compaction
            else:
                self._take(message, place, standing)
        for name in gone:
            del standing[name]

    def _rewind(self, name: str | None, place: Place, standing: dict[str, None]) -> None:
        names = list(standing)
        gone = names[names.index(name) if name in standing else 0 :]
        taken = sum(1 for n in gone if n in self.messages and self.messages[n].value.get("type") == "user")
        self._noted("rewind", str(taken), place)
        for left in gone:
            del standing[left]

    def _noted(self, what: str, text: str, place: Place) -> None:
        """Keep what happened behind the message that was the last one then."""
        self.notes.setdefault(next(reversed(self.messages), ""), []).append((what, text, place))

    def write(self) -> None:
        """Add the rows of the thread."""
        if self.thread == self.rows.session_id:
            self.rows.title(text_of(self.about, "summary"), "summary")
        for name, message in self._in_order():
            if message is not None:
                self._message(name, message)
            for what, text, place in self.notes.get(name, ()):
                self._note(what, text, place)
        for record, place in self.unrecognized:
            self.rows.unknown_record(place, "record", record, ts=None, thread=self.thread)
        self._folder()

    def _in_order(self) -> list[tuple[str, _Message | None]]:
        """Return the messages, by time where more than one writing of the file holds some, with the beginning before them."""
        found: list[tuple[str, _Message | None]] = [("", None)]
        if len({message.place[:2] for message in self.messages.values()}) < 2:
            return [*found, *self.messages.items()]
        return found + sorted(self.messages.items(), key=lambda item: text_of(item[1].value, "timestamp") or "")

    def _note(self, what: str, text: str, place: Place) -> None:
        if what == "compaction":
            self.rows.event(place, "compaction", "$set/messages", "system", text, ts=None, thread=self.thread)
        else:
            self.rows.event(place, "injected", "rewind", "user", text, ts=None, thread=self.thread)

    def _message(self, name: str, message: _Message) -> None:
        value, place = message
        kind, ts = text_of(value, "type"), micros(text_of(value, "timestamp"))
        if kind == "user":
            self._asked(value, place, ts)
        elif kind in {"gemini", "qwen"}:
            self._answered(name, value, place, ts)
        elif kind in {"info", "warning"}:
            self.rows.event(place, "injected", kind, "system", _text_in(value.get("content")), ts=ts, thread=self.thread)
        elif kind == "error":
            self.rows.event(place, "error", "error", "system", _text_in(value.get("content")), ts=ts, thread=self.thread)
        else:
            self.rows.unknown_record(place, f"message/{kind}" if kind else "message", value, ts=ts, thread=self.thread)

    def _asked(self, value: dict[str, Any], place: Place, ts: int | None) -> None:
        text = _text_in(value.get("displayContent")) or _text_in(value.get("content"))
        if not text:
            return  # answers of tools, which stand in their calls too
        if _SETUP.match(text):
            self.rows.event(place, "injected", "session_context", "system", text, ts=ts, thread=self.thread)
        elif self.subagent:
            self.rows.event(place, "subagent_start", "agent_prompt", "assistant", text, ts=ts, thread=self.thread)
        else:
            self.rows.event(place, "prompt", None, "user", text, ts=ts, thread=self.thread)

    def _answered(self, name: str, value: dict[str, Any], place: Place, ts: int | None) -> None:
        rows, key = self.rows, f"{self.thread}/{name}"
        for thought in objects_of(value.get("thoughts")):
            said = "\n".join(part for part in (text_of(thought, "subject"), text_of(thought, "description")) if part)
            rows.event(
                place, "reasoning", None, "assistant", said, ts=micros(text_of(thought, "timestamp")) or ts, thread=self.thread, key=key
            )
        if text := _text_in(value.get("content")):
            rows.event(place, "answer", None, "assistant", text, ts=ts, thread=self.thread, key=key)
        for call in objects_of(value.get("toolCalls")):
            self._call(call, place, key, ts)
        rows.model_call(place, key, text_of(value, "model"), used(mapping(value.get("tokens"))), ts=ts, thread=self.thread)

    def _call(self, call: dict[str, Any], place: Place, key: str, ts: int | None) -> None:
        tool, status = text_of(call, "name") or "unknown", text_of(call, "status")
        when = micros(text_of(call, "timestamp")) or ts
        made = self.rows.tool_call(place, text_of(call, "id"), tool, None, call.get("args"), ts=when, thread=self.thread, key=key)
        output = answer_of(call)
        if output is None and status not in {"success", "error", _CANCELLED}:
            return
        text = output or ""
        exit_line = _EXIT.search(text) if ACTIONS.get(tool) == "shell" else None
        self.rows.tool_result(
            place,
            made,
            text,
            ts=when,
            thread=self.thread,
            failed=status in {"error", _CANCELLED},
            status=int(exit_line[1]) if exit_line else None,
            subtype=DENIED if status == _CANCELLED else None,
        )

    def _folder(self) -> None:
        """Note the working directory: among those that calls name the one whose SHA-256 is the project's hash, else one added."""
        project = text_of(self.about, "projectHash")
        directories = self.about.get("directories")
        found = next((f for f in _folders(self.messages.values()) if hashlib.sha256(f.encode()).hexdigest() == project), None)
        if found is None and isinstance(directories, list):
            found = next((d for d in directories if isinstance(d, str) and d), None)
        self.rows.thread(self.thread, cwd=found)


def used(usage: Mapping[str, Any]) -> Usage:
    """Return the tokens of a message.

    ``input`` holds the cached ones too, unless the total says that they were added to it; ``output`` holds no thoughts.
    A total alone counts as output.
    """
    asked, said, cached, thoughts, tool, total = (tokens(usage.get(n)) for n in ("input", "output", "cached", "thoughts", "tool", "total"))
    apart = cached > asked or (cached > 0 and total == asked + said + cached + thoughts + tool)
    fresh = (asked if apart else asked - cached) + tool
    if not (fresh or said or cached or thoughts):
        return Usage(output=total)
    return Usage(fresh, said + thoughts, cache_read=cached, reasoning=thoughts)


def answer_of(call: Mapping[str, Any]) -> str | None:
    """Return what a tool answered: the text of its function responses, else what was shown of it; None where nothing was."""
    result = call.get("result")
    if isinstance(result, str):
        return written(result)
    parts = []
    for part in objects_of(result):
        response = mapping(mapping(part.get("functionResponse")).get("response"))
        parts.append(text_of(response, "output", "error") or (written(response) if response else text_of(part, "text") or ""))
    text = "\n".join(p for p in parts if p)
    if text:
        return written(text)
    shown = call.get("resultDisplay")
    return written(shown) if shown else ("" if isinstance(result, list) else None)


def _text_in(content: Any) -> str:
    """Return the text of a content: a string, a part or a list of parts; thoughts and function parts have none."""
    if isinstance(content, str):
        return content
    parts = [content] if isinstance(content, dict) else content if isinstance(content, list) else []
    texts = [
        p if isinstance(p, str) else text_of(p, "text")
        for p in parts
        if isinstance(p, str) or (isinstance(p, dict) and not p.get("thought"))
    ]
    return "\n".join(text for text in texts if text)


def _weight(message: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how much a writing of a message holds beside its text; one that was masked for the model holds as much as before."""
    calls = objects_of(message.get("toolCalls"))
    return len(calls) + sum(1 for call in calls if call.get("result")), int(bool(message.get("tokens")))


def _folders(messages: Any) -> Iterator[str]:
    """Yield the folders above the paths that calls name, and those that shell answers name, nearest first."""
    seen: set[str] = set()
    for message in messages:
        for call in objects_of(message.value.get("toolCalls")):
            for value in mapping(call.get("args")).values():
                if not isinstance(value, str) or len(value) > 4_096 or not re.match(r"(?:/|[A-Za-z]:[\\/])", value):
                    continue
                folder = value
                while folder and folder not in seen:
                    seen.add(folder)
                    yield folder
                    folder = folder[: max(folder.rfind("/"), folder.rfind("\\"), 0)]


def prompt_history(_kind: str, data: bytes) -> Iterator[tuple[str, int]]:
    """Yield session and time of each prompt in ``logs.json``."""
    import json

    try:
        entries = json.loads(data)
    except (ValueError, RecursionError):
        return
    for entry in objects_of(entries):
        session, ts = text_of(entry, "sessionId"), micros(text_of(entry, "timestamp"))
        if session and ts is not None and entry.get("type") == "user":
            yield session, ts
