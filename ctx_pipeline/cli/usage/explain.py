"""``ctx explain`` and bare ``ctx``: what a number is made of, and what to look at first."""

from __future__ import annotations

import shlex
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.export import share_option, shared_note
from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import host_option, model_option, project_option, since_option, table_option, timezone_option, until_option
from ctx_pipeline.cli.output import counted, emit, first_counts, json_option, local_time, one_line, paragraph, plain, say, table, zone_name
from ctx_pipeline.cli.session_names import complete_anything, session_argument, short_names
from ctx_pipeline.errors import NothingFound, StoreError
from ctx_pipeline.model.display import percent, size
from ctx_pipeline.model.usage_rules import UNNAMED
from ctx_pipeline.usage.groupings import Days
from ctx_pipeline.usage.provenance.cost_streams import BEFORE, LEAST

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.ledger.rows import SessionRow
    from ctx_pipeline.usage.provenance.ccusage_comparison import Side, ToolComparison
    from ctx_pipeline.usage.provenance.explain import Explained, Made
    from ctx_pipeline.usage.provenance.price_bridge import Bridge


_CELLS = """\b
Any figure of any table of ctx usage is named by its row and its table:
  ctx explain Bash --by tool --model claude-opus-4-6 --since 2026-10-01
  ctx explain 2026-09-28 --by weekly
  ctx explain '2026-10-01 08:00' --by blocks
"""
_ROWS = 5
"""Rows of one name that are told, at most."""


@click.command(epilog=_CELLS)
@click.argument("what", shell_complete=complete_anything)
@host_option
@model_option
@project_option
@since_option
@until_option
@timezone_option
@table_option
@click.option("--stored", is_flag=True, help="Only captured calls: skip what is newer in the homes.")
@click.option("--against", "tool", metavar="TOOL", help="Compare with the rules of another tool: ccusage.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Calls to print.")
@json_option
def explain(what: str, limit: int, as_json: bool, tool: str | None, **chosen: Any) -> None:
    """Show the calls that WHAT is made of: a day (2026-10-01), week (2026-W40), month, session, thread, model, project or call.

    Also today, yesterday, "this week", "last week", "this month" and "last month".
    Each call with its file and bytes, its price with date and source, and what was
    dropped as a copy of it, by which rule. The id of an event, which signals and memories
    name as evidence, leads to the record that it was read from.
    """
    from ctx_pipeline import discovery
    from ctx_pipeline.usage.periods import said_period
    from ctx_pipeline.usage.provenance.explain import explain as run
    from ctx_pipeline.usage.provenance.source_records import EVENT_ID

    if EVENT_ID.fullmatch(what):
        _record(what, as_json=as_json)
        return

    said = dict(chosen)
    chosen["model"] = "" if chosen["model"] == UNNAMED else chosen["model"]
    chosen["host"] = discovery.host(str(chosen["host"])).key if chosen["host"] else None
    settings = for_reading()
    what = (None if chosen["by"] else said_period(what, zone=chosen["timezone"] or settings.timezone)) or what
    if tool:
        _compared(tool, what, settings, limit=limit, as_json=as_json, **chosen)
        return
    found: Explained = _of_any_name(run, what, settings, chosen)
    if as_json:
        emit(found.to_json())
        return
    sums = found.totals
    uses = sum(made.uses for made in found.calls)
    part = f", its share of {len(found.calls):,} that used it {uses:,} times" if uses else ""
    if found.kind in {"session", "thread"}:
        _say_session(found, settings)
    say(f"{found.kind} {plain(what)}: {_calls(sums['calls'])}{part}", bold=True)
    say(
        f"input {sums['input_tokens']:,}, output {sums['output_tokens']:,}, cache write "
        f"{sums['cache_write_5m_tokens'] + sums['cache_write_1h_tokens']:,}, cache read {sums['cache_read_tokens']:,}; "
        f"{_cost(sums, found.cost_mode)}" + (f"; {_copies(sums['copies_dropped'])}" if sums["copies_dropped"] else "")
    )
    missing = sums["estimated_missing_output"]
    if missing["tokens"]:
        paragraph(first_counts(missing["calls"], missing["tokens"]))
    for one in sums["long_prompts"]:
        paragraph(
            f"{_calls(one['calls'])} with a prompt over {one['over_tokens']:,} tokens: ${one['calculated_usd']:,.2f} at list price,"
            f" ${one['extra_usd']:,.2f} of it because the price is higher there"
        )
    if len(found.repositories) > 1:
        _repositories(found, said)
    zone = chosen["timezone"] or settings.timezone
    _streams(found)
    _plans_and_days(found, zone, settings)
    _sessions(found, settings)
    # of much the most expensive calls say why, in order of time those of a session
    dear = found.kind in {"week", "month", "project", "model"}
    if limit and found.calls:
        say(f"{'its most expensive calls; ' if dear else ''}times in {zone_name(zone)}")
    calls = sorted(found.calls, key=lambda made: -(made.cost or 0)) if dear else found.calls
    for made in calls[:limit]:
        _print(made, zone, found.cost_mode)
    if not limit and found.calls:
        say(f"its calls one by one: {_explaining(what, said)}")
    elif len(found.calls) > limit:
        say(f"\n{counted(len(found.calls) - limit, 'more call')}: --limit {len(found.calls)} or --json")


