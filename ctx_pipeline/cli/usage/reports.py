"""``ctx usage limits`` and ``ctx usage outcomes``: what stood in the way, and what the money came to."""

from __future__ import annotations

from typing import Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import dollars, emit, json_option, local_time, more_rows, one_line, say, table, tokens, zone_name

_HOST = click.option("--host", help="Only this host.")
_PROJECT = click.option("--project", help="Only this project.")
_LIMIT = click.option("--limit", default=40, show_default=True, type=click.IntRange(1), help="At most so many rows.")
_ZONE = click.option("--timezone", help="IANA zone of the days.")


def _key(host: str | None) -> str | None:
    from ctx_pipeline import discovery

    return discovery.host(host).key if host else None


@click.command()
@click.option("--since", metavar="DAY", help="First day: 2026-03-01, 2026-03, yesterday, monday, 7d.")
@click.option("--until", metavar="DAY", help="Last day, as --since.")
@_ZONE
@_HOST
@_PROJECT
@_LIMIT
@json_option
def limits(host: str | None, limit: int, as_json: bool, **chosen: Any) -> None:
    """How often and when limits were reached, as the agents themselves wrote it down.

    What a person or a tool says about rate limits is not counted. The wait is the longest
    time without a model call of the agent until work went on.
    """
    from ctx_pipeline.usage.limits import by_limit, reached

    settings = for_reading()
    zone = chosen.get("timezone") or settings.timezone
    found = reached(host=_key(host), settings=settings, **chosen)
    if as_json:
        emit({"limits": by_limit(found), "reached": [r.to_json() for r in found]})
        return
    if not found:
        say("no record says that a limit was reached")
        return
    summed = {"host": "host", "kind": "of", "name": "limit", "times": "times", "last": "last", "waited_minutes": "minutes waited"}
    table([_local(line, zone) for line in by_limit(found)], summed)
    say()
    shown = found[-limit:] if limit else found
    rows = [_local({**r.to_json(), "projects": one_line(", ".join(r.projects), 60)}, zone) for r in shown]
    table(
        rows,
        {"first": "reached", "host": "host", "name": "limit", "resets_at": "resets", "waited_minutes": "minutes waited", "projects": "in"},
    )
    more_rows(len(found), len(rows))
    say(f"times in {zone_name(zone)}")


def _local(row: dict[str, Any], zone: str | None) -> dict[str, Any]:
    """Return a row with its times on the clock of a zone, and nothing in place of None."""
    times = {"first", "last", "resets_at"}
    return {name: local_time(value, zone) if name in times else "" if value is None else value for name, value in row.items()}


@click.command()
@click.option("--by", default="project", show_default=True, type=click.Choice(["project", "host", "month", "session"]))
@click.option("--since", metavar="DAY", help="Sessions that began on this day or later: 2026-03-01, 2026-03, yesterday, 7d.")
@click.option("--until", metavar="DAY", help="Sessions that began on this day or earlier.")
@click.option("--cost-mode", metavar="MODE", help="auto, calculate (list prices) or display (what the host wrote down).")
@_ZONE
@_HOST
@_PROJECT
@_LIMIT
@json_option
def outcomes(by: str, host: str | None, limit: int, as_json: bool, **chosen: Any) -> None:
    """Tokens and cost per commit, per correction and per tool call.

    Commits are those that git showed, else the git commit commands that went well.
    """
    from ctx_pipeline.usage.known_names import known_names
    from ctx_pipeline.usage.outcomes import outcomes as run

    settings = for_reading()
    found, everything = run(by, host=_key(host), settings=settings, **chosen)
    if as_json:
        emit({"rows": [one.to_json(by) for one in found], "totals": everything.to_json(by)})
        return
    if not found:
        known_names(settings, project=chosen.get("project"), stored=True)
        say("no model calls in this range")
        return
    names = {by: by, "sessions": "sessions", "tokens": "tokens", "cost": "cost", "commits": "commits", "commit": "per commit"}
    names |= {"corrections": "corrections", "correction": "per correction", "tool_calls": "tool calls", "tool_call": "per tool call"}
    drop = ("tool_call", "tool_calls", "correction", "corrections", "tokens", "sessions")
    table([_shown(one, by) for one in found[:limit]], names, total=_shown(everything, by), drop=drop)
    more_rows(len(found), min(len(found), limit))
    say("sessions whose corrections were not measured yet are left out of that figure")


def _shown(one: Any, by: str) -> dict[str, Any]:
    row = {by: one.key, "sessions": one.sessions, "tokens": tokens(one.tokens), "cost": dollars(one.cost_nano)}
    for unit, count in one.units.items():
        each = one.per(unit)
        row[unit] = count if one.known[unit][0] else ""
        row[unit.removesuffix("s")] = "" if each is None else f"{dollars(round(each[1]))}, {tokens(round(each[0]))}"
    return row
