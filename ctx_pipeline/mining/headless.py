"""What an agent draws from a session when it is asked without a person: one method for each host that declares how."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.mining.lessons.asked_models.model_lessons import believed_lessons
from ctx_pipeline.mining.lessons.asked_models.sent_record import KINDS
from ctx_pipeline.model.declared import AGENT, Method

if TYPE_CHECKING:
    from ctx_pipeline.model.agent_config import Headless


def _method(key: str, title: str, recipe: Headless) -> Method:
    return Method(
        name=recipe.method,
        version=3,
        describe=(
            f"Lessons that {title} draws from a session, asked without a person.\n\n"
            f"Only when a person names it: `ctx mine {key} SESSION --method {recipe.method}`. The installed `{recipe.command[0]}` "
            "runs once a session in an empty folder, without the person's configuration or a session of its own, and may at most "
            "read. It gets the redacted record; its stream, tokens and cost are kept, and a second run answers from them. Lessons "
            "that the records they name do not bear out are refused, and so is what a rules file told the agent."
        ),
        extract=partial(believed_lessons, recipe.method),
        reads=("events", "tool_calls"),
        deterministic=False,
        kinds=KINDS,
        asks=AGENT,
    )


# discovery takes what stands in a module under a name
globals().update(
    {h.agent.headless.method: _method(h.key, h.title, h.agent.headless) for h in discovery.hosts().values() if h.agent.headless}
)
