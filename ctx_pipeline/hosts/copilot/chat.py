"""Chats of VS Code: a document, or a log of mutations that is replayed into one; each request becomes a turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts.copilot.record_types import ASKED_PARTS, PARTS, action_of
from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, document_of, records_of, whole
from ctx_pipeline.hosts.record_values import exit_status, flat, items, mapping, number, text, tokens, when, words, written
from ctx_pipeline.model.host_records import DENIED, REFUSED
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Quarantined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.model.raw import StreamBytes

_INITIAL, _SET, _PUSH, _DELETE = range(4)
_CANCELLED, _FAILED, _COMPLETE = 2, 3, 1
_FOLDER = lazy_pattern(r"workspace with the following folders?:\s*\n\s*-\s*([^\n<]{1,500})")
_MULTIPLIER = lazy_pattern(r"(\d{1,4}(?:\.\d{1,3})?)x\s*\Z")
_SAME_CALL = lazy_pattern(r"__vscode-\d+\Z")


@dataclass(slots=True)
class Request:
    """One question of a chat and what came of it."""

    key: str
    value: dict[str, Any]
    place: Place
    parts: list[Place]
    """place of each part of the response"""

    @property
    def asked(self) -> str:
        """What the person typed."""
        return flat(self.value.get("message"))

    @property
    def ts(self) -> int | None:
        """When it was asked."""
        return when(self.value.get("timestamp"))

    @property
    def metadata(self) -> dict[str, Any]:
        """What the extension noted beside the response."""
        return mapping(mapping(self.value.get("result")).get("metadata"))

    @property
    def model(self) -> str:
        """The model that answered, without its provider's prefix."""
        return words(self.metadata.get("resolvedModel")) or words(self.value.get("modelId")).removeprefix("copilot/")


@dataclass(slots=True)
class Chat:
    """What all copies and generations of a session's chat say together."""

    state: dict[str, Any] = field(default_factory=dict)
    """of the one to believe first"""
    requests: list[Request] = field(default_factory=list)


def read_chats(streams: Iterable[StreamBytes], rows: Rows) -> Chat:
    """Return the chat of a session; a request that was taken back, or that only an older copy holds, stands in it still."""
    chat = Chat()
    known: dict[str, Request] = {}
    for stream in streams:
        replayed = _Replay(stream, rows)
        state = replayed.log() if stream.rel.endswith(".jsonl") else replayed.document()
        chat.state = chat.state or state
        for number_, value in enumerate((*items(state.get("requests")), *replayed.removed)):
            if not isinstance(value, dict):
                continue
            key = words(value.get("requestId")) or f"{number_}:{flat(value.get('message'))}"
            if key not in known:
                known[key] = Request(key, value, replayed.place_of(value), [replayed.place_of(p) for p in items(value.get("response"))])
    chat.requests = list(known.values())
    if all(request.ts is not None for request in chat.requests):
        chat.requests.sort(key=lambda request: request.ts or 0)
    return chat


