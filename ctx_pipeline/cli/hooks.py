"""``ctx hooks``: what runs inside an agent's sessions, entered, taken out and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.mcp import tell
from ctx_pipeline.cli.output import emit, json_option, one_line, say, table

if TYPE_CHECKING:
    from ctx_pipeline.model.declared import Host


@click.group()
def hooks() -> None:
    """Memories in an agent's sessions, and capture as soon as something was written."""


@hooks.command()
@click.argument("host")
@click.option("--threshold", type=click.FloatRange(0, 1), help="Share of a prompt's weight that a memory must hold; 0.4 without it.")
@click.option("--holdout", type=click.FloatRange(0, 1), help="Withhold memories from this share of sessions, to learn what they do.")
@click.option("--accepted-only", is_flag=True, help="Only memories that somebody accepted.")
@click.option("--no-resume", is_flag=True, help="Say nothing of the session itself after its context was compacted.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def install(
    host: str, threshold: float | None, holdout: float | None, accepted_only: bool, no_resume: bool, yes: bool, as_json: bool
) -> None:
    """Enter the hooks in an agent's settings, after a backup; again changes nothing but the options.

    HOST is claude or codex. Hooks of others are kept; a file that cannot be parsed stays
    as it is. A version without hooks gets a block in its instructions file instead.
    """
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.stages.wiring import entries

    settings = settings_module.load()
    found = discovery.host(host)
    supported, version = entries.hooks_supported(found)
    homes = entries.homes(settings, found)
    recipe = entries.hooks_of(found)
    way = "hooks" if supported else "instructions"
    named = ", ".join(str(home / (recipe.file if supported else recipe.instructions)) for home in homes)
    if not supported:
        say(f"{found.title} {version} runs no hooks: a block in {recipe.instructions} tells it where memories are", err=True)
    if not yes:
        what = ", ".join(recipe.events) if supported else "the block"
        click.confirm(f"Enter {what} in {named}?", abort=True, err=True)
    options = [f"--threshold={threshold:g}"] if threshold is not None else []
    options += [f"--holdout={holdout:g}"] if holdout is not None else []
    options += ["--accepted-only"] if accepted_only else []
    options += ["--no-resume"] if no_resume else []
    changes = [entries.install_hooks(settings, found, home, instructions=not supported, options=options) for home in homes]
    tell(changes, as_json, way=way, note=recipe.note if supported else "")
    if not as_json and supported and recipe.note:
        say(recipe.note)


@hooks.command()
@click.argument("host")
@json_option
def uninstall(host: str, as_json: bool) -> None:
    """Take the hooks out again: byte for byte as it was where nobody changed the file since."""
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.stages.wiring import entries

    settings = settings_module.load()
    found = discovery.host(host)
    tell([c for home in entries.homes(settings, found) for c in entries.uninstall_hooks(settings, found, home)], as_json)


@hooks.command()
@click.argument("host", required=False)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="At most so many injections.")
@json_option
def status(host: str | None, limit: int, as_json: bool) -> None:
    """Show where hooks are entered, which memories reached which session when, and whether they were used.

    Use is judged by every run, from what the session shows after it was told: each outcome
    names the events that show it (--json has them all).
    """
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.api.injection import HOOKED, injections, shares
    from ctx_pipeline.stages.wiring import entries

    settings = settings_module.load()
    chosen: list[Host] = [discovery.host(host)] if host else [h for h in discovery.hosts().values() if h.hooks]
    states = [entries.hook_state(h, home) for h in chosen for home in entries.homes(settings, h)]
    keys = {h.key for h in chosen}
    told = [i for i in injections(limit=limit if not host else 1000, settings=settings) if i.get("host") in keys][:limit]
    if as_json:
        emit({"hosts": [_state(s) for s in states], "injections": told, "in_all": shares(settings=settings)})
        return
    rows = [{**_state(s), "events": ", ".join(s.events), "way": s.way or "not entered"} for s in states]
    table(rows, {"host": "host", "way": "way", "path": "file", "events": "events"})
    for s in states:
        if s.problem:
            say(one_line(s.problem, 300), fg="yellow")
        elif s.missing:
            say(f"not entered: {', '.join(s.missing)}; enter them: ctx hooks install {s.host}", fg="yellow")
    say()
    rows = [
        {
            **i,
            "told": "withheld" if i["withheld"] else "told" if i["event"] in HOOKED else "asked",
            "memory": m["memory_id"],
            "used": _used(i, m),
        }
        for i in told
        for m in i["memories"]
    ]
    if rows:
        columns = {
            "at": "when",
            "host": "host",
            "session_id": "session",
            "event": "at",
            "told": "",
            "memory": "memory",
            "used": "used",
        }
        table(rows, columns)
        _tell_shares(shares(settings=settings))
    else:
        say("no memory was injected yet")


def _used(injection: dict[str, Any], memory: dict[str, Any]) -> str:
    """Return what became of a memory, with the first event that shows it."""
    if injection["withheld"]:
        return ""
    outcome = memory["outcome"]
    shown = (memory["evidence"] or {}).get(outcome) or [""]
    return f"{outcome} {shown[0]}".rstrip() if outcome else "not judged yet"


def _tell_shares(found: dict[str, Any]) -> None:
    share = found["withheld_share"]
    if share is not None:
        say(f"hooks told {found['sessions_told']:,} sessions and withheld from {found['sessions_withheld']:,} ({100 * share:.0f}%)")
    outcomes = ", ".join(f"{name} {count:,}" for name, count in found["outcomes"].items())
    say(f"of {found['memories_told']:,} memories told, {found['memories_judged']:,} judged" + (f": {outcomes}" if outcomes else ""))


def _state(state: Any) -> dict[str, Any]:
    return {
        "host": state.host,
        "path": str(state.path),
        "way": state.way,
        "events": state.events,
        "missing": state.missing,
        "problem": state.problem,
    }
