"""Habits that cost time or money, told from the readings of signals, with the sessions that show them."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.api.reader import reading
from ctx_pipeline.api.work import utc
from ctx_pipeline.usage.engine import chosen_filters
from ctx_pipeline.usage.rollup import moment

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

_LEAST_SESSIONS = 2
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Habit:
    """A pattern to look for: a reading that is too high (or too low), how it is said, and what helps."""

    signal: str
    at_least: float
    said: str
    """with ``{sum}`` for the readings of the sessions that show it, added up"""
    advice: str
    needs: tuple[str, float] = ("", 0.0)
    """a second signal and the least that it must read in the same session"""


HABITS = (
    Habit(
        "file_reread_without_reason_count",
        3,
        "files were read again {sum:,.0f} times though they stood in the window unchanged",
        "name the outline of large files in the project's instructions, or begin a fresh session for the next part",
    ),
    Habit(
        "cache_rebuild_tokens",
        100_000,
        "{sum:,.0f} tokens that the cache had held were paid for again",
        "answer within the cache's five minutes, or end a session before a break; do not change tools or models in the middle",
    ),
    Habit(
        "failed_command_ratio",
        0.3,
        "three of ten commands and more failed",
        "write down how the project is built and tested in CLAUDE.md or AGENTS.md",
        needs=("failed_command_count", 5),
    ),
    Habit(
        "trajectory_repeated_action_without_progress",
        3,
        "a call was repeated unchanged {sum:,.0f} times and told nothing new",
        "stop the agent at the second repetition and say what is different",
    ),
    Habit(
        "trajectory_premature_finish_without_validation",
        1,
        "the last change of a file was never checked",
        "say which command checks a change, in the project's instructions",
    ),
    Habit("user_correction_count", 2, "the person corrected the agent {sum:,.0f} times", "accept what was learnt from it: ctx memory list"),
    Habit(
        "user_message_count",
        35,
        "a session went on over {sum:,.0f} messages in all, each with the whole window again",
        "one task a session",
    ),
    Habit(
        "context_peak_share",
        0.7,
        "the window was filled to seven tenths and more",
        "split the task, or let subagents read",
    ),
    Habit(
        "compaction_recovery_tokens",
        10_000,
        "{sum:,.0f} tokens were fetched again after a compaction had dropped them",
        "compact by hand after a finished step, not in the middle of one",
    ),
    Habit(
        "code_search_count",
        25,
        "{sum:,.0f} searches of the project's files",
        "name where things are in CLAUDE.md or AGENTS.md",
    ),
    Habit("interruption_count", 2, "the agent was stopped {sum:,.0f} times", "let it tell its plan before it begins"),
    Habit("command_not_found_count", 2, "{sum:,.0f} commands did not exist", "say which tools this machine has"),
)


class Shown(NamedTuple):
    """A session that shows a habit."""

    host: str
    session_id: str
    title: str
    project: str
    value: float


class Told(NamedTuple):
    """A habit that sessions show."""

    signal: str
    text: str
    advice: str
    sessions: int
    of: int
    """sessions of which the reading is known"""
    dollars: float | None
    """what the readings say that it cost; None where they do not say"""
    examples: list[Shown]
    command: str

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**self._asdict(), "examples": [shown._asdict() for shown in self.examples]}


def habits(
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    settings: Settings | None = None,
) -> list[Told]:
    """Return the habits that two sessions or more show, the commonest first.

    Sessions count that lie in the days, in part at least. A habit is a threshold on one
    signal: ``ctx signal list NAME`` says what it measures. Raises StoreError when nothing
    was captured yet.
    """
    from ctx_pipeline.storage.reading_sql import READINGS_SQL

    names = sorted({h.signal for h in HABITS} | {h.needs[0] for h in HABITS if h.needs[0]})
    with reading(settings) as (store, chosen), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        filters = chosen_filters(chosen, since=since, until=until, timezone=timezone, host=host, project=project)
        first, last = utc(moment(filters.since, filters.timezone)), utc(moment(filters.until, filters.timezone, after=True))
        asked = [value for value in (host, project, first, last) for _ in range(2)]
        rows = connection.execute(READINGS_SQL, [names, *asked]).fetchall()
    known: dict[str, dict[tuple[str, str], tuple[Any, ...]]] = {}
    for key, session, signal, value, metadata, title, name, _ in rows:
        known.setdefault(signal, {})[key, session] = (value, metadata, title or session, name or "")
    found = [told for habit in HABITS if (told := _told(habit, known)) is not None]
    return sorted(found, key=lambda one: (-(one.sessions / one.of), one.signal))


def _told(habit: Habit, known: dict[str, dict[tuple[str, str], tuple[Any, ...]]]) -> Told | None:
    measured = known.get(habit.signal, {})
    second, least = habit.needs
    showing = {
        key: row
        for key, row in measured.items()
        if row[0] >= habit.at_least and (not second or known.get(second, {}).get(key, (0.0,))[0] >= least)
    }
    if len(showing) < _LEAST_SESSIONS:
        return None
    strongest = sorted(showing.items(), key=lambda one: (-one[1][0], one[0]))
    examples = [Shown(*key, str(row[2]), str(row[3]), float(row[0])) for key, row in strongest[:_SHOWN]]
    costs = [dollars for row in showing.values() if (dollars := _dollars(row[1])) is not None]
    text = habit.said.format(sum=sum(row[0] for row in showing.values()))
    command = f"ctx signal show {examples[0].host} {examples[0].session_id}"
    return Told(habit.signal, text, habit.advice, len(showing), len(measured), round(sum(costs), 4) if costs else None, examples, command)


def _dollars(metadata: str | None) -> float | None:
    try:
        said = json.loads(metadata or "{}").get("dollars")
    except (ValueError, AttributeError):
        return None
    return float(said) if isinstance(said, int | float) else None
