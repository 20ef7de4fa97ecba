"""The order in which sessions of a repository are gone on from, for commands, tools and hooks alike; with few imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")

WORKED, ASKED, GREETED, NOTHING = range(4)
"""What came of a session: a tool was called, something was asked, the person said no more than hello, nobody said anything."""

_GREETING = lazy_pattern(
    r"(?i)\W*(?:ping|test(?:ing)?)\W*"
    r"|\W*(?:(?:hi+|hello|hey+|hiya|yo|good (?:morning|afternoon|evening|day)|greetings|hola|hallo|bonjour|salut|ciao)\b[\s,.!]*)+"
    r"(?:(?!(?:continue|explain|go|proceed|resume|retry)\b)\w{1,20}\W*)?"
    r"|(?:\W*\w{1,20}\W+)?how are you(?: (?:doing|today))*\W*|\W*(?:are )?you there\W*"
)
"""A hello, also with one word more, such as a name."""


def came_of(rows: Mapping[str, Any]) -> int:
    """Return what came of a session by its columns, as far as its first request tells what it was asked."""
    if rows.get("tool_calls"):
        return WORKED
    if not rows.get("prompts"):
        return NOTHING
    title = rows.get("title")
    if rows.get("title_source") != "prompt" or not isinstance(title, str):
        return ASKED  # a title that somebody gave it is about something
    from ctx_pipeline.facts.prompts import is_request

    # the title is the first prompt that asks for something: behind one like "Hello Claude!" another may
    return GREETED if not is_request(title) or (rows["prompts"] == 1 and _GREETING.fullmatch(title)) else ASKED


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
