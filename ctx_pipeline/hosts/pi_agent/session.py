"""From the entries of a session to rows; entries form a tree, and a branch begins where an entry names an older one as its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, longest_first, records_of
from ctx_pipeline.hosts.record_values import mapping, nano_dollars, objects_of, text_of, tokens, when, written
from ctx_pipeline.model.codec import digest, micros
from ctx_pipeline.model.declared import Formats
from ctx_pipeline.model.host_records import OUT, Change, usual
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctx_pipeline.model.raw import Parsed, SessionInput

_ACTIONS = {
    "read": "read",
    **dict.fromkeys(("edit", "apply_patch"), "edit"),
    "write": "write",
    "bash": "shell",
    **dict.fromkeys(("grep", "find", "ls", "glob"), "search"),
    **dict.fromkeys(("web_search", "web_fetch"), "web"),
    **dict.fromkeys(("subagent", "task"), "task"),
}
_ENTRIES = (
    *("session", "message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom", "custom_message", "label"),
    *("session_info", "context_transform", "ephemeral"),
)
_ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage", "branchSummary", "compactionSummary")
_EXIT = lazy_pattern(r"Command exited with code (\d{1,10})")
_ABORTED = "aborted"


def known() -> Formats:
    """Return the known fields of entries."""
    entry = (
        "type id parentId timestamp version cwd parentSession branchedFrom provider modelId thinkingLevel message summary"
        " firstKeptEntryId firstKeptEntryIndex tokensBefore details fromHook fromId customType data targetId label name content"
        " display usage"
    )
    message = (
        "role content api provider model responseId usage stopReason errorMessage timestamp toolCallId toolName details isError command"
        " output exitCode cancelled truncated fullOutputPath excludeFromContext customType display summary fromId tokensBefore"
    )
    usage = "input output cacheRead cacheWrite totalTokens cost reasoning"
    return Formats({"": frozenset(entry.split()), "message": frozenset(message.split()), "message.usage": frozenset(usage.split())})


def window(kind: str, subtype: str | None, text: str | None, _record: Callable[[], bytes]) -> str | Change:
    """Return what an event does to the window: a jump to an older entry takes turns back, commands beside the context were never sent."""
    if subtype == "branch":
        return Change("rollback", turns=int(text) if text and text.isdecimal() else 0)
    return OUT if subtype in {"excluded", "context_transform", "ephemeral"} else usual(kind, text)


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a session."""
    rows = Rows("pi_agent", session.session_id, _ACTIONS, ended_by_last=True)
    walk = _Walk(rows, session.session_id)
    for stream in longest_first(session):
        rows.thread(session.session_id, kind="fork" if stream.parent_thread_id else None, parent_thread_id=stream.parent_thread_id)
        walk.last = None
        for place, record in records_of([stream], rows):
            walk.entry(record, place)
    return rows.parsed()


