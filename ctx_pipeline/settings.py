"""The only reader of the environment and of ``config.toml``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.usage_rules import COST_MODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.model.declared import Host

FIRST_MONTH = "2025-01"
"""Sessions that began earlier, or at no known time, go to this month's cell."""

NIGHTLY = "03:17"
"""When the nightly run begins unless ``nightly`` in config.toml says otherwise"""

SERVER_STARTED = "CTX_SERVER_STARTED"
"""Name in the environment of a server's settings: when its agent started it, microseconds since 1970."""

PLAIN = ("cost_mode", "debounce_seconds", "first_month", "least_free_bytes", "nightly", "timezone", "whole_file_bytes", "workers")
"""Names of config.toml that have one value."""

_MODEL = ("model", "api_base", "api_key_env")
TABLES: Mapping[str, tuple[str, ...]] = {
    "dagster": ("executor",),
    "ignore": ("paths",),
    "judge": _MODEL,
    "memory": ("embedder",),
    "mine": _MODEL,
    "plans": (),
    "prices": (),
    "redaction": ("patterns",),
    "team": ("publish",),
}
"""Tables of config.toml with the names in them; those of one without names are free. ``mine`` has tables of methods too."""

_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


MEMBERSHIP = "team/membership.json"
"""File of a store that is in a team."""


@dataclass(frozen=True)
class Settings:
    """Where things lie and what the person chose; made once by :func:`load`."""

    home: Path
    """``$CTX_HOME``: the store. Everything that is written lies below it."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timezone: str | None = None
    """IANA name of the zone whose days are meant; None is the machine's own."""
    cost_mode: str = "auto"
    first_month: str = FIRST_MONTH
    ignore: tuple[str, ...] = ()
    """Globs over absolute paths and project folder names that are never captured."""
    workers: int = 2
    debounce_seconds: int = 30
    whole_file_bytes: int = 1 << 29
    """A file that is not JSONL and larger is not captured; of a .zst file no more text is read."""
    least_free_bytes: int = 1 << 28
    """A capture that nobody watches does not start when the store's disk has less room than this."""
    nightly: str = NIGHTLY
    """Local time of the nightly run as HH:MM: for Dagster's schedule and for the timers of the operating system."""
    demo_roots: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    """host key -> roots that replace the person's own (sample homes, tests)."""

    def roots_of(self, host: Host) -> tuple[Path, ...]:
        """Return the existing homes of a host, without duplicates, in the order given."""
        return tuple(p for p in self.candidate_roots(host) if p.exists())

    def candidate_roots(self, host: Host) -> tuple[Path, ...]:
        """Return where homes of a host are looked for: what its environment variables name, else their default places."""
        if host.key in self.demo_roots:
            return self.demo_roots[host.key]
        if self.demo_roots:
            return ()
        files = host.files
        places = [*self._places(files.roots_env, files.roots_default)]
        for name, default in files.more_roots.items():
            places += self._places(name, default)
        if files.announced:
            places += _announced(self.home / "stores")
        return _distinct(places, self.environ)

    @property
    def in_team(self) -> bool:
        """Whether this store is in a team; where it is not, nothing that a team needs is imported."""
        return (self.home / MEMBERSHIP).exists()

    def own_roots(self, host: Host) -> tuple[Path, ...]:
        """Return the homes that the host's first environment variable names, else its default places."""
        return _distinct(self._places(host.files.roots_env, host.files.roots_default), self.environ)

    def _places(self, name: str, default: Sequence[str]) -> list[str]:
        named = [part.strip() for part in self.environ.get(name, "").split(",")]
        return [part for part in named if part] or list(default)

    @property
    def patterns(self) -> Mapping[str, str]:
        """The person's own detectors of secrets: name -> regular expression."""
        found: Mapping[str, str] = self.config.get("redaction", {}).get("patterns", {})
        return found

    @property
    def plans(self) -> Mapping[str, str]:
        """The flat plans that the person named: host key -> name of the plan; empty where calls are paid for each."""
        table = self.config.get("plans", {})
        if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
            raise SettingsError("plans is not a table of names", hint='write [plans]\nHOST = "max"')
        return table

    @property
    def executor(self) -> str:
        """What runs the steps of a run that Dagster launches: ``in_process``, ``multiprocess`` or ``package.module:name``."""
        name = self.config.get("dagster", {}).get("executor", "in_process")
        if not isinstance(name, str) or not re.fullmatch(r"in_process|multiprocess|[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
            raise SettingsError(
                f"dagster.executor = {name!r} names no executor", hint="write in_process, multiprocess or package.module:name"
            )
        return name

    @property
    def publishes(self) -> bool:
        """Whether a machine of a team publishes by itself; ``publish = false`` below ``[team]`` leaves that to ``ctx publish``."""
        table = self.config.get("team", {})
        said = table.get("publish", True) if isinstance(table, dict) else None
        if not isinstance(said, bool):
            raise SettingsError(f"team.publish = {said!r} is neither true nor false", hint="write [team]\npublish = false")
        return said

    @property
    def embedder(self) -> str:
        """``package.module:function`` that turns texts into vectors; memories are then found by meaning too. Empty: by words alone."""
        table = self.config.get("memory", {})
        name = table.get("embedder", "") if isinstance(table, dict) else None
        if not isinstance(name, str) or (name and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name)):
            raise SettingsError(f"memory.embedder = {name!r} names no function", hint='write it as embedder = "package.module:function"')
        return name

    def ignored(self, path: str) -> bool:
        """Tell whether a source path is one that the person never wants captured."""
        return any(fnmatch(path, glob) or fnmatch(path, f"{glob.rstrip('/')}/*") for glob in self.ignore)


