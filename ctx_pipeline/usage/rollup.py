"""Sums of model calls by a grouping: of calls that were read, and of sums that the tables gave, in one table of rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime, timedelta
from itertools import islice, zip_longest
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.storage.warehouse.days import day_start
from ctx_pipeline.usage import groupings
from ctx_pipeline.usage.repositories import project_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctx_pipeline.usage.groupings import Grouping, Uses
    from ctx_pipeline.usage.homes.live_usage import Counted

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_TS, _MODEL, _HOST = _C["ts"], _C["model"], _C["host"]
_tokens_of = itemgetter(*groupings.TOKENS)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as in the tables

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
"""Every sum of a row; costs in nano-dollars"""
TOKENS = SUMS[:5]
"""Everything sent and received; reasoning is a part of output."""


class Filters(NamedTuple):
    """Which calls are selected: days (both included) of a zone, host, project, model, branch; and which cost counts."""

    since: date | None = None
    until: date | None = None
    timezone: str | None = None
    host: str | None = None
    project: str | None = None
    model: str | None = None
    cost_mode: str = "auto"
    branch: str | None = None
    """on which the session began; empty for sessions without one"""

    def bounds(self) -> tuple[int | None, int | None]:
        """Return the first microsecond of the days, and the first after them; None is open."""
        return moment(self.since, self.timezone), moment(self.until, self.timezone, after=True)

    def keeps(self) -> Callable[[Counted, str, int | None], bool] | None:
        """Return what tells whether a call of (session, model, time in microseconds) is selected; None where all are."""
        host, project, model, branch = self.host, self.project, self.model, self.branch
        if (self.since, self.until, host, project, model, branch) == (None,) * 6:
            return None
        first, last = self.bounds()
        bounded = first is not None or last is not None

        def keep(session: Counted, of_model: str, ts: int | None) -> bool:
            if host is not None and session.host != host:
                return False
            if project is not None and project not in project_names(session.project, session.repository):
                return False
            if (model is not None and of_model != model) or (branch is not None and session.branch != branch):
                return False
            return not bounded or (ts is not None and (first is None or ts >= first) and (last is None or ts < last))

        return keep


class Call(NamedTuple):
    """One model call that counts, with its session; of a call that asked for several things, the share of one of them."""

    counted: Counted
    row: tuple
    """as in ``model_calls``; a share holds its part of tokens and cost"""
    calls: int = 1
    """what of the call is counted here: of a shared one 1 for the first use that it asked for, else 0"""
    uses: int = 0
    """how often the call asked for it, of ``of`` uses in all; 0 where calls are not shared out"""
    of: int = 0


class StoredSum(NamedTuple):
    """Sums of the tables' calls that fall into one quarter of an hour, or any time where it does not matter."""

    session: Counted
    model: str
    ts: int | None
    main: bool
    sums: Sequence[int]


def moment(day: date | None, zone: str | None, *, after: bool = False) -> int | None:
    """Return the first microsecond of a day in a zone (of the day after it)."""
    if day is None:
        return None
    return (day_start(day + timedelta(days=1) if after else day, zone) - _EPOCH) // timedelta(microseconds=1)


def selected(owned: Iterable[tuple[Counted, Sequence[tuple]]], filters: Filters) -> Iterator[tuple[Counted, Sequence[tuple]]]:
    """Yield sessions with their calls that the filters keep."""
    keep = filters.keeps()
    if keep is None:
        yield from owned
        return
    for session, rows in owned:
        yield session, [row for row in rows if keep(session, row[_MODEL], row[_TS])]