class _Walk:
    def __init__(self, rows: Rows, thread: str) -> None:
        self.rows, self.thread = rows, thread
        self.last: str | None = None
        self.path: list[tuple[str, bool]] = []
        """entries from the root to the last one, and whether each is a prompt"""
        self.at: dict[str, int] = {}
        """where each of them stands"""
        self.seen: set[str] = set()

    def entry(self, record: dict[str, Any], place: Place) -> None:
        """Add the rows of an entry; one that another file of the session held already adds none."""
        name, kind = text_of(record, "id"), text_of(record, "type")
        ts = micros(text_of(record, "timestamp"))
        if kind == "session":
            self.rows.thread(self.thread, cwd=text_of(record, "cwd"))
            self.rows.event(place, "session_start", "session", "system", None, ts=ts, thread=self.thread)
            return
        if name is not None:
            if name in self.seen:
                return
            self.seen.add(name)
            self._follow(name, record, place, ts)
        self._body(kind, record, place, ts)

    def _follow(self, name: str, record: dict[str, Any], place: Place, ts: int | None) -> None:
        parent = text_of(record, "parentId")
        if parent != self.last and parent in self.at:
            gone = self.path[self.at[parent] + 1 :]
            del self.path[self.at[parent] + 1 :]
            for left, _ in gone:
                del self.at[left]
            prompts = sum(1 for _, prompt in gone if prompt)
            self.rows.event(place, "injected", "branch", "user", str(prompts), ts=ts, thread=self.thread)
        self.at[name] = len(self.path)
        self.path.append((name, mapping(record.get("message")).get("role") == "user"))
        self.last = name

    def _body(self, kind: str | None, record: dict[str, Any], place: Place, ts: int | None) -> None:
        rows, thread = self.rows, self.thread
        if kind == "message":
            self._message(mapping(record.get("message")), record, place, ts)
        elif kind == "compaction":
            rows.event(place, "compaction", kind, "system", text_of(record, "summary"), ts=ts, thread=thread)
            self._extra_usage(record, place, ts)
        elif kind == "branch_summary":
            rows.event(place, "injected", kind, "system", text_of(record, "summary"), ts=ts, thread=thread)
            self._extra_usage(record, place, ts)
        elif kind == "session_info":
            title = text_of(record, "name")
            rows.event(place, "title", kind, "system", title, ts=ts, thread=thread)
            if title:
                rows.facts.title = None  # the last one stands
                rows.title(title, "custom")
        elif kind == "custom_message":
            rows.event(place, "injected", text_of(record, "customType"), "system", _text(record.get("content")), ts=ts, thread=thread)
        elif kind in {"model_change", "thinking_level_change", "custom", "label", "context_transform", "ephemeral"}:
            rows.event(place, "attachment", kind, "system", written(record), ts=ts, thread=thread)
        else:
            rows.unknown_record(place, f"entry/{kind}" if kind else "entry", record, ts=ts, thread=thread)

    def _extra_usage(self, record: dict[str, Any], place: Place, ts: int | None) -> None:
        """Count the call that wrote a summary, where the entry says what it took."""
        usage = mapping(record.get("usage"))
        self._count(usage, None, record, place, ts)

    def _count(self, usage: Mapping[str, Any], model: str | None, record: Mapping[str, Any], place: Place, ts: int | None) -> str:
        """Count a call; a fork copies the entry with its id and time, which together make the key."""
        used = tokens_of(usage)
        when = mapping(record.get("message")).get("timestamp")
        key = digest(
            text_of(record, "id"),
            ts,
            when if type(when) is int else None,
            model,
            used.input,
            used.output,
            used.cache_read,
            used.cache_write,
            used.reasoning,
        )
        cost = nano_dollars(mapping(usage.get("cost")).get("total")) or None
        self.rows.model_call(place, key, model, used, ts=ts, thread=self.thread, cost=cost)
        return key

    def _message(self, message: dict[str, Any], record: dict[str, Any], place: Place, ts: int | None) -> None:
        rows, thread, role = self.rows, self.thread, text_of(message, "role")
        ts = when(message.get("timestamp")) or ts
        if role == "user":
            rows.event(place, "prompt", None, "user", _text(message.get("content")), ts=ts, thread=thread)
            self._pictures(message, place, ts)
        elif role == "assistant":
            self._assistant(message, record, place, ts)
        elif role == "toolResult":
            text = _text(message.get("content"))
            code = _EXIT.search(text) if message.get("toolName") == "bash" and message.get("isError") is True else None
            failed, call = message.get("isError") is True, text_of(message, "toolCallId")
            rows.tool_result(place, call, text, ts=ts, thread=thread, failed=failed, status=int(code[1]) if code else None)
        elif role == "bashExecution":
            self._command(message, place, ts)
        elif role in {"custom", "hookMessage", "branchSummary"}:
            text = text_of(message, "summary") or _text(message.get("content"))
            rows.event(place, "injected", role, "system", text, ts=ts, thread=thread)
        elif role == "compactionSummary":
            rows.event(place, "compaction", role, "system", text_of(message, "summary"), ts=ts, thread=thread)
        else:
            rows.unknown_record(place, f"message/{role}" if role else "message", record, ts=ts, thread=thread)

    def _assistant(self, message: dict[str, Any], record: dict[str, Any], place: Place, ts: int | None) -> None:
        rows, thread = self.rows, self.thread
        key = self._count(mapping(message.get("usage")), text_of(message, "model"), record, place, ts)
        content = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else objects_of(content):
            kind = text_of(block, "type")
            if kind == "text":
                rows.event(place, "answer", None, "assistant", text_of(block, "text"), ts=ts, thread=thread, key=key)
            elif kind == "thinking":
                rows.event(place, "reasoning", None, "assistant", text_of(block, "thinking"), ts=ts, thread=thread, key=key)
            elif kind == "toolCall":
                tool = text_of(block, "name") or "unknown"
                rows.tool_call(place, text_of(block, "id"), tool, None, block.get("arguments"), ts=ts, thread=thread, key=key)
            else:
                rows.unknown_record(place, f"block/{kind}" if kind else "block", block, ts=ts, thread=thread)
        if message.get("stopReason") == _ABORTED:
            rows.event(place, "injected", "interrupt", "user", text_of(message, "errorMessage"), ts=ts, thread=thread)
        elif message.get("stopReason") == "error" or text_of(message, "errorMessage"):
            rows.event(place, "error", "error", "system", text_of(message, "errorMessage") or "error", ts=ts, thread=thread)

    def _command(self, message: dict[str, Any], place: Place, ts: int | None) -> None:
        """A command that the person ran in the program: what it printed is in the window, unless it was kept out of it."""
        kept_out = message.get("excludeFromContext") is True
        said = f"$ {text_of(message, 'command') or ''}\n{text_of(message, 'output') or ''}"
        subtype = "excluded" if kept_out else "bashExecution"
        self.rows.event(place, "injected", subtype, "user", said, ts=ts, thread=self.thread)

    def _pictures(self, message: dict[str, Any], place: Place, ts: int | None) -> None:
        for block in objects_of(message.get("content")):
            if block.get("type") == "image":
                self.rows.event(place, "attachment", "image", "user", written(block), ts=ts, thread=self.thread)


def tokens_of(usage: Mapping[str, Any]) -> Usage:
    """Return the tokens of a message: its parts stand beside each other, reasoning inside the output; a total alone counts as output."""
    names = ("input", "output", "cacheRead", "cacheWrite", "reasoning", "totalTokens")
    asked, said, read, written, thought, total = (tokens(usage.get(name)) for name in names)
    if not (asked or said or read or written):
        return Usage(output=total)
    return Usage(asked, said, cache_read=read, cache_write=written, reasoning=min(thought, said))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text for block in objects_of(content) if (text := text_of(block, "text")))
