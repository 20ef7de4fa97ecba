"""Errors as a model reads them: a memory that is held back, and no option of a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError
from ctx_pipeline.integrations.agent_output import clean, withheld_reasons

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory

_COMMAND = re.compile(r"(\bctx [a-z][^;:,\n]*)")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")


class LessonRefused(CtxError):
    """A memory that a check held back: an agent gets neither its text nor a say in it."""

    answer_code = "HeldBack"
    """what agents know this error by"""

    def __init__(self, memory: Memory) -> None:
        why = ", ".join(withheld_reasons(memory)) or "its status is needs_review"
        super().__init__(
            f"memory {memory.memory_id} is held back for review ({why}): its text is not shown to an agent",
            hint=f"a person reads it with `ctx memory show {memory.memory_id}` and takes it in with"
            f" `ctx memory accept {memory.memory_id} --reviewed`, or rejects it; go on without it",
        )


def for_a_model(text: str) -> str:
    """Return what an error says, with arguments of the tool where it names options of a command; commands for a person stay."""
    parts = _COMMAND.split(clean(text))
    return "".join(part if number % 2 else _OPTION.sub(_argument, part) for number, part in enumerate(parts))


def _argument(option: re.Match[str]) -> str:
    return option[1].replace("-", "_")
