"""From the document of a thread to rows; the ledger of usage, where there is one, goes before the usage of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ctx_pipeline.hosts.base import Place, Rows, Usage, objects_of_document
from ctx_pipeline.hosts.record_values import mapping, objects_of, text_of, tokens, when, written
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.host_records import BILLED, DENIED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.model.raw import Parsed, SessionInput

_ACTIONS = {
    **dict.fromkeys(("Read", "read_file"), "read"),
    **dict.fromkeys(("edit_file", "Edit", "apply_patch", "undo_edit", "format_file"), "edit"),
    **dict.fromkeys(("create_file", "Write"), "write"),
    "Bash": "shell",
    **dict.fromkeys(("Grep", "glob", "Glob", "finder", "list_directory", "codebase_search_agent"), "search"),
    **dict.fromkeys(("web_search", "read_web_page"), "web"),
    **dict.fromkeys(("Task", "oracle"), "task"),
    **dict.fromkeys(("todo_write", "todo_read"), "plan"),
}
_BLOCKS = ("text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image")


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
        ledger = mapping(document.get("usageLedger")).get("events")
        self.ledger = objects_of(ledger) if isinstance(ledger, list) else None

    def write(self) -> None:
        """Add the rows of the document."""
        document, rows = self.document, self.rows
        if not ("messages" in document or self.ledger or text_of(document, "id")):
            rows.unknown_record(self.place, "document", document, ts=None, thread=self.name)
            return
        trees = objects_of(mapping(mapping(document.get("env")).get("initial")).get("trees"))
        folder = next(
            (unquote(uri.removeprefix("file://")) for tree in trees if (uri := text_of(tree, "uri") or "").startswith("file://")), None
        )
        rows.thread(self.name, cwd=folder)
        rows.title(text_of(document, "title"), "ai")
        messages = objects_of(document.get("messages"))
        for number, message in enumerate(messages):
            self._message(message, number)
        if self.ledger is not None:
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
        if role not in {"user", "assistant"}:
            self.rows.unknown_record(self.place, f"message/{role}" if role else "message", message, ts=self.ts, thread=self.name)
            return
        key = f"{self.name}/{name}"
        content = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else objects_of(content):
            self._block(block, role, key)
        if role == "assistant" and self.ledger is None:
            model = text_of(usage, "model") or text_of(message, "model")
            self.rows.model_call(self.place, key, model, tokens_of(usage, model), ts=self.ts, thread=self.name)

    def _block(self, block: dict[str, Any], role: str, key: str) -> None:
        rows, kind = self.rows, text_of(block, "type")
        if kind == "text":
            text = text_of(block, "text")
            if role == "user":
                rows.event(self.place, "prompt", None, "user", text, ts=self.ts, thread=self.name)
            else:
                rows.event(self.place, "answer", None, "assistant", text, ts=self.ts, thread=self.name, key=key)
        elif kind == "thinking":
            rows.event(self.place, "reasoning", None, "assistant", text_of(block, "thinking"), ts=self.ts, thread=self.name, key=key)
        elif kind == "tool_use":
            tool = text_of(block, "name") or "unknown"
            rows.tool_call(self.place, text_of(block, "id"), tool, None, block.get("input"), ts=self.ts, thread=self.name, key=key)
        elif kind == "tool_result":
            self._result(block)
        elif kind in {"image", "redacted_thinking"}:
            rows.event(
                self.place, "attachment", kind, "user" if role == "user" else "assistant", written(block), ts=self.ts, thread=self.name
            )
        else:
            rows.unknown_record(self.place, f"block/{kind}" if kind else "block", block, ts=self.ts, thread=self.name)

    def _result(self, block: dict[str, Any]) -> None:
        call = text_of(block, "toolUseID", "tool_use_id")
        run = mapping(block.get("run"))
        status, value = text_of(run, "status"), run.get("result", block.get("content"))
        told = value if isinstance(value, dict) else {}
        text = text_of(told, "output", "content", "diff") or (written(value) if value is not None else "")
        text = text or text_of(mapping(run.get("error")), "message") or ""
        code = told.get("exitCode")
        self.rows.tool_result(
            self.place,
            call,
            text,
            ts=self.ts,
            thread=self.name,
            failed=status in {"error", "cancelled"} or told.get("success") is False or block.get("is_error") is True,
            status=code if type(code) is int else None,
            subtype=DENIED if status in {"cancelled", "rejected-by-user"} else None,
        )

    def _ledger(self, messages: list[dict[str, Any]]) -> None:
        """Count the entries of the ledger; the message that an entry led to says how much of its prompt was cached."""
        usages: dict[Any, dict[str, Any]] = {}
        for message in messages:
            if type(named := message.get("messageId")) is int:
                usages[named] = mapping(message.get("usage"))
        for number, entry in enumerate(self.ledger or ()):
            led = entry.get("toMessageId")
            usage = usages.get(led, {}) if type(led) is int else {}
            spent, model = mapping(entry.get("tokens")), text_of(entry, "model")
            said = {"inputTokens": spent.get("input"), "outputTokens": spent.get("output"), "totalTokens": spent.get("total")}
            cached = {name: usage.get(name) for name in ("cacheCreationInputTokens", "cacheReadInputTokens")}
            ts = micros(text_of(entry, "timestamp")) or self.ts
            key = f"{self.name}/ledger/{text_of(entry, 'id') or number}"
            if key in self.seen:
                continue
            self.seen.add(key)
            self.rows.model_call(self.place, key, model, tokens_of(said | cached, model), ts=ts, thread=self.name)
            if isinstance(entry.get("credits"), int | float):
                self.rows.event(self.place, "attachment", BILLED, "system", written(entry), ts=ts, thread=self.name, key=key)


def tokens_of(usage: Mapping[str, Any], model: str | None) -> Usage:
    """Return the tokens of a call: three counts of the prompt beside each other; a total alone counts as output.

    Models of OpenAI bill no cache writes: what stands there is the part of the prompt that the cache did not hold.
    """
    names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "totalTokens")
    asked, said, read, written, total = (tokens(usage.get(name)) for name in names)
    if not (asked or said or read or written):
        return Usage(output=total)
    if (model or "").startswith("gpt-"):
        asked, written = asked + written, 0
    return Usage(asked, said, cache_read=read, cache_write=written)
