"""Usage by what the model did: per tool, MCP server, skill, plug-in and shell command.

A model call is shared equally among the uses that it asked for, whole tokens and
nano-dollars, the rest of a division to the first; a call without any stands under a
name in brackets. So every way of grouping adds up to the same totals.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ctx_pipeline.api.tally import SUMS
from ctx_pipeline.api.usage import Usage, calls, chosen_filters, total
from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.commands import command_text, steps
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.api.live import Counted
    from ctx_pipeline.api.usage import Calls
    from ctx_pipeline.settings import Settings

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_E = {name: place for place, name in enumerate(EVENTS.names)}
_T = {name: place for place, name in enumerate(TOOL_CALLS.names)}
_TOKENS = tuple(_C[n] for n in ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning"))

Use = tuple[str, str, list[str], "str | None"]
"""tool, action, argv, arguments as JSON where they name a skill"""

Uses = dict[tuple[str, str, str], list[Use]]
"""(host, session, call key) -> what the call asked for"""

_SKILL_FILE = re.compile(r"[/\\]skills[/\\](?:\.system[/\\])?([\w.-]+)[/\\]SKILL\.md\b")
_PLUGIN_SERVER = "mcp__plugin_"
"""Beginning of a tool's name whose server a plug-in brought: mcp__plugin_PLUGIN_SERVER__TOOL (Claude Code 2.x)."""

NONE = {"tool": "(answer)", "server": "(no MCP server)", "skill": "(no skill)", "plugin": "(no plug-in)", "command": "(no shell command)"}
"""grouping -> name of the calls that asked for nothing of the kind"""


def usage_by(
    by: str,
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
    cost_mode: str | None = None,
    stored: bool = False,
    read: tuple[Calls, Uses] | None = None,
    settings: Settings | None = None,
) -> Usage:
    """Return usage by tool, server, skill, plug-in or command; rows have ``uses``, how often the thing was asked for.

    Takes the same filters and sources as :func:`ctx_pipeline.api.usage.usage`; ``read`` is
    what :func:`asked` returned for them. Raises UsageError for an unknown grouping.
    """
    if by not in NONE:
        raise UsageError(f"usage by {by!r} is not known", hint=f"use one of {', '.join(NONE)}")
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.api.tally import moment

    chosen = settings or settings_module.load()
    filters = chosen_filters(
        chosen, since=since, until=until, timezone=timezone, host=host, project=project, model=model, cost_mode=cost_mode
    )
    found, uses = read or asked(chosen, host=host, stored=stored)
    first, last = moment(filters.since, filters.timezone), moment(filters.until, filters.timezone, after=True)

    def meant(row: tuple) -> bool:
        ts = row[_C["ts"]]
        in_range = (first is None and last is None) or (ts is not None and (first is None or ts >= first) and (last is None or ts < last))
        return in_range and model in {None, row[_C["model"]]}

    chosen_rows = (row for c, rows in found.owned if project in {None, c.project, c.repository} for row in rows if meant(row))
    rows = _shared(chosen_rows, uses, by, filters.cost_mode)
    lost = [
        r
        for c, held in found.owned
        if (c.host, c.session_id) in found.gone and project in {None, c.project, c.repository}
        for r in held
        if meant(r)
    ]
    gone = total(_shared(lost, uses, by, filters.cost_mode)) if lost else None
    return Usage(
        by,
        filters.timezone or "local time",
        rows,
        total(rows),
        gone,
        found.source,
        filters.cost_mode,
        sum(c.unread for c, _ in found.owned),
    )


def asked(settings: Settings, *, host: str | None = None, stored: bool = False) -> tuple[Calls, Uses]:
    """Return every call that counts and what calls asked for: of stored sessions from the tables, of newer ones from their rows.

    Of a session that is read, nothing else is kept.
    """
    fresh: Uses = {}
    found = calls(settings, host=host, stored=stored, seen=lambda counted: fresh.update(_live_uses(counted)))
    return found, fresh if found.source == "homes" else _stored_uses(settings) | fresh


def names_in(use: Use, by: str) -> Sequence[str]:
    """Return the names of what was asked for."""
    return _NAMES[by](use)


def names_of(row: tuple, uses: Mapping[tuple[str, str, str], list[Use]], by: str) -> list[str]:
    """Return the names that a call is shared among, one for each use; empty where it asked for nothing of the kind."""
    return [name for use in uses.get((row[_C["host"]], row[_C["session_id"]], row[_C["call_key"]]), ()) for name in names_in(use, by)]


