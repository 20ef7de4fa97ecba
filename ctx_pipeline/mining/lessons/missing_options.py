"""Options that a program of the system does not have on this machine, as it said itself: ``grep -P`` of macOS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import command_runs, output_of
from ctx_pipeline.mining.lessons.failures import plain_text
from ctx_pipeline.shell.commands import steps_by_piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.model.session_view import SessionView

_OF_SYSTEM = frozenset(
    {"awk", "base64", "cat", "column", "comm", "cp", "cut", "date", "dd", "df", "du", "egrep", "expr", "find", "grep", "head", "install"}
    | {"join", "ln", "ls", "md5", "mkdir", "mktemp", "mv", "netstat", "nl", "od", "paste", "ping", "ps", "readlink", "realpath", "rm"}
    | {"script", "sed", "seq", "sort", "split", "stat", "tac", "tail", "tar", "tee", "top", "touch", "tr", "uniq", "wc", "which", "xargs"}
)
"""Programs that every system has, in one of several makes with other options."""

_REFUSES = re.compile(
    r"(?m)^(?P<program>[a-z0-9]{2,10}): (?:illegal|invalid|unrecognized|unknown) option(?: --)? ['`\"]?(?P<option>--?[\w-]+|\w)['`\"]?$"
)
_BEGINNING = 2_000


class MissingOption(NamedTuple):
    """An option that a program refused."""

    program: str
    option: str
    """with its dashes"""
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
        for found in _REFUSES.finditer(plain_text(output_of(view, row)[:_BEGINNING])):
            program, said = found["program"], found["option"]
            option = said if said.startswith("-") else f"-{said}"
            word = _given(row.command, program, option)
            if program not in _OF_SYSTEM or not word or (program, option) in seen:
                continue
            seen.add((program, option))
            if not any(later.result == "passed" and _given(later.command, program, option) for later in rows[place + 1 :]):
                yield MissingOption(program, option, f"{program} {word}", found[0], row)


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
