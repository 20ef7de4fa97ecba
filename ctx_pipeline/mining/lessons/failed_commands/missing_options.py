"""Options that one make of a program of the system does not have, as it said itself: ``grep -P`` of macOS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import command_runs, output_of, printed
from ctx_pipeline.facts.first_lines import first_line_of
from ctx_pipeline.mining.lessons.failures import plain_text
from ctx_pipeline.shell.commands import steps_by_piece
from ctx_pipeline.shell.system_programs import BSD, GNU, OF_SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.model.session_view import SessionView

_REFUSES = re.compile(
    r"(?m)^(?P<error>(?P<program>[a-z0-9]{2,10}): (?:illegal|invalid|unrecognized|unknown) option(?: --)? "
    r"['`\"]?(?P<option>--?[\w-]+|\w)['`\"]?)\n(?P<next>.*)(?:\n(?:[ \t].*)?)*\Z"
)
"""A refusal with nothing but how the program is used below it."""

_SAYS_NEXT = {BSD: re.compile(r"\s*[Uu]sage:\s"), GNU: re.compile(r"Try '[\w ]+ --help' for more information\.")}
"""Make of a program -> what it prints below an option that it refuses."""
_QUOTED = re.compile(r"'[\w-]+'$")
"""Ends a refusal in every make but that of BSD, which has no quotes or a grave accent for the first one."""

_SILENT = frozenset({"cd", "pushd", "export", "set", "mkdir", "touch", "ls", "echo", "printf", "true", "exit", "fi", "done"})
"""Programs that show no text of a file: what a line prints beside them is its other program's."""
_LOCAL = OF_SYSTEM | {"git", "rg"}
"""Programs that read what lies on this machine."""
_EXPANDS = re.compile(r"[$<]\(|`")


class MissingOption(NamedTuple):
    """An option that a program refused."""

    program: str
    option: str
    """with its dashes"""
    make: str
    """which of its makes the program is"""
    typed: str
    """the program and the word that has the option, as in ``grep -oP``"""
    error: str
    run: Any
    """row of ``command_runs``"""


def missing_options(view: SessionView) -> Iterator[MissingOption]:
    """Yield each option that a program said it does not have, where a command gave it and none that ended well did."""
    rows = command_runs(view)
    seen: set[tuple[str, str]] = set()
    for place, row in enumerate(rows):
        found = _refusal(plain_text(output_of(view, row))) if _OPTION in plain_text(printed(view, row)) else None
        if found is None or not (make := _make(found)):
            continue
        program, said = found["program"], found["option"]
        option = said if said.startswith("-") else f"-{said}"
        word = _given(row.command, program, option)
        if program not in OF_SYSTEM or not word or (program, option) in seen or not _speaks_itself(row, program):
            continue
        seen.add((program, option))
        if not any(later.result == "passed" and _given(later.command, program, option) for later in rows[place + 1 :]):
            yield MissingOption(program, option, make, f"{program} {word}", found["error"], row)


_OPTION = " option"
"""Stands in each refusal."""


def _refusal(output: str) -> re.Match[str] | None:
    """Return the refusal of an option with which an output begins."""
    found = _REFUSES.search(output) if _OPTION in output else None
    return found if found and first_line_of(output, len(found["error"]) + 1) == found["error"] else None


def _make(refusal: re.Match[str]) -> str:
    """Return the make of a program that refused an option, by its wording; empty where that does not tell."""
    make = next((name for name, says in _SAYS_NEXT.items() if says.match(refusal["next"])), "")
    return "" if make == BSD and _QUOTED.search(refusal["error"]) else make


def _speaks_itself(row: Any, program: str) -> bool:
    """Tell whether no program of a failed command but one may have printed its output.

    The others are silent, or it reads what they print.
    """
    if row.result != "failed":
        return False
    read = False
    for piece, _ in reversed(steps_by_piece(row.command)):
        name = next(iter(piece.words), "")
        if name != program and name not in _SILENT and not (read and name in _LOCAL):
            return False
        read = piece.piped and (name == program or read)
    return not _EXPANDS.search(row.command)


def _given(command: str, program: str, option: str) -> str:
    """Return the word by which a command gives an option to a program; empty where it gives it not."""
    pieces = (piece.words for piece, _ in steps_by_piece(command))
    return next((w for words in pieces if words[:1] == (program,) for w in _options(words[1:]) if _holds(w, option)), "")


def _options(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word == "--":
            return
        if word.startswith("-"):
            yield word


def _holds(word: str, option: str) -> bool:
    if option.startswith("--"):
        return word.partition("=")[0] == option
    return not word.startswith("--") and option[1:] in word[1:]
