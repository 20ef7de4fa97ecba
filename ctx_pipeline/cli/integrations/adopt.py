"""``ctx adopt``: take over what another archive or store holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ctx_pipeline.cli.output import confirm, emit, json_option, one_line, say, table
from ctx_pipeline.model.display import size

if TYPE_CHECKING:
    from ctx_pipeline.integrations.adopt import Entry

_LISTED = 20
_KEPT = ("take", "newer", "held")


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be taken and change nothing.")
@click.option("--take-conflicts", is_flag=True, help="Take both sides where the store has other bytes of the same session.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def adopt(folder: Path, dry_run: bool, take_conflicts: bool, yes: bool, as_json: bool) -> None:
    """Take over the sessions of FOLDER: a flat-file archive (raw/<host>/<session>/) or another store of ctx.

    FOLDER is only read. What the store has already is left, conflicts are named; files are
    checked by their checksums before anything is captured, and raw is compared with them
    after. Said again it goes on where it was interrupted.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import adopt as stage
    from ctx_pipeline.storage import open_store

    settings = settings_module.load()
    with open_store(settings) as store:
        found = None
        if dry_run or not yes:
            found = stage.plan(store, settings, folder)
            if not as_json:
                _show(found)
            if dry_run:
                if as_json:
                    emit(stage.Adopted(found).to_json())
                return
            if not yes:
                confirm("Take them over?")
        done = stage.adopt(store, settings, folder, found=found, conflicts=take_conflicts)
    if as_json:
        emit(done.to_json())
    else:
        say(", ".join(f"{does}: {count:,}" for does, count in done.counts().items()) or "nothing was there")
        say(f"{done.sessions:,} sessions are new; {done.verified:,} files were captured and compared with their checksums")
        for name in done.unverified[:_LISTED]:
            say(f"not captured as it is: {one_line(name, 160)}", err=True, fg="red")
        say("now: ctx run")
    if done.unverified:
        raise SystemExit(1)


def _show(found: list[Entry]) -> None:
    by: dict[tuple[str, str], list[Entry]] = {}
    for entry in found:
        by.setdefault((entry.host, entry.does), []).append(entry)
    rows = [{"host": h, "does": d, "files": len(own), "size": size(sum(e.size for e in own))} for (h, d), own in sorted(by.items())]
    table(rows, {"host": "host", "does": "", "files": "files", "size": "size"})
    for entry in [e for e in found if e.does not in _KEPT][:_LISTED]:
        say(f"{entry.does}: {one_line(entry.name, 160)}")
