"""What a run would do: for every asset the cells that are missing, stale or fresh.

The ledger's asset records are the truth, not Dagster's badges: those stop at one
hundred upstream partitions and do not know what `ctx sync` or another process did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import FACTS, FACTS_ASSET, NORMALIZED, asset_of
from ctx_pipeline.pipeline import code_versions, reports
from ctx_pipeline.pipeline.capture import placement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

WHOLE = Cell("", "")
"""Stands for the one cell of an unpartitioned asset."""

NEW_ASSET = "new asset"
NEW_INPUT = "new input"
NEW_CODE = "new code version"


class Asset(NamedTuple):
    """One node of the graph; ``stage`` is the step that makes it (a key of ``run.STEPS``)."""

    key: str
    stage: str
    upstream: tuple[str, ...]
    partitioned: bool
    describe: str


_TABLES = tuple(map(asset_of, NORMALIZED))
FACTS_MADE = Asset(
    FACTS_ASSET,
    "facts",
    tuple(dict.fromkeys(asset_of(source) for table in FACTS.values() for source in table.made_of)),
    True,
    f"What happened in a session, read once for all: the tables {', '.join(FACTS)}.",
)

RAW = Asset(
    "raw/segments", "capture", ("source/sessions",), True, "Byte-exact, immutable copies of what the hosts wrote; one row a byte range."
)
SEARCH = Asset("search/index", "index_search", _TABLES, False, "Full-text index over prompts, answers, commands and tool output.")
COUNTED = Asset(
    "tokens/exact",
    "count",
    ("normalized/events", "normalized/sessions"),
    True,
    "Exact token counts of every text that stands in a context window, by content. Made at night or by backfill, never by a run.",
)
USED = Asset(
    "memory/used",
    "score_lesson_use",
    ("normalized/events", "normalized/tool_calls"),
    False,
    "What became of memories in the sessions that were told them; rewards go to the journal.",
)
CONSOLIDATED = Asset("memory/consolidated", "consolidate", (), False, "Candidates of all sessions merged into memories; one row a memory.")
MEMORIES = Asset(
    "memory/index", "index_memory", ("memory/consolidated",), False, "Full-text index over the memories, read by retrieve and weave."
)
EFFECT = Asset(
    "memory/effect",
    "effect",
    (),
    False,
    "How well memories of the past answer what came after, and what told ones did. Made at night or by backfill, never by a run.",
)
WAREHOUSE = Asset("warehouse/duckdb", "warehouse", (), False, "One DuckDB file: views over the lake's live parts and small aggregates.")
SITE = Asset("dashboard/site", "render", ("warehouse/duckdb",), False, "The page, opened from disk: findings, usage, sessions.")


RULES = "mined/repeated_corrections"
"""Method whose candidates are the rules that a person typed: a memory with one recurred where it had to be typed again."""

EFFECT_SIGNALS = ("signals/outcomes", "signals/spending")
"""Families whose readings say how a session with a memory went."""

OFF_PATH = frozenset({COUNTED.stage, EFFECT.stage})
"""Stages that no run waits for: the nightly schedule and a backfill make their assets."""


def graph(versions: code_versions.Versions) -> dict[str, Asset]:
    """Return every asset by key, upstream ones first; signals and methods are those that discovery found."""
    tables = [
        Asset(f"normalized/{table}", "normalize", (RAW.key,), True, f"Rows of the table {table}, one schema for all hosts.")
        for table in NORMALIZED
    ]
    signals = [
        Asset(f"signals/{name}", "measure", tuple(dict.fromkeys(map(asset_of, reads))), True, describe)
        for name, (reads, describe) in versions.families.items()
    ]
    mined = [
        Asset(f"mined/{name}", "mine", (*_TABLES, FACTS_ASSET, *(f"signals/{f}" for f in families)), True, describe)
        for name, (families, describe) in versions.methods.items()
    ]
    used = USED._replace(upstream=(*USED.upstream, *(a.key for a in mined if a.key == RULES)))
    consolidated = CONSOLIDATED._replace(upstream=(*(a.key for a in mined), USED.key))
    outcomes = tuple(a.key for a in signals if a.key in EFFECT_SIGNALS)
    effect = EFFECT._replace(upstream=("normalized/events", "normalized/tool_calls", *(a.key for a in mined), *outcomes, MEMORIES.key))
    warehouse = WAREHOUSE._replace(upstream=(*_TABLES, FACTS_ASSET, *(a.key for a in (*signals, *mined)), MEMORIES.key))
    cells = (RAW, *tables, SEARCH, FACTS_MADE, *signals, *mined, COUNTED)
    return {a.key: a for a in (*cells, used, consolidated, MEMORIES, effect, warehouse, SITE)}


@dataclass(slots=True)
class CellPlan:
    """What one cell of one asset needs."""

    state: str
    """missing, stale or fresh"""
    reason: str = ""
    token: str = ""
    """changes with the input and the code that the cell would be made of"""


@dataclass(slots=True)
class AssetPlan:
    """What one asset needs, cell by cell; an unpartitioned asset has the cell :data:`WHOLE`."""

    asset: Asset
    code_version: str
    cells: dict[Cell, CellPlan] = field(default_factory=dict)

    def dirty(self) -> list[Cell]:
        """Return the cells to make, sorted."""
        return sorted(cell for cell, needs in self.cells.items() if needs.state != "fresh")

    def counts(self) -> dict[str, int]:
        """Return how many cells are missing, stale and fresh."""
        found = Counter(needs.state for needs in self.cells.values())
        return {state: found.get(state, 0) for state in ("missing", "stale", "fresh")}


@dataclass(slots=True)
class Plan:
    """Every asset with its cells, and what waits in the homes."""

    assets: dict[str, AssetPlan]
    pending: int = 0
    """sources that are new, grown or rewritten"""
    vanished: int = 0
    moved: int = 0
    waiting: Mapping[Cell, str] = field(default_factory=dict)
    """cell -> fingerprint of the sources that wait to be captured there"""
    live: list[str] = field(default_factory=list)
    """sources that are still written to, by stream and first byte to capture"""

    @property
    def nothing_to_do(self) -> bool:
        """Tell whether every asset is fresh and no source waits."""
        dirty = any(a.dirty() for a in self.assets.values() if a.asset.stage not in OFF_PATH)
        return not (self.pending or self.vanished or self.moved or dirty)

    def dirty_cells(self, asset: str) -> list[Cell]:
        """Return the cells of an asset that are missing or stale; ``[WHOLE]`` for an unpartitioned one."""
        return self.assets[asset].dirty()

    def partitioned_cells(self, *, off_path: bool = False) -> list[Cell]:
        """Return the cells that any partitioned asset needs, sorted; with ``off_path`` also those that no run waits for."""
        waited = [p for p in self.assets.values() if p.asset.partitioned and (off_path or p.asset.stage not in OFF_PATH)]
        return sorted({cell for plan in waited for cell in plan.dirty()})

    def dirty_assets(self) -> dict[Cell, set[str]]:
        """Return cell -> partitioned assets that are missing or stale in it, of those that a run makes."""
        found: dict[Cell, set[str]] = {}
        for key, plan in self.assets.items():
            if plan.asset.partitioned and plan.asset.stage not in OFF_PATH:
                for cell in plan.dirty():
                    found.setdefault(cell, set()).add(key)
        return found

    def tail(self, *, off_path: bool = False) -> list[str]:
        """Return the unpartitioned assets to make, upstream ones first; with ``off_path`` also those that no run waits for."""
        waited = {k: p for k, p in self.assets.items() if not p.asset.partitioned and (off_path or p.asset.stage not in OFF_PATH)}
        return [key for key, plan in waited.items() if plan.dirty()]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values: counts of every asset, what fills it, and its dirty cells with their reasons."""
        return {
            "nothing_to_do": self.nothing_to_do,
            "pending_sources": self.pending,
            "vanished_sources": self.vanished,
            "moved_sources": self.moved,
            "assets": [
                {
                    "asset": key,
                    "partitioned": plan.asset.partitioned,
                    "filled_by": "night" if plan.asset.stage in OFF_PATH else "run",
                    "code_version": plan.code_version,
                    **plan.counts(),
                    "cells": [
                        {"cell": cell.key if cell != WHOLE else "", "state": plan.cells[cell].state, "reason": plan.cells[cell].reason}
                        for cell in plan.dirty()
                    ],
                }
                for key, plan in self.assets.items()
            ],
        }


