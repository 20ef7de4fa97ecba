"""``ctx dashboard``: build and open the page."""

from __future__ import annotations

import click

from ctx_pipeline.cli.output import emit, json_option, say


@click.group()
def dashboard() -> None:
    """Build and open the page; it opens from disk, without a server."""


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
    from ctx_pipeline.errors import StoreError

    settings, _ = choose(settings_module.load(), demo=False)
    path = settings.home / "site" / "index.html"
    if not path.is_file():
        raise StoreError("there is no page yet", hint="ctx run")
    import webbrowser

    opened = webbrowser.open(path.absolute().as_uri())
    if as_json:
        emit({"site": str(path), "opened": opened})
    elif not opened:
        say(f"no browser found; open {path}")