def _say_session(found: Explained, settings: Settings) -> None:
    """Print title, first call and project of the session that these calls are of, where it is one."""
    from ctx_pipeline.cli.usage.tables import add_new, session_labels
    from ctx_pipeline.model.display import session_title

    places = {made.session for made in found.calls}
    labels = session_labels(settings) if len(places) == 1 else {}
    for host, session_id in places if len(places) == 1 else ():
        add_new(labels, [{"hosts": [host], "session_id": session_id}], settings)
        shown = labels.get((host, session_id))
        first = min((made.ts for made in found.calls if made.ts is not None), default=None)
        told = [local_time(first, settings.timezone), shown.project if shown else ""]
        say("  ".join(filter(None, [one_line(session_title(shown.title if shown else None), 100), *told])), bold=True)


_STREAM_NAMES = {"input": "input", "output": "output", "cache_read": "read from the cache", "cache_write": "written to the cache"}
_SAME = 0.05
"""Part by which a period may differ from the usual one and be as ever."""


def _streams(found: Explained) -> None:
    """Print what was paid for each stream, and how a week or month compares with those before it."""
    paid = sum(stream.cost_nano for stream in found.streams.values())
    if not paid:
        return
    usual = found.usual
    rows = [
        {
            "of": _STREAM_NAMES[name],
            "tokens": f"{stream.tokens:,}",
            "cost": _usd(stream.cost_nano),
            "share": percent(stream.cost_nano / paid),
            "usual": f"{usual.tokens[name]:,}" if usual else "",
        }
        for name, stream in sorted(found.streams.items(), key=lambda one: -one[1].cost_nano)
        if stream.tokens
    ]
    columns = {"of": "paid for", "tokens": "tokens", "cost": "cost", "share": ""} | (
        {"usual": f"tokens of a usual {found.kind}"} if usual else {}
    )
    table(rows, columns)
    if usual and usual.cost_nano:
        change = paid / usual.cost_nano
        so = "about the same" if abs(change - 1) < _SAME else f"{change:.1f} times that" if change >= 2 else f"{change - 1:+.0%}"
        mean = f"mean of {usual.periods} of the {BEFORE[found.kind]} before"
        told = f"a usual {found.kind} costs {_usd(usual.cost_nano)} in {_calls(usual.calls)} ({mean})"
        paragraph(f"{told}; this one is {so}")
    elif found.kind in BEFORE:
        paragraph(f"no usual {found.kind} to compare with: fewer than {LEAST} of the {BEFORE[found.kind]} before had calls")


_DAYS = 3
"""Days of a longer time that are named, the most expensive first."""


def _plans_and_days(found: Explained, zone: str | None, settings: Settings) -> None:
    """Print which agents are used on a flat plan, and of several days those with most of the cost."""
    from ctx_pipeline.usage.homes.live_usage import plans

    for host, plan in sorted(plans({made.session[0] for made in found.calls}, settings=settings).items()):
        paragraph(f"{host} is used on a flat plan ({plain(plan)}): this is what its calls would cost at list prices, not what was paid")
    if found.kind not in {"week", "month", "project", "model"}:
        return
    days: Counter[date] = Counter()
    calendar = Days(zone)
    for made in found.calls:
        if made.ts is not None:
            days[calendar.day(made.ts)] += made.cost or 0
    if len(days) > 1 and days.total():
        told = ", ".join(f"{day} {_usd(cost)} ({percent(cost / days.total())})" for day, cost in days.most_common(_DAYS))
        paragraph(f"most of it on: {told}")


