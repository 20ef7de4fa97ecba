"""Readings of signals as rows, and what many readings of one signal add up to."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.codec import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.model.declared import Reading, Signal


MAX_EVIDENCE = 8
_as_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str).encode
LONGEST = 2_000
"""Characters of a label or a text that are kept."""


FIRST_SIGNALS = (
    "session_cost",
    "user_correction_count",
    "last_test_outcome",
    "trajectory_premature_finish_without_validation",
    "failed_command_count",
    "cache_rebuild_tokens",
)
"""What every view shows before anything else: cost; corrections; the last check, and changes that none followed; failing commands; the
cache that was built again."""


def first_place(signal: str) -> int:
    """Return the place of a signal among those that are shown first; all others share the one behind them."""
    return FIRST_SIGNALS.index(signal) if signal in FIRST_SIGNALS else len(FIRST_SIGNALS)


class StoredReading(NamedTuple):
    """A row of the table ``readings``, in the order of its columns."""

    host: str
    session_id: str
    signal: str
    family: str
    version: int
    kind: str
    value: float | None
    label: str | None
    unit: str
    confidence: float
    evidence: list[str]
    reason: str | None
    metadata: str | None
    input: str


@dataclass(frozen=True)
class Aggregate:
    """What the readings of one signal add up to.

    ``missing`` counts the sessions without a value, ``reasons`` says why. Figures of
    numbers are None without a number; ``p90`` is interpolated linearly between the two
    neighbouring values. ``true`` and ``false`` are None but for booleans; ``labels``
    counts categories.
    """

    signal: str
    kind: str
    unit: str
    count: int
    missing: int
    reasons: dict[str, int] = field(default_factory=dict)
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    median: float | None = None
    p90: float | None = None
    sum: float | None = None
    true: int | None = None
    false: int | None = None
    labels: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Trend:
    """How the mean of the last month with readings differs from that of up to three months before it."""

    month: str
    mean: float
    before: float
    change: float | None
    """as a share of the mean before; None where that is 0"""
    direction: str
    """up, down or steady (within a tenth)"""
    verdict: str
    """better, worse, or empty where neither direction is, too few sessions were measured, or the change may be chance"""


_STEADY = 0.1
_MONTHS = 3
LEAST_SESSIONS = 5
"""Sessions that the last month, and the months before it, must have at least before either is called better or worse."""
_STANDARD_ERRORS = 2.0
"""How many standard errors of their difference two means must be apart before one is called better: 95 of 100 by chance are not."""


class Month(NamedTuple):
    """What the sessions of a month read: how many were measured, their mean and the standard deviation of a sample."""

    month: str
    measured: int
    mean: float | None
    deviation: float | None


def compared(months: Iterable[Month]) -> list[Month]:
    """Return the months that a trend compares: up to three, then the last; those without a mean are left out."""
    return sorted(one for one in months if one.mean is not None and one.measured)[-1 - _MONTHS :]


def trend(months: Iterable[Month], better: str) -> Trend | None:
    """Return the trend of a signal's months; None with fewer than two months that have a mean.

    The months before are weighted by their sessions.
    """
    known = compared(months)
    if len(known) < 2:
        return None
    month, measured, last, _ = known[-1]
    mean, earlier = last or 0.0, known[:-1]
    measured_before = sum(one.measured for one in earlier)
    before = math.fsum((one.mean or 0.0) * one.measured for one in earlier) / measured_before
    change = (mean - before) / abs(before) if before else None
    steady = abs(mean - before) <= _STEADY * abs(before)
    direction = "steady" if steady else "up" if mean > before else "down"
    good = {"higher": "up", "lower": "down"}.get(better)
    few = min(measured, measured_before) < LEAST_SESSIONS
    error = math.sqrt(_variance_of_mean(known[-1:]) + _variance_of_mean(earlier))
    unsure = steady or few or abs(mean - before) <= _STANDARD_ERRORS * error
    verdict = "" if unsure or good is None else "better" if direction == good else "worse"
    return Trend(month, mean, before, change, direction, verdict)


def _variance_of_mean(months: Sequence[Month]) -> float:
    """Return the variance of the mean over the sessions of some months, within each and between them."""
    measured = sum(one.measured for one in months)
    mean = math.fsum((one.mean or 0.0) * one.measured for one in months) / measured
    within = math.fsum((one.deviation or 0.0) ** 2 * (one.measured - 1) for one in months)
    between = math.fsum(((one.mean or 0.0) - mean) ** 2 * one.measured for one in months)
    return (within + between) / max(measured - 1, 1) / measured


def store_reading(signal: Signal, reading: Reading, *, host: str, session_id: str, made_of: str) -> StoredReading:
    """Return the row of a reading; a value that is no finite number becomes null with a reason."""
    value: float | None = None
    label: str | None = None
    reason = reading.reason
    if reading.value is None:
        reason = reason or "no value"
    elif signal.kind in ("numeric", "boolean") and not isinstance(reading.value, str):
        value = float(reading.value)
        if not math.isfinite(value):
            value, reason = None, "not a finite number"
    elif signal.kind in ("categorical", "text"):
        label = _plain(str(reading.value))[:LONGEST]
    else:
        reason = f"the method returned {type(reading.value).__name__} for a {signal.kind} signal"
    metadata = _plain(_as_json(dict(reading.metadata))) if reading.metadata else None
    return StoredReading(
        host,
        session_id,
        signal.name,
        signal.family,
        signal.version,
        signal.kind,
        value,
        label,
        signal.unit,
        min(1.0, max(0.0, reading.confidence)),
        [_plain(str(e)) for e in reading.evidence[:MAX_EVIDENCE]],
        _plain(str(reason)) if value is None and label is None else None,
        metadata,
        made_of,
    )


def _plain(text: str) -> str:
    """Return a text that every table can hold: half of a surrogate pair becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def aggregate(readings: Iterable[Any]) -> dict[str, Aggregate]:
    """Return signal name -> aggregate over reading rows of any number of signals and sessions."""
    grouped: dict[str, list[Any]] = {}
    for row in readings:
        grouped.setdefault(row.signal, []).append(row)
    return {name: _aggregate_one(name, rows) for name, rows in sorted(grouped.items())}


