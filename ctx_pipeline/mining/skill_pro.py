"""Reusable skills: a part of a project that several sessions changed and checked alike, after Skill-Pro."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining.lessons.commands import form, harmless, outside
from ctx_pipeline.mining.lessons.failed_commands.changes import is_test
from ctx_pipeline.mining.lessons.failures import shorten_paths
from ctx_pipeline.mining.lessons.turns import describes, done, goal, last_check, tells, turns
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.mining.lessons.turns import Turn
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_LEAST, _MOST, _STEPS, _CALLS, _FILES = 2, 8, 12, 60, 8
_CHECKS = 2
"""Checks that are told."""

_BESIDE = (".md", ".rst", ".txt", ".json", ".toml", ".yaml", ".yml", ".lock")
"""Endings of files that change along with what a task is about."""


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield each turn that changed files, whose last check passed after it, and that the person did not correct.

    One such turn is no skill yet; see ``combine``.
    """
    found = [c for turn in view.once(turns) if (c := _solved(view, turn)) is not None]
    yield from found[:_MOST]


def _solved(view: SessionView, turn: Turn) -> MemoryCandidate | None:
    check = last_check(turn)
    if check is None or turn.corrected or len(turn.calls) > _CALLS:
        return None
    cwd = view.session.cwd
    files = list(dict.fromkeys(shorten_paths(p, cwd) for c in turn.edits for p in c.paths if not outside(p)))
    if not files or len(files) > _FILES:
        return None
    steps, calls = done(view, turn)
    command = harmless(check, cwd)
    if not command:
        return None
    task = goal(turn.ask) if tells(turn.ask) else ""
    evidence = [turn.prompt.event_id, *(c.call_event for c in calls[:4]), check.call.call_event, check.call.result_event]
    told = f"“{task}”: " if task else ""
    return MemoryCandidate(
        kind="skill",
        text=f"{told}{', '.join(steps[:_STEPS])}",
        when_to_use=task or None,
        evidence_refs=tuple(dict.fromkeys(evidence)),
        confidence=0.3,
        priority=2,
        risk="low",
        structured={
            "activation": task,
            "task": goal(turn.ask) if describes(turn.ask) else "",
            "steps": steps[:_STEPS],
            "termination": f"`{command}` passes",
            "verification": command,
            "narrowed": form(check, cwd).narrowed,
            "files": files,
        },
        subject=" ".join(sorted(files)),
        ts=check.call.ended,
    )


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return a skill for each file that at least two sessions of a repository changed and checked, biggest first.

    A turn supports one skill. A session that repeats another's calls (a fork) counts once.
    """
    places: dict[str, dict[Any, StoredCandidate]] = defaultdict(dict)
    for c in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        places[c.place].setdefault(c.ts or c.candidate_id, c)
    for _, members in sorted(places.items()):
        yield from _skills([(c, frozenset(c.body["files"])) for c in members.values()])


def _skills(left: list[tuple[StoredCandidate, frozenset[str]]]) -> Iterator[StoredCandidate]:
    """Yield the skills of one repository, of its turns with the files that each changed."""
    turns: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for c, files in left:
        for file in files:
            turns[file][c.host, c.session_id] += 1
    while shared := [(-len(who), file.endswith(_BESIDE), file) for file, who in turns.items() if len(who) >= _LEAST]:
        *_, file = min(shared)
        about = [(c, files) for c, files in left if file in files]
        left = [(c, files) for c, files in left if file not in files]
        for c, files in about:
            for changed in files:
                turns[changed][c.host, c.session_id] -= 1
                if not turns[changed][c.host, c.session_id]:
                    del turns[changed][c.host, c.session_id]
        yield from _skill(file, [c for c, _ in about])


def _skill(file: str, members: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    """Yield what goes with a file: another file, or a check that was narrowed to a part; without both there is nothing to tell."""
    count = len({(c.host, c.session_id) for c in members})
    beside = [(f, n) for f, n in _sessions_of(((f, c) for c in members for f in c.body["files"]), file) if n >= _LEAST][:_MOST_BESIDE]
    checks = _sessions_of(((c.body["verification"], c) for c in members), "")
    own = [(check, n) for check, n in _sessions_of(((c.body["verification"], c) for c in members if c.body["narrowed"]), "") if n >= _LEAST]
    asked = list(dict.fromkeys(c.body["activation"] for c in members if c.body["activation"]))
    if not asked or not (beside or (own and not is_test(file))):
        return
    check = (own or checks)[0][0]
    text = f"`{file}` was changed in {count} sessions"
    if beside:
        text += ", together with " + ", ".join(f"`{f}` ({n})" for f, n in beside)
    text += ", and checked with " + ", ".join(f"`{c}` ({n})" for c, n in (own or checks)[:_CHECKS])
    body = {
        "subject": file,
        "signature": file,
        "title": f"change {file.rpartition('/')[2]}",
        "activation": asked,
        "steps": [f"change `{file}`", *(f"see whether `{f}` changes with it" for f, _ in beside), f"run `{check}`"],
        "termination": f"`{check}` passes",
        "verification": [f"`{c}`" for c, _ in (own or checks)[: _CHECKS + 1]],
        "files": [file, *(f for f, _ in beside)],
        "sessions": count,
    }
    said = json.dumps(body, ensure_ascii=False, sort_keys=True)
    for c in members:
        yield c._replace(
            text=text, when_to_use=f"`{file}` is to be changed", structured=said, confidence=min(0.85, 0.45 + 0.1 * count), priority=3
        )


_MOST_BESIDE = 3


def _sessions_of(seen: Iterable[tuple[str, StoredCandidate]], without: str) -> list[tuple[str, int]]:
    """Return each name with the number of sessions it was seen in, the most frequent first, but for one name."""
    found: dict[str, set[tuple[str, str]]] = {}
    for name, c in seen:
        found.setdefault(name, set()).add((c.host, c.session_id))
    found.pop(without, None)
    return sorted(((name, len(who)) for name, who in found.items()), key=lambda f: -f[1])


SKILL_PRO = Method(
    name="skill_pro",
    version=6,
    describe=(
        "Parts of a project that several sessions changed and checked: what was asked, the files that go together, the check.\n\n"
        "A turn counts when it changed at most eight files of the project with at most sixty calls, a test, lint, type check or "
        "build passed after the last change, and the next prompt does not object. Turns of at least two sessions that changed the "
        "same file are one skill, with activation, steps, termination and verification, where another file goes with it or a check of "
        "a part follows it; a check that publishes or destroys is none; one turn alone never becomes a memory."
    ),
    wants=(
        "two sessions that were asked in words for a change of the same file, with another file or the check of a part beside it each time"
    ),
    extract=extract,
    combine=combine,
    by_repository=True,
    reads=("events", "tool_calls", "command_runs"),
    kinds=("prompt", "tool_call", "tool_result"),
)