class _Replay:
    """The state that one stream leads to, and the line that wrote each request and part."""

    def __init__(self, stream: StreamBytes, rows: Rows) -> None:
        self.stream, self.rows = stream, rows
        self._places: dict[int, Place] = {}
        self._kept: list[Any] = []
        self.removed: list[Any] = []
        """requests that a later mutation took out"""
        self._default = whole(stream)

    def document(self) -> dict[str, Any]:
        """Return the state that a document holds."""
        return mapping(document_of(self.stream, self.rows))

    def log(self) -> dict[str, Any]:
        """Return the state that a log of mutations leads to; a mutation that cannot be made is quarantined."""
        state: Any = None
        for place, value in records_of([self.stream], self.rows):
            kind, path = value.get("kind"), value.get("k")
            if kind == _INITIAL and type(kind) is int:
                state = value.get("v")
                self._note(state, place)
            elif type(kind) is not int or not _INITIAL < kind <= _DELETE:
                self.rows.unknown_record(place, f"mutation/{written(kind)[:40]}" if "kind" in value else "mutation", value, ts=None)
            elif reason := self._apply(state, kind, path, value, place):
                self.rows.quarantined.append(Quarantined(place.stream, place.generation, place.line, place.start, place.end, reason))
        return mapping(state)

    def _apply(self, state: Any, kind: int, path: Any, value: dict[str, Any], place: Place) -> str:
        """Make one mutation; return why it cannot be made."""
        if state is None:
            return "a mutation before the initial entry"
        if not isinstance(path, list) or not path:
            return "a mutation without a path"
        above = state
        for step in path[:-1]:
            above = _below(above, step)
        last = path[-1]
        new = value.get("v")
        if kind == _PUSH:
            target = _below(above, last)
            if target is None and isinstance(above, dict) and isinstance(last, str):
                target = above[last] = []
            if not isinstance(target, list):
                return "a push to what is no array"
            if type(value.get("i")) is int and 0 <= value["i"] < len(target):
                if path == ["requests"]:
                    self.removed += target[value["i"] :]
                del target[value["i"] :]
            target.extend(items(new))
        elif isinstance(above, dict) and isinstance(last, str):
            if kind == _DELETE:
                above.pop(last, None)
            else:
                above[last] = new
        elif isinstance(above, list) and type(last) is int and 0 <= last <= len(above):
            above[last : last + 1] = [None if kind == _DELETE else new]
        else:
            return "a mutation of no place"
        self._note(new, place)
        return ""

    def _note(self, value: Any, place: Place) -> None:
        """Remember which line wrote the requests and parts in a value."""
        level = [value]
        for _ in range(5):
            deeper: list[Any] = []
            for item in level:
                if isinstance(item, dict):
                    self._places[id(item)] = place
                    self._kept.append(item)
                    deeper += [item[name] for name in ("requests", "response") if name in item]
                elif isinstance(item, list):
                    deeper += item
            level = deeper

    def place_of(self, value: Any) -> Place:
        """Return the line that wrote a value, the whole stream for a document."""
        return self._places.get(id(value), self._default)


def _below(value: Any, step: Any) -> Any:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and type(step) is int and 0 <= step < len(value):
        return value[step]
    return None


def folder_of(chat: Chat) -> str | None:
    """Return the folder of the workspace, as the extension told the model."""
    for request in chat.requests:
        for name in ("renderedGlobalContext", "renderedUserMessage"):
            if found := _FOLDER.search(flat(request.metadata.get(name))):
                return found[1].strip()
    return None


def results_of(chat: Chat) -> dict[str, str]:
    """Return call id -> text of its result, as the extension kept them for the next request."""
    found: dict[str, str] = {}
    for request in chat.requests:
        for call_id, result in mapping(request.metadata.get("toolCallResults")).items():
            said = flat(mapping(result).get("content")) or flat(result)
            found[text(call_id) or ""] = said
    return found


