"""``ctx gain``: what was spent, what the cache saved, what was avoidable, and by which mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, dollars, emit, flush, json_option, plain, say, table, tokens
from ctx_pipeline.cli.session_names import complete_sessions

if TYPE_CHECKING:
    from ctx_pipeline.sessions.gain import Gain


@click.command()
@click.argument("action", default="report", type=click.Choice(["report", "score", "live", "json", "reset"]))
@click.option(
    "--period",
    default="session",
    show_default=True,
    type=click.Choice(["session", "day", "week", "month", "all"]),
    help="Calendar days of your zone.",
)
@click.option("--session", "-s", metavar="SESSION", help="Another session than the newest here.", shell_complete=complete_sessions)
@click.option("--model", help="Tell everything at this model's list prices.")
@click.option("--host", help="Only this agent; for periods.")
@click.option("--project", help="Only this project; for periods.")
@click.option("--timezone", help="IANA zone of the days.")
@click.option("--since-reset", "baseline", is_flag=True, help="Only what came after `ctx gain reset`.")
@click.option("--every", default=5.0, show_default=True, type=click.FloatRange(0, 3600), help="With live: seconds between two lines.")
@click.option("--times", type=click.IntRange(1), help="With live: end after so many lines.")
@json_option
def gain(action: str, period: str, every: float, times: int | None, as_json: bool, **chosen: Any) -> None:
    """Show what was spent, what the cache saved, and what was avoidable.

    report: by token stream and mechanism. score: the score with its parts. live: one line
    every few seconds, after capturing what is new. json: everything. reset: mark now as the
    baseline for --since-reset; nothing is deleted.

    Avoidable is told three ways: what surely need not have been billed, what likely, and
    what at most; no sum is above the bill.
    """
    if action == "reset":
        from ctx_pipeline.cli.session.writing import act

        told = act("baseline")
        emit(told) if as_json else say(f"baseline marked at {told['at']}; history stays, --since-reset counts from here")
        return
    if action == "live":
        _live(period, every, times, chosen)
        return
    from ctx_pipeline.sessions.gain import gain as api

    found = api(period, settings=for_reading(), **chosen)
    if as_json or action == "json":
        emit(found.to_json())
        return
    if action == "score":
        _score(found)
        return
    _report(found)


def _live(period: str, every: float, times: int | None, chosen: dict[str, Any]) -> None:
    import itertools
    import time

    from ctx_pipeline.cli.session.writing import act
    from ctx_pipeline.sessions.gain import gain as api

    for n in itertools.count(1):
        act("save")
        found = api(period, settings=for_reading(), **chosen)
        t = found.total
        say(f"{counted(t.calls, 'call')}  {tokens(sum(t.tokens.values()))} tokens  spent {dollars(t.spent)}  avoidable {_three(found)}")
        flush()
        if n == times:
            return
        time.sleep(every)


def _three(found: Gain) -> str:
    certain, likely, upper = found.avoidable
    return f"{dollars(certain)} surely, {dollars(likely)} likely, {dollars(upper)} at most"


def _score(found: Gain) -> None:
    from ctx_pipeline.sessions.gain import parts, score

    value = score(found.total)
    if value is None:
        say("no score: nothing was billed")
        return
    say(f"Gain score: {value} of 100" + (f", {found.trend} against the {found.period.name} before" if found.trend else ""), bold=True)
    told = parts(found.total)
    say(f"  kept    {told['kept']:.1%} of the bill was not likely avoidable (60 points)")
    say(f"  cached  {told['cached']:.1%} of the prompt tokens came from the cache (40 points)")


def _report(found: Gain) -> None:
    t = found.total
    what = f"{found.period.since} to {found.period.until}" if found.period.since else found.period.name
    say(
        f"GAIN REPORT ({what})" + (f"  {t.host} {plain(t.session_id)}" if t.session_id else f"  {counted(found.sessions, 'session')}"),
        bold=True,
    )
    if found.since_baseline:
        say(f"since the baseline of {found.since_baseline[:16].replace('T', ' ')}")
    if found.model:
        say(f"at the prices of {plain(found.model)}: an estimate")
    if not t.calls:
        say("no model call was captured for it")
        return
    rows = [{"stream": n.replace("_", " "), "tokens": t.tokens[n], "cost": dollars(t.nano[n])} for n in t.nano]
    table(
        rows,
        {"stream": "stream", "tokens": "tokens", "cost": "cost"},
        total={"stream": "spent", "tokens": sum(t.tokens.values()), "cost": dollars(t.spent)},
    )
    if t.unpriced:
        say(f"{counted(t.unpriced, 'call')} without a known price add nothing")
    say(
        f"The provider's cache saved {dollars(t.saved_by_cache)}"
        if t.saved_by_cache >= 0
        else f"The cache cost {dollars(-t.saved_by_cache)} more than it saved"
    )
    say()
    say("Avoidable, by mechanism:", bold=True)
    shown = [
        {
            "mechanism": n,
            "certain": dollars(b.certain),
            "likely": dollars(b.likely),
            "upper": dollars(b.upper),
            "why": t.mechanisms and _why(n),
        }
        for n, b in t.mechanisms.items()
    ]
    certain, likely, upper = found.avoidable
    sums = {"mechanism": "together", "certain": dollars(certain), "likely": dollars(likely), "upper": dollars(upper)}
    table(
        shown, {"mechanism": "mechanism", "certain": "surely", "likely": "likely", "upper": "at most", "why": "what happened"}, total=sums
    )
    _score(found)


def _why(name: str) -> str:
    from ctx_pipeline.sessions.savings_bounds import MECHANISMS

    return MECHANISMS[name]
