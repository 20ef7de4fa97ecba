"""A task folder: the messages that a person saw, with results and models from what was sent to the model."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.hosts.cline import record_types as known
from ctx_pipeline.hosts.cline.conversation import Conversation, read_conversation
from ctx_pipeline.hosts.cline.paths import CLI, HISTORY, ITEM, MANIFEST, MESSAGES, METADATA
from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, document_of, newest_first, whole
from ctx_pipeline.hosts.record_values import items, mapping, nano_dollars, read_json, text, tokens, when, words, written
from ctx_pipeline.model.host_records import REFUSED
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.model.raw import Parsed, SessionInput

_REQUIRED = " REQ_APP"
"""Cline writes it behind a command that needs approval."""
_OUTPUT = "\nOutput:\n"
_MODEL = lazy_pattern(r"<model>([^<\n]{1,200})</model>")
_STATUS = {"completed": "completed", "active": "unknown", "delegated": "unknown", "failed": "errored", "cancelled": "interrupted"}


class Said(NamedTuple):
    """One message with its place; ``counted`` is false for one that only an older copy holds."""

    place: Place
    value: dict[str, Any]
    counted: bool


@dataclass(slots=True)
class TaskReader:
    """Reads the messages of a task into rows."""

    rows: Rows
    conversation: Conversation
    models: list[tuple[int, str]] = field(default_factory=list)
    """(time, model) of each change, in order"""
    model: str = ""
    provider: str = ""
    call: str | None = None
    """id of the call whose result is awaited"""
    key: str | None = None
    output: list[str] = field(default_factory=list)
    number: int = 0

    def read(self, said: Said) -> None:
        """Add the rows of a message."""
        value, place = said.value, said.place
        ts = when(value.get("ts"))
        name = words(value.get("ask")) if value.get("type") == "ask" else words(value.get("say"))
        body = text(value.get("text")) or ""
        told = mapping(value.get("modelInfo"))
        self.model = words(told.get("modelId")) or self.model_at(ts) or self.model
        self.provider = words(told.get("providerId")) or self.provider
        label = f"{words(value.get('type')) or 'message'}/{name}"
        if name not in known.RESULTS and name not in known.NOTES and name not in known.USAGE:
            self.answered(place, ts)
        if name in known.PROMPTS or (name == "text" and self.rows.first_prompt is None and value.get("type") == "say"):
            self.rows.event(place, "prompt", label, "user", body, ts=ts)
            self.rows.facts.status = "unknown"
            self._pictures(place, value, ts)
        elif name == "reasoning" or (not body and text(value.get("reasoning"))):
            self.rows.event(place, "reasoning", label, "assistant", text(value.get("reasoning")) or body, ts=ts, key=self.key)
        elif name in known.ANSWERS:
            self._answer(place, label, name, body, ts)
        elif name in known.TOOLS:
            self._tool(place, label, name, body, ts)
        elif name in known.RESULTS:
            self._result(place, label, name, body, ts)
        elif name in known.USAGE:
            self._usage(said, label, name, body, ts)
        elif name in known.COMPACTIONS:
            self._compaction(said, label, body, ts)
        elif name in known.ERRORS:
            self.rows.event(place, "error", label, "system", body, ts=ts)
            self.rows.facts.status = "errored"
        elif name in known.NOTES:
            self.rows.event(place, "attachment", label, "system", body or None, ts=ts)
        else:
            self.rows.unknown_record(place, label, value, ts=ts)

    def model_at(self, ts: int | None) -> str:
        """Return the model that was chosen at a time."""
        at = bisect_right(self.models, (ts if ts is not None else 0, "\uffff"))
        return self.models[at - 1][1] if at else ""

    def _answer(self, place: Place, label: str, name: str, body: str, ts: int | None) -> None:
        if name in {"plan_mode_respond", "act_mode_respond", "followup"}:
            said = mapping(read_json(body))
            body = words(said.get("response")) or words(said.get("question")) or body
        if not body.strip():
            self.rows.event(place, "attachment", label, "system", None, ts=ts)
            return
        self.rows.event(place, "answer", label, "assistant", body, ts=ts, parent=self.rows.last_prompt, key=self.key)
        if name == "completion_result":
            self.rows.facts.status = "completed"

    def _tool(self, place: Place, label: str, name: str, body: str, ts: int | None) -> None:
        tool, arguments, found = name, {}, mapping(read_json(body))
        if name == "command":
            command, _, output = body.partition(_OUTPUT)
            arguments = {"command": command.removesuffix(_REQUIRED)}
            if output:
                self.output.append(output)
        elif name == "tool":
            tool, arguments = words(found.get("tool")) or name, {k: v for k, v in found.items() if k != "tool"}
        elif name == "use_mcp_server":
            tool, arguments = f"{words(found.get('serverName'))}.{words(found.get('toolName'))}", found
        else:
            arguments = found or {"input": body}
        action = "mcp" if name == "use_mcp_server" else known.action_of(tool)
        sent = self.conversation.take(tool, arguments)
        self.number += 1
        self.call = sent.call_id if sent else f"{self.rows.session_id}/{self.number}"
        made = self.rows.tool_call(place, self.call, tool, action, arguments, subtype=label, ts=ts, key=self.key)
        self.call = made.call_id if made.call_id == self.call else self.call
        if sent is not None and sent.result is not None:
            refused = sent.refused
            self.rows.tool_result(
                place, self.call, sent.result, subtype=REFUSED if refused else label, ts=ts, failed=sent.failed or refused, status=sent.exit
            )
            self.call = None

    def _result(self, place: Place, label: str, name: str, body: str, ts: int | None) -> None:
        if name == "command_output" and self.call is not None:
            self.output.append(body)
        if self.call is None or name == "command_output":
            self.rows.event(place, "attachment", label, "tool", body or None, ts=ts)
            return
        self.rows.tool_result(place, self.call, body, subtype=label, ts=ts)
        self.call = None

    def answered(self, place: Place, ts: int | None) -> None:
        """Close the call that waits: what came after it says that it is over."""
        if self.call is not None:
            said = "\n".join(self.output) if self.output else None
            self.rows.tool_result(place, self.call, said, subtype="answered", ts=ts)
        self.call = None
        self.output = []

    def _usage(self, said: Said, label: str, name: str, body: str, ts: int | None) -> None:
        place, rows = said.place, self.rows
        found = mapping(read_json(body))
        shown = {key: value for key, value in found.items() if key != "request"}
        rows.event(place, "attachment", label, "system", written(shown), ts=ts)
        if reason := words(found.get("cancelReason")):
            stopped = reason == "user_cancelled"
            kind, actor = ("injected", "user") if stopped else ("error", "system")
            failed = words(found.get("streamingFailedMessage"))
            rows.event(place, kind, "interrupt" if stopped else "api_req_failed", actor, failed or None, ts=ts)
            rows.facts.status = "interrupted" if stopped else "errored"
        self.key = f"{rows.session_id}:{name}:{ts if ts is not None else len(rows.events)}"
        if not said.counted:
            return
        usage = self._counted(found, ts)
        cost = nano_dollars(found.get("cost"))
        if usage.context + usage.output or cost:
            thread = rows.session_id
            if name == "subagent_usage":
                thread = f"{rows.session_id}/subagents"
                rows.thread(thread, "subagent", parent_thread_id=rows.session_id)
            rows.model_call(place, self.key, self.model, usage, ts=ts, thread=thread, cost=cost)

    def _counted(self, found: dict[str, Any], ts: int | None) -> Usage:
        fresh, read, write = found.get("tokensIn"), found.get("cacheReads"), found.get("cacheWrites")
        if self.rows.host == "roo":
            together = (ts or 0) >= known.ROO_WHOLE_SINCE or found.get("apiProtocol") == "openai"
        else:
            together = self.provider in known.WHOLE_PROMPT
        if together:
            return Usage.whole_prompt(fresh, found.get("tokensOut"), read=read, write=write)
        return Usage(tokens(fresh), tokens(found.get("tokensOut")), tokens(write), tokens(read))

    def _compaction(self, said: Said, label: str, body: str, ts: int | None) -> None:
        condensed = mapping(said.value.get("contextCondense"))
        summary = text(condensed.get("summary")) or body or None
        if label.endswith("sliding_window_truncation"):
            self.rows.event(said.place, "attachment", label, "system", written(said.value.get("contextTruncation")), ts=ts)
            return
        self.rows.event(said.place, "compaction", label, "system", summary, ts=ts)
        cost = nano_dollars(condensed.get("cost"))
        if cost and said.counted:
            self.rows.model_call(said.place, f"{self.rows.session_id}:condense:{ts}", self.model, Usage(), ts=ts, cost=cost)

    def _pictures(self, place: Place, value: dict[str, Any], ts: int | None) -> None:
        for name in ("images", "files"):
            for item in items(value.get(name)):
                self.rows.event(place, "attachment", f"message/{name}", "user", written(item), ts=ts)


def parse(session: SessionInput) -> Parsed:
    """Return the rows of one task, or of one session of the command line."""
    rows = Rows(session.host, session.session_id)
    conversation = read_conversation(newest_first(session, HISTORY), rows)
    reader = TaskReader(rows, conversation)
    hint = session.hints.get(session.session_id, {})
    _described(session, rows, reader, hint)
    messages = _messages(session, rows)
    for said in messages:
        reader.read(said)
    if messages:
        reader.answered(messages[-1].place, when(messages[-1].value.get("ts")))
    else:
        conversation.tell(rows, reader.model)
    _sessions(session, rows, reader)
    facts = rows.facts
    if facts.cwd is None:
        facts.cwd = conversation.folder
    if facts.title is None and (title := hint.get("title")):
        facts.title, facts.title_source = title, "custom"
    return rows.parsed()


def _messages(session: SessionInput, rows: Rows) -> list[Said]:
    """Return the messages in order; what an older copy holds beside the newest was taken back, and is told but not counted."""
    found: dict[str, Said] = {}
    counted = True
    for stream in newest_first(session, MESSAGES):
        value = document_of(stream, rows)
        if not isinstance(value, list):
            continue
        for number, message in enumerate(value):
            if not isinstance(message, dict):
                rows.unknown_record(whole(stream), "message", message, ts=None)
                continue
            at = message.get("ts")
            name = f"{at if type(at) is int else number}:{message.get('type')}:{message.get('say') or message.get('ask')}"
            same = 0
            while (key := f"{name}:{same}") in found and found[key].place.stream == stream.stream:
                same += 1
            if key not in found:
                found[key] = Said(whole(stream), message, counted)
        counted = False
    ordered = list(found.values())
    if all(when(said.value.get("ts")) is not None for said in ordered):
        ordered.sort(key=lambda said: when(said.value.get("ts")) or 0)
    return ordered


def _described(session: SessionInput, rows: Rows, reader: TaskReader, hint: Mapping[str, str]) -> None:
    """Take over what the files beside a task say: models by time, folder, parent, status."""
    facts = rows.facts
    facts.cwd, facts.parent_session = hint.get("cwd"), hint.get("parent")
    reader.model = hint.get("model", "")
    for stream in newest_first(session, METADATA):
        used = items(mapping(document_of(stream, rows)).get("model_usage"))
        reader.models = sorted((ts, words(one.get("model_id"))) for one in map(mapping, used) if (ts := when(one.get("ts"))) is not None)
        reader.provider = next((words(one.get("model_provider_id")) for one in map(mapping, used)), "")
        break
    for stream in newest_first(session, ITEM):
        item = mapping(document_of(stream, rows))
        facts.cwd = words(item.get("workspace")) or facts.cwd
        facts.parent_session = words(item.get("parentTaskId")) or facts.parent_session
        if title := words(item.get("title")):
            facts.title, facts.title_source = title, "custom"
        break
    if not reader.model and (found := _MODEL.findall(reader.conversation.environment)):
        reader.model = found[-1]


# Sessions of Cline's command line: a manifest, and the messages of the agent and its team.


def _sessions(session: SessionInput, rows: Rows, reader: TaskReader) -> None:
    manifest: dict[str, Any] = {}
    for stream in newest_first(session, MANIFEST):
        manifest = mapping(document_of(stream, rows))
        break
    about, facts = mapping(manifest.get("metadata")), rows.facts
    facts.cwd = facts.cwd or words(manifest.get("workspace_root")) or words(manifest.get("cwd")) or None
    git = mapping(about.get("git"))
    facts.branch = facts.branch or words(git.get("branch")) or None
    facts.repository = facts.repository or words(git.get("url")) or None
    if facts.title is None and (title := words(about.get("title"))):
        facts.title, facts.title_source = title, "ai"
    seen: set[str] = set()
    for stream in newest_first(session, CLI):
        value = document_of(stream, rows)
        if stream.thread_id in seen or value is None:
            continue
        seen.add(stream.thread_id)
        thread = rows.session_id
        if stream.thread_id.startswith(f"{rows.session_id}/"):
            thread = stream.thread_id
            rows.thread(thread, "subagent", parent_thread_id=rows.session_id, agent=words(mapping(value).get("agent")) or None)
        told = Conversation(whole(stream), items(value) or items(mapping(value).get("messages")))
        told.tell(rows, words(manifest.get("model")) or reader.model, thread=thread)
    if manifest:
        facts.status = _STATUS.get(words(manifest.get("status")), facts.status)
