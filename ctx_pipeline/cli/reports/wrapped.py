"""``ctx wrapped``: a week, a month or everything as a card."""

from __future__ import annotations

from pathlib import Path

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import emit, json_option, plain, say


@click.command()
@click.argument("period", default="week", type=click.Choice(["week", "month", "all"]))
@click.option("--format", "form", default="text", show_default=True, type=click.Choice(["text", "line", "svg", "html"]))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file.")
@click.option("--timezone", help="IANA zone of the days.")
@json_option
def wrapped(period: str, form: str, out: Path | None, timezone: str | None, as_json: bool) -> None:
    """Show what a week (from Monday), a month or all time held, as a card.

    Every figure is of the days of the card: tokens, cost, sessions, top commands, the
    busiest day. Nothing compares you with others.
    """
    from ctx_pipeline.integrations.private_files import PrivateFolder
    from ctx_pipeline.sessions import recap_card as cards
    from ctx_pipeline.sessions.wrapped import wrapped as api

    card = api(period, timezone=timezone, settings=for_reading())
    if as_json:
        emit(card.to_json())
        return
    text = {"text": cards.text_card, "line": cards.line_card, "svg": cards.svg_card, "html": cards.html_card}[form](card)
    if out is None:
        say(text.rstrip("\n"))
        return
    PrivateFolder(out.absolute().parent).text(out.name, text if text.endswith("\n") else f"{text}\n")
    say(plain(out))
