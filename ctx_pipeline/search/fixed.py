"""Which session fixed an error: the failed command, and what was done until it passed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.mining.error_resolutions import resolved
from ctx_pipeline.model.codec import Plain, iso
from ctx_pipeline.search import Filters, search
from ctx_pipeline.search.question_words import without_question
from ctx_pipeline.sessions.session_details import view_of
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.search import SearchHit
    from ctx_pipeline.settings import Settings

_READ, _SILENT = 40, 20
"""Failed outputs that are followed up to what ended them, and outputs of calls that ended well which are looked at."""


@dataclass(frozen=True)
class Fixed(Plain):
    """An error that a session met and what ended it there."""

    host: str
    session_id: str
    title: str | None
    project: str | None
    ts: str | None
    """when it passed"""
    failed: str
    error: str
    passed: str
    did: list[str] = field(default_factory=list)
    """commands that ran in between: what was installed or started"""
    files: list[str] = field(default_factory=list)
    """files that were changed in between"""
    evidence: list[str] = field(default_factory=list)
    """event_ids: the failed output, the changes, what passed"""
    resume: str = ""


@dataclass(frozen=True)
class LeftOpen(Plain):
    """An error that no later run of its session is known to have ended."""

    host: str
    session_id: str
    title: str | None
    project: str | None
    ts: str | None
    event_id: str
    snippet: str
    then: str
    """what the agent said or did next"""
    resume: str


@dataclass(frozen=True)
class FixedErrors(Plain):
    """The errors that were fixed, those that fit best first, those that were not, and how many failed outputs hold the words."""

    query: str
    fixed: list[Fixed]
    left_open: list[LeftOpen]
    failures: int
    sessions: int


def fixed_errors(query: str, *, filters: Filters | None = None, limit: int = 10, settings: Settings | None = None) -> FixedErrors:
    """Return which sessions fixed an error, and by which change or command; raises what a search raises.

    Failed outputs with the words are followed to the next run that shows the same thing
    working. What held the words nearest stands first; where no text has all words, those
    count that have most, more than half.
    """
    asked = without_question(query)
    chosen = replace(filters or Filters(), outcome=("failed",), kind=("tool_result",))
    found = search(asked, filters=chosen, limit=_READ, settings=settings)
    relaxed = found.level in {"any", "beginning"}
    hits = found.hits[: found.with_all_words or None] if relaxed else found.hits
    # an agent's record may say that a call ended well whose command failed
    silent = search(asked, filters=replace(chosen, outcome=("passed",)), limit=_READ, settings=settings)
    other = silent.hits[:_SILENT]
    ended: dict[tuple[str, str, str, str], Fixed] = {}
    left: dict[tuple[str, str], LeftOpen] = {}
    with reading(settings) as (store, _):
        places = dict.fromkeys((hit.host, hit.session_id) for hit in (*hits, *other))
        views = {place: view_of(store, *place, ("events", "tool_calls")) for place in places}
        hits = [*hits, *(hit for hit in other if _of_failed_command(views[hit.host, hit.session_id], hit.event_id))]
        hits = _nearest(hits, views, asked)
        for hit in hits:
            place = hit.host, hit.session_id
            one = _fixed(views[place], hit)
            if one is not None:
                ended.setdefault((*place, one.failed, one.error), one)
            else:
                left.setdefault(place, _left_open(views[place], hit))
    met = [one for place, one in left.items() if not any(key[:2] == place for key in ended)]
    return FixedErrors(asked, list(ended.values())[:limit], met[:limit], len(hits), len({(h.host, h.session_id) for h in hits}))


def _of_failed_command(view: Any, event: str) -> bool:
    return any(run.result == "failed" and event in run.outputs for run in command_runs(view))


def _nearest(hits: Sequence[SearchHit], views: Mapping[tuple[str, str], Any], asked: str) -> list[SearchHit]:
    """Return the hits of which a line holds most of the words, none where that is half of them or fewer."""
    words = {word.lower() for word in re.findall(r"\w+", asked)}
    seen = {hit.event_id: (views[hit.host, hit.session_id].by_event[hit.event_id].text or "").lower() for hit in hits}
    # a text may be quoted as JSON, in which ends of lines are written out
    lines = {event: re.split(r"\n|\\r\\n|\\n", text) for event, text in seen.items()}
    held = {event: max(sum(word in line for word in words) for line in of) for event, of in lines.items()}
    most = max(held.values(), default=0)
    return [hit for hit in hits if held[hit.event_id] == most] if most * 2 > len(words) else []


def _left_open(view: Any, hit: SearchHit) -> LeftOpen:
    seen = view.by_event.get(hit.event_id)
    behind = (e for e in view.of_kinds("answer", "tool_call") if seen is not None and e.thread_id == seen.thread_id and e.seq > seen.seq)
    then = next((e.text for e in behind if e.text), "")
    return LeftOpen(hit.host, hit.session_id, hit.title, hit.project, hit.ts, hit.event_id, hit.snippet, then[:_SAID], hit.resume)


_SAID = 400


def _fixed(view: Any, hit: SearchHit) -> Fixed | None:
    told = resolved(view, hit.event_id)
    if told is None:
        return None
    return Fixed(
        hit.host,
        hit.session_id,
        hit.title,
        hit.project,
        iso(told.ended),
        told.failed,
        told.error,
        told.passed,
        told.did,
        told.files,
        list(told.evidence),
        hit.resume,
    )
