"""Whether every stage holds what it promises: counted, with no data told as no data, and limits over all sessions."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.facts.command_runs import failed_calls
from ctx_pipeline.model.codec import plain
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.sessions.states.state import unnamed
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.session_notes import made_of
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.limits import sums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.session_notes import Made

SCHEMA = 1
"""Version of the JSON shape."""

VERIFIED = "measured.verified"
"""Kind of the facts that keep what was found; figures make nothing stale."""

PASS, FAIL, NO_DATA = "pass", "fail", "no data"
LIMITS = "slos.toml"
"""File in the store with a person's limits."""

METRICS = {
    "session_context_tokens": "the largest prompt of a session, in tokens",
    "session_cost_usd": "what a session cost, in dollars",
    "tool_calls_total": "tool calls of a session",
    "failed_tool_calls": "tool calls of a session that failed",
}
"""Metric -> what it measures."""

ACTIONS = ("warn", "fail")
_EXAMPLES = 3
_LOOKED = 20
"""Snapshots whose sessions are read again, the newest ones."""

_TORN = 0.001
"""Share of records that may be unreadable or of an unknown kind."""


class Check(NamedTuple):
    """One promise: how often it was looked at and how often it did not hold."""

    name: str
    stage: str
    checked: int
    failed: int
    examples: list[str]
    """some of those for which it did not hold"""
    tolerated: float = 0.0
    """share that may fail: a host writes a torn line now and then"""

    @property
    def status(self) -> str:
        """Pass, fail, or no data where nothing was there to be looked at."""
        return FAIL if self.failed > self.tolerated * self.checked else PASS if self.checked else NO_DATA


class Limit(NamedTuple):
    """A person's limit on a figure of a session."""

    name: str
    metric: str
    threshold: float
    direction: str
    """max or min"""
    action: str
    """warn or fail"""


class Violations(NamedTuple):
    """How a limit held over all sessions."""

    limit: Limit
    sessions: int
    violated: int
    worst: tuple[str, float] | None
    """host/session and its figure"""

    @property
    def status(self) -> str:
        """Pass, fail, or no data."""
        return NO_DATA if not self.sessions else FAIL if self.violated else PASS


class Verification(NamedTuple):
    """What was found."""

    checks: list[Check]
    limits: list[Violations]

    @property
    def counts(self) -> dict[str, int]:
        """Checks by status."""
        found = Counter(c.status for c in self.checks)
        return {status: found[status] for status in (PASS, FAIL, NO_DATA)}

    @property
    def rate(self) -> float | None:
        """The share of checks with data that passed; None where none has data."""
        known = self.counts[PASS] + self.counts[FAIL]
        return round(self.counts[PASS] / known, 4) if known else None

    @property
    def passed(self) -> str:
        """How many checks passed, of how many, in words."""
        known = self.counts[PASS] + self.counts[FAIL]
        return f"{self.counts[PASS]} of {known} checks with data passed; {self.counts[NO_DATA]} have no data"

    @property
    def worst_action(self) -> str | None:
        """The hardest action of a limit that was violated."""
        violated = {v.limit.action for v in self.limits if v.violated}
        return next((a for a in reversed(ACTIONS) if a in violated), None)

    @property
    def failed(self) -> bool:
        """A check failed, or a limit whose action is fail was violated."""
        return bool(self.counts[FAIL]) or self.worst_action == "fail"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "schema": SCHEMA,
            "checks": plain(self.checks, "status"),
            "counts": self.counts,
            "passed": self.passed,
            "pass_rate": self.rate,
            "slos": [
                {
                    **v.limit._asdict(),
                    "sessions": v.sessions,
                    "violated": v.violated,
                    "worst": v.worst and {"session": v.worst[0], "value": v.worst[1]},
                    "status": v.status,
                }
                for v in self.limits
            ],
            "worst_action": self.worst_action,
            "failed": self.failed,
        }


