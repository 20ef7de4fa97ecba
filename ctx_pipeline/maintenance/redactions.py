"""What was redacted, by detector, by project and by session; values are told nowhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ctx_pipeline import settings as settings_module


def redactions(*, settings: settings_module.Settings | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return ``detectors``, ``projects`` and ``sessions``, each the most redacted first, as of the last run.

    Raises StoreError where nothing was run yet.
    """
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.warehouse.redaction_counts import counts

    with reading(settings or settings_module.load()) as (store, _):
        rows = counts(store.warehouse_path)
    by_detector: Counter[str] = Counter()
    by_project: Counter[str] = Counter()
    sessions: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        by_detector[row.detector] += row.found
        by_project[row.project] += row.found
        sessions.setdefault(row.detector, set()).add((row.host, row.session_id))
    return {
        "detectors": [{"detector": name, "found": found, "sessions": len(sessions[name])} for name, found in _ranked(by_detector)],
        "projects": [{"project": name, "found": found} for name, found in _ranked(by_project)],
        "sessions": [row._asdict() for row in sorted(rows, key=lambda row: (-row.found, row))],
    }


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
