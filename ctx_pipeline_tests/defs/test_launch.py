"""Runs in this process on the persistent instance."""

from __future__ import annotations

import os
import stat
import sys
import traceback
from contextlib import contextmanager

import dagster as dg
import pytest
from dagster._check import CheckError
from dagster._core.storage.event_log import SqlEventLogStorage
from sqlalchemy.engine.reflection import Inspector

from ctx_pipeline import discovery
from ctx_pipeline.defs import checks, event_log, launch, partitions, web
from ctx_pipeline.defs.execution import Execution
from ctx_pipeline.errors import OutOfResources, UnknownName
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests import preloaded, processes
from ctx_pipeline_tests.factories.months import write_month
from ctx_pipeline_tests.factories.shipped import environment

MARCH, APRIL = Cell("claude", "2026-03"), Cell("claude", "2026-04")


def materialized(instance, asset):
    return {str(key) for key in instance.get_materialized_partitions(dg.AssetKey(asset.split("/")))}


def states(instance, asset):
    from ctx_pipeline.defs import partitions

    key = dg.AssetKey(asset.split("/"))
    found = instance.get_status_by_partition(key, [MARCH.key, APRIL.key], partitions.definition())
    return {name: status.value if status else None for name, status in found.items()}


@pytest.mark.feature("launch.history")
def test_a_first_run_is_one_box_and_one_tail_and_stays_in_the_history(settings):
    outcome = launch.run(settings)

    assert (outcome.failed, outcome.cells_materialized, len(outcome.runs)) == ([], 2, 2)
    with launch.instance(settings) as instance:
        assert [run.status.value for run in instance.get_runs()] == ["SUCCESS", "SUCCESS"]
        assert materialized(instance, "signals/activity") == {MARCH.key, APRIL.key}
        last = instance.get_latest_materialization_event(dg.AssetKey(["normalized", "events"])).asset_materialization
        assert last.metadata["dagster/row_count"].value == 2
        evaluated = instance.get_records_for_run(outcome.runs[0], of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records
        found = {
            r.event_log_entry.dagster_event.event_specific_data.check_name: r.event_log_entry.dagster_event.event_specific_data
            for r in evaluated
        }
        assert {name: c.passed for name, c in found.items()} == dict.fromkeys(found, True)
        assert len(found) == len(checks.CHECKS) + 2, "one for the history, one name for all families"
        assert found["bytes_conserved"].metadata["captured_bytes"].value > 0


@pytest.mark.feature("launch.append")
def test_an_append_materializes_its_cell_alone(settings, home):
    launch.run(settings)
    write_month(home, "2026-03", 1, prompts=2)

    outcome = launch.run(settings)

    assert outcome.cells_materialized == 1
    with launch.instance(settings) as instance:
        records = instance.get_records_for_run(outcome.runs[0], of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
        assert {r.partition_key for r in records} == {MARCH.key}
    assert launch.run(settings).runs == []


@pytest.mark.feature("launch.quiet-metadata")
def test_no_text_of_a_session_reaches_the_event_log(settings, home):
    launch.run(settings)

    log = b"".join(path.read_bytes() for path in (settings.home / "dagster").rglob("*") if path.is_file())

    assert b"normalized" in log
    assert b"mend the parser" not in log


@pytest.mark.feature("launch.bad-cell")
def test_a_bad_cell_of_a_range_is_red_alone_and_the_good_one_goes_on(settings, holding):
    outcome = launch.run(settings, pipeline=holding(settings, "measure", MARCH))

    assert outcome.failed == ["claude|2026-03: rows break the contract"]
    with launch.instance(settings) as instance:
        assert states(instance, "signals/activity") == {MARCH.key: "FAILED", APRIL.key: "MATERIALIZED"}
        assert states(instance, "normalized/events") == {MARCH.key: "MATERIALIZED", APRIL.key: "MATERIALIZED"}
        assert materialized(instance, "mined/error_resolutions") >= {APRIL.key}
        assert instance.get_latest_materialization_event(dg.AssetKey(["dashboard", "site"])) is not None

    assert launch.run(settings).failed == []


@pytest.mark.feature("launch.bad-cell-in-ui")
def test_a_range_launched_elsewhere_leaves_only_the_bad_cell_red(settings, holding):
    with open_store(settings) as store:
        from ctx_pipeline.pipeline.ingest import ingest

        ingest(store, settings)
    with launch.instance(settings) as instance, Execution(settings, instance, pipeline=holding(settings, "measure", MARCH)) as job:
        result = job._run(
            ["signals/activity", "signals/outcomes"],
            tags={
                "dagster/asset_partition_range_start": MARCH.key,
                "dagster/asset_partition_range_end": APRIL.key,
            },
            title="range",
        )

        assert not result.success
        assert states(instance, "signals/outcomes") == {MARCH.key: "FAILED", APRIL.key: "MATERIALIZED"}


@pytest.mark.feature("launch.backfill")
def test_a_backfill_makes_one_asset_and_nothing_else(settings):
    launch.run(settings)

    outcome = launch.backfill(settings, "signals/activity", cells=[MARCH.key], force=True)

    assert (outcome.cells_materialized, len(outcome.runs)) == (1, 1)
    with launch.instance(settings) as instance:
        records = instance.get_records_for_run(outcome.runs[0], of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
        assert [(r.asset_key.to_user_string(), r.partition_key) for r in records] == [("signals/activity", MARCH.key)]
    assert launch.backfill(settings, "signals/activity").runs == []
    with pytest.raises(UnknownName):
        launch.backfill(settings, "signals/none")
    with pytest.raises(UnknownName):
        launch.backfill(settings, "signals/activity", cells=["claude|2031-01"])


@pytest.mark.feature("launch.force")
@pytest.mark.parametrize("how", ["backfill", "launchpad"])
def test_what_is_fresh_is_made_anew_where_a_person_forces_it(settings, how):
    launch.run(settings)
    assert launch.backfill(settings, "signals/activity").runs == []

    if how == "backfill":
        outcome = launch.backfill(settings, "signals/activity", cells=[MARCH.key], force=True)
        reports = outcome.reports
    else:
        with launch.instance(settings) as instance, Execution(settings, instance) as job:
            result = job._job.execute_in_process(
                run_config={"ops": {"signals": {"config": {"force": True}}}},
                instance=instance,
                asset_selection=[dg.AssetKey(["signals", "activity"])],
                tags={"dagster/partition": MARCH.key},
            )
            assert result.success
        reports = job.outcome.reports

    (measured,) = [report for report in reports if report.stage == "measure"]
    assert measured.cells[MARCH.key].made == ("signals/activity",)
    assert measured.totals["readings"] == len(discovery.families()["activity"].signals)


@pytest.mark.feature("launch.progress")
def test_progress_counts_up_and_ends_at_its_total(settings):
    told = []
    launch.run(settings, progress=lambda *step: told.append(step))

    boxes = [(done, total) for title, done, total in told if title == "claude 2026-03 to 2026-04"]
    assert boxes[0] == (0, 1)
    assert [done for done, _ in boxes] == sorted(done for done, _ in boxes)
    assert boxes[-1][0] == boxes[-1][1] >= 4
    assert "page" in {title for title, _, _ in told}


@pytest.mark.feature("launch.event-order")
def test_stages_run_in_the_order_of_the_flow(settings):
    outcome = launch.run(settings)

    with launch.instance(settings) as instance:
        order = [
            record.asset_key.to_user_string()
            for run in outcome.runs
            for record in reversed(
                instance.get_records_for_run(run, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION, ascending=False).records
            )
        ]
    first = {key: order.index(key) for key in order}
    assert first["raw/segments"] < first["normalized/events"] < first["signals/activity"] < first["memory/consolidated"]
    assert first["memory/consolidated"] < first["memory/index"] < first["warehouse/duckdb"] < first["dashboard/site"]


@pytest.mark.feature("cli.full-disk")
def test_an_event_log_that_the_disk_has_no_room_for_says_so_plainly(tmp_path):
    log = event_log.KeptConnectionEventLog(str(tmp_path))
    with log.index_connection() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OutOfResources, match="the disk has no room left"), log.index_connection() as connection:
        connection.exec_driver_sql("CREATE TABLE filler AS SELECT zeroblob(1000000)")


@pytest.mark.feature("launch.private-home")
def test_the_instance_is_private_and_its_configuration_is_ours(settings):
    home = launch.prepare_home(settings)

    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "dagster.yaml").stat().st_mode) == 0o600
    with launch.instance(settings) as instance:
        assert not instance.telemetry_enabled
        assert type(instance.event_log_storage).__name__ == "KeptConnectionEventLog"
        assert type(instance.run_storage).__name__ == "KeptConnectionRuns"
        assert type(instance.compute_log_manager).__name__ == "NoOpComputeLogManager"
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 2
    assert "DAGSTER_HOME" not in os.environ