def verify(*, recount: bool = False, snapshots: bool = True, settings: Settings) -> Verification:
    """Return how every stage holds what it promises, and how the limits of ``slos.toml`` hold over all sessions.

    It speaks of the store as it is now. Sums are held against the bill as reports make them, from what is kept of each
    session; with ``recount`` every call is shared out anew, which takes seconds. Without ``snapshots`` no session is
    rebuilt to see what its snapshots left out. Raises SettingsError for a file of limits that cannot be used.
    """
    limits = limits_of(settings.home / LIMITS)
    with reading(settings) as (store, _):
        checks = [*_captured(store), *_artifacts(store, settings, complete=snapshots)]
        cells = store.lake.manifests("normalized")
        some = any(part.live for manifest in cells.values() for part in manifest.of_table("sessions"))
        rows = [row for cell in cells for row in store.lake.read_rows("sessions", cell, "normalized")] if limits else []
        figures = {one.metric: _FIGURES[one.metric](store, rows) for one in limits if one.metric in _FIGURES}
    if any(one.metric == _COST for one in limits):
        figures[_COST] = {key: one["cost_nano"] / 1e9 for key, one in usage("session", stored=True, settings=settings).by_session().items()}
    checks[3:3] = (
        [_sums(settings, recount=recount)]
        if some
        else [Check("sums by tool, server, thread, session and day equal the bill", "usage", 0, 0, [])]
    )
    return Verification(checks, [_violations(one, figures[one.metric]) for one in limits])


def _captured(store: Store) -> list[Check]:
    known = store.ledger.sessions()
    behind = [r for r in known if r.dirty]
    lines = sum(int(r.rows.get("lines") or 0) for r in known)
    there = {(r.host, r.session_id) for r in known}
    unread = [q for q in store.ledger.quarantined() if (q.host, q.session_id) in there]
    events = sum(int(r.rows.get("events") or 0) for r in known)
    unknown = sum(int(r.rows.get("unknown") or 0) for r in known)
    strange = [f"{r.host}/{r.session_id}" for r in known if r.rows.get("unknown")]
    return [
        Check(
            "captured sessions are in the tables", "normalize", len(known), len(behind), _some(f"{r.host}/{r.session_id}" for r in behind)
        ),
        Check(
            "records could be decoded", "decode", lines, len(unread), _some(f"{q.stream} line {q.line}: {q.reason}" for q in unread), _TORN
        ),
        Check("events are of a known kind", "decode", events, unknown, strange[:_EXAMPLES], _TORN),
    ]


def _some(texts: Any) -> list[str]:
    return list(texts)[:_EXAMPLES]


def _sums(settings: Settings, *, recount: bool) -> Check:
    """Return whether every way of adding usage up gives the same tokens and money."""
    found = sums(recount=recount, settings=settings)
    billed = found.pop("billed")
    wrong = [by for by, told in found.items() if told != billed]
    return Check("sums by tool, server, thread, session and day equal the bill", "usage", len(found), len(wrong), wrong[:_EXAMPLES])


def _artifacts(store: Store, settings: Settings, *, complete: bool) -> list[Check]:
    """Return whether kept snapshots are XML within their bytes, and whether any artifact holds a secret."""
    redactor = Redactor(settings.patterns)
    kept = [(m, m.content) for m in made_of(store)]
    drawn = [(m, text) for m, text in kept if m.kind == "snapshot"]
    broken = [m.artifact_id for m, text in drawn if not _parses(text) or len(text.encode()) > int(m.about.get("budget") or 2_048)]
    leaking = [m.artifact_id for m, text in kept if redactor.redact(text) != text]
    return [
        Check("snapshots parse and fit", "snapshot", len(drawn), len(broken), broken[:_EXAMPLES]),
        *([_complete(store, drawn, settings)] if complete else []),
        Check("artifacts hold no secret", "redaction", len(kept), len(leaking), leaking[:_EXAMPLES]),
    ]