def plan(
    store: Any,
    settings: Settings,
    scan: Any = None,
    *,
    versions: code_versions.Versions | None = None,
    settle_seconds: float | None = None,
    due: Collection[str] = (),
) -> Plan:
    """Return what a run would do now. Nothing is written but the cache of code versions.

    Without a scan only the ledger is looked at. With ``settle_seconds`` the pending
    sources are placed into cells (their heads are read) and those still being written
    to are left out, but for the ``due`` ones; without it they are only counted.
    """
    versions = versions or code_versions.versions(store.files, settings, keep=not getattr(store, "read_only", False))
    waiting: Mapping[Cell, str] = {}
    live: list[str] = []
    pending = len(scan.pending) if scan else 0
    if scan and settle_seconds is not None:
        placed = placement.place(store, settings, scan, settle_seconds=settle_seconds, due=due)
        waiting, pending, live = placed.cells, pending - placed.settling, placed.live
    nodes = graph(versions)
    records = {key: store.ledger.asset_cells(key) for key in nodes}
    alive = {*store.ledger.cells(), *waiting}
    left = {key: (records[key].keys() | store.lake.cells(key)) - alive for key, node in nodes.items() if node.partitioned}
    known = _Known(
        alive=sorted(alive),
        undone=store.ledger.unfinished_cells(),
        waiting=waiting,
        contents={key: {cell: row.content_hash for cell, row in rows.items()} for key, rows in records.items()},
        journal=store.journal.head(),
    )
    made = Plan({}, pending, len(scan.vanished) if scan else 0, len(scan.moved) if scan else 0, waiting, live)
    begun: dict[str, set[Cell]] = {}
    for key, node in nodes.items():
        begun.setdefault(node.stage, set()).update(records[key])
    for key, node in nodes.items():
        planned = AssetPlan(node, versions.of(key))
        planned.cells |= {cell: CellPlan("stale", NEW_INPUT, "emptied") for cell in left.get(key, ())}
        for cell in known.alive if node.partitioned else [WHOLE]:
            changed = _changed_above(made, node, cell)
            expected, behind = known.expected(node, cell)
            version = versions.of(key, cell.host)
            # what others of its stage have in the partition it lacks because it is new: a person fills it, months of it or all
            missing = NEW_ASSET if cell in begun[node.stage] or (begun[node.stage] and not records[key]) else NEW_INPUT
            needs = _judge(node, records[key].get(cell), version, expected, behind=behind or bool(changed), missing=missing)
            needs.token = digest(expected, changed, version)
            planned.cells[cell] = needs
        made.assets[key] = planned
    return made


