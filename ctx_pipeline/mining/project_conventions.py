"""How a project runs its tests, linters and builds, and in which order, as its sessions show it."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.mining._runs import as_pattern, form, listed, runs
from ctx_pipeline.model.commands import steps
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.model.proposals import dangers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.mining._runs import Run
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_NAMES = {"test": "tests", "lint": "lint and format", "types": "type check", "build": "build"}
_HOW = {
    "tests": "run the tests with",
    "lint and format": "lint with",
    "format": "format with",
    "type check": "check the types with",
    "build": "build with",
}
_WHEN = {
    "tests": "the tests of the project are run (how to test)",
    "lint and format": "code of the project is linted (which linter, how to lint)",
    "format": "code of the project is formatted (which formatter, how to format)",
    "type check": "types of the project are checked (which type checker)",
    "build": "the project is built (how to build)",
    "order of checks": "work is checked before it is committed or handed over",
}
_FORMATS = re.compile(r"\b(?:fmt|format|gofmt|prettier|black)\b")
_ASKING = ("command ", "which ", "type ")
"""Begins a line that asks whether a program is there."""

_ORDER = "order of checks"
SUBJECT = "how the project is checked"
_LEAST, _ORDERED, _CLEAR = 2, 3, 0.75
"""Sessions that make a habit, sessions that make an order, and the share of sessions with the same checks that keep it."""

_MOST_OTHERS = 2


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield for each kind of check the commands that passed, and the order in which they ran last; alone it proves no habit."""
    cwd = view.session.cwd
    checks = [
        r
        for run in view.once(runs)
        if run.passed
        for r in _each(run)
        if r.step.purpose in _NAMES and not r.step.text.startswith(_ASKING) and not dangers(r.step.text)
    ]
    by_purpose: dict[str, list[Run]] = defaultdict(list)
    for run in checks:
        by_purpose[run.step.purpose].append(run)
    for purpose, members in by_purpose.items():
        whole: Counter[str] = Counter()
        some: Counter[str] = Counter()
        for run in members:
            made = form(run, cwd)
            if made.narrowed:
                some[as_pattern(made.text, run.step.subject)] += purpose == "test"
            else:
                whole[made.text] += 1
        commands, narrowed = ([text for text, _ in found.most_common(4)] for found in (whole, +some))
        if commands or narrowed:
            body = {"commands": commands, "narrowed": narrowed}
            yield _candidate(_NAMES[purpose], f"{_NAMES[purpose]}: {listed(commands or narrowed[:1])}", body, members)
    last = _last_order(checks, cwd)
    if len(last) > 1:
        texts = [form(run, cwd).text for run in last]
        yield _candidate(_ORDER, " → ".join(f"`{t}`" for t in texts), {"order": texts}, last)


def _each(run: Run) -> list[Run]:
    """Return a run for every step of a line that passed: in ``a && b`` both did."""
    found = steps(run.command)
    return [replace(run, step=s) for s in found] if len(found) > 1 and "||" not in run.command else [run]


def _candidate(subject: str, text: str, body: dict[str, Any], members: Sequence[Run]) -> MemoryCandidate:
    calls = list({r.call.call_event: r for r in members}.values())
    shown = calls if subject == _ORDER else calls[:2]
    return MemoryCandidate(
        kind="repo_convention",
        text=text,
        evidence_refs=tuple(e for r in shown for e in (r.call.call_event, r.call.result_event)),
        confidence=0.3,
        priority=2,
        risk="low",
        structured=body,
        subject=subject,
        ts=members[0].call.ended,
    )


