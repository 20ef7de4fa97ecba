"""``ctx files``: what a session read and changed."""

from __future__ import annotations

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import emit, json_option, one_line, plain, say, table
from ctx_pipeline.cli.session_names import session_argument

_LISTED = 40


@click.command()
@session_argument()
@click.option("--path", metavar="GLOB", help="Only files whose path fits, or ends so.")
@click.option("--diff", is_flag=True, help="Every change with its difference, in order.")
@click.option("--reads", "each", is_flag=True, help="Every read with its lines, in order.")
@click.option("--all", "everything", is_flag=True, help=f"All files, not the {_LISTED} most touched ones.")
@json_option
def files(host: str, session_id: str, path: str | None, diff: bool, each: bool, everything: bool, as_json: bool) -> None:
    """List the files that one session read and changed, through its tools and through the shell.

    Changes carry the SHA-256 of the
    text before and after, and the difference, as far as the agent recorded them.
    """
    from ctx_pipeline.sessions.files import CHANGED, session_files, summed

    found = session_files(host, session_id, path=path, settings=for_reading())
    if as_json:
        emit(found.to_json())
        return
    if len({s.directory for s in found.stays}) > 1:
        for stay in found.stays:
            say(f"{stay.first_ts or '?'}  {plain(stay.directory)}  {stay.events:,} events from {stay.first_event}")
        say()
    if diff:
        for t in found.touches:
            if t.did in CHANGED:
                known = f"+{t.added} -{t.removed}" if t.added is not None else "difference not recorded"
                say(f"{t.ts or '?'}  {t.did} {plain(t.path)}  {known}", bold=True)
                say(f"before {t.before_sha or '?'}  after {t.after_sha or '?'}")
                for line in t.diff.splitlines():
                    say(plain(line))
        return
    if each:
        rows = [
            {"ts": t.ts or "?", "path": t.path, "lines": t.lines or "all", "through": t.through} for t in found.touches if t.did == "read"
        ]
        table(rows, {"ts": "time", "path": "file", "lines": "lines", "through": "through"})
        return
    lines = summed(found.touches)
    shown = lines if everything else lines[:_LISTED]
    table(
        [
            {**one, "lines": one_line(one["lines"], 40), "added": f"+{one['added']} -{one['removed']}" if one["changes"] else ""}
            for one in shown
        ],
        {"path": "file", "reads": "reads", "lines": "last read", "changes": "changes", "added": "lines changed"},
    )
    if len(lines) > len(shown):
        say(f"and {len(lines) - len(shown):,} more (--all)")
    if not lines:
        say("no tool call of this session names a file" if path is None else "no file fits")
