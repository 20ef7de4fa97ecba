"""Measures, off the critical path, how well memories answer what comes after them, and what told ones did."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline.plan import EFFECT, WHOLE, input_of
from ctx_pipeline.pipeline.reports import DONE, UNCHANGED, CellReport, StageReport

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

CODE_VERSION = "2"
ASSET = EFFECT.key
KEPT = "effect.json"
"""The last figures, without any text of a session."""


def measure_effect(store: Store, settings: Settings, *, force: bool = False) -> StageReport:
    """Do the backtest anew, unless nothing below it changed, and keep its figures in the journal.

    Totals: splits, questions, memories that would have warned, proposals, and figures
    that got worse than the last ones that were kept. The figures of the report are the asset's metadata.
    """
    from ctx_pipeline.learning.backtest.backtest import backtest, keep
    from ctx_pipeline.memory.evaluation import compare

    began = time.perf_counter()
    counts: dict[str, int] = {}
    figures: dict[str, float] = {}
    with store.ledger.lease(ASSET):
        made_of, version = input_of(store, settings, ASSET), code_versions.of_stage(ASSET)
        row = store.ledger.asset_cell(ASSET, WHOLE)
        if not force and row is not None and row.input_fp == made_of and row.code_version == version:
            status, content = UNCHANGED, row.content_hash
        else:
            report = backtest(store, settings)
            lost = keep(store, report)
            store.files.write(KEPT, json.dumps({"versions": report["versions"], "figures": compare(report)}, sort_keys=True).encode())
            counts, figures = _counts(report, len(lost)), _figures(report)
            content = digest({k: v for k, v in report.items() if k != "seconds"})
            store.ledger.record_asset(ASSET, WHOLE, input_fp=made_of, code_version=version, content_hash=content, rows=counts["questions"])
            status = DONE
    seconds = time.perf_counter() - began
    return StageReport("effect", {"": CellReport(status, counts, content, seconds, figures)}, counts, seconds)


def _counts(report: dict[str, Any], lost: int) -> dict[str, int]:
    return {
        "splits": len(report["splits"]),
        "questions": sum(s["questions"] for s in report["splits"]),
        "failures_recurred": report["recurred"],
        "warnings": len(report["warned"]),
        "proposals": len(report["proposals"]),
        "sessions_told": report["effect"]["sessions_told"],
        "figures_worse": lost,
    }


def _figures(report: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float | None] = {}
    for row in report["recall"]:
        for name in ("hit_at_5", "chance_at_5", "raw_at_5"):
            found[f"{row['kind']}_{name}"] = row[name]["value"]
    for row in report["thresholds"]:
        if row["threshold"] == report["recommended"]["in_use"]:
            found["injection_precision"] = row["injection_precision"]["value"]
    found |= {f"control_{name}": figure["value"] for name, figure in report["controls"].items()}
    found["warned_share"] = report["warned_share"]["value"]
    found["used_share"] = report["effect"]["used"]["value"]
    return {name: value for name, value in found.items() if value is not None}
