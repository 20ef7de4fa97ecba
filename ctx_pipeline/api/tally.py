"""Adds up model calls that were read live: the same groups, tokens and nano-dollars as the query over the tables."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.storage.days import day_start, offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctx_pipeline.api.live import Counted

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as in the tables
_QUARTER = 900_000_000
"""Microseconds of the smallest step between two zones: a day of a zone begins on such a border."""

SUMS = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
    "reasoning_tokens",
    "calls",
    "cost_nano",
    "unpriced_calls",
    "recorded_calls",
    "recorded_nano",
    "calculated_nano",
)
_PLACES = tuple(_C[n] for n in ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning"))
MODES = ("auto", "calculate", "display")


class Days:
    """Which day, week or month of a zone a moment falls on, by the offsets that the tables' query uses."""

    def __init__(self, zone: str | None) -> None:
        self._steps = offsets(zone, datetime.now(UTC).year + 2)
        self._known: dict[int, date] = {}

    def day(self, ts: int) -> date:
        """Return the day of a moment in microseconds since 1970."""
        quarter = ts // _QUARTER
        found = self._known.get(quarter)
        if found is None:
            moment = _EPOCH + timedelta(microseconds=quarter * _QUARTER)
            seconds = self._steps[0][1]
            for since, ahead in self._steps:
                if since <= moment:
                    seconds = ahead
            found = self._known[quarter] = (moment + timedelta(seconds=seconds)).date()
        return found


def moment(day: date | None, zone: str | None, *, after: bool = False) -> int | None:
    """Return the first microsecond of a day in a zone (of the day after it)."""
    if day is None:
        return None
    return (day_start(day + timedelta(days=1) if after else day, zone) - _EPOCH) // timedelta(microseconds=1)


def key_of(group: str, zone: str | None) -> tuple[str, Callable[[tuple, Counted], Any]]:
    """Return the name of a group's key and how it is found for a call of a session."""
    days = Days(zone)
    known: dict[date, str] = {}

    def dated(begin: Callable[[date], date]) -> Callable[[tuple, Counted], Any]:
        def key(row: tuple, _: Counted) -> str | None:
            ts = row[4]
            if ts is None:
                return None
            day = days.day(ts)
            text = known.get(day)
            if text is None:
                text = known[day] = begin(day).isoformat()
            return text

        return key

    keys: dict[str, tuple[str, Callable[[tuple, Counted], Any]]] = {
        "day": ("date", dated(lambda d: d)),
        "week": ("date", dated(lambda d: d - timedelta(days=d.weekday()))),
        "month": ("date", dated(lambda d: d.replace(day=1))),
        "session": ("session_id", lambda _, s: s.session_id),
        "project": ("project", lambda _, s: s.project),
        "model": ("", lambda _r, _s: None),
        "thread": ("thread", lambda r, _: "main" if r[_C["thread_id"]] == r[_C["session_id"]] else "subagent"),
    }
    if group not in keys:
        raise UsageError(f"usage cannot be grouped by {group!r}", hint=f"use one of {', '.join(keys)}")
    return keys[group]


def tally(
    owned: Iterable[tuple[Counted, Sequence[tuple]]],
    group: str,
    *,
    since: int | None = None,
    until: int | None = None,
    zone: str | None = None,
    project: str | None = None,
    model: str | None = None,
    cost_mode: str = "auto",
) -> list[dict[str, Any]]:
    """Return one row for each (key, host, model) like :func:`ctx_pipeline.storage.usage_sql.usage_sql`; rows carry their cost already."""
    if cost_mode not in MODES:
        raise UsageError(f"cost mode {cost_mode!r} is not known", hint=f"use one of {', '.join(MODES)}")
    name, key_for = key_of(group, zone)
    sums: dict[tuple, list[int]] = {}
    i, o, w5, w1, r, g = _PLACES
    at_model, at_recorded, at_cost = _C["model"], _C["recorded_cost"], _C["cost"]
    bounded = since is not None or until is not None
    for session, rows in owned:
        if project is not None and project not in {session.project, session.repository}:
            continue
        for row in rows:
            if model is not None and row[at_model] != model:
                continue
            if bounded:
                ts = row[4]
                if ts is None or (since is not None and ts < since) or (until is not None and ts >= until):
                    continue
            key = (key_for(row, session), row[1], row[at_model], session.repository if group == "project" else "")
            total = sums.get(key)
            if total is None:
                total = sums[key] = [0] * len(SUMS)
            recorded, calculated = row[at_recorded], row[at_cost]
            cost = recorded if cost_mode == "display" else calculated if cost_mode == "calculate" or recorded is None else recorded
            total[0] += row[i]
            total[1] += row[o]
            total[2] += row[w5]
            total[3] += row[w1]
            total[4] += row[r]
            total[5] += row[g]
            total[6] += 1
            if cost is None:
                total[8] += 1
            else:
                total[7] += cost
            if recorded is not None:
                total[9] += 1
                total[10] += recorded
            if calculated is not None:
                total[11] += calculated
    return [
        {
            **({name: key[0]} if name else {}),
            "host": key[1],
            "model": key[2],
            **dict(zip(SUMS, total, strict=True)),
            **({"repository": key[3]} if group == "project" else {}),
        }
        for key, total in sorted(sums.items(), key=lambda one: (one[0][0] is not None, one[0]))
    ]


def merged(groups: Iterable[Iterable[dict[str, Any]]], name: str) -> list[dict[str, Any]]:
    """Return the rows of several tallies as one, in order of key, host and model."""
    found: dict[tuple, dict[str, Any]] = {}
    for rows in groups:
        for row in rows:
            key = (row.get(name) if name else None, row["host"], row["model"], row.get("repository", ""))
            have = found.get(key)
            if have is None:
                found[key] = dict(row)
            else:
                for field in SUMS:
                    have[field] = int(have[field] or 0) + int(row[field] or 0)
    return [found[key] for key in sorted(found, key=lambda k: (k[0] is not None, k))]
