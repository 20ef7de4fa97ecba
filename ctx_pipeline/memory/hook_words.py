"""The words of a hook's command: what it does, for which host, and its options. Read at every prompt: standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SWITCHES = ("accepted-only", "no-resume", "no-prompts", "no-commands", "handoff", "outputs")
"""Options without a value."""

OPTIONS = ("precision", "threshold", "start", "holdout", *SWITCHES)
"""Options of a hook that answers with memories, in the order in which they are written."""


def read(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the plain words, and option -> value; what is unknown is kept, nothing is refused."""
    plain: list[str] = []
    named: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            named[name] = value if equals else "yes" if name in SWITCHES else rest.pop(0) if rest else ""
        else:
            plain.append(word)
    return plain, named


def written(named: Mapping[str, str]) -> list[str]:
    """Return options as words of a command, each in one word."""
    return [f"--{name}" if name in SWITCHES else f"--{name}={named[name]}" for name in OPTIONS if name in named]
