"""One session as signals and mining methods see it: named rows, already joined."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

Made = TypeVar("Made")


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
    facts: dict[str, list[Any]] = field(default_factory=dict)
    """fact table -> rows, those that were loaded or worked out; read them by the functions of :mod:`ctx_pipeline.facts`"""
    readings: dict[str, Any] = field(default_factory=dict)
    """signal name -> reading row, for methods that declare families"""
    seen: dict[str, Any] = field(default_factory=dict)
    """name of something outside -> what was observed of it, for signals that declare it"""
    origin_calls: Mapping[str, Collection[str]] | None = None
    """session for which model calls of this one count -> ids of its tool calls; None where they were not read"""
    analyses: Mapping[str, Callable[[SessionView], Any]] = field(default_factory=dict, compare=False, repr=False)
    """name -> what works out a shared figure of this session; see :meth:`analysis`"""
    _made: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, make: Callable[[SessionView], Made]) -> Made:
        """Return ``make(self)``, worked out the first time and kept for all who ask with the same function."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("Made", self._made[make])

    def fact(self, table: str, make: Callable[[SessionView], list[Any]]) -> list[Any]:
        """Return the rows of a fact table: as loaded from the lake, else worked out once from the session's other rows."""
        if table not in self.facts:
            self.facts[table] = make(self)
        return self.facts[table]

    @cached_property
    def host(self) -> str:
        """Host key."""
        return str(self.session.host)

    @cached_property
    def session_id(self) -> str:
        """Id of the session."""
        return str(self.session.session_id)

    def analysis(self, name: str) -> Any:
        """Return a figure that several signals share, worked out once; None where nobody can work it out."""
        work_out = self.analyses.get(name)
        return self.once(work_out) if work_out else None

    @cached_property
    def by_event(self) -> dict[str, Any]:
        """Events by event_id."""
        return {e.event_id: e for e in self.events}

    @cached_property
    def by_kind(self) -> dict[str, list[Any]]:
        """Events by kind, each kind in order."""
        found: dict[str, list[Any]] = {}
        for e in self.events:
            kind = e.kind
            if kind in found:
                found[kind].append(e)
            else:
                found[kind] = [e]
        return found

    def of_kinds(self, *kinds: str) -> list[Any]:
        """Events of some kinds, in order."""
        present = [kind for kind in kinds if kind in self.by_kind]
        if len(present) < 2:
            return list(self.by_kind[present[0]]) if present else []
        return [e for e in self.events if e.kind in kinds]

    @cached_property
    def prompts(self) -> list[Any]:
        """What the person typed, in order; injected text is not in it."""
        return self.of_kinds("prompt")

    def call_text(self, call: Any) -> str:
        """Text of a tool call's arguments."""
        event = self.by_event.get(call.call_event)
        return (event.text or "") if event else ""

    def result_text(self, call: Any) -> str:
        """Text of a tool call's result; empty while unanswered."""
        event = self.by_event.get(call.result_event) if call.result_event else None
        return (event.text or "") if event else ""
