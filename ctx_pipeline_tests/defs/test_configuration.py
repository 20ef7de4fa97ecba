"""The graph configured as that of any Dagster project: settings of the instance, executor, resource and pools."""

from __future__ import annotations

import threading
from dataclasses import replace

import dagster as dg
import pytest

from ctx_pipeline.defs import assets, instance_settings, launch, location, partitions
from ctx_pipeline.defs.resources import PipelineResource
from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.defs.conftest import LOCATION, placed, web_server
from ctx_pipeline_tests.defs.requests import LAUNCH, STATUS
from ctx_pipeline_tests.waiting import eventually

POOLS = {"granularity": "run", "default_limit": 1}

OURS = {
    "telemetry": {"enabled": False},
    "compute_logs": {"module": "a", "class": "B"},
    "concurrency": {"pools": POOLS, "runs": {"max_concurrent_runs": 2}},
    "event_log_storage": {"module": "c", "class": "D"},
}


@pytest.mark.feature("dagster.settings-merged")
@pytest.mark.parametrize(
    ("own", "found"),
    [
        ({}, {key: value for key, value in OURS.items() if key != "event_log_storage"}),
        (
            {"concurrency": {"runs": {"max_concurrent_runs": 9}}},
            {"runs": {"max_concurrent_runs": 9}, "pools": POOLS},
        ),
        ({"run_queue": {"max_concurrent_runs": 9}}, {"pools": POOLS}),
        ({"concurrency": {"default_op_concurrency_limit": 4}}, {"default_op_concurrency_limit": 4, "runs": {"max_concurrent_runs": 2}}),
        ({"compute_logs": {"module": "mine", "class": "Logs", "config": {}}}, {"module": "mine", "class": "Logs", "config": {}}),
        ({"storage": {"postgres": {}}}, {"postgres": {}}),
    ],
    ids=["nothing", "one limit", "a queue of its own", "the former kind of pools", "a class with its config", "storage"],
)
def test_what_a_persons_settings_do_not_name_is_ours(own, found):
    made = instance_settings.merged(own, OURS)

    (named,) = own or [None]
    assert (made if named is None else made["concurrency" if named == "run_queue" else named]) == found
    assert "event_log_storage" not in made, "where history lies is never decided behind the file's back"
    assert made["telemetry"] == {"enabled": False}


@pytest.mark.feature("dagster.settings-merged")
def test_our_file_with_a_line_of_a_person_stays_as_it_is_and_is_in_force(settings):
    home = instance_settings.prepare_home(settings)
    file = home / "dagster.yaml"
    written = file.read_text()
    assert instance_settings.in_force(home) is None
    edited = written.replace("max_concurrent_runs: 2", "max_concurrent_runs: 5").replace("telemetry:\n  enabled: false\n", "")
    file.write_text(edited)

    with launch.instance(settings) as instance:
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 5
        assert instance.get_concurrency_config().pool_config.default_pool_limit == 1
        assert not instance.telemetry_enabled, "what was taken out is ours again"
    assert file.read_text() == edited

    file.write_text(written)
    with launch.instance(settings) as instance:
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 2


@pytest.mark.feature("dagster.executor")
def test_the_executor_is_a_setting(settings):
    from ctx_pipeline.defs.resources import Pipeline

    def chosen(name):
        return location.build(Pipeline(replace(settings, config={"dagster": {"executor": name}}))).executor

    assert chosen("multiprocess") is dg.multiprocess_executor
    assert chosen("dagster:in_process_executor") is dg.in_process_executor
    for name in ("no_such", "dagster:no_such", "no_such_package:executor", "dagster:asset"):
        with pytest.raises(SettingsError, match=r"dagster\.executor"):
            chosen(name)


@pytest.mark.feature("dagster.resource")
def test_another_code_location_names_the_store_and_force(settings, tmp_path):
    other = tmp_path / "other"
    cells = partitions.definition()
    raw = assets.build(code_versions.collect(settings), cells)[1:3]

    def rows(resource):
        with dg.DagsterInstance.ephemeral() as instance:
            partitions.add(instance, [Cell("claude", "2026-03")])
            made = dg.materialize(raw, resources={"pipeline": resource}, partition_key="claude|2026-03", instance=instance)
            event = made.asset_materializations_for_node("normalized")[0]
        return "status" in event.metadata, event.metadata["dagster/row_count"].value

    assert rows(PipelineResource(store=str(other))) == (True, 2)
    assert (other / "ledger.db").is_file()
    assert not (settings.home / "ledger.db").exists()
    assert rows(PipelineResource(store=str(other))) == (False, 2), "fresh, so not made again"
    assert rows(PipelineResource(store=str(other), force=True)) == (True, 2)


@pytest.mark.feature("dagster.resource")
def test_a_run_may_force_and_may_not_name_another_store(settings, tmp_path):
    job = location.build(resource=PipelineResource(store=str(tmp_path / "mine"))).resolve_implicit_global_asset_job_def()
    raw = [dg.AssetKey(["raw", "segments"])]

    def config(**fields):
        return {"resources": {"pipeline": {"config": fields}}}

    with dg.DagsterInstance.ephemeral() as instance:
        partitions.add(instance, [Cell("claude", "2026-03")])
        made = job.execute_in_process(config(force=True), instance=instance, asset_selection=raw, partition_key="claude|2026-03")
        assert made.success
        with pytest.raises(dg.DagsterInvalidConfigError, match="store"):
            job.execute_in_process(config(store=str(tmp_path / "x")), instance=instance, asset_selection=raw)
    assert (tmp_path / "mine" / "ledger.db").is_file()
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
@pytest.mark.feature("dagster.pools")
def test_a_second_run_of_what_has_one_writer_waits_in_the_queue_and_others_pass_it(settings):
    from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

    launch.run(settings)
    placed(settings)
    with web_server(settings) as (post, workspace), open_store(settings) as store:
        daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)

        def clicked(*path, **tags):
            selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": "__ASSET_JOB"}
            metadata = {"tags": [{"key": f"dagster/{key}", "value": value} for key, value in tags.items()]}
            params = {"selector": selector | {"assetSelection": [{"path": list(path)}]}, "mode": "default", "runConfigData": {}}
            return post(LAUNCH, params=params | {"executionMetadata": metadata})["run"]["runId"]

        def turn():
            list(daemon.run_iteration(workspace))

        def states():
            return {run["runId"]: run["status"] for run in post(STATUS)["results"]}

        with store.ledger.lease("warehouse/duckdb"):  # the first run's step does not end before this one
            first, second = clicked("warehouse", "duckdb"), clicked("warehouse", "duckdb")
            beside = clicked("signals", "activity", partition="claude|2026-03")
            launched = threading.Thread(target=turn)
            launched.start()
            eventually(lambda: states()[first] == "STARTED")
            turn()
            assert (states()[first], states()[second], states()[beside]) == ("STARTED", "QUEUED", "SUCCESS")
        launched.join()
        turn()
        assert {states()[run] for run in (first, second, beside)} == {"SUCCESS"}
