"""A captured session of any host, by the method names of a callback store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import iso
from ctx_pipeline.rot.content import estimated_tokens

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.model.sessions import ThreadRow

NANO = 1_000_000_000
_ROLES = {"prompt": "user", "injected": "system", "answer": "assistant", "reasoning": "assistant", "tool_call": "assistant"}
_STATES = ("completed", "errored", "abandoned")


class CapturedSession:
    """One context window of a captured session: the main one, or the thread that is named.

    What the agent said and which tools it called is a call's completion; what stands
    between two calls is the later one's messages (agents do not record the whole prompt).
    """

    def __init__(self, view: SessionView, thread_id: str | None = None) -> None:
        self._view = view
        self.host = view.host
        self.session_id = view.session_id
        rows = {t.thread_id: t for t in view.threads}
        self.thread_id = thread_id or (view.session_id if view.session_id in rows else next(iter(rows), view.session_id))
        self._row = rows.get(self.thread_id, view.session)
        events = [e for e in view.events if e.thread_id == self.thread_id]
        first: dict[str, int] = {}
        for number, event in enumerate(events):
            if event.call_key is not None:
                first.setdefault(event.call_key, number)
        calls = [c for c in view.model_calls if c.thread_id == self.thread_id]
        calls.sort(key=lambda c: (first.get(c.call_key, len(events)), c.ts or 0))
        self._calls = {c.call_key: c for c in calls}
        self._numbers = {key: number for number, key in enumerate(self._calls, 1)}
        self._said: dict[int, list[str]] = {}
        self._messages: dict[int, list[dict[str, str]]] = {}
        self._tools: list[dict[str, Any]] = []
        self._walk(events, {t.call_event: t for t in view.tool_calls})

    @property
    def threads(self) -> dict[str, ThreadRow]:
        """Context windows of the session that asked a model, by id, in the order of their beginning."""
        asked = {c.thread_id for c in self._view.model_calls}
        rows = sorted(self._view.threads, key=lambda t: (t.thread_id != self._view.session_id, t.first_ts or 0, t.thread_id))
        return {t.thread_id: t for t in rows if t.thread_id in asked}

    def of(self, thread_id: str) -> CapturedSession:
        """Return another context window of the session."""
        return CapturedSession(self._view, thread_id)

    def _walk(self, events: list[Any], tools: dict[str, Any]) -> None:
        at = 0
        waiting: list[dict[str, str]] = []
        results = {e.call_id: e.text or "" for e in events if e.kind == "tool_result" and e.call_id}
        for event in events:
            number = self._numbers.get(event.call_key) if event.call_key is not None else None
            if number is not None and number != at:
                at = number
                self._messages[at], waiting = waiting, []
            if event.kind in {"answer", "tool_call"} and number is not None:
                self._said.setdefault(at, []).append(event.text or "")
            elif event.kind in _ROLES or event.kind == "tool_result":
                waiting.append({"role": _ROLES.get(event.kind, "tool"), "content": event.text or ""})
            tool = tools.get(event.event_id)
            if tool is not None:
                self._tools.append(self._tool(tool, at, event.text, results.get(event.call_id)))

    @staticmethod
    def _tool(tool: Any, after: int, arguments: str | None, output: str | None) -> dict[str, Any]:
        lasted = (tool.ended - tool.started) // 1000 if tool.started is not None and tool.ended is not None else None
        return {
            "id": tool.call_id,
            "session_id": tool.session_id,
            "after_seq": after,
            "tool_name": tool.tool,
            "started_at": iso(tool.started),
            "ended_at": iso(tool.ended),
            "duration_ms": lasted,
            "output_tokens_est": estimated_tokens(output or ""),
            "error": (output or "")[:500] if tool.is_error else None,
            "input_json": arguments,
            "output_text": output,
            "output_char_count": None if output is None else len(output),
        }

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        """Return id, times, model, size of the window where recorded, mode and state; the mode is the host's key."""
        row, models = self._row, list(self._row.models or ())
        return {
            "id": session_id,
            "started_at": iso(row.first_ts),
            "ended_at": iso(row.last_ts),
            "model": models[0] if models else None,
            "context_window": getattr(row, "context_window", None),
            "mode": self.host,
            "terminal_state": row.status if row.status in _STATES else None,
        }

    def get_session_summary(self, session_id: str) -> dict[str, Any]:
        """Return the totals of the calls."""
        calls = self.get_growth_data(session_id)
        prompt, read = sum(c["prompt_tokens"] for c in calls), sum(c["cache_read_tokens"] for c in calls)
        first, last = self._row.first_ts, self._row.last_ts
        return {
            "total_calls": len(calls),
            "total_prompt": prompt,
            "total_completion": sum(c["completion_tokens"] for c in calls),
            "total_cache_read": read,
            "cache_hit_pct": round(read / prompt * 100 if prompt else 0.0, 1),
            "total_cost": sum(c["cost"] or 0 for c in calls),
            "total_duration_ms": (last - first) // 1000 if first is not None and last is not None else 0,
            "max_prompt_tokens": max((c["prompt_tokens"] for c in calls), default=0),
        }

    def get_growth_data(self, session_id: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the protocol's
        """Return tokens, cost and model of each call; a prompt's tokens are all that was in the context."""
        return [
            {
                "seq": self._numbers[key],
                "prompt_tokens": c.context_tokens,
                "completion_tokens": c.output,
                "cache_read_tokens": c.cache_read,
                "cache_write_tokens": c.cache_write_5m + c.cache_write_1h,
                "cost": None if c.cost is None else c.cost / NANO,
                "model": c.model,
            }
            for key, c in self._calls.items()
        ]

    def get_lm_call_content(self, session_id: str) -> list[dict[str, Any]]:
        """Return what was said at each call."""
        rows = []
        for call in self.get_growth_data(session_id):
            messages, text = self._messages.get(call["seq"], []), "\n".join(self._said.get(call["seq"], []))
            rows.append(
                {
                    "seq": call["seq"],
                    "messages_json": json.dumps(messages, ensure_ascii=False),
                    "completion": text,
                    "prompt_char_count": sum(len(m["content"]) for m in messages),
                    "completion_char_count": len(text),
                    "prompt_tokens": call["prompt_tokens"],
                    "completion_tokens": call["completion_tokens"],
                }
            )
        return rows

    def get_tool_impact(self, session_id: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the protocol's
        """Return tool_name, call_count and avg_tokens of each tool, the largest first."""
        sizes: dict[str, list[int]] = {}
        for tool in self._tools:
            sizes.setdefault(tool["tool_name"], []).append(tool["output_tokens_est"])
        rows = [{"tool_name": name, "call_count": len(s), "avg_tokens": sum(s) // len(s)} for name, s in sizes.items()]
        return sorted(rows, key=lambda r: -r["avg_tokens"])

    def get_tools_by_iteration(self, session_id: str) -> dict[int, list[dict[str, Any]]]:  # noqa: ARG002 - the protocol's
        """Return the tools that ran after each call."""
        found: dict[int, list[dict[str, Any]]] = {}
        for tool in self._tools:
            found.setdefault(tool["after_seq"], []).append({n: tool[n] for n in ("tool_name", "output_tokens_est", "duration_ms")})
        return found

    def get_tool_call_content(self, session_id: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the protocol's
        """Return input and output of each tool call, in order."""
        return [{"tool_call_id": t["id"], **{n: t[n] for n in ("input_json", "output_text", "output_char_count")}} for t in self._tools]

    def get_lm_calls_full(self, session_id: str) -> list[dict[str, Any]]:
        """Return every column of the calls."""
        content = {c["seq"]: c for c in self.get_lm_call_content(session_id)}
        rows = []
        for (key, c), call in zip(self._calls.items(), self.get_growth_data(session_id), strict=True):
            place = {"started_at": iso(c.ts), "ended_at": iso(c.ts), "duration_ms": None, "error": None}
            kind = {"call_type": None, "iteration": None, "parent_seq": None}
            rows.append({"id": key, "session_id": session_id, **call, **place, **content[call["seq"]], **kind})
        return rows

    def get_tool_calls_full(self, session_id: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the protocol's
        """Return every column of the tool calls, in order."""
        return self._tools

    def get_rlm_tree_data(self, session_id: str) -> list[dict[str, Any]]:
        """Return the calls; none of them has a place in an RLM."""
        return self.get_lm_calls_full(session_id)
