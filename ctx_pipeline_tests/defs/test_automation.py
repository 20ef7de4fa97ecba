"""The truth table of the one sensor that launches."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import dagster as dg
import pytest

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_file
from ctx_pipeline.defs import automation, launch, location, partitions, run_records, sensors
from ctx_pipeline.defs.resources import Pipeline, PipelineResource
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.months import write_month

SIGNAL = """
from ctx_pipeline.model.declared import Reading, signal


@signal(group="activity", reads=("events",))
def haste(view):
    \"\"\"Count.\"\"\"
    return Reading(float(len(view.prompts)))
"""

OURS = {run_records.LOCATION: run_records.LABEL}

PARTITIONED = {"raw/segments", "normalized/events", "signals/activity", "mined/error_resolutions"}
TAIL = {"search/index", "memory/used", "memory/consolidated", "memory/index", "warehouse/duckdb", "dashboard/site"}


class Daemon:
    """Asks the sensor tick by tick, and does with its answers what Dagster's daemon does, but for launching."""

    def __init__(self, instance):
        self.instance = instance
        self.cursor = None
        self.definitions = location.build()
        self.asked = None

    def tick(self, now=None):
        """Return partition keys of each request, joined (None for the tail alone) -> asset keys that are requested."""
        keys = {key.to_user_string() for key in self.definitions.resolve_asset_graph().get_all_asset_keys()}
        pipeline = Pipeline()
        self.asked = automation.tick(self.instance, self.cursor, pipeline, keys, now=now)
        pipeline.close()
        if isinstance(self.asked, dg.SkipReason):
            return {}
        self.cursor = self.asked.cursor
        for event in self.asked.asset_events:
            self.instance.report_runless_asset_event(event)
        found = {}
        for request in self.asked.run_requests:
            first, last = request.tags.get(partitions.RANGE_START), request.tags.get(partitions.RANGE_END)
            name = first if first == last else f"{first} {last}"
            assert name not in found
            found[name] = {key.to_user_string() for key in request.asset_selection}
        return found


@pytest.fixture
def daemon(settings):
    """A daemon that looks after `ctx run` brought everything up to date."""
    launch.run(settings)
    with launch.instance(settings) as instance:
        yield Daemon(instance)


def materialize(daemon, job=None):
    """Do what the daemon does with its last requests."""
    job = job or daemon.definitions.resolve_implicit_global_asset_job_def()
    return [
        job.execute_in_process(
            instance=daemon.instance, tags=request.tags, asset_selection=request.asset_selection, raise_on_error=False
        ).success
        for request in daemon.asked.run_requests
    ]


@pytest.mark.feature("automation.quiet")
def test_after_a_run_in_another_process_nothing_is_requested(daemon, home):
    assert daemon.tick() == {}

    # not because it is deaf: the next append is heard
    write_month(home, "2026-04", 2, prompts=2)
    assert set(daemon.tick()) == {"claude|2026-04"}


@pytest.mark.feature("automation.late-append")
def test_a_late_append_to_an_old_month_is_one_run_of_its_cell_and_the_page(daemon, home):
    assert daemon.tick() == {}
    write_month(home, "2026-03", 1, prompts=2)

    first = daemon.tick()
    assert set(first) == {"claude|2026-03"}
    assert first["claude|2026-03"] >= PARTITIONED | TAIL
    assert daemon.asked.run_requests[0].tags["ctx/by"] == "automation"
    assert materialize(daemon) == [True]
    assert daemon.tick() == {}
    assert launch.run(settings_file.load()).runs == [], "nothing was left to do"


@pytest.mark.feature("automation.once")
def test_what_was_requested_is_not_requested_again_and_nothing_while_a_run_is_under_way(daemon, home):
    write_month(home, "2026-03", 1, prompts=2)
    assert set(daemon.tick()) == {"claude|2026-03"}
    assert daemon.tick() == {}, "requested once, though nothing has run yet"

    write_month(home, "2026-03", 1, prompts=3)
    job = daemon.definitions.resolve_implicit_global_asset_job_def()
    run = daemon.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=OURS)
    assert daemon.tick() == {}
    assert run.run_id in daemon.asked.skip_message
    daemon.instance.report_run_failed(run)
    assert set(daemon.tick()) == {"claude|2026-03"}


