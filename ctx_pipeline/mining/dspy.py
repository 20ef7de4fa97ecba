"""What a model of the person's choice draws from a session, through a typed DSPy signature."""

from __future__ import annotations

from functools import lru_cache, partial
from types import GenericAlias
from typing import Any

from ctx_pipeline.mining.lessons.asked_models import compared_lessons
from ctx_pipeline.mining.lessons.asked_models.model_lessons import FIELDS, INSTRUCTIONS, believed_lessons
from ctx_pipeline.mining.lessons.asked_models.sent_record import KINDS
from ctx_pipeline.model.declared import MODEL, Method

NAME = __name__.rpartition(".")[2]


@lru_cache(maxsize=2)
def signature(instructions: str = INSTRUCTIONS) -> Any:
    """Return the DSPy signature ``record -> lessons``: a list of typed lessons, so that an answer of another shape is no answer."""
    import dspy
    from pydantic import Field, create_model

    types: dict[str, Any] = {"confidence": float, "priority": int, "steps": list[str], "evidence": list[str]}
    described: dict[str, Any] = {name: (types.get(name, str), Field(description=meaning)) for name, meaning in FIELDS.items()}
    lessons = GenericAlias(list, (create_model("Lesson", **described),))
    fields: dict[str, Any] = {
        "record": (str, dspy.InputField(desc="the session, one JSON object a line with id, by and text")),
        "lessons": (lessons, dspy.OutputField(desc="the lessons, empty where there is nothing to learn")),
    }
    return dspy.Signature(fields, instructions)


@lru_cache(maxsize=1)
def grouping() -> Any:
    """Return the DSPy signature ``lessons -> same, contrary``: groups of ids."""
    import dspy

    groups = GenericAlias(list, (list[str],))
    fields: dict[str, Any] = {"lessons": (str, dspy.InputField(desc="one JSON object a line with id, kind, day, lesson and when"))}
    fields |= {name: (groups, dspy.OutputField(desc=meaning)) for name, meaning in compared_lessons.FIELDS.items()}
    return dspy.Signature(fields, compared_lessons.INSTRUCTIONS)


DSPY = Method(
    name=NAME,
    version=3,
    describe=(
        "Lessons that a model draws from a session through a typed DSPy signature.\n\n"
        "Only when a person names it: `ctx mine HOST SESSION --method dspy`, with the model of `[mine]` in config.toml. The "
        "redacted record goes to that model; its answer, tokens and cost are kept, and a second run answers from them. Lessons "
        "that the records they name do not bear out are refused, and so is what a rules file told the agent."
    ),
    extract=partial(believed_lessons, NAME),
    reads=("events", "tool_calls"),
    deterministic=False,
    kinds=KINDS,
    asks=MODEL,
)
