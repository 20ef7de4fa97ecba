"""``ctx search`` and ``ctx sql``."""

from __future__ import annotations

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import emit, json_option, one_line, plain, say, table


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--host", help="Only this host.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 1000))
@json_option
def search(words: tuple[str, ...], host: str | None, limit: int, as_json: bool) -> None:
    """Search prompts, answers, commands and tool output.

    Takes a question as typed: first the phrase, then all words, then any of them.
    """
    from ctx_pipeline.api.search import search as find
    from ctx_pipeline.cli.lean import without_numpy

    without_numpy()
    found = find(" ".join(words), host=host, limit=limit, settings=for_reading())
    if as_json:
        emit(found.to_json())
        return
    for hit in found.hits:
        say(f"{hit.host} {hit.session_id}  {hit.ts or ''}  {hit.kind}", bold=True)
        if hit.title:
            say(f"  {one_line(hit.title, 100)}")
        say(f"  {one_line(hit.snippet, 300)}")
        if hit.resume:
            say(f"  {hit.resume}", fg="cyan")
    say(f"{len(found.hits)} hits" if found.hits else "nothing found")


@click.command()
@click.argument("query")
@json_option
def sql(query: str, as_json: bool) -> None:
    """Run a SELECT over the tables, e.g. "select tool, count(*) from tool_calls group by 1".

    The tables are in docs/reference/tables.md. Nothing can be written and no other file be read.
    """
    from ctx_pipeline.api.query import query as ask

    names, rows = ask(query, settings=for_reading())
    if as_json:
        emit({"columns": names, "rows": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    table([{str(i): _value(v) for i, v in enumerate(row)} for row in rows], {str(i): n for i, n in enumerate(names)})


def _value(value: object) -> object:
    return value if isinstance(value, int | float | None) else plain(value)
