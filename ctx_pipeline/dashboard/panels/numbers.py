"""Panel: the whole history in figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.figures import cost, count, plural, share, short
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel
from ctx_pipeline.model.readings import FAILED_AT_LEAST

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData, SessionLine


def figures(data: PageData) -> tuple[tuple[str, str, str], ...]:
    """Return (name, figure, note) of everything that is counted over the whole history."""
    u = data.usage
    own = [s for s in data.sessions if not s.copy_of]
    prompts = sum(s.prompts for s in own)
    tools = sum(s.tool_calls - s.repeated_tool_calls for s in own)
    failed = sum(s.failed_tool_calls - s.repeated_failed for s in own)
    threads = sum(s.threads for s in data.sessions)
    days = len({line.day for line in data.days if line.usage.calls})
    return (
        ("Sessions", count(len(data.sessions)), plural(threads, "thread")),
        ("Prompts", count(prompts), f"{_each(prompts, len(own))} a session"),
        ("Cost", cost(u.cost), cost_note(data)),
        ("Tokens", short(u.tokens), f"{short(u.output_tokens)} generated"),
        ("Model calls", count(u.calls), f"{plural(len({m.model for m in data.models}), 'model')}"),
        ("Tool calls", count(tools), f"{share(failed, tools)} failed" if tools else "none recorded"),
        ("Active days", count(days), _span(data)),
        ("Projects", count(len({x.project for x in data.sessions if x.project})), _busiest(data)),
        ("Need a look", count(sum(needs_a_look(x) for x in data.sessions)), "failures, odd records or no price"),
        ("Lessons", count(data.memory_total), f"{count(data.memory_status.get('accepted', 0))} accepted by you"),
    )


@panel(title="In numbers", order=20, page="History")
def build(data: PageData) -> str:
    """Every prompt and every call is counted once, however many copies of a session were recorded."""
    return template("numbers.html", figures=figures(data))


def needs_a_look(line: SessionLine) -> bool:
    """Tell whether a session has many failed commands, records that were not understood, or calls without a price."""
    return line.failed_commands >= FAILED_AT_LEAST or bool(
        line.unknown or line.quarantined or (line.usage.unpriced_calls and line.usage.tokens)
    )


def _span(data: PageData) -> str:
    if not data.days:
        return "none yet"
    return f"with a model call, of {plural((data.days[-1].day - data.days[0].day).days + 1, 'day')}"


def _busiest(data: PageData) -> str:
    named = [p for p in data.projects if p.project]
    most = max(named, key=lambda p: (p.sessions, p.project), default=None)
    return "none yet" if most is None else f"most in {most.project[:24]}"


def cost_note(data: PageData) -> str:
    """Return where the cost comes from, in a few words."""
    u = data.usage
    if not u.calls:
        return "no model calls"
    if data.cost_mode == "display":
        return "as the hosts recorded it"
    if u.unpriced_calls:
        return f"list prices; {plural(u.unpriced_calls, 'call')} without a price"
    return "list prices on the day of each call" if not u.recorded_calls else "recorded by the host, else list prices"


def _each(whole: int, parts: int) -> str:
    return f"{whole / parts:.1f}" if parts else "0"
