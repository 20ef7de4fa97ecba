"""The checks that one session ran well: as their project runs them, what chose a part of them, and in which order."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import results_of
from ctx_pipeline.mining.lessons.commands import as_pattern, form, listed, runs
from ctx_pipeline.mining.lessons.failed_commands.proof import TELLS
from ctx_pipeline.mining.lessons.failures import clean, shorten_paths
from ctx_pipeline.mining.lessons.quoting import a_name
from ctx_pipeline.mining.lessons.secret_names import without_secret
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.shell.command_risk import dangers
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.session_view import SessionView

KINDS = {"test": "tests", "lint": "lint and format", "types": "type check", "check": "checks", "build": "build"}
"""Purpose of a check -> the subject of its habit."""

ORDER = "order of checks"
_ASKING = ("command ", "which ", "type ")
"""Begins a line that asks whether a program is there."""

OF_PACKAGE = re.compile(r"(?:^|\s)(?:--cd|-C|--directory|--prefix|--manifest-path|--filter|--workspace|--project)[ =](\S+)")


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


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield for each kind of check the commands that passed or reported findings, and the order in which those that passed ran last."""
    cwd = view.session.cwd
    reported = _reported(view)
    checks = [
        r
        for run in view.once(runs)
        if run.passed
        for r in _each(run)
        if r.step.purpose in KINDS and _runs_it(r.step.text) and not dangers(r.step.text)
    ]
    by_purpose: dict[str, list[Run]] = defaultdict(list)
    for run in checks:
        by_purpose[run.step.purpose].append(run)
    well = Counter(form(r, cwd).text for run in view.once(runs) if run.well and not run.row.pipeline for r in _each(run))
    for purpose in dict.fromkeys((*by_purpose, *reported)):
        members = by_purpose[purpose]
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
        shown = {text: run for text, run in reported.get(purpose, {}).items() if text not in shows}
        if not members and shown:
            text = f"{KINDS[purpose]} with findings: {listed(list(shown)[:_MOST_SHOWN])}"
            yield _candidate(
                KINDS[purpose],
                text,
                {"reported": list(shown)[:_MOST_SHOWN]},
                list(shown.values())[:_MOST_SHOWN],
                met=reported.get(purpose, {}).values(),
            )
        if commands or narrowed or parts:
            counted = +(whole + some + of_parts)
            often = [text for text, times in counted.items() if times >= _OFTEN or text in ended_well]
            body: dict[str, Any] = {"commands": commands, "narrowed": narrowed}
            more = (("does", does), ("often", often), ("parts", parts), ("tasks", list(tasks)[:4]), ("reported", list(shown)[:_MOST_SHOWN]))
            body |= {k: v for k, v in more if v}
            first = [r for r in members if commands and needs.get((f := form(r, cwd).text), "") + f == commands[0]]
            text = f"{KINDS[purpose]}: {listed(commands or (narrowed or parts)[:1])}"
            own = [t for t in commands if OWN_TASK.match(t)]
            beside = [shows[t] for t in (*parts[:2], *list(tasks)[:2], *often[:2], *own[:2])] + list(shown.values())[:_MOST_SHOWN]
            yield _candidate(
                KINDS[purpose],
                text,
                body,
                [*first[:1], *(m for m in members if m not in first[:1])],
                beside,
                met=reported.get(purpose, {}).values(),
            )
    last = _last_order(checks, cwd)
    if len(last) > 1:
        texts = [form(run, cwd).text for run in last]
        yield _candidate(ORDER, " → ".join(f"`{t}`" for t in texts), {"order": texts}, last)


_MOST_SHOWN = 2
"""Checks of a kind that only reported findings in a session, of which a project's habit counts the session."""


def _reported(view: SessionView) -> dict[str, dict[str, Run]]:
    """Return purpose -> command -> a run of it that failed with findings of its own: it ran as well as one that passed."""
    cwd = view.session.cwd
    found: dict[str, dict[str, Run]] = defaultdict(dict)
    for run in view.once(runs):
        purpose = run.step.purpose
        counts = run.failed and not run.unclear and purpose in KINDS and _runs_it(run.step.text) and not dangers(run.step.text)
        if counts and any(told.purpose == purpose and not told.ok and not told.stopped for told in results_of(view, run.row)):
            made = form(run, cwd)
            text = as_pattern(made.text, run.step.subject) if made.narrowed else made.text
            found[purpose].setdefault(f"{_prefix(run, cwd)}{text}", run)
    return found


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
    shown = [without_secret(w) for w in run.row.environment]
    variables = "".join(f"{w} " for w in shown) if all(map(_VARIABLE.fullmatch, shown)) else ""
    return f"{inside}{activated[0] if activated else ''}{variables}"


def _of_part(text: str) -> str:
    """Return a narrowed check as it checks all of a package, or all of a folder that needs an option to be built; empty for others."""
    if not OF_PACKAGE.search(text) and not (BUILT.search(text) and folder_of(text)):
        return ""
    words = text.split()
    left_out = {i for i, w in enumerate(words) if w in ("-run", "-k") for i in (i, i + 1)}
    return " ".join(w for i, w in enumerate(words) if i not in left_out)


def folder_of(text: str) -> str:
    """Return the one folder that a check is about; empty where it names none or several."""
    folders = [w for w in text.split()[1:] if _FOLDER.fullmatch(w)]
    return folders[0].removeprefix("./").removesuffix("...").strip("/") if len(folders) == 1 else ""


_FOLDER = re.compile(r"(?:\./)?[\w@-][\w.@-]*(?:/[\w.@-]+)*(?:/(?:\.\.\.)?)|\./[\w@-][\w./@-]*")
BUILT = re.compile(r"(?:^|\s)(?:-tags|--tags|--features)[ =]\S+")
"""An option without which some code is not built, and its tests do not run."""

_TASK = re.compile(r"(?:mise|just|task|make|npm|pnpm|yarn|bun|rake|composer|poe)\b.*[\w-]:[\w-]")
"""A task that the project itself named for a part of its checks: ``mise test:integration``."""

OWN_TASK = re.compile(r"(?:mise|just|task|make|(?:npm|pnpm|yarn|bun) run|rake|composer|poe)\s+\S")
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


def _candidate(
    subject: str, text: str, body: dict[str, Any], members: Sequence[Run], beside: Sequence[Run] = (), *, met: Iterable[Run] = ()
) -> MemoryCandidate:
    """Return what runs of checks show; its time is that of the first run, which a fork of the session has in common with it."""
    calls = list({r.call.call_event: r for r in members}.values())
    shown = calls if subject == ORDER else [*calls[:2], *beside]
    return MemoryCandidate(
        kind="repo_convention",
        text=text,
        evidence_refs=tuple(dict.fromkeys(e for r in shown for e in (r.call.call_event, r.call.result_event))),
        confidence=0.3,
        priority=2,
        risk="low",
        structured=body,
        subject=subject,
        ts=min((r.call.ended for r in (*members, *met) if r.call.ended), default=None),
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
