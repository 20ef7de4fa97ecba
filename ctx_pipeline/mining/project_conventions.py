"""How a project runs its tests, linters and builds, and in which order, as its sessions show it."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining.lessons import git_hooks, session_checks
from ctx_pipeline.mining.lessons.commands import listed
from ctx_pipeline.mining.lessons.recurring_checks import (
    ANYBODY,
    ANYBODYS_PART,
    HOW,
    LAUNCHED,
    LEAST,
    MOST_OTHERS,
    Habit,
    conventions,
    is_anybodys,
    kept_order,
)
from ctx_pipeline.mining.lessons.session_checks import BUILT, KINDS, OF_PACKAGE, ORDER, OWN_TASK, folder_of
from ctx_pipeline.model.declared import Method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.model.memories import MemoryCandidate, StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_WHEN = {
    "tests": "the tests of the project are run (how to test)",
    "lint and format": "code of the project is linted (which linter, how to lint)",
    "format": "code of the project is formatted (which formatter, how to format)",
    "format check": "it is checked whether code of the project is formatted (which formatter)",
    "type check": "types of the project are checked (which type checker)",
    "checks": "a change is to be checked",
    "build": "the project is built (how to build)",
    "order of checks": "work is checked before it is committed or handed over",
}
SUBJECT = "how the project is checked"
_ALONE = 3
"""Sessions that a habit needs when it is all that is known of a project."""


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield the checks that passed, the order in which they ran last, and the hooks of git that ran; alone a session proves no habit."""
    yield from git_hooks.extract(view)
    yield from session_checks.extract(view)


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return one lesson for each repository: how at least two of its sessions tested, linted, type-checked and built it.

    A single habit needs three sessions. The order is told where at least three sessions
    and three quarters of those that ran the same checks kept it, and no two of them are
    more often the other way round. A session that repeats another's calls (a fork) counts once.
    """
    places: dict[str, dict[str, dict[Any, StoredCandidate]]] = defaultdict(lambda: defaultdict(dict))
    for c in sorted(candidates, key=lambda c: (c.ts or 0, "commands" not in c.body, c.candidate_id)):
        places[c.place][c.subject].setdefault(c.ts or c.candidate_id, c)
    for _, subjects in sorted(places.items()):
        yield from git_hooks.combine(list(subjects[git_hooks.SUBJECT].values()))
        habits = [h for name in KINDS.values() if name in subjects for h in conventions(name, list(subjects[name].values()))]
        if (len(habits) > 1 or any(h.known >= _ALONE for h in habits)) and not all(map(is_anybodys, habits)):
            yield from _lessons(habits, kept_order(list(subjects[ORDER].values())), _beside(subjects, habits))
        elif not habits:
            seen = [
                h
                for name, members in _seen_once(subjects).items()
                for h in conventions(name, members, least=1)
                if not (h.parts and is_anybodys(h))
            ]
            if seen and not all(map(is_anybodys, seen)):
                yield from _lessons(seen, None, _beside(subjects, seen), once=True)
        if habits:
            yield from _packages(subjects, {c for h in habits for c in h.commands})


def _beside(subjects: Mapping[str, Mapping[Any, StoredCandidate]], habits: Sequence[Habit]) -> dict[str, list[StoredCandidate]]:
    """Return what else checks a project, newest first: tasks that it named itself, and what one session ran well with another program."""
    programs = {_program(text) for h in habits for text in (*h.commands, *h.parts)}
    known = " ".join(h.text for h in habits)
    found: dict[str, list[StoredCandidate]] = defaultdict(list)
    members = sorted((c for name in KINDS.values() for c in subjects.get(name, {}).values()), key=lambda c: -(c.ts or 0))
    for c in members:
        tasks = [
            text for text in c.body.get("tasks", ()) if not any(":" in w and w in known.replace("`", " ").split() for w in text.split())
        ]
        others = [
            text
            for text in c.body.get("often", ())
            if _program(text) not in programs and not (ANYBODY.fullmatch(text) or ANYBODYS_PART.fullmatch(text))
        ]
        for text in dict.fromkeys(t for t in (*tasks, *others) if not _package(t)):
            found[text].append(c)
    return dict(list(found.items())[:MOST_OTHERS])


def _program(text: str) -> str:
    """Return the program of a check, without its folder, environment, variables and what launches it."""
    return LAUNCHED.sub("", _ASSIGNED.sub("", text.rpartition(" && ")[2])).split(maxsplit=1)[0]


_ASSIGNED = re.compile(r"^(?:[A-Za-z_]\w*=\S* )+")


def _package(text: str) -> str:
    """Return the package, or the folder that needs an option to be built, that a check is of; empty for the whole project."""
    chosen_by = OF_PACKAGE.search(text)
    folder = folder_of(text) if BUILT.search(text) else ""
    return chosen_by[1].removesuffix("/Cargo.toml") if chosen_by else "" if folder == "path" else folder


def _packages(subjects: Mapping[str, Mapping[Any, StoredCandidate]], told: set[str]) -> Iterator[StoredCandidate]:
    """Yield how a package of a project is checked by itself, as two sessions did, or one again and again."""
    found: dict[str, dict[str, dict[str, list[StoredCandidate]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for name in KINDS.values():
        for c in subjects.get(name, {}).values():
            for text in dict.fromkeys((*c.body.get("commands", ()), *c.body.get("narrowed", ()), *c.body.get("parts", ()))):
                if (package := _package(text)) and text not in told:
                    found[package][name][text].append(c)
    for package, kinds in sorted(found.items()):
        kept = {c.candidate_id: c for texts in kinds.values() for by in texts.values() for c in by}
        sessions = {(c.host, c.session_id) for c in kept.values()}
        often = any(text in c.body.get("often", ()) for texts in kinds.values() for text, by in texts.items() for c in by)
        if len(sessions) < LEAST and not often:
            continue
        chosen = {name: max(texts, key=lambda text: (len(texts[text]), -len(text), text)) for name, texts in kinds.items()}
        subject = f"{SUBJECT}: {package}"
        body = {"subject": subject, "signature": subject, "commands": list(chosen.values()), "sessions": len(sessions)}
        body |= {"once": True} if len(sessions) < LEAST else {}
        for c in kept.values():
            yield c._replace(
                text=f"in `{package}`: {'; '.join(f'{HOW[name]} `{text}`' for name, text in chosen.items())}",
                when_to_use=f"`{package}` is changed",
                structured=json.dumps(body, ensure_ascii=False, sort_keys=True),
                confidence=_SEEN_ONCE if len(sessions) < LEAST else 0.6,
                priority=3,
            )


def _seen_once(subjects: Mapping[str, Mapping[Any, StoredCandidate]]) -> dict[str, list[StoredCandidate]]:
    """Return by kind what is told of sessions that agree in nothing.

    What passed more than once in its session; of other kinds the project's own tasks, where a session passed checks of two kinds.
    """
    passed = {name: [c for c in subjects[name].values() if "commands" in c.body] for name in KINDS.values() if name in subjects}
    checks = {name: members for name, members in passed.items() if members}
    kinds = Counter((c.host, c.session_id) for members in checks.values() for c in members)
    found: dict[str, list[StoredCandidate]] = {}
    for name, members in checks.items():
        whole = [c for c in members if kinds[c.host, c.session_id] > 1]
        seen = _only(members, lambda c: c.body.get("often", ())) or _only(whole, lambda c: list(filter(OWN_TASK.match, c.body["commands"])))
        found |= {name: seen} if seen else {}
    return found


def _only(members: Iterable[StoredCandidate], chosen: Callable[[StoredCandidate], Sequence[str]]) -> list[StoredCandidate]:
    """Return candidates with the chosen of their commands; none of those without one."""
    found = []
    for c in members:
        kept = chosen(c)
        body = c.body | {name: [t for t in c.body.get(name, ()) if t in kept] for name in ("commands", "narrowed")}
        if body["commands"] or body["narrowed"]:
            found.append(c._replace(structured=json.dumps(body, ensure_ascii=False, sort_keys=True)))
    return found


def _lessons(
    habits: Sequence[Habit], order: Habit | None, beside: Mapping[str, Sequence[StoredCandidate]], *, once: bool = False
) -> Iterator[StoredCandidate]:
    parts = [*habits, order] if order else list(habits)
    body = {
        "subject": SUBJECT,
        "signature": SUBJECT,  # a repository has one, and it stays the same memory whatever the counts are
        "kinds": [h.kind for h in parts],
        "commands": list(dict.fromkeys(c for h in habits for c in h.commands)),
        "narrowed": next((h.narrowed for h in habits if h.narrowed), ""),
        "sessions": len({(c.host, c.session_id) for h in parts for c in h.kept}),
        "sessions_by_command": {c: n for h in habits for c, n in h.counts.items()},
    }
    if order:
        body["steps"] = order.commands
    if once:
        body["once"] = True
    said = json.dumps(body, ensure_ascii=False, sort_keys=True)
    share = sum(h.share for h in habits) / len(habits)
    told = {c.candidate_id: c for kept in (*(h.kept for h in parts), *beside.values()) for c in kept}
    others = [f"other checks that passed: {listed(list(beside))}"] if beside else []
    for c in told.values():
        yield c._replace(
            text="; ".join([*(h.text for h in parts), *others]),
            when_to_use=", ".join(_WHEN[h.kind] for h in parts),
            structured=said,
            confidence=_SEEN_ONCE if once else round(share, 4),
            priority=3 if once else 4,
        )


_SEEN_ONCE = 0.4
"""Confidence of what one session did again and again and no other did."""


PROJECT_CONVENTIONS = Method(
    name="project_conventions",
    version=17,
    describe=(
        "Commands with which at least two sessions of a project tested, linted, type-checked or built it, and the order of them.\n\n"
        "Counted are commands that passed, and sessions in which one that passed elsewhere failed with findings of its own, but for those "
        "that deploy, publish or destroy; calls that add options alone, which choose no part of the work and rewrite nothing, add up. "
        "A project has one memory of them: for each "
        "kind the command that most sessions ran, two where they are nearly as frequent, the later one where it took the place of the "
        "other and how it is narrowed to some tests; and the order where three sessions and "
        "three quarters of those that ran the same checks kept it. The counts stand in the body, not in the text. A single habit needs "
        "three sessions; what one session alone ran more than once is kept, as are the project's own "
        "tasks that it ran beside other checks. The folder, the activated "
        "environment and the variables that every passing run had are part of a command. "
        "Where all of it is what anybody would try first (npm test, cargo build) nothing "
        "is told. Tasks that the project named itself stand beside the habits, and how "
        "a package or a folder that needs an option is checked is a lesson of its own. "
        "Hooks of git that ran at two commits or pushes are a fact of their own, with their steps and how many failed."
    ),
    extract=extract,
    combine=combine,
    reads=("events", "tool_calls", "command_runs"),
    kinds=("tool_call", "tool_result"),
)
