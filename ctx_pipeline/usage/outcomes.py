"""What work came to for its money: tokens and cost per commit, per correction and per tool call."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UsageError
from ctx_pipeline.shell.commands import command_text, steps
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import parse_filters, usage
from ctx_pipeline.usage.rollup import moment

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

GROUPS = ("project", "host", "month", "session")
UNITS = ("commits", "corrections", "tool_calls")


@dataclass(slots=True)
class Outcomes:
    """Sums over sessions; a figure per unit divides what the sessions cost of which the unit is known."""

    key: str
    sessions: int = 0
    calls: int = 0
    tokens: int = 0
    cost_nano: int = 0
    unpriced_calls: int = 0
    units: dict[str, int] = field(default_factory=lambda: dict.fromkeys(UNITS, 0))
    known: dict[str, list[int]] = field(default_factory=lambda: {unit: [0, 0, 0] for unit in UNITS})
    """unit -> sessions of which it is known, their tokens and their nano-dollars"""

    def per(self, unit: str) -> tuple[float, float] | None:
        """Return tokens and nano-dollars for each one of a unit; None where there was none."""
        count = self.units[unit]
        _, tokens, nano = self.known[unit]
        return (tokens / count, nano / count) if count else None

    def to_json(self, by: str) -> dict[str, Any]:
        """Return sums, units and figures per unit, in dollars."""
        told: dict[str, Any] = {
            by: self.key,
            "sessions": self.sessions,
            "calls": self.calls,
            "total_tokens": self.tokens,
            "cost_usd": round(self.cost_nano / 1e9, 9),
            "unpriced_calls": self.unpriced_calls,
        }
        for unit in UNITS:
            each = self.per(unit)
            told |= {
                unit: self.units[unit],
                f"{unit}_known_sessions": self.known[unit][0],
                f"tokens_per_{unit.removesuffix('s')}": None if each is None else round(each[0], 1),
                f"usd_per_{unit.removesuffix('s')}": None if each is None else round(each[1] / 1e9, 6),
            }
        return told

    def add(self, counted: dict[str, Any], units: dict[str, int | None]) -> None:
        """Add one session with its usage and what it came to."""
        tokens = counted["tokens"]
        self.sessions += 1
        self.calls += counted["calls"]
        self.tokens += tokens
        self.cost_nano += counted["cost_nano"]
        self.unpriced_calls += counted["unpriced_calls"]
        for unit, count in units.items():
            if count is not None:
                self.units[unit] += count
                for place, amount in enumerate((1, tokens, counted["cost_nano"])):
                    self.known[unit][place] += amount


def outcomes(
    by: str = "project",
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    cost_mode: str | None = None,
    settings: Settings | None = None,
) -> tuple[list[Outcomes], Outcomes]:
    """Return what each project, host, month or session came to for its money, dearest first, and all together.

    ``since`` and ``until`` are days on which sessions began: a session counts whole. Its
    usage is that of ``ctx usage session --stored``, since the rest is known of the tables
    alone. Commits are those that git showed in the
    session's time, and where nobody could look, the ``git commit`` commands that went
    well; corrections are those of the signal ``user_correction_count``. Raises UsageError.
    """
    if by not in GROUPS:
        raise UsageError(f"outcomes by {by!r} are not known", hint=f"use one of {', '.join(GROUPS)}")
    from ctx_pipeline.storage.warehouse.usage_sql import OUTCOMES_SQL

    with reading(settings) as (store, chosen), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        rows = connection.execute(OUTCOMES_SQL).fetchall()
        commanded = _commits(connection)
    filters = parse_filters(chosen, since=since, until=until, timezone=timezone)
    first, last = moment(filters.since, filters.timezone), moment(filters.until, filters.timezone, after=True)
    spent = _spent(chosen, host=host, project=project, cost_mode=cost_mode)
    found: dict[str, Outcomes] = {}
    everything = Outcomes("total")
    for key, session, name, month, began, tool_calls, observed, corrected in rows:
        counted = spent.get((key, session))
        bounded = first is not None or last is not None
        outside = bounded and (began is None or (first is not None and began < first) or (last is not None and began >= last))
        if counted is None or outside:
            continue
        units: dict[str, int | None] = {
            "commits": commanded.get((key, session), 0) if observed is None else int(observed),
            "corrections": None if corrected is None else int(corrected),
            "tool_calls": int(tool_calls),
        }
        group = {"project": name, "host": key, "month": month, "session": session}[by]
        for one in (found.setdefault(group, Outcomes(group)), everything):
            one.add(counted, units)
    return sorted(found.values(), key=lambda one: (-one.cost_nano, one.key)), everything


def _spent(settings: Settings, *, host: str | None, project: str | None, cost_mode: str | None) -> dict[tuple[str, str], dict[str, Any]]:
    """Return (host, session) -> the sums of its usage."""
    return usage("session", settings=settings, host=host, project=project, cost_mode=cost_mode, stored=True).by_session()


def _commits(connection: Any) -> dict[tuple[str, str], int]:
    """Return (host, session) -> how many commands that went well made a commit."""
    from ctx_pipeline.storage.warehouse.usage_sql import COMMITS_SQL

    found: dict[tuple[str, str], int] = {}
    for host, session, argv in connection.execute(COMMITS_SQL).fetchall():
        made = sum(step.subject == "git commit" and "--dry-run" not in step.words for step in steps(command_text(argv or ())))
        found[host, session] = found.get((host, session), 0) + made
    return found
