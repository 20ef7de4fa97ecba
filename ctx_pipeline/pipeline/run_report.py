"""What ``ctx run`` tells at its end: the store's totals, what the run did, what needs a look.

Usage and findings cost a look into the warehouse, so they are kept in ``summary.json``
for the runs that change nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.readings import at_first
from ctx_pipeline.pipeline import session_errors
from ctx_pipeline.pipeline.plan import NEW_CODE, NEW_INPUT, WHOLE
from ctx_pipeline.pipeline.reports import DONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.dashboard.data import PageData
    from ctx_pipeline.pipeline import StageReport
    from ctx_pipeline.pipeline.plan import Plan
    from ctx_pipeline.pipeline.run import Outcome
    from ctx_pipeline.settings import Settings

KEPT = "summary.json"
_MADE_OF = ("warehouse/duckdb", "dashboard/site")
"""What the kept figures are of: with another content they are collected anew."""

_USAGE = ("calls", "input", "output", "cache_read", "cost")


class Shown(NamedTuple):
    """One thing to look at, with the command that shows more."""

    text: str
    command: str


@dataclass(slots=True)
class RunReport:
    """The object that ``ctx run --json`` prints, and what its text says beside it."""

    sessions: int = 0
    """in the store, after the run; so are the counts up to ``memories``"""
    threads: int = 0
    events: int = 0
    model_calls: int = 0
    """each counted once, as usage is; their rows before there is a warehouse"""
    tool_calls: int = 0
    memories: int = 0
    cells_materialized: int = 0
    """different cells that this run recorded"""
    sessions_parsed: int = 0
    """sessions that this run decoded"""
    quarantined: int = 0
    unknown_events: int = 0
    seconds: float = 0.0
    site: str = ""
    """path of the page; empty before there is one"""
    failed: list[str] = field(default_factory=list)
    sessions_by_host: dict[str, int] = field(default_factory=dict)
    usage: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(_USAGE, 0))
    """tokens (input without cached ones) and cost in nano-dollars, over the whole history; the cost is null where no call has a price"""
    findings: list[Shown] = field(default_factory=list)
    quiet: list[str] = field(default_factory=list)
    """titles of the findings that one line at the end says"""
    quarantine: list[dict[str, Any]] = field(default_factory=list)
    """whose records could not be decoded and why: host, session_id, reason, records; the most first"""
    session_errors: list[dict[str, Any]] = field(default_factory=list)
    """what went wrong with single sessions after that: host, session_id, asset, reason, times"""

    assets: list[dict[str, Any]] = field(default_factory=list)
    """what this run made: asset, partitions, sessions whose rows were made (none where an asset is no row of a session), why"""

    def to_json(self) -> dict[str, Any]:
        """Return the documented keys, ``sessions`` to ``site``, and last the quarantine, the errors of sessions and what was made."""
        values = {f.name: getattr(self, f.name) for f in fields(self)[:12]}
        values["seconds"] = round(self.seconds, 3)
        return {**values, "quarantine": self.quarantine, "session_errors": self.session_errors, "assets": self.assets}


def summary(store: Any, settings: Settings, outcome: Outcome | None, *, seconds: float, todo: Plan | None = None) -> RunReport:
    """Return what is in the store and what ``outcome`` did; None says that nothing had to be done.

    ``todo`` is what was to be done: it tells what had to be made for its code alone.
    """
    report = RunReport(seconds=seconds)
    totals = store.ledger.totals()
    for name in ("sessions", "threads", "events", "model_calls", "tool_calls", "quarantined", "unknown_events"):
        setattr(report, name, int(totals.get(name, 0)))
    if report.quarantined:
        reasons = Counter((row.host, row.session_id, row.reason) for row in store.ledger.quarantined())
        ranked = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
        report.quarantine = [dict(zip(("host", "session_id", "reason", "records"), (*who, count), strict=True)) for who, count in ranked]
    report.session_errors = [error._asdict() for error in session_errors.stored_errors(store, settings)]
    memories = store.ledger.asset_cell("memory/consolidated", Cell("", ""))
    report.memories = int(memories.rows) if memories else 0
    page = store.home / "site" / "index.html"
    report.site = str(page) if page.exists() else ""
    report.sessions_by_host = dict(sorted(Counter(row.host for row in store.ledger.sessions()).items()))
    if outcome is not None:
        report.assets = assets_made(outcome.reports, todo)
        report.failed = outcome.failed
        report.cells_materialized = outcome.cells_materialized
        report.sessions_parsed = sum(r.totals.get("sessions_parsed", 0) for r in outcome.reports if r.stage == "normalize")
    made = [row.content_hash if row else "" for row in (store.ledger.asset_cell(name, Cell("", "")) for name in _MADE_OF)]
    # a page that was drawn in this run has kept its figures; without one, what the homes show may be newer than these
    drawn = outcome is None or any(r.stage == "render" and r.changed for r in outcome.reports)
    kept = (_read(store, made) if drawn else None) or _collect(store, settings, made)
    report.usage |= kept["usage"]
    report.model_calls = kept["usage"].get("calls", report.model_calls)
    report.findings = [Shown(*finding) for finding in kept["findings"]]
    report.quiet = kept["quiet"]
    return report


def assets_made(reports: Iterable[StageReport], todo: Plan | None = None) -> list[dict[str, Any]]:
    """Return what stages made: asset, in how many partitions, how many sessions were worked out again there, and why.

    What is made of all sessions at once has no sessions, but for the page: those that were drawn.
    """
    found: dict[str, dict[str, dict[str, int]]] = {}
    whole: dict[str, dict[str, Any]] = {}
    for report in reports:
        for key, cell in report.cells.items():
            if not key and cell.status == DONE:
                drawn = cell.counts.get("chunks_written")
                asset = _UNPARTITIONED[report.stage]
                planned = todo.assets[asset].cells.get(WHOLE) if todo and asset in todo.assets else None
                reason = NEW_CODE if planned and planned.reason == NEW_CODE else NEW_INPUT
                whole[report.stage] = {"asset": asset, "partitions": None, "sessions": drawn, "why": reason}
            for asset, reasons in cell.recomputed.items():
                # a step that records what another process made says it again
                found.setdefault(asset, {}).setdefault(key, reasons)
    made = []
    for asset, cells in found.items():
        why = Counter[str]()
        for one in cells.values():
            why.update(one)
        told = ", ".join(f"{count} {name}{'s' if count != 1 and name.endswith('session') else ''}" for name, count in sorted(why.items()))
        # rows of sessions that went away were dropped, none was made
        made.append({"asset": asset, "partitions": len(cells), "sessions": why.total(), "why": told or "sessions left"})
    return [*made, *(whole[stage] for stage in _UNPARTITIONED if stage in whole)]


_UNPARTITIONED = {
    "index_search": "search/index",
    "score_lesson_use": "memory/used",
    "consolidate": "memory/consolidated",
    "index_memory": "memory/index",
    "warehouse": "warehouse/duckdb",
    "render": "dashboard/site",
    "effect": "memory/effect",
}


def _read(store: Any, made: list[str]) -> dict[str, Any] | None:
    try:
        kept = json.loads(store.files.read(KEPT))
        if kept["made_of"] != made:
            return None
        findings = [(str(text), str(command)) for text, command in kept["findings"]]
        return {"usage": dict(kept["usage"]), "findings": findings, "quiet": [str(title) for title in kept["quiet"]]}
    except (OSError, ValueError, KeyError, TypeError, CtxError):
        return None


def _collect(store: Any, settings: Settings, made_of: list[str]) -> dict[str, Any]:
    """Return usage and findings from the warehouse; nothing where there is none yet."""
    if not store.warehouse_path.exists():
        return {"usage": {}, "findings": [], "quiet": []}
    from ctx_pipeline.pipeline.page.page_records import collect
    from ctx_pipeline.storage.warehouse import database

    with database.connect(store.warehouse_path, read_only=True) as connection:
        data = collect(connection, store, settings)
    return keep(store, data, made_of)


def keep(store: Any, data: PageData, made_of: list[str]) -> dict[str, Any]:
    """Return the usage and the findings of a page, and keep them for the runs that find its ``made_of`` unchanged."""
    from ctx_pipeline.dashboard.data import Usage

    usage = reduce(Usage.plus, (line.usage for line in data.models), Usage())  # calls without a time are in no day
    kept = {
        "usage": {
            "calls": usage.calls,
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cache_read": usage.cache_read_tokens,
            "cost": usage.cost,
        },
        "findings": [(f.text, f.command) for f in at_first([f for f in data.findings if f.urgent or f.at_stake])],
        "quiet": [f.title for f in data.findings if f.quiet],
    }
    if not store.read_only:
        store.files.write(KEPT, json.dumps({**kept, "made_of": made_of}).encode())
    return kept