@pytest.mark.feature("automation.killed-command")
def test_a_run_whose_command_was_killed_is_told_as_failed_and_holds_nothing_up(daemon, home):
    gone = subprocess.run(
        [sys.executable, "-c", "import os; from ctx_pipeline.model.process.process_identity import label; print(label(os.getpid()))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    job = daemon.definitions.resolve_implicit_global_asset_job_def()
    run = daemon.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={"ctx/process": gone, **OURS})
    write_month(home, "2026-03", 1, prompts=2)

    assert set(daemon.tick()) == {"claude|2026-03"}
    assert daemon.instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.FAILURE

    # executed again in the UI it bears the same tags, and another process works on it
    again = daemon.instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags=run.tags, parent_run_id=run.run_id, root_run_id=run.run_id
    )
    write_month(home, "2026-03", 1, prompts=3)
    assert daemon.tick() == {}
    assert daemon.instance.get_run_by_id(again.run_id).status is dg.DagsterRunStatus.STARTED


@pytest.mark.feature("automation.others-runs")
def test_runs_of_other_projects_hold_nothing_up_and_stay(daemon, home, monkeypatch):
    @dg.job
    def finance_etl():
        """Belong to another project."""

    busy = daemon.instance.create_run_for_job(finance_etl, status=dg.DagsterRunStatus.STARTED)
    done = [daemon.instance.create_run_for_job(finance_etl, status=dg.DagsterRunStatus.SUCCESS) for _ in range(4)]
    write_month(home, "2026-03", 1, prompts=2)
    assert set(daemon.tick()) == {"claude|2026-03"}

    monkeypatch.setattr(run_records, "KEEP_RUNS", 1)
    run_records.tidy(daemon.instance)
    assert {run.run_id for run in daemon.instance.get_runs()} >= {busy.run_id, *(run.run_id for run in done)}


@pytest.mark.feature("automation.unknown-asset")
def test_a_signal_that_was_added_since_the_graph_was_loaded_is_named(daemon, settings):
    signal = settings.home / "config" / "signals" / "haste.py"
    signal.parent.mkdir(parents=True)
    signal.write_text(SIGNAL)
    try:
        assert daemon.tick() == {}
        assert daemon.asked.skip_reason.skip_message == "added since the definitions were loaded, so reload them in ctx ui: signals/haste"
    finally:
        discovery.look_in(None)
        discovery.reload()


@pytest.mark.feature("automation.observed")
def test_what_is_captured_was_observed_before(daemon, home):
    write_month(home, "2026-03", 1, prompts=2)
    daemon.tick()
    materialize(daemon)

    source, raw = dg.AssetKey(["source", "sessions"]), dg.AssetKey(["raw", "segments"])
    (seen,) = daemon.instance.fetch_observations(source, limit=5).records
    made = daemon.instance.fetch_materializations(raw, limit=1).records[0]
    assert str(seen.partition_key) == str(made.partition_key) == "claude|2026-03"
    assert seen.storage_id < made.storage_id
    tags = made.event_log_entry.asset_materialization.tags
    assert tags["dagster/input_event_pointer/source/sessions"] == str(seen.storage_id)
    assert tags["dagster/input_data_version/source/sessions"] == seen.event_log_entry.asset_observation.tags["dagster/data_version"]


@pytest.mark.feature("automation.new-month")
def test_a_session_of_a_month_never_seen_is_requested(daemon, home):
    write_month(home, "2026-05", 3)

    assert set(daemon.tick()) == {"claude|2026-05"}
    (added,) = daemon.asked.dynamic_partitions_requests
    assert added.partition_keys == ["claude|2026-05"]
    assert materialize(daemon) == [True]


@pytest.mark.feature("automation.live-file")
def test_a_file_that_is_still_written_to_is_left_alone(daemon, home):
    path = write_month(home, "2026-03", 1, prompts=2)
    os.utime(path, (time.time(), time.time()))
    assert daemon.tick() == {}

    os.utime(path, (time.time() - 600, time.time() - 600))
    assert set(daemon.tick()) == {"claude|2026-03"}, "once it has been quiet"


@pytest.mark.feature("automation.never-quiet")
def test_a_session_that_never_pauses_is_captured_every_ten_minutes(daemon, home):
    began = time.time()
    requested = []
    for tick in range(24):  # a line and a tick a minute, each as the clock stands then
        path = write_month(home, "2026-03", 1, prompts=2 + tick)
        os.utime(path, (time.time(), time.time()))
        if "raw/segments" in daemon.tick(now=began + 60 * tick).get("claude|2026-03", ()):
            requested.append(tick)
            with open_store(settings_file.load()) as store:
                ingest(store, settings_file.load())

    assert requested == [10, 21]


@pytest.mark.feature("automation.own-runs-elsewhere")
def test_a_run_elsewhere_between_two_ticks_leaves_nothing_to_request(daemon, home, settings):
    daemon.tick()
    write_month(home, "2026-03", 1, prompts=2)
    launch.run(settings)
    assert daemon.tick() == {}

    write_month(home, "2026-03", 1, prompts=3)
    assert set(daemon.tick()) == {"claude|2026-03"}, "what that run did not see"


