"""Price lists that a person refreshed: kept beside the bundled one, each with the day from which it holds.

``$CTX_HOME/prices/<day>.json`` has the shape of the bundled ``prices.json``. A call is
priced by the newest list that held on its day; a model that this list lacks is looked up
in the lists after it, then in those before it.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FOLDER = "prices"
_NAME = re.compile(r"(\d{4}-\d\d-\d\d)\.json")
_HINT = "write it anew with: ctx prices refresh"


class PriceList(NamedTuple):
    """One list, as compiled by :mod:`ctx_pipeline.pricing.list_sources`; ``since`` is empty for the bundled one."""

    since: str
    compiled: dict[str, Any]
    data: bytes


def files(home: Path) -> list[Path]:
    """Return the refreshed lists of a store, the oldest first."""
    try:
        names = [path for path in (home / FOLDER).iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []
    return sorted(names, key=lambda path: path.name)


def read(home: Path) -> list[PriceList]:
    """Return the refreshed lists, the oldest first; raises SettingsError for a file that is none."""
    return [PriceList(path.stem, *_decoded(path)) for path in files(home)]


def _decoded(path: Path) -> tuple[dict[str, Any], bytes]:
    import msgspec

    try:
        data = path.read_bytes()
        value = msgspec.json.decode(data)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read: {error}", hint=_HINT, path=str(path)) from error
    return checked(value, str(path)), data


def checked(value: Any, where: str) -> dict[str, Any]:
    """Return a compiled list if its shape is right; raises SettingsError."""
    try:
        source, providers = value["source"], value["providers"]
        sound = isinstance(source, str) and bool(providers)
        for provider in providers:
            sound = sound and set(provider) == {"id", "names", "claims", "fallback", "models"}
            for name, clause, prices, _variants in provider["models"]:
                sound = sound and isinstance(name, str) and isinstance(clause, list) and bool(prices)
    except (KeyError, TypeError, ValueError, AttributeError):
        sound = False
    if not sound:
        raise SettingsError(f"{where} is not a price list", hint=_HINT, path=where)
    return {"source": source, "providers": providers}


def day_of(text: str) -> str:
    """Return a day written as 2026-03-31; raises SettingsError for anything else."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise SettingsError(f"{text!r} is not a day", hint="write it as 2026-03-31") from None


def order(lists: Iterable[PriceList], day: str | None) -> list[int]:
    """Return the places of the lists in the order in which a call of that day asks them (None: the newest first)."""
    sinces = [one.since for one in lists]
    held = len(sinces) - 1 if day is None else max(n for n, since in enumerate(sinces) if since <= day)
    return [held, *range(held + 1, len(sinces)), *range(held - 1, -1, -1)]
