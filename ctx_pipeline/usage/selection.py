"""The model calls behind one row of a usage table."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.labels import UNDATED, UNNAMED
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.usage.attribution import SHARED, names_of, parts
from ctx_pipeline.usage.groupings import GROUPINGS, Days
from ctx_pipeline.usage.repositories import project_names
from ctx_pipeline.usage.rollup import Call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.attribution import Uses
    from ctx_pipeline.usage.engine import Calls
    from ctx_pipeline.usage.groupings import Grouping

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MONTH = re.compile(r"\d{4}-\d\d")


def calls_of_row(what: str, by: str | None, found: Calls, zone: str | None, settings: Settings, *, uses: Uses) -> tuple[str, list[Call]]:
    """Return what kind of thing ``what`` is and the calls that it is made of.

    ``by`` is the table whose row it is (``weekly``, ``tool`` ...); None finds out by
    itself for days, months, calls, sessions, models and projects. Raises UsageError for
    an unknown table and for the beginning of several session ids.
    """
    if by is None:
        return _found_out(what, found, Days(zone))
    if by == "blocks":
        return "window", _window(what, found, zone, settings)
    if by not in GROUPINGS:
        raise UsageError(f"there is no table {by!r}", hint=f"use one of {', '.join(GROUPINGS)}, blocks")
    grouping = GROUPINGS[by]
    kind, pairs = grouping.unit or by, _pairs(found)
    if grouping.names is not None:
        return kind, _uses(what, grouping, found, uses)
    if by == "session":
        return _found_out(what, found, Days(zone), only="session")
    if by == "project":
        return kind, [p for p in pairs if what in project_names(p.counted.project, p.counted.repository)]
    if by == "model":
        return kind, [p for p in pairs if _model(p.row) == what]
    key = grouping.key(zone)
    wanted = None if what == UNDATED else f"{what}-01" if by == "monthly" and _MONTH.fullmatch(what) else what
    return kind, [p for p in pairs if key(p.row[_C["ts"]], p.counted, p.row[_C["thread_id"]] == p.row[_C["session_id"]]) == wanted]


def _pairs(found: Calls) -> list[Call]:
    return [Call(c, row) for c, rows in found.owned for row in rows]


def _model(row: tuple) -> str:
    return row[_C["model"]] or UNNAMED


def _found_out(what: str, found: Calls, days: Days, only: str | None = None) -> tuple[str, list[Call]]:
    pairs = _pairs(found)
    if only is None and (_DAY.fullmatch(what) or _MONTH.fullmatch(what)):
        kind = "day" if _DAY.fullmatch(what) else "month"
        dated = (p for p in pairs if p.row[_C["ts"]] is not None)
        return kind, [p for p in dated if days.day(p.row[_C["ts"]]).isoformat()[: len(what)] == what]
    if only is None and what == UNDATED:
        return "day", [p for p in pairs if p.row[_C["ts"]] is None]
    for kind, test in (
        ("call", lambda p: p.row[_C["call_key"]] == what),
        ("session", lambda p: p.counted.session_id == what),
        ("model", lambda p: _model(p.row) == what),
        ("project", lambda p: what in project_names(p.counted.project, p.counted.repository)),
    ):
        if only in {None, kind} and (hits := [p for p in pairs if test(p)]):
            return kind, hits
    near = {c.session_id for c, _ in found.owned if len(what) >= 4 and c.session_id.startswith(what)}
    if len(near) > 1:
        raise UsageError(f"{what!r} begins {len(near)} session ids", hint=f"write more of it: {', '.join(sorted(near)[:3])}")
    return "session", [p for p in pairs if p.counted.session_id in near]


def _uses(what: str, grouping: Grouping, found: Calls, uses: Uses) -> list[Call]:
    """Return this tool's (server's, skill's, command's) part of every call that asked for it."""
    picked = []
    for counted, rows in found.owned:
        for row in rows:
            names = names_of(row, uses, grouping)
            times = Counter(names)[what]
            if times:
                amounts = [sum(column) for column in zip(*(p for name, p in parts(row, names) if name == what), strict=True)]
                picked.append(Call(counted, _with(row, amounts), int(names[0] == what), times, len(names)))
            elif not names and what == grouping.none:
                picked.append(Call(counted, row))
    return picked


def _with(row: tuple, amounts: Iterable[int]) -> tuple:
    """Return a row with these tokens and costs, in the order of ``SHARED``; what is unknown stays so."""
    changed = list(row)
    for place, amount in zip(SHARED, amounts, strict=True):
        if changed[place] is not None:
            changed[place] = amount
    return tuple(changed)


def _moment(text: str, zone: str | None) -> int | None:
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=ZoneInfo(zone)) if zone else when.astimezone()
        return int(when.timestamp()) * 1_000_000
    except (ValueError, OverflowError, OSError):
        return None


def _window(what: str, found: Calls, zone: str | None, settings: Settings) -> list[Call]:
    """Return the calls of the five-hour windows that begin at a minute on the clock of a zone; one that names its own is read so."""
    from ctx_pipeline.usage.blocks import blocks

    start = _moment(what.strip(), zone)
    if start is None:
        raise UsageError(f"{what!r} is not the begin of a window", hint="write it as in ctx usage blocks: '2026-04-10 20:00'")
    minute = 60_000_000
    windows = [b for b in blocks(settings=settings, owned=found.owned) if b.start // minute == start // minute]
    return [
        p
        for p in _pairs(found)
        if p.row[_C["ts"]] is not None and any(b.host == p.counted.host and b.first <= p.row[_C["ts"]] <= b.last for b in windows)
    ]
