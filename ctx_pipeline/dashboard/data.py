"""What the page is made from: plain records, already counted, already redacted."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.display import session_title
from ctx_pipeline.storage.warehouse.days import local_day, offset_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from ctx_pipeline.model.readings import Finding

PAGE_VERSION = 25
"""Rises when what a chunk holds or how it is drawn changes; every chunk is then written anew."""


COLOURS = 6
"""Colors of agents; further ones share the last."""


class HostLine(NamedTuple):
    """A host as the page names it; ``number`` is its place, agents of this history first."""

    key: str
    title: str
    number: int

    @property
    def tone(self) -> str:
        """Class of its color."""
        return f"c{min(self.number, COLOURS - 1)}"


class LimitLine(NamedTuple):
    """How much of a limit of a host's plan was used at a time, as the host recorded it; it counts anew from ``resets`` on."""

    host: str
    percent: float
    minutes: int
    """that it covers; 0 where that is not told"""
    at: datetime
    resets: datetime


class Usage(NamedTuple):
    """Tokens by kind, calls and nano-dollars; only calls that own their usage are in it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    cache_read_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0
    cost_nano: int = 0
    unpriced_calls: int = 0
    recorded_calls: int = 0

    @property
    def tokens(self) -> int:
        """All tokens; reasoning is a part of output and not added again."""
        return self.input_tokens + self.output_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens + self.cache_read_tokens

    @property
    def cost(self) -> int | None:
        """Nano-dollars; None where no call has a price."""
        return known_cost(self.cost_nano, self.calls, self.unpriced_calls)

    @property
    def cache_writes(self) -> int:
        """Tokens written to a cache of either lifetime."""
        return self.cache_write_5m_tokens + self.cache_write_1h_tokens

    def plus(self, other: Usage) -> Usage:
        """Return the sum of two usages."""
        return Usage(*(a + b for a, b in zip(self, other, strict=True)))


class DayLine(NamedTuple):
    """Usage of one host on one day of the page's time zone."""

    day: date
    host: str
    usage: Usage


class UsageLine(NamedTuple):
    """Usage of one model in one project of one host on one day of the page's time zone; the day is None for calls without a time."""

    day: date | None
    host: str
    project: str
    model: str | None
    usage: Usage


class ChargeLine(NamedTuple):
    """What one host billed in one unit of its own: neither tokens nor dollars, and in no sum of either."""

    host: str
    label: str
    amount: float
    sessions: int


class ModelLine(NamedTuple):
    """Usage of one model of one host."""

    host: str
    model: str
    usage: Usage


class ProjectLine(NamedTuple):
    """One project: its usage, how many sessions, and its last day."""

    project: str
    sessions: int
    tool_calls: int
    failed_tool_calls: int
    last_ts: datetime | None
    usage: Usage


class SessionLine(NamedTuple):
    """One session with its usage; times are naive UTC."""

    host: str
    session_id: str
    title: str | None
    title_source: str
    cwd: str | None
    project: str
    branch: str | None
    version: str | None
    models: tuple[str, ...]
    first_ts: datetime | None
    last_ts: datetime | None
    parent_session: str | None
    status: str
    threads: int
    events: int
    prompts: int
    tool_calls: int
    failed_tool_calls: int
    unknown: int
    quarantined: int
    lines: int
    bytes: int
    compactions: int
    commands: int
    failed_commands: int
    peak_context_tokens: int
    stamp: str
    """Text that differs when anything differs that its drill-down is made from."""
    usage: Usage
    content: str = ""
    """Text that differs when any of its events differs."""
    copy_of: str = ""
    """id of the session for which all of its model calls count; empty where it is no copy"""
    repeated_tool_calls: int = 0
    """those of its tool calls that count for the session that it is a copy of in part"""
    repeated_failed: int = 0
    """those of them that failed"""

    @property
    def key(self) -> str:
        """Name of the session in links of the page: a hash that stays while the session grows."""
        return digest(self.host, self.session_id, size=16)

    @property
    def label(self) -> str:
        """Title to show."""
        return session_title(self.title)

    def chunk(self, limits: Sequence[int]) -> str:
        """Return the name of the file that holds its drill-down within limits: a hash, never a word from a transcript."""
        return digest(PAGE_VERSION, self.host, self.session_id, self.stamp, list(limits), size=24)


class SignalLine(NamedTuple):
    """How one signal reads over all sessions that were measured."""

    signal: str
    family: str
    group: str
    kind: str
    unit: str
    better: str
    describe: str
    sessions: int
    measured: int
    mean: float | None
    median: float | None
    p90: float | None
    lowest: float | None
    highest: float | None
    positive: int
    labels: tuple[tuple[str, int], ...] = ()