@pytest.mark.feature("launch.private-home")
def test_a_partition_that_another_process_removed_is_unknown_after_a_moment(settings, monkeypatch):
    named = (partitions.NAME, "claude|2026-03")
    with launch.instance(settings) as first, launch.instance(settings) as second:
        first.add_dynamic_partitions(partitions.NAME, ["claude|2026-03"])
        assert first.has_dynamic_partition(*named)
        first.delete_dynamic_partition(*named)
        assert not first.has_dynamic_partition(*named)
        second.add_dynamic_partitions(partitions.NAME, ["claude|2026-03"])
        assert first.has_dynamic_partition(*named)
        second.delete_dynamic_partition(*named)
        monkeypatch.setattr(event_log, "_KNOWN_SECONDS", 0.0)
        assert not first.has_dynamic_partition(*named)


@pytest.mark.feature("launch.cheap-events")
def test_a_partition_that_another_process_added_is_listed_at_once(settings):
    with launch.instance(settings) as first, launch.instance(settings) as second:
        assert list(first.get_dynamic_partitions(partitions.NAME)) == []
        assert processes.run([sys.executable, "-c", _ADDS, str(settings.home / "dagster")]).returncode == 0
        assert list(first.get_dynamic_partitions(partitions.NAME)) == ["claude|2026-03"]
        first.add_dynamic_partitions(partitions.NAME, ["claude|2026-04"])
        assert [len(one.get_dynamic_partitions(partitions.NAME)) for one in (first, second)] == [2, 2]
        second.delete_dynamic_partition(partitions.NAME, "claude|2026-03")
        assert [list(one.get_dynamic_partitions(partitions.NAME)) for one in (first, second)] == [["claude|2026-04"]] * 2
        first.event_log_storage.wipe()
        assert [list(one.get_dynamic_partitions(partitions.NAME)) for one in (first, second)] == [[], []]


