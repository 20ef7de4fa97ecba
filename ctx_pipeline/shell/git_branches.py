"""Which branches a command line pushes or commits to."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.shell.commands import steps_by_piece
from ctx_pipeline.shell.files import entered, works_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ctx_pipeline.shell.commands import Step

EVERY = "*"
"""Stands for every branch of a repository."""

PUSH, COMMIT = "push", "commit"

_VALUED = frozenset({"-o", "--push-option", "--repo", "--receive-pack", "--exec"})
"""Options of ``git push`` whose value is the next word."""

_HEADS = "refs/heads/"
_MAKES_BRANCH = frozenset({"-b", "-B", "-c", "-C", "--create", "--force-create", "--orphan"})
_FORCES = ("--force", "--force-with-lease", "--mirror")


class BranchChange(NamedTuple):
    """One push or commit of a command line."""

    act: str
    branches: frozenset[str]
    """the branches that it changes, where they are pushed to the names there; ``*`` is every one"""
    remote: str = ""
    forced: bool = False


def branch_changes(command: str, cwd: str | None, current: Callable[[str], str]) -> Iterator[BranchChange]:
    """Yield what a command line pushes and commits to.

    ``current`` returns the branch that is checked out in a folder, empty where that is not known. A branch that
    the line itself changes to is the current one from there on. Tags are no branches, and a dry run changes none.
    """
    folder = cwd
    changed_to: dict[str | None, str] = {}
    for piece, steps in steps_by_piece(command):
        if piece.words[:1] in (("cd",), ("pushd",)):
            folder = entered(piece.words, folder)
        for step in steps:
            name, *words = step.words
            if name.rpartition("/")[2] != "git" or not words:
                continue
            place = works_in(piece.words, folder)
            here = changed_to[place] if place in changed_to else current(place) if place else ""
            if words[0] in ("checkout", "switch") and (branch := _switched_to(words[0], words[1:])) is not None:
                changed_to[place] = branch
            elif words[0] == PUSH and (made := _pushed(words[1:], here)):
                yield made
            elif words[0] == COMMIT and here and "--dry-run" not in words:
                yield BranchChange(COMMIT, frozenset({here}))


_MAKES_REQUEST = {"gh": ("pr", "--base", "-B"), "glab": ("mr", "--target-branch", "-b")}
"""Program of a code host -> its word for pull requests, and the options that name the branch they are to go into."""


def pull_request_base(step: Step) -> str:
    """Return the branch that a step opens a pull request against, or moves one to; empty where it names none."""
    program, *words = step.words
    noun, *options = _MAKES_REQUEST.get(program.rpartition("/")[2], ("", ""))
    short = options[-1]
    if not noun or words[:1] != [noun] or words[1:2] not in (["create"], ["new"], ["edit"], ["update"]):
        return ""
    for word, after in pairwise([*words[2:], ""]):
        name, equals, value = word.partition("=")
        if name in options:
            return value if equals else after
        if not word.startswith("--") and word.startswith(short):
            return word.removeprefix(short).removeprefix("=")
    return ""


def _switched_to(subcommand: str, words: Sequence[str]) -> str | None:
    """Return the branch that ``git checkout`` or ``git switch`` changes to; empty for the one before, None where files are meant."""
    if "-" in words or "@{-1}" in words:
        return ""
    plain = [word for word in words if not word.startswith("-")]
    if not plain or "--" in words:
        return None
    made = subcommand == "switch" or not _MAKES_BRANCH.isdisjoint(words)
    return plain[0] if made or (len(plain) == 1 and not _FILE.search(plain[0])) else None


_FILE = re.compile(r"^[./:]|/$|\.[A-Za-z]\w*$")
"""Path of a file or folder rather than a branch."""


def _pushed(words: Sequence[str], here: str) -> BranchChange | None:
    """Return what ``git push`` with these words changes; None where that is no branch, or one that is not known."""
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    short = "".join(option[1:] for option in options if not option.startswith("--"))
    if "--dry-run" in options or "n" in short:
        return None
    plain = [word for place, word in enumerate(words) if not word.startswith("-") and not _is_value(words, place)]
    remote, named = (plain[0], plain[1:]) if plain else ("", [])
    forced = "f" in short or not options.isdisjoint(_FORCES) or any(name.startswith("+") for name in named)
    if not options.isdisjoint({"--all", "--branches", "--mirror"}):
        return BranchChange(PUSH, frozenset({EVERY}), remote, forced)
    if not named:
        return BranchChange(PUSH, frozenset({here}), remote, forced) if here and "--tags" not in options else None
    branches = {_destination(name, here) for name in _without_tags(named)} - {""}
    return BranchChange(PUSH, frozenset(branches), remote, forced) if branches else None


def _is_value(words: Sequence[str], place: int) -> bool:
    return place > 0 and words[place - 1] in _VALUED


def _without_tags(named: Sequence[str]) -> list[str]:
    """Return what is pushed beside ``tag NAME``."""
    return [name for place, name in enumerate(named) if name != "tag" and named[max(0, place - 1)] != "tag"]


def _destination(name: str, here: str) -> str:
    """Return the branch that a refspec changes; empty for a tag, and for the current one where that is not known."""
    source, colon, there = name.lstrip("+").partition(":")
    target = there if colon else source
    if target in ("HEAD", "@"):
        return here
    branch = target.removeprefix(_HEADS).removeprefix("heads/")
    return "" if branch.startswith("refs/") else branch