class LearnedLine(NamedTuple):
    """What the drill-downs say of a memory that rests on sessions."""

    memory_id: str
    kind: str
    text: str
    status: str


class MemoryLine(NamedTuple):
    """One memory with what it rests on."""

    memory_id: str
    kind: str
    text: str
    when_to_use: str | None
    status: str
    flags: tuple[str, ...]
    scope: str
    repository: str | None
    confidence: float
    priority: int
    support: int
    uses: int
    sessions: tuple[str, ...]
    """host/session_id"""
    source: str = "mined"
    methods: tuple[str, ...] = ()
    risk: str = "low"
    utility: float = 0.5
    links: tuple[str, ...] = ()
    superseded_by: str | None = None
    first_ts: datetime | None = None
    last_ts: datetime | None = None
    evidence: int = 0
    """events that it rests on"""


class Judgement(NamedTuple):
    """What a person or a tool said of a memory; ``at`` is the time in ISO 8601."""

    at: str
    verdict: str
    """accepted, rejected, retired or rewarded"""
    memory_id: str
    actor: str


class ToolLine(NamedTuple):
    """How often one tool was called over the whole history."""

    host: str
    tool: str
    action: str
    calls: int
    failed: int


class Expiring(NamedTuple):
    """Transcripts that a host will delete soon."""

    host: str
    files: int
    oldest_days: int
    retention_days: int


class SignalTop(NamedTuple):
    """One of the sessions in which a signal reads highest."""

    signal: str
    host: str
    session_id: str
    value: float


class Scores(NamedTuple):
    """What the trajectory signals read in one session: names and values in the same order, None where one has no value."""

    host: str
    session_id: str
    signals: tuple[str, ...]
    values: tuple[float | None, ...]


class Missing(NamedTuple):
    """Something that was recorded by a host and is not on this page, and why."""

    kind: str
    """gap, unreadable or leaving"""
    host: str
    session_id: str
    """empty where no session can be named"""
    reason: str
    number: int
    """sessions of a gap, else records"""
    first: str = ""
    last: str = ""


class PriceLine(NamedTuple):
    """A price that calls were costed with: whose, since which day ("list": the list gives none), from which list."""

    provider: str
    model: str
    since: str
    source: str
    calls: int


WEEK_DAYS = 7
LEAST_SESSIONS = 5
"""Sessions of a week from which on it is set against the usual."""


def known_cost(nano: int, calls: int, unpriced_calls: int) -> int | None:
    """Return the nano-dollars of some calls; None where none of them has a price."""
    return None if unpriced_calls and unpriced_calls == calls else nano


def _usd(nano: int | None) -> float | None:
    return None if nano is None else nano / 1e9


class Spent(NamedTuple):
    """What was spent in some days; seconds from each prompt to the last record of its turn, None where no store holds turns."""

    cost_nano: int = 0
    calls: int = 0
    tokens: int = 0
    sessions: int = 0
    seconds: float | None = None
    unpriced_calls: int = 0

    @property
    def cost(self) -> int | None:
        """Nano-dollars; None where no call has a price."""
        return known_cost(self.cost_nano, self.calls, self.unpriced_calls)

    def to_json(self) -> dict[str, Any]:
        """Return it with the cost in dollars, null where no call has a price."""
        return {"cost_usd": _usd(self.cost), **{name: value for name, value in self._asdict().items() if name != "cost_nano"}}


class Day(NamedTuple):
    """One day of a week."""

    day: date
    spent: Spent


DEAR_SHARE = 0.3
"""Part of a week's cost from which on the one session that made it is named."""


class DearSession(NamedTuple):
    """The session that made most of a week's cost."""

    host: str
    session_id: str
    cost_nano: int
    share: float
    """of the week's cost, 0 to 1"""


class Week(NamedTuple):
    """Seven days, oldest first, and the mean of the weeks before them."""

    since: date
    until: date
    days: tuple[Day, ...]
    spent: Spent
    hosts: Mapping[str, tuple[int | None, int]]
    """host -> (nano-dollars, calls)"""
    recent: bool
    """whether it ends today; else it is the last one with calls"""
    usual: Spent | None
    """None where too few weeks before had calls"""
    weeks: int
    """of how many weeks the usual is the mean"""
    dear: DearSession | None = None
    """the one that made a large part of the cost (:data:`DEAR_SHARE`)"""

    @property
    def compared(self) -> bool:
        """Whether it has sessions enough to be set against the usual."""
        return self.usual is not None and self.spent.sessions >= LEAST_SESSIONS

    def to_json(self) -> dict[str, Any]:
        """Return days, hosts and the usual, costs in dollars."""
        return {
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "recent": self.recent,
            **self.spent.to_json(),
            "days": [{"date": one.day.isoformat(), **one.spent.to_json()} for one in self.days],
            "hosts": [{"host": host, "cost_usd": _usd(cost), "calls": calls} for host, (cost, calls) in self.hosts.items()],
            "usual": self.usual and {"weeks": self.weeks, **self.usual.to_json()},
            "dear_session": self.dear
            and {
                "host": self.dear.host,
                "session_id": self.dear.session_id,
                "cost_usd": self.dear.cost_nano / 1e9,
                "share": round(self.dear.share, 4),
            },
        }