def _aggregate_one(name: str, rows: list[Any]) -> Aggregate:
    kind, unit = rows[-1].kind, rows[-1].unit
    reasons = Counter(row.reason or "no value" for row in rows if row.value is None and row.label is None)
    counted: dict[str, Any] = {
        "signal": name,
        "kind": kind,
        "unit": unit,
        "count": len(rows) - reasons.total(),
        "missing": reasons.total(),
        "reasons": dict(sorted(reasons.items())),
    }
    if kind == "categorical":
        labels = Counter(row.label for row in rows if row.label is not None)
        return Aggregate(**counted, labels=dict(sorted(labels.items(), key=lambda pair: (-pair[1], pair[0]))))
    values = sorted(row.value for row in rows if row.value is not None)
    if kind == "boolean":
        true = sum(1 for v in values if v)
        return Aggregate(**counted, true=true, false=len(values) - true)
    if kind == "text" or not values:
        return Aggregate(**counted)
    total = math.fsum(values)
    return Aggregate(
        **counted,
        min=values[0],
        max=values[-1],
        mean=total / len(values),
        median=quantile(values, 0.5),
        p90=quantile(values, 0.9),
        sum=total,
    )


def quantile(ordered: list[float], share: float) -> float:
    """Return the value below which ``share`` of the ordered values lie, interpolated linearly (Hyndman and Fan's type 7)."""
    place = (len(ordered) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


# What a person should look at: one record for the command line, the page and the MCP server.


FAILED_AT_LEAST = 3
"""Fewer failed commands in a session are an ordinary day."""


class Example(NamedTuple):
    """A session that shows a finding, with the figure it shows it by."""

    host: str
    session_id: str
    title: str
    project: str
    value: float


class Finding(NamedTuple):
    """One thing to look at, with the command that acts on it."""

    rule: str
    title: str
    command: str
    detail: str = ""
    advice: str = ""
    """what helps; empty where the command is all there is to do"""
    cases: int = 1
    of: int = 0
    """sessions that could have shown it; 0 where it is not about sessions"""
    usd: float | None = None
    """dollars at stake; None where nobody knows"""
    seconds: float | None = None
    """time at stake"""
    urgent: bool = False
    """what is lost for good, or known to others, if nothing is done"""
    signal: str = ""
    """the measurement that it rests on, where there is one"""
    examples: tuple[Example, ...] = ()
    quiet: bool = False
    """one line at the end says it: records that could not be read, unknown kinds, secrets"""

    @property
    def text(self) -> str:
        """Title and detail as sentences on one line."""
        return f"{sentence(self.title)} {self.detail}".rstrip()

    @property
    def at_stake(self) -> bool:
        """Money or time is at stake, or a measurement shows it: it is worth an act, and not only good to know."""
        return bool(self.usd or self.seconds or self.signal)

    @property
    def weight(self) -> int:
        """3: act on it, 2: money or time is at stake, 1: know it."""
        return 3 if self.urgent else 2 if self.usd or self.seconds else 1

    @property
    def session(self) -> str:
        """Key on the page of the session that shows it most; empty where there is none."""
        return digest(self.examples[0].host, self.examples[0].session_id, size=16) if self.examples else ""

    def to_json(self) -> dict[str, Any]:
        """Return all fields, the text as one line, and the weight."""
        return {**self._asdict(), "examples": [one._asdict() for one in self.examples], "text": self.text, "weight": self.weight}


def sentence(text: str) -> str:
    """Return a text with a full stop at its end, unless it ends a sentence already."""
    return text if text.endswith((".", "!", "?", "\N{HORIZONTAL ELLIPSIS}")) else f"{text}."


SHOWN = 3
"""Findings that a first look shows."""


def at_first(found: list[Finding]) -> list[Finding]:
    """Return the first findings of a ranked list, none of which names the command of one before it; quiet ones are left out."""
    by_command: dict[str, Finding] = {}
    for one in found:
        if not one.quiet:
            by_command.setdefault(one.command, one)
    return list(by_command.values())[:SHOWN]


def ranked(found: list[Finding]) -> list[Finding]:
    """Return findings by what is at stake: what is urgent, then dollars, then time, then how common it is; quiet ones last."""
    return sorted(
        found, key=lambda f: (f.quiet, not f.urgent, -(f.usd or 0.0), -(f.seconds or 0.0), -(f.cases / f.of if f.of else 0.0), f.rule)
    )
