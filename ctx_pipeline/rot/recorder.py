"""From the start and end of a program's calls to rows of the log: which call belongs to which run.

A call belongs to the run of the call that was active when it started; DSPy says which
that is (``ACTIVE_CALL_ID``), across threads, tasks and ``dspy.Parallel``. A call whose
parent is not known begins a run of its own (a module) or joins the run of calls outside
modules.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.callback_log import LogRow
from ctx_pipeline.model.process.process_identity import Owner
from ctx_pipeline.rot.content import as_text, encoded, estimated_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import msgspec

_LOOK_BACK = 2_000
_SECRET = ("key", "secret", "password", "authorization", "credential")
_TOKENS = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


def entry_of(instance: Any, outputs: Any) -> Mapping[str, Any] | None:
    """Return the history entry of a call: the one whose outputs *are* what the call returned.

    DSPy names no call in its history, and under threads the last entry is often another
    call's. For an explicit Request the entry holds the response that was returned.
    """
    history = getattr(instance, "history", None)
    if not isinstance(history, list) or outputs is None:
        return None
    for place, entry in enumerate(reversed(history)):
        if place >= _LOOK_BACK:
            break
        if isinstance(entry, dict) and (entry.get("outputs") is outputs or entry.get("response") is outputs):
            return entry
    return None


def usage_of(entry: Mapping[str, Any] | None, outputs: Any) -> dict[str, int]:
    """Return the token counts of a call that are not zero; prompt tokens include cached ones."""
    usage = entry.get("usage") if entry is not None else _read(outputs, "usage")
    if not usage:
        return {}
    prompt = _read(usage, "prompt_tokens_details")
    completion = _read(usage, "completion_tokens_details")
    values = (
        _first(_read(usage, "prompt_tokens"), _read(usage, "input_tokens")),
        _first(_read(usage, "completion_tokens"), _read(usage, "output_tokens")),
        _first(
            _read(prompt, "cached_tokens"),
            _read(usage, "cache_read_tokens"),
            _read(usage, "cache_read_input_tokens"),
            _read(usage, "_cache_read_input_tokens"),
            _read(_read(usage, "input_tokens_details"), "cached_tokens"),
        ),
        _first(
            _read(prompt, "cache_creation_tokens"),
            _read(usage, "cache_write_tokens"),
            _read(usage, "cache_creation_input_tokens"),
            _read(usage, "_cache_creation_input_tokens"),
        ),
        _first(
            _read(completion, "reasoning_tokens"),
            _read(usage, "reasoning_tokens"),
            _read(_read(usage, "output_tokens_details"), "reasoning_tokens"),
        ),
    )
    return {name: value for name, value in zip(_TOKENS, values, strict=True) if value}


def is_cache_hit(entry: Mapping[str, Any] | None) -> bool:
    """Tell whether DSPy answered from its own cache: no usage, but the price that was paid once."""
    if entry is None:
        return False
    return _read(entry.get("response"), "cache_hit") is True or (not entry.get("usage") and entry.get("cost") is not None)


def outputs_of(outputs: Any) -> dict[str, Any]:
    """Return completions, reasoning and tool calls of a call's outputs, as far as there are any."""
    texts: list[Any] = []
    reasoning: list[str] = []
    calls: list[Any] = []
    for output in outputs if isinstance(outputs, list | tuple) else [outputs]:
        text, thought, asked = _parts(output)
        if thought:
            reasoning.append(thought)
        calls += asked
        texts.append(text if text is not None or not asked else {"tool_calls": asked})
    found: dict[str, Any] = {"completions": encoded(texts)}
    if reasoning:
        found["reasoning"] = "\n".join(reasoning).encode("utf-8", "replace").decode()
    if calls:
        found["tool_calls"] = encoded(calls)
    return found


def _parts(output: Any) -> tuple[Any, str | None, list[Any]]:
    if isinstance(output, str) or output is None:
        return output or "", None, []
    if isinstance(output, dict):
        calls = output.get("tool_calls") or []
        return output.get("text"), output.get("reasoning_content"), [_plain(c) for c in calls]
    message = _read(output, "message")
    parts = _read(message, "parts")
    if parts is None:
        return str(output), None, []
    texts = [p.text for p in parts if type(p).__name__ == "TextPart"]
    thoughts = [p.text for p in parts if type(p).__name__ == "ThinkingPart" and p.text]
    calls = [{"id": c.id, "function": {"name": c.name, "arguments": c.input}} for c in _read(output, "tool_calls") or ()]
    return "".join(texts) if texts else None, "".join(thoughts) or None, calls