@dataclass(frozen=True)
class PageData:
    """Everything the panels draw. Every text in it may come from a transcript and is hostile."""

    generated: datetime
    """aware, in UTC"""
    timezone: str | None = None
    """IANA name; None is the machine's own zone"""
    cost_mode: str = "auto"
    hosts: tuple[HostLine, ...] = ()
    days: tuple[DayLine, ...] = ()
    usage_lines: tuple[UsageLine, ...] = ()
    periods: tuple[tuple[date, date, date], ...] = ()
    """every day of ``usage_lines`` with the first days of its week and month, as usage is grouped"""
    models: tuple[ModelLine, ...] = ()
    projects: tuple[ProjectLine, ...] = ()
    sessions: tuple[SessionLine, ...] = ()
    signals: tuple[SignalLine, ...] = ()
    aggregates: tuple[Mapping[str, Any], ...] = ()
    """what :func:`ctx_pipeline.dashboard.signal_records.summaries` says of every signal"""
    tops: tuple[SignalTop, ...] = ()
    scores: tuple[Scores, ...] = ()
    memories: tuple[MemoryLine, ...] = ()
    learned: tuple[LearnedLine, ...] = ()
    memory_total: int = 0
    memory_status: Mapping[str, int] = field(default_factory=dict)
    dangling: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """memory id -> what it links to and is not there"""
    judgements: tuple[Judgement, ...] = ()
    """the newest, newest first"""
    tools: tuple[ToolLine, ...] = ()
    prompt_hours: tuple[tuple[int, int, int], ...] = ()
    """(weekday from Monday, hour, prompts) in the page's time zone"""
    redactions: Mapping[str, int] = field(default_factory=dict)
    """detector -> places where a secret was replaced"""
    expiring: tuple[Expiring, ...] = ()
    missing: tuple[Missing, ...] = ()
    prices: tuple[PriceLine, ...] = ()
    """what calls were costed with"""
    charges: tuple[ChargeLine, ...] = ()
    findings: tuple[Finding, ...] = ()
    """what to look at in the whole history, by what is at stake"""
    period_findings: tuple[Finding, ...] = ()
    """what to look at in the last week, by what is at stake"""
    working: tuple[tuple[date, str, float], ...] = ()
    """(day, host, seconds from prompts to the last record of their turns), main threads only"""
    week: Week | None = None
    """the last seven days against the usual"""
    plans: Mapping[str, str] = field(default_factory=dict)
    """host -> flat plan on which it was used in that week"""
    limits: tuple[LimitLine, ...] = ()
    """limits of plans that have not reset yet"""

    @cached_property
    def usage(self) -> Usage:
        """Usage of the whole history."""
        total = Usage()
        for line in self.models:
            total = total.plus(line.usage)
        return total

    @cached_property
    def today(self) -> date:
        """The day on which the page was made, in its zone."""
        return local_day(self.generated, self.timezone)

    @cached_property
    def made(self) -> datetime:
        """The time at which the page was made, in its zone."""
        return self.generated + timedelta(seconds=offset_seconds(self.generated, self.timezone))

    @cached_property
    def zone(self) -> str:
        """Name of the page's zone."""
        return self.timezone or f"local time ({self.generated.astimezone().tzname()})"

    @cached_property
    def meanings(self) -> dict[str, str]:
        """What each signal is, by name: the first line of its description."""
        return {s.signal: s.describe.partition("\n")[0] for s in self.signals}

    @cached_property
    def host_titles(self) -> dict[str, HostLine]:
        """Hosts by key; a host without a file of its own still has a line."""
        seen = {s.host for s in self.sessions}
        known = [*self.hosts, *(HostLine(key, key, 0) for key in sorted(seen - {h.key for h in self.hosts}))]
        ranked = sorted(known, key=lambda h: h.key not in seen)
        return {h.key: h._replace(number=number) for number, h in enumerate(ranked)}

    @property
    def used_hosts(self) -> list[HostLine]:
        """Hosts that have sessions, in palette order."""
        seen = {s.host for s in self.sessions}
        return [h for h in self.host_titles.values() if h.key in seen]
