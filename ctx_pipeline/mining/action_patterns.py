"""What a project does one after the other, and what its turns did that the person sent back, over the whole history."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.mining.lessons import returning_requests
from ctx_pipeline.mining.lessons.commands import PROVING, as_pattern, form
from ctx_pipeline.mining.lessons.turns import turns
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.shell.command_risk import dangers
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.mining.lessons.turns import Turn
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_TURNS, _ACTIONS, _LONGEST = 40, 40, 5
"""Turns of a session, actions of a turn and actions of a pattern that are looked at."""

_LEAST = 2
_SURE, _LIFT, _APART = 0.7, 1.2, 0.4
"""Least confidence and lift of a sequence, and least difference of two shares that is worth telling."""

_MOST, _EVIDENCE = 3, 4
_ASKING = ("gh ", "glab ", "kubectl ", "docker ", "aws ")
"""Programs that are asked all the time: what follows them follows by chance."""

_SAVING = frozenset(
    f"git {word}" for word in ("add", "commit", "checkout", "switch", "fetch", "pull", "push", "diff", "status", "log", "show", "stash")
)
"""What every project does around its work: a sequence has to tell more than that."""

_OF_A_PART, _PART_SESSIONS = "of a part", 3
"""A check of some tests is another one every time: a sequence without a whole check needs more sessions."""

CHANGE = "a change"
END = ""
"""Stands where something was published, destroyed or moved for others: no sequence goes on to it or over it."""


class _Action(NamedTuple):
    text: str
    call: Any
    check: bool = False


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield what the turns of a session did, whether the person sent them back, and what was asked; alone it proves nothing."""
    yield from returning_requests.extract(view)
    told: list[tuple[list[str], bool | None]] = []
    found: list[_Action] = []
    for turn in view.once(turns)[:_TURNS]:
        actions = _actions(view, turn)
        if any(a.text for a in actions):
            told.append(([a.text for a in actions], turn.corrected if turn.following is not None else None))
            found += [a for a in actions if a.text]
    if not found:
        return
    calls = [a.call for a in found if a.text != CHANGE] or [a.call for a in found]
    evidence = [e for c in calls[:_EVIDENCE] for e in (c.call_event, c.result_event)]
    yield MemoryCandidate(
        kind="case",
        text=f"{len(found)} actions in {len(told)} turn{'s' if len(told) > 1 else ''}: {' → '.join(a.text for a in found[:_LONGEST])}",
        evidence_refs=tuple(dict.fromkeys(evidence)),
        confidence=0.2,
        priority=1,
        risk="low",
        structured={
            "turns": [{"actions": actions, "sent_back": back} for actions, back in told],
            "checks": sorted({a.text.strip("`") for a in found if a.check}),
        },
        subject="actions",
        ts=calls[0].ended,
    )


def _actions(view: SessionView, turn: Turn) -> list[_Action]:
    """Return the changes and commands of a turn that ended well, the same one right after itself once."""
    ran: dict[str, Run] = {r.call.call_id: r for r in turn.runs}
    found: list[_Action] = []
    for call in turn.calls:
        run = ran.get(call.call_id)
        if call.action in ("edit", "write") and not call.is_error:
            texts = [(CHANGE, False)]
        elif run is not None and dangers(run.command):
            texts = [(END, False)]
        elif run is not None and run.passed:
            texts = [_text(run, view.session.cwd, place) for place in range(len(steps(run.command)))]
        else:
            continue
        for text, check in texts:
            if (text or texts == [(END, False)]) and (not found or found[-1].text != text):
                found.append(_Action(text, call, check))
    return found[:_ACTIONS]


def _text(run: Run, cwd: str | None, place: int) -> tuple[str, bool]:
    """Return a step of a line as it is counted, and whether it is a check: a check as it is run, of all else program and subcommand."""
    step = steps(run.command)[place]
    if step.purpose in PROVING:
        made = form(replace(run, step=step), cwd)
        return (f"`{as_pattern(made.text, step.subject)}` {_OF_A_PART}" if made.narrowed else f"`{made.text}`"), True
    return (f"`{step.subject}`" if " " in step.subject and not step.subject.startswith(_ASKING) else ""), False


