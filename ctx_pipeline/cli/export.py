"""``ctx export``: the tables for other programs."""

from __future__ import annotations

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import emit, json_option, table


@click.group()
def export() -> None:
    """Write what the store holds as files for other programs."""


@export.command()
@click.argument("folder", type=click.Path(file_okay=False))
@json_option
def parquet(folder: str, as_json: bool) -> None:
    """Write one Parquet file a table into FOLDER."""
    from ctx_pipeline.api.export import parquet as run

    counts = run(folder, settings=for_reading())
    if as_json:
        emit({"folder": folder, "rows": counts})
    else:
        table([{"table": name, "rows": rows} for name, rows in counts.items()], {"table": "table", "rows": "rows"})
