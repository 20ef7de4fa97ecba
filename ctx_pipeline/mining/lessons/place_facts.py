"""What a single failure proves of its place: git ignores a folder, a worktree has the branch, the shell expands, an option is missing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.mining.lessons.commands import listed, runs, typed, whole
from ctx_pipeline.mining.lessons.failures import plain_text, signature
from ctx_pipeline.mining.lessons.missing_options import missing_options
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.shell.command_risk import dangers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

PLACE = "place"
_IGNORED = re.compile(r"(?m)^The following paths are ignored by one of your \.gitignore files:\n((?:[\w./@+-]{1,80}\n?){1,8})")
_TAKEN = re.compile(r"(?m)^fatal: '(?P<branch>[\w./-]{1,60})' is already (?:used by worktree|checked out) at '")
_GLOB = re.compile(r"(?m)^(?:zsh|\(eval\)):(?:\d+:)? no matches found: (?P<word>\S{2,120})$")
_IGNORES, _IS_TAKEN, _GLOBS, _LACKS = "ignored", "taken", "glob", "option"
_BEGINNING, _LONGEST = 2_000, 120
_MOST = 4


class _Fact(NamedTuple):
    about: str
    """ignored, taken, glob or option: a repository has one lesson of each, and of each branch and option"""
    names: tuple[str, ...]
    """folders that git ignores, the branch, the call that works, or the program, its option, its make and how it was typed"""
    error: str
    subject: str = ""
    proof: tuple[str, ...] = ()
    """events that show it beside the failure"""


def _wording(about: str, names: Sequence[str]) -> tuple[str, str]:
    """Return how a fact is told, and when it is to be thought of."""
    listed_names = listed(names)
    if about == _IGNORES:
        text = f"git ignores {listed_names} here: `git add` refuses what lies in it, so it stays local unless the person says otherwise"
        return text, f"a file below {listed_names} is about to be added to git"
    if about == _IS_TAKEN:
        text = f"in a worktree of this repository `git checkout {names[0]}` fails (another worktree has that branch)"
        return f"{text}: stay on the worktree's own", f"{listed_names} is wanted in a worktree"
    if about == _LACKS:
        program, option, make, as_typed = names
        return f"the `{program}` of {make} has no option `{option}`", f"`{as_typed}` is about to run"
    text = "the shell here is zsh: a word with `*`, `?` or `[` that matches no file ends the command (“no matches found”)"
    return f"{text}; quote it: {listed_names}", "a word with `*`, `?` or `[` is typed without quotes, or the shell says “no matches found”"


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield each fact once; names are quoted only where the command that failed has them too."""
    for lacks in missing_options(view):
        row, names = lacks.run, (lacks.program, lacks.option, lacks.make, lacks.typed)
        yield _candidate(_Fact(_LACKS, names, lacks.error, lacks.program), (row.call_event, row.event), row.ended)
    seen: set[tuple[str, tuple[str, ...]]] = set()
    threads: dict[str, list[Run]] = {}
    for run in view.once(runs):
        threads.setdefault(run.call.thread_id, []).append(run)
    for members in threads.values():
        for place, run in enumerate(members):
            fact = _fact(run, members[place + 1 :], view.session.cwd)
            if fact is None or (fact.about, fact.names) in seen:
                continue
            seen.add((fact.about, fact.names))
            yield _candidate(fact, (run.call.call_event, run.call.result_event, *fact.proof), run.call.ended)


def _candidate(fact: _Fact, evidence: Sequence[str], ended: int | None) -> MemoryCandidate:
    text, when = _wording(fact.about, fact.names)
    return MemoryCandidate(
        kind="failure_trigger",
        text=text,
        when_to_use=when,
        evidence_refs=tuple(dict.fromkeys(evidence)),
        confidence=0.6,
        priority=4,
        risk="low",
        structured={"what": PLACE, "about": fact.about, "names": list(fact.names), "error": fact.error}
        | {"signature": signature(fact.error), "warning": True},
        subject=fact.subject,
        ts=ended,
    )


def _fact(run: Run, later: Sequence[Run], cwd: str | None) -> _Fact | None:
    output = plain_text(run.output[:_BEGINNING])
    here = run.failed and _here(run, cwd)
    if here and run.step.subject == "git add" and (found := _IGNORED.search(output)):
        return _ignored(run, found[1].split(), later)
    if here and run.step.subject in ("git checkout", "git switch") and (found := _TAKEN.search(output)):
        branch = found["branch"]
        had = any(r.well and r.step.subject in ("git checkout", "git switch") and r.step.words[2:] == run.step.words[2:] for r in later)
        return (
            _Fact(_IS_TAKEN, (branch,), found[0].removesuffix(" at '"), run.step.subject) if branch in run.step.words and not had else None
        )
    found = _GLOB.search(output)
    return _globbed(run, found["word"], later, cwd) if found is not None else None


def _here(run: Run, cwd: str | None) -> bool:
    """Tell whether a command of git was about the repository of its session."""
    folder = run.row.folder or ""
    return bool(cwd) and f"{folder}/".startswith(f"{cwd}/") and not {"-C", "--git-dir", "--work-tree"}.intersection(run.step.text.split())


def _ignored(run: Run, names: Sequence[str], later: Sequence[Run]) -> _Fact | None:
    """Return that git ignores what a command adds; None where it was added after all."""
    added = run.step.words[2:]
    known = [n for n in names if any(f"{w.removeprefix('./')}/".startswith(f"{n.rstrip('/')}/") for w in added)]
    adds = (r.step.words[2:] for r in later if r.step.subject == "git add" and r.well)
    if not known or any(f"{w.removeprefix('./')}/".startswith(f"{n.rstrip('/')}/") for words in adds for w in words for n in known):
        return None
    return _Fact(_IGNORES, tuple(known), "The following paths are ignored by one of your .gitignore files", run.step.subject)


def _globbed(run: Run, word: str, later: Sequence[Run], cwd: str | None) -> _Fact | None:
    """Return that zsh expands a word where quoting it made the same program pass."""
    if f" {word}" not in f" {run.command}":
        return None
    quoted = (f"'{word}'", f'"{word}"')
    cured = next((r for r in later if r.well and r.step.subject == run.step.subject and any(q in r.command for q in quoted)), None)
    if cured is None or _GLOB.search(plain_text(cured.output[:_BEGINNING])) or dangers(cured.command):
        return None
    works = whole(cured.step.text, cwd)
    shown = works if len(works) <= _LONGEST else f"{typed(run.step)} '{word}'"
    return _Fact(_GLOBS, (shown,), f"zsh:1: no matches found: {word}", proof=(cured.call.call_event, cured.call.result_event))


def combine(candidates: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    """Yield one lesson for each kind of fact of a repository."""
    groups: dict[tuple[str, str, str], list[StoredCandidate]] = {}
    for c in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        about = str(c.body["about"])
        apart = " ".join(map(str, c.body["names"][:3])) if about in (_IS_TAKEN, _LACKS) else ""
        groups.setdefault((c.repository or c.cwd or "", about, apart), []).append(c)
    for (_, about, _), members in groups.items():
        newest = list(dict.fromkeys(str(n) for c in reversed(members) for n in c.body["names"]))
        names = members[-1].body["names"] if about == _LACKS else newest[: _MOST if about == _IGNORES else 1]
        text, when = _wording(about, names)
        body = members[-1].body | {"fact": True, "sessions": len({(c.host, c.session_id) for c in members})}
        for c in members:
            yield c._replace(text=text, when_to_use=when, structured=json.dumps(body, ensure_ascii=False, sort_keys=True))