@pytest.mark.feature("launch.cheap-events")
def test_a_partition_that_is_listed_while_it_is_removed_is_not_listed_after(settings, monkeypatch):
    remove = SqlEventLogStorage.delete_dynamic_partition

    def list_then_remove(log, *named):
        assert list(log.get_dynamic_partitions(partitions.NAME)) == ["claude|2026-03"]
        remove(log, *named)

    with launch.instance(settings) as instance:
        instance.add_dynamic_partitions(partitions.NAME, ["claude|2026-03"])
        monkeypatch.setattr(SqlEventLogStorage, "delete_dynamic_partition", list_then_remove)
        instance.delete_dynamic_partition(partitions.NAME, "claude|2026-03")
        assert list(instance.get_dynamic_partitions(partitions.NAME)) == []


_ADDS = f"""
import sys
import dagster as dg
with dg.DagsterInstance.from_config(sys.argv[1]) as other:
    other.add_dynamic_partitions({partitions.NAME!r}, ["claude|2026-03"])
"""


@pytest.mark.feature("launch.cheap-events")
def test_what_a_run_plans_is_one_transaction_and_the_schema_is_read_once(settings, monkeypatch):
    begun, read = [], []
    transaction, columns = event_log._begun, Inspector.get_columns

    @contextmanager
    def count(address):
        callers = [frame.name for frame in traceback.extract_stack(limit=12) if frame.filename == event_log.__file__]
        begun.append(next((name for name in callers if name.startswith("store_event")), ""))
        with transaction(address) as connection:
            yield connection

    monkeypatch.setattr(event_log, "_begun", count)
    monkeypatch.setattr(Inspector, "get_columns", lambda *a, **k: read.append(a) or columns(*a, **k))
    outcome = launch.run(settings)

    with launch.instance(settings) as instance:
        planned = [len(instance.get_records_for_run(run, of_type=_PLANNED).records) for run in outcome.runs]
        events = sum(len(instance.all_logs(run)) for run in outcome.runs)
    assert min(planned) > 5
    assert len(read) < 12, "a few for each instance, and none for an event"
    assert begun.count("store_event_batch") == len(outcome.runs)
    assert begun.count("store_event") == events - sum(planned), "one for each other event"


_PLANNED = {dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED, dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED}


@pytest.mark.feature("launch.cheap-events")
def test_of_events_that_come_together_one_that_cannot_be_written_takes_none_twice(settings):
    with launch.instance(settings) as instance:
        log = instance.event_log_storage
        good = dg.EventLogEntry(error_info=None, level=10, user_message="", run_id="a", timestamp=1.0)
        with pytest.raises(CheckError, match="event"):
            log.store_event_batch([good, "no event"])
        assert log.get_logs_for_run("a") == []
        log.store_event(good)
        assert len(log.get_logs_for_run("a")) == 1


@pytest.mark.feature("launch.ui-environment")
def test_the_ui_sees_the_same_store_and_homes(settings, tmp_path):
    environment = web.environment(settings, tmp_path, watch=True)

    assert (environment["CTX_HOME"], environment["DAGSTER_HOME"], environment["CTX_WATCH"]) == (str(settings.home), str(tmp_path), "1")
    assert web.environment(settings, tmp_path)["CTX_WATCH"] == ""


@pytest.mark.slow
@pytest.mark.feature("launch.two-processes")
def test_two_processes_on_different_cells_both_end_well(settings, tmp_path):
    script = """
import sys
from ctx_pipeline import settings
from ctx_pipeline.defs import launch
from ctx_pipeline.defs.execution import Execution
from ctx_pipeline.model.raw import Cell
s = settings.load()
with launch.instance(s) as instance, Execution(s, instance) as job:
    job.run_cells([Cell.of(sys.argv[1])])
    job.run_tail()
sys.exit(bool(job.outcome.held))
"""
    running = [preloaded.begin("-c", script, cell.key, env=environment(tmp_path), cwd=tmp_path) for cell in (MARCH, APRIL)]
    assert [process.result().returncode for process in running] == [0, 0]

    with launch.instance(settings) as instance:
        assert materialized(instance, "mined/error_resolutions") == {MARCH.key, APRIL.key}
    with open_store(settings) as store:
        assert store.ledger.totals()["sessions"] == 2
    assert launch.run(settings).runs == []
