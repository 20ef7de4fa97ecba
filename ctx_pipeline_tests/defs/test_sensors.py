"""The observing sensors and the nightly schedule."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime

import dagster as dg
import pytest

from ctx_pipeline.defs import automation, launch, location, partitions, sensors
from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline.pipeline import capture
from ctx_pipeline.pipeline.capture import read_source
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.months import LONG_AGO, write_month

MARCH = "claude|2026-03"


def tick(settings, cursor=None):
    pipeline = Pipeline(settings)
    try:
        return sensors.tick("claude", cursor, pipeline)
    finally:
        pipeline.close()


def observed(result):
    return [str(event.partition) for event in result.asset_events]


@pytest.mark.feature("sensors.observe")
def test_a_tick_observes_the_cells_with_new_bytes_once_and_launches_nothing(settings):
    first = tick(settings)

    assert observed(first) == [MARCH, "claude|2026-04"]
    assert first.run_requests == []
    assert isinstance(tick(settings, first.cursor), dg.SkipReason)


@pytest.mark.feature("sensors.changed-cell")
def test_only_a_cell_whose_fingerprint_changed_is_observed_again(settings, home):
    first = tick(settings)
    write_month(home, "2026-03", 1, prompts=2)

    second = tick(settings, first.cursor)

    assert observed(second) == [MARCH]
    versions = [event.tags["dagster/data_version"] for event in (first.asset_events[0], second.asset_events[0])]
    assert versions[0] != versions[1]


@pytest.mark.feature("sensors.captured")
def test_what_was_captured_elsewhere_is_not_observed(settings):
    with open_store(settings) as store:
        capture.capture(store, settings)

    assert tick(settings).skip_message == "nothing new to observe"


@pytest.mark.feature("sensors.debounce")
def test_a_live_file_waits_and_the_skip_reason_says_so(settings, home):
    for path in home.rglob("*.jsonl"):
        os.utime(path, (time.time(), time.time()))

    assert tick(settings).skip_message == "nothing new to observe (2 still being written to)"


@pytest.mark.feature("sensors.small-cursor")
def test_the_cursor_names_cells_and_never_files(settings, home):
    for number in range(10, 30):
        write_month(home, "2026-03", number)

    cursor = json.loads(tick(settings).cursor)

    assert set(cursor["cells"]) == {MARCH, "claude|2026-04"}
    assert len(json.dumps(cursor)) < 250


@pytest.mark.feature("sensors.in-dagster")
def test_dagster_evaluates_the_sensor_into_observations_of_the_source(settings):
    definitions = location.build()
    repository = definitions.get_repository_def()

    ticked = repository.get_sensor_def("claude_sensor").evaluate_tick(dg.build_sensor_context(repository_def=repository))

    assert {event.asset_key.to_user_string() for event in ticked.asset_events} == {"source/sessions"}
    assert ticked.run_requests == []


@pytest.mark.slow
@pytest.mark.feature("sensors.100k")
def test_a_tick_over_100_000_known_files_opens_none_but_the_one_that_grew(settings, home, monkeypatch):
    folder = home / "projects" / "-many"
    folder.mkdir(parents=True)
    line = (
        b'{"type":"user","sessionId":"%08d-0000-4000-8000-000000000001","timestamp":"2026-03-05T10:00:00.000Z","message":{"role":"user"}}\n'
    )
    with open_store(settings) as store:
        for number in range(100_000):
            path = folder / f"{number:08d}-0000-4000-8000-000000000001.jsonl"
            path.write_bytes(line % number)
        found = capture.scan(store, settings)
        store.ledger.commit_capture(_as_captured(found))
    first = tick(settings)
    with (folder / f"{77:08d}-0000-4000-8000-000000000001.jsonl").open("ab") as file:
        file.write(line % 77)
    os.utime(file.name, (LONG_AGO, LONG_AGO))

    looked, begin = set(), read_source.opened.__init__
    monkeypatch.setattr(read_source.opened, "__init__", lambda self, path: looked.add(path) or begin(self, path))
    second = tick(settings, getattr(first, "cursor", None))

    assert observed(second) == [MARCH]
    assert looked == {file.name}


def _as_captured(scan):
    from ctx_pipeline.storage.ledger import Source

    for p in scan.pending:
        yield Source(
            stream=p.stream,
            host=p.host,
            root=p.root,
            rel=p.rel,
            kind=p.kind,
            size=p.size,
            mtime_ns=p.mtime_ns,
            inode=p.inode,
            captured=p.size,
            thread_id=p.rel.rpartition("/")[2].removesuffix(".jsonl"),
            relation="main",
            first_ts=1_772_704_800_000_000,
        )


def night(settings, day):
    """Return what the nightly schedule asks for: (run key, range, assets) of each run, or why it asks for nothing."""
    keys = {key.to_user_string() for key in location.build().resolve_asset_graph().get_all_asset_keys()}
    with launch.instance(settings) as instance:
        pipeline = Pipeline(settings)
        asked = automation.requests(instance, automation.look(pipeline), day, keys)
        pipeline.close()
    if isinstance(asked, dg.SkipReason):
        return asked.skip_message
    bounds = [partitions.RANGE_START, partitions.RANGE_END]
    return [([r.tags.get(name) for name in bounds], {key.to_user_string() for key in r.asset_selection}, r) for r in asked]


@pytest.mark.feature("schedule.nightly")
def test_the_night_asks_for_what_is_dirty_and_then_for_nothing(settings, home):
    ((bounds, assets, _),) = night(settings, "2026-11-21")
    assert bounds == [MARCH, "claude|2026-04"]
    assert {"raw/segments", "tokens/exact", "dashboard/site", "memory/effect"} <= assets

    launch.run(settings)
    # exact token counts are left to the night, and so is the replay of the history for what memories did
    ((bounds, assets, _),) = night(settings, "2026-11-22")
    assert (bounds, assets) == ([MARCH, "claude|2026-04"], {"tokens/exact", "memory/effect"})

    launch.backfill(settings, "tokens/exact")
    assert [(bounds, assets) for bounds, assets, _ in night(settings, "2026-11-23")] == [([None, None], {"memory/effect"})]

    launch.backfill(settings, "memory/effect")
    assert night(settings, "2026-11-24") == "nothing new"


@pytest.mark.feature("schedule.one-of-the-rest")
def test_ranges_that_lie_apart_are_followed_by_one_run_of_the_rest(settings, home):
    write_month(home, "2026-05", 3)
    launch.run(settings)
    launch.backfill(settings, "tokens/exact")
    for month, number in (("2026-03", 1), ("2026-05", 3)):
        write_month(home, month, number, prompts=2)

    asked = night(settings, "2026-11-21")

    assert [bounds for bounds, *_ in asked] == [[MARCH, MARCH], ["claude|2026-05"] * 2, [None, None]]
    assert all("dashboard/site" not in assets for _, assets, _ in asked[:-1])
    assert {"warehouse/duckdb", "dashboard/site"} <= asked[-1][1]
    assert int(asked[-1][2].tags["dagster/priority"]) < 0


@pytest.mark.feature("schedule.in-dagster")
def test_a_request_of_the_night_covers_cells_and_tail_in_one_run(settings):
    repository = location.build().get_repository_def()
    with launch.instance(settings) as instance:
        moment = datetime(2026, 11, 21, 3, 17, tzinfo=UTC)
        # what a context opens it closes at its own end; left to the collector, that is in the middle of another test
        with dg.build_schedule_context(instance=instance, repository_def=repository, scheduled_execution_time=moment) as context:
            request = repository.get_schedule_def("nightly").evaluate_tick(context).run_requests[0]
        job = repository.get_job("everything")
        result = job.execute_in_process(instance=instance, tags=request.tags, asset_selection=request.asset_selection)
        assert result.success
        assert instance.get_latest_materialization_event(dg.AssetKey(["dashboard", "site"])) is not None
    assert night(settings, "2026-11-22") == "nothing new"


@pytest.mark.feature("sensors.partitions")
def test_an_empty_instance_learns_at_the_first_tick_which_partitions_hold_sessions(settings, home):
    def tick():
        with dg.build_sensor_context(instance=instance) as context:
            return sensors.registrar()(context)

    with dg.DagsterInstance.ephemeral() as instance:
        first = tick()
        assert (first.run_requests, first.asset_events) == ([], [])
        (asked,) = first.dynamic_partitions_requests
        assert (asked.partitions_def_name, asked.partition_keys) == (partitions.NAME, [MARCH, "claude|2026-04"])
        instance.add_dynamic_partitions(asked.partitions_def_name, asked.partition_keys)
        assert tick().skip_message == "2 partitions are known"
        write_month(home, "2026-05", 3)
        assert tick().dynamic_partitions_requests[0].partition_keys == ["claude|2026-05"]
