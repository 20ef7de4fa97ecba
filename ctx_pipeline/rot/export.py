"""Sessions as JSON lines: the native record, and the record of opentraces-schema 0.9."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.display import escaped
from ctx_pipeline.rot.content import decoded

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION = "0.9.0"
"""of opentraces-schema, whose roles and call types these records use"""

FORMATS = ("opentraces", "ctxrot")

_CALL_TYPES = {"action": "main", "extract": "main", "sub_query": "subagent"}
_OUTCOMES: dict[str, dict[str, Any]] = {
    "completed": {"success": True, "terminal_state": "goal_reached"},
    "errored": {"success": False, "terminal_state": "error"},
    "abandoned": {"success": False, "terminal_state": "interrupted"},
}


def record(store: Any, session_id: str, version: str, form: str = "opentraces") -> dict[str, Any]:
    """Return one session as a record of a format; ``version`` is that of this package."""
    return native(store, session_id, version) if form == "ctxrot" else opentraces(store, session_id, version)


def native(store: Any, session_id: str, version: str) -> dict[str, Any]:
    """Return everything a store has of a session: session, summary, lm_calls, tool_calls."""
    return {
        "ctxrot_version": version,
        "session": store.get_session(session_id),
        "summary": store.get_session_summary(session_id),
        "lm_calls": store.get_lm_calls_full(session_id),
        "tool_calls": store.get_tool_calls_full(session_id),
    }


def opentraces(store: Any, session_id: str, version: str) -> dict[str, Any]:
    """Return a session as a TraceRecord; a step is a model call with the tools that ran after it.

    Tools that ran before the first call stand in a step 0 of their own.
    """
    session = store.get_session(session_id) or {}
    summary = store.get_session_summary(session_id)
    calls = store.get_lm_calls_full(session_id)
    tools: dict[int, list[dict[str, Any]]] = {}
    known = {c["seq"] for c in calls}
    for tool in store.get_tool_calls_full(session_id):
        after = tool["after_seq"] or 0
        tools.setdefault(after if after in known else 0, []).append(tool)
    steps = [_step(call, tools.get(call["seq"], [])) for call in calls]
    if 0 in tools:
        steps.insert(0, {"step_index": 0, "role": "agent", **_tools(tools[0])})
    state = session.get("terminal_state")
    prompt = summary["total_prompt"]
    messages = {str(c["seq"]): decoded(c["messages_json"]) for c in calls if c["messages_json"] is not None}
    return {
        "schema_version": SCHEMA_VERSION,
        "trace_id": session_id,
        "session_id": session_id,
        "timestamp_start": session.get("started_at"),
        "timestamp_end": session.get("ended_at"),
        "execution_context": "runtime",
        "agent": {"name": session.get("mode") or "dspy-agent", "model": session.get("model")},
        "steps": steps,
        "outcome": _OUTCOMES.get(state or "", {}),
        "metrics": {
            "total_steps": len(calls),
            "total_input_tokens": prompt,
            "total_output_tokens": summary["total_completion"],
            "total_cache_read_tokens": summary["total_cache_read"],
            "total_cache_creation_tokens": sum(c["cache_write_tokens"] or 0 for c in calls),
            "total_duration_s": round(summary["total_duration_ms"] / 1000, 3),
            "cache_hit_rate": round(min(1.0, summary["total_cache_read"] / prompt), 4) if prompt else 0.0,
            "estimated_cost_usd": summary["total_cost"],
        },
        "lifecycle": "final" if state else "provisional",
        "metadata": {
            "ctx_pipeline_version": version,
            "source": "ctx_pipeline",
            "mode": session.get("mode"),
            "max_prompt_tokens": summary["max_prompt_tokens"],
            **({"messages": messages} if messages else {}),
        },
    }


def line(value: Mapping[str, Any]) -> str:
    """Return a record as one line of JSON; marks that would steer a terminal are escaped."""
    return escaped(json.dumps(value, ensure_ascii=False, default=str))


def _step(call: Mapping[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    step: dict[str, Any] = {
        "step_index": call["seq"],
        "role": "agent",
        "model": call["model"],
        "timestamp": call["started_at"],
        "token_usage": {
            "input_tokens": call["prompt_tokens"] or 0,
            "output_tokens": call["completion_tokens"] or 0,
            "cache_read_tokens": call["cache_read_tokens"] or 0,
            "cache_write_tokens": call["cache_write_tokens"] or 0,
        },
        **_tools(tools),
    }
    if call["completion"] is not None or call["error"] is not None:
        step["content"] = call["completion"] if call["error"] is None else call["error"]
    if call["call_type"] in _CALL_TYPES:
        step["call_type"] = _CALL_TYPES[call["call_type"]]
    if call["parent_seq"] is not None:
        step["parent_step"] = call["parent_seq"]
    return step


def _tools(tools: list[dict[str, Any]]) -> dict[str, Any]:
    calls, observations = [], []
    for tool in tools:
        given = decoded(tool["input_json"]) if tool["input_json"] is not None else {}
        if isinstance(given, dict) and set(given) == {"kwargs"} and isinstance(given["kwargs"], dict):
            given = given["kwargs"]
        lasted = {"duration_ms": tool["duration_ms"]} if tool["duration_ms"] is not None else {}
        named = {"tool_call_id": tool["id"], "tool_name": tool["tool_name"]}
        calls.append({**named, "input": given if isinstance(given, dict) else {"input": given}, **lasted})
        if tool["output_text"] is not None or tool["error"] is not None:
            observations.append({"source_call_id": tool["id"], "content": tool["output_text"], "error": tool["error"]})
    return {"tool_calls": calls, "observations": observations}
