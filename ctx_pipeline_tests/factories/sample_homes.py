"""What every host with a made sample home is held to: its files come from its factory, and a run over them counts as they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.raw import SessionInput
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.homes import live_usage
from ctx_pipeline_tests.contracts.test_hosts import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COUNTED = ("model", "input", "output", "cache_write_5m", "cache_read", "reasoning")


def assert_made(key: str, files: Mapping[str, str]) -> None:
    """Fail where a sample home is not what its factory writes."""
    home = SAMPLES / key / "home"
    there = {path.relative_to(home).as_posix(): path.read_text() for path in home.rglob("*") if path.is_file()}
    assert there == dict(files)


def put(home: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder."""
    for rel, text in files.items():
        path = home / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return home


def sessions_of(key: str, home: Path, store: Path) -> dict[str, dict[str, Any]]:
    """Bring a store up to date with a home; return what its tables say of each session, checked against the live reader."""
    chosen = Settings(home=store, timezone="UTC", demo_roots={key: (home,)})
    before = {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in home.rglob("*") if path.is_file()}
    with open_store(chosen) as opened:
        assert [report.failed_partitions for report in ingest(opened, chosen) if report.failed_partitions] == []
        found = {row["session_id"]: row for row in _rows(opened, "sessions")}
        calls_of_all = _rows(opened, "model_calls")
        calls = [row for row in calls_of_all if row["owner"]]
    assert {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in home.rglob("*") if path.is_file()} == before
    for session in found.values():
        own = [row for row in calls if row["session_id"] == session["session_id"]]
        session["calls"] = sorted(tuple(row[name] for name in COUNTED) for row in own)
        session["recorded_cost"] = sum(row["recorded_cost"] or 0 for row in own)
        session["priced"] = sum(row["cost"] is not None for row in own)
    shared = {row["call_key"] for row in calls_of_all if not row["owner"]}
    places = [MODEL_CALLS.names.index(name) for name in COUNTED]
    for live in live_usage.sessions(live_usage.sources(chosen), chosen):
        counted = live_usage.count(SessionInput(key, live.session_id, live_usage.streams(live)))
        own = [row for row in counted.calls if row[live_usage.OWNER] and row[live_usage.KEY] not in shared]
        stored = [row for row in calls if row["session_id"] == live.session_id and row["call_key"] not in shared]
        assert sorted(tuple(row[p] for p in places) for row in own) == sorted(tuple(row[n] for n in COUNTED) for row in stored)
    return found


def _rows(opened: Any, table: str) -> list[dict[str, Any]]:
    return [row._asdict() for cell in opened.lake.cells(f"normalized/{table}") for row in opened.lake.read_rows(table, cell)]
