"""One session as signals and mining methods see it: named rows, already joined."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass
class SessionView:
    """Rows of one session as named tuples of :mod:`ctx_pipeline.model.tables`.

    Only the tables that were asked for are filled. ``events`` and ``tool_calls`` stand
    in thread and seq order; the main thread comes first.
    """

    session: Any
    events: list[Any] = field(default_factory=list)
    tool_calls: list[Any] = field(default_factory=list)
    model_calls: list[Any] = field(default_factory=list)
    threads: list[Any] = field(default_factory=list)
    readings: dict[str, Any] = field(default_factory=dict)
    """signal name -> reading row, for methods that declare families"""

    @property
    def host(self) -> str:
        """Host key."""
        return str(self.session.host)

    @property
    def session_id(self) -> str:
        """Id of the session."""
        return str(self.session.session_id)

    @cached_property
    def by_event(self) -> dict[str, Any]:
        """Events by event_id."""
        return {e.event_id: e for e in self.events}

    @cached_property
    def prompts(self) -> list[Any]:
        """What the person typed, in order; injected text is not in it."""
        return [e for e in self.events if e.kind == "prompt"]

    def call_text(self, call: Any) -> str:
        """Text of a tool call's arguments."""
        event = self.by_event.get(call.call_event)
        return (event.text or "") if event else ""

    def result_text(self, call: Any) -> str:
        """Text of a tool call's result; empty while unanswered."""
        event = self.by_event.get(call.result_event) if call.result_event else None
        return (event.text or "") if event else ""
