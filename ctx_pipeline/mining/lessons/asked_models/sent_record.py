"""The record of a session that a language model reads."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import failed_calls
from ctx_pipeline.facts.prompts import answered
from ctx_pipeline.mining.lessons.failures import clean, shorten_paths
from ctx_pipeline.mining.lessons.turns import typed_by_person
from ctx_pipeline.model.host_records import APPROVED_PLAN, words_of_refusals
from ctx_pipeline.model.memories import BLOCK_TAG, NOTE_TAG

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

MOST_CHARS = 48_000
"""Characters of a session in a question."""

PERSON = "person"
"""Who said what the person typed: prompts, words of a refusal, and answers to what the agent asked."""

_PLAN = "plan"
"""Who said the agent's plan that the person approved: the work began with it, and nobody typed it."""

KINDS = ("prompt", "permission", "injected", "answer", "tool_call", "tool_result", "error")
"""Kinds of events that a record holds; of what was injected the approved plan alone."""

_EACH = {PERSON: 1_500, _PLAN: 1_500, "agent": 900, "call": 400, "output": 700, "error": 500}
_WHO = {"prompt": "agent", "answer": "agent", "tool_call": "call", "tool_result": "output", "error": "error"}
"""Who stands behind an event that is not the person's: an agent prompts its subagents."""

_OUTPUT = "output"
_END = 12
"""Records at the end of a session that come with its failures."""

_OWN_TOOLS = ("retrieve_memories", "show_memory", "accept_memory", "update_memory_utility")
"""Tools of our own server that answer with memories."""

_OWN_COMMAND = re.compile(r"(?:^|[\s;&|(\"'/])ctx(?:[_-]pipeline)?\s+(?:memory|mine|learn|hooks\s+preview|session\s+playbook)\b")
"""Runs our own program so that it prints lessons."""

_WOVEN = re.compile(rf"<{NOTE_TAG}>.*?(?:</{NOTE_TAG}>|\Z)|<{BLOCK_TAG} .*?(?:</{BLOCK_TAG}>|\Z)", re.DOTALL)


class SentRecord(NamedTuple):
    """A session as JSON lines with short ids, and what each id means."""

    text: str
    events: dict[str, str]
    """id in the record -> event_id"""
    said: frozenset[str]
    """event_ids of what the person said"""
    answers: dict[str, str]
    """event_id of a result in which the person answered the agent -> the answers alone"""


class _Line(NamedTuple):
    name: str
    event: str
    text: str
    rank: int
    """0 is left out last"""
    main: bool


def sent_record(view: SessionView) -> SentRecord:
    """Return the record of a session.

    Woven notes, pasted blocks and what the agent was told when it asked for memories are
    left out, and texts are cut. Of a long session what the person said is kept first, then
    the approved plan, failures and the end of the main thread, then what the agent said and
    did, outputs last, and of each the main thread before those of subagents; what is kept
    stands in the order of each thread, the main thread first.
    """
    answers, told = _answers(view), _injected_memories(view)
    said = answers.keys() | {e.event_id for e in (*typed_by_person(view), *words_of_refusals(view))}
    asks = {c.call_event for c in view.tool_calls if c.result_event in answers}
    failed = {e for c in failed_calls(view) for e in (c.call_event, c.event)}
    main = view.events[0].thread_id if view.events else ""
    lines: list[_Line] = []
    for event in view.events:
        who = PERSON if event.event_id in said else _PLAN if begins_with_plan(event) else _WHO.get(event.kind)
        if who is None or not event.text or event.event_id in told:
            continue
        said_here = answers.get(event.event_id, event.text)
        text = _cut(shorten_paths(_WOVEN.sub(" ", said_here), view.session.cwd), _EACH[who])
        if text.strip():
            first = who in ("error", _PLAN) or event.event_id in failed or event.event_id in asks
            rank = 0 if who == PERSON else 1 if first else 3 if who == _OUTPUT else 2
            name = f"e{len(lines) + 1}"
            lines.append(
                _Line(
                    name,
                    event.event_id,
                    json.dumps({"id": name, "by": who, "text": text}, ensure_ascii=False),
                    rank,
                    event.thread_id == main,
                )
            )
    for place in [n for n, line in enumerate(lines) if line.main][-_END:]:
        lines[place] = lines[place]._replace(rank=min(1, lines[place].rank))
    shown = _within(lines)
    return SentRecord("\n".join(line.text for line in shown), {line.name: line.event for line in shown}, frozenset(said), answers)


def begins_with_plan(event: Any) -> bool:
    """Tell whether an event is the agent's plan with which the person let the work begin."""
    return event.kind == "injected" and (event.subtype or "").startswith(APPROVED_PLAN)


def _answers(view: SessionView) -> dict[str, str]:
    """Return the event of each result in which the person answered the agent -> the answers alone: the questions are the agent's words."""
    asks = [c for c in view.tool_calls if c.action == "ask" and c.result_event and not c.is_error]
    found = {str(c.result_event): "\n".join(answer for _, answer in answered(view, c)) for c in asks}
    return {event: text for event, text in found.items() if text}


def _injected_memories(view: SessionView) -> set[str]:
    """Return the events with memories that the agent looked up itself: a lesson is not learned from being told it."""
    asked = {c.result_event for c in view.tool_calls if c.action == "mcp" and str(c.tool).rpartition("__")[2] in _OWN_TOOLS}
    calls = {e.event_id for e in view.events if e.kind == "tool_call" and e.text and _OWN_COMMAND.search(e.text)}
    return {str(e) for e in asked | {c.result_event for c in view.tool_calls if c.call_event in calls} if e}


def _cut(text: str, most: int) -> str:
    plain = "\n".join(clean(line) for line in text[: 4 * most].splitlines()) if len(text) <= 4 * most else _clean_ends(text, most)
    return plain if len(plain) <= most else f"{plain[: most // 2].rstrip()} [...] {plain[-(most - most // 2) :].lstrip()}"


def _clean_ends(text: str, most: int) -> str:
    """Return the beginning and the end of a long text without control characters."""
    return f"{clean(text[:most])} [...] {clean(text[-most:])}"


def _within(lines: list[_Line]) -> list[_Line]:
    """Return the lines that the budget holds, in order: of each rank the main thread first, and the later ones before the earlier ones."""
    kept, left = [], MOST_CHARS
    for place in sorted(range(len(lines)), key=lambda n: (lines[n].rank, not lines[n].main, -n)):
        size = len(lines[place].text) + 1
        if size <= left:
            kept.append(place)
            left -= size
    return [lines[place] for place in sorted(kept)]
