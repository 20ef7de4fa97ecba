"""``ctx explain`` and bare ``ctx``: what a number is made of, and what to look at first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import emit, json_option, one_line, plain, say, table, tokens

if TYPE_CHECKING:
    from ctx_pipeline.api.explain import Made


@click.command()
@click.argument("what")
@click.option("--host", help="Only this host.")
@click.option("--timezone", help="IANA zone whose days are meant.")
@click.option("--stored", is_flag=True, help="The tables alone.")
@click.option("--limit", default=20, show_default=True, help="Calls to print.")
@json_option
def explain(what: str, host: str | None, timezone: str | None, stored: bool, limit: int, as_json: bool) -> None:
    """Show the calls that WHAT is made of: a day (2026-10-01), session, model, project or call."""
    from ctx_pipeline import discovery
    from ctx_pipeline.api.explain import explain as run

    key = discovery.host(host).key if host else None
    found = run(what, host=key, timezone=timezone, stored=stored, settings=for_reading())
    if as_json:
        emit(found.to_json())
        return
    sums = found.totals
    say(f"{found.kind} {plain(what)}: {sums['calls']:,} calls", bold=True)
    say(
        f"input {sums['input_tokens']:,}, output {sums['output_tokens']:,}, cache write "
        f"{sums['cache_write_5m_tokens'] + sums['cache_write_1h_tokens']:,}, cache read {sums['cache_read_tokens']:,}; "
        f"${sums['calculated_usd']:,.6f} at list price, ${sums['recorded_usd']:,.6f} recorded; {sums['copies_dropped']:,} copies dropped"
    )
    for made in found.calls[:limit]:
        _print(made)
    if len(found.calls) > limit:
        say(f"\n{len(found.calls) - limit:,} more calls: --limit {len(found.calls)} or --json")


def _print(made: Made) -> None:
    told: dict[str, Any] = made.to_json()
    cost = "unpriced" if told["calculated_usd"] is None else f"${told['calculated_usd']:.6f}"
    recorded = "" if told["recorded_usd"] is None else f", recorded ${told['recorded_usd']:.6f}"
    model = plain(told["model"] or "(not recorded)") + (" (guessed: the default of its time)" if told["model_guessed"] else "")
    say(f"\n{told['time'] or 'no time'}  {model}  {plain(told['call'])}  {cost}{recorded}")
    counts = {n.removesuffix("_tokens").replace("_", " "): told[n] for n in told if n.endswith("_tokens") and told[n]}
    say("  " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    spot = made.spot
    say(f"  {plain(spot.file)} line {spot.line + 1}, bytes {spot.start:,} to {spot.end:,}")
    if len(made.lines) > 1:
        lines = ", ".join(str(s.line + 1) for s in made.lines[:12]) + (" …" if len(made.lines) > 12 else "")
        say(f"  {len(made.lines)} lines carry this id ({lines}): each field is the largest of them, counted once")
    if told["price"]:
        price = told["price"]
        since = "the list, undated" if price["since"] == "list" else f"since {price['since']}"
        terms = f" ({', '.join(price['terms'])})" if price["terms"] else ""
        say(f"  price of {price['provider']}/{price['model']} {since}{terms}, from {price['source']}")
    for copy in told["copies"]:
        say(f"  dropped a copy in session {plain(copy['session_id'])}, {plain(copy['source']['file'])}: {copy['rule']}")


def overview() -> None:
    """Print last week's usage and up to three findings."""
    from ctx_pipeline.api.overview import overview as run

    settings = for_reading()
    found = run(settings=settings)
    say("last seven days", bold=True)
    rows: dict[str, dict[str, Any]] = {}
    for row in found.usage.rows:
        one = rows.setdefault(row["date"], {"date": row["date"], "hosts": {}, "calls": 0, "tokens": 0, "nano": 0})
        one["hosts"][row["host"]] = None
        one["calls"] += row["calls"]
        one["tokens"] += sum(row[n] for n in row if n.endswith("_tokens") and n != "reasoning_tokens")
        one["nano"] += row["cost_nano"]
    if rows:
        body = [
            {**r, "host": ", ".join(r["hosts"]), "size": tokens(r["tokens"]), "cost": f"${r['nano'] / 1e9:,.2f}"} for r in rows.values()
        ]
        total = {
            "date": "total",
            "calls": sum(r["calls"] for r in body),
            "size": tokens(sum(r["tokens"] for r in body)),
            "cost": f"${sum(r['nano'] for r in body) / 1e9:,.2f}",
        }
        table(body, {"date": "date", "host": "host", "calls": "calls", "size": "tokens", "cost": "cost"}, total=total)
    else:
        say("no model calls")
    for finding in found.findings:
        say(f"\n- {one_line(finding.text, 200)}\n  {plain(finding.command)}")
    say("\nmore: ctx usage daily, ctx run, ctx --help")


@click.command()
@click.argument("host")
@click.argument("session_id")
@click.option("--longest", default=20_000, show_default=True, help="Characters of one text before it is cut.")
def render(host: str, session_id: str, longest: int) -> None:
    """Print one session as Markdown, tool output and diffs included."""
    from ctx_pipeline.api.rendering import render as run

    say(run(host, session_id, longest=longest, settings=for_reading()), nl=False)
