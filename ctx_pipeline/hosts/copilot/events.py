"""Events of the Copilot CLI and transcripts of Copilot Chat: one envelope, ``{type, data, id, timestamp, parentId}``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ctx_pipeline.hosts.copilot.record_types import NOTES, PERMISSIONS, action_of
from ctx_pipeline.hosts.record_rows import Place, Record, Rows, Usage
from ctx_pipeline.hosts.record_values import exit_status, flat, items, mapping, number, text, tokens, when, words, written
from ctx_pipeline.model.host_records import DENIED, REASON, REFUSED
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_REFUSALS = {"denied-interactively-by-user": REFUSED}
_EXIT = lazy_pattern(r"<exited with exit code (-?\d{1,10})>\s*\Z")
"""The last line of what a shell tool answers; ``shellExecution`` says the same since 1.0."""
_CHUNK = ("turnId", "parentToolCallId", "interactionId", "model", "chunkCount")


@dataclass(slots=True)
class Closing:
    """The account of a session that one ``session.shutdown`` gives: usage by model."""

    place: Place
    ts: int | None
    key: str
    models: dict[str, Usage]
    credits: dict[str, dict[str, float]]
    said: int
    """output tokens that the messages before it recorded"""
    whole: bool = False
    """it repeats what the one before it counted"""


@dataclass(slots=True)
class EventReader:
    """Reads the events of one session into rows."""

    rows: Rows
    results: Mapping[str, str] = field(default_factory=dict)
    """call id -> result, from the chat that the transcript belongs to"""
    model: str = ""
    prompts: list[str] = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)
    messages: list[tuple[Place, int | None, str, str, str, int]] = field(default_factory=list)
    """place, time, thread, key, model and output tokens of each message that records them"""
    usages: list[tuple[Place, int | None, str, str, str, Usage]] = field(default_factory=list)
    spent: int = 0
    _threads: dict[str, str] = field(default_factory=dict)
    _reasoned: set[str] = field(default_factory=set)
    _refused: dict[str, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _keys: dict[str, str] = field(default_factory=dict)

    def read(self, records: Iterable[Record]) -> None:
        """Add the rows of all records."""
        for place, value in _rejoined(records):
            identity = text(value.get("id"))
            if identity:
                if identity in self._seen:
                    continue
                self._seen.add(identity)
            self._one(place, value, words(value.get("type")), mapping(value.get("data")), when(text(value.get("timestamp"))))

    def _one(self, place: Place, value: dict[str, Any], kind: str, data: dict[str, Any], ts: int | None) -> None:
        thread = self._thread(value, data)
        if known := self._readers.get(kind):
            known(self, place, kind, data, ts, thread)
        elif kind in NOTES:
            self._note(place, kind, data, ts, thread)
        elif kind in PERMISSIONS:
            self._permission(place, kind, data, ts, thread)
        else:
            self.rows.unknown_record(place, kind or "record", value, ts=ts, thread=thread)

    def _thread(self, value: dict[str, Any], data: dict[str, Any]) -> str:
        """Return the thread of an event: that of a subagent where the record names one."""
        agent = words(value.get("agentId"))
        call = words(data.get("parentToolCallId"))
        if agent in {"", "main"}:
            agent = self._threads.get(call, call) if call else ""
        elif call:
            self._threads.setdefault(call, agent)
        if not agent:
            return self.rows.session_id
        return self._subagent(agent)

    def _subagent(self, agent: str) -> str:
        thread = f"{self.rows.session_id}/{agent[:128]}"
        self.rows.thread(thread, "subagent", parent_thread_id=self.rows.session_id)
        return thread

    # What each type means.

    def _start(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        facts = self.rows.facts
        facts.version = facts.version or text(data.get("copilotVersion"))
        self._where(mapping(data.get("context")))
        self.model = words(data.get("selectedModel")) or self.model
        facts.status = "unknown"
        self.rows.event(place, "session_start", kind, "system", written(data), ts=ts, thread=thread)

    def _where(self, context: dict[str, Any]) -> None:
        facts = self.rows.facts
        facts.cwd = facts.cwd or words(context.get("cwd")) or words(context.get("gitRoot")) or None
        facts.branch = facts.branch or words(context.get("branch")) or None
        name, host = words(context.get("repository")), words(context.get("repositoryHost"))
        if name and not facts.repository:
            facts.repository = f"{host}/{name}" if host and name.count("/") == 1 else name

    def _prompt(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        said = text(data.get("content")) or ""
        source = words(data.get("source"))
        typed = source in {"", "user"} and not data.get("isAutopilotContinuation") and not data.get("parentAgentTaskId")
        if typed and thread == self.rows.session_id and not said.startswith("<skill-context"):
            self.rows.event(place, "prompt", kind, "user", said, ts=ts, thread=thread)
            self.prompts.append(said.strip())
            self.rows.facts.status = "unknown"
        else:
            self.rows.event(place, "injected", f"{kind}/{source}" if source else kind, "user", said, ts=ts, thread=thread)
        for item in items(data.get("attachments")):
            self.rows.event(place, "attachment", f"{kind}/attachment", "user", written(item), ts=ts, thread=thread)

    def _message(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        rows = self.rows
        self.model = words(data.get("model")) or self.model
        key = words(data.get("apiCallId")) or words(data.get("messageId")) or f"{rows.session_id}:{place.stream}.{place.line}"
        parent = rows.last_prompt
        reasoned, said = text(data.get("reasoningText")), text(data.get("content"))
        if reasoned and reasoned.strip() not in self._reasoned:
            self._reasoned.add(reasoned.strip())
            rows.event(place, "reasoning", kind, "assistant", reasoned, ts=ts, thread=thread, key=key)
        if said:
            rows.event(place, "answer", kind, "assistant", said, ts=ts, thread=thread, parent=parent, key=key)
            if thread == rows.session_id:
                rows.facts.status = "completed"
        for request in map(mapping, items(data.get("toolRequests"))):
            self._asked(place, kind, request, ts, thread, named="name", key=key)
        self.messages.append((place, ts, thread, key, self.model, tokens(data.get("outputTokens"))))

    def _asked(
        self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str, *, named: str, key: str | None = None
    ) -> None:
        call_id = words(data.get("toolCallId")) or f"{place.stream}.{place.line}"
        tool = self.rows.tool_of(call_id)
        if tool is not None and tool.result is None:
            tool.started = ts if kind == "tool.execution_start" and ts is not None else tool.started
            return
        server, name = words(data.get("mcpServerName")), words(data.get(named))
        name = f"{server}.{words(data.get('mcpToolName')) or name}" if server else name
        actor = "user" if kind == "tool.user_requested" else "assistant"
        arguments, action = data.get("arguments"), action_of(name, mcp=bool(server))
        self.rows.tool_call(place, call_id, name, action, arguments, subtype=kind, ts=ts, thread=thread, key=key, actor=actor)

    def _tool(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        self.model = words(data.get("model")) or self.model
        self._asked(place, kind, data, ts, thread, named="toolName")

    def _result(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        call_id = words(data.get("toolCallId")) or f"{place.stream}.{place.line}"
        wrong = mapping(data.get("error"))
        said = flat(data.get("result")) or flat(wrong.get("message")) or flat(data.get("error")) or self.results.get(call_id, "")
        status = exit_status(mapping(data.get("shellExecution")).get("exitCode"))
        if status is None and (ended := _EXIT.search(said, max(0, len(said) - 80))):
            status = exit_status(int(ended[1]))
        failed = data.get("success") is False or bool(wrong)
        code = words(wrong.get("code"))
        kept = self._refused.get(call_id) or (code in {"rejected", "denied"} and DENIED) or ""
        self.rows.tool_result(place, call_id, said, subtype=kept or kind, ts=ts, thread=thread, failed=failed, status=status)

    def _permission(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        result = mapping(data.get("result"))
        verdict = words(result.get("kind"))
        call_id = words(data.get("toolCallId"))
        if verdict.startswith("denied"):
            kept = _REFUSALS.get(verdict, DENIED)
            if call_id:
                self._refused[call_id] = kept
            feedback = text(result.get("feedback"))
            if kept == REFUSED and feedback:
                said, subtype, actor = REASON
                self.rows.event(place, said, subtype, actor, feedback, ts=ts, thread=thread, call_id=call_id or None)
                return
        self.rows.event(place, "permission", kind, "system", written(data), ts=ts, thread=thread)

    def _reasoning(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        said = text(data.get("content")) or ""
        if said.strip() in self._reasoned:
            return
        self._reasoned.add(said.strip())
        self.rows.event(place, "reasoning", kind, "assistant", said, ts=ts, thread=thread)

    def _abort(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        self.rows.event(place, "injected", kind, "user", text(data.get("reason")), ts=ts, thread=thread)
        self.rows.facts.status = "interrupted"

    def _error(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        limited = " ".join(words(data.get(name)).lower() for name in ("errorType", "errorCode"))
        subtype = f"{kind}/quota" if "quota" in limited else f"{kind}/rate_limit" if "rate" in limited else kind
        self.rows.event(place, "error", subtype, "system", text(data.get("message")) or written(data), ts=ts, thread=thread)
        self.rows.facts.status = "errored"

    def _compaction(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        if data.get("success") is False:
            self.rows.event(place, "error", kind, "system", text(data.get("error")) or written(data), ts=ts, thread=thread)
            return
        self.rows.event(place, "compaction", kind, "system", text(data.get("summaryContent")), ts=ts, thread=thread)

    def _cleared(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        self.rows.event(place, "compaction", kind, "system", text(data.get("initialMessage")), ts=ts, thread=thread)

    def _title(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        said = words(data.get("title"))
        self.rows.event(place, "title", kind, "system", said, ts=ts, thread=thread)
        if said:
            self.rows.facts.title, self.rows.facts.title_source = said, "ai"

    def _skill(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        self.rows.event(place, "injected", kind, "system", text(data.get("content")) or words(data.get("name")), ts=ts, thread=thread)

    def _system(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        self.rows.event(place, "injected", kind, "system", text(data.get("content")) or written(data), ts=ts, thread=thread)

    def _hook(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        failed = data.get("success") is False
        self.rows.event(place, "error" if failed else "attachment", kind, "hook", written(data), ts=ts, thread=thread)

    def _subagent_start(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        said = words(data.get("agentDisplayName")) or words(data.get("agentName"))
        call = words(data.get("toolCallId"))
        if thread != self.rows.session_id:
            self._threads.setdefault(call, thread.rpartition("/")[2])
        elif call:
            thread = self._subagent(self._threads.get(call, call))
        self.rows.thread(thread, agent=words(data.get("agentName")) or None)
        self.rows.event(place, "subagent_start", kind, "subagent", said or None, ts=ts, thread=thread)

    def _subagent_end(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        call = words(data.get("toolCallId"))
        if thread == self.rows.session_id and call:
            thread = self._subagent(self._threads.get(call, call))
        facts = self.rows.thread(thread)
        if thread != self.rows.session_id:
            facts.status = "errored" if kind.endswith("failed") else "interrupted" if data.get("cancelled") else "completed"
        self.rows.event(place, "subagent_end", kind, "subagent", text(data.get("error")) or written(data), ts=ts, thread=thread)

    def _note(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        if kind == "session.model_change":
            self.model = words(data.get("newModel")) or self.model
        elif kind == "session.context_changed":
            self._where(data)
        kept = {**data, "data": f"{tokens(data.get('byteLength'))} bytes"} if kind == "session.binary_asset" else data
        self.rows.event(place, "attachment", kind, "system", written(kept), ts=ts, thread=thread)

    def _usage(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        names = ("cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
        read, write, reasoning = (data.get(name) for name in names)
        usage = Usage.whole_prompt(data.get("inputTokens"), data.get("outputTokens"), read=read, write=write, reasoning=reasoning)
        key = words(data.get("apiCallId")) or words(data.get("providerCallId")) or f"{self.rows.session_id}:{place.stream}.{place.line}"
        self.usages.append((place, ts, thread, key, words(data.get("model")) or self.model, usage))
        self.rows.event(place, "attachment", kind, "system", written(data), ts=ts, thread=thread)

    def _failure(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        self.rows.event(place, "error", kind, "system", text(data.get("errorMessage")) or written(data), ts=ts, thread=thread)

    def _shutdown(self, place: Place, kind: str, data: dict[str, Any], ts: int | None, thread: str) -> None:
        self.rows.event(place, "session_end", kind, "system", written(data), ts=ts, thread=thread)
        if words(data.get("shutdownType")) == "error":
            self.rows.facts.status = "errored"
        models: dict[str, Usage] = {}
        credited: dict[str, dict[str, float]] = {}
        for name, metric in mapping(data.get("modelMetrics")).items():
            used, asked = mapping(mapping(metric).get("usage")), mapping(mapping(metric).get("requests"))
            read, write, reasoning = (used.get(field) for field in ("cacheReadTokens", "cacheWriteTokens", "reasoningTokens"))
            models[text(name) or ""] = Usage.whole_prompt(
                used.get("inputTokens"), used.get("outputTokens"), read=read, write=write, reasoning=reasoning
            )
            credited[text(name) or ""] = {
                "premium_requests": number(asked.get("cost")) or 0.0,
                "nano_aiu": float(tokens(mapping(metric).get("totalNanoAiu"))),
            }
        key = f"{self.rows.session_id}:shutdown:{place.stream}.{place.line}"
        said = sum(row[5] for row in self.messages)
        self.closings.append(Closing(place, ts, key, models, credited, said))

    _readers: ClassVar[dict[str, Callable[..., None]]] = {
        "abort": _abort,
        "assistant.message": _message,
        "assistant.reasoning": _reasoning,
        "assistant.usage": _usage,
        "hook.end": _hook,
        "hook.start": _hook,
        "model.call_failure": _failure,
        "session.compaction_complete": _compaction,
        "session.context_cleared": _cleared,
        "session.error": _error,
        "session.resume": _start,
        "session.shutdown": _shutdown,
        "session.start": _start,
        "session.title_changed": _title,
        "skill.invoked": _skill,
        "subagent.completed": _subagent_end,
        "subagent.failed": _subagent_end,
        "subagent.started": _subagent_start,
        "system.message": _system,
        "system.notification": _system,
        "tool.execution_complete": _result,
        "tool.execution_start": _tool,
        "tool.user_requested": _tool,
        "user.message": _prompt,
    }


def _rejoined(records: Iterable[Record]) -> list[Record]:
    """Return the records with a message that was written in chunks as one, at the place of the first."""
    found: list[Record] = []
    open_chunks: dict[str, dict[str, Any]] = {}
    for record in records:
        data = mapping(record.value.get("data"))
        count, index = tokens(data.get("chunkCount")), tokens(data.get("chunkIndex"))
        if record.value.get("type") != "assistant.message" or count < 2:
            found.append(record)
            continue
        name = written([data.get(part) for part in _CHUNK])
        first = open_chunks.get(name)
        if first is None or index == 0:
            first = open_chunks[name] = dict(data)
            found.append(Record(record.place, {**record.value, "data": first}))
            continue
        first["content"] = (text(first.get("content")) or "") + (text(data.get("content")) or "")
        first["toolRequests"] = items(first.get("toolRequests")) + items(data.get("toolRequests"))
        first["reasoningText"] = (text(first.get("reasoningText")) or "") + (text(data.get("reasoningText")) or "")
        first["outputTokens"] = max(tokens(first.get("outputTokens")), tokens(data.get("outputTokens")))
    return found
