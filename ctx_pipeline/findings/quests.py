"""Quests: three goals a day, each a habit of the person's own sessions that today's are to be without; verified by their readings."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import UsageError
from ctx_pipeline.findings.evidence import history
from ctx_pipeline.findings.rules import HABITS, showing
from ctx_pipeline.usage.engine import parse_filters
from ctx_pipeline.usage.groupings import Days

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.findings.rules import Habit
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

A_DAY = 3
"""Quests of a day."""
BEFORE = 30
"""Days before one from whose sessions its quests are drawn."""
BACK = 7
"""Days back that are verified where nobody asked on them."""

POINTS, ALL_OF_THEM, FREEZE_COSTS = 100, 50, 200
RANKS = ((1_000, "expert"), (300, "regular"), (0, "beginner"))
"""points from which on -> rank"""

DAY, FREEZE = "quest_day", "quest_freeze"
"""Facts of the journal: what was done on a day; that a day without a quest done was bought off."""

OPEN, DONE, MISSED = "open", "done", "missed"


class Quest(NamedTuple):
    """One goal of a day, and how it stands."""

    signal: str
    """the habit's signal, which is the quest's name too"""
    text: str
    advice: str
    before: int
    """sessions that showed the habit in the days before"""
    state: str
    """done, missed, or open while no session of the day was measured"""
    measured: int
    """sessions of the day with a reading"""
    sessions: tuple[tuple[str, str], ...]
    """(host, session id) of those that show the habit"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**self._asdict(), "sessions": [list(one) for one in self.sessions]}


class QuestScore(NamedTuple):
    """What verified days come to."""

    points: int
    rank: str
    streak: int
    """days with sessions in a row, up to the last one verified, on which a quest was done; a freeze fills a gap"""
    freezes: int
    """bought and not used"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return self._asdict()


def today(settings: Settings, *, now: int) -> date:
    """Return the day of a moment (microseconds since 1970) in the person's zone."""
    return Days(settings.timezone).day(now)


def quests(settings: Settings, day: date) -> list[Quest]:
    """Return the quests of a day: the habits that most sessions of the thirty days before it showed; none where they showed none."""
    drawn = _drawn(settings, day)
    read = history(settings, parse_filters(settings, since=day.isoformat(), until=day.isoformat()), _signals(h for h, _ in drawn))
    found = []
    for habit, before in drawn:
        shown = sorted(showing(habit, read))
        measured = len(read.readings.get(habit.signal, {}))
        state = OPEN if not measured else MISSED if shown else DONE
        found.append(Quest(habit.signal, habit.goal, habit.advice, before, state, measured, tuple(shown)))
    return found


def _drawn(settings: Settings, day: date) -> list[tuple[Habit, int]]:
    first, last = day - timedelta(days=BEFORE), day - timedelta(days=1)
    read = history(settings, parse_filters(settings, since=first.isoformat(), until=last.isoformat()), _signals(HABITS))
    counted = [(habit, len(showing(habit, read))) for habit in HABITS]
    return sorted((pair for pair in counted if pair[1]), key=lambda pair: -pair[1])[:A_DAY]


def _signals(habits: Iterable[Habit]) -> set[str]:
    return {name for habit in habits for name in (habit.signal, habit.needs[0]) if name}


def verify(store: Store, settings: Settings, *, now: int) -> list[tuple[date, list[Quest]]]:
    """Write down the past days that nobody verified yet, at most seven, and return them and today; today counts when it is over.

    A day without a measured session is not written down: it breaks no streak.
    """
    here = today(settings, now=now)
    known = {str(fact.payload["day"]) for fact in store.journal.facts(DAY)}
    told = []
    for back in range(BACK, 0, -1):
        day = here - timedelta(days=back)
        if day.isoformat() in known:
            continue
        found = quests(settings, day)
        if any(quest.measured for quest in found):
            done = [quest.signal for quest in found if quest.state == DONE]
            store.journal.append(DAY, {"day": day.isoformat(), "of": [quest.signal for quest in found], "done": done})
            told.append((day, found))
    return [*told, (here, quests(settings, here))]


def score(store: Store) -> QuestScore:
    """Return points, rank, streak and unused freezes, from what was verified and bought."""
    days = sorted(((str(f.payload["day"]), f.payload) for f in store.journal.facts(DAY)), key=lambda pair: pair[0])
    bought = [str(fact.payload["day"]) for fact in store.journal.facts(FREEZE)]
    points = sum(POINTS * len(told["done"]) + ALL_OF_THEM * (len(told["done"]) == A_DAY) for _, told in days) - FREEZE_COSTS * len(bought)
    streak, unused = 0, list(bought)
    for day, told in days:
        usable = [one for one in unused if one <= day]
        if told["done"]:
            streak += 1
        elif usable and streak:
            unused.remove(usable[0])
        else:
            streak = 0
    return QuestScore(points, next(rank for least, rank in RANKS if points >= least or not least), streak, len(unused))


def buy_freeze(store: Store, settings: Settings, *, now: int) -> QuestScore:
    """Buy that one missed day does not end a streak, from today on; raises UsageError where the points do not reach."""
    has = score(store).points
    if has < FREEZE_COSTS:
        raise UsageError(f"a freeze costs {FREEZE_COSTS} points, and there are {has}", hint="ctx quest verify")
    store.journal.append(FREEZE, {"day": today(settings, now=now).isoformat()}, actor="person")
    return score(store)
