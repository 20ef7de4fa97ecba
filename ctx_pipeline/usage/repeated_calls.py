"""Tool calls that a copy of a session which went on repeats of its origin: they count once, for the origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import failed_calls
from ctx_pipeline.facts.copied_calls import copied_calls
from ctx_pipeline.shell.commands import command_text, steps
from ctx_pipeline.usage.session_figures import Figure, figures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


class Repeated(NamedTuple):
    """Tool calls of a session that count for another one."""

    calls: int = 0
    failed: int = 0
    commits: int = 0
    """commits that these calls made"""
    said: tuple[str, ...] = ()
    """events in which the person spoke before the last of them"""


def repeated_calls(store: Store, settings: Settings) -> dict[tuple[str, str], Repeated]:
    """Return (host, session) -> the tool calls that it repeats; sessions without any are not in it."""
    figured = ((key, values[0]) for key, values in figures(store, settings, REPEATED))
    found = {key: Repeated(calls, failed, commits, tuple(said)) for key, (calls, failed, commits, said) in figured}
    return {key: repeated for key, repeated in found.items() if repeated.calls}


def _repeated(view: SessionView, _settings: Settings) -> dict[int | None, Any]:
    """Return how many tool calls of a session are copies, how many of these failed, and how many commits they made."""
    copied = copied_calls(view)
    failed = sum(call.call_event in copied for call in failed_calls(view)) if copied else 0
    went_well = (c for c in view.tool_calls if c.call_event in copied and c.action == "shell" and not c.is_error)
    return {None: [len(copied), failed, sum(commits_made(call.argv) for call in went_well), _said_before(view, copied)]}


def _said_before(view: SessionView, copied: Collection[str]) -> list[str]:
    """Return the events in which the person spoke before the last copied call of their thread: they were copied with it."""
    last = {event.thread_id: event.seq for event in view.events if event.event_id in copied}
    return [e.event_id for e in view.events if e.kind in SAID and e.seq < last.get(e.thread_id, -1)]


SAID = ("prompt", "permission", "tool_result")
"""Kinds of events that hold words of a person."""


def commits_made(argv: Sequence[str] | None) -> int:
    """Return how many commits a command line makes where it goes well."""
    return sum(step.subject == "git commit" and "--dry-run" not in step.words for step in steps(command_text(argv or ())))


def _sum(values: Iterable[Any]) -> list[Any]:
    every = list(values)
    counts = [sum(column) for column in zip([0, 0, 0], *(one[:3] for one in every), strict=True)]
    return [*counts, [event for one in every for event in one[3]]]


REPEATED = Figure(
    "repeated_calls",
    2,
    _repeated,
    _sum,
    {
        "events": ("event_id", "thread_id", "seq", "kind", "subtype", "call_key"),
        "model_calls": ("call_key", "owner", "copy_of"),
        "tool_calls": ("call_id", "thread_id", "tool", "action", "is_error", "argv", "call_event", "result_event"),
        "command_runs": ("call_event", "polls", "result", "event"),
    },
    ("tool_call", *SAID),
    timeless=True,
    of_origins=True,
)
"""What is kept of each session: its tool calls that are another one's, how many of them failed, and the commits that they made."""
