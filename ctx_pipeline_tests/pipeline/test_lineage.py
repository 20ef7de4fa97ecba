"""Every derived row leads to the bytes it came from, and its cell names the version of the code that made it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ctx_pipeline.model.tables import NORMALIZED
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.raw.segments import read_stream

TABLES = {f"normalized/{table}" for table in NORMALIZED}
SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of the sample homes."""
    folder = tmp_path_factory.mktemp("lineage")
    for host in ("claude", "codex"):
        shutil.copytree(SAMPLES / host, folder / host)
    settings = Settings(home=folder / "store", timezone="UTC", demo_roots={h: (folder / h,) for h in ("claude", "codex")})
    with open_store(settings) as store:
        run_stages(store, settings)
        yield store, settings


def rows(store, table):
    return [
        row for cell in [*store.ledger.cells(), *store.lake.manifests("memory/consolidated")] for row in store.lake.read_rows(table, cell)
    ]


@pytest.mark.feature("tables.lineage")
@pytest.mark.parametrize("table", ["events", "model_calls"])
def test_a_row_names_the_bytes_of_its_record(made, table):
    store, _ = made
    found = rows(store, table)
    streams = store.ledger.segments_of({row.stream for row in found})
    raw = {
        s: {g: read_stream(store.files, [p for p in pieces if p.generation == g]) for g in {p.generation for p in pieces}}
        for s, pieces in streams.items()
    }

    assert len(found) > 20
    for row in found:
        record = raw[row.stream][row.generation][row.start : row.end]
        assert record.endswith(b"\n") or row.end == len(raw[row.stream][row.generation])
        assert isinstance(json.loads(record), dict)
    if table == "model_calls":
        keyed = [row for row in found if row.host == "claude"]
        assert all(row.call_key.encode() in raw[row.stream][row.generation][row.start : row.end] for row in keyed)


@pytest.mark.feature("tables.lineage")
def test_what_is_derived_names_the_rows_that_it_was_made_of(made):
    store, _ = made
    events = {row.event_id for row in rows(store, "events")}
    calls, readings = rows(store, "tool_calls"), rows(store, "readings")
    candidates, memories = rows(store, "candidates"), rows(store, "memories")

    assert {c.call_event for c in calls} | {c.result_event for c in calls if c.result_event} <= events
    assert {e for r in readings for e in r.evidence} <= events
    assert sum(bool(r.evidence) for r in readings) > 10
    assert all(c.evidence and set(c.evidence) <= events for c in candidates)
    assert memories
    assert {c for m in memories for c in m.candidates} <= {c.candidate_id for c in candidates}
    assert {e for m in memories for e in m.evidence} <= events
    assert all(r.version >= 1 and len(r.input) >= 16 for r in readings)
    assert all(c.version >= 1 for c in candidates)


@pytest.mark.feature("tables.lineage")
def test_every_cell_names_the_version_of_the_code_that_made_it(made):
    store, settings = made
    versions, decoders = code_versions.collect(settings), code_versions.decoders(store.files, settings)
    seen = set()
    for asset, cell in store.ledger.recorded():
        told = store.ledger.asset_cell(asset, cell).code_version
        expected = decoders[cell.host] if asset in TABLES else versions.of(asset)
        assert told.startswith(expected), asset
        seen.add(asset)

    assert seen >= TABLES | {"signals/outcomes", "mined/error_resolutions", "warehouse/duckdb"}
