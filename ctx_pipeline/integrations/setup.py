"""A first set-up: what was found on this machine, what a person chose of it, and the changes that follow."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from glob import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import CtxError, SettingsError, UnknownChoice, UnknownName
from ctx_pipeline.integrations import agent_config
from ctx_pipeline.integrations.os_scheduler import Timers
from ctx_pipeline.settings import PLAIN, TABLES
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from ctx_pipeline.integrations.os_scheduler import Job
    from ctx_pipeline.settings import Settings


# What a person chose, where it was said, and how it is changed: comments and order of config.toml stay.


FILE = "config.toml"
VARIABLES: Mapping[str, str] = {"cost_mode": "CTX_COST_MODE", "timezone": "TZ"}
"""Settings that a variable of the environment overrides."""


@dataclass(frozen=True, slots=True)
class Value:
    """One setting: its value in force and where that is from."""

    key: str
    value: Any
    origin: str
    """default, config.toml, or the variable of the environment that overrides both"""


def path_of(settings: Settings) -> Path:
    """Return where the configuration lies, whether or not it is there."""
    return settings.home / FILE


def values(settings: Settings) -> list[Value]:
    """Return every setting with its value in force, the plain ones first, then what the tables hold."""
    found = []
    for key in PLAIN:
        variable = VARIABLES.get(key, "")
        said = settings.environ.get(variable) if variable else None
        origin = variable if said else FILE if key in settings.config else "default"
        found.append(Value(key, getattr(settings, key), origin))
    found.append(Value("ignore.paths", list(settings.ignore), FILE if "ignore" in settings.config else "default"))
    for name in [table for table in TABLES if table != "ignore"]:
        found += [Value(key, value, FILE) for key, value in _flat(settings.config.get(name), name)]
    return found


def change(settings: Settings, key: str, words: Sequence[str]) -> Value:
    """Write one setting and return it as it is in force now; without words it is taken out of the file.

    Several words are a list. The rest of the file stays as it was written. Raises
    UnknownName for a setting that does not exist and SettingsError for a value that
    cannot be used or a file that cannot be edited; nothing is written then.
    """
    import tomlkit

    place = _place(key)
    path = path_of(settings)
    document = tomlkit.parse(path.read_text("utf-8") if path.exists() else "")
    if words:
        table: Any = document
        for depth, part in enumerate(place[:-1], 1):
            table = table.setdefault(part, tomlkit.table(is_super_table=depth < len(place) - 1))
            if not isinstance(table, dict):
                raise SettingsError(
                    f"{path} was left as it is: {part} is no table in it", hint="change it in the file: docs/settings.md", path=str(path)
                )
        table[place[-1]] = _value(words, several=place == ["ignore", "paths"])
    else:
        tables: list[Any] = [document]
        for part in place[:-1]:
            tables.append(tables[-1].get(part, {}))
        tables[-1].pop(place[-1], None)
    text = tomlkit.dumps(document)
    made = tomllib.loads(text)
    checked = settings_module.load(settings.environ, home=settings.home, config=made)
    _usable(checked)
    Files(settings.home).write(FILE, text.encode())
    return next((v for v in values(checked) if v.key == ".".join(place)), Value(".".join(place), None, "default"))


def _usable(settings: Settings) -> None:
    """Raise SettingsError for patterns, prices, a zone or an embedding function that nothing could work with."""
    from ctx_pipeline.context.retrieval.embedding import load_embedding
    from ctx_pipeline.pipeline.capture import redactor_of
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.storage.warehouse.days import day_sql

    redactor_of(settings)
    PriceBook.of(settings)
    day_sql("ts", settings.timezone)
    _ = settings.plans, settings.executor
    if settings.embedder:
        load_embedding(settings.embedder)


def _place(key: str) -> list[str]:
    """Return the parts of a setting's name, quoted ones included."""
    asked = "ignore.paths" if key == "ignore" else key
    try:
        table = tomllib.loads(f"{asked} = 0")
    except tomllib.TOMLDecodeError:
        table = {}
    parts: list[str] = []
    while isinstance(table, dict) and len(table) == 1:
        ((name, table),) = table.items()
        parts.append(name)
    plain = len(parts) == 1 and parts[0] in PLAIN
    if not plain and not (len(parts) > 1 and parts[0] in TABLES):
        raise UnknownChoice("setting", key, [*PLAIN, "ignore", "redaction.patterns.NAME", 'prices."MODEL".input'])
    return parts


def _value(words: Sequence[str], *, several: bool) -> Any:
    """Return what words mean: a number, a truth, a list, or text."""
    if several or len(words) > 1:
        return list(words)
    try:
        found = tomllib.loads(f"value = {words[0]}")["value"]
    except tomllib.TOMLDecodeError:
        return words[0]
    return found if isinstance(found, bool | int | float | list | str) else words[0]


def _flat(value: Any, prefix: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return [(prefix, value)] if value is not None else []
    return [pair for key, held in value.items() for pair in _flat(held, f"{prefix}.{_key(key)}")]


def _key(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part)


class Home(NamedTuple):
    """A home of a host that is there."""

    host: str
    title: str
    path: Path
    hooks: str
    """file that hooks would be installed in; empty where the host has none, or they are installed"""


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
                f"never capture {', '.join(added)} (in {path_of(settings)})",
                shlex.join(["ctx", "config", "set", "ignore.paths", *settings.ignore, *added]),
            )
        )
    for host in choice.hooks:
        named = ", ".join(str(home / recipe.file) for home, recipe in _hooked(settings, host))
        made.append(Step(f"install hooks in {named}, after a backup", f"ctx hooks install {host}"))
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
        acts.append(lambda: change(settings, "ignore.paths", [*settings.ignore, *added]))
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
    """Return the options of hooks that are installed in a home already, as words."""
    from ctx_pipeline.memory import hook_words

    return hook_words.written(agent_config.options_in_force(host, home))


def left_out_of(found: Collection[Home], hosts: Collection[str]) -> tuple[Path, ...]:
    """Return the homes of hosts that were not chosen."""
    return tuple(home.path for home in found if home.host not in hosts)
