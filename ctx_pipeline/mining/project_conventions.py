"""How a project runs its tests, linters and builds, and in which order, as its sessions show it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining._runs import form, listed, runs
from ctx_pipeline.model.commands import steps
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.mining._runs import Run
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_NAMES = {"test": "tests", "lint": "lint and format", "types": "type check", "build": "build"}
_WHEN = {
    "tests": "the tests of the project are run",
    "lint and format": "code of the project is linted or formatted",
    "type check": "types of the project are checked",
    "build": "the project is built",
}
_HOW = {
    "tests": "run the tests with",
    "lint and format": "lint and format with",
    "type check": "check the types with",
    "build": "build with",
}
_ASKING = ("command ", "which ", "type ")
"""Begins a line that asks whether a program is there."""

_ORDER = "order of checks"
_LEAST = 2
"""Sessions that make a habit."""

_MOST_OTHERS = 3


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield for each kind of check the commands that passed, and the order in which they ran last; alone it proves no habit."""
    cwd = view.session.cwd
    checks = [
        r for run in view.once(runs) if run.passed for r in _each(run) if r.step.purpose in _NAMES and not r.step.text.startswith(_ASKING)
    ]
    by_purpose: dict[str, list[Run]] = defaultdict(list)
    for run in checks:
        by_purpose[run.step.purpose].append(run)
    for purpose, members in by_purpose.items():
        whole: Counter[str] = Counter()
        narrowed = ""
        for run in members:
            made = form(run, cwd)
            if made.narrowed:
                narrowed = narrowed or (made.text if purpose == "test" else "")
            else:
                whole[made.text] += 1
        if whole or narrowed:
            commands = [text for text, _ in whole.most_common(4)]
            yield _candidate(
                _NAMES[purpose],
                f"{_NAMES[purpose]}: {listed(commands or [narrowed])}",
                {"commands": commands, "narrowed": narrowed},
                members,
            )
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
    """Return what at least two sessions of a repository did alike, with how many of them did so.

    A session that repeats another's calls (a fork) counts once.
    """
    groups: dict[tuple[str, str], dict[Any, StoredCandidate]] = defaultdict(dict)
    for c in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        groups[c.repository or c.cwd or "", c.subject].setdefault(c.ts or c.candidate_id, c)
    for (_, subject), members in sorted(groups.items()):
        yield from _order(list(members.values())) if subject == _ORDER else _habit(subject, list(members.values()))


def _habit(subject: str, members: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    used: Counter[str] = Counter(text for c in members for text in dict.fromkeys(c.body.get("commands", ())))
    ranked = [(text, n) for text, n in used.most_common() if n >= _LEAST]
    narrowed = next((c.body["narrowed"] for c in reversed(members) if c.body.get("narrowed")), "")
    if not ranked:
        return
    (top, times), others = ranked[0], ranked[1 : 1 + _MOST_OTHERS]
    text = f"{_HOW[subject]} `{top}` ({times} of {len(members)} sessions)"
    if others:
        text += ", also " + ", ".join(f"`{t}` ({n})" for t, n in others)
    if narrowed:
        text += f"; only some: `{narrowed}`"
    body = {"subject": f"how {subject} run", "commands": [top, *(t for t, _ in others)], "narrowed": narrowed, "sessions": times}
    kept = [c for c in members if top in c.body.get("commands", ())]
    yield from _told(kept, text, _WHEN[subject], body, (times + 1) / (len(members) + 2))


def _order(members: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    orders = [tuple(c.body.get("order", ())) for c in members]
    counted = {chosen: sum(_within(chosen, whole) for whole in orders) for chosen in _pieces(orders)}
    known = [(n, len(chosen), chosen) for chosen, n in counted.items() if n >= _LEAST]
    if not known:
        return
    times, _, chosen = max(known, key=lambda k: (k[0] * (k[1] - 1), k))
    both = sum(set(chosen) <= set(whole) for whole in orders)
    text = f"{' → '.join(f'`{t}`' for t in chosen)}, in this order in {times} of {both} sessions that ran them"
    body = {"subject": _ORDER, "steps": list(chosen), "sessions": times}
    kept = [c for c, whole in zip(members, orders, strict=True) if _within(chosen, whole)]
    if times * 2 > both:
        yield from _told(kept, text, "work is checked before it is committed or handed over", body, (times + 1) / (both + 2))


def _pieces(orders: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    from itertools import combinations

    return {piece for whole in orders for size in range(2, len(whole) + 1) for piece in combinations(whole, size)}


def _within(chosen: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    rest = iter(whole)
    return all(text in rest for text in chosen)


def _told(kept: Sequence[StoredCandidate], text: str, when: str, body: dict[str, Any], share: float) -> Iterator[StoredCandidate]:
    said = json.dumps(body, ensure_ascii=False, sort_keys=True)
    for c in kept:
        yield c._replace(text=text, when_to_use=when, structured=said, confidence=round(share, 4), priority=4)


PROJECT_CONVENTIONS = Method(
    name="project_conventions",
    version=2,
    describe=(
        "Commands with which at least two sessions of a project tested, linted, type-checked or built it, and the order of them.\n\n"
        "Counted are commands that passed. A habit names the command that most sessions ran, the others, one call that was "
        "narrowed to some tests, and in how many sessions; what one session did is no habit and never becomes a memory."
    ),
    extract=extract,
    combine=combine,
    reads=("events", "tool_calls"),
    kinds=("tool_call", "tool_result"),
)
