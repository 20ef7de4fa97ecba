"""Sessions as memories see them: what was typed, run, changed and answered, read from the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.memory.session_facts import CHANGED, FAILED, RAN, RULED, Said, SessionFact, Timeline
from ctx_pipeline.mining.lessons.commands import CHECKS, form, outside, runs, shown
from ctx_pipeline.mining.lessons.failures import salient_line, shorten_paths, signature
from ctx_pipeline.mining.lessons.session_record import Record, record_of
from ctx_pipeline.mining.lessons.turns import turns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.storage import Store


_TABLES = ("events", "tool_calls", "command_runs")
_COLUMNS = {"events": ["event_id", "session_id", "thread_id", "seq", "ts", "kind", "subtype", "actor", "text", "call_id"]}
KINDS = ("prompt", "answer", "tool_result")
_LEAST_SIGNATURE = 8
"""Letters of an error without numbers below which it names no failure."""

_AROUND = 300
"""Characters before and after the line that says what is wrong, as an agent would paste it."""

RULES = "user_preference"
"""Kind of the candidates that hold a rule which the person typed."""


def views(store: Store, cell: Cell, sessions: Collection[str] | None = None, kinds: Collection[str] = KINDS) -> Iterator[SessionView]:
    """Yield the sessions of a cell with the rows that a story is made of."""
    yield from store.lake.read_sessions(cell, sessions, _TABLES, _COLUMNS, kinds=kinds)


def timeline(view: SessionView, rules: Iterable[StoredCandidate] = ()) -> Timeline:
    """Return the story of a session; ``rules`` are candidates drawn from it that hold rules. What has no time is left out."""
    session = view.session
    cwd = session.cwd
    told = Timeline(view.host, view.session_id, cwd or "", session.repository or "", session.first_ts or 0, session.last_ts or 0)
    for event in view.events:
        if event.ts is not None and event.text and event.kind in ("prompt", "answer"):
            (told.prompts if event.kind == "prompt" else told.answers).append(Said(event.event_id, event.ts, event.text))
    for run in view.once(runs):
        told.deeds += _of_run(run, cwd)
    for call in view.tool_calls:
        if call.action in ("edit", "write") and not call.is_error and (call.ended or call.started) is not None:
            files = tuple(shorten_paths(p, cwd) for p in call.paths if not outside(p))
            if files:
                told.deeds.append(SessionFact(CHANGED, files, call.ended or call.started, _events(call)))
    for rule in rules:
        if rule.ts is not None and rule.kind == RULES:
            told.deeds.append(SessionFact(RULED, (rule.subject,), rule.ts, tuple(rule.evidence[:1])))
    corrected = {t.following.event_id for t in view.once(turns) if t.corrected and t.following is not None}
    told.objections = [p for p in told.prompts if p.event_id in corrected]
    for items in (told.prompts, told.answers, told.objections):
        items.sort(key=lambda s: (s.at, s.event_id))
    told.deeds.sort(key=lambda d: (d.at, d.events, d.kind))
    return told


def _of_run(run: Run, cwd: str | None) -> Iterator[SessionFact]:
    call = run.call
    at = call.ended or call.started
    if at is None:
        return
    names = tuple(dict.fromkeys((shown(run.command, cwd), form(run, cwd).text, shown(run.step.text, cwd))))
    yield SessionFact(RAN, names, at, _events(call), run.passed, run.step.subject, check=run.step.purpose in CHECKS)
    error = salient_line(run.output, cwd, of_tests=run.step.purpose == "test", of_any_form=True) if run.failed else ""
    sign = signature(error)
    if len(sign) >= _LEAST_SIGNATURE:
        place = run.output.find(error[:30])
        text = run.output[max(0, place - _AROUND) : place + _AROUND] if place >= 0 else run.output[-2 * _AROUND :]
        yield SessionFact(FAILED, (sign,), at, _events(call), False, run.step.subject, text)


def _events(call: object) -> tuple[str, ...]:
    return tuple(e for e in (call.call_event, call.result_event) if e)  # type: ignore[attr-defined]


# What one session leaves behind, as one record, read from the lake when it is asked for.


_KINDS = ("prompt", "tool_call", "tool_result", "answer", "injected", "permission")


def lesson_record(store: Store, host: str, session_id: str) -> Record | None:
    """Return the record of a session; None where it is not in the store."""
    row = store.ledger.session(host, session_id)
    if row is None:
        return None
    return next((record_of(view) for view in views(store, row.partition, {session_id}, _KINDS)), None)
