"""Panel: where tokens and money went, by day, model, project and agent, and which prices were used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.dashboard.figures import plural
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel
from ctx_pipeline.model.display import amount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.dashboard.data import PageData

MODES = {
    "auto": "what the agent recorded, else the list price of the day of the call",
    "calculate": "the list price of the day of each call, whatever the agent recorded",
    "display": "what the agents recorded, and nothing else",
}
"""cost mode -> what a cost is in it"""


def records(data: PageData) -> dict[str, Any]:
    """Return usage by day, agent with a row, project and model: names as lists, rows that point into them, money in nano-dollars.

    ``days`` are the days of the rows with the week and the month they count to.
    A row is [day or None, agent, project, model, fresh input, output, written for five
    minutes, written for an hour, read from the cache, reasoning, calls, cost, calls
    without a price].
    """
    used = {line.host for line in data.usage_lines}
    hosts = [key for key in data.host_titles if key in used]
    projects = _names(line.project for line in data.usage_lines)
    models = _names(line.model or "" for line in data.usage_lines)
    return {
        "hosts": [[key, data.host_titles[key].title, data.host_titles[key].tone] for key in hosts],
        "projects": list(projects),
        "models": list(models),
        "days": [[day.isoformat() for day in period] for period in data.periods],
        "rows": [
            [
                line.day and line.day.isoformat(),
                hosts.index(line.host) if line.host in hosts else -1,
                projects[line.project],
                models[line.model or ""],
                *line.usage[:9],
            ]
            for line in data.usage_lines
        ],
    }


def _names(found: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(dict.fromkeys(found))}


@panel(title="Accounting", order=40, data=records, page="Accounting")
def build(data: PageData) -> str:
    """Every model call once, on the day it was made. Choose days, an agent or a project, and by what it is added up."""
    sources = sorted({(line.source, line.since) for line in data.prices if line.since != "list"}, key=lambda pair: pair[1])
    lists = sorted({line.source for line in data.prices})
    newest = sources[-1][1] if sources else ""
    u = data.usage
    unpriced = plural(u.unpriced_calls, "call") if u.unpriced_calls else ""
    return template(
        "accounting.html",
        total=len(data.usage_lines),
        mode=data.cost_mode,
        means=MODES.get(data.cost_mode, ""),
        lists=lists,
        newest=newest,
        prices=sorted(data.prices, key=lambda p: (-p.calls, p.provider, p.model)),
        recorded=u.recorded_calls,
        unpriced=unpriced,
        charges=[(data.host_titles[c.host].title if c.host in data.host_titles else c.host, amount(c.amount), c) for c in data.charges],
    )
