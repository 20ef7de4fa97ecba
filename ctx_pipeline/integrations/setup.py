"""A first set-up: what was found on this machine, what a person chose of it, and the changes that follow."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from glob import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import CtxError, UnknownName
from ctx_pipeline.integrations import agent_config, config_edit
from ctx_pipeline.integrations.os_scheduler import Timers

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ctx_pipeline.integrations.os_scheduler import Job
    from ctx_pipeline.settings import Settings


class Home(NamedTuple):
    """A home of a host that is there."""

    host: str
    title: str
    path: Path
    hooks: str
    """file that hooks would be entered in; empty where the host has none, or they are entered"""


class Step(NamedTuple):
    """One change that a set-up makes, in words, and the command that does or undoes it alone."""

    what: str
    command: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person chose."""

    left_out: tuple[Path, ...] = ()
    """homes that are never captured"""
    ignore: tuple[str, ...] = ()
    """further globs that are never captured"""
    hooks: tuple[str, ...] = ()
    """hosts that get hooks"""
    jobs: tuple[Job, ...] = field(default=())


def homes(settings: Settings) -> list[Home]:
    """Return the homes of all hosts that exist here and are not ignored as a whole."""
    found = []
    for key, host in discovery.hosts().items():
        for root in settings.roots_of(host):
            if settings.ignored(f"{root}/"):
                continue
            recipe = host.agent.hooks
            entered = recipe is None or agent_config.hook_state(host, root).way is not None
            found.append(Home(key, host.title, root, "" if recipe is None or entered else str(root / recipe.file)))
    return found


def steps(settings: Settings, choice: Choice) -> list[Step]:
    """Return what :func:`carry_out` will do, in order; raises UnknownName for a host without hooks."""
    made = []
    added = _globs(settings, choice)
    if added:
        made.append(
            Step(
                f"never capture {', '.join(added)} (in {config_edit.path_of(settings)})",
                shlex.join(["ctx", "config", "set", "ignore.paths", *settings.ignore, *added]),
            )
        )
    for host in choice.hooks:
        named = ", ".join(str(home / recipe.file) for home, recipe in _hooked(settings, host))
        made.append(Step(f"enter hooks in {named}, after a backup", f"ctx hooks install {host}"))
    if choice.jobs:
        words = " and ".join(f"ctx {job.name} {job.when}" for job in choice.jobs)
        files = [unit.path for job in choice.jobs for unit in Timers(settings).units(job)]
        made.append(Step(f"let the operating system start {words} ({files[0].parent})", "ctx schedule install"))
    return made


def carry_out(settings: Settings, choice: Choice) -> list[dict[str, Any]]:
    """Do what was chosen and return each step with what came of it; one that fails leaves the others."""
    done = []
    for step, act in zip(steps(settings, choice), _acts(settings, choice), strict=True):
        try:
            act()
        except CtxError as error:
            done.append({**step._asdict(), "done": False, "problem": error.message, "hint": error.hint})
        else:
            done.append({**step._asdict(), "done": True, "problem": "", "hint": ""})
    return done


def _acts(settings: Settings, choice: Choice) -> list[Any]:
    acts: list[Any] = []
    added = _globs(settings, choice)
    if added:
        acts.append(lambda: config_edit.change(settings, "ignore.paths", [*settings.ignore, *added]))
    acts += [lambda host=host: _hook(settings, host) for host in choice.hooks]
    if choice.jobs:
        acts.append(lambda: [Timers(settings_module.load(settings.environ, home=settings.home)).install(job) for job in choice.jobs])
    return acts


def _globs(settings: Settings, choice: Choice) -> list[str]:
    wanted = [*(f"{escape(str(path))}/*" for path in choice.left_out), *choice.ignore]
    return [glob for glob in dict.fromkeys(wanted) if glob not in settings.ignore]


def _hooked(settings: Settings, name: str) -> Sequence[tuple[Path, Any]]:
    host = discovery.host(name)
    if host.agent.hooks is None:
        raise UnknownName("host with hooks", name, [key for key, one in discovery.hosts().items() if one.agent.hooks])
    return [(home, host.agent.hooks) for home in agent_config.homes(settings, host)]


def _hook(settings: Settings, name: str) -> None:
    host = discovery.host(name)
    supported, _ = agent_config.hooks_supported(host)
    for home, _ in _hooked(settings, name):
        agent_config.install_hooks(settings, host, home, instructions=not supported, options=_options(host, home))


def _options(host: Any, home: Path) -> list[str]:
    """Return the options of hooks that are entered in a home already, as words."""
    from ctx_pipeline.memory import hook_words

    return hook_words.written(agent_config.options_in_force(host, home))


def left_out_of(found: Collection[Home], hosts: Collection[str]) -> tuple[Path, ...]:
    """Return the homes of hosts that were not chosen."""
    return tuple(home.path for home in found if home.host not in hosts)
