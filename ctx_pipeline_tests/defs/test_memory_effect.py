"""The measured effect of memories as an asset: off the path of a run, filled by backfill and by night, with its figures as metadata."""

from __future__ import annotations

import dagster as dg
import pytest

from ctx_pipeline.defs import automation, launch, location
from ctx_pipeline.pipeline import capture, plan
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store

EFFECT = dg.AssetKey(["memory", "effect"])


def planned(settings):
    with open_store(settings) as store:
        return plan.plan(store, settings, capture.scan(store, settings))


@pytest.mark.feature("dagster.effect")
def test_a_run_does_not_wait_for_it_the_night_asks_for_it_and_a_backfill_fills_it_with_its_figures(settings):
    with open_store(settings) as store:
        run_stages(store, settings)
    before = planned(settings)
    assert before.nothing_to_do
    assert "memory/effect" not in before.tail()
    assert before.tail(off_path=True) == ["memory/effect"]
    assert next(a for a in before.to_json()["assets"] if a["asset"] == "memory/effect")["filled_by"] == "night"

    for needs in before.assets["tokens/exact"].cells.values():
        needs.state = "fresh"
    with launch.instance(settings) as instance:
        (request,) = automation.requests(instance, before, "2026-11-21", before.assets.keys())
    assert [key.to_user_string() for key in request.asset_selection] == ["memory/effect"]

    outcome = launch.backfill(settings, "memory/effect")

    assert (len(outcome.runs), outcome.held) == (1, {})
    with launch.instance(settings) as instance:
        event = instance.get_latest_materialization_event(EFFECT)
        told = {name: value.value for name, value in event.asset_materialization.metadata.items()}
        assert {"status", "splits", "questions", "warnings", "proposals", "sessions_told", "figures_worse"} <= told.keys()
        assert all(isinstance(v, int | float) or name in ("status", "content_hash") for name, v in told.items())
    assert planned(settings).assets["memory/effect"].cells[WHOLE].state == "fresh"
    assert launch.backfill(settings, "memory/effect").runs == []


@pytest.mark.feature("dagster.effect")
def test_it_lies_below_the_memories_and_the_readings_it_compares_and_nothing_lies_below_it():
    graph = location.build().resolve_asset_graph()
    node = graph.get(EFFECT)
    above = {key.to_user_string() for key in node.parent_keys}

    assert {"memory/index", "signals/outcomes", "signals/spending", "normalized/events", "mined/error_resolutions"} <= above
    assert node.child_keys == set()
    assert node.automation_condition is None
    assert node.freshness_policy is None
    assert node.partitions_def is None
    assert node.code_version