def _plain(call: Any) -> Any:
    """Return a tool call as a dictionary; LiteLLM gives objects."""
    if isinstance(call, dict):
        return call
    function = _read(call, "function")
    named = {"name": _read(function, "name"), "arguments": _read(function, "arguments")}
    return {"id": _read(call, "id"), "type": _read(call, "type"), "function": named}


def finish_reason(entry: Mapping[str, Any] | None, outputs: Any) -> str | None:
    """Return why the model stopped, in the provider's word."""
    response = entry.get("response") if entry is not None else outputs
    if isinstance(response, list | tuple):
        response = response[0] if response else None
    choices = _read(response, "choices")
    reason = _read(choices[0], "finish_reason") if isinstance(choices, list) and choices else _read(response, "finish_reason")
    return None if reason is None else str(getattr(reason, "value", reason))


def attempts(entry: Mapping[str, Any] | None) -> int | None:
    """Return how often the provider was asked again, where the engine says so."""
    made = _read(_read(entry.get("response") if entry else None, "_hidden_params"), "additional_headers")
    value = made.get("x-litellm-attempted-retries") if isinstance(made, dict) else None
    return value if isinstance(value, int) else None


def parameters(instance: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scalar parameters of a call (temperature, max_tokens, ...); no credential and no address."""
    found: dict[str, Any] = {}
    for source in (getattr(instance, "kwargs", None), inputs.get("kwargs")):
        if isinstance(source, dict):
            for name, value in source.items():
                if isinstance(value, str | int | float | bool) and not _private(name):
                    found[name] = value if not isinstance(value, int) or -(2**63) <= value < 2**64 else str(value)
    retries = getattr(instance, "num_retries", None)
    if isinstance(retries, int):
        found["num_retries"] = retries
    return found


def _private(name: Any) -> bool:
    return not isinstance(name, str) or name.startswith("api_") or "url" in name or any(word in name for word in _SECRET)


def _read(value: Any, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return value.get(name)
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of somebody's response class
        return None


def _first(*values: Any) -> int:
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool)), 0)


OUTSIDE = "direct"
"""mode of the run that holds the calls outside modules"""

_REMEMBERED = 4_096
_ERROR_CHARS = 4_000


class Run:
    """One session: a tree of calls below one outermost module."""

    __slots__ = ("mode", "number", "pid", "root", "session_id")

    def __init__(self, mode: str, root: str | None) -> None:
        self.session_id = uuid.uuid4().hex[:12]
        self.mode = mode
        self.root = root
        self.number = 0
        self.pid = os.getpid()


class Active:
    """A call that has started: its run, the nearest call that has a row, and what its end needs."""

    __slots__ = ("action", "after", "began", "call_id", "clock", "content", "instance", "iteration", "kind", "parameters", "parent", "run")

    def __init__(self, kind: str, call_id: str | None, run: Run, parent: Active | None, instance: Any) -> None:
        self.kind = kind
        self.call_id = call_id
        self.run = run
        self.parent = parent
        self.instance = instance
        self.began = time.time_ns() // 1000
        self.clock = time.monotonic_ns()
        self.content: msgspec.Raw | None = None
        self.parameters: dict[str, Any] | None = None
        self.after = run.number
        self.iteration = 0
        self.action: int | None = None

    @property
    def ended(self) -> int:
        """The time now, in microseconds, never before the beginning: by the clock that nobody sets."""
        return self.began + (time.monotonic_ns() - self.clock) // 1000


class Recorder:
    """Follows the calls of a program and hands over rows; ``put`` takes a row and its size in bytes."""

    def __init__(self, put: Callable[[LogRow, int], None], *, store_content: bool, version: str = "") -> None:
        self._put = put
        self._content = store_content
        self._version = version
        self.forget()

    def forget(self) -> None:
        """Know no call any more but those that a forked child may still end."""
        self._lock = threading.RLock()
        self._active: dict[str, Active] = getattr(self, "_active", {})
        self._left: dict[str, Active] = getattr(self, "_left", {})
        self._outside: Run | None = None
        self._owner = str(Owner.here())
        self.last_session_id: str | None = getattr(self, "last_session_id", None)

    def session_of(self, call_id: str | None) -> str | None:
        """Return the session that a call belongs to, None for one that is not known."""
        active = self._active.get(call_id) or self._left.get(call_id) if call_id else None
        return active.run.session_id if active is not None else None

    def open_instances(self) -> dict[int, Active]:
        """Return id of a module object -> its call, for the modules that are running."""
        return {id(a.instance): a for a in list(self._active.values()) if a.kind == "module"}

    def module_start(self, call_id: str, parent: Active | None, instance: Any) -> None:
        """A module has started; the outermost one begins a session."""
        name = type(instance).__name__
        own = parent is None
        run = Run(name.lower(), call_id) if parent is None else parent.run
        active = Active("module", call_id, run, parent, instance)
        if own:
            self._session_start(run, active.began, _model_of(instance))
        self._active[call_id] = active
        self._row(active.began, active, "module_start", {"module": name}, 120)

    def module_end(self, call_id: str, exception: BaseException | None) -> None:
        """A module has ended; with the outermost one the session ends."""
        active = self._pop(call_id)
        if active is None:
            return
        error = _error(exception)
        at = active.ended
        payload: dict[str, Any] = {"module": type(active.instance).__name__}
        self._row(at, active, "module_end", payload if error is None else {**payload, "error": error}, 120)
        if active.run.root == call_id and active.run.pid == os.getpid():
            state = "completed" if exception is None else "errored"
            self._put(LogRow(at, active.run.session_id, "session_end", None, None, {"state": state}), 100)
        active.instance = type(active.instance)

    def link_start(self, call_id: str, parent: Active | None, instance: Any) -> None:
        """Something without a row (an adapter, an interpreter) has started below a known call."""
        if parent is not None:
            self._active[call_id] = Active("link", parent.call_id, parent.run, parent, instance)

    def link_end(self, call_id: str) -> None:
        """It has ended."""
        self._pop(call_id)

    def lm_start(self, call_id: str, parent: Active | None, instance: Any, inputs: Mapping[str, Any]) -> None:
        """A model is being asked; what it is asked is taken now, before the program changes it."""
        active = Active("lm", call_id, self._outside_run() if parent is None else parent.run, parent, instance)
        active.parameters = parameters(instance, inputs)
        if self._content:
            messages = inputs.get("messages")
            active.content = encoded(_asked(inputs) if messages is None else messages)
        self._active[call_id] = active

    def lm_end(self, call_id: str, outputs: Any, exception: BaseException | None) -> None:
        """A model has answered or failed."""
        active = self._pop(call_id)
        if active is None:
            return
        entry = None if exception is not None else entry_of(active.instance, outputs)
        hit = is_cache_hit(entry)
        at = active.ended
        payload: dict[str, Any] = {
            "model": str(getattr(active.instance, "model", None) or "unknown"),
            "started": active.began,
            "ended": at,
        }
        if exception is not None:
            payload["error"] = _error(exception)
        elif hit:
            payload.update(cache_hit=True, cost=0.0, usage={})
        else:
            payload["usage"] = usage_of(entry, outputs)
            cost = entry.get("cost") if entry is not None else None
            if isinstance(cost, int | float) and not isinstance(cost, bool):
                payload["cost"] = float(cost)
        told = {"finish_reason": finish_reason(entry, outputs), "attempts": attempts(entry)}
        payload.update({name: value for name, value in told.items() if value is not None})
        if active.parameters:
            payload["parameters"] = active.parameters
        size = 400
        if active.content is not None:
            payload["messages"] = active.content
            size += len(bytes(active.content))
            if exception is None:
                payload.update(outputs_of(outputs))
                size += len(bytes(payload["completions"]))
        with self._lock:
            active.run.number += 1
            payload["number"] = active.run.number
            payload.update(_place_in_loop(active, active.run.number))
        self._row(at, active, "lm_call", payload, size)
        active.instance = active.content = active.parameters = None

    def tool_start(self, call_id: str, parent: Active | None, instance: Any, inputs: Mapping[str, Any]) -> None:
        """A tool has started."""
        active = Active("tool", call_id, self._outside_run() if parent is None else parent.run, parent, instance)
        if self._content:
            active.content = encoded(inputs["kwargs"] if set(inputs) == {"kwargs"} else inputs)
        self._active[call_id] = active

    def tool_end(self, call_id: str, outputs: Any, exception: BaseException | None) -> None:
        """A tool has returned or failed."""
        active = self._pop(call_id)
        if active is None:
            return
        instance = active.instance
        name = getattr(instance, "name", None) or getattr(instance, "__name__", None) or "unknown"
        at = active.ended
        payload: dict[str, Any] = {"tool": str(name), "started": active.began, "ended": at, "after_number": active.after}
        size = 300
        if exception is not None:
            payload["error"] = _error(exception)
        else:
            payload["output_tokens_est"] = estimated_tokens(as_text(outputs))
        if active.content is not None:
            payload["inputs"] = active.content
            size += len(bytes(active.content))
            if exception is None:
                payload["output"] = encoded(outputs)
                size += len(bytes(payload["output"]))
        self._row(at, active, "tool_call", payload, size)
        active.instance = active.content = None

    def parent_of(self, call_id: str | None) -> Active | None:
        """Return the call with an id, running or lately ended."""
        if call_id is None:
            return None
        return self._active.get(call_id) or self._left.get(call_id)

    def end_outside(self) -> None:
        """End the session of the calls outside modules, if there is one."""
        with self._lock:
            run, self._outside = self._outside, None
        if run is not None:
            self._put(LogRow(time.time_ns() // 1000, run.session_id, "session_end", None, None, {"state": "completed"}), 100)

    def _outside_run(self) -> Run:
        with self._lock:
            run = self._outside
            if run is None:
                run = self._outside = Run(OUTSIDE, None)
                self._session_start(run, time.time_ns() // 1000, None)
        return run

    def _session_start(self, run: Run, at: int, model: str | None) -> None:
        payload = {"mode": run.mode, "model": model, "cwd": _cwd(), "version": self._version, "owner": self._owner}
        self._put(LogRow(at, run.session_id, "session_start", None, None, payload), 400)
        self.last_session_id = run.session_id

    def _row(self, at: int, active: Active, kind: str, payload: dict[str, Any], size: int) -> None:
        parent = active.parent.call_id if active.parent is not None else None
        self._put(LogRow(at, active.run.session_id, kind, active.call_id, parent, payload), size)

    def _pop(self, call_id: str) -> Active | None:
        """Take a call from those that are running; its children that come late still find it for a while."""
        active = self._active.pop(call_id, None)
        if active is not None:
            with self._lock:
                self._left[call_id] = active
                if len(self._left) > _REMEMBERED:
                    del self._left[next(iter(self._left))]
        return active


def _place_in_loop(active: Active, number: int) -> dict[str, Any]:
    """Return call_type, iteration and parent_number of a call inside an RLM, nothing elsewhere."""
    top, loop = active, active.parent
    while loop is not None and not (loop.kind == "module" and _is_rlm(loop.instance)):
        top, loop = loop, loop.parent
    if loop is None:
        return {}
    if top.kind == "module" and top.instance is getattr(loop.instance, "extract", None):
        return {"call_type": "extract", "iteration": loop.iteration + 1}
    if top.kind == "module" and top.instance is getattr(loop.instance, "generate_action", None):
        loop.iteration += 1
        loop.action = number
        return {"call_type": "action", "iteration": loop.iteration}
    return {"call_type": "sub_query", "iteration": loop.iteration, "parent_number": loop.action}


def _is_rlm(instance: Any) -> bool:
    kind = instance if isinstance(instance, type) else type(instance)
    return any(c.__name__ == "RLM" for c in kind.__mro__)


def _asked(inputs: Mapping[str, Any]) -> Any:
    prompt = inputs.get("prompt")
    request = (inputs.get("kwargs") or {}).get("request") if isinstance(inputs.get("kwargs"), dict) else None
    if isinstance(prompt, str) or (prompt is None and request is None):
        return [{"role": "user", "content": prompt}]
    asked = []
    for message in getattr(request if prompt is None else prompt, "messages", None) or ():
        texts = [p.text for p in getattr(message, "parts", ()) if isinstance(getattr(p, "text", None), str)]
        asked.append({"role": str(getattr(message, "role", "user")), "content": "\n".join(texts)})
    return asked or [{"role": "user", "content": prompt}]


def _model_of(instance: Any) -> str | None:
    model = getattr(getattr(instance, "lm", None), "model", None)
    return model if isinstance(model, str) else None


def _cwd() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:
        return None


def _error(exception: BaseException | None) -> str | None:
    if exception is None:
        return None
    return (as_text(exception) or type(exception).__name__)[:_ERROR_CHARS].encode("utf-8", "replace").decode()
