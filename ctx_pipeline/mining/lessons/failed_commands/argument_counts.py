"""How many arguments a subcommand takes, as its own refusal of a call says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.mining.lessons.commands import typed
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ctx_pipeline.shell.commands import Step

_REFUSES = lazy_pattern(
    r"^(?:Error: )?(?:accepts (?P<same>\d{1,3})|accepts at most (?P<most>\d{1,3})|requires at least (?P<least>\d{1,3})"
    r"|accepts between (?P<from>\d{1,3}) and (?P<to>\d{1,3})) arg\(s\), (?:only )?received (?P<given>\d{1,3})$"
)
"""The whole line with which programs built on Cobra (gh, docker, kubectl, helm) refuse a number of arguments."""
_UNKNOWN = lazy_pattern(r"[$`*?{<>|&]")
"""In a word: a shell may make it none or several."""
_ASKS_FOR_HELP = frozenset({"--help", "-h", "help"})
_CONFIDENTIAL = lazy_pattern(r"(?i)secret|token|passw|passphrase|key|auth|login|credential")
"""In a call: its arguments may be what nobody else is to read."""


class ArgumentCount(NamedTuple):
    """Numbers of arguments that a subcommand takes."""

    least: int
    most: int | None
    """None without a limit"""

    def takes(self, number: int) -> bool:
        """Tell whether a call with so many arguments is no error."""
        return self.least <= number and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        number = self.least if self.most is None or self.least == self.most else self.most
        limit = "at least " if self.most is None else "" if self.least == self.most else "at most "
        between = f"{self.least} to " if self.most is not None and 0 < self.least < self.most else ""
        return f"{between or limit}{number} argument{'' if number == 1 else 's'}"


def refused_count(error: str) -> tuple[ArgumentCount, int] | None:
    """Return how many arguments a program says that it takes, and how many it says that it was given."""
    found = _REFUSES.match(error)
    if found is None:
        return None
    least, most = (found["same"] or found[name] for name in ("least", "most"))
    limits = ArgumentCount(int(least or found["from"] or 0), int(most or found["to"]) if most or found["to"] else None)
    return limits, int(found["given"])


def arguments(step: Step) -> list[str] | None:
    """Return the arguments behind a subcommand; None where they are not surely all that it is given.

    A word may be the value of an option or several for the shell, a file or a text may be read in place of one, and whoever
    asks for help gets it with any number.
    """
    head, words = typed(step).split(), list(step.words)
    if words[: len(head)] != head or any(map(_UNKNOWN.search, words)) or "<" in step.text or not _ASKS_FOR_HELP.isdisjoint(words):
        return None
    found: list[str] = []
    rest = words[len(head) :]
    for place, word in enumerate(rest):
        if word == "--":
            return found + rest[place + 1 :]
        if not word.startswith("-"):
            if place and rest[place - 1].startswith("-"):
                return None
            found.append(word)
    return found


def without_arguments(step: Step, given: Sequence[str]) -> str:
    """Return a call with the number of its arguments in place of these, and whether it has options: ``gh pr diff ARG ARG …``."""
    has_options = any(word.startswith("-") and word != "--" for word in step.words if word not in given)
    return " ".join((typed(step), *["ARG"] * len(given), *["…"] * has_options))


def may_be_quoted(step: Step, unwanted: Collection[str]) -> bool:
    """Tell whether a call may be quoted: it speaks of nothing confidential, and has none of the arguments that were refused."""
    return not _CONFIDENTIAL.search(step.text) and not any(argument in word for word in step.words for argument in unwanted)


def breaks_limits(step: Step, head: str, limits: ArgumentCount) -> bool:
    """Tell whether a step calls a subcommand with a number of arguments that it does not take."""
    given = arguments(step) if typed(step) == head else None
    return given is not None and not limits.takes(len(given))
