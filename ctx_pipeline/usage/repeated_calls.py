"""Tool calls that a copy of a session which went on repeats of its origin: they count once, for the origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import failed_calls
from ctx_pipeline.facts.copied_calls import copied_calls
from ctx_pipeline.usage.session_figures import Figure, figures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


class Repeated(NamedTuple):
    """Tool calls of a session that count for another one."""

    calls: int = 0
    failed: int = 0


def repeated_calls(store: Store, settings: Settings) -> dict[tuple[str, str], Repeated]:
    """Return (host, session) -> the tool calls that it repeats; sessions without any are not in it."""
    found = {key: Repeated(*values[0]) for key, values in figures(store, settings, REPEATED)}
    return {key: repeated for key, repeated in found.items() if repeated.calls}


def _repeated(view: SessionView, _settings: Settings) -> dict[int | None, Any]:
    """Return how many tool calls of a session are copies, and how many of these failed."""
    copied = copied_calls(view)
    failed = sum(call.call_event in copied for call in failed_calls(view)) if copied else 0
    return {None: [len(copied), failed]}


def _sum(values: Iterable[Any]) -> list[int]:
    return [sum(column) for column in zip([0, 0], *values, strict=True)]


REPEATED = Figure(
    "repeated_calls",
    1,
    _repeated,
    _sum,
    {
        "events": ("event_id", "subtype", "call_key"),
        "model_calls": ("call_key", "owner", "copy_of"),
        "tool_calls": ("call_id", "thread_id", "tool", "action", "is_error", "call_event", "result_event"),
        "command_runs": ("call_event", "polls", "result", "event"),
    },
    ("tool_call", "tool_result"),
    timeless=True,
    of_origins=True,
)
"""What is kept of each session: its tool calls that are another one's, and how many of them failed."""