def _last_order(checks: Sequence[Run], cwd: str | None) -> list[Run]:
    """Return the whole checks that passed at the end, each once, in the order of their last runs in the thread that ran most."""
    threads: dict[str, dict[str, Run]] = defaultdict(dict)
    for run in checks:
        made = form(run, cwd)
        if not made.narrowed:
            threads[run.call.thread_id].pop(run.step.subject, None)
            threads[run.call.thread_id][run.step.subject] = run
    most = max(threads.values(), key=len, default={})
    return list(most.values())[-5:]


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return one lesson for each repository: how at least two of its sessions tested, linted, type-checked and built it.

    The order is told where at least three sessions and three quarters of those that ran
    the same checks kept it, and no two of them are more often the other way round. A
    session that repeats another's calls (a fork) counts once.
    """
    places: dict[str, dict[str, dict[Any, StoredCandidate]]] = defaultdict(lambda: defaultdict(dict))
    for c in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        places[c.repository or c.cwd or ""][c.subject].setdefault(c.ts or c.candidate_id, c)
    for _, subjects in sorted(places.items()):
        habits = [h for name in _NAMES.values() if name in subjects for h in _habits(name, list(subjects[name].values()))]
        if habits:
            yield from _told(habits, _order(list(subjects[_ORDER].values())))


class _Habit(NamedTuple):
    """What sessions of a repository did alike."""

    kind: str
    text: str
    commands: list[str]
    narrowed: str
    share: float
    kept: list[StoredCandidate]


def _habits(subject: str, members: Sequence[StoredCandidate]) -> Iterator[_Habit]:
    used: Counter[str] = Counter(text for c in members for text in dict.fromkeys(c.body.get("commands", ())))
    ranked = [(text, n) for text, n in used.most_common() if n >= _LEAST]
    some = Counter(text for c in members for text in c.body.get("narrowed", ()))
    (narrowed, part), *_ = (*some.most_common(1), ("", 0))
    formats = [r for r in ranked if subject == "lint and format" and _FORMATS.search(r[0])]
    if not ranked and part >= _LEAST:
        kept = [c for c in members if narrowed in c.body["narrowed"]]
        text = f"run some of the tests with `{narrowed}` ({part} of {len(members)} sessions)"
        yield _Habit(subject, text, [], narrowed, (part + 1) / (len(members) + 2), kept)
    for name, rows in ((subject, [r for r in ranked if r not in formats]), ("format", formats)):
        if not rows:
            continue
        (top, times), others = rows[0], rows[1 : 1 + _MOST_OTHERS]
        total = len(members) if subject != "lint and format" else sum(_does(name, c) for c in members)
        text = f"{_HOW[name]} `{top}` ({times} of {total} sessions)"
        if others:
            text += ", also " + ", ".join(f"`{t}` ({n})" for t, n in others)
        if narrowed:
            text += f", only some with `{narrowed}`"
        kept = [c for c in members if top in c.body.get("commands", ())]
        yield _Habit(name, text, [top, *(t for t, _ in others)], narrowed, (times + 1) / (total + 2), kept)


def _does(name: str, c: StoredCandidate) -> bool:
    """Tell whether a session formatted, or linted otherwise."""
    return any(bool(_FORMATS.search(text)) == (name == "format") for text in c.body.get("commands", ()))


def _order(members: Sequence[StoredCandidate]) -> _Habit | None:
    orders = [tuple(c.body.get("order", ())) for c in members]
    counted = {chosen: sum(_within(chosen, whole) for whole in orders) for chosen in _pieces(orders)}
    clear = [(n, len(chosen), chosen) for chosen, n in counted.items() if n >= _ORDERED and _clear(chosen, counted, orders)]
    if not clear:
        return None
    times, _, chosen = max(clear, key=lambda k: (k[0] * (k[1] - 1), k))
    both = sum(set(chosen) <= set(whole) for whole in orders)
    text = f"in the order {' → '.join(f'`{t}`' for t in chosen)} ({times} of {both} sessions that ran them)"
    kept = [c for c, whole in zip(members, orders, strict=True) if _within(chosen, whole)]
    return _Habit(_ORDER, text, list(chosen), "", (times + 1) / (both + 2), kept)


def _clear(chosen: tuple[str, ...], counted: Mapping[tuple[str, ...], int], orders: Sequence[tuple[str, ...]]) -> bool:
    """Tell whether a clear majority keeps an order, in all and of each two."""
    from itertools import combinations

    both = sum(set(chosen) <= set(whole) for whole in orders)
    pairs = ((counted.get(pair, 0), counted.get(pair[::-1], 0)) for pair in combinations(chosen, 2))
    return counted[chosen] >= _CLEAR * both and all(there >= _CLEAR * (there + back) for there, back in pairs)


def _pieces(orders: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    from itertools import combinations

    return {piece for whole in orders for size in range(2, len(whole) + 1) for piece in combinations(whole, size)}


def _within(chosen: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    rest = iter(whole)
    return all(text in rest for text in chosen)


def _told(habits: Sequence[_Habit], order: _Habit | None) -> Iterator[StoredCandidate]:
    parts = [*habits, order] if order else list(habits)
    body = {
        "subject": SUBJECT,
        "kinds": [h.kind for h in parts],
        "commands": list(dict.fromkeys(c for h in habits for c in h.commands)),
        "narrowed": next((h.narrowed for h in habits if h.narrowed), ""),
        "sessions": len({(c.host, c.session_id) for h in parts for c in h.kept}),
    }
    if order:
        body["steps"] = order.commands
    said = json.dumps(body, ensure_ascii=False, sort_keys=True)
    share = sum(h.share for h in habits) / len(habits)
    told = {c.candidate_id: c for h in parts for c in h.kept}
    for c in told.values():
        yield c._replace(
            text="; ".join(h.text for h in parts),
            when_to_use=", ".join(_WHEN[h.kind] for h in parts),
            structured=said,
            confidence=round(share, 4),
            priority=4,
        )


PROJECT_CONVENTIONS = Method(
    name="project_conventions",
    version=4,
    describe=(
        "Commands with which at least two sessions of a project tested, linted, type-checked or built it, and the order of them.\n\n"
        "Counted are commands that passed, but for those that deploy, publish or destroy. A project has one memory of them: for each "
        "kind the command that most sessions ran, the others, how it is narrowed to some tests, and in how many sessions; and the "
        "order where three sessions and three quarters of those that ran the same checks kept it. What one session did is no habit "
        "and never becomes a memory."
    ),
    extract=extract,
    combine=combine,
    reads=("events", "tool_calls"),
    kinds=("tool_call", "tool_result"),
)
