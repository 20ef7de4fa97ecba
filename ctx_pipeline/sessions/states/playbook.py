"""What was learned in a session, as a short list: each entry is confirmed by what happened later, or retires."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import NothingYet
from ctx_pipeline.facts.check_runs import check_runs
from ctx_pipeline.facts.command_runs import runs_by_call
from ctx_pipeline.facts.prompts import typed
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.mining.error_resolutions import extract as resolutions
from ctx_pipeline.mining.lessons.commands import runs, shown
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.rules.said_rules import Rule, contradict, rule, same, sentences
from ctx_pipeline.mining.repeated_corrections import extract as said_rules
from ctx_pipeline.sessions.session_choice import select_session
from ctx_pipeline.sessions.session_details import view_of
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings

RULE, PITFALL, CHECK = "rule", "pitfall", "check"
"""What the person laid down; a call that fails, with the one that works; the command that checks the work."""

TURNS = 50
"""Prompts of the person after which an entry that nothing confirmed retires."""

SHOWN = 12
"""Entries that are told of a session."""

_KINDS = {"test": "the tests", "types": "the type check", "lint": "the linter", "build": "the build"}


class Entry(NamedTuple):
    """One thing that was learned."""

    number: int
    """in the order in which they were learned, from 1"""
    kind: str
    text: str
    confirmed: int
    """times that something later showed it again"""
    contradicted: int
    """times that something later spoke against it"""
    events: tuple[str, ...]
    """what shows it: where it was learned, then what confirmed it last"""
    retired: str
    """why it is told no more; empty for one that is"""


@dataclass
class _Learned:
    kind: str
    text: str
    at: int
    """place of the event that taught it"""
    events: list[str]
    confirmed: int = 0
    contradicted: int = 0
    last: int = 0
    retired: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    def confirm(self, at: int, event: str) -> None:
        self.confirmed += 1
        self.last = at
        self.events[1:] = [event]


def playbook(view: SessionView) -> list[Entry]:
    """Return what a session taught, those that hold first: the most confirmed, then the last learned; retired ones behind them.

    A rule is confirmed where the person says it again and retires where they say the
    opposite. A pitfall is confirmed by each later run of the call that works, or where
    the same cure ended the same failure again. It retires where the call that failed works
    as it was, or its cure fails more often than it helps. The command of a check is
    confirmed by each later run that checked something. What nothing confirmed for
    :data:`TURNS` prompts retires.
    """
    place = {e.event_id: n for n, e in enumerate(view.events)}
    learned = sorted([*_rules(view, place), *_pitfalls(view, place), *_checks(view, place)], key=lambda one: (one.at, one.text))
    prompts = sorted(place[p.event_id] for p in typed(view))
    for one in learned:
        since = sum(at > max(one.at, one.last) for at in prompts)
        if not one.retired and one.contradicted > one.confirmed:
            one.retired = "it failed more often than it helped"
        elif not one.retired and since > TURNS:
            one.retired = f"nothing confirmed it for {since} prompts"
    made = [
        Entry(n, one.kind, one.text, one.confirmed, one.contradicted, tuple(one.events), one.retired) for n, one in enumerate(learned, 1)
    ]
    return sorted(made, key=lambda e: (bool(e.retired), e.contradicted - e.confirmed, -e.number))


def playbook_of(name: str | None = None, *, cwd: str | None = None, settings: Settings) -> list[Entry]:
    """Return the playbook of a session, the one that :func:`.session_choice.select_session` means without a name.

    Raises UnknownName, and NothingYet where the session was not captured yet.
    """
    with reading(settings) as (store, asked):
        choice = select_session(store, asked, name, cwd=cwd)
        if not choice.captured:
            raise NothingYet(f"{choice.host} {choice.session_id} is not captured yet", hint="ctx sync")
        return playbook(view_of(store, choice.host, choice.session_id, ("events", "tool_calls", "threads")))


def shown_lines(entries: list[Entry], *, for_model: bool = False) -> list[str]:
    """Return the entries that hold, one line each, at most :data:`SHOWN`; for a model none that reads like an order to it."""
    holding = (e for e in entries if not e.retired and not (for_model and scan([e.text])))
    return [f"{e.text}{f' (confirmed {e.confirmed}x)' if e.confirmed else ''}" for e in holding][:SHOWN]


def _rules(view: SessionView, place: dict[str, int]) -> Iterator[_Learned]:
    said: list[tuple[int, str, Rule]] = []
    for event in typed(view):
        for sentence in sentences((event.text or "")[:4_000]):
            meant = rule(clean(sentence).strip(" -*•.;,\"'"))
            if meant is not None:
                said.append((place[event.event_id], event.event_id, meant))
    laid_down = {
        c.evidence_refs[0]: meant for c in said_rules(view) if (c.structured or {}).get("laid_down") and (meant := rule(c.text)) is not None
    }
    told: list[Rule] = []
    for at, event, meant in said:
        opposed = any(contradict(known, meant) for known in told)
        if (event not in laid_down and not opposed) or any(same(known, meant) for known in told):
            continue
        told.append(meant)
        one = _Learned(RULE, meant.text, at, [event])
        for later, where, other in said:
            if later > at and contradict(meant, other):
                one.contradicted += 1
                one.retired = f"the person said later: {other.text[:120]}"
            elif later > at and same(meant, other):
                one.confirm(later, where)
        yield one


def _pitfalls(view: SessionView, place: dict[str, int]) -> Iterator[_Learned]:
    cwd = view.session.cwd
    ran = [(place[r.call.call_event], r, shown(r.command, cwd)) for r in view.once(runs)]
    for candidate in resolutions(view):
        body = candidate.structured or {}
        if candidate.kind != "tool_lesson":
            continue
        at = max(place[e] for e in candidate.evidence_refs if e in place)
        one = _Learned(PITFALL, candidate.text, at, [candidate.evidence_refs[0]])
        failed, passed = body.get("failed"), body.get("passed")  # neither is kept where an argument may be a secret
        cures = {shown(one, cwd) for one in body["did"]} if failed and failed == passed else ()
        again = cured = False  # since it was last confirmed: whether the call failed again, and a cure ran after that
        for later, run, command in ran:
            if later <= at:
                continue
            if cures:
                # what ran between cured it, and may have to run again: that the call goes on working shows nothing of it
                if command == failed:
                    if run.well and again and cured:
                        one.confirm(later, run.call.call_event)
                    elif run.failed and again and cured:
                        one.contradicted += 1
                    again, cured = run.failed, False
                elif command in cures and run.well:
                    cured = True
            elif command == passed and run.well:
                one.confirm(later, run.call.call_event)
            elif command == passed and run.failed:
                one.contradicted += 1
            elif command == failed and run.well:
                one.retired = f"`{command}` worked later as it was"
        yield one


def _checks(view: SessionView, place: dict[str, int]) -> Iterator[_Learned]:
    commands = runs_by_call(view)
    found: dict[tuple[str, str], _Learned] = {}
    for check in check_runs(view):
        run = commands[check.call_event]
        ended = check.result == "passed" or (check.result == "failed" and bool(check.passed or check.failed))
        if check.kind not in _KINDS or check.ran is False or not ended or run.call_event not in place:
            continue
        command, at = shown(run.command, view.session.cwd), place[run.call_event]
        key = (check.kind, command)
        if key not in found:
            found[key] = _Learned(CHECK, f"`{command}` runs {_KINDS[check.kind]}", at, [run.call_event])
        elif found[key].events[-1] != run.call_event:
            found[key].confirm(at, run.call_event)
    # what was run once says little; a command that is used again is how this is checked here
    yield from (one for one in found.values() if one.confirmed)
