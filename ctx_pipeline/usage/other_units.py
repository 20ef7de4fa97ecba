"""What hosts bill in other units than tokens and dollars: premium requests, credits. Never added to a cost, and never to each other."""

from __future__ import annotations

import json
from contextlib import closing
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.model.host_records import BILLED
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline.storage.store_marker import begun
from ctx_pipeline.usage.homes import live_usage as live

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.homes.live_usage import Counted
    from ctx_pipeline.usage.rollup import Filters

_TS, _SUBTYPE, _TEXT = (EVENTS.names.index(name) for name in ("ts", "subtype", "text"))


class Charged(NamedTuple):
    """The sum of one unit of one host; ``unit`` is a field of its records, ``label`` what it counts."""

    host: str
    unit: str
    label: str
    amount: float
    sessions: int


def other_units(settings: Settings, filters: Filters, *, stored: bool = False) -> list[Charged]:
    """Return what was billed in other units, by host and unit, in the order in which the host declares them.

    Hosts that bill in no other unit, or of which there is neither a home nor a stored session, cost nothing here.
    """
    keep = filters.keeps()
    found: list[Charged] = []
    for host in discovery.hosts().values():
        if not host.usage.other_units or filters.host not in {None, host.key}:
            continue
        sums: dict[str, tuple[float, set[str]]] = {}
        for session, ts, text in _events(settings, host, stored=stored):
            said = _object(text)
            if keep is not None and not keep(session, str(said.get("model") or ""), ts):
                continue
            for unit in host.usage.other_units:
                amount = said.get(unit)
                if isinstance(amount, int | float) and not isinstance(amount, bool) and isfinite(amount) and amount > 0:
                    whole, sessions = sums.get(unit, (0.0, set()))
                    sums[unit] = (whole + amount, sessions | {session.session_id})
        found += [
            Charged(host.key, unit, label, round(sums[unit][0], 9), len(sums[unit][1]))
            for unit, label in host.usage.other_units.items()
            if unit in sums
        ]
    return found


def _events(settings: Settings, host: Host, *, stored: bool) -> Iterator[tuple[Counted, int | None, str]]:
    """Yield session, time and text of the events in which a host says what it billed: as stored, and as newer files say."""
    if not begun(settings.home):
        sessions = live.sessions(live.sources(settings, host=host.key), settings) if settings.roots_of(host) else []
        yield from _parsed(live.read(sessions, whole=True))
        return
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.usage.homes.usage_delta import UsageDelta, usage_delta

    with reading(settings) as (store, _):
        held = any(cell.host == host.key for cell in store.ledger.cells())
        if not held and (stored or not settings.roots_of(host)):
            return
        new = UsageDelta() if stored else usage_delta(store, settings, whole=True, host=host.key)
        with closing(store.lake.connect()) as connection:
            store.lake.views(connection, ("events", "sessions"))
            rows = connection.execute(_STORED, [host.key, BILLED]).fetchall() if held else []
    for session_id, project, repository, branch, ts, text in rows:
        if (host.key, session_id) not in new.replaced:
            yield live.Counted(host.key, session_id, project or "", None, [], repository=repository or "", branch=branch or ""), ts, text
    yield from _parsed(new.sessions)


_STORED = """
SELECT e.session_id, s.project, s.repository, s.branch, epoch_us(e.ts), e.text
FROM events e LEFT JOIN sessions s USING (host, session_id) WHERE e.host = ? AND e.subtype = ?
"""


def _parsed(sessions: Iterable[Counted]) -> Iterator[tuple[Counted, int | None, str]]:
    for one in sessions:
        for row in one.parsed.events if one.parsed else ():
            if row[_SUBTYPE] == BILLED:
                yield one, row[_TS], row[_TEXT] or ""


def _object(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
