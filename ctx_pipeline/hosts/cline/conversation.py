"""What was sent to the model and came back: messages of blocks, with calls as blocks or as tags in a text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts.cline.record_types import action_of
from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, document_of, whole
from ctx_pipeline.hosts.record_values import exit_status, flat, items, mapping, nano_dollars, when, words
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.model.raw import StreamBytes

_ENVIRONMENT = lazy_pattern(r"<environment_details>.*?(?:</environment_details>|\Z)", re.DOTALL)
_TYPED = lazy_pattern(r"<(task|feedback|user_message|answer|user_input)(?:\s[^<>]{0,200})?>")
_NOTICE = lazy_pattern(r"<mode_notice(?:\s[^<>]{0,200})?>.*?</mode_notice>", re.DOTALL)
_NOTICE_END = "</mode_notice>"
_FOLDER = lazy_pattern(r"# Current (?:Working|Workspace) Directory \(([^)\n]{1,400})\)")
_XML_RESULT = lazy_pattern(r"\A\[(\w{1,60})(?: for '(.{0,2000}?)')?[^\]\n]{0,400}\] Result:\s*", re.DOTALL)
_DENIED = lazy_pattern(r"\A(?:The user denied this operation|The user rejected)")
_FAILED = lazy_pattern(r"\AThe tool execution failed|\A(?:Error|\[ERROR\])\b|<error>")
_EXIT = lazy_pattern(r"[Ee]xit code:? (-?\d{1,10})\b|failed with exit code (-?\d{1,10})\b")
_HEAD = 600


@dataclass(slots=True)
class Sent:
    """A call that was sent, with its result."""

    call_id: str
    name: str
    subject: str
    """the file or the command that the call names"""
    arguments: Any
    result: str | None = None
    failed: bool = False
    refused: bool = False
    exit: int | None = None


@dataclass(slots=True)
class Conversation:
    """The messages of one file."""

    place: Place | None = None
    messages: list[Any] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    environment: str = ""
    folder: str | None = None

    def __post_init__(self) -> None:
        waiting: dict[str, Sent] = {}
        for message in map(mapping, self.messages):
            for block in _blocks(message):
                kind = block.get("type")
                if kind == "tool_use" and words(block.get("id")):
                    call = Sent(words(block["id"]), words(block.get("name")), _subject(block.get("input")), block.get("input"))
                    waiting[call.call_id] = call
                    self.sent.append(call)
                elif kind == "tool_result" and (found := waiting.get(words(block.get("tool_use_id")))):
                    _end(found, flat(block.get("content")), failed=block.get("is_error") is True)
                elif kind == "text":
                    self._text(message, flat(block.get("text")))

    def _text(self, message: dict[str, Any], said: str) -> None:
        if message.get("role") == "assistant":
            return
        for environment in _ENVIRONMENT.findall(said):
            self.environment = environment
            found = _FOLDER.search(environment)
            self.folder = self.folder or (found[1] if found else None)
        if header := _XML_RESULT.match(said):
            call = Sent(f"{header[1]}/{len(self.sent)}", header[1], header[2] or "", None)
            _end(call, _ENVIRONMENT.sub("", said[header.end() :]).strip(), failed=False)
            self.sent.append(call)

    def take(self, tool: str, arguments: dict[str, Any]) -> Sent | None:
        """Return the next call of a subject, and do not give it again; None where none was kept."""
        subject = _subject(arguments)
        action = action_of(tool)
        for number, call in enumerate(self.sent):
            same = call.subject == subject or (subject and call.subject.endswith(f"/{subject}"))
            if same and action_of(call.name) == action:
                return self.sent.pop(number)
        return None

    def tell(self, rows: Rows, model: str, thread: str = "") -> None:
        """Add the rows of the whole conversation: there are no other messages of it."""
        place = self.place
        if place is None:
            return
        ends = {call.call_id: call for call in self.sent}
        for number, message in enumerate(self.messages):
            if not isinstance(message, dict):
                rows.unknown_record(place, "message", message, ts=None, thread=thread)
                continue
            ts = when(message.get("ts"))
            told, metrics = mapping(message.get("modelInfo")), mapping(message.get("metrics"))
            name = words(told.get("id")) or words(told.get("modelId")) or model
            key = words(message.get("id"))
            own = f"{rows.session_id}:{key}" if key else f"{thread or rows.session_id}:{number}"
            for block in _blocks(message):
                _tell_block(rows, place, block, ends, asked=message.get("role") != "assistant", ts=ts, thread=thread, key=own)
            counted = _usage(metrics)
            if message.get("role") == "assistant" and (counted.context + counted.output):
                cost = nano_dollars(metrics.get("cost"))
                rows.model_call(place, own, name, counted, ts=ts, thread=thread, cost=cost)


def _usage(metrics: dict[str, Any]) -> Usage:
    """Return the usage of an answer; the prompt includes what the cache served and took."""
    told = mapping(metrics.get("tokens"))
    if told:
        return Usage.whole_prompt(told.get("prompt"), told.get("completion"), read=told.get("cached"))
    read, write = metrics.get("cacheReadTokens"), metrics.get("cacheWriteTokens")
    return Usage.whole_prompt(metrics.get("inputTokens"), metrics.get("outputTokens"), read=read, write=write)


def _tell_block(
    rows: Rows, place: Place, block: dict[str, Any], ends: dict[str, Sent], *, asked: bool, ts: int | None, thread: str, key: str
) -> None:
    kind = words(block.get("type"))
    if kind == "text":
        said = flat(block.get("text"))
        if not asked:
            rows.event(place, "answer", "message/text", "assistant", said, ts=ts, thread=thread, parent=rows.last_prompt, key=key)
            rows.facts.status = "completed"
            return
        typed = list(_typed(said)) or ([] if _XML_RESULT.match(said) else [_ENVIRONMENT.sub("", said)])
        for part in typed:
            if cleaned := _without_notices(part).strip():
                rows.event(place, "prompt", "message/text", "user", cleaned, ts=ts, thread=thread)
                rows.facts.status = "unknown"
        if not typed or "<environment_details>" in said:
            rows.event(place, "injected", "message/environment", "user", said, ts=ts, thread=thread)
    elif kind in {"thinking", "redacted_thinking", "reasoning"}:
        rows.event(
            place, "reasoning", f"message/{kind}", "assistant", flat(block.get("thinking")) or flat(block), ts=ts, thread=thread, key=key
        )
    elif kind == "tool_use":
        name = words(block.get("name")) or "unknown"
        call_id = words(block.get("id")) or f"{key}:{name}"
        rows.tool_call(place, call_id, name, action_of(name), block.get("input"), subtype="message/tool_use", ts=ts, thread=thread, key=key)
    elif kind == "tool_result":
        call_id = words(block.get("tool_use_id")) or key
        end = ends.get(call_id) or Sent(call_id, "", "", None, flat(block.get("content")))
        rows.tool_result(
            place,
            call_id,
            end.result,
            subtype="message/tool_result",
            ts=ts,
            thread=thread,
            failed=end.failed or end.refused,
            status=end.exit,
        )
    elif kind in {"image", "document", "file"}:
        rows.event(place, "attachment", f"message/{kind}", "user" if asked else "assistant", None, ts=ts, thread=thread)
    else:
        rows.unknown_record(place, f"message/{kind}" if kind else "message", block, ts=ts, thread=thread)


def _typed(said: str) -> Iterator[str]:
    """Yield what stands in tags that the person filled; one without its end holds nothing."""
    at, unclosed = 0, set()
    while found := _TYPED.search(said, at):
        at, name = found.end(), found[1]
        end = -1 if name in unclosed else said.find(f"</{name}>", at)
        if end < 0:
            unclosed.add(name)
        else:
            yield said[at:end].strip()
            at = end + len(name) + 3


def _without_notices(said: str) -> str:
    cut = said.rfind(_NOTICE_END) + len(_NOTICE_END)
    return _NOTICE.sub("", said[:cut]) + said[cut:] if cut >= len(_NOTICE_END) else said


def _blocks(message: dict[str, Any]) -> Iterable[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in items(content) if isinstance(block, dict)]


def _end(call: Sent, said: str, *, failed: bool) -> None:
    head = said[:_HEAD]
    ended = _EXIT.search(head) if action_of(call.name) == "shell" else None
    call.result = said
    call.exit = exit_status(int(ended[1] or ended[2])) if ended else None
    call.refused = bool(_DENIED.match(head))
    call.failed = failed or bool(_FAILED.search(head)) or bool(call.exit)


def _subject(arguments: Any) -> str:
    said = mapping(arguments)
    files = items(said.get("files"))
    return next(
        (found for name in ("path", "command", "regex", "query", "url", "question") if (found := words(said.get(name)))),
        words(mapping(files[0]).get("path")) if files else "",
    )


def read_conversation(streams: list[StreamBytes], rows: Rows) -> Conversation:
    """Return the conversation of the copy to believe first."""
    for stream in streams:
        value = document_of(stream, rows)
        if isinstance(value, list):
            return Conversation(whole(stream), value)
    return Conversation()
