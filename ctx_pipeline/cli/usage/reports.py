"""``ctx usage limits`` and ``ctx usage outcomes``: what stood in the way, and what the money came to."""

from __future__ import annotations

from typing import Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import dollars, emit, json_option, one_line, say, table, tokens

_HOST = click.option("--host", help="Only this host.")
_PROJECT = click.option("--project", help="Only this project.")
_ZONE = click.option("--timezone", help="IANA zone whose days are meant.")


def _key(host: str | None) -> str | None:
    from ctx_pipeline import discovery

    return discovery.host(host).key if host else None


@click.command()
@click.option("--since", metavar="DAY", help="First day, 2026-03-01.")
@click.option("--until", metavar="DAY", help="Last day, 2026-03-31.")
@_ZONE
@_HOST
@_PROJECT
@json_option
def limits(host: str | None, as_json: bool, **chosen: Any) -> None:
    """How often and when limits were reached, as the agents themselves wrote it down.

    What a person or a tool says about rate limits is not counted. The wait is the longest
    time without a model call of the agent until work went on.
    """
    from ctx_pipeline.usage.limits import by_limit, reached

    found = reached(host=_key(host), settings=for_reading(), **chosen)
    if as_json:
        emit({"limits": by_limit(found), "reached": [r.to_json() for r in found]})
        return
    if not found:
        say("no record says that a limit was reached")
        return
    summed = {"host": "host", "kind": "of", "name": "limit", "times": "times", "last": "last", "waited_minutes": "minutes waited"}
    table([_blank(line) for line in by_limit(found)], summed)
    say()
    rows = [_blank({**r.to_json(), "projects": one_line(", ".join(r.projects), 60)}) for r in found[-40:]]
    table(
        rows,
        {"first": "reached", "host": "host", "name": "limit", "resets_at": "resets", "waited_minutes": "minutes waited", "projects": "in"},
    )
    if len(found) > len(rows):
        say(f"and {len(found) - len(rows):,} earlier (--json has all)")


def _blank(row: dict[str, Any]) -> dict[str, Any]:
    return {name: "" if value is None else value for name, value in row.items()}


@click.command()
@click.option("--by", default="project", show_default=True, type=click.Choice(["project", "host", "month", "session"]))
@click.option("--since", metavar="DAY", help="Sessions that began on this day or later.")
@click.option("--until", metavar="DAY", help="Sessions that began on this day or earlier.")
@click.option("--cost-mode", metavar="MODE", help="auto, calculate (list prices) or display (what the host wrote down).")
@_ZONE
@_HOST
@_PROJECT
@json_option
def outcomes(by: str, host: str | None, as_json: bool, **chosen: Any) -> None:
    """Tokens and cost per commit, per correction and per tool call.

    Commits are those that git showed, else the git commit commands that went well.
    """
    from ctx_pipeline.usage.outcomes import outcomes as run

    found, everything = run(by, host=_key(host), settings=for_reading(), **chosen)
    if as_json:
        emit({"rows": [one.to_json(by) for one in found], "totals": everything.to_json(by)})
        return
    if not found:
        say("no model calls in this range")
        return
    names = {by: by, "sessions": "sessions", "tokens": "tokens", "cost": "cost", "commits": "commits", "commit": "per commit"}
    names |= {"corrections": "corrections", "correction": "per correction", "tool_calls": "tool calls", "tool_call": "per tool call"}
    table([_shown(one, by) for one in found[:40]], names, total=_shown(everything, by))
    if len(found) > 40:
        say(f"and {len(found) - 40:,} more (--json has all)")
    say("sessions whose corrections were not measured yet are left out of that figure")


def _shown(one: Any, by: str) -> dict[str, Any]:
    row = {by: one.key, "sessions": one.sessions, "tokens": tokens(one.tokens), "cost": dollars(one.cost_nano)}
    for unit, count in one.units.items():
        each = one.per(unit)
        row[unit] = count if one.known[unit][0] else ""
        row[unit.removesuffix("s")] = "" if each is None else f"{dollars(round(each[1]))}, {tokens(round(each[0]))}"
    return row
