"""Where the time of sessions went: the model, tools, and waits for the person, with what took longest."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import runs_by_call
from ctx_pipeline.facts.pauses import PAUSE_MINUTES, read, seconds, waited
from ctx_pipeline.facts.turns import turn_rows
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.host_records import KEPT
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import parse_filters
from ctx_pipeline.usage.groupings import Days
from ctx_pipeline.usage.session_figures import QUARTER, Figure, quarter_of
from ctx_pipeline.usage.usage_figures import selected

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from ctx_pipeline.facts.pauses import Stretch
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings

PARTS = {
    "model": "the model answered",
    "tools": "tools ran",
    "approval": "it waited for you to allow or answer a call",
    "still": f"nothing came for over {PAUSE_MINUTES} min in a turn: no answer, or sleep",
    "prompt": f"it waited for your next prompt, up to {PAUSE_MINUTES} min each",
}
"""Part of the time -> what happened in it; a moment counts for one part alone."""
_MOST = 10
_LONGEST = 160
_COUNTS = ("turns", "unknown", "away")
_LISTS = ("ran", "waited", "stood")
_PAUSE = PAUSE_MINUTES * 60 * 1_000_000


class Long(NamedTuple):
    """A call that took long or waited long for the person, or a time in which nothing came."""

    seconds: float
    what: str
    """the command on one line, else the tool with its file; "no open call" where nothing came and none was open"""
    host: str
    session_id: str
    event: str
    """event of the call; empty without one"""


@dataclass(slots=True)
class Time:
    """Where time went, of one session or of several: where sessions went on at once, each counts."""

    seconds: Counter[str] = field(default_factory=Counter)
    """one of :data:`PARTS` -> seconds"""
    turns: int = 0
    unknown: int = 0
    """turns more, of whose work only the time of a copy is recorded"""
    away: list[float] = field(default_factory=list)
    """seconds between turns that are left out, of each stretch above half an hour"""

    def add(self, value: dict[str, Any]) -> None:
        """Add what is kept of some quarters of an hour of a session."""
        for part in PARTS:
            self.seconds[part] += value[part] / 1e6
        self.turns += value["turns"]
        self.unknown += value["unknown"]
        self.away += [one / 1e6 for one in value["away"]]

    @property
    def total(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values())

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        parts = {f"{part}_seconds": round(self.seconds[part], 1) for part in PARTS}
        counts = {"turns": self.turns, "unknown_turns": self.unknown, "left_out": len(self.away)}
        return {**parts, **counts, "left_out_seconds": round(sum(self.away), 1)}


@dataclass(slots=True)
class Spent:
    """Where the time of some days went."""

    whole: Time = field(default_factory=Time)
    sessions: dict[tuple[str, str], Time] = field(default_factory=dict)
    """(host, session) -> its own, the longest first"""
    titles: dict[tuple[str, str], str] = field(default_factory=dict)
    days: dict[date, Time] = field(default_factory=dict)
    """of turns that began on it, the latest first; a break is of the day on which it began"""
    ran: list[Long] = field(default_factory=list)
    """calls that ran longest"""
    waited: list[Long] = field(default_factory=list)
    """calls that waited for the person longest, as far as the time counts as such a wait"""
    stood: list[Long] = field(default_factory=list)
    """the longest times in which nothing came, with the call that was open"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        rows = [
            {"host": host, "session_id": name, "title": self.titles.get((host, name)), **one.to_json()}
            for (host, name), one in self.sessions.items()
        ]
        lists = {"longest_runs": self.ran, "longest_waits": self.waited, "longest_still": self.stood}
        longest = {name: [one._asdict() for one in calls] for name, calls in lists.items()}
        days = [{"day": day.isoformat(), **one.to_json()} for day, one in self.days.items()]
        return {"time": self.whole.to_json(), "sessions": rows, "days": days, **longest}


def time_spent(
    host: str | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    project: str | None = None,
    settings: Settings | None = None,
) -> Spent:
    """Return where the time of main threads went; a turn, and the wait behind it, belong to the day on which the turn began."""
    found = Spent()
    longest: dict[str, list[Long]] = {name: [] for name in _LISTS}
    with reading(settings) as (store, chosen):
        filters = parse_filters(chosen, host=host, project=project, since=since, until=until, timezone=timezone)
        on = Days(filters.timezone)
        for key, values in selected(store, chosen, TIME, filters):
            one = Time()
            for value in values:
                one.add(value)
                found.whole.add(value)
                for quarter, of_quarter in value["quarters"]:
                    found.days.setdefault(on.day(quarter * QUARTER), Time()).add(of_quarter)
                for name, calls in longest.items():
                    calls += [Long(took / 1e6, what, *key, event) for took, what, event in value[name]]
            if one.turns or one.unknown:
                found.sessions[key] = one
        found.titles = {(r.host, r.session_id): str(r.rows.get("title") or "") for r in store.ledger.sessions(host=filters.host)}
    found.days = dict(sorted(found.days.items(), reverse=True))
    found.sessions = dict(sorted(found.sessions.items(), key=lambda pair: (-pair[1].total, pair[0])))
    found.ran, found.waited, found.stood = (heapq.nlargest(_MOST, longest[name]) for name in _LISTS)
    return found


