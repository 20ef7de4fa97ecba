"""Cursors of pages, and errors as values that a model can act on."""

from __future__ import annotations

import functools
import re
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from mcp.types import CallToolResult, TextContent

from ctx_pipeline.errors import CtxError, NothingYet, UsageError, unreadable
from ctx_pipeline.integrations.agent_output import clean, withheld_reasons
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.display import code_text, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import ValidationError

    from ctx_pipeline.model.memories import Memory


# Errors as a model reads them: a memory that is held back, and no option of a command.


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


AT_ONCE = 6
"""Tool calls that are worked on at a time; the others wait, so that many parallel calls do not add up in memory."""

_MOST_WRONG = 5
_CURSOR = re.compile(r"(\d{1,9})-([0-9a-f]{10})")
_turns = threading.BoundedSemaphore(AT_ONCE)
P = ParamSpec("P")
R = TypeVar("R")


def cursor_at(place: int, *asked: object) -> str:
    """Return the cursor of a place in the answer to a question."""
    return f"{place}-{digest(*asked, size=10)}"


def place_of(cursor: str | None, *asked: object) -> int:
    """Return the place that a cursor names, 0 for none; raises UsageError for one of another question."""
    if not cursor:
        return 0
    match = _CURSOR.fullmatch(cursor)
    if match is None or match[2] != digest(*asked, size=10):
        raise UsageError("this cursor belongs to no answer to these arguments", hint="repeat all other arguments, or leave the cursor out")
    return int(match[1])


def answering_code(tool: Callable[P, R]) -> Callable[P, R]:
    """Let a tool do as :func:`answering` does, with joiners, soft hyphens and form feeds as they stand in the file."""
    return answering(tool, code_text)


def answering(tool: Callable[P, R], shown: Callable[[str], str] = visible) -> Callable[P, R]:
    """Let a tool return what went wrong as a value: code, message and what to do about it; ``shown`` is done to each text."""

    @functools.wraps(tool)
    def answered(*arguments: P.args, **named: P.kwargs) -> Any:
        with _turns:
            try:
                answer: Any = tool(*arguments, **named)
            except CtxError as error:
                return as_value(error)
            except Exception as error:
                damage = unreadable(error)
                if damage is None:
                    raise
                return as_value(damage)
            # titles, tools and paths come from transcripts as texts do
            return type(answer).model_validate(clean(answer.model_dump(), shown))

    return answered


def as_wrong_arguments(error: ValidationError) -> UsageError:
    """Return what is wrong with the arguments of a call, without their values."""
    said = [f"{'.'.join(map(str, wrong['loc'])) or 'arguments'}: {wrong['msg']}" for wrong in error.errors(include_url=False)[:_MOST_WRONG]]
    return UsageError("; ".join(said), hint="give the arguments as the tool's input schema describes them")


def unknown_arguments(tool: str, strange: Sequence[str], known: Sequence[str]) -> UsageError:
    """Return what is wrong with a call that gives arguments which the tool does not have."""
    named = ", ".join(repr(word[:40]) for word in strange[:_MOST_WRONG])
    return UsageError(f"{tool} has no argument {named}", hint=f"its arguments: {', '.join(known) or 'none'}")


def as_answer(wrong: CallToolResult) -> CallToolResult:
    """Return what a model is told in place of an error: that nothing was captured yet is an answer."""
    said = (wrong.structured_content or {}).get("error", {})
    if said.get("code") != NothingYet.__name__:
        return wrong
    return CallToolResult(content=[TextContent(type="text", text=f"nothing yet: {said['message']}\n{said['hint']}".rstrip())])


def as_value(error: CtxError) -> CallToolResult:
    """Return an error as the result of a call."""
    said = {
        "code": getattr(error, "answer_code", type(error).__name__),
        "message": for_a_model(error.message)[:500],
        "hint": for_a_model(error.hint)[:500],
    }
    text = f"{said['code']}: {said['message']}" + (f"\n{said['hint']}" if said["hint"] else "")
    return CallToolResult(is_error=True, content=[TextContent(type="text", text=text)], structured_content={"error": said})