def _sessions(found: Explained, settings: Settings) -> None:
    """Print the sessions whose calls these are, the most expensive first, where there are several."""
    from ctx_pipeline.model.display import session_title
    from ctx_pipeline.storage.reader import reading

    of: dict[tuple[str, str], list[Made]] = {}
    for made in found.calls:
        of.setdefault(made.session, []).append(made)
    if len(of) < 2:
        return
    costs = {key: sum(made.cost or 0 for made in calls) for key, calls in of.items()}
    first, paid = sorted(of, key=lambda key: (-costs[key], key))[:_ROWS], sum(costs.values())
    names = short_names([session for _, session in of], settings)
    kept: dict[tuple[str, str], SessionRow | None] = {}
    with suppress(StoreError), reading(settings) as (store, _):  # without a store they have no titles yet
        kept = {key: store.ledger.session(*key) for key in first}
    rows = [
        {
            "session": names[session],
            "project": of[host, session][0].project,
            "title": one_line(session_title(row.rows.get("title")), 80) if (row := kept.get((host, session))) else "",
            "calls": f"{sum(made.share for made in of[host, session]):,}",
            "cost": _usd(costs[host, session]),
            "share": percent(costs[host, session] / paid) if paid else "",
        }
        for host, session in first
    ]
    table(rows, {name: name for name in ("session", "project", "title", "calls", "cost")} | {"calls": "model calls", "share": ""})
    if len(of) > len(rows):
        say(f"and {counted(len(of) - len(rows), 'session')} more")


def _repositories(found: Explained, said: dict[str, Any]) -> None:
    """Print which rows of the table have this name, one for each repository, and the command for one of them."""
    rows = list(found.repositories.items())
    named = ", ".join(f"{plain(name) or '(no repository)'} {_calls(calls)}" for name, calls in rows[:_ROWS])
    more = f" and {len(rows) - _ROWS:,} more" if len(rows) > _ROWS else ""
    say(f"{len(rows):,} rows of ctx usage {said['by']}, one a repository: {named}{more}")
    one = next(name for name, _ in rows if name)
    say(f"one of them: {_explaining(found.what, {**said, 'project': one})}")


def _explaining(what: str, said: dict[str, Any]) -> str:
    """Return the command that explains the same once more, as a shell reads it."""
    given = ([f"--{name}"] if value is True else [f"--{name}", str(value)] for name, value in said.items() if value)
    options = [word for words in given for word in words]
    return shlex.join(["ctx", "explain", *([*options, "--", what] if what.startswith("-") else [what, *options])])


def _of_any_name(ask: Callable[..., Any], what: str, settings: Settings, chosen: dict[str, Any]) -> Any:
    """Return what is told of ``what``, which may name a session in any way."""
    from ctx_pipeline.usage.known_names import known_names
    from ctx_pipeline.usage.periods import is_period

    try:
        return ask(what, **chosen, settings=settings)
    except NothingFound:
        known_names(settings, project=chosen["project"], model=chosen["model"], stored=bool(chosen["stored"]))
        named = None if chosen["by"] or is_period(what) else _session_of(what, settings)
        if named is None:
            raise
        host, full = named
        return ask(full, **{**chosen, "host": chosen["host"] or host}, settings=settings)


def _session_of(what: str, settings: Settings) -> tuple[str, str] | None:
    """Return host and full id of a session that is named in another way than by its id; None where there is none."""
    from ctx_pipeline.cli.session_names import captured_or_not
    from ctx_pipeline.errors import AmbiguousName, UnknownName

    try:
        host, full, _ = captured_or_not(settings, what)
    except AmbiguousName:
        raise
    except UnknownName:
        return None
    return (host, full) if full != what else None


