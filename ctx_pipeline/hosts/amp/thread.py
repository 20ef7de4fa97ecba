"""From the document of a thread to rows; what a ledger of usage covers is counted by it, the rest by the usage of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.hosts.record_rows import Place, Rows, Tool, Usage, objects_of_document
from ctx_pipeline.hosts.record_values import mapping, number, objects_of, text_of, tokens, when, written
from ctx_pipeline.model.codec import digest, micros
from ctx_pipeline.model.host_records import BILLED, DENIED, REFUSED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.model.raw import Parsed, SessionInput

_ACTIONS = {
    **dict.fromkeys(("Read", "read_file"), "read"),
    **dict.fromkeys(("edit_file", "Edit", "apply_patch", "undo_edit", "format_file"), "edit"),
    **dict.fromkeys(("create_file", "Write"), "write"),
    **dict.fromkeys(("Bash", "shell_command"), "shell"),
    **dict.fromkeys(("Grep", "glob", "Glob", "finder", "list_directory", "codebase_search_agent"), "search"),
    **dict.fromkeys(("web_search", "read_web_page"), "web"),
    **dict.fromkeys(("Task", "oracle", "librarian", "code_review"), "task"),
    **dict.fromkeys(("todo_write", "todo_read"), "plan"),
}
_OPEN = frozenset({"queued", "in-progress", "blocked-on-user"})
"""States of a call whose result is still to come."""


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a thread; an older writing of its document adds the messages that the newest no longer has."""
    rows = Rows("amp", session.session_id, _ACTIONS, ended_by_last=True)
    seen: set[str] = set()
    for stream in sorted(session.streams, key=lambda s: (not s.current, -s.generation, s.rel, s.stream)):
        for place, document in objects_of_document(stream, rows):
            _Thread(rows, document, place, seen).write()
    return rows.parsed()


