"""What the documented example of a signal imports: ``SessionContext``, ``reading`` and ``register``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.declared import Reading, Signal, signal
from ctx_pipeline.model.session_view import SessionView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["SessionContext", "reading", "register"]

SessionContext = SessionView
"""One session: ``events``, ``tool_calls``, ``model_calls`` and ``threads`` as named rows, ``host`` and ``session_id``."""

_EVERYTHING = ("events", "tool_calls", "model_calls", "threads")


def register(
    name: str,
    *,
    group: str,
    kind: str,
    method: str = "heuristic",
    description: str = "",
    unit: str = "",
    better: str = "neither",
    version: int = 1,
    reads: Iterable[str] = _EVERYTHING,
) -> Callable[[Callable[[Any], Reading | None]], Signal]:
    """Declare the decorated function as a signal of this name; nothing is stored, discovery finds it in its file.

    The function's docstring says what the signal is, or ``description`` where it has none.
    """

    def declare(function: Callable[[Any], Reading | None]) -> Signal:
        declared = signal(
            name=name,
            version=version,
            group=group,
            kind=kind,
            unit=unit or ("value" if kind == "numeric" else ""),
            better=better,
            method=method,
            reads=tuple(reads),
            describe="" if function.__doc__ else description,
        )
        return declared(function)

    return declare


def reading(
    ctx: SessionContext,  # noqa: ARG001 - the documented signature
    declared: Signal,  # noqa: ARG001 - the same
    *,
    value: float | bool | str | None,
    evidence: Iterable[Any] = (),
    confidence: float = 1.0,
    reason: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Reading:
    """Return a reading; ``evidence`` are events (rows of ``ctx.events``) or their ids."""
    events = tuple(str(getattr(e, "event_id", e)) for e in evidence if e is not None)
    return Reading(value, events, reason, confidence, metadata)
