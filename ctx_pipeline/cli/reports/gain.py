"""``ctx gain``: what was spent, what the cache saved, what was avoidable, and by which mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import require_captured, require_project, timezone_option
from ctx_pipeline.cli.output import counted, dollars, emit, flush, json_option, local_time, one_line, plain, say, table, tokens
from ctx_pipeline.cli.session_names import complete_sessions, session_name, session_of_person
from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.display import percent

if TYPE_CHECKING:
    from ctx_pipeline.sessions.reports.gain import Gain
    from ctx_pipeline.settings import Settings


_ACTIONS = ("report", "score", "live", "json", "reset")


@click.command()
@click.argument("action", default="report", metavar="[SESSION|report|score|live|json|reset]", shell_complete=complete_sessions)
@click.option(
    "--period",
    default="session",
    show_default=True,
    type=click.Choice(["session", "day", "week", "month", "all"]),
    help="Calendar days of your zone.",
)
@click.option(
    "--session", "-s", metavar="SESSION", help="Another session than the last here that did something.", shell_complete=complete_sessions
)
@click.option("--model", help="Price everything at this model's list prices.")
@click.option("--host", help="Only this agent; for periods.")
@click.option("--project", help="Only this project; for periods.")
@timezone_option
@click.option("--since-reset", "baseline", is_flag=True, help="Only what came after `ctx gain reset`.")
@click.option("--every", default=5.0, show_default=True, type=click.FloatRange(0, 3600), help="With live: seconds between two lines.")
@click.option("--times", type=click.IntRange(1), help="With live: end after N lines.")
@json_option
def gain(action: str, period: str, every: float, times: int | None, as_json: bool, **chosen: Any) -> None:
    """Show what was spent, what the cache saved, and what was avoidable.

    SESSION: the report of that session. report: by token stream and mechanism. score: the
    score with its parts. live: one line every few seconds, after capturing what is new.
    json: everything. reset: mark now as the baseline for --since-reset; nothing is deleted.

    Avoidable has three bounds: surely, likely and at most; no sum exceeds the bill.
    """
    if action not in _ACTIONS:
        if chosen["session"]:
            raise UsageError(f"{action!r} and --session name two sessions", hint="ctx gain --help")
        chosen["session"], action = action, "report"
    if action == "reset":
        from ctx_pipeline.cli.session.writing import act

        told = act("baseline")
        emit(told) if as_json else say(f"baseline marked at {told['at']}; history stays, --since-reset counts from here")
        return
    if action == "live":
        _live(period, every, times, chosen)
        return
    from ctx_pipeline.sessions.reports.gain import gain as api

    settings, line = for_reading(), ""
    require_project(settings, chosen["project"])
    if period == "session" and not (chosen["host"] or chosen["project"]):
        chosen["session"], line = session_of_person(settings, chosen["session"], called=True)
    found = api(period, settings=settings, **chosen)
    if as_json or action == "json":
        emit(found.to_json())
        return
    if action == "score":
        _score(found)
        return
    _report(found, line or f"sessions of {plain(chosen['project'] or 'all projects')}")
    if found.period.name == "all" and not any(chosen.values()):
        _newest(settings)


def _newest(settings: Settings) -> None:
    """Say what the findings say of tool output, which they read from the newest sessions alone."""
    from ctx_pipeline.findings.evidence import quick_scan

    seen = quick_scan(settings, secrets=False)
    if seen.cost_nano:
        part = percent(seen.tool_output_nano / seen.cost_nano)
        say(f"\nThe newest {counted(seen.sessions, 'session')} cost {dollars(seen.cost_nano)}:")
        say(f"  {dollars(seen.tool_output_nano)} of it, about {part}, was tool output sent again with later calls")


def _live(period: str, every: float, times: int | None, chosen: dict[str, Any]) -> None:
    import itertools
    import time

    from ctx_pipeline.cli.session.writing import act
    from ctx_pipeline.sessions.reports.gain import gain as api

    for n in itertools.count(1):
        left_out = act("save", at_once=True).get("left_out")
        found = api(period, settings=for_reading(), **chosen)
        t = found.total
        say(f"{counted(t.calls, 'call')}  {tokens(sum(t.tokens.values()))} tokens  spent {dollars(t.spent)}  avoidable {_three(found)}")
        if left_out:
            say(f"not captured: what is new since the last capture, because {left_out}", err=True)
        flush()
        if n == times:
            return
        time.sleep(every)


def _three(found: Gain) -> str:
    certain, likely, upper = found.avoidable
    return f"{dollars(certain)} surely, {dollars(likely)} likely, {dollars(upper)} at most"


def _score(found: Gain) -> None:
    from ctx_pipeline.sessions.reports.gain import parts, score

    value = score(found.total)
    if value is None:
        say("no score: nothing was billed")
        return
    say(f"Gain score: {value} of 100" + (f", {found.trend} against the {found.period.name} before" if found.trend else ""), bold=True)
    say("  money: how little of the bill was avoidable; says nothing of the work")
    told = parts(found.total)
    say(f"  kept    {percent(told['kept'] or 0.0)} of the bill was not likely avoidable (60 points)")
    say(f"  cached  {percent(told['cached'] or 0.0)} of the prompt tokens came from the cache (40 points)")


def _report(found: Gain, scope: str) -> None:
    t = found.total
    what = f"{found.period.since} to {found.period.until}" if found.period.since else found.period.name
    say(
        f"GAIN REPORT ({what})"
        + (f"  {t.host} {plain(t.session_id)}" if t.session_id else f"  {counted(found.sessions, 'session')} with model calls"),
        bold=True,
    )
    say(scope)
    if found.since_baseline:
        say(f"since the baseline of {local_time(found.since_baseline, for_reading().timezone)}")
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
    own, own_cost = sum(t.own_tokens.values()), sum(t.own_nano.values())
    if own or t.shortened:
        parts_of = ", ".join(f"{tokens(n)} of {name}" for name, n in t.own_tokens.items() if n) or "nothing"
        net = f"{tokens(abs(t.shortened - own))} tokens {'fewer' if t.shortened >= own else 'more'} than without it"
        if t.own_tokens["schemas"]:
            of = f"{counted(found.tools.tools, 'tool')} of the set {found.tools.profile}, counted" if found.tools else "estimated"
            parts_of = parts_of.replace("of schemas", f"of schemas ({of})")
        say(f"ctx itself put {parts_of} into prompts ({dollars(own_cost)}) and took {tokens(t.shortened)} tokens out of outputs: {net}")
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
    from ctx_pipeline.sessions.reports.session_gain import MECHANISMS

    return MECHANISMS[name]


# ctx metrics: one session in figures.


@click.command()
@session_name()
@click.option("--limit", default=15, show_default=True, type=click.IntRange(1, 100_000), help="Rows of each table.")
@json_option
def metrics(name: str | None, limit: int, as_json: bool) -> None:
    """Show reads, repeats, tokens and cost of a session, by tool, kind of access and file.

    Every table adds up to the same total: a model call is shared equally among what it
    asked for. The score at the end is the weighted mean of the parts that stand below it.
    """
    from ctx_pipeline.sessions.reports.metrics import CEP
    from ctx_pipeline.sessions.reports.metrics import metrics as api

    settings = for_reading()
    name, line = session_of_person(settings, name)
    found = api(name, settings=settings)
    if as_json:
        emit(found.to_json())
        return
    t = found.totals
    say(f"Session metrics  {found.host} {plain(found.session_id)}", bold=True)
    say(line)
    prompt = sum(t[n] for n in ("input", "cache_write_5m", "cache_write_1h", "cache_read"))
    files = len({r["name"] for r in found.by_file if not r["name"].startswith("(")})
    counts = {"Files": files, "Reads": found.reads, "Repeated": found.repeated_reads, "Had to be read again": found.bounced}
    say(" | ".join(f"{name}: {number:,}" for name, number in counts.items()))
    say(
        f"Prompt: {tokens(prompt)} tokens, {_percent(t['cache_read'] / prompt if prompt else None)} from the cache"
        f" | Output: {tokens(t['output'])}"
    )
    say(f"Cost: {dollars(t['cost_nano'])} in {counted(t['calls'], 'model call')}")
    for title, rows in (("By tool", found.by_tool), ("By way", found.by_way), ("By file", found.by_file)):
        say()
        say(f"{title}; a call's tokens and cost are shared equally among what it asked for:", bold=True)
        shown = [
            {**r, "name": one_line(r["name"], 80), "read": tokens(r["cache_read"]), "cost": dollars(r["cost_nano"])} for r in rows[:limit]
        ]
        table(shown, {"name": "name", "uses": "uses", "input": "input", "output": "output", "read": "cached", "cost": "cost"})
        if len(rows) > limit:
            say(f"and {len(rows) - limit:,} more: --limit {len(rows)}")
    if found.window.files:
        say()
        say("File refs (what the window holds):", bold=True)
        for f in found.window.files[:limit]:
            say(f"  {f.ref}={plain(f.path)} [{f'{f.lines}L' if f.lines else 'whole'} {f.tokens}t reads:{f.reads}]")
    say()
    say(f"Code in answers that had just been read: {_percent(found.echo)}")
    say(f"Context efficiency score: {'no data' if found.cep is None else f'{found.cep:g} of 100'}", bold=True)
    say("  reading: how little was read or said twice; says nothing of the work")
    for part, value in found.cep_parts.items():
        say(f"  {part:<13} {_percent(value):>7}  weight {CEP[part]:g}")


def _percent(share: float | None) -> str:
    return "no data" if share is None else percent(share)


# ctx wrapped: a week, a month or everything as a card.


@click.command()
@click.argument("period", default="week", type=click.Choice(["week", "month", "all"]))
@click.option(
    "--format", "form", default="text", show_default=True, type=click.Choice(["text", "line", "svg", "html"]), help="How to print it."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file.")
@timezone_option
@json_option
def wrapped(period: str, form: str, out: Path | None, timezone: str | None, as_json: bool) -> None:
    """Show what a week (from Monday), a month or all time held, as a card; where it is empty, the latest that is not.

    Every figure is of the days of the card: tokens, cost, sessions, top commands, the
    busiest day. Nothing compares you with others.
    """
    from datetime import UTC, datetime

    from ctx_pipeline.sessions.reports import wrapped as cards
    from ctx_pipeline.sessions.reports.wrapped import wrapped as api
    from ctx_pipeline.storage.files import PrivateFolder
    from ctx_pipeline.storage.warehouse.days import local_day

    settings = for_reading()
    require_captured(settings)
    card = api(period, timezone=timezone, settings=settings)
    if as_json:
        emit(card.to_json())
        return
    text = {"text": cards.text_card, "line": cards.line_card, "svg": cards.svg_card, "html": cards.html_card}[form](card)
    if out is None:
        say(text.rstrip("\n"))
        today = local_day(datetime.now(UTC), timezone or settings.timezone)
        if form == "text" and card.period.until and card.period.until < today:
            say(f"no call was made this {period}; these are the days of the latest {period} with one. Every day: ctx wrapped all")
        return
    PrivateFolder(out.absolute().parent).text(out.name, text if text.endswith("\n") else f"{text}\n")
    say(plain(out))
