"""How long agents worked for the person on each day: the turns of main threads, from a prompt to the last thing done for it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.facts.pauses import Stretch, read, seconds, without
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import parse_filters
from ctx_pipeline.usage.groupings import Days
from ctx_pipeline.usage.rollup import moment

if TYPE_CHECKING:
    from datetime import date

    from ctx_pipeline.settings import Settings

_TURNS = (
    "SELECT t.host, t.session_id, epoch_us(t.began), epoch_us(t.finished), t.pauses FROM turns t"
    " JOIN sessions s ON s.host = t.host AND s.session_id = t.session_id"
    " WHERE t.thread_id = t.session_id AND t.finished > t.began"
    " AND (? IS NULL OR t.host = ?) AND (? IS NULL OR ? IN (s.project, s.repository))"
    " AND (? IS NULL OR t.began >= make_timestamp(?)) AND (? IS NULL OR t.began < make_timestamp(?)) ORDER BY 3, 4"
)


@dataclass(slots=True)
class WorkedDay:
    """A day on which a turn began."""

    day: date
    seconds: float = 0.0
    """in which at least one turn went on"""
    turn_seconds: float = 0.0
    """of all turns: more where several went on at once"""
    first: int = 0
    """when the first turn began, in microseconds since 1970"""
    last: int = 0
    """when the last one ended, on this day or a later one"""
    turns: int = 0
    sessions: set[tuple[str, str]] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values; times are UTC."""
        first, last = (datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="seconds") for at in (self.first, self.last))
        told = {"day": self.day.isoformat(), "seconds": round(self.seconds, 3), "turn_seconds": round(self.turn_seconds, 3)}
        return {**told, "first": first, "last": last, "turns": self.turns, "sessions": len(self.sessions)}


def worked_days(
    host: str | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    project: str | None = None,
    settings: Settings | None = None,
) -> list[WorkedDay]:
    """Return the days with a turn, the latest first; a turn belongs to the day on which it began, copies of sessions are left out.

    Raises UnknownName for a host that is none, UsageError for a day that is none.
    """
    with reading(settings) as (store, chosen):
        asked = parse_filters(chosen, since=since, until=until, timezone=timezone)
        bounds = (moment(asked.since, asked.timezone), moment(asked.until, asked.timezone, after=True))
        key = discovery.host(host).key if host else None
        values = [value for value in (key, project, *bounds) for _ in range(2)]
        with closing(store.lake.connect()) as connection:
            store.lake.views(connection, ("turns", "sessions"))
            rows = connection.execute(_TURNS, values).fetchall()
        copied = store.ledger.copied_sessions()
    days = Days(asked.timezone)
    found: dict[date, WorkedDay] = {}
    stretches: dict[date, list[Stretch]] = {}
    for of_host, session, began, finished, idle in rows:
        if (of_host, session) in copied:
            continue
        day = days.day(began)
        one = found.get(day)
        if one is None:
            one = found[day] = WorkedDay(day, first=began, last=began)
        spent = without((began, finished), read(idle))
        stretches.setdefault(day, []).extend(spent)
        one.turn_seconds += sum(end - begin for begin, end in spent) / 1e6
        one.last = max(one.last, finished)
        one.turns += 1
        one.sessions.add((of_host, session))
    for day, one in found.items():
        one.seconds = seconds(stretches[day])
    return sorted(found.values(), key=lambda one: one.day, reverse=True)
