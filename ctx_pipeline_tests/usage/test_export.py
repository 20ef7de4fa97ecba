"""``ctx export parquet``: the live rows of every table, as files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ctx_pipeline.errors import StoreError
from ctx_pipeline.integrations.export import parquet
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.usage.conftest import ingested


@pytest.mark.feature("export.parquet")
def test_every_table_becomes_a_file_with_its_live_rows(homes: Settings, tmp_path: Path):
    ingested(homes)

    counts = parquet(tmp_path / "out", settings=homes)
    calls = pq.read_table(tmp_path / "out" / "model_calls.parquet").to_pylist()

    totals = usage("daily", settings=homes, stored=True).totals
    assert sum(row["output"] for row in calls if row["owner"]) == totals["output_tokens"] > 0
    assert counts["model_calls"] == len(calls)
    assert counts["events"] == pq.read_table(tmp_path / "out" / "events.parquet").num_rows > 100
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "out").iterdir()} == {0o600}
    assert parquet(tmp_path / "out", settings=homes) == counts


@pytest.mark.feature("export.parquet")
def test_the_store_itself_is_no_place_for_an_export(homes: Settings):
    ingested(homes)

    with pytest.raises(StoreError, match="in the store"):
        parquet(homes.home / "out", settings=homes)
