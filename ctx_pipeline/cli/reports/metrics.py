"""``ctx metrics``: one session in figures."""

from __future__ import annotations

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, dollars, emit, json_option, one_line, plain, say, table, tokens
from ctx_pipeline.cli.session_names import session_name


@click.command()
@session_name()
@click.option("--limit", default=15, show_default=True, type=click.IntRange(1, 100_000), help="Rows of each table.")
@json_option
def metrics(name: str | None, limit: int, as_json: bool) -> None:
    """Show reads, repeats, tokens and money of a session, by tool, way and file.

    Every table adds up to the same total: a model call is shared equally among what it
    asked for. The score at the end is the weighted mean of the parts that stand below it.
    """
    from ctx_pipeline.sessions.metrics import CEP
    from ctx_pipeline.sessions.metrics import metrics as api

    found = api(name, settings=for_reading())
    if as_json:
        emit(found.to_json())
        return
    t = found.totals
    say(f"Session metrics  {found.host} {plain(found.session_id)}", bold=True)
    prompt = sum(t[n] for n in ("input", "cache_write_5m", "cache_write_1h", "cache_read"))
    files = len({r["name"] for r in found.by_file if not r["name"].startswith("(")})
    counts = {"Files": files, "Reads": found.reads, "Repeated": found.repeated_reads, "Had to be read again": found.bounced}
    say(" | ".join(f"{name}: {number:,}" for name, number in counts.items()))
    say(
        f"Prompt: {tokens(prompt)} tokens, {_percent(t['cache_read'] / prompt if prompt else None)} from the cache"
        f" | Output: {tokens(t['output'])}"
    )
    say(f"Cost: {dollars(t['cost_nano'])} in {counted(t['calls'], 'model call')}")
    for title, rows in (("By tool", found.by_tool), ("By way", found.by_way), ("By file", found.by_file)):
        say()
        say(f"{title}:", bold=True)
        shown = [
            {**r, "name": one_line(r["name"], 80), "read": tokens(r["cache_read"]), "cost": dollars(r["cost_nano"])} for r in rows[:limit]
        ]
        table(shown, {"name": "name", "uses": "uses", "input": "input", "output": "output", "read": "cached", "cost": "cost"})
        if len(rows) > limit:
            say(f"and {len(rows) - limit:,} more: --limit {len(rows)}")
    if found.window.files:
        say()
        say("File refs (what the window holds):", bold=True)
        for f in found.window.files[:limit]:
            say(f"  {f.ref}={plain(f.path)} [{f'{f.lines}L' if f.lines else 'whole'} {f.tokens}t reads:{f.reads}]")
    say()
    say(f"Code in answers that had just been read: {_percent(found.echo)}")
    say(f"Context efficiency score: {'no data' if found.cep is None else found.cep}", bold=True)
    for part, value in found.cep_parts.items():
        say(f"  {part:<13} {_percent(value):>7}  weight {CEP[part]:g}")


def _percent(share: float | None) -> str:
    return "no data" if share is None else f"{100 * share:.1f} %"
