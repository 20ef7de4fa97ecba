"""What ``ctx run`` says at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pipeline.page import page_records
from ctx_pipeline.pipeline.run import run_stages
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


@pytest.mark.feature("run.one-collection")
def test_the_end_of_a_run_tells_what_its_page_has_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = ClaudeHome(tmp_path / "claude")
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})
    collected = []
    original = page_records.judged
    monkeypatch.setattr(page_records, "judged", lambda *given: collected.append(1) or original(*given))
    with open_store(settings) as store:
        for session_id in ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"):
            home.session(session_id).answer(text("done"), usages=[used(0, 1000)], model="claude-opus-4-5-20251101").save()
            told = run_stages(store, settings)
            assert len(collected) == 1
            again = run_stages(store, settings)
            assert len(collected) == 2, "without a new page what the homes show may be newer"
            assert (told.usage, told.findings) == (again.usage, again.findings)
            collected.clear()
        assert told.usage["output"] == 2_000
