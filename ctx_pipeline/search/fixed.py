"""Which session fixed an error: the failed command, and what was done until it passed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.mining.error_resolutions import resolved
from ctx_pipeline.mining.lessons.failures import shorten_paths
from ctx_pipeline.model.codec import Plain, iso
from ctx_pipeline.search import Filters, search
from ctx_pipeline.search.question_words import without_question
from ctx_pipeline.sessions.session_details import view_of
from ctx_pipeline.shell.commands import command_text
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
    changed: str = ""
    """the file that a call failed to change and that a later call of the session changed"""
    changed_by: str = ""
    """event_id of that later call"""


@dataclass(frozen=True)
class FixedErrors(Plain):
    """The errors that were fixed, those that fit best first, those that were not, and how many failed outputs hold the words."""

    query: str
    fixed: list[Fixed]
    left_open: list[LeftOpen]
    failures: int
    sessions: int
    changed: int = 0
    """sessions in which a later call changed the file that this one could not"""
    partly: bool = False
    """no failed output holds all words: these hold most of them"""


def fixed_errors(query: str, *, filters: Filters | None = None, limit: int = 10, settings: Settings | None = None) -> FixedErrors:
    """Return which sessions fixed an error, and by which change or command; raises what a search raises.

    Failed outputs with the words are followed to the next run that shows the same thing
    working. What held the words nearest stands first; where no text has all words, those
    count that have most, more than half, and ``partly`` says so.
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
        hits, whole = _nearest(hits, views, asked)
        for hit in hits:
            place = hit.host, hit.session_id
            one = _fixed(views[place], hit)
            if one is not None:
                ended.setdefault((*place, one.failed, one.error), one)
            else:
                left.setdefault(place, _left_open(views[place], hit))
    met = [one for place, one in left.items() if not any(key[:2] == place for key in ended)]
    sessions, changed = len({(h.host, h.session_id) for h in hits}), sum(bool(one.changed) for one in met)
    return FixedErrors(asked, list(ended.values())[:limit], met[:limit], len(hits), sessions, changed, partly=bool(hits) and not whole)


def _of_failed_command(view: Any, event: str) -> bool:
    return any(run.result == "failed" and event in run.outputs for run in command_runs(view))


def _nearest(hits: Sequence[SearchHit], views: Mapping[tuple[str, str], Any], asked: str) -> tuple[list[SearchHit], bool]:
    """Return the hits of which a line holds most of the words, then those that hold all of them somewhere; and whether any holds all.

    There is none where a line of none holds more than half of them; where no text holds all, the longest word has to stand there,
    since "could not" says nothing of what could not be done.
    """
    words = {word.lower() for word in re.findall(r"\w+", asked)}
    seen = {hit.event_id: (views[hit.host, hit.session_id].by_event[hit.event_id].text or "").lower() for hit in hits}
    # a text may be quoted as JSON, in which ends of lines are written out
    lines = {event: re.split(r"\n|\\r\\n|\\n", text) for event, text in seen.items()}
    held = {event: max(sum(word in line for word in words) for line in of) for event, of in lines.items()}
    whole = {event for event, text in seen.items() if all(word in text for word in words)}
    if not whole:
        held = {event: held[event] for event, text in seen.items() if max(words, key=lambda word: (len(word), word), default="") in text}
    most = max(held.values(), default=0)
    if most * 2 <= len(words):
        return [], False
    near = [hit for hit in hits if held.get(hit.event_id) == most]
    return [*near, *(hit for hit in hits if hit.event_id in whole and held[hit.event_id] < most)], bool(whole)


def _left_open(view: Any, hit: SearchHit) -> LeftOpen:
    seen = view.by_event.get(hit.event_id)
    behind = (e for e in view.of_kinds("answer", "tool_call") if seen is not None and e.thread_id == seen.thread_id and e.seq > seen.seq)
    then = next((_said_or_called(view, e) for e in behind if e.text), "")
    file, call = _changed_later(view, hit.event_id)
    place = (hit.host, hit.session_id, hit.title, hit.project, hit.ts, hit.event_id)
    return LeftOpen(*place, hit.snippet, then[:_SAID], hit.resume, shorten_paths(file, view.session.cwd), call)


def _said_or_called(view: Any, event: Any) -> str:
    """Return what was said, or the tool that was called and on which file or with which command."""
    call = next((c for c in view.tool_calls if c.call_event == event.event_id), None) if event.kind == "tool_call" else None
    if call is None:
        return str(event.text)
    return f"{call.tool}: {shorten_paths(', '.join(call.paths) or command_text(call.argv) or event.text, view.session.cwd)}"


def _changed_later(view: Any, event: str) -> tuple[str, str]:
    """Return the file that a call could not change, and the event of the later call that changed it; nothing where there is none."""
    failed = next((c for c in view.tool_calls if c.result_event == event and c.action in _CHANGES), None)
    if failed is None or failed.ended is None:
        return "", ""
    for call in view.tool_calls:
        both = [path for path in call.paths if path in failed.paths] if call.action in _CHANGES else []
        if both and call.result_event and not call.is_error and (call.started or 0) >= failed.ended:
            return both[0], call.call_event
    return "", ""


_CHANGES = ("edit", "write")
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