def _cost(sums: dict[str, Any], mode: str) -> str:
    """Return the cost that the tables of usage print, and what was recorded and the list price beside it where they differ."""
    cost, listed, recorded = (f"${sums[name] or 0:,.6f}" for name in ("cost_usd", "calculated_usd", "recorded_usd"))
    calls, unpriced, of_agent = sums["calls"], sums["unpriced_calls"], sums["recorded_calls"]
    any_recorded = of_agent or sums["recorded_usd"]
    part = f" ({unpriced:,} unpriced)" if 0 < unpriced < calls else ""
    at_list = f", {listed} at list price" if sums["calculated_usd"] else ""
    if sums["cost_usd"] is None:
        return f"unpriced{at_list}"
    if mode == "display" or (mode == "auto" and any_recorded and of_agent == calls):
        return f"{cost} recorded{part}{at_list}"
    if mode == "calculate" or not any_recorded:
        return f"{cost} at list price{part}" + (f", {recorded} recorded" if any_recorded else "")
    return f"{cost}{part}: {recorded} recorded for {_calls(of_agent)}, list price for the others; all at list price {listed}"


def _calls(number: int) -> str:
    return f"{number:,} call{'' if number == 1 else 's'}"


def _copies(number: int) -> str:
    return f"{number:,} cop{'y' if number == 1 else 'ies'} dropped"


def _record(event_id: str, *, as_json: bool) -> None:
    from ctx_pipeline.usage.provenance.source_records import record_of

    found = record_of(event_id, settings=for_reading())
    if as_json:
        emit(found.to_json())
        return
    say(f"event {found.event_id} of {found.host} session {plain(found.session_id or '')}", bold=True)
    say(f"  {plain(found.file)} line {found.line + 1}, bytes {found.start:,} to {found.end:,}, generation {found.generation}")
    say(f"  raw object {found.raw}, recorded {found.recorded_at}")
    say(f"  {one_line(found.text, 2000)}")


_PRICES = {
    "auto": "list prices of the day unless the agent recorded a cost",
    "calculate": "list prices of the day",
    "display": "the cost that the agent recorded",
}
"""What a cost is by each cost mode."""
_OF_THE_DAY = "cost, prices of the day"


def _compared(tool: str, what: str, settings: Settings, *, limit: int, as_json: bool, **chosen: Any) -> None:
    from ctx_pipeline.usage.provenance.ccusage_comparison import VERSIONS, compare_with

    found: ToolComparison = _of_any_name(partial(compare_with, tool), what, settings, chosen)
    if as_json:
        emit(found.to_json())
        return
    say(
        f"{found.kind} {plain(what)}: counted here and by the rules of {' '.join(filter(None, (tool, VERSIONS.get(tool))))},"
        f" from the same files, at {_PRICES[found.cost_mode]}",
        bold=True,
    )
    columns = {
        "who": "",
        "calls": "calls",
        "input": "input",
        "output": "output",
        "write": "cache write",
        "read": "cache read",
        "cost": "cost" if found.cost_mode == "display" else _OF_THE_DAY,
    }
    table([_side("here", found.ours), _side(f"rules of {tool}", found.theirs)], columns, drop=("write", "input", "read", "output", "calls"))
    if not found.differences:
        say("Both count the same calls and tokens.")
    _bridge(tool, found)
    for rule in found.rules():
        say(f"\n{_calls(rule['calls'])}, {rule['tokens']:+,} tokens, {_signed(rule['nano'])}: {rule['rule']}", bold=True)
        for one in rule["examples"][: max(1, limit)]:
            spots = "; ".join(f"{plain(s.file)} line {s.line + 1}" for s in one.spots)
            say(f"  {plain(one.call)}: {one.ours.total():,} here, {one.theirs.total():,} there; {spots}")


