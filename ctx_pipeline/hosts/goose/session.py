"""From messages of a session to rows, whether they stand in a file or in the database; usage is known for the whole session alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts.goose import DATABASE
from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, longest_first, records_of
from ctx_pipeline.hosts.record_values import decoded, items, mapping, objects_of, read_json, text_of, tokens, when, written
from ctx_pipeline.model.codec import digest, micros
from ctx_pipeline.model.declared import Formats
from ctx_pipeline.model.host_records import OUT, REFUSED, Change, usual

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctx_pipeline.model.raw import Parsed, SessionInput

_TOOLS = {
    **dict.fromkeys(("shell", "bash"), "shell"),
    **dict.fromkeys(("read_file", "read", "image_processor"), "read"),
    "write": "write",
    "edit": "edit",
    **dict.fromkeys(("search", "tree", "list", "analyze", "glob", "ripgrep"), "search"),
    **dict.fromkeys(("web_search", "web_scrape", "fetch"), "web"),
    **dict.fromkeys(("dynamic_task__create_task", "subagent__execute_task", "execute_task", "delegate"), "task"),
    **dict.fromkeys(("todo_write", "todo_read"), "plan"),
}
_EDITOR = {"view": "read", "write": "write", "str_replace": "edit", "insert": "edit", "undo_edit": "edit"}
_CONTENTS = (
    *("text", "image", "toolRequest", "toolResponse", "toolConfirmationRequest", "actionRequired", "frontendToolRequest", "thinking"),
    *("redactedThinking", "reasoning", "systemNotification", "conversationCompacted", "contextLengthExceeded", "summarizationRequested"),
)
_DECLINED = "The user has declined to run this tool"


def known() -> Formats:
    """Return the known fields of lines."""
    about = (
        "working_dir description name schedule_id project_id message_count total_tokens input_tokens output_tokens"
        " accumulated_total_tokens accumulated_input_tokens accumulated_output_tokens extension_data recipe"
    )
    return Formats({"": frozenset(f"id role created content metadata {about}".split())})


def window(kind: str, subtype: str | None, text: str | None, _record: Callable[[], bytes]) -> str | Change:
    """Return what an event does to the window; notices of the program were never sent."""
    return OUT if subtype in {"systemNotification", "shown only"} else usual(kind, text)


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a session."""
    rows = Rows("goose", session.session_id, ended_by_last=True)
    walk = _Walk(rows, session.session_id)
    for stream in sorted(longest_first(session), key=lambda s: s.kind != DATABASE):
        for place, record in records_of([stream], rows):
            walk.record(record, place)
    walk.usage()
    return rows.parsed()


