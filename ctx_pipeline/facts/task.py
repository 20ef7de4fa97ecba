"""What a session was asked to do: the request that began it and the one that it is at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.prompts import asked, is_request, one_line, tells, typed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.session_view import SessionView

LONGEST = 400
"""Characters of a request that are told."""

_PLAN_HEAD = 4_000


class Request(NamedTuple):
    """Something that was asked for, and where that stands."""

    text: str
    """one line, at most 400 characters"""
    by: str
    """prompt, plan (an approved one) or title"""
    event_id: str | None
    ts: int | None
    """microseconds since 1970"""


class Task(NamedTuple):
    """What a session is about; both None where nothing says so."""

    first: Request | None
    """the first prompt that asks for something"""
    now: Request | None
    """an approved plan where it is newer than the last prompt that says by itself what to do, else that prompt"""
    told: bool
    """False: no prompt says by itself what to do, and ``now`` is the last that asks for something"""
    last: Request | None = None
    """the last prompt that asks for something"""


def task(view: SessionView) -> Task:
    """Return what a session was asked to do.

    A prompt that only steers ("push", "1", "yes, go on") is no task, unless nothing else
    was typed. Reads prompts of the main thread, else of any, and the plans among
    ``tool_calls``.
    """
    prompts = _requests(typed(view)) or _requests(view.prompts)
    significant_terms = next((one for one in reversed(prompts) if tells(one[1])), None)
    since = significant_terms[0].seq if significant_terms else -1
    chosen = significant_terms or (prompts[-1] if prompts else None)
    first = _request(prompts[0]) if prompts else _title(view)
    now = _plan(view, since) or (_request(chosen) if chosen else _title(view))
    return Task(first, now, significant_terms is not None, _request(prompts[-1]) if prompts else None)


def _requests(prompts: Sequence[Any]) -> list[tuple[Any, str]]:
    told = [(e, ask) for e in prompts if (ask := asked(e.text or ""))]
    return [one for one in told if is_request(one[1])] or told


def _request(prompt: tuple[Any, str]) -> Request:
    event, ask = prompt
    return Request(cut(ask), "prompt", event.event_id, event.ts)


def _title(view: SessionView) -> Request | None:
    title = view.session.title
    return Request(cut(one_line(title)), "title", None, None) if title else None


def _plan(view: SessionView, since: int) -> Request | None:
    """Return the heading of the newest plan that the person approved behind a place in the main thread."""
    for call in reversed(view.tool_calls):
        if call.action == "plan" and not call.is_error and call.result_event and call.thread_id == view.session_id and call.seq > since:
            plan = arguments_of(view.call_text(call)).get("plan")
            lines = (line.strip().lstrip("#").strip() for line in plan[:_PLAN_HEAD].splitlines()) if isinstance(plan, str) else ()
            head = cut(one_line(next((line for line in lines if line), "")))
            if head:
                return Request(head, "plan", call.call_event, call.started)
    return None


def arguments_of(text: str) -> dict[str, Any]:
    """Return the arguments of a call; empty for what is no JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def cut(text: str, width: int = LONGEST) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"
