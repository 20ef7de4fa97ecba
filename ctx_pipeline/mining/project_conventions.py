"""How a project runs its tests, linters and builds, and in which order, as its sessions show it."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.mining.lessons import git_hooks
from ctx_pipeline.mining.lessons.commands import as_pattern, checks_format, form, formats, listed, runs
from ctx_pipeline.mining.lessons.failures import clean, shorten_paths
from ctx_pipeline.mining.lessons.proof import TELLS
from ctx_pipeline.mining.lessons.quoting import a_name
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.shell.command_risk import dangers
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView


# What a task runner says that it runs: mise run test:ci is go test -race ./....


_ECHOES = re.compile(
    r"^(?:\[(?P<mise>[\w:.-]+)\] \$|task: \[(?P<task>[\w:.-]+)\]|> \S+@\S* (?P<npm>[\w:.-]+)(?: /\S+)?\r?\n>|\$) (?P<runs>\S.*)$",
    re.MULTILINE,
)
"""Lines of mise, go-task, npm and pnpm, which name the task, and of yarn and bun, which do not."""

_PLAIN = frozenset({"make", "just"})
"""Runners that print the command as it stands."""

_BEGINNING, _LONGEST = 20_000, 100


def echoed(run: Run, cwd: str | None) -> str:
    """Return the one command that a task runner said it ran for a check; empty where it said none, several, or something else.

    What it ran is a check of the same purpose: a script of the project says nothing to whoever does not know it.
    """
    output = run.output[:_BEGINNING]
    words = run.step.words
    said = {m["runs"] for m in _ECHOES.finditer(output) if (m["mise"] or m["task"] or m["npm"] or words[-1]) in words}
    if not said and words and words[0] in _PLAIN:
        first = next((line for line in output.splitlines() if line.strip()), "")
        said = {first} if first else set()
    if len(said) != 1:
        return ""
    command = clean(shorten_paths(said.pop().strip(), cwd)).replace("`", "'")
    purposes = [s.purpose for s in steps(command)]
    whole = len(command) <= _LONGEST and "$(" not in command and not command.endswith("…")
    return command if whole and purposes == [run.step.purpose] and command != run.step.text and not dangers(command) else ""


def added_arguments(base: str, other: str) -> list[str]:
    """Return the arguments that a command adds to another one; none where it leaves something out."""
    first, second = base.split(), other.split()
    return [w for w in second if w not in first] if base and set(first) <= set(second) else []


_NAMES = {"test": "tests", "lint": "lint and format", "types": "type check", "check": "checks", "build": "build"}
_HOW = {
    "tests": "run the tests with",
    "lint and format": "lint with",
    "format": "format with",
    "format check": "check the formatting with",
    "type check": "check the types with",
    "checks": "check the work with",
    "build": "build with",
}
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
_ASKING = ("command ", "which ", "type ")
"""Begins a line that asks whether a program is there."""

_LAUNCHED = re.compile(r"^(?:(?:uv|poetry|pipenv|rye|hatch|pdm|pixi|bundle)\s+(?:run|exec)|npx|bunx|pnpx|uvx|python3?\s+-m)\s+")
"""What starts a program in the project's environment: the same check with and without it."""

_ANYBODY = re.compile(
    r"(?:npm|pnpm|yarn|bun)(?: run)? (?:test|build|lint|start)|cargo (?:test|build|check|clippy|fmt)(?: --all)?(?: --check)?"
    r"|go (?:test|build|vet) \./\.\.\.|gofmt -[lw] \.|(?:python3? -m )?pytest|make(?: (?:test|build|all))?"
    r"|(?:mvn|gradle|\./gradlew|\./mvnw) (?:test|build|package)|dotnet (?:test|build)|mix test|rake(?: test)?|swift (?:test|build)"
)
"""What anybody tries first in a project of its kind: a lesson that says no more than this says nothing."""

_ANYBODYS_PART = re.compile(
    r"(?:python3? -m )?pytest(?: FILE(?:::NAME)?)*(?: -k NAME)?|cargo test NAME|go test (?:-run NAME )?\./path/(?:\.\.\.)?(?: -run NAME)?"
)
"""How anybody runs some of the tests."""

