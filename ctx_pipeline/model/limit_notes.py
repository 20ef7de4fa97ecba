"""What a host's records say of its plan and of limits that were reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PLAN, REQUESTS = "plan", "requests"
"""What was reached: the use that a plan includes, or how many requests the provider answers in a while."""


class LimitNote(NamedTuple):
    """One record that says that a limit was reached."""

    kind: str
    """:data:`PLAN` or :data:`REQUESTS`"""
    name: str = ""
    """the limit's own name, such as ``five-hour`` or ``weekly``; empty where it is not said"""
    resets_at: int | None = None
    """microseconds since 1970; None where it is not said"""


@dataclass(frozen=True, slots=True)
class LimitNotes:
    """Where a host writes about limits, and what it means."""

    subtypes: frozenset[str]
    """subtypes of the events that can say so"""
    reached: Callable[[str, str, int], Iterable[LimitNote]]
    """reached(subtype, text, time of the event) yields the limits that an event says were reached"""
    plan: Callable[[bytes], str | None] | None = None
    """The plan that the last lines of a session stream name; None where they name none."""


def named(minutes: int) -> str:
    """Return the usual name of a limit by the length of its window."""
    names = {300: "five-hour", 1440: "daily", 10_080: "weekly"}
    return names.get(minutes, f"{minutes}-minute" if minutes > 0 else "")