@dataclass
class _Pattern:
    """Where a sequence of actions was seen."""

    members: dict[Any, StoredCandidate] = field(default_factory=dict)
    """one occurrence of a session -> its candidate; a fork repeats its parent's"""
    times: int = 0


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return the sequences that at least two sessions of a repository ran together, and those that tell good turns from bad.

    A sequence is told when what it begins with is followed by its end in at least seven
    of ten cases and a fifth more often than the end comes anyhow, and holds more than checks
    and what is done with git around any work. Of sequences that lie
    in one another and have the same sessions only the longest is told.
    """
    places: dict[str, dict[Any, StoredCandidate]] = defaultdict(dict)
    for c in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        places[c.place].setdefault((c.subject, c.ts or c.candidate_id), c)
    for _, members in sorted(places.items()):
        rows = [c for c in members.values() if c.subject != returning_requests.SUBJECT]
        yield from returning_requests.combine([c for c in members.values() if c.subject == returning_requests.SUBJECT])
        if len(rows) >= _LEAST:
            yield from _together(rows)
            yield from _stable_patterns(rows)


def _grams(actions: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(2, _LONGEST + 1):
        for start in range(len(actions) - size + 1):
            if END not in actions[start : start + size]:
                yield tuple(actions[start : start + size])


def _together(rows: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    found: dict[tuple[str, ...], _Pattern] = defaultdict(_Pattern)
    starts: Counter[tuple[str, ...]] = Counter()
    ends: Counter[str] = Counter()
    turns_seen = 0
    checks: set[str] = set()
    for c in rows:
        checks.update(c.body["checks"])
        for turn in c.body["turns"]:
            actions = turn["actions"]
            turns_seen += 1
            ends.update(set(actions))
            starts.update((a,) for a in actions if a != END)
            for gram in _grams(actions):
                starts[gram] += 1
                pattern = found[gram]
                pattern.times += 1
                pattern.members[c.candidate_id] = c
    kept: list[tuple[float, tuple[str, ...], _Pattern, float, float]] = []
    for gram, pattern in found.items():
        commands = {a.strip("`") for a in gram} - {CHANGE}
        if len(pattern.members) < _LEAST or len(commands) < _LEAST or not commands & checks or len(set(gram)) < len(gram):
            continue
        if commands <= checks | _SAVING:  # what is checked, and in which order, is told by project_conventions
            continue
        if len(pattern.members) < _PART_SESSIONS and all(c.endswith(_OF_A_PART) for c in commands & checks):
            continue
        sure = pattern.times / starts[gram[:-1]]
        lift = sure / (ends[gram[-1]] / turns_seen)
        if sure >= _SURE and lift >= _LIFT:
            kept.append((len(pattern.members) * sure, gram, pattern, sure, lift))
    closed = [k for k in kept if not any(_inside(k[1], other[1]) and k[2].members.keys() == other[2].members.keys() for other in kept)]
    closed.sort(key=lambda k: (-k[0], -len(k[1]), k[1]))
    told: list[tuple[str, ...]] = []
    for _, gram, pattern, sure, lift in closed:
        if len(told) < _MOST and not any(set(gram) <= set(other) or set(other) <= set(gram) for other in told):
            told.append(gram)
            yield from _sequence(gram, pattern, sure, lift)


def _inside(small: tuple[str, ...], large: tuple[str, ...]) -> bool:
    return len(small) < len(large) and any(large[i : i + len(small)] == small for i in range(len(large) - len(small) + 1))


def _sequence(gram: tuple[str, ...], pattern: _Pattern, sure: float, lift: float) -> Iterator[StoredCandidate]:
    sessions = len(pattern.members)
    first = ", then ".join(gram[:-1])
    does = "make a change" if gram[-1] == CHANGE else f"run {gram[-1]}"
    text = f"after {first}, {does}: done {pattern.times} of {round(pattern.times / sure)} times, in {sessions} sessions"
    subject = f"after {first}"
    body = {
        "subject": subject,
        "signature": f"{subject}: {does}",
        "steps": list(gram),
        "sessions": sessions,
        "confidence": round(sure, 4),
        "lift": round(lift, 4),
    }
    confidence = min(0.85, sure * (sessions + 1) / (sessions + 2))
    for c in pattern.members.values():
        yield _reworded(c, "repo_convention", text, f"{first} was done", body, confidence=confidence)


def _stable_patterns(rows: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    """Yield the action whose turns were sent back most differently from the turns without it."""
    judged = [(c, set(t["actions"]), bool(t["sent_back"])) for c in rows for t in c.body["turns"] if t["sent_back"] is not None]
    worked = [(c, actions, back) for c, actions, back in judged if CHANGE in actions]
    by_action: dict[str, list[tuple[StoredCandidate, bool]]] = defaultdict(list)
    for c, actions, returned in worked:
        for action in actions - {CHANGE, END}:
            by_action[action].append((c, returned))
    sent_back = sum(back for _, _, back in worked)
    best: tuple[float, str, list[Any], list[Any]] | None = None
    for action, with_it in sorted(by_action.items()):
        left = len(worked) - len(with_it)
        if not left or len({c.candidate_id for c, _ in with_it}) < _LEAST:
            continue
        apart = (sent_back - sum(back for _, back in with_it)) / left - _share(with_it)
        if apart < _APART or (best is not None and apart <= best[0]):
            continue
        without = [(c, back) for c, actions, back in worked if action not in actions]
        if len({c.candidate_id for c, back in without if back}) >= _LEAST:
            best = apart, action, with_it, without
    if best is None:
        return
    apart, action, with_it, without = best
    back, others = sum(b for _, b in with_it), sum(b for _, b in without)
    text = (
        f"changes with {action} in the same turn were sent back {back} of {len(with_it)} times, "
        f"changes without it {others} of {len(without)} times"
    )
    subject = f"changes with {action}"
    body = {
        "subject": subject,
        "signature": f"{subject} sent back",
        "steps": [CHANGE, action],
        "sessions": len({c.candidate_id for c, _ in with_it}),
    }
    for c in {c.candidate_id: c for c, sent in with_it if not sent}.values():
        yield _reworded(c, "procedure", text, "files were changed", body, confidence=min(0.8, 0.3 + apart / 2))


def _share(rows: Sequence[tuple[StoredCandidate, bool]]) -> float:
    return sum(back for _, back in rows) / len(rows)


def _reworded(c: StoredCandidate, kind: str, text: str, when: str, body: dict[str, Any], *, confidence: float) -> StoredCandidate:
    return c._replace(
        kind=kind,
        text=text,
        when_to_use=when,
        structured=json.dumps(body, ensure_ascii=False, sort_keys=True),
        confidence=round(confidence, 4),
        priority=3,
    )


ACTION_PATTERNS = Method(
    name="action_patterns",
    version=9,
    describe=(
        "Commands and changes that a project does one after the other, and actions that tell good turns from those sent back.\n\n"
        "Sequences of two to five actions that ended well, in at least two sessions, with how often the end follows (confidence) and "
        "how much more often than else (lift); of sequences inside one another with the same sessions the longest. A sequence of "
        "checks alone is left to project_conventions, and a sequence ends before what publishes, destroys or moves what others share. "
        "A turn is bad "
        "when the next prompt objects to it. Two requests that at least three sessions made one after the other are a procedure, with the "
        "person's words and the commands that most of those sessions ran. One session alone never becomes a memory."
    ),
    wants="two requests, or a check with more than git around it, that came one after the other in several sessions",
    extract=extract,
    combine=combine,
    by_repository=True,
    reads=("events", "tool_calls", "command_runs"),
    kinds=("prompt", "tool_call", "tool_result"),
)
