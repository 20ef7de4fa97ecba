"""``ctx dashboard``: build, open and serve the page."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from ctx_pipeline.cli.output import emit, flush, json_option, say

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.settings import Settings


@click.group()
def dashboard() -> None:
    """Build, open and serve the page; it opens from disk, without a server."""


_mode = click.option(
    "--cost-mode",
    "--mode",
    type=click.Choice(["auto", "calculate", "display"]),
    help="auto (what the agent recorded, else list prices), calculate (list prices) or display (what the agents recorded).",
)


@dashboard.command()
@_mode
@json_option
def build(cost_mode: str | None, as_json: bool) -> None:
    """Build the page from the tables as they are; it says which costs it shows."""
    from ctx_pipeline.pipeline.render import render, site_index
    from ctx_pipeline.storage import open_store

    settings = _settings(cost_mode)
    with open_store(settings) as store:
        report = render(store, settings)
        path = site_index(store)
    if as_json:
        seconds = round(report.seconds, 3)
        emit({"site": str(path), "status": report.cells[""].status, "seconds": seconds, "cost_mode": settings.cost_mode})
    else:
        say(f"page: {path}")


@dashboard.command()
@_mode
@json_option
def view(cost_mode: str | None, as_json: bool) -> None:
    """Show what the page shows in the terminal, as it is now: findings, figures, money, signals, memories, sessions."""
    from ctx_pipeline.cli import dashboard_view
    from ctx_pipeline.pipeline.page.page_records import current

    data = current(_settings(cost_mode))
    if as_json:
        emit(dashboard_view.plain(data))
    else:
        dashboard_view.show(data)


def _settings(cost_mode: str | None) -> Settings:
    """Return the settings of the person's store, or of the samples, with another cost mode where one is named."""
    from dataclasses import replace

    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose

    settings, _ = choose(settings_module.load(), demo=False)
    return settings if cost_mode is None else replace(settings, cost_mode=cost_mode)


@dashboard.command("open")
@json_option
def open_page(as_json: bool, at: str | None = None) -> None:
    """Open the page in the browser."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose

    settings, _ = choose(settings_module.load(), demo=False)
    path = _page(settings)
    import webbrowser

    opened = webbrowser.open(path.absolute().as_uri() + (f"#session-{at}" if at else ""))
    if as_json:
        emit({"site": str(path), "opened": opened})
    elif not opened:
        say(f"no browser found; open {path}")


@dashboard.command()
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65_535), help="Port on loopback; 0 takes any free one.")
@json_option
def serve(port: int, as_json: bool) -> None:
    """Serve the page on loopback until Ctrl-C; only the printed address, with its token, leads to it."""
    from starlette.applications import Starlette
    from starlette.routing import Route
    from starlette.staticfiles import StaticFiles

    from ctx_pipeline import loopback
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose

    settings, _ = choose(settings_module.load(), demo=False)
    files = StaticFiles(directory=_page(settings).parent)
    token = loopback.new_token()
    listener = loopback.listen(port)
    address = loopback.address(listener, "/index.html", token)
    if as_json:
        emit({"url": address})
    else:
        say(f"{address}\nend it with Ctrl-C")
    flush()
    with suppress(KeyboardInterrupt):
        loopback.server(Starlette(routes=[Route("/{path:path}", files)]), listener, token).run(sockets=[listener])


def _page(settings: Settings) -> Path:
    """Return the page's file; raises StoreError where none was built."""
    from ctx_pipeline.errors import StoreError

    path = settings.home / "site" / "index.html"
    if not path.is_file():
        raise StoreError("there is no page yet", hint="ctx run")
    return path
