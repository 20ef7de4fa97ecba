"""Whether a command that passed proves anything of one that failed: same target, really run, by its own exit status, not by chance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.facts.command_runs import results_of
from ctx_pipeline.mining.lessons.commands import NOT_FOUND
from ctx_pipeline.shell.command_risk import dangers
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.session_view import SessionView

SERVICE_DOWN = re.compile(
    r"(?i)connection refused|ECONNREFUSED|could not connect to (?:the )?(?:server|database)|cannot connect to the docker daemon"
    r"|connect: no such file or directory|is the server running"
)
"""Says that a service was not reached: what starts one is the cure, and nothing else."""

_STARTS = re.compile(
    r"^(?:sudo )?(?:docker[- ]compose up|docker (?:start|run)|podman(?:[- ]compose up| start| run)"
    r"|(?:brew )?services? \S*\s?start|systemctl (?:re)?start|pg_ctl\b.*\bstart|redis-server|colima start|minikube start|supabase start"
    r"|(?:make|just|task|npm run|pnpm|yarn) (?:up|services?|db)\b)"
)
_PREPARES = re.compile(
    r"(?i)\b(?:generate|codegen|migrate|migrations? (?:run|apply|up)|upgrade head|db:\w+|db push|protoc|bootstrap|setup|seed"
    r"|prepare|restore|submodule update|build|compile|link|bundle|init)\b"
)
TELLS = frozenset({"--version", "-V", "-Vv", "-vV", "--help", "-h", "--collect-only", "--markers", "--fixtures", "--list-tests"})
"""Arguments with which a program tells of itself, or what it would run, and checks nothing."""

_SCRIPTED = frozenset({"python", "python3", "node", "ruby", "perl", "bash", "sh", "zsh", "deno", "bun", "php", "osascript"})
_INLINE = frozenset({"-c", "-e", "--eval", "-"})
_TEMPORARY = re.compile(r"(?:^|[\s='\"(])(?:/private)?(?:/tmp/|/var/(?:folders|tmp)/)|\$\(?mktemp|\$TMPDIR")
_SSH_VALUES = frozenset(["-i", "-p", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-E", "-e", "-m", "-S", "-W"])
_INSIDE_VALUES = frozenset(
    {"-e", "--env", "-u", "--user", "-w", "--workdir", "-v", "--volume", "--name", "-p", "--publish"}
    | {"-n", "--namespace", "-c", "--container", "-f", "--file"}
)
_PACKAGE = frozenset({"--package", "--filter", "-w", "--workspace", "--prefix", "-C", "--directory", "--project", "--manifest-path"})


def starts_service(run: Run) -> bool:
    """Tell whether a command starts a service, as ``docker compose up -d db`` does."""
    return bool(_STARTS.match(run.step.subject)) or any(_STARTS.match(step.text) for step in steps(run.command))


def prepares(run: Run) -> bool:
    """Tell whether a command makes what a check needs and is no check: it generates code, or brings a database up to date."""
    return run.step.purpose in ("other", "build") and bool(_PREPARES.search(run.step.text)) and not dangers(run.step.text)


def throwaway(run: Run, cwd: str | None) -> bool:
    """Tell whether a command is of one moment: a script typed in place, or one below a temporary folder."""
    words = run.step.words
    program = words[0].rpartition("/")[2] if words else ""
    if program in _SCRIPTED and (not _INLINE.isdisjoint(words[1:3]) or "<<" in run.command):
        return True
    folder = run.row.folder or ""
    elsewhere = bool(_TEMPORARY.match(folder + "/")) and not (cwd or "").startswith(folder)
    return elsewhere or (bool(_TEMPORARY.search(run.step.text)) and not _TEMPORARY.match((cwd or "") + "/"))


def proves(view: SessionView, run: Run, passed: Run) -> bool:
    """Tell whether a pass can be the cure of a failure.

    It ran in the foreground to its own exit status, checked something, and on the target
    of the failure: host behind ssh, container, folder, package. ``pnpm --version`` shows
    only that a program is there which was not.
    """
    if passed.row.background or not _ran(view, passed):
        return False
    if not TELLS.isdisjoint(passed.step.words) and TELLS.isdisjoint(run.step.words) and run.row.exit != NOT_FOUND:
        return False
    if target(run) != target(passed) and not renamed_host(run, passed):
        return False
    first, second = run.row.folder, passed.row.folder
    moved = bool(first and second and first != second) and not any(word.startswith(f"{first}/") for word in passed.step.words)
    return not moved or "cd " in passed.command or "cd " in run.command


def renamed_host(run: Run, passed: Run) -> bool:
    """Tell whether a command could not resolve its host behind ssh and passed on one of another name, the rest being the same."""
    found = _UNRESOLVED.search(run.output)
    first, second = target(run), target(passed)
    if found is None or not first or not second or second[0] == first[0] or first[1:] != second[1:]:
        return False
    (user, _, host), (other_user, _, _) = first[0].rpartition("@"), second[0].rpartition("@")
    if host != found[1] or user != other_user:
        return False
    return run.command.replace(first[0], second[0], 1) == passed.command


_UNRESOLVED = re.compile(r"(?i)\bcould not resolve hostname ([\w.-]+)")


def _ran(view: SessionView, passed: Run) -> bool:
    reported = results_of(view, passed.row)
    tests = [r for r in reported if r.purpose == "test"]
    if tests and not any(r.passed for r in tests):
        return False
    return not passed.row.pipeline or any(r.ok for r in reported)


def target(run: Run) -> tuple[str, ...]:
    """Return where a command acts: the host behind ssh, the container, the package; empty here and for the whole project."""
    words = run.command.replace("'", " ").replace('"', " ").split()
    found = []
    for place, word in enumerate(words):
        if word == "ssh":
            found.append(_first(words[place + 1 :], _SSH_VALUES))
        elif word == "exec" and place and words[place - 1] in ("docker", "podman", "compose", "kubectl", "docker-compose"):
            found.append(_first(words[place + 1 :], _INSIDE_VALUES))
    chosen = run.step.words
    for word, value in zip(chosen, [*chosen[1:], ""], strict=True):
        name, _, given = word.partition("=")
        if name in _PACKAGE:
            found.append(given or value)
    return tuple(found)


def _first(words: Sequence[str], valued: Iterable[str]) -> str:
    """Return the first word that is no option and no option's value."""
    known = set(valued)
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in known
        else:
            return word
    return ""