class Rollup:
    """Rows by (key, host, model), and by repository where the grouping names it."""

    def __init__(self, grouping: Grouping, filters: Filters, *, uses: Uses | None = None) -> None:
        self._grouping, self._filters, self._uses = grouping, filters, {} if uses is None else uses
        self._key = grouping.key(filters.timezone)
        self._sums: dict[tuple, list[Any]] = {}
        self._parts: defaultdict[tuple, list[Sequence[Any]]] = defaultdict(list)
        self._more: tuple[str, ...] = ("uses",) if grouping.names is not None else ()

    def add_sums(self, found: Iterable[StoredSum]) -> None:
        """Add sums of the tables."""
        keep, key, parts = self._filters.keeps(), self._key, self._parts
        with_repository = self._grouping.with_repository
        for session, model, ts, main, sums in found:
            if keep is None or keep(session, model, ts):
                parts[key(ts, session, main), session.host, model, session.repository if with_repository else ""].append(sums)

    def of_session(
        self, session: Counted, rows: Sequence[tuple], extra: Callable[[tuple], Sequence[float]] | None = None
    ) -> dict[tuple, list[Any]]:
        """Return the sums of a session's calls by row; they are not added."""
        kept, self._sums = self._sums, {}
        try:
            self.add_calls([(session, rows)], extra)
            return self._sums
        finally:
            self._sums = kept

    @property
    def grouping(self) -> Grouping:
        """What the rows are grouped by."""
        return self._grouping

    @property
    def filters(self) -> Filters:
        """Which calls are selected."""
        return self._filters

    def add_shares(self, host: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows of (model, name, sums and uses) of a host's calls that were shared out and selected already."""
        for model, name, *sums in rows:
            self._parts[name, host, model, ""].append(sums)

    def add_calls(self, owned: Iterable[tuple[Counted, Sequence[tuple]]], extra: Callable[[tuple], Sequence[float]] | None = None) -> None:
        """Add calls that count, their rows with their cost; ``extra`` gives the amounts of further columns."""
        mode, grouping = self._filters.cost_mode, self._grouping
        i, o, w5, w1, r, g = groupings.TOKENS
        at_recorded, at_cost, at_thread, at_session = _C["recorded_cost"], _C["cost"], _C["thread_id"], _C["session_id"]
        shared, threaded = grouping.names is not None, grouping.of_thread is not None or grouping.moment
        for session, rows in selected(owned, self._filters):
            for row in rows:
                recorded, calculated = row[at_recorded], row[at_cost]
                cost = cost_of(mode, recorded, calculated)
                if shared:
                    self._add_shared(session, row, cost)
                    continue
                total = self._row(self._key(row[_TS], session, threaded and row[at_thread] == row[at_session]), session, row[_MODEL])
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
                if extra is not None:
                    for place, amount in enumerate(extra(row), len(SUMS)):
                        total[place] += amount

    def _add_shared(self, session: Counted, row: tuple, cost: int | None) -> None:
        names = groupings.names_of(row, self._uses, self._grouping)
        recorded, calculated = row[_C["recorded_cost"]], row[_C["cost"]]
        amounts = [*_tokens_of(row), 1, cost or 0, int(cost is None), int(recorded is not None), recorded or 0, calculated or 0]
        first = each = amounts
        if len(names) > 1:
            first, each = ([groupings.share_of(amount, len(names), number) for amount in amounts] for number in (0, 1))
        for number, name in enumerate(names or [self._grouping.none]):
            total = self._row(name, session, row[_MODEL])
            total[: len(SUMS)] = map(add, total, each if number else first)
            total[len(SUMS)] += bool(names)

    def with_extra(self, *names: str) -> Rollup:
        """Return this rollup with further columns, one for each amount that ``extra`` gives."""
        self._more += names
        return self

    def _row(self, key: Any, session: Counted, model: str) -> list[Any]:
        place = (key, session.host, model, session.repository if self._grouping.with_repository else "")
        found = self._sums.get(place)
        if found is None:
            found = self._sums[place] = [0] * (len(SUMS) + len(self._more))
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows: by key (unknown first), host and model, what is shared out by cost; further columns last, rounded."""
        name = self._grouping.column
        order = {key: place for place, key in enumerate(self._grouping.order)}
        # all parts of a row at once: part by part they took four times as long
        sums, none = dict(self._sums), [0] * (len(SUMS) + len(self._more))
        for place, parts in self._parts.items():
            if len(parts) == 1 and len(parts[0]) == len(none) and place not in sums:
                sums[place] = list(parts[0])
                continue
            every = [sums[place], *parts] if place in sums else parts
            alike = all(len(part) == len(none) for part in every)
            columns = zip(*every, strict=True) if alike else islice(zip_longest(none, *every, fillvalue=0), len(none))
            sums[place] = list(map(sum, columns))
        ordered = sorted(sums.items(), key=lambda one: (one[0][0] is not None, order.get(one[0][0], 0), one[0]))
        if self._grouping.names is not None:
            ordered.sort(key=lambda one: -one[1][SUMS.index("cost_nano")])
        return [
            {
                **({name: key[0]} if name != "model" else {name: key[2]}),
                "host": key[1],
                "model": key[2],
                **dict(zip((*SUMS, *self._more), map(round, sums), strict=True)),
                **({"repository": key[3]} if self._grouping.with_repository else {}),
            }
            for key, sums in ordered
        ]
