"""The order in which sessions of a repository are gone on from, for commands, tools and hooks alike; with few imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ctx_pipeline.facts.greetings import is_trial, names_greeting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")

WORKED, ASKED, GREETED, NOTHING = range(4)
"""What came of a session: a tool was called, something was asked, the person said no more than hello, nobody said anything."""


def came_of(rows: Mapping[str, Any]) -> int:
    """Return what came of a session by its columns, as far as its first request tells what it was asked."""
    if rows.get("tool_calls"):
        return WORKED
    if not rows.get("prompts"):
        return NOTHING
    title = rows.get("title")
    if not isinstance(title, str) or not title:
        return ASKED
    if rows.get("title_source") != "prompt":  # a title that somebody gave it is about something
        return GREETED if names_greeting(title) else ASKED
    from ctx_pipeline.facts.prompts import is_request

    return ASKED if is_request(title) and not (rows["prompts"] == 1 and is_trial(title)) else GREETED


def last_worked(sessions: Iterable[T], rows: Callable[[T], Mapping[str, Any]], last: Callable[[T], tuple[int, str, str]]) -> list[T]:
    """Return the sessions in which a tool was called, else those in which something was asked, else greetings, the last active first.

    ``last`` gives when a session was last active, its host and its id.
    """
    found = [(came_of(rows(one)), one) for one in sessions]
    most = min((came for came, _ in found), default=NOTHING)

    def place(one: T) -> tuple[int, str, str]:
        at, host, session_id = last(one)
        return -at, host, session_id

    return sorted((one for came, one in found if came == most < NOTHING), key=place)