_MISSING = re.compile(
    r"(?:^|[\s:])(?P<program>[\w./@+-]+): (?:command )?not found(?!: )|command not found: (?P<late>[\w./@+-]+)"
    r"|no such command: [`'](?P<sub>[\w-]+)|(?:No module named|Cannot find (?:module|package)) ['\"]?(?P<module>[\w@./-]+)"
)


def missing(error: str) -> tuple[str, bool]:
    """Return the name that an error calls absent and whether it is a program; empty for another error."""
    found = _MISSING.search(error)
    if found is None:
        return "", False
    return next(filter(None, found.groups())).rpartition("/")[2], found["module"] is None


def own_program(run: Run, error: str) -> bool:
    """Tell whether an absent program is one that the command itself calls, and not one that is called by what it runs."""
    name, program = missing(error)
    return not (name and program) or any(w.strip("()'\";").rpartition("/")[2] == name for w in run.command.split())


def installs(setup: Sequence[Run], error: str) -> list[Run]:
    """Return of several installs those that can have brought what an error calls absent: they name it, or no package at all."""
    name, _ = missing(error)
    short = re.sub(r"[^a-z0-9]", "", name.partition(".")[0].lower())
    if len(setup) < 2 or not short:
        return list(setup)
    fitting = [r for r in setup if short in re.sub(r"[^a-z0-9 ]", "", r.step.text.lower()) or not _packages(r)]
    return fitting or list(setup)


def _packages(run: Run) -> list[str]:
    return [w for w in run.step.words[1:] if not w.startswith("-") and w not in run.step.subject.split() and not w.endswith(".txt")]
