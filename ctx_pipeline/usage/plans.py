"""Which hosts are used on a flat plan: their calls are priced at the list, and nobody pays that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ctx_pipeline import discovery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctx_pipeline.settings import Settings

_TAIL = 1 << 18
_LOOKED_AT = 5
"""How many of the newest sessions are looked at, and how many bytes at the end of each."""


def plans(hosts: Iterable[str], *, recorded: bool = True, settings: Settings | None = None) -> dict[str, str]:
    """Return host -> plan, for those of these hosts that are used on one.

    ``[plans]`` of the configuration goes first (``claude = "max"``; an empty text says
    that calls are paid for each); else the last lines of the newest sessions, where the
    host writes down its plan; without ``recorded`` no home is looked at.
    """
    from ctx_pipeline import settings as settings_module

    chosen = settings or settings_module.load()
    known = discovery.hosts()
    keys = {name: key for key, host in known.items() for name in (key, *host.aliases)}
    own = {keys.get(name, name): plan for name, plan in chosen.plans.items()}
    found: dict[str, str] = {}
    for key in sorted(set(hosts) & set(known)):
        notes = known[key].usage.limit_notes
        named = own.get(key)
        if named is None and recorded and notes is not None and notes.plan is not None:
            named = _recorded(chosen, key, notes.plan)
        if named:
            found[key] = named
    return found


def _recorded(settings: Settings, host: str, plan: Callable[[bytes], str | None]) -> str | None:
    """Return the plan that the newest session which names one ends with."""
    from ctx_pipeline.usage import live_usage as live

    files = [s for s in live.sources(settings, host=host) if not s.name]
    newest = sorted(files, key=lambda s: (-s.mtime_ns, s.path))[:_LOOKED_AT]
    return next((named for source in newest if (named := plan(_last_bytes(source.path)))), None)


def _last_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of the scan is text
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""
