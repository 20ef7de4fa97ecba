"""``ctx benchmark``: every form of a file or a project, and what they would have saved in real sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ctx_pipeline.cli.output import emit, json_option, say, table

if TYPE_CHECKING:
    from ctx_pipeline.compression.benchmark_text import Page


@click.command()
@click.argument("path", default=".", type=click.Path(path_type=Path))
@click.option("--files", default=50, show_default=True, type=click.IntRange(1, 1000), help="Files of the sample of a folder.")
@click.option("--seed", default=0, show_default=True, type=int, help="Which sample is drawn; the same seed draws the same files.")
@click.option("--runs", default=5, show_default=True, type=click.IntRange(0, 100), help="Times that each form is made; 0 measures no time.")
@click.option("--session", "-s", "sessions", multiple=True, metavar="SESSION", help="Replay a session in place of measuring files.")
@click.option("--replay", type=click.IntRange(1, 1000), metavar="N", help="Replay the N newest captured sessions.")
@click.option("--format", "form", default="terminal", show_default=True, type=click.Choice(["terminal", "markdown", "json"]))
@json_option
def benchmark(
    path: Path, files: int, seed: int, runs: int, sessions: tuple[str, ...], replay: int | None, form: str, as_json: bool
) -> None:
    """Measure every form of a file, or of a sample of a folder: tokens, what is kept, time.

    The sample is drawn over languages and sizes; totals are weighted by tokens, and the
    interval is that of the total over files. Quality is measured by reading what a form
    produced. A cache hit is the notice that a file is in the context already.

    A replay goes through what real sessions read and tells what shorter forms would have
    saved: certain (nothing new was read), likely (read once, not changed), upper (all).
    """
    from ctx_pipeline.compression import benchmark as api
    from ctx_pipeline.compression.benchmark_text import page_of_file, page_of_project

    as_json = as_json or form == "json"
    if sessions or replay:
        _replayed(sessions, replay, form, as_json=as_json)
        return
    if path.is_dir():
        found = api.benchmark_project(path, files=files, seed=seed, runs=runs)
        told, page = api.benchmark_row(found), page_of_project(found)
    else:
        one = api.benchmark_file(path, runs=runs)
        told, page = api.file_row(one), page_of_file(one)
    if as_json:
        emit(told)
    else:
        show(page, form)


def _replayed(names: tuple[str, ...], count: int | None, form: str, *, as_json: bool) -> None:
    from ctx_pipeline.cli.homes import for_reading
    from ctx_pipeline.compression import replay as api
    from ctx_pipeline.compression.benchmark_text import page_of_replay
    from ctx_pipeline.compression.compress import session_named

    settings = for_reading()
    chosen = [session_named(name, settings) for name in names] + (api.newest(count, settings=settings) if count else [])
    rows = [api.replay(host, name, settings=settings) for host, name in dict.fromkeys(chosen)]
    if as_json:
        emit(api.replay_row(rows))
    else:
        show(page_of_replay(rows), form)


def show(page: Page, form: str) -> None:
    """Print a page for a terminal, or as Markdown."""
    if form == "markdown":
        from ctx_pipeline.compression.benchmark_text import markdown

        say(markdown(page), nl=False)
        return
    say(page.title, bold=True)
    if page.note:
        say(page.note)
    for rows, columns in page.tables:
        say("")
        table(rows, columns)
    if page.ending:
        say(f"\n{page.ending}")