class _Thread:
    def __init__(self, rows: Rows, document: dict[str, Any], place: Place, seen: set[str]) -> None:
        self.rows, self.document, self.place, self.seen = rows, document, place, seen
        self.name = rows.session_id
        self.ts = when(document.get("created"))
        self.origin, self.copied = _copied(document)
        self.ledger = objects_of(mapping(document.get("usageLedger")).get("events"))
        led = [entry["toMessageId"] for entry in self.ledger if _led(entry)]
        self.covered = range(min(led), max(led) + 1) if led else range(0)
        self.all_covered = any(_own(entry) and not _led(entry) for entry in self.ledger)

    def write(self) -> None:
        """Add the rows of the document."""
        document, rows = self.document, self.rows
        if not ("messages" in document or self.ledger or text_of(document, "id")):
            rows.unknown_record(self.place, "document", document, ts=None, thread=self.name)
            return
        initial = mapping(mapping(document.get("env")).get("initial"))
        trees = objects_of(initial.get("trees"))
        folder = next(
            (unquote(uri.removeprefix("file://")) for tree in trees if (uri := text_of(tree, "uri") or "").startswith("file://")), None
        )
        rows.thread(self.name, cwd=folder, version=text_of(mapping(initial.get("platform")), "clientVersion"))
        rows.title(text_of(document, "title"), "ai")
        rows.facts.parent_session = rows.facts.parent_session or safe_id(_parent(document) or "")
        messages = objects_of(document.get("messages"))
        for at, message in enumerate(messages):
            self._message(message, at)
        self._ledger(messages)

    def _message(self, message: dict[str, Any], number: int) -> None:
        named = message.get("messageId")
        name = str(named) if isinstance(named, int | str) else f"#{number}"
        if name in self.seen:
            return
        self.seen.add(name)
        role, usage = text_of(message, "role"), mapping(message.get("usage"))
        sent = mapping(message.get("meta")).get("sentAt")
        self.ts = micros(text_of(usage, "timestamp")) or micros(text_of(message, "timestamp")) or when(sent) or self.ts
        if role not in {"user", "assistant", "info"}:
            self.rows.unknown_record(self.place, f"message/{role}" if role else "message", message, ts=self.ts, thread=self.name)
            return
        agent = text_of(message, "parentToolUseId")
        thread = f"{self.name}/{agent}" if agent else self.name
        if agent:
            self.rows.thread(thread, kind="subagent", parent_thread_id=self.name)
        key = self._key(usage, name, number)
        content = message.get("content")
        source = text_of(mapping(message.get("source")), "type")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else objects_of(content):
            self._block(block, role, key, thread, source)
        if role == "assistant" and not self._counted(named):
            model = text_of(usage, "model") or text_of(message, "model")
            self.rows.model_call(self.place, key, model, tokens_of(usage, model), ts=self.ts, thread=thread)
        self._ended(message, thread)

    def _key(self, usage: dict[str, Any], name: str, number: int) -> str:
        """Return the key of a call, the same in the copy that a fork has of it."""
        if text_of(usage, "timestamp"):
            return digest("amp", written(usage))
        return f"{self.origin if number < self.copied else self.name}/{name}"

    def _counted(self, named: object) -> bool:
        """Tell whether the ledger counts the call of a message: it may begin later than the thread, or end before it."""
        return self.all_covered or (type(named) is int and named in self.covered)

    def _ended(self, message: dict[str, Any], thread: str) -> None:
        state = mapping(message.get("state"))
        if text_of(state, "type") == "cancelled" or message.get("interrupted") is True:
            self.rows.event(self.place, "injected", "interrupt", "user", None, ts=self.ts, thread=thread)
        elif text_of(state, "type") == "error":
            said = text_of(mapping(state.get("error")), "message") or "error"
            self.rows.event(self.place, "error", None, "system", said, ts=self.ts, thread=thread)

    def _block(self, block: dict[str, Any], role: str, key: str, thread: str, source: str | None) -> None:
        rows, kind = self.rows, text_of(block, "type")
        if kind == "text":
            self._text(text_of(block, "text"), role, key, thread, source)
        elif kind == "thinking":
            rows.event(self.place, "reasoning", None, "assistant", text_of(block, "thinking"), ts=self.ts, thread=thread, key=key)
        elif kind == "tool_use":
            tool = text_of(block, "name") or "unknown"
            rows.tool_call(self.place, text_of(block, "id"), tool, None, block.get("input"), ts=self.ts, thread=thread, key=key)
        elif kind == "tool_result":
            self._result(text_of(block, "toolUseID", "tool_use_id"), mapping(block.get("run")), block, thread)
        elif kind == "manual_bash_invocation":
            call = rows.tool_call(self.place, None, "Bash", None, block.get("args"), ts=self.ts, thread=thread, actor="user")
            self._result(call, mapping(block.get("toolRun")), block, thread)
        elif kind == "summary":
            summary = mapping(block.get("summary"))
            said = text_of(summary, "summary", "text") or written(summary)
            rows.event(self.place, "compaction", "summary", "assistant", said, ts=self.ts, thread=thread)
        elif kind in {"image", "redacted_thinking"}:
            actor = "user" if role == "user" else "assistant"
            rows.event(self.place, "attachment", kind, actor, written(block), ts=self.ts, thread=thread)
        else:
            rows.unknown_record(self.place, f"block/{kind}" if kind else "block", block, ts=self.ts, thread=thread)

    def _text(self, text: str | None, role: str, key: str, thread: str, source: str | None) -> None:
        rows = self.rows
        if role == "assistant":
            rows.event(self.place, "answer", None, "assistant", text, ts=self.ts, thread=thread, key=key)
        elif role == "info" or source:
            rows.event(self.place, "injected", source or "info", "system", text, ts=self.ts, thread=thread)
        elif thread != self.name:
            rows.event(self.place, "subagent_start", "agent_prompt", "assistant", text, ts=self.ts, thread=thread)
        else:
            rows.event(self.place, "prompt", None, "user", text, ts=self.ts, thread=thread)

    def _result(self, call: Tool | str | None, run: dict[str, Any], block: dict[str, Any], thread: str) -> None:
        status, value = text_of(run, "status"), run.get("result", block.get("content"))
        if status in _OPEN:
            return
        told = value if isinstance(value, dict) else {}
        text = text_of(told, "output", "content", "diff") or (written(value) if value is not None else "")
        text = text or text_of(mapping(run.get("error")), "message") or text_of(run, "reason") or ""
        code = told.get("exitCode")
        self.rows.tool_result(
            self.place,
            call,
            text,
            ts=self.ts,
            thread=thread,
            failed=status in {"error", "cancelled", "rejected-by-user"} or told.get("success") is False or block.get("is_error") is True,
            status=code if type(code) is int else None,
            subtype=REFUSED if status == "rejected-by-user" else DENIED if status == "cancelled" else None,
        )

    def _ledger(self, messages: list[dict[str, Any]]) -> None:
        """Count the entries of the ledger; the message that a call of the thread's own led to says how much of its prompt was cached."""
        usages = {m["messageId"]: mapping(m.get("usage")) for m in messages if type(m.get("messageId")) is int}
        last = {entry["toMessageId"]: at for at, entry in enumerate(self.ledger) if _led(entry)}
        for at, entry in enumerate(self.ledger):
            led = entry["toMessageId"] if _led(entry) else None
            usage = usages.get(led, {}) if led is not None and last.get(led) == at else {}
            spent, model = mapping(entry.get("tokens")), text_of(entry, "model")
            said = {"inputTokens": spent.get("input"), "outputTokens": spent.get("output"), "totalTokens": spent.get("total")}
            cached = {name: usage.get(name) for name in ("cacheCreationInputTokens", "cacheReadInputTokens")}
            ts = micros(text_of(entry, "timestamp")) or self.ts
            key = f"{self.name}/ledger/{text_of(entry, 'id') or at}"
            if key in self.seen:
                continue
            self.seen.add(key)
            self.rows.model_call(self.place, key, model, tokens_of(said | cached, model), ts=ts, thread=self.name)
            if number(entry.get("credits")) is not None:
                self.rows.event(self.place, "attachment", BILLED, "system", written(entry), ts=ts, thread=self.name, key=key)


