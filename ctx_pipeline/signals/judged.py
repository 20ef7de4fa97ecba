"""What a language model says of a session; nobody is asked until a person says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.declared import Judge, Reading, signal

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView


@signal(
    group="outcome",
    kind="categorical",
    better="higher",
    method="llm_judge",
    reads=("sessions",),
    judge=Judge("Did the agent reach what the person asked for in this session?", ("yes", "partly", "no", "unclear")),
)
def judged_goal_reached(view: SessionView) -> Reading:
    """Whether the agent reached the goal, as a language model judges it: yes, partly, no or unclear.

    Off by default: ``ctx signal run --judge`` asks the model of ``[judge]`` in config.toml
    and costs money. An answer counts until the session grows. Models judge kindly; read
    it beside the tests that ran and the commits that stayed. Null while nobody asked.
    """
    answer = view.seen.get("judge:judged_goal_reached")
    if answer is None:
        return Reading(None, reason="no judge was asked (ctx signal run --judge)")
    details = {name: answer[name] for name in ("model", "input_tokens", "output_tokens", "cost_nano")}
    return Reading(answer["label"], confidence=answer["confidence"], metadata=details)
