"""``ctx session profile``: which profile is in force, which there are, and what one would have meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, one_line, plain, say, table

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings


@click.command()
@click.argument("name", required=False)
@click.option("--try", "trial", is_flag=True, help="Do not switch: show what it would have meant for the sessions of this repository.")
@json_option
def profile(name: str | None, trial: bool, as_json: bool) -> None:
    """Show the profiles, switch to one, or try one on recorded sessions.

    A profile says how large snapshots and resume blocks are, and how far a session may go
    (largest prompt, tool calls, dollars). Your own are files profiles/NAME.toml in the
    store: extends = "coder", and what differs.
    """
    from ctx_pipeline.sessions import profiles as api

    settings = for_reading()
    if trial:
        _print_trial(name or api.active(settings).name, settings, as_json)
        return
    if name is not None:
        from ctx_pipeline.cli.session.writing import act

        api.profile(name, settings)
        act("profile", profile=name)
    known, active = api.listed(settings)
    if as_json:
        emit({"active": active, "profiles": [p.to_json() for p in known]})
        return
    if name is not None:
        say(f"switched to {active}")
        return
    rows = [
        {**p.to_json(), "name": f"{'*' if p.name == active else ' '} {p.name}", "description": one_line(p.description, 60)} for p in known
    ]
    heads = {"name": "profile", "source": "source", "snapshot_bytes": "snapshot", "resume_tokens": "resume", "context_tokens": "context"}
    table(rows, {**heads, "tool_calls": "calls", "cost_usd": "dollars", "description": "for"})


def _print_trial(name: str, settings: Settings, as_json: bool) -> None:
    from ctx_pipeline.sessions.profiles import evaluate_profile

    found = evaluate_profile(name, settings=settings)
    if as_json:
        emit(found.to_json())
        return
    say(f"{plain(name)} over {counted(found.sessions, 'session')} of this repository:", bold=True)
    for limit, over in found.over.items():
        say(f"  {limit} above {getattr(found.profile, limit):,}: {counted(over, 'session')}")
    used = counted(found.used, "file")
    say(f"  a snapshot of {found.profile.snapshot_bytes:,} bytes held {found.held} of {used} used again behind compactions")
