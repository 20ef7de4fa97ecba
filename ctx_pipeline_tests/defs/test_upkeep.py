"""Dagster's own records: what is switched on, and old runs that may go."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, ScheduleInstigatorData, TickData, TickStatus
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from ctx_pipeline.defs import launch, run_records, upkeep
from ctx_pipeline.model.raw import Cell
from ctx_pipeline_tests.factories.months import write_month

MARCH, APRIL = Cell("claude", "2026-03"), Cell("claude", "2026-04")


def newest(settings) -> dict[tuple[str, str | None], str]:
    """Return (asset, cell) -> the run of its newest materialization."""
    found = {}
    with launch.instance(settings) as instance:
        for key in instance.all_asset_keys():
            partitions = instance.get_materialized_partitions(key) or {None}
            for partition in partitions:
                chosen = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
                record = instance.fetch_materializations(chosen, limit=1).records[0]
                found[key.to_user_string(), partition] = record.run_id
    return found


def runs(settings) -> set[str]:
    with launch.instance(settings) as instance:
        return {run.run_id for run in instance.get_runs()}


@pytest.mark.feature("doctor.prune-runs")
def test_old_runs_go_and_every_cell_keeps_its_newest_materialization(settings, home):
    first = launch.run(settings).runs
    write_month(home, "2026-03", 1, prompts=2)
    second = launch.run(settings).runs
    write_month(home, "2026-03", 1, prompts=3)
    third = launch.run(settings).runs
    before = newest(settings)
    assert upkeep.prune(settings, days=1) == (0, 0)

    made = upkeep.prune(settings, days=0)

    # the first box still holds April's newest cells; the runs over March in between, and their tails, hold nothing
    assert runs(settings) == {first[0], *third}
    assert made == (len(first) - 1 + len(second), 1 + len(third))
    assert newest(settings) == before
    assert launch.run(settings).cells_materialized == 0


@pytest.mark.feature("doctor.schedule")
def test_what_dagster_runs_by_itself_is_told_with_its_last_tick(settings):
    assert upkeep.switches(settings) == []
    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="ctx_pipeline.definitions"))
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "__repository__"), "nightly")
    state = InstigatorState(origin, InstigatorType.SCHEDULE, InstigatorStatus.RUNNING, ScheduleInstigatorData("17 3 * * *", 0.0))
    with launch.instance(settings) as instance:
        instance.add_instigator_state(state)

    assert upkeep.switches(settings) == [("nightly", "schedule", True, None)]

    with launch.instance(settings) as instance:
        instance.create_tick(
            TickData(
                origin.get_id(),
                "nightly",
                InstigatorType.SCHEDULE,
                TickStatus.SUCCESS,
                1_767_571_200.0,
                run_ids=["a run"],
                selector_id=state.selector_id,
            )
        )
        instance.update_instigator_state(state.with_status(InstigatorStatus.STOPPED))

    assert upkeep.switches(settings) == [("nightly", "schedule", False, "2026-01-05T00:00:00.000000Z")]


@pytest.mark.feature("upkeep.bounded")
def test_all_but_the_newest_runs_go_and_no_newest_materialization(settings, home, monkeypatch):
    for prompts in range(2, 5):
        launch.run(settings)
        write_month(home, "2026-03", 1, prompts=prompts)
    before, known = newest(settings), runs(settings)
    monkeypatch.setattr(run_records, "KEEP_RUNS", 2)

    with launch.instance(settings) as instance:
        made = run_records.tidy(instance)

    assert made.removed == len(known - runs(settings)) > 0
    assert newest(settings) == before
    assert set(before.values()) <= runs(settings)


@pytest.mark.feature("upkeep.bounded")
def test_a_history_that_only_commands_write_stays_small_too(settings, home, monkeypatch):
    monkeypatch.setattr(run_records, "KEEP_RUNS", 2)
    monkeypatch.setattr(run_records, "SLACK", 1)
    seen = []
    for prompts in range(2, 7):
        write_month(home, "2026-03", 1, prompts=prompts)
        launch.run(settings)
        seen.append(len(runs(settings)))

    assert max(seen) <= 2 + 1 + 2, "those that are kept, the slack, and what a partition's newest stands in"
    assert set(newest(settings).values()) <= runs(settings)