@dataclass(slots=True)
class ChatReader:
    """Reads requests into rows."""

    rows: Rows
    results: dict[str, str]
    status: str = "unknown"

    def read(self, request: Request) -> None:
        """Add the events of a request and its response."""
        rows, value, ts = self.rows, request.value, request.ts
        asked = request.asked
        if words(value.get("confirmation")):
            rows.event(request.place, "permission", "confirmation", "user", words(value.get("confirmation")), ts=ts)
        prompt = rows.event(request.place, "prompt", "request", "user", asked, ts=ts)
        for item in items(mapping(value.get("variableData")).get("variables")):
            rows.event(request.place, "attachment", "request/variable", "user", written(item), ts=ts)
        calls = dict(_calls(request))
        self._response(request, calls, prompt)
        for round_ in map(mapping, items(request.metadata.get("toolCallRounds"))):
            if summary := words(round_.get("summary")):
                rows.event(request.place, "compaction", "round/summary", "system", summary, ts=ts)
        for call_id, call in calls.items():
            if rows.tool_of(call_id) is None:
                self._call(request.place, call_id, call, {}, ts)
        self.close(request)

    def close(self, request: Request) -> None:
        """Add how a request ended."""
        rows, value, ts = self.rows, request.value, request.ts
        wrong = mapping(mapping(value.get("result")).get("errorDetails"))
        state = mapping(value.get("modelState")).get("value")
        self.status = "completed" if state == _COMPLETE or (state is None and request.value.get("result")) else "unknown"
        if wrong:
            limited = "quota" if wrong.get("isQuotaExceeded") else "rate_limit" if wrong.get("isRateLimited") else ""
            subtype = f"request/{limited}" if limited else "request/error"
            rows.event(request.place, "error", subtype, "system", text(wrong.get("message")) or written(wrong), ts=ts)
        if state == _FAILED or (wrong and state != _CANCELLED):
            self.status = "errored"
        if state == _CANCELLED or value.get("isCanceled") is True:
            rows.event(request.place, "injected", "interrupt", "user", None, ts=ts)
            self.status = "interrupted"

    def _response(self, request: Request, calls: dict[str, dict[str, Any]], prompt: str) -> None:
        rows, ts, key = self.rows, request.ts, request.key
        said: list[str] = []
        began: Place | None = None

        def answer() -> None:
            nonlocal began
            joined = "".join(said).strip()
            if joined and began is not None:
                rows.event(began, "answer", "response", "assistant", joined, ts=ts, parent=prompt, key=key)
            said.clear()
            began = None

        bare: dict[str, str] = {}
        for call_id in calls:
            bare.setdefault(_SAME_CALL.sub("", call_id), call_id)
        edited = {path for tool in rows.tools.values() if tool.action in {"edit", "write"} for path in tool.paths}
        for place, part in zip(request.parts, items(request.value.get("response")), strict=False):
            kind = words(mapping(part).get("kind"))
            body = mapping(part)
            if isinstance(part, str) or (isinstance(part, dict) and (kind in {"", "markdownContent", "markdownVuln", "inlineReference"})):
                chunk = _reference(body) if kind == "inlineReference" else flat(part)
                began = began or place
                said.append(chunk)
                continue
            answer()
            if kind == "thinking":
                if thought := flat(body.get("value")):
                    rows.event(place, "reasoning", "response/thinking", "assistant", thought, ts=ts, key=key)
            elif kind == "toolInvocationSerialized":
                self._invoked(place, body, calls, bare, ts)
            elif kind in {"textEditGroup", "notebookEditGroup"}:
                self._edited(place, request, body, edited, ts)
            elif kind in ASKED_PARTS:
                rows.event(place, "permission", f"response/{kind}", "system", written(body), ts=ts)
            elif kind in PARTS:
                rows.event(place, "attachment", f"response/{kind}", "system", written(body), ts=ts)
            else:
                rows.unknown_record(place, f"response/{kind}" if kind else "response", part, ts=ts)
        answer()

    def _invoked(self, place: Place, part: dict[str, Any], calls: dict[str, dict[str, Any]], bare: dict[str, str], ts: int | None) -> None:
        """Add a call that the chat shows; ``bare`` is the id without what VS Code adds -> the id that the rounds have."""
        call_id = words(part.get("toolCallId")) or f"{place.stream}.{place.line}"
        plain = _SAME_CALL.sub("", call_id)
        found = call_id if call_id in calls else bare.get(call_id) or (plain if plain in calls else call_id)
        self._call(place, found, calls.get(found, {}), part, ts)

    def _call(self, place: Place, call_id: str, call: dict[str, Any], part: dict[str, Any], ts: int | None) -> None:
        special = mapping(part.get("toolSpecificData"))
        name = words(call.get("name")) or words(part.get("toolId")) or "unknown"
        arguments = call.get("arguments")
        if arguments is None:
            arguments = _arguments(part, special)
        source = mapping(part.get("source"))
        mcp = words(source.get("type")) == "mcp"
        thread = self._subagent(words(part.get("subAgentInvocationId")))
        action = action_of(name, mcp=mcp)
        self.rows.tool_call(place, call_id, name, action, arguments, subtype="response/tool", ts=ts, thread=thread)
        details = part.get("resultDetails")
        said = self.results.get(call_id)
        if said is None:
            said = flat(mapping(special.get("terminalCommandOutput")).get("text")) or flat(special.get("result"))
            said = said or flat(mapping(details).get("output")) or flat(part.get("pastTenseMessage"))
        status = exit_status(mapping(special.get("terminalCommandState")).get("exitCode"))
        refused = _denied(part)
        if part.get("isComplete") is True or call_id in self.results or refused:
            failed = mapping(details).get("isError") is True or bool(refused)
            subtype = refused or "response/tool"
            self.rows.tool_result(place, call_id, said, subtype=subtype, ts=ts, thread=thread, failed=failed, status=status)

    def _subagent(self, invocation: str) -> str:
        if not invocation:
            return self.rows.session_id
        thread = f"{self.rows.session_id}/{invocation[:128]}"
        self.rows.thread(thread, "subagent", parent_thread_id=self.rows.session_id)
        return thread

    def _edited(self, place: Place, request: Request, part: dict[str, Any], edited: set[str], ts: int | None) -> None:
        """An edit that no tool made is a call of its own; one that a tool made is its effect."""
        path = _path(part.get("uri"))
        kind = words(part.get("kind"))
        if not path or path in edited:
            self.rows.event(place, "attachment", f"response/{kind}", "system", written(part), ts=ts)
            return
        call_id = f"{request.key}/{kind}/{len(self.rows.tools)}"
        self.rows.tool_call(place, call_id, kind, "edit", {"path": path, "edits": part.get("edits")}, subtype=f"response/{kind}", ts=ts)
        self.rows.tool_result(place, call_id, None, subtype=f"response/{kind}", ts=ts)