def _bridge(tool: str, found: ToolComparison) -> None:
    """Print per model what makes the tool's cost another than ours, in dollars that add up."""
    rows = found.models.rows()
    whole = found.models.total()
    if not rows:
        return

    def line(one: Bridge) -> dict[str, str]:
        amounts = {"more": one.more, "less": one.less, "terms": one.terms, "prices": one.prices}
        signed = {name: _signed(nano) if nano else "" for name, nano in amounts.items()}
        return {"model": one.model or UNNAMED, "here": _usd(one.here), **signed, "there": _usd(one.there)}

    say(f"\nFrom the cost here to what {tool} prints; where the log holds no cost it prices every day at today's list:", bold=True)
    columns = {
        "model": "model",
        "here": "here" if found.cost_mode == "display" else _OF_THE_DAY,
        "prices": "price changes",
        "more": "counted twice",
    }
    columns |= {"less": "never counted", "terms": "other terms", "there": f"{tool} prints"}
    shown = [line(one) for one in rows]
    columns = {key: heading for key, heading in columns.items() if key in {"model", "here", "there"} or any(row[key] for row in shown)}
    table(shown, columns, total=line(whole) | {"model": "total"}, drop=("prices", "more", "less", "terms", "here"))
    if whole.here and whole.there != whole.here:
        apart = (whole.there - whole.here) / whole.here
        say(f"{tool} prints {percent(abs(apart))} {'more' if apart > 0 else 'less'} than stands here.")
    if whole.recorded_calls:
        say(
            f"The agents recorded {_usd(whole.recorded)} for {_calls(whole.recorded_calls)}; at list prices of the day they cost"
            f" {_usd(whole.recorded_here)} ({_signed(whole.recorded - whole.recorded_here)})."
        )
    else:
        say("The agents recorded no cost for these calls.")


def _usd(nano: int) -> str:
    return f"${nano / 1e9:,.6f}"


def _side(name: str, side: Side) -> dict[str, Any]:
    counts = side.tokens
    return {
        "who": name,
        "calls": side.calls,
        "input": counts.input,
        "output": counts.output,
        "write": counts.cache_write_5m + counts.cache_write_1h,
        "read": counts.cache_read,
        "cost": f"${side.nano / 1e9:,.6f}",
    }


def _signed(nano: int) -> str:
    return f"{'-' if nano < 0 else '+'}${abs(nano) / 1e9:,.6f}"


