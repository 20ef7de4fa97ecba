"""``ctx cache``: which files a context window holds, why files were delivered again, and marks of what it holds no more."""

from __future__ import annotations

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, one_line, plain, say, table, tokens
from ctx_pipeline.cli.session.group import at_option, session_option


@click.command()
@click.argument("action", default="status", type=click.Choice(["status", "causes", "clear", "invalidate"]))
@click.argument("path", required=False)
@session_option
@at_option
@click.option("--thread", help="A subagent's or fork's window.")
@click.option("--ttl", type=click.IntRange(0), help="Seconds for which the provider keeps a prompt; 0 leaves it out of account.")
@click.option("--limit", default=40, show_default=True, type=click.IntRange(1, 100_000), help="Lines to print.")
@json_option
def cache(
    action: str, path: str | None, name: str | None, at: str | None, thread: str | None, ttl: int | None, limit: int, as_json: bool
) -> None:
    """Show which files the model's window holds.

    status: files with their lines, tokens and reads, at the end or at a MOMENT. causes: why
    each file that was read again had to be. clear, and invalidate with a PATH: note that the
    model holds nothing, or no more of one file; the records stay as they are.

    Without --ttl a prompt is kept for five minutes, or an hour where the calls wrote an
    hour's cache.
    """
    from ctx_pipeline.errors import UsageError

    if action == "invalidate" and not path:
        raise UsageError("name the file", hint="ctx cache invalidate src/auth.ts")
    if action in ("clear", "invalidate"):
        _mark(action, path or "", name, as_json)
        return
    from ctx_pipeline.sessions.repeated_reads import CAUSES, window_files

    found = window_files(name, at=at, thread=thread, ttl=ttl, settings=for_reading())
    if as_json:
        emit(found.to_json())
        return
    if action == "causes":
        times = found.causes
        rows = [{"cause": cause, **figures, "why": CAUSES[cause]} for cause, figures in times.items()]
        if rows:
            table(rows, {"cause": "cause", "times": "times", "tokens": "tokens", "why": "what it means"})
        for a in found.again[-limit:]:
            say(f"  {a.cause:<12} {plain(a.delivery.path)} {plain(a.delivery.lines)}  {a.tokens:,} t")
        say(f"{counted(len(found.again), 'file')} delivered again, of {counted(found.deliveries, 'read')}")
        return
    say(f"Cache: {len(found.files)} file(s)" + ("" if found.moment == "end" else f" at {plain(found.moment)}"), bold=True)
    for f in found.files[:limit]:
        lines = f"{f.lines}L" if f.lines else "whole"
        say(f"{f.ref}={one_line(f.path, 100)} [{lines}, {f.tokens:,}t, read {f.reads}x]" + ("  changed since" if f.changed else ""))
    if len(found.files) > limit:
        say(f"and {len(found.files) - limit} more: --limit {len(found.files)}")
    if found.again:
        told = ", ".join(f"{cause} {one['times']}x ({tokens(one['tokens'])})" for cause, one in found.causes.items())
        say(f"delivered again: {told}")


def _mark(action: str, path: str, name: str | None, as_json: bool) -> None:
    from ctx_pipeline.cli.session.writing import act

    kept = act("cleared" if action == "clear" else "invalidated", name=name, text=path)
    if as_json:
        emit(kept)
        return
    what = f"no more of {one_line(path, 100)}" if path else "nothing any more"
    say(f"noted: the model of {kept['host']} {plain(kept['session_id'])[:12]} holds {what}")