def _spent(view: SessionView, _settings: Settings) -> dict[int | None, Any]:
    """Return where the time of a session's main thread went, by the quarter of an hour in which each turn began; microseconds."""
    found: dict[int | None, dict[str, Any]] = defaultdict(_nothing)
    turns: list[tuple[int, int, list[Stretch]]] = []
    unknown: set[int] = set()
    for turn in turn_rows(view):
        began, finished = micros(turn.began), micros(turn.finished)
        if turn.thread_id == view.session_id and began is not None:
            turns.append((began, max(began, finished or began), read(turn.pauses)))
            unknown.update((began,) if finished is None else ())
    turns.sort(key=lambda turn: turn[:2])
    calls = _calls(view)
    begins, ends = [call.open[0] for call in calls], list(accumulate((call.open[1] for call in calls), max))
    for place, (began, finished, idle) in enumerate(turns):
        value = found[quarter_of(began)]
        if began in unknown:
            value["unknown"] += 1
            continue
        end = min(finished, turns[place + 1][0]) if place + 1 < len(turns) else finished
        # a session of thousands of turns would look at every call for each of them
        _add_turn(value, (began, end), idle, calls[bisect_right(ends, began) : bisect_left(begins, end)])
    for (began, finished, _), (following, *_) in pairwise(turns):
        if began in unknown:
            continue
        gap = following - finished
        value = found[quarter_of(began)]
        if gap > _PAUSE:
            value["away"].append(gap)
        else:
            value["prompt"] += max(0, gap)
    for quarter, value in found.items():
        value["quarters"] = [[quarter, {name: value[name] for name in (*PARTS, *_COUNTS)}]]
    return dict(found)


class _Call(NamedTuple):
    open: Stretch
    ran: Stretch
    waited: int
    """microseconds before it ran"""
    took: int
    """microseconds that it ran, with the calls that polled its command"""
    what: str
    """empty for a poll, which is part of another call's command"""
    event: str


def _calls(view: SessionView) -> list[_Call]:
    """Return the answered calls of the main thread, in order of time."""
    runs, found = runs_by_call(view), []
    for call in view.tool_calls:
        started, ended = micros(call.started), micros(call.ended)
        if call.thread_id != view.session_id or started is None or ended is None or ended < started:
            continue
        run, answer = runs.get(call.call_event), view.by_event.get(call.result_event)
        refused = (run is not None and run.result == "refused") or (answer is not None and answer.subtype in KEPT)
        wait = min(ended - started, waited(view, call, refused=refused))
        last = max(ended, (micros(run.ended) or ended) if run is not None and not run.background else ended)
        what = " ".join([call.tool, *call.paths[:1]]) if call.action != "shell" else ""
        if run is not None:
            what = " ".join(run.command.split()) if run.call_event == call.call_event else ""
        ran = (started + wait, ended)
        found.append(_Call((started, ended), ran, wait, last - ran[0], truncate(what, _LONGEST), call.call_event))
    return sorted(found)


def _add_turn(value: dict[str, Any], turn: Stretch, idle: list[Stretch], calls: list[_Call]) -> None:
    inside = [call for call in calls if call.open[0] < turn[1] and call.open[1] > turn[0]]
    still = _micros([turn], idle)

    def part(stretches: Iterable[Stretch]) -> int:
        return _micros([turn], [*stretches, *idle]) - still

    tools, opened = part(call.ran for call in inside), part(call.open for call in inside)
    value["turns"] += 1
    value["still"] += still
    value["tools"] += tools
    value["approval"] += opened - tools
    value["model"] += turn[1] - turn[0] - still - opened
    own = [call for call in inside if call.what and turn[0] <= call.open[0]]
    value["ran"] = _longest([*value["ran"], *([call.took, call.what, call.event] for call in own if call.took >= 1_000_000)])
    rans = [call.ran for call in inside]
    waits = [(part([(call.open[0], call.ran[0]), *rans]) - tools, call.what, call.event) for call in own if call.waited >= 1_000_000]
    value["waited"] = _longest([*value["waited"], *([*wait] for wait in waits if wait[0] >= 1_000_000)])
    stood = [(_micros([turn], [stretch]), *_open_in(stretch, inside)) for stretch in idle]
    value["stood"] = _longest([*value["stood"], *([*time] for time in stood if time[0] >= 1_000_000)])


def _open_in(stretch: Stretch, calls: list[_Call]) -> tuple[str, str]:
    """Return what was open for most of a time, and its event."""
    most = max((c for c in calls if c.what), key=lambda call: _micros([stretch], [call.open]), default=None)
    return (most.what, most.event) if most is not None and _micros([stretch], [most.open]) else ("no open call", "")


def _micros(within: list[Stretch], stretches: Iterable[Stretch]) -> int:
    """Return the microseconds of one stretch that lie in at least one of others."""
    [(begin, end)] = within
    cut = [(max(begin, first), min(end, last)) for first, last in stretches]
    return round(seconds((first, last) for first, last in cut if last > first) * 1e6)


def _longest(found: list[Any]) -> list[Any]:
    return sorted(found, key=lambda one: (-one[0], one[2]))[:_MOST]


def _nothing() -> dict[str, Any]:
    return {**dict.fromkeys(PARTS, 0), "turns": 0, "unknown": 0, "away": [], "quarters": [], **{name: [] for name in _LISTS}}


def _spent_in_all(values: Iterable[Any]) -> dict[str, Any]:
    total = _nothing()
    for value in values:
        for name, more in value.items():
            total[name] += more
    return {**total, **{name: _longest(total[name]) for name in _LISTS}}


TIME = Figure(
    "time",
    4,
    _spent,
    _spent_in_all,
    {
        "turns": ("thread_id", "began", "finished", "pauses"),
        "events": ("event_id", "subtype", "text"),
        "tool_calls": ("thread_id", "tool", "action", "paths", "started", "ended", "call_event", "result_event"),
        "command_runs": ("call_event", "command", "polls", "background", "result", "ended"),
    },
    ("tool_call", "tool_result"),
)
"""What is kept of each session: where the time of its main thread went."""
