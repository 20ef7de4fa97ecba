"""What ``ctx run`` says at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pipeline.run_report import summary
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import database
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.claude import usage as used

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.feature("run.totals")
def test_the_totals_of_a_run_are_those_of_usage_calls_without_a_time_included(tmp_path: Path):
    session = ClaudeHome(tmp_path / "claude").session()
    for when in ("2026-03-01T10:00:00.000Z", "yesterday"):
        session.answer(text("done"), usages=[used(0, 1000)], model="claude-opus-4-5-20251101", timestamp=when)
    session.save()
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})
    with open_store(settings) as store:
        ingest(store, settings)
        database.build(database.views(store.lake), store.warehouse_path)

        told = summary(store, settings, None, seconds=0.0).usage

    totals = usage("daily", settings=settings).totals
    # twice 1,000 tokens at 25 dollars a million
    assert (told["calls"], told["output"], told["cost"]) == (2, 2000, 50_000_000)
    assert (totals["calls"], totals["output_tokens"], totals["cost_nano"]) == (2, 2000, 50_000_000)
