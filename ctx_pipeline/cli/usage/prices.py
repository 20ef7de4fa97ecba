"""``ctx prices``: what a model costs, by which list, and taking over a newer list."""

from __future__ import annotations

from typing import Any

import click

from ctx_pipeline.cli.output import emit, json_option, say, table


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
    from ctx_pipeline.usage.prices import price_of

    found = {model: price_of(model, day=day) for model in models}
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
    """Take over a price list: of the installed genai-prices, or of --file.

    Earlier calls keep the prices of the lists before it. The next run costs what it
    changes anew, from the tables alone.
    """
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.usage.prices import refresh as run

    if file and online:
        raise UsageError("a list is of a file or fetched, not both", hint="leave out --file or --online")
    done = run(file=file, online=online, since=since)
    if as_json:
        emit(done._asdict())
    else:
        say(f"{done.models:,} models of {done.source}, in force since {done.since}: {done.path}")
        say("stored calls are costed anew by: ctx run")


def _texts(rates: dict[str, float]) -> dict[str, str]:
    return {name: f"{rate:.4f}".rstrip("0").rstrip(".") for name, rate in rates.items()}
