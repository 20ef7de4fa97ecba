"""What a single failure proves of its place: git ignores a folder, a worktree has the branch, the shell expands, an option is missing.

The last two are true of a machine: they hold in every project below the home folder of their session.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.facts.command_runs import command_runs, output_of
from ctx_pipeline.facts.first_lines import first_line_of
from ctx_pipeline.mining.lessons.commands import LOOKING, listed, runs, typed, whole
from ctx_pipeline.mining.lessons.failed_commands.absent_programs import ELSEWHERE, LOOKED_FOR
from ctx_pipeline.mining.lessons.failed_commands.missing_options import missing_options
from ctx_pipeline.mining.lessons.failures import plain_text, signature
from ctx_pipeline.mining.lessons.quoting import quotable
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.shell.command_risk import dangers
from ctx_pipeline.shell.commands import steps_by_piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

PLACE = "place"
_IGNORED = re.compile(r"(?m)^The following paths are ignored by one of your \.gitignore files:\n((?:[\w./@+-]{1,80}\n?){1,8})")
_TAKEN = re.compile(r"(?m)^fatal: '(?P<branch>[\w./-]{1,60})' is already (?:used by worktree|checked out) at '")
_GLOB = re.compile(r"(?m)^(?:zsh|\(eval\)):(?:\d+:)? no matches found: (?P<word>\S{2,120})$")
_IGNORES, _IS_TAKEN, _GLOBS, _LACKS, ABSENT = "ignored", "taken", "glob", "option", "absent"
_EXPANDED = frozenset("*?[")
_OTHER_SHELLS = ELSEWHERE | {"zsh"}
_FILES_ALONE = LOOKING - {"rg", "grep", "find", "fd"}
_OF_MACHINE = (_GLOBS, _LACKS)
_HOME = re.compile(r"/(?:Users|home)/[^/]+(?=/)")
_BEGINNING, _LONGEST = 2_000, 120
_MOST = 4
_LEAST_LOOKED = 2
"""Sessions of one machine that looked for a program that is not there: one may have done so out of caution."""


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
    if about == ABSENT:
        return f"`{names[0]}` is not installed here (`command -v {names[0]}` found nothing)", f"`{names[0]}` is about to run"
    text = "the shell here is zsh: a word with `*`, `?` or `[` that matches no file ends the command (“no matches found”); quote it"
    return (
        f"{text}: {listed_names}" if names else f"{text} where no files are meant",
        "a word with `*`, `?` or `[` is typed without quotes, or the shell says “no matches found”",
    )


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield each fact once; names are quoted only where the command that failed has them too."""
    for lacks in missing_options(view):
        row, names = lacks.run, (lacks.program, lacks.option, lacks.make, lacks.typed)
        yield _candidate(_Fact(_LACKS, names, lacks.error, lacks.program), (row.call_event, row.event), row.ended)
    yield from _looked_for(view)
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
    if not any(about == _GLOBS for about, _ in seen):
        yield from _only_globbed(view)


