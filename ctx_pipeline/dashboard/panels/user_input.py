"""Panel: the person's own part: when they work, how often they correct and stop the agent, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.dashboard.figures import count, plural, reading, share
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.dashboard.data import PageData

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_LINES = (
    ("user_correction_count", "Corrections", "messages that take something back; a rule that comes again belongs in the rules file"),
    ("interruption_count", "Stops", "turns that you broke off; a smaller task, or a plan first, is cheaper than a stop"),
    ("refused_call_count", "Refusals", "tool calls that you did not allow; a permission rule spares the question"),
    ("prompts_to_first_edit", "Turns before the first edit", "how long it takes until something is changed"),
    ("user_message_count", "Messages a session", "what you typed"),
    ("failed_command_ratio", "Commands that fail", "of all commands of a session"),
    (
        "trajectory_premature_finish_without_validation",
        "Ended without a check",
        "sessions that changed something and tested nothing after it",
    ),
)
"""signal, name, how to read it"""


class Line(NamedTuple):
    """One line: name, figure, over what, how it moved, how to read it."""

    name: str
    figure: str
    over: str
    way: str
    verdict: str
    words: str


def records(data: PageData) -> dict[str, Any]:
    """Return prompts by weekday (Monday first) and hour of the page's zone: seven lists of 24 counts."""
    grid = [[0] * 24 for _ in _WEEKDAYS]
    for weekday, hour, prompts in data.prompt_hours:
        grid[weekday][hour] += prompts
    return {"hours": grid}


@panel(title="Your input", order=80, data=records, page="History")
def build(data: PageData) -> str:
    """When you write prompts, and how often you have to correct, stop or refuse; none of it leaves this machine."""
    by_name = {r["signal"]: r for r in data.aggregates}
    lines = [_line(by_name[signal], name, words) for signal, name, words in _LINES if signal in by_name and by_name[signal]["count"]]
    timed = sum(n for _, _, n in data.prompt_hours)
    untimed = sum(s.prompts for s in data.sessions if not s.copy_of) - timed
    return template("user_input.html", total=timed, untimed=untimed, lines=lines, busiest=busiest(data))


def _line(record: Mapping[str, Any], name: str, words: str) -> Line:
    over = f"in {plural(record['count'], 'session')}"
    if record["kind"] == "boolean":
        figure, over = share(record["true"], record["count"]), f"of {plural(record['count'], 'session')}"
    elif record["unit"] == "ratio":
        figure = reading(record["mean"], "ratio")
    else:
        figure, over = f"{record['mean']:.1f}", f"a session, {count(round(record['sum']))} {over}"
    seen = record["trend"]
    way = f"{seen['direction']} in {seen['month']}" if seen and seen["verdict"] else ""
    return Line(name, figure, over, way, seen["verdict"] if seen else "", words)


def busiest(data: PageData) -> str:
    """Return the weekday and the hour with most prompts in words; empty without a prompt."""
    days, hours = [0] * 7, [0] * 24
    for weekday, hour, prompts in data.prompt_hours:
        days[weekday] += prompts
        hours[hour] += prompts
    if not any(days):
        return ""
    hour = hours.index(max(hours))
    return f"most on a {_WEEKDAYS[days.index(max(days))]} and between {hour:02d}:00 and {(hour + 1) % 24:02d}:00"
