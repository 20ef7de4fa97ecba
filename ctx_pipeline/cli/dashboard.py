"""``ctx dashboard``: build, open and serve the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctx_pipeline.cli.output import emit, flush, json_option, say

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.settings import Settings


@click.group()
def dashboard() -> None:
    """Build, open and serve the page; it opens from disk, without a server."""


@dashboard.command()
@json_option
def build(as_json: bool) -> None:
    """Build the page from the tables as they are."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.stages.render import render, site_index
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        report = render(store, settings)
        path = site_index(store)
    if as_json:
        emit({"site": str(path), "status": report.cells[""].status, "seconds": round(report.seconds, 3)})
    else:
        say(f"page: {path}")


@dashboard.command("open")
@json_option
def open_page(as_json: bool) -> None:
    """Open the page in the browser."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose

    settings, _ = choose(settings_module.load(), demo=False)
    path = _page(settings)
    import webbrowser

    opened = webbrowser.open(path.absolute().as_uri())
    if as_json:
        emit({"site": str(path), "opened": opened})
    elif not opened:
        say(f"no browser found; open {path}")


@dashboard.command()
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65_535), help="Port on loopback; 0 takes any free one.")
@json_option
def serve(port: int, as_json: bool) -> None:
    """Serve the page on loopback until Ctrl-C; only the printed address, with its secret part, leads to it."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.cli.serving import server

    settings, _ = choose(settings_module.load(), demo=False)
    made, address = server(_page(settings).parent, port)
    if as_json:
        emit({"url": address})
    else:
        say(f"{address}\nend it with Ctrl-C")
    flush()
    with made:
        try:
            made.serve_forever()
        except KeyboardInterrupt:
            return


def _page(settings: Settings) -> Path:
    """Return the page's file; raises StoreError where none was built."""
    from ctx_pipeline.errors import StoreError

    path = settings.home / "site" / "index.html"
    if not path.is_file():
        raise StoreError("there is no page yet", hint="ctx run")
    return path
