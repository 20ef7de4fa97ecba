"""Which hooks run this package without being asked, and when they last did."""

from __future__ import annotations

from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import SettingsError
from ctx_pipeline.integrations import agent_config, config_patch
from ctx_pipeline.integrations.agent_config import options_of
from ctx_pipeline.integrations.config_patch import read
from ctx_pipeline.memory.evaluation import recommended
from ctx_pipeline.memory.injection_policy import MEASURED, NOTHING, STARTS, Choice, parse_options
from ctx_pipeline.model.hook_kinds import WEAVE
from ctx_pipeline.storage.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.settings import Settings


LOG = "hooks.log"
"""In the store: its time is that of the last hook that captured or had something to say."""


class Entered(NamedTuple):
    """The hooks of one home of a host."""

    name: str
    kind: str
    on: bool
    last: str | None
    problem: str = ""
    """what is wrong with it, and the command that mends it"""


def entered(settings: Settings) -> list[Entered]:
    """Return the homes in which hooks of ours are installed."""
    try:
        at = datetime.fromtimestamp((settings.home / LOG).stat().st_mtime, UTC)
        last = f"{at:%Y-%m-%dT%H:%M:%S}Z"
    except FileNotFoundError:
        last = None
    states = [
        agent_config.hook_state(h, home) for h in discovery.hosts().values() if h.agent.hooks for home in agent_config.homes(settings, h)
    ]
    return [
        Entered(f"{s.host} {', '.join(s.events) or s.way} in {s.home}", "hooks", on=True, last=last, problem=agent_config.older_hooks(s))
        for s in states
        if s.way
    ]


def timed(settings: Settings) -> list[Entered]:
    """Return the jobs of this store that the operating system starts; none on a platform without timers of ours."""
    from ctx_pipeline.integrations.os_scheduler import JOBS, Timers, last_runs

    try:
        found = Timers(settings).installed(tuple(JOBS))
    except SettingsError:
        return []
    runs = last_runs(settings)
    return [Entered(f"ctx {one.name} in {one.path}", "timer", on=one.on, last=runs.get(one.name, {}).get("began")) for one in found]


def sparingly(settings: Settings) -> Choice:
    """Return how sparingly the installed hooks inject, the least sparing where they differ; as without options where none is."""
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


# From where on hooks were right often enough on the person's own history, as the newest figures of a backtest tell.


class Calibrated(NamedTuple):
    """What a wanted precision means for hooks."""

    precision: float
    threshold: float | None
    """the lowest one that is known to be right so often; None where none is: nothing is told at prompts"""
    start: str
    """the most generous rule of the start that is, else ``nothing``"""
    at: str | None
    """when these figures were kept; None where there are none"""

    def options(self) -> dict[str, str]:
        """Return the options of a hook that keep to it."""
        prompts = {"no-prompts": "yes"} if self.threshold is None else {"threshold": f"{self.threshold:g}"}
        return {"precision": f"{self.precision:g}", "start": self.start, **prompts}


def calibrated(settings: Settings, precision: float) -> Calibrated:
    """Return what hooks may tell so that as much of it is right, by the newest figures that were kept; nothing where there are none."""
    with closing(Journal(settings.home / "journal.db", read_only=True)) as journal:
        facts = journal.newest(MEASURED, 1) if journal.is_there() else []
    kept: Any = facts[0].payload.get("calibration") if facts else None
    if not isinstance(kept, dict):
        return Calibrated(precision, None, NOTHING, None)
    found = recommended(kept["thresholds"], precision, kept["starts"])
    return Calibrated(precision, found["injection"], found["start"] or NOTHING, str(facts[0].at))


def moved(settings: Settings, options: Mapping[str, str]) -> Calibrated | None:
    """Return what the newest figures say where hooks with a precision were entered by others; None where both agree.

    The rule of the start is compared only where the one in force tells more: less may be the person's own choice.
    """
    try:
        precision = float(options["precision"])
    except (KeyError, ValueError):
        return None
    newest = calibrated(settings, precision)
    now, held = parse_options(newest.options()), parse_options(options)
    same = (now.prompts, now.threshold if now.prompts else 0) == (held.prompts, held.threshold if held.prompts else 0)
    return None if same and STARTS.index(held.start) <= STARTS.index(now.start) else newest
