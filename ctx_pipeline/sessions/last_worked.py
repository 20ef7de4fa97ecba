"""The order in which sessions of a repository are gone on from, for commands, tools and hooks alike; with few imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")


def last_worked(sessions: Iterable[T], rows: Callable[[T], Mapping[str, Any]], last: Callable[[T], tuple[int, str, str]]) -> list[T]:
    """Return the sessions in which a tool was called, else those in which something was asked, the last active first.

    ``last`` gives when a session was last active, its host and its id.
    """
    found = list(sessions)
    acted = [one for one in found if rows(one).get("tool_calls")]
    asked = [one for one in found if rows(one).get("prompts")]

    def place(one: T) -> tuple[int, str, str]:
        at, host, session_id = last(one)
        return -at, host, session_id

    return sorted(acted or asked, key=place)