def _looked_for(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield each program that a session looked for by itself and did not find."""
    for row in command_runs(view):
        found = LOOKED_FOR.fullmatch(row.command.strip())
        missed = found is not None and (row.exit == 1 or (row.result == "passed" and found["whatever"]))
        if found and missed and row.outputs and not first_line_of(plain_text(output_of(view, row)), _LONGEST):
            made = _candidate(_Fact(ABSENT, (found["name"],), "", found["name"]), (row.call_event, row.event), row.ended)
            yield replace(made, structured=(made.structured or {}) | {"absent": found["name"], "signature": f"no {found['name']}"})


def _only_globbed(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield that zsh expands words where it ended a call that was not about these files alone, and no quoted call passed."""
    asked = {call.call_event: call.argv for call in view.tool_calls}
    for row in command_runs(view):
        ended = (row.result == "failed" or row.exit) and bool(_EXPANDED & set(row.command))
        may = ended and not _in_another_shell(row.command, asked.get(row.call_event))
        output = plain_text(output_of(view, row)) if may else ""
        found = _GLOB.search(output) if output else None
        program = _expands_for(found["word"], row.command, alone=first_line_of(output, len(output)) == found[0]) if found else ""
        if found is not None and program:
            shown = f"'{found['word']}'"
            names = (shown,) if program not in LOOKING and len(shown) <= _LONGEST and quotable(shown) else ()
            yield _candidate(_Fact(_GLOBS, names, f"zsh:1: no matches found: {found['word']}"), (row.call_event, row.event), row.ended)
            return


def _expands_for(word: str, command: str, *, alone: bool) -> str:
    """Return the program for which the shell of a session took a word for a pattern.

    Empty for one that copies or shows these files alone, and where a file that the line shows
    may have said so; ``alone`` is whether the output begins with it.
    """
    pieces = [piece for piece, _ in steps_by_piece(command)]
    if not (alone or LOOKING.isdisjoint(_program(piece.words) for piece in pieces)):
        return ""
    programs = (_program(piece.words) for piece in pieces if word in piece.words[1:])
    return next((program for program in programs if program not in _FILES_ALONE), "")


def _program(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2] if words else ""


def _in_another_shell(command: str, argv: Sequence[str] | None) -> bool:
    """Tell whether a part of a line runs on another machine, in a container or in a zsh that it names."""
    # one word is what was typed; several are how a host starts its own shell
    words = [argv[0].split(None, 1)[0]] if argv and len(argv) == 1 and argv[0].strip() else []
    words += [word for piece, _ in steps_by_piece(command) for word in piece.words]
    return any(_program((word,)) in _OTHER_SHELLS for word in words)


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
    if f" {word}" not in f" {run.command}" or _in_another_shell(run.command, run.call.argv):
        return None
    quoted = (f"'{word}'", f'"{word}"')
    cured = next((r for r in later if r.well and r.step.subject == run.step.subject and any(q in r.command for q in quoted)), None)
    if cured is None or _GLOB.search(plain_text(cured.output[:_BEGINNING])) or dangers(cured.command):
        return None
    works = whole(cured.step.text, cwd)
    shown = works if len(works) <= _LONGEST else f"{typed(run.step)} '{word}'"
    return _Fact(_GLOBS, (shown,), f"zsh:1: no matches found: {word}", proof=(cured.call.call_event, cured.call.result_event))


def _looking(members: Sequence[StoredCandidate]) -> int:
    """Return how many sessions of one machine looked for a program; one that repeats another's calls (a fork) counts once."""
    first: dict[tuple[str, object], tuple[str, str]] = {}
    for c in members:
        first.setdefault((_home(c), c.ts or c.candidate_id), (c.host, c.session_id))
    return max(Counter(home for home, _ in {(home, session) for (home, _), session in first.items()}).values())


def _home(candidate: StoredCandidate) -> str:
    """Return the home folder of a session, which stands for its machine; empty where its folder shows none."""
    found = _HOME.match(candidate.cwd or "")
    return found[0] if found else ""


def combine(candidates: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    """Yield one lesson for each kind of fact of a repository, or of a machine, for which the home folder stands."""
    groups: dict[tuple[str, str, str], list[StoredCandidate]] = {}
    for c in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        about = str(c.body["about"])
        apart = " ".join(map(str, c.body["names"][:3])) if about in (_IS_TAKEN, _LACKS, ABSENT) else ""
        home = _home(c) if about in _OF_MACHINE else ""
        held = c._replace(repository=None, cwd=home) if home else c
        groups.setdefault((held.repository or held.cwd or "", about, apart), []).append(held)
    for (_, about, _), members in groups.items():
        sessions = len({(c.host, c.session_id) for c in members})
        if about == ABSENT and _looking(members) < _LEAST_LOOKED:
            continue
        newest = list(dict.fromkeys(str(n) for c in reversed(members) for n in c.body["names"]))
        newest.sort(key=lambda name: about == _GLOBS and " " not in name)  # a call that passed shows more than a word
        names = members[-1].body["names"] if about == _LACKS else newest[: _MOST if about == _IGNORES else 1]
        text, when = _wording(about, names)
        body = members[-1].body | {"fact": True, "sessions": sessions}
        for c in members:
            yield c._replace(text=text, when_to_use=when, structured=json.dumps(body, ensure_ascii=False, sort_keys=True))