def load(environ: Mapping[str, str] | None = None, *, home: Path | str | None = None, config: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings that the environment and ``$CTX_HOME/config.toml`` give; ``config`` stands for the file.

    Raises SettingsError for a config file that cannot be parsed, a name that is no setting (passed over, it could be a
    folder that was never to be captured) or a value of a wrong kind.
    """
    env = dict(os.environ if environ is None else environ)
    store = _store(env, home)
    config = _read_config(store / "config.toml") if config is None else config
    _check_names(config)
    mode = env.get("CTX_COST_MODE") or str(config.get("cost_mode", "auto"))
    if mode not in COST_MODES:
        raise SettingsError(f"cost mode {mode!r} is not known", hint=f"use one of {', '.join(COST_MODES)}")
    first = str(config.get("first_month", FIRST_MONTH))
    if not _MONTH.fullmatch(first):
        raise SettingsError(f"first_month {first!r} is not a month", hint='write it as first_month = "2025-01"')
    ignore = config.get("ignore", ())
    if isinstance(ignore, dict):
        ignore = ignore.get("paths", ())
    if not isinstance(ignore, list | tuple) or not all(isinstance(g, str) for g in ignore):
        raise SettingsError("ignore is not a list of globs", hint='write [ignore]\npaths = ["*/secret-project/*"]')
    zone = env.get("TZ") or config.get("timezone")
    return Settings(
        home=store,
        environ=env,
        config=config,
        timezone=_zone_name(str(zone)) if zone else None,
        cost_mode=mode,
        first_month=first,
        ignore=tuple(ignore),
        workers=_positive(config, "workers", 2),
        debounce_seconds=_positive(config, "debounce_seconds", 30, least=0),
        whole_file_bytes=_positive(config, "whole_file_bytes", 1 << 29),
        least_free_bytes=_positive(config, "least_free_bytes", 1 << 28, least=0),
        nightly=time_of_day(config.get("nightly", NIGHTLY), "nightly"),
    )


def time_of_day(value: object, name: str) -> str:
    """Return a time of day written as HH:MM; raises SettingsError for anything else."""
    if not isinstance(value, str) or not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
        raise SettingsError(f"{name} = {value!r} is not a time of day", hint=f'write {name} = "{NIGHTLY}"')
    return value


def _check_names(config: Mapping[str, Any]) -> None:
    """Raise SettingsError for the first name that is no setting, with those that are near."""
    for name, value in config.items():
        if name not in TABLES:
            if name not in PLAIN:
                inside = [f"{table}.{key}" for table, keys in TABLES.items() for key in keys if key == name]
                raise _no_setting(name, inside or [*PLAIN, *TABLES])
        elif isinstance(value, dict):
            for key, held in value.items():
                if TABLES[name] and key not in TABLES[name] and not (name == "mine" and isinstance(held, dict)):
                    raise _no_setting(f"{name}.{key}", [f"{name}.{known}" for known in TABLES[name]])
        elif name != "ignore":
            raise SettingsError(f"{name} = {value!r} in config.toml is no table", hint=f"write [{name}] above its settings")
    patterns = config.get("redaction", {}).get("patterns", {})
    if not isinstance(patterns, dict):
        raise SettingsError(
            "redaction.patterns is no table of names and expressions", hint='write [redaction.patterns]\nname = "expression"'
        )


def _no_setting(name: str, known: list[str]) -> SettingsError:
    import difflib

    near = difflib.get_close_matches(name, known, n=2, cutoff=0.5) or (known if len(known) < 4 else [])
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"
    return SettingsError(f"config.toml has no setting {name!r}", hint=hint, name=name, near=near)


def bare(home: Path | str | None = None) -> Settings:
    """Return the settings that the environment alone gives, or with this store; never raises."""
    env = dict(os.environ)
    return Settings(home=_store(env, home), environ=env)


def variable(name: str) -> str:
    """Return what a variable of the environment says now; empty where it is not set."""
    return os.environ.get(name, "")


def _store(env: Mapping[str, str], home: Path | str | None) -> Path:
    return Path(_expand(str(home or env.get("CTX_HOME") or "~/.ctx_pipeline"), env)).absolute()


def _zone_name(text: str) -> str | None:
    """Return an IANA name of a TZ value; a path or rule that is none means the machine's own zone."""
    name = text.lstrip(":")
    if "zoneinfo/" in name:
        name = name.rpartition("zoneinfo/")[2]
    return name if re.fullmatch(r"[A-Za-z0-9_+\-/]+", name) and not name.startswith("/") else None


def _positive(config: Mapping[str, Any], key: str, default: int, least: int = 1) -> int:
    value = config.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingsError(f"{key} = {value!r} is not a whole number of at least {least}", hint=f"write {key} = {default}")
    return value


def _read_config(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):  # a store that cannot be made is told by whoever opens it
        return {}
    except (UnicodeDecodeError, OSError) as error:
        raise _unreadable(path, error) from error
    # a hook that runs at every prompt has no time for it where there is no file
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> SettingsError:
    return SettingsError(f"{path} cannot be parsed: {error}", hint="mend the file or move it away", path=str(path))


def _announced(folder: Path) -> list[str]:
    """Return the paths that callback stores announced, one file each; unreadable files are skipped."""
    texts = []
    try:
        names = sorted(folder.iterdir())
    except OSError:
        return []
    for name in names[:1000]:
        try:
            text = name.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text and "\n" not in text and Path(text).is_absolute():
            texts.append(text)
    return texts


def _distinct(texts: Iterable[str], env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the places of texts in their order, each folder once."""
    found: dict[str, Path] = {}
    for text in texts:
        if place := _expand(text, env):
            path = Path(os.path.abspath(place))  # noqa: PTH100 - resolve() would follow the links of a home
            found.setdefault(os.path.realpath(path), path)
    return tuple(found.values())


def _expand(text: str, env: Mapping[str, str]) -> str:
    """Return a place with the person's home, or the variable that it begins with, in it; empty where that is not set."""
    if text.startswith("$"):
        name, _, rest = text[1:].partition("/")
        base = env.get(name, "")
        return f"{base}/{rest}" if os.path.isabs(base) else ""  # noqa: PTH117 - a text of the environment
    if text == "~" or text.startswith("~/"):
        return _user_home(env.get("HOME") or env.get("USERPROFILE") or "") + text[1:]
    return text


@lru_cache(maxsize=8)
def _user_home(named: str) -> str:
    return named or str(Path.home())


def keep_litellm_offline() -> None:
    """Keep LiteLLM, which DSPy loads, from fetching its price list when it is imported; a choice of the person's own stands."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