_ORDER = "order of checks"
SUBJECT = "how the project is checked"
_LEAST, _ORDERED, _CLEAR = 2, 3, 0.75
"""Sessions that make a habit, sessions that make an order, and the share of sessions with the same checks that keep it."""

_ALONE = 3
"""Sessions that a habit needs when it is all that is known of a project."""

_TIED, _FOLLOWS = 0.75, 0.5
"""Share of the most frequent command's sessions from which another one is as much the habit, and from which it has taken its place."""

_MOST_OTHERS = 2


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield for each kind of check the commands that passed, the order in which they ran last, and the hooks of git that ran.

    Alone a session proves no habit.
    """
    yield from git_hooks.extract(view)
    cwd = view.session.cwd
    checks = [
        r
        for run in view.once(runs)
        if run.passed
        for r in _each(run)
        if r.step.purpose in _NAMES and _runs_it(r.step.text) and not dangers(r.step.text)
    ]
    by_purpose: dict[str, list[Run]] = defaultdict(list)
    for run in checks:
        by_purpose[run.step.purpose].append(run)
    well = Counter(form(r, cwd).text for run in view.once(runs) if run.well and not run.row.pipeline for r in _each(run))
    for purpose, members in by_purpose.items():
        whole: Counter[str] = Counter()
        some: Counter[str] = Counter()
        of_parts: Counter[str] = Counter()
        does: dict[str, str] = {}
        ended_well: set[str] = set()
        tasks: dict[str, None] = {}
        shows: dict[str, Run] = {}
        needs = _needed(members, cwd)
        for run in members:
            made = form(run, cwd)
            before = needs.get(made.text, "")
            text = before + (as_pattern(made.text, run.step.subject) if made.narrowed else made.text)
            if made.narrowed:
                some[text] += purpose == "test"
                if part := _of_part(made.text):
                    of_parts[before + part] += 1
                    shows.setdefault(before + part, run)
            else:
                whole[text] += 1
                does |= {text: said} if (said := echoed(run, cwd)) else {}
            ended_well |= {text} if well[made.text] >= _OFTEN else set()
            shows.setdefault(text, run)
            tasks |= {text: None} if _TASK.match(run.step.subject) else {}
        commands, narrowed, parts = ([text for text, _ in found.most_common(4)] for found in (whole, +some, +of_parts))
        if commands or narrowed or parts:
            counted = +(whole + some + of_parts)
            often = [text for text, times in counted.items() if times >= _OFTEN or text in ended_well]
            body: dict[str, Any] = {"commands": commands, "narrowed": narrowed}
            body |= {k: v for k, v in (("does", does), ("often", often), ("parts", parts), ("tasks", list(tasks)[:4])) if v}
            first = [r for r in members if commands and needs.get((f := form(r, cwd).text), "") + f == commands[0]]
            text = f"{_NAMES[purpose]}: {listed(commands or (narrowed or parts)[:1])}"
            own = [t for t in commands if _OWN_TASK.match(t)]
            beside = [shows[t] for t in (*parts[:2], *list(tasks)[:2], *often[:2], *own[:2])]
            yield _candidate(_NAMES[purpose], text, body, [*first[:1], *(m for m in members if m not in first[:1])], beside)
    last = _last_order(checks, cwd)
    if len(last) > 1:
        texts = [form(run, cwd).text for run in last]
        yield _candidate(_ORDER, " → ".join(f"`{t}`" for t in texts), {"order": texts}, last)


def _needed(members: Sequence[Run], cwd: str | None) -> dict[str, str]:
    """Return form of a check -> what stood before it in every run that passed: its folder, the environment, variables."""
    before: dict[str, set[str]] = defaultdict(set)
    for run in members:
        before[form(run, cwd).text].add(_prefix(run, cwd))
    return {text: next(iter(found)) for text, found in before.items() if len(found) == 1}


def _prefix(run: Run, cwd: str | None) -> str:
    folder = str(run.row.folder or "")
    below = folder.removeprefix(f"{cwd.rstrip('/')}/") if cwd else ""
    inside = f"cd {below} && " if below and below != folder and a_name(below) else ""
    activated = _ACTIVATES.search(run.command.partition(run.step.text)[0])
    fits = [w for w in run.row.environment if _VARIABLE.fullmatch(w)]
    variables = "".join(f"{w} " for w in fits) if len(fits) == len(run.row.environment) else ""
    return f"{inside}{activated[0] if activated else ''}{variables}"


def _of_part(text: str) -> str:
    """Return a narrowed check as it checks all of a package, or all of a folder that needs an option to be built; empty for others."""
    if not _OF_PACKAGE.search(text) and not (_BUILT.search(text) and _folder_of(text)):
        return ""
    words = text.split()
    left_out = {i for i, w in enumerate(words) if w in ("-run", "-k") for i in (i, i + 1)}
    return " ".join(w for i, w in enumerate(words) if i not in left_out)


def _folder_of(text: str) -> str:
    """Return the one folder that a check is about; empty where it names none or several."""
    folders = [w for w in text.split()[1:] if _FOLDER.fullmatch(w)]
    return folders[0].removeprefix("./").removesuffix("...").strip("/") if len(folders) == 1 else ""


_FOLDER = re.compile(r"(?:\./)?[\w@-][\w.@-]*(?:/[\w.@-]+)*(?:/(?:\.\.\.)?)|\./[\w@-][\w./@-]*")
_BUILT = re.compile(r"(?:^|\s)(?:-tags|--tags|--features)[ =]\S+")
"""An option without which some code is not built, and its tests do not run."""

_TASK = re.compile(r"(?:mise|just|task|make|npm|pnpm|yarn|bun|rake|composer|poe)\b.*[\w-]:[\w-]")
"""A task that the project itself named for a part of its checks: ``mise test:integration``."""

_OWN_TASK = re.compile(r"(?:mise|just|task|make|(?:npm|pnpm|yarn|bun) run|rake|composer|poe)\s+\S")
"""A task of the project: that it passed shows that it is there, and for what."""

_ACTIVATES = re.compile(r"(?:source|\.) (?:\./)?[\w.-]+/bin/activate && ")
_VARIABLE = re.compile(r"[A-Za-z_]\w{0,40}=[\w./:,+-]{1,60}")
"""A variable with a value that is a name, a path or an address without a password."""

_OFTEN = 2
"""Passes in one session from which a check that no other session ran is told, as something that one session saw."""


def _runs_it(text: str) -> bool:
    return not text.startswith(_ASKING) and TELLS.isdisjoint(text.split())


def _each(run: Run) -> list[Run]:
    """Return a run for every step of a line that passed: in ``a && b`` both did."""
    found = steps(run.command)
    return [replace(run, step=s) for s in found] if len(found) > 1 and "||" not in run.command else [run]


def _candidate(subject: str, text: str, body: dict[str, Any], members: Sequence[Run], beside: Sequence[Run] = ()) -> MemoryCandidate:
    calls = list({r.call.call_event: r for r in members}.values())
    shown = calls if subject == _ORDER else [*calls[:2], *beside]
    return MemoryCandidate(
        kind="repo_convention",
        text=text,
        evidence_refs=tuple(dict.fromkeys(e for r in shown for e in (r.call.call_event, r.call.result_event))),
        confidence=0.3,
        priority=2,
        risk="low",
        structured=body,
        subject=subject,
        ts=min((r.call.ended for r in members if r.call.ended), default=None),
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

    A single habit needs three sessions. The order is told where at least three sessions
    and three quarters of those that ran the same checks kept it, and no two of them are
    more often the other way round. A session that repeats another's calls (a fork) counts once.
    """
    places: dict[str, dict[str, dict[Any, StoredCandidate]]] = defaultdict(lambda: defaultdict(dict))
    for c in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        places[c.place][c.subject].setdefault(c.ts or c.candidate_id, c)
    for _, subjects in sorted(places.items()):
        yield from git_hooks.combine(list(subjects[git_hooks.SUBJECT].values()))
        habits = [h for name in _NAMES.values() if name in subjects for h in _conventions(name, list(subjects[name].values()))]
        if (len(habits) > 1 or any(h.known >= _ALONE for h in habits)) and not all(map(_anybodys, habits)):
            yield from _lessons(habits, _order(list(subjects[_ORDER].values())), _beside(subjects, habits))
        elif not habits:
            seen = [
                h
                for name, members in _seen_once(subjects).items()
                for h in _conventions(name, members, least=1)
                if not (h.parts and _anybodys(h))
            ]
            if seen and not all(map(_anybodys, seen)):
                yield from _lessons(seen, None, _beside(subjects, seen), once=True)
        if habits:
            yield from _packages(subjects, {c for h in habits for c in h.commands})