class _Walk:
    def __init__(self, rows: Rows, thread: str) -> None:
        self.rows, self.thread = rows, thread
        self.abouts: list[tuple[dict[str, Any], Place]] = []
        self.seen: set[str] = set()
        self.hidden = False
        """the message before was written for the model alone"""
        self.ts: int | None = None

    def record(self, record: dict[str, Any], place: Place) -> None:
        """Add the rows of a line of a file or of a row of the database."""
        row = mapping(record.get("row"))
        if "table" in record and row:
            if record["table"] == "sessions":
                self._about(row, place)
            elif record["table"] == "messages":
                message = {name: row.get(name) for name in ("role", "id")} | {"created": row.get("created_timestamp")}
                content = items(read_json(text_of(row, "content_json") or "[]"))
                self._message(message | {"metadata": decoded(row.get("metadata_json")), "content": content}, place)
            else:
                self.rows.unknown_record(place, "table", record, ts=None, thread=self.thread)
        elif text_of(record, "role"):
            self._message(record, place)
        elif "working_dir" in record or "description" in record:
            self._about(record, place)
        else:
            self.rows.unknown_record(place, "record", record, ts=None, thread=self.thread)

    def _about(self, about: dict[str, Any], place: Place) -> None:
        self.abouts.append((about, place))
        subagent = text_of(about, "session_type") in {"sub_agent", "subagent"}
        self.rows.thread(self.thread, cwd=text_of(about, "working_dir"), kind="subagent" if subagent else None)
        own = about.get("user_set_name") in (True, 1)
        self.rows.title(text_of(about, "name", "description"), "custom" if own else "ai")

    def usage(self) -> None:
        """Count the session: its last call, and all calls before it as one, for only their sum is recorded."""
        if not self.abouts:
            return
        about, place = max(
            self.abouts, key=lambda item: (tokens(item[0].get("accumulated_total_tokens")), tokens(item[0].get("total_tokens")))
        )
        model = text_of(decoded(about.get("model_config_json")), "model_name")
        ts = micros(text_of(about, "updated_at")) or self.ts
        last = _tokens(about, "")
        whole = _tokens(about, "accumulated_")
        rest = Usage(max(0, whole.input - last.input), max(0, whole.output - last.output)) if any(whole) else Usage()
        self.rows.model_call(place, f"{self.thread}/before", model, rest, ts=ts, thread=self.thread)
        self.rows.model_call(place, f"{self.thread}/last", model, last, ts=ts, thread=self.thread)

    def _message(self, message: dict[str, Any], place: Place) -> None:
        role, metadata = text_of(message, "role"), mapping(message.get("metadata"))
        created = message.get("created")
        ts = when(created * 1_000 if isinstance(created, int) and created < 10**11 else created)
        # what both eras hold is known by its time; without one, by its id or where it stands
        own = "" if ts is not None else written(message.get("id") or place)
        mark = digest(role, ts, written(message.get("content")), own)
        if mark in self.seen:
            return
        self.seen.add(mark)
        self.ts = ts or self.ts
        if role not in {"user", "assistant"}:
            self.rows.unknown_record(place, f"message/{role}" if role else "message", message, ts=ts, thread=self.thread)
            return
        alone = metadata.get("userVisible") is False
        first, self.hidden = alone and not self.hidden, alone
        for block in objects_of(message.get("content")):
            self._block(block, role, place, ts, alone=alone, first=first)

    def _block(self, block: dict[str, Any], role: str, place: Place, ts: int | None, *, alone: bool, first: bool) -> None:
        rows, thread, kind = self.rows, self.thread, text_of(block, "type")
        if kind == "text":
            text = text_of(block, "text")
            if alone:
                rows.event(place, "compaction" if first else "injected", "written for the model", "system", text, ts=ts, thread=thread)
            elif role == "user":
                rows.event(place, "prompt", None, "user", text, ts=ts, thread=thread)
            else:
                rows.event(place, "answer", None, "assistant", text, ts=ts, thread=thread)
        elif kind in {"thinking", "reasoning"}:
            rows.event(place, "reasoning", None, "assistant", text_of(block, "thinking", "text"), ts=ts, thread=thread)
        elif kind in {"toolRequest", "frontendToolRequest"}:
            self._request(block, place, ts)
        elif kind == "toolResponse":
            self._response(block, place, ts)
        elif kind in {"toolConfirmationRequest", "actionRequired"}:
            rows.event(place, "permission", kind, "system", written(block), ts=ts, thread=thread)
        elif kind == "systemNotification":
            rows.event(place, "injected", kind, "system", text_of(block, "msg"), ts=ts, thread=thread)
        elif kind in {"conversationCompacted", "summarizationRequested"}:
            rows.event(place, "compaction", kind, "system", text_of(block, "msg"), ts=ts, thread=thread)
        elif kind == "contextLengthExceeded":
            rows.event(place, "error", kind, "system", text_of(block, "msg"), ts=ts, thread=thread)
        elif kind in {"image", "redactedThinking"}:
            rows.event(place, "attachment", kind, "user" if role == "user" else "assistant", written(block), ts=ts, thread=thread)
        else:
            rows.unknown_record(place, f"content/{kind}" if kind else "content", block, ts=ts, thread=thread)

    def _request(self, block: dict[str, Any], place: Place, ts: int | None) -> None:
        asked = mapping(block.get("toolCall"))
        call = mapping(asked.get("value")) or asked
        tool, arguments = text_of(call, "name") or "unknown", call.get("arguments")
        short = tool.rpartition("__")[2]
        action = _TOOLS.get(tool) or _TOOLS.get(short)
        if short == "text_editor" and isinstance(arguments, dict):
            action = _EDITOR.get(text_of(arguments, "command") or "", "edit")
        made = self.rows.tool_call(place, text_of(block, "id"), tool, action, arguments, ts=ts, thread=self.thread)
        if text_of(asked, "status") == "error":
            self.rows.tool_result(place, made, text_of(asked, "error") or "", ts=ts, thread=self.thread, failed=True)

    def _response(self, block: dict[str, Any], place: Place, ts: int | None) -> None:
        answered = mapping(block.get("toolResult"))
        value = answered.get("value")
        contents = value.get("content") if isinstance(value, dict) else value
        text = "\n".join(t for item in objects_of(contents) if (t := text_of(item, "text"))) or text_of(answered, "error") or ""
        if not text and contents:
            text = written(contents)
        failed = text_of(answered, "status") == "error" or (isinstance(value, dict) and value.get("isError") is True)
        self.rows.tool_result(
            place,
            text_of(block, "id"),
            text,
            ts=ts,
            thread=self.thread,
            failed=failed or text.startswith(_DECLINED),
            subtype=REFUSED if text.startswith(_DECLINED) else None,
        )


def _tokens(about: Mapping[str, Any], prefix: str) -> Usage:
    """Return the tokens of the columns that begin so; what the total holds beyond prompt and answer is output."""
    asked, said, total = (tokens(about.get(f"{prefix}{name}_tokens")) for name in ("input", "output", "total"))
    return Usage(asked, max(said, total - asked) if total else said)
