"""Which programs a session did not find on its own machine, under which other name they are there, and which it ran."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import command_runs, output_of
from ctx_pipeline.mining.lessons.commands import listed
from ctx_pipeline.mining.lessons.failed_commands.proof import missing, throwaway
from ctx_pipeline.mining.lessons.failures import shorten_paths
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.shell.commands import steps, steps_by_piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.shell.commands import Step

RAN = "ran"
"""What the record of a session says that tells which programs it ran."""

ELSEWHERE = frozenset(
    {"ssh", "docker", "docker-compose", "podman", "podman-compose", "nerdctl", "kubectl", "oc", "lxc", "incus", "multipass", "vagrant"}
    | {"limactl", "nsenter", "chroot", "distrobox", "toolbox", "devcontainer", "wsl", "adb", "fly", "flyctl", "heroku", "act"}
)
"""Programs that run another one on a machine, or in a container, of its own."""

_WRAPPERS = frozenset({"time", "timeout", "nice", "nohup", "env", "command", "exec", "stdbuf", "xargs"})
"""Programs that look for the one behind them where the shell does."""

_ACTIVATES = lazy_pattern(
    r"(?:^|[;&|({\n]\s*)(?:(?:source|\.)\s|(?:eval|nix|nix-shell|nvm|fnm|pyenv|rbenv|rvm|asdf|sdk|direnv|workon)\s"
    r"|(?:conda|mamba|micromamba|mise|pixi|poetry|pipenv|hatch) (?:activate|run|exec|x|shell|env)\b)|(?:^|\s)PATH="
)
_ASSIGNED = lazy_pattern(r"""^(?:[A-Za-z_]\w*=(?:'[^']*'|"[^"]*"|[^\s'"])*\s+)+""")
_NAME = lazy_pattern(r"[\w.+-]{1,40}(?: [a-z][a-z-]{0,30})?")
"""A program without its folder, and its subcommand: no address, no value."""
_ANY_OF_SEVERAL = lazy_pattern(r"[|;\n]|(?<![&>])&(?![&>\d])")
"""Parts a line so that its end says nothing of its first programs."""

LOOKED_FOR = lazy_pattern(r"(?:command -v|which|type -P) (?P<name>[a-z][\w.+-]{1,40})(?: 2>\s?/dev/null)?(?P<whatever> \|\| true)?")
"""Looks for one program, and does nothing else."""
_MOST, _SHOWN = 60, 5


def activates(command: str) -> bool:
    """Tell whether a command line changes where programs are looked for: it activates an environment, or sets the path."""
    return bool(_ACTIVATES.search(command))


def called(step: Step) -> set[str]:
    """Return what a step calls by bare names, which the shell looks for: ``ruff``, or ``cargo`` and ``cargo deny``."""
    words = _ASSIGNED.sub("", step.text.lstrip("( ")).split()
    names = words[:1] + [w for w in step.words[:1] if words[:1] and words[0] in _WRAPPERS]
    if len(step.words) > 1 and words[:1] == [step.words[0]]:
        names.append(f"{words[0]} {step.words[1]}")
    return {name for name in names if _NAME.fullmatch(name)}


def absent_program(run: Run, error: str) -> str:
    """Return the program, as it is called, that a failure shows to be absent on the machine of its session; empty for none.

    What is missing in a container, on another machine or in an environment may be there
    for any other call.
    """
    name, program = missing(error)
    if not (name and program) or activates(run.command):
        return ""
    every = steps(run.command)
    if any(step.words[:1] and step.words[0] in ELSEWHERE - {name} for step in every):
        return ""
    names = {one for step in every for one in called(step)}
    wanted = (one for one in sorted(names) if one == name or ("no such command" in error and one.endswith(f" {name}")))
    return next(wanted, "")


def other_name(run: Run, error: str, later: Sequence[Run], cwd: str | None) -> str:
    """Return with which version in its name an absent program was called next with the same arguments, and found: python3 for python."""
    name = absent_program(run, error)
    for other in later if name else ():
        typed = other.step.words[0]
        base = typed.rpartition("/")[2]
        versions = base.removeprefix(name) or name.removeprefix(base)
        if (
            re.fullmatch(r"\d[\d.]*", versions)
            and other.step.words[1:] == run.step.words[1:]
            and _ASSIGNED.sub("", other.step.text).startswith(f"{typed} ")
            and other.row.result != "failed"
            and not (missing(other.output)[0] or activates(other.command) or throwaway(other, cwd))
        ):
            return shorten_paths(typed, cwd)
    return ""


def programs_run(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield the record of which programs a session called by their bare names and found, with the last time.

    Beside it stand those that it called otherwise (by a path, in an environment, through a
    runner), installed, or looked for and found.
    """
    found: dict[str, int] = {}
    otherwise: dict[str, int] = {}
    events: tuple[str, ...] = ()
    for row in command_runs(view):
        if row.result in ("failed", "refused", "running") or not row.outputs:
            continue
        parts = [members for _, members in steps_by_piece(row.command)]
        # of a line in parts the end tells of the last one alone
        every = list(chain.from_iterable(parts[-1:] if _ANY_OF_SEVERAL.search(row.command) else parts))
        bare = set[str]() if activates(row.command) else {name for step in every for name in called(step)}
        others = {name for step in every for name in _there(step)} | _looked_up(view, row)
        found |= dict.fromkeys(sorted(bare), row.ended or 0)
        otherwise |= dict.fromkeys(sorted(others - bare), row.ended or 0)
        events = (row.call_event, row.outputs[-1]) if bare or others else events
    if found or otherwise:
        newest, more = (dict(sorted(some.items(), key=lambda one: (-one[1], one[0]))[:_MOST]) for some in (found, otherwise))
        yield MemoryCandidate(
            kind="case",
            text=f"ran {listed(list(newest or more)[:_SHOWN], len(newest or more))}",
            evidence_refs=events,
            confidence=0.2,
            priority=1,
            risk="low",
            structured={"what": RAN, "programs": newest, "otherwise": sorted(more)},
            ts=max((newest or more).values()),
        )


def _there(step: Step) -> Iterator[str]:
    """Yield the names of the programs that a step which passed shows to be there, by whichever way: the one that it ran, or installed."""
    names = [step.words[0].rpartition("/")[2]] if step.words else []
    if step.purpose == "install" or (names != ["git"] and _INSTALLS.intersection(step.words[1:4])):
        names += [word.partition("@")[0].partition("=")[0].rpartition("/")[2] for word in step.words[2:] if not word.startswith("-")]
    yield from (name for name in names if _NAME.fullmatch(name) and name not in ELSEWHERE)


def _looked_up(view: SessionView, row: Any) -> set[str]:
    """Return the program that a command looked for, and found."""
    looked = LOOKED_FOR.fullmatch(row.command.strip())
    return {looked["name"]} if looked and f"/{looked['name']}" in output_of(view, row) else set()


_INSTALLS = frozenset({"install", "add", "use"})