def _beside(subjects: Mapping[str, Mapping[Any, StoredCandidate]], habits: Sequence[_Habit]) -> dict[str, list[StoredCandidate]]:
    """Return what else checks a project, newest first: tasks that it named itself, and what one session ran well with another program."""
    programs = {_program(text) for h in habits for text in (*h.commands, *h.parts)}
    known = " ".join(h.text for h in habits)
    found: dict[str, list[StoredCandidate]] = defaultdict(list)
    members = sorted((c for name in _NAMES.values() for c in subjects.get(name, {}).values()), key=lambda c: -(c.ts or 0))
    for c in members:
        tasks = [
            text for text in c.body.get("tasks", ()) if not any(":" in w and w in known.replace("`", " ").split() for w in text.split())
        ]
        others = [
            text
            for text in c.body.get("often", ())
            if _program(text) not in programs and not (_ANYBODY.fullmatch(text) or _ANYBODYS_PART.fullmatch(text))
        ]
        for text in dict.fromkeys(t for t in (*tasks, *others) if not _package(t)):
            found[text].append(c)
    return dict(list(found.items())[:_MOST_OTHERS])


def _program(text: str) -> str:
    """Return the program of a check, without its folder, environment, variables and what launches it."""
    return _LAUNCHED.sub("", _ASSIGNED.sub("", text.rpartition(" && ")[2])).split(maxsplit=1)[0]