def _own(entry: Mapping[str, Any]) -> bool:
    """Tell whether an entry is a call of the thread itself: a title, a subagent or a correction names a message that it did not write."""
    return text_of(entry, "operationType") in {None, "inference"}


def _led(entry: Mapping[str, Any]) -> bool:
    return type(entry.get("toMessageId")) is int and _own(entry)


def _relation(document: Mapping[str, Any], *kinds: str) -> dict[str, Any]:
    """Return what the thread says of the thread that it came from, in one of these ways."""
    found = objects_of(document.get("relationships"))
    return next((said for said in found if said.get("role") == "child" and text_of(said, "type") in kinds), {})


def _parent(document: Mapping[str, Any]) -> str | None:
    """Return the thread that this one was forked, handed over or started from."""
    return (
        text_of(_relation(document, "fork"), "threadID")
        or text_of(document, "originThreadID")
        or text_of(_relation(document, "handoff"), "threadID")
        or text_of(document, "mainThreadID")
    )


def _copied(document: Mapping[str, Any]) -> tuple[str, int]:
    """Return the thread of which a fork holds a copy, and how many messages: those up to the point where it was forked."""
    fork = _relation(document, "fork")
    origin, point = (
        text_of(fork, "threadID") or text_of(document, "originThreadID"),
        fork.get("messageIndex", document.get("forkPointIndex")),
    )
    return (origin, point + 1) if origin and type(point) is int else ("", 0)


def tokens_of(usage: Mapping[str, Any], model: str | None) -> Usage:
    """Return the tokens of a call: three counts of the prompt beside each other; a total alone counts as output.

    Only Anthropic's models bill cache writes. For all others the program puts there the part of the prompt that the cache did not hold.
    """
    names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "totalTokens")
    asked, said, read, written, total = (tokens(usage.get(name)) for name in names)
    if not (asked or said or read or written):
        return Usage(output=total)
    if not (model or "").rpartition("/")[2].startswith("claude"):
        asked, written = asked + written, 0
    return Usage(asked, said, cache_read=read, cache_write=written)
