"""What the documented example of a mining method imports: ``MiningContext``, ``MiningResult``, ``register_method`` and ``memory_id``."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.model.session_view import SessionView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["MemoryCandidate", "MiningContext", "MiningResult", "memory_id", "register_method"]

_EVERYTHING = ("events", "tool_calls", "model_calls", "threads")
_SUMMARY = 220


class MiningContext(SessionView):
    """One session: ``events``, ``tool_calls``, ``model_calls`` and ``threads`` as named rows, ``host`` and ``session_id``."""

    def task_summary(self) -> str:
        """Return the first thing that the person typed, as one line of at most 220 characters; empty where nobody typed."""
        text = " ".join((self.prompts[0].text or "").split()) if self.prompts else ""
        return truncate(text, _SUMMARY)


@dataclass
class MiningResult:
    """What a method drew from one session; of it the store keeps the candidates."""

    session_id: str
    host: str
    method: str
    task_summary: str = ""
    candidates: list[MemoryCandidate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    filters_applied: list[str] = field(default_factory=list)


def memory_id(session_id: str, method: str, number: int) -> str:
    """Return the name of a session's candidate within its method; the store gives it an id that does not depend on the number."""
    return f"{session_id}:{method}:{number}"


def register_method(
    name: str, *, description: str = "", version: int = 1, reads: Iterable[str] = _EVERYTHING, deterministic: bool = True
) -> Callable[[Callable[[MiningContext], MiningResult]], Method]:
    """Declare the decorated function as a mining method of this name; nothing is stored, discovery finds it in its file.

    The function's docstring says what the method draws, or ``description`` where it has
    none. Raise ``version`` when the function changes, so that sessions are mined again.
    """

    def declare(function: Callable[[MiningContext], MiningResult]) -> Method:
        def extract(view: SessionView) -> Iterable[Any]:
            shared = {f.name: getattr(view, f.name) for f in fields(SessionView) if f.init}
            return function(MiningContext(**shared)).candidates

        describe = inspect.cleandoc(function.__doc__ or "") or description
        return Method(name, version, describe, extract, reads=tuple(reads), deterministic=deterministic)

    return declare
