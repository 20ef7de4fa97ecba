"""Which hooks run this package without being asked, and when they last did."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import SettingsError
from ctx_pipeline.integrations import agent_config, config_patch
from ctx_pipeline.integrations.agent_config import options_of
from ctx_pipeline.integrations.reversible_edit import read
from ctx_pipeline.memory.injection_policy import STARTS, Choice, parse_options
from ctx_pipeline.model.agent_config import WEAVE

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

LOG = "hooks.log"
"""In the store: its time is that of the last hook that captured or had something to say."""


class Entered(NamedTuple):
    """The hooks of one home of a host."""

    name: str
    kind: str
    on: bool
    last: str | None


def entered(settings: Settings) -> list[Entered]:
    """Return the homes in which hooks of ours are entered."""
    try:
        at = datetime.fromtimestamp((settings.home / LOG).stat().st_mtime, UTC)
        last = f"{at:%Y-%m-%dT%H:%M:%S}Z"
    except FileNotFoundError:
        last = None
    states = [
        agent_config.hook_state(h, home) for h in discovery.hosts().values() if h.agent.hooks for home in agent_config.homes(settings, h)
    ]
    return [Entered(f"{s.host} {', '.join(s.events) or s.way} in {s.home}", "hooks", on=True, last=last) for s in states if s.way]


def timed(settings: Settings) -> list[Entered]:
    """Return the jobs of this store that the operating system starts; none on a platform without timers of ours."""
    from ctx_pipeline.integrations.job_runner import JOBS, last_runs
    from ctx_pipeline.integrations.os_scheduler import Timers

    try:
        found = Timers(settings).installed(tuple(JOBS))
    except SettingsError:
        return []
    runs = last_runs(settings)
    return [Entered(f"ctx {one.name} in {one.path}", "timer", on=one.on, last=runs.get(one.name, {}).get("began")) for one in found]


def sparingly(settings: Settings) -> Choice:
    """Return how sparingly the hooks that are entered inject, the least sparing where they differ; as without options where none is."""
    found = []
    for host in discovery.hosts().values():
        for home in agent_config.homes(settings, host) if host.agent.hooks else ():
            with suppress(SettingsError):
                path = home / agent_config.hooks_of(host).file
                found += [parse_options(options_of(command)) for command in config_patch.our_commands(read(path) or "", str(path), WEAVE)]
    if not found:
        return Choice()
    return Choice(
        threshold=min((c.threshold for c in found if c.prompts), default=Choice().threshold),
        accepted_only=all(c.accepted_only for c in found),
        start=max((c.start for c in found), key=STARTS.index),
        prompts=any(c.prompts for c in found),
    )