def _calls(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    for round_ in map(mapping, items(request.metadata.get("toolCallRounds"))):
        for call in map(mapping, items(round_.get("toolCalls"))):
            if identity := words(call.get("id")):
                yield identity, call


_BY_PERSON, _SKIPPED = 0, 5
"""How a call was kept from running, in ``isConfirmed.type``; older versions wrote false."""


def _denied(part: dict[str, Any]) -> str:
    """Return the subtype of the result of a call that the person kept from running; empty for any other."""
    confirmed = part.get("isConfirmed")
    reason = confirmed.get("type") if isinstance(confirmed, dict) else confirmed
    if reason is False or (type(reason) is int and reason == _BY_PERSON):
        return REFUSED
    return DENIED if type(reason) is int and reason == _SKIPPED else ""


def _arguments(part: dict[str, Any], special: dict[str, Any]) -> Any:
    line = special.get("commandLine")
    command = next((c for name in ("userEdited", "toolEdited", "original") if (c := words(mapping(line).get(name)))), "")
    command = command or words(special.get("command"))
    if command:
        return {"command": command}
    if special.get("rawInput") is not None:
        return special["rawInput"]
    paths = [
        path
        for name in ("invocationMessage", "pastTenseMessage")
        for path in map(_path, mapping(mapping(part.get(name)).get("uris")).values())
    ]
    said = flat(part.get("invocationMessage"))
    return {"paths": list(dict.fromkeys(p for p in paths if p)), "message": said} if any(paths) else {"message": said}


def _path(uri: Any) -> str:
    if isinstance(uri, str):
        return (text(uri) or "").removeprefix("file://")
    body = mapping(uri)
    return words(body.get("fsPath")) or words(body.get("path"))


def _reference(part: dict[str, Any]) -> str:
    name = words(part.get("name"))
    target = part.get("inlineReference")
    path = _path(target) or _path(mapping(target).get("uri")) or _path(mapping(mapping(target).get("location")).get("uri"))
    return f"`{name or path.rpartition('/')[2]}`" if name or path else ""


def usages_of(request: Request, session_id: str) -> list[tuple[str, str, Usage]]:
    """Return key, model and usage of the model calls of a request: of each round where all say theirs, else of the whole."""
    rounds = [mapping(r) for r in items(request.metadata.get("toolCallRounds"))]
    used = [mapping(r.get("usage")) for r in rounds]
    model = request.model
    if used and all(tokens(u.get("prompt_tokens")) for u in used):
        found = []
        for number_, (round_, usage) in enumerate(zip(rounds, used, strict=True)):
            details, spent = mapping(usage.get("prompt_tokens_details")), mapping(usage.get("completion_tokens_details"))
            counted = Usage.whole_prompt(
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
                read=details.get("cached_tokens"),
                write=details.get("cache_creation_input_tokens"),
                reasoning=spent.get("reasoning_tokens"),
            )
            key = words(round_.get("id")) or f"{session_id}:{request.key}:{number_}"
            found.append((key, words(round_.get("modelId")).removeprefix("copilot/") or model, counted))
        return found
    value, metadata, own = request.value, request.metadata, mapping(request.value.get("usage"))
    prompt = next((n for n in map(tokens, (value.get("promptTokens"), own.get("promptTokens"), metadata.get("promptTokens"))) if n), 0)
    told = (value.get("completionTokens"), own.get("completionTokens"), metadata.get("outputTokens"))
    output = next((n for n in map(tokens, told) if n), 0)
    thought = sum(tokens(mapping(r.get("thinking")).get("tokens")) for r in rounds)
    if not prompt + output:
        return []
    return [(request.key, model, Usage.whole_prompt(prompt, output, reasoning=min(thought, output)))]


def charge_of(request: Request) -> dict[str, Any]:
    """Return what Copilot billed for a request, in its own units; empty where it does not say."""
    found: dict[str, Any] = {}
    if (credits_ := number(request.value.get("copilotCredits"))) is not None:
        found["ai_credits"] = credits_
    if multiplier := _MULTIPLIER.search(words(mapping(request.value.get("result")).get("details"))):
        found["premium_requests"] = float(multiplier[1])
    return {"model": request.model, **found} if found else {}