@pytest.mark.feature("automation.after-sync")
def test_what_a_hook_ingested_is_finished(daemon, home, settings):
    write_month(home, "2026-04", 2, prompts=2)
    with open_store(settings) as store:
        ingest(store, settings)

    found = daemon.tick()

    assert set(found) == {"claude|2026-04"}
    assert {"signals/activity", "mined/error_resolutions"} <= found["claude|2026-04"]
    assert not {"raw/segments", "normalized/events"} & found["claude|2026-04"]


@pytest.mark.feature("automation.new-signal")
def test_a_new_signal_is_left_to_a_person(daemon, home, settings, monkeypatch):
    known = code_versions.collect(settings)
    added = replace(known, families=known.families | {"churn": (("events",), "how often")}, assets=known.assets | {"signals/churn": "1"})
    monkeypatch.setattr(code_versions, "versions", lambda *_, **__: added)
    daemon.definitions = location.build(versions=added)
    assert daemon.tick() == {}

    write_month(home, "2026-03", 1, prompts=2)
    asked = daemon.tick()
    assert set(asked) == {"claude|2026-03"}
    assert "signals/churn" not in asked["claude|2026-03"], "not even beside the families that have new input"


@pytest.mark.feature("automation.partial-backfill")
def test_a_new_signal_that_a_person_filled_for_a_month_is_not_filled_for_the_others(daemon, settings):
    with open_store(settings) as store:
        store.ledger.forget_asset("signals/activity", [Cell("claude", "2026-03"), Cell("claude", "2026-04")])
    assert daemon.tick().keys() <= {None}

    launch.backfill(settings, "signals/activity", cells=["claude|2026-03"])
    below = {key for asked in daemon.tick().values() for key in asked}
    assert "signals/activity" not in below, "April stays as it is; what lies below March may be asked for"


@pytest.mark.feature("automation.code-version")
def test_a_new_code_version_requests_the_cells_of_that_asset_alone(daemon, settings, monkeypatch):
    known = code_versions.collect(settings)
    bumped = replace(known, assets=known.assets | {"signals/activity": "another"})
    monkeypatch.setattr(code_versions, "versions", lambda *_, **__: bumped)
    daemon.definitions = location.build(versions=bumped)

    asked = daemon.tick()
    assert set(asked) == {"claude|2026-03 claude|2026-04"}
    assert {key for key in asked["claude|2026-03 claude|2026-04"] if key.partition("/")[0] in ("raw", "normalized", "signals")} == {
        "signals/activity"
    }


@pytest.mark.feature("automation.failed-cell")
def test_a_cell_that_failed_is_not_requested_again_until_its_input_changes(daemon, home, settings, holding):
    bad = location.build(holding(settings, "measure", Cell("claude", "2026-03"))).resolve_implicit_global_asset_job_def()

    write_month(home, "2026-03", 1, prompts=2)
    assert "signals/activity" in daemon.tick()["claude|2026-03"]
    assert materialize(daemon, bad) == [False]
    # its tables are new now, which is new input for what reads them; it fails on these as well
    again = daemon.tick()["claude|2026-03"]
    assert "signals/activity" in again
    assert "normalized/events" not in again
    assert materialize(daemon, bad) == [False]

    seen = [daemon.tick() for _ in range(3)]
    assert all("signals/activity" not in found.get("claude|2026-03", ()) for found in seen)

    write_month(home, "2026-03", 1, prompts=3)
    assert "signals/activity" in daemon.tick()["claude|2026-03"]


@pytest.mark.feature("automation.evaluated-in-code-server")
def test_the_automation_sensor_turns_a_tick_into_run_requests(daemon, home):
    write_month(home, "2026-03", 1, prompts=2)
    repository = daemon.definitions.get_repository_def()
    context = dg.build_sensor_context(instance=daemon.instance, repository_def=repository)

    ticked = repository.get_sensor_def("automation").evaluate_tick(context)

    assert [request.tags[partitions.RANGE_START] for request in ticked.run_requests] == ["claude|2026-03"]


@pytest.mark.feature("dagster.resource")
def test_sensors_and_schedule_look_at_the_store_of_the_resource(settings, home, tmp_path, monkeypatch):
    other = tmp_path / "other"
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "nobody's"))
    definitions = location.build(resource=PipelineResource(store=str(other)))
    with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance=instance) as context:
        for sensor in definitions.sensors:
            if sensor.name != sensors.UPKEEP:
                sensor.evaluate_tick(context)
    assert (other / "ledger.db").is_file()
    assert not (tmp_path / "nobody's").exists()