def _complete(store: Store, snapshots: list[tuple[Made, str]], settings: Settings) -> Check:
    """Return whether the newest snapshots name everything that they left out of what the records held then."""
    looked = lost = 0
    examples: list[str] = []
    for m, text in reversed(snapshots):
        seq, dropped = m.about.get("seq"), m.about.get("dropped")
        if (
            looked == _LOOKED
            or not isinstance(seq, int)
            or not isinstance(dropped, dict)
            or store.ledger.session(m.host, m.session_id) is None
        ):
            continue
        looked += 1
        missing = unnamed(text, dropped, f"{m.host}:{m.session_id}", seq, settings=settings)
        lost += bool(missing)
        examples += [f"{m.artifact_id}: {one}" for one in missing]
    return Check("snapshots name what they left out", "snapshot", looked, lost, examples[:_EXAMPLES])


def _parses(text: str) -> bool:
    try:
        ET.fromstring(text)  # noqa: S314 - our own text, without a document type
    except ET.ParseError:
        return False
    return "<!DOCTYPE" not in text


def limits_of(path: Path) -> list[Limit]:
    """Return the limits of a file: ``[[slo]]`` with name, metric, threshold, direction (max or min) and action (warn or fail)."""
    import tomllib

    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return []
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path} cannot be read: {error}", hint="mend the file or move it away", path=str(path)) from error
    listed = table.get("slo", [])
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise SettingsError(f"{path}: slo is no list of limits", hint="write [[slo]] above each limit, with two brackets", path=str(path))
    found = []
    for n, row in enumerate(listed):
        metric, threshold = row.get("metric"), row.get("threshold")
        direction, action = row.get("direction", "max"), row.get("action", "warn")
        if not isinstance(metric, str) or metric not in METRICS:
            raise SettingsError(f"{metric!r} is nothing that is measured", hint=f"metric = one of {', '.join(METRICS)}")
        if not isinstance(threshold, int | float) or isinstance(threshold, bool) or not math.isfinite(threshold):
            raise SettingsError(f"threshold = {threshold!r} is no number", hint="write threshold = 5.0")
        if direction not in ("max", "min") or action not in ACTIONS:
            raise SettingsError(f"limit {n + 1}: {direction!r}, {action!r}", hint="direction = max or min, action = warn or fail")
        found.append(Limit(str(row.get("name") or metric), metric, float(threshold), direction, action))
    return found


def _violations(limit: Limit, figures: _Figures) -> Violations:
    over = {k: v for k, v in figures.items() if (v > limit.threshold if limit.direction == "max" else v < limit.threshold)}
    chosen = max if limit.direction == "max" else min
    worst = chosen(over.items(), key=lambda pair: (pair[1], pair[0])) if over else None
    return Violations(limit, len(figures), len(over), ("/".join(worst[0]), worst[1]) if worst else None)


_Figures = dict[tuple[str, str], float]
_COST = "session_cost_usd"


def _peaks(store: Store, _rows: list[Any]) -> _Figures:
    found: _Figures = {}
    for cell in store.lake.manifests("normalized"):
        for call in store.lake.read_rows("model_calls", cell, "normalized"):
            if call.owner:
                key = (call.host, call.session_id)
                found[key] = max(found.get(key, 0), float(call.context_tokens))
    return found


def _failed(store: Store, _rows: list[Any]) -> _Figures:
    columns = {"events": ("event_id", "kind", "subtype")}
    tables = ("tool_calls", "command_runs", "events")
    cells = store.lake.manifests("normalized")
    views = (v for cell in cells for v in store.lake.read_sessions(cell, None, tables, columns, kinds=("tool_result",)))
    return {(v.host, v.session_id): float(len(failed_calls(v))) for v in views}


_FIGURES: Mapping[str, Callable[[Store, list[Any]], _Figures]] = {
    "session_context_tokens": _peaks,
    "tool_calls_total": lambda _store, rows: {(r.host, r.session_id): float(r.tool_calls) for r in rows},
    "failed_tool_calls": _failed,
}


def history(limit: int, *, settings: Settings) -> list[dict[str, Any]]:
    """Return what earlier verifications found, newest first: time, counts, pass rate and limits violated."""
    with reading(settings) as (store, _):
        return [{"at": f.at, **f.payload} for f in store.journal.newest(VERIFIED, limit)]