class _Known(NamedTuple):
    """What the ledger and the scan say, read once."""

    alive: list[Cell]
    """cells that hold a session, or will"""
    undone: set[Cell]
    waiting: Mapping[Cell, str]
    contents: Mapping[str, Mapping[Cell, str]]
    journal: int

    def expected(self, node: Asset, cell: Cell) -> tuple[str, bool]:
        """Return the input fingerprint that the asset should have been made of, and whether its input is known to be newer."""
        if node.stage == "capture":
            return self.waiting.get(cell, ""), cell in self.waiting
        if node.stage == "normalize":
            return self.waiting.get(cell, ""), cell in self.undone
        if node.partitioned:
            return reports.of_cell(self.contents, node.upstream, cell), False
        extra = (self.journal,) if node.stage == "consolidate" else ()
        return reports.of_all(self.contents, node.upstream, *extra), False


def _changed_above(made: Plan, node: Asset, cell: Cell) -> list[tuple[str, str, str]]:
    """Return (asset, cell, token) of upstream cells with new input; a new or newly versioned asset disturbs nothing until it is made."""
    found = []
    for key in node.upstream:
        above = made.assets.get(key)
        if above is None:
            continue
        cells = [cell] if node.partitioned else above.cells
        found += [(key, c.key, needs.token) for c in cells if (needs := above.cells.get(c)) and needs.reason == NEW_INPUT]
    return found


def _judge(node: Asset, row: Any, version: str, expected: str, *, behind: bool, missing: str) -> CellPlan:
    if row is None:
        done = node.stage == "capture" and not behind
        return CellPlan("fresh") if done else CellPlan("missing", missing)
    unread = node.stage not in {"capture", "normalize"} and row.input_fp != expected
    if behind or unread:
        return CellPlan("stale", NEW_INPUT)
    if version and row.code_version != version:
        return CellPlan("stale", NEW_CODE)
    return CellPlan("fresh")


def input_of(store: Store, settings: Settings, asset: str) -> str:
    """Return the fingerprint of what an unpartitioned asset would be made of now, as the plan computes it."""
    return reports.of_now(store.ledger, graph(code_versions.versions(store.files, settings))[asset].upstream)
