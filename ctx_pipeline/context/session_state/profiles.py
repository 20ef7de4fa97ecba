"""Profiles: how large snapshots and blocks are, and how far a session may go, under a name."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import SettingsError, UnknownName
from ctx_pipeline.model.plain import Plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEFAULT = "coder"
BUILT_IN, OWN = "built-in", "own"
_RANGES = {
    "snapshot_bytes": (512, 100_000),
    "resume_tokens": (60, 20_000),
    "context_tokens": (0, 10_000_000),
    "tool_calls": (0, 1_000_000),
    "cost_usd": (0, 1_000_000),
}
"""Field -> the least and the most it may be; 0 is no limit."""

_DEEPEST = 8


@dataclass(frozen=True)
class Profile(Plain):
    """One profile; the last three are limits of a session, 0 where there is none."""

    name: str
    description: str = ""
    source: str = BUILT_IN
    snapshot_bytes: int = 2_048
    resume_tokens: int = 500
    context_tokens: int = 150_000
    tool_calls: int = 300
    cost_usd: float = 5.0


_CODER = Profile(DEFAULT, "everyday work on a project")
BUILT_INS = {
    p.name: p
    for p in (
        _CODER,
        Profile("exploration", "reading into something large", snapshot_bytes=3_072, resume_tokens=800, context_tokens=200_000),
        Profile("bugfix", "one fault, found and mended", resume_tokens=400, context_tokens=100_000, tool_calls=150),
        Profile(
            "hotfix", "a small change at once", snapshot_bytes=1_024, resume_tokens=200, context_tokens=30_000, tool_calls=40, cost_usd=1
        ),
        Profile("ci-debug", "what fails on another machine", tool_calls=400),
        Profile("review", "reading a change and saying what is wrong", resume_tokens=600, tool_calls=100),
        Profile("passthrough", "no limits", snapshot_bytes=8_192, resume_tokens=2_000, context_tokens=0, tool_calls=0, cost_usd=0),
    )
}


def profiles(folder: Path) -> dict[str, Profile]:
    """Return the built-in profiles and those of ``NAME.toml`` files in a folder, by name; a file of a built-in's name replaces it.

    A file says ``extends`` (a profile; ``coder`` without it), ``description`` and what
    differs. Raises SettingsError for a file that cannot be used.
    """
    tables = {path.stem: _table(path) for path in sorted(folder.glob("*.toml"))} if folder.is_dir() else {}
    return BUILT_INS | {name: _made(name, tables, folder) for name in tables}


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path} cannot be read: {error}", hint="mend the file or move it away", path=str(path)) from error


def _made(name: str, tables: Mapping[str, dict[str, Any]], folder: Path, seen: tuple[str, ...] = ()) -> Profile:
    if name in seen or len(seen) > _DEEPEST:
        raise SettingsError(f"profile {name!r} extends itself", hint=f"look at {folder}")
    table = tables[name]
    parent = str(table.get("extends", DEFAULT))
    if parent in tables and parent != name:
        base = _made(parent, tables, folder, (*seen, name))
    elif parent in BUILT_INS:
        base = BUILT_INS[parent]
    else:
        raise SettingsError(f"profile {name!r} extends {parent!r}, which does not exist", hint=f"one of {', '.join([*BUILT_INS, *tables])}")
    known = {f.name for f in fields(Profile)} - {"name", "source"} | {"extends"}
    strange = sorted(set(table) - known)
    if strange:
        raise SettingsError(f"profile {name!r} has no {strange[0]!r}", hint=f"one of {', '.join(sorted(known))}")
    values = {key: _number(name, key, table[key]) for key in _RANGES if key in table}
    return replace(base, name=name, source=OWN, description=str(table.get("description", base.description))[:200], **values)


def _number(name: str, key: str, value: Any) -> Any:
    least, most = _RANGES[key]
    kinds = (int, float) if key == "cost_usd" else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds) or not (least <= value <= most):
        raise SettingsError(f"profile {name!r}: {key} = {value!r}", hint=f"a number from {least} to {most}")
    return value


def named(name: str, known: Mapping[str, Profile]) -> Profile:
    """Return the profile of a name; raises UnknownName."""
    if name not in known:
        raise UnknownName("profile", name[:80], known)
    return known[name]
