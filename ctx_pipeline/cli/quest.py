"""``ctx quest``: three goals a day, drawn from the person's own habits."""

from __future__ import annotations

import time

import click

from ctx_pipeline.cli.output import counted, emit, json_option, one_line, say


@click.group()
def quest() -> None:
    """Three goals a day, drawn from what your own sessions showed, and verified by their readings.

    Nothing is kept before you verify. Points are 100 a quest and 50 more for all three.
    """


@quest.command("list")
@json_option
def list_quests(as_json: bool) -> None:
    """Show today's quests and how they stand, of the sessions that were measured up to now."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.findings import quests as stage
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    day = stage.today(settings, now=time.time_ns() // 1000)
    with open_store(settings) as store:
        has = stage.score(store)
    found = stage.quests(settings, day)
    if as_json:
        emit({"day": day.isoformat(), "quests": [one.to_json() for one in found], "score": has.to_json()})
        return
    _print(found)
    say(f"{has.points:,} points, {has.rank}; {counted(has.streak, 'day')} in a row; {counted(has.freezes, 'freeze')}")


@quest.command()
@json_option
def verify(as_json: bool) -> None:
    """Verify the past days, up to seven, and show how today stands; today counts when it is over."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.findings import quests as stage
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        told = stage.verify(store, settings, now=time.time_ns() // 1000)
        has = stage.score(store)
    if as_json:
        days = [{"day": day.isoformat(), "quests": [one.to_json() for one in found]} for day, found in told]
        emit({"days": days, "score": has.to_json()})
        return
    for day, found in told:
        say(day.isoformat(), bold=True)
        _print(found)
    say(f"{has.points:,} points, {has.rank}; {counted(has.streak, 'day')} in a row; {counted(has.freezes, 'freeze')}")


@quest.command("buy-freeze")
@json_option
def buy_freeze(as_json: bool) -> None:
    """Buy a freeze for 200 points: one day with no quest done does not end the row."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.findings import quests as stage
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        has = stage.buy_freeze(store, settings, now=time.time_ns() // 1000)
    if as_json:
        emit(has.to_json())
    else:
        say(f"bought: {counted(has.freezes, 'freeze')}, {has.points:,} points left")


def _print(found: list) -> None:
    if not found:
        say("no quest: your sessions of the last thirty days show none of the habits that quests are drawn from")
    for one in found:
        say(f"{one.state:<7} {one.text} ({counted(one.before, 'session')} in the thirty days before did not)")
        if one.state == "missed":
            shown = ", ".join(session for _, session in one.sessions[:3])
            say(one_line(f"        {one.advice.rstrip('.')}: {shown}", 200))