_ASSIGNED = re.compile(r"^(?:[A-Za-z_]\w*=\S* )+")


_OF_PACKAGE = re.compile(r"(?:^|\s)(?:--cd|-C|--directory|--prefix|--manifest-path|--filter|--workspace|--project)[ =](\S+)")


def _package(text: str) -> str:
    """Return the package, or the folder that needs an option to be built, that a check is of; empty for the whole project."""
    chosen_by = _OF_PACKAGE.search(text)
    folder = _folder_of(text) if _BUILT.search(text) else ""
    return chosen_by[1].removesuffix("/Cargo.toml") if chosen_by else "" if folder == "path" else folder


def _packages(subjects: Mapping[str, Mapping[Any, StoredCandidate]], told: set[str]) -> Iterator[StoredCandidate]:
    """Yield how a package of a project is checked by itself, as two sessions did, or one again and again."""
    found: dict[str, dict[str, dict[str, list[StoredCandidate]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for name in _NAMES.values():
        for c in subjects.get(name, {}).values():
            for text in dict.fromkeys((*c.body.get("commands", ()), *c.body.get("narrowed", ()), *c.body.get("parts", ()))):
                if (package := _package(text)) and text not in told:
                    found[package][name][text].append(c)
    for package, kinds in sorted(found.items()):
        kept = {c.candidate_id: c for texts in kinds.values() for by in texts.values() for c in by}
        sessions = {(c.host, c.session_id) for c in kept.values()}
        often = any(text in c.body.get("often", ()) for texts in kinds.values() for text, by in texts.items() for c in by)
        if len(sessions) < _LEAST and not often:
            continue
        chosen = {name: max(texts, key=lambda text: (len(texts[text]), -len(text), text)) for name, texts in kinds.items()}
        subject = f"{SUBJECT}: {package}"
        body = {"subject": subject, "signature": subject, "commands": list(chosen.values()), "sessions": len(sessions)}
        body |= {"once": True} if len(sessions) < _LEAST else {}
        for c in kept.values():
            yield c._replace(
                text=f"in `{package}`: {'; '.join(f'{_HOW[name]} `{text}`' for name, text in chosen.items())}",
                when_to_use=f"`{package}` is changed",
                structured=json.dumps(body, ensure_ascii=False, sort_keys=True),
                confidence=_SEEN_ONCE if len(sessions) < _LEAST else 0.6,
                priority=3,
            )


def _seen_once(subjects: Mapping[str, Mapping[Any, StoredCandidate]]) -> dict[str, list[StoredCandidate]]:
    """Return by kind what is told of sessions that agree in nothing.

    What passed more than once in its session; of other kinds the project's own tasks, where a session passed checks of two kinds.
    """
    checks = {name: list(subjects[name].values()) for name in _NAMES.values() if name in subjects}
    kinds = Counter((c.host, c.session_id) for members in checks.values() for c in members)
    found: dict[str, list[StoredCandidate]] = {}
    for name, members in checks.items():
        whole = [c for c in members if kinds[c.host, c.session_id] > 1]
        seen = _only(members, lambda c: c.body.get("often", ())) or _only(
            whole, lambda c: list(filter(_OWN_TASK.match, c.body["commands"]))
        )
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


class _Habit(NamedTuple):
    """What sessions of a repository did alike."""

    kind: str
    text: str
    commands: list[str]
    narrowed: str
    share: float
    kept: list[StoredCandidate]
    known: int
    """sessions that bear it out, those with the command that it took the place of among them"""
    counts: dict[str, int] = {}  # noqa: RUF012 - a named tuple's default, never changed
    """sessions by command"""
    parts: list[str] = []  # noqa: RUF012 - a named tuple's default, never changed
    """how some of the tests are run, where that is all that is known"""


def _anybodys(habit: _Habit) -> bool:
    """Tell whether a habit is what anybody would try, of all tests and of some."""
    narrowed = habit.parts or ([habit.narrowed] if habit.narrowed else [])
    return all(map(_ANYBODYS_PART.fullmatch, narrowed)) and all(map(_ANYBODY.fullmatch, habit.commands))


class _Used(NamedTuple):
    """A command with the sessions that ran it, oldest first."""

    text: str
    by: list[StoredCandidate]

    @property
    def does(self) -> str:
        """What its runner last said that it runs, which is compared and never told; empty where none did."""
        return next((str(c.body["does"][self.text]) for c in reversed(self.by) if self.text in c.body.get("does", ())), "")


def _used(members: Sequence[StoredCandidate], name: str, wanted: Callable[[str], bool], least: int) -> list[_Used]:
    """Return the commands that enough sessions ran, the most frequent first, as most of them spelled them."""
    spelled: dict[str, Counter[str]] = defaultdict(Counter)
    newest: dict[str, int] = {}
    by: dict[str, dict[str, StoredCandidate]] = defaultdict(dict)
    for c in members:
        for text in c.body.get(name, ()):
            if wanted(text):
                key = _LAUNCHED.sub("", text)
                spelled[key][text] += 1
                newest[text] = c.ts or 0
                by[key][c.candidate_id] = c
    found = [
        _Used(max(spelled[key], key=lambda text: (spelled[key][text], newest[text])), list(who.values()))
        for key, who in by.items()
        if len(who) >= least
    ]
    return sorted(found, key=lambda u: -len(u.by))


def _kind_of(subject: str, text: str) -> str:
    """Return what a command is told as: of linters apart those that format, and those that only look whether it is formatted."""
    if subject != "lint and format" or not (formats(text) or checks_format(text)):
        return subject
    return "format check" if checks_format(text) else "format"


def _conventions(subject: str, members: Sequence[StoredCandidate], least: int = _LEAST) -> Iterator[_Habit]:
    part = _used(members, "narrowed", lambda _: True, least)
    narrowed = part[0].text if part else ""
    told = False
    for name in (subject, "format", "format check") if subject == "lint and format" else (subject,):
        ranked = _used(members, "commands", lambda text, name=name: _kind_of(subject, text) == name, least)  # type: ignore[misc]
        # how one package is checked takes no place of how the whole is
        ranked = [u for u in ranked if not _OF_PACKAGE.search(u.text)] or ranked
        if not ranked:
            continue
        told = True
        total = sum(any(_kind_of(subject, text) == name for text in c.body.get("commands", ())) for c in members)
        total = len(members) if subject == "tests" else total
        yield _habit(name, _HOW[name], ranked, total, narrowed)
    if part and not told:
        habit = _habit(subject, "run some of the tests with", part, len(members), "")
        yield habit._replace(commands=[], narrowed=narrowed, parts=habit.commands)


def _habit(name: str, how: str, ranked: Sequence[_Used], total: int, narrowed: str) -> _Habit:
    chosen, said = _compared(ranked)
    kept = list({c.candidate_id: c for used in chosen for c in used.by}.values())
    known = {c.candidate_id for used in (*chosen, ranked[0]) for c in used.by}
    text = f"{how} {said}" + (f", only some with `{narrowed}`" if narrowed else "")
    counts = {u.text: len(u.by) for u in ranked}
    return _Habit(name, text, [u.text for u in chosen], narrowed, (len(kept) + 1) / (total + 2), kept, len(known), counts)


def _compared(ranked: Sequence[_Used]) -> tuple[list[_Used], str]:
    """Return the commands that are the habit, and how they are told.

    A command that only sessions later than all of the most frequent one's ran has taken its
    place; one that nearly as many sessions ran is told as the other choice, the newer of both
    first unless it only adds to the other; of the rest two are named beside it.
    """
    top, rest = ranked[0], ranked[1:]
    newer = next((u for u in rest if _after(u, top) and len(u.by) >= _FOLLOWS * len(top.by)), None)
    if newer is not None:
        return [newer], f"`{newer.text}` (earlier sessions: `{top.text}`)"
    tied = next((u for u in rest if not _after(top, u) and len(u.by) >= _TIED * len(top.by)), None)
    if tied is not None:
        first, second = sorted((top, tied), key=lambda u: (bool(added_arguments(*_both(top, tied, u))), -(u.by[-1].ts or 0)))
        return [first, second], f"`{first.text}` or `{second.text}`"
    beside = [u for u in rest if not _after(top, u)][:_MOST_OTHERS]
    others = ", also " + ", ".join(f"`{u.text}`" for u in beside) if beside else ""
    return [top, *beside], f"`{top.text}`{others}"


def _both(one: _Used, other: _Used, asked: _Used) -> tuple[str, str]:
    """Return what the other of two commands does and what the one that is asked for does."""
    return (one.does if asked is other else other.does), asked.does


def _after(later: _Used, earlier: _Used) -> bool:
    """Tell whether all sessions with a command began after all sessions with another."""
    return min(c.ts or 0 for c in later.by) > max(c.ts or 0 for c in earlier.by)


def _order(members: Sequence[StoredCandidate]) -> _Habit | None:
    orders = [tuple(c.body.get("order", ())) for c in members]
    counted = {chosen: sum(_within(chosen, whole) for whole in orders) for chosen in _pieces(orders)}
    clear = [(n, len(chosen), chosen) for chosen, n in counted.items() if n >= _ORDERED and _clear(chosen, counted, orders)]
    if not clear:
        return None
    times, _, chosen = max(clear, key=lambda k: (k[0] * (k[1] - 1), k))
    both = sum(set(chosen) <= set(whole) for whole in orders)
    text = f"in the order {' → '.join(f'`{t}`' for t in chosen)}"
    kept = [c for c, whole in zip(members, orders, strict=True) if _within(chosen, whole)]
    return _Habit(_ORDER, text, list(chosen), "", (times + 1) / (both + 2), kept, times)


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


def _lessons(
    habits: Sequence[_Habit], order: _Habit | None, beside: Mapping[str, Sequence[StoredCandidate]], *, once: bool = False
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
    version=15,
    describe=(
        "Commands with which at least two sessions of a project tested, linted, type-checked or built it, and the order of them.\n\n"
        "Counted are commands that passed, but for those that deploy, publish or destroy. A project has one memory of them: for each "
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
