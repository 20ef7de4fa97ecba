"""Panel: the whole history in figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.charts import strip
from ctx_pipeline.dashboard.numbers import count, money, plural, share, short
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData


@panel(title="In numbers", order=20)
def build(data: PageData) -> str:
    """Every model call is counted once, however many forks and copies of it were recorded."""
    u = data.usage
    tools = sum(s.tool_calls for s in data.sessions)
    failed = sum(s.failed_tool_calls for s in data.sessions)
    threads = sum(s.threads for s in data.sessions)
    days = len({line.day for line in data.days})
    figures = (
        ("Sessions", count(len(data.sessions)), f"{plural(threads, 'thread')} on {plural(days, 'active day')}"),
        (
            "Prompts",
            count(sum(s.prompts for s in data.sessions)),
            f"{_each(sum(s.prompts for s in data.sessions), len(data.sessions))} a session",
        ),
        ("Cost", money(u.cost_nano), cost_note(data)),
        ("Tokens", short(u.tokens), f"{short(u.output_tokens)} generated"),
        ("Model calls", count(u.calls), f"{plural(len({m.model for m in data.models}), 'model')}"),
        ("Tool calls", count(tools), f"{share(failed, tools)} failed" if tools else "none recorded"),
        ("Memories", count(data.memory_total), f"{count(data.memory_status.get('accepted', 0))} accepted by you"),
    )
    kinds = (
        ("k0", "Fresh input", u.input_tokens),
        ("k1", "Written to cache", u.cache_writes),
        ("k2", "Read from cache", u.cache_read_tokens),
        ("k3", "Output", u.output_tokens),
    )
    drawing = strip([(name, value, f"{title}: {short(value)} tokens, {share(value, u.tokens)}") for name, title, value in kinds])
    return template("numbers.html", figures=figures, kinds=kinds, strip=drawing, total=u.tokens, reasoning=u.reasoning_tokens)


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