def _print(made: Made, zone: str | None, mode: str) -> None:
    told: dict[str, Any] = made.to_json()
    cost = "unpriced" if told["cost_usd"] is None else f"${told['cost_usd']:.6f}"
    if told["recorded_usd"] is not None and mode != "calculate":
        cost += " recorded"
    beside = [("calculated_usd", "at list price"), ("recorded_usd", "recorded")][mode == "calculate"]
    if told[beside[0]] not in {None, told["cost_usd"]}:
        cost += f", ${told[beside[0]]:.6f} {beside[1]}"
    model = plain(told["model"] or UNNAMED) + (" (guessed: the default of its time)" if told["model_guessed"] else "")
    share = f"  ({made.uses} of its {made.of} uses)" if 0 < made.uses < made.of else ""
    say(f"\n{local_time(told['time'], zone, seconds=True) or 'no time'}  {model}  {plain(told['call'])}  {cost}{share}")
    counts = {n.removesuffix("_tokens").replace("_", " "): told[n] for n in told if n.endswith("_tokens") and told[n]}
    say("  " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    if made.missing_output:
        say(f"  about {made.missing_output:,} output tokens more than were recorded, estimated from the text; no total holds them")
    spot = made.spot
    say(f"  {plain(spot.file)} line {spot.line + 1}, bytes {spot.start:,} to {spot.end:,}")
    if len(made.lines) > 1:
        lines = ", ".join(str(s.line + 1) for s in made.lines[:12]) + (" …" if len(made.lines) > 12 else "")
        say(f"  {len(made.lines)} lines carry this id ({lines}): each field is the largest of them, counted once")
    if told["price"]:
        price = told["price"]
        since = "undated" if price["since"] == "list" else f"in force since {price['since']}"
        terms = "".join(f", {_term(term)}" for term in price["terms"])
        say(f"  list price of {price['provider']}/{price['model']}{terms}; {since}, from {price['source']}")
    for copy in told["copies"]:
        say(f"  dropped a copy in session {plain(copy['session_id'])}, {plain(copy['source']['file'])}: {copy['rule']}")


def _term(term: str) -> str:
    """Return a term of a price in words."""
    name, _, value = term.partition("=")
    return f"for prompts over {int(value):,} tokens" if name == "over" and value.isdigit() else term


@click.command()
@session_argument()
@click.option("--longest", default=20_000, show_default=True, help="Characters of one text before it is cut.")
@click.option("--whole", is_flag=True, help="Print scripts, diffs and outputs of more than 40 lines whole.")
@share_option
@click.option("--out", "-o", "--output", type=click.Path(dir_okay=False), help="Write it to this file, for its owner alone.")
def render(host: str, session_id: str, longest: int, whole: bool, share: bool, out: str | None) -> None:
    """Print one session as Markdown, tool output and diffs included; secrets are replaced.

    Of a script, diff or output of more than 40 lines the beginning and the end are
    printed, with how many lines are left out; --whole prints all.
    To pass it on: ctx render SESSION --share -o session.md. What was replaced, and how
    often, is said on stderr.
    """
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.sessions.markdown import FOLDED
    from ctx_pipeline.sessions.markdown import render as run

    if out and out.endswith("/"):
        raise UsageError(f"{plain(out)} names a folder", hint=f"ctx render SESSION -o {plain(out)}session.md")
    replaced = Counter[str]()
    folded = 0 if whole else FOLDED
    text = run(host, session_id, longest=longest, folded=folded, replaced=replaced if share else None, settings=for_reading())
    if out in {None, "-"}:
        say(text, nl=False)
    else:
        from pathlib import Path

        from ctx_pipeline.storage.files import PrivateFolder, is_stream

        path = Path(str(out)).absolute()
        PrivateFolder(path.parent).text(path.name, plain(text))
        say(f"{size(len(plain(text).encode()))} in {plain(out)}", err=is_stream(path))
    if share:
        say(shared_note(replaced, share=share), err=True)


# ctx prices: what a model costs, by which list, and taking over a newer list.


@click.group()
def prices() -> None:
    """Dated list prices: a call costs what the list said on its day."""


@prices.command("list")
@json_option
def list_prices(as_json: bool) -> None:
    """List the price lists in force and since when."""
    from ctx_pipeline.usage.prices import known_lists

    found = known_lists()
    if as_json:
        emit({"lists": found})
    else:
        table(found, {"since": "since", "source": "source", "models": "models"})


@prices.command()
@click.argument("models", nargs=-1, required=True)
@click.option("--day", metavar="DAY", help="The day of the call, 2026-03-31; default: today.")
@json_option
def show(models: tuple[str, ...], day: str | None, as_json: bool) -> None:
    """Show what MODELS cost: dollars a million tokens (web search: a thousand searches)."""
    from ctx_pipeline.usage.periods import day as day_of
    from ctx_pipeline.usage.prices import price_of

    when = str(day_of(day, "--day")) if day else None
    found = {model: price_of(model, day=when) for model in models}
    if as_json:
        emit({"prices": [{"model": m, "price": p._asdict() if p else None} for m, p in found.items()]})
        return
    rows: list[dict[str, Any]] = []
    for model, price in found.items():
        if price is None:
            rows.append({"model": model, "source": "unpriced: no list knows it"})
            continue
        rows.append({"model": model, **_texts(price.rates), "since": price.since, "source": price.source})
        rows += [{"model": f"  prompt above {start:,}", **_texts(rates)} for start, rates in price.over.items()]
    names = {"input": "input", "output": "output", "cache_write_5m": "cache write", "cache_write_1h": "1 h write"}
    names |= {"cache_read": "cache read", "web_search": "web search", "since": "since", "source": "source"}
    table(rows, {"model": "model", **names})


@prices.command()
@click.option("--file", "file", type=click.Path(exists=True, dir_okay=False), help="A list compiled here, or LiteLLM's.")
@click.option("--online", is_flag=True, help="Fetch the published list of genai-prices; nothing else uses a network.")
@click.option("--since", metavar="DAY", help="First day on which the list holds; default: today.")
@json_option
def refresh(file: str | None, online: bool, since: str | None, as_json: bool) -> None:
    """Install a price list: that of the installed genai-prices, or --file.

    Earlier calls keep the prices of the lists before it. The next run reprices what
    it changes, from the tables alone.
    """
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.usage.periods import day
    from ctx_pipeline.usage.prices import refresh as run

    if file and online:
        raise UsageError("a list is of a file or fetched, not both", hint="leave out --file or --online")
    done = run(file=file, online=online, since=str(day(since, "--since")) if since else None)
    if as_json:
        emit(done._asdict())
    else:
        say(f"{done.models:,} models of {done.source}, in force since {done.since}: {done.path}")
        say("ctx run reprices the stored calls")


def _texts(rates: dict[str, float]) -> dict[str, str]:
    return {name: f"{rate:.4f}".rstrip("0").rstrip(".") for name, rate in rates.items()}