SHARED = (*_TOKENS, _C["cost"], _C["recorded_cost"])
"""Places of a row of ``model_calls`` that are shared out."""


def parts(row: tuple, names: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield each name with its share of the row's tokens and costs (in the order of ``SHARED``)."""
    for number, name in enumerate(names):
        yield name, [_part(row[place] or 0, len(names), number) for place in SHARED]


def _part(amount: int, among: int, number: int) -> int:
    """Return the share of the ``number``-th of so many: whole numbers, the rest of the division to the first."""
    each, rest = divmod(amount, among)
    return each + rest if number == 0 else each


def _shared(rows: Iterable[tuple], uses: Mapping[tuple[str, str, str], list[Use]], by: str, mode: str) -> list[dict[str, Any]]:
    sums: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        names = names_of(row, uses, by)
        recorded, calculated = row[_C["recorded_cost"]], row[_C["cost"]]
        cost = recorded if mode == "display" else calculated if mode == "calculate" or recorded is None else recorded
        amounts = [*(row[p] for p in _TOKENS), 1, cost or 0, int(cost is None), int(recorded is not None), recorded or 0, calculated or 0]
        shares = names or [NONE[by]]
        for number, name in enumerate(shares):
            total_of = sums.setdefault((name, row[_C["host"]], row[_C["model"]]), [0] * (len(SUMS) + 1))
            for place, amount in enumerate(amounts):
                total_of[place] += amount if len(shares) == 1 else _part(amount, len(shares), number)
            total_of[-1] += bool(names)
    ordered = sorted(sums.items(), key=lambda one: (-one[1][SUMS.index("cost_nano")], one[0]))
    return [{by: k[0], "host": k[1], "model": k[2], **dict(zip((*SUMS, "uses"), v, strict=True))} for k, v in ordered]


def _server(use: Use) -> list[str]:
    tool, action, _, _ = use
    if action != "mcp":
        return []
    if tool.startswith("mcp__"):
        return [tool.split("__")[1]]
    return [tool.rpartition(".")[0] or tool]


def _skill(use: Use) -> list[str]:
    """Return the skill that was called by its tool, or those whose instructions a shell command printed."""
    if use[3] is None:
        return [found[:100] for found in dict.fromkeys(_SKILL_FILE.findall(command_text(use[2])))] if use[1] == "shell" else []
    try:
        said = json.loads(use[3])
    except (ValueError, RecursionError):
        return []
    name = (said.get("skill") or said.get("command")) if isinstance(said, dict) else None
    return [str(name)[:100]] if name else []


def _plugin(use: Use) -> list[str]:
    """Return the plug-in that brought a tool's server or a skill: their names carry it."""
    if use[0].startswith(_PLUGIN_SERVER):
        return [use[0][len(_PLUGIN_SERVER) :].partition("_")[0][:100]]
    return [name.partition(":")[0] for name in _skill(use) if ":" in name.strip(":")]


def _command(use: Use) -> list[str]:
    if use[1] != "shell" or not use[2]:
        return []
    return [step.subject[:100] for step in steps(command_text(use[2])) if step.subject]


_NAMES: Mapping[str, Callable[[Use], Sequence[str]]] = {
    "tool": lambda use: [use[0]],
    "server": _server,
    "skill": _skill,
    "plugin": _plugin,
    "command": _command,
}


def _live_uses(counted: Counted) -> Uses:
    parsed = counted.parsed
    if parsed is None:
        return {}
    asked = {e[_E["event_id"]]: e for e in parsed.events if e[_E["kind"]] == "tool_call"}
    found: Uses = {}
    for tool in parsed.tool_calls:
        event = asked.get(tool[_T["call_event"]])
        if event is not None and event[_E["call_key"]]:
            name = tool[_T["tool"]]
            text = event[_E["text"]] if name.lower() == "skill" else None
            use = (name, tool[_T["action"]], list(tool[_T["argv"]]), text)
            found.setdefault((counted.host, counted.session_id, event[_E["call_key"]]), []).append(use)
    return found


def _stored_uses(settings: Settings) -> Uses:
    from ctx_pipeline.api.reader import reading
    from ctx_pipeline.storage.usage_sql import USES_SQL

    found: Uses = {}
    with reading(settings) as (store, _), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        for host, session, key, *use in connection.execute(USES_SQL).fetchall():
            found.setdefault((host, session, key), []).append((use[0], use[1], list(use[2] or ()), use[3]))
    return found
