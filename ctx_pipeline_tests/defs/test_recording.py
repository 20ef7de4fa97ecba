"""What a run leaves in Dagster's event log, what is tried again, and why a cell is stale."""

from __future__ import annotations

import errno
import sqlite3

import dagster as dg
import pytest

from ctx_pipeline.defs import launch, partitions
from ctx_pipeline.defs.execution import Execution
from ctx_pipeline.defs.partitions import definition
from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import plan
from ctx_pipeline.pipeline.reports import CellReport, StageReport
from ctx_pipeline_tests.factories.months import write_month

MARCH = Cell("claude", "2026-03")


class Failing(Pipeline):
    """A pipeline whose measuring raises an error some times, then works."""

    def __init__(self, settings, error, times):
        super().__init__(settings)
        self.error, self.times, self.tried = error, times, 0

    def step(self, name, **options):
        if name == "measure":
            self.tried += 1
            if self.tried <= self.times:
                raise self.error
        return super().step(name, **options)


@pytest.mark.slow
@pytest.mark.feature("dagster.retries")
@pytest.mark.parametrize(
    ("error", "tried", "failed"),
    [(OSError(errno.EIO, "input/output error"), 2, False), (ValueError("a defect"), 1, True)],
    ids=["a busy disk", "a defect"],
)
def test_what_failed_for_the_disk_is_tried_again_and_a_defect_is_not(settings, error, tried, failed):
    pipeline = Failing(settings, error, 1)
    with launch.instance(settings) as instance, Execution(settings, instance, pipeline=pipeline) as job:
        job.ingest()
        partitions.add(instance, [MARCH])
        result = job._run(["signals/activity"], tags={"dagster/partition": MARCH.key}, title="once")

    assert (pipeline.tried, not result.success) == (tried, failed)


@pytest.mark.feature("dagster.event-log-size")
def test_a_recorded_cell_costs_little_of_the_event_log(settings):
    with launch.instance(settings) as instance, Execution(settings, instance) as job:
        job.ingest()
        job.run_cells([MARCH, Cell("claude", "2026-04")])
    (run,) = job.outcome.runs

    with sqlite3.connect(settings.home / "dagster" / "history" / "event_log.db") as log:
        size, cells = log.execute(
            "SELECT sum(length(event)), sum(dagster_event_type = 'ASSET_MATERIALIZATION') FROM event_logs WHERE run_id = ?",
            [run],
        ).fetchone()
    assert cells >= 20
    assert size / cells < 7 * 1024, "of two cells, the events of the run and its steps among them"


@pytest.mark.feature("graph.explain-stale")
def test_each_stale_cell_says_whether_input_or_code_is_new_and_what_is_missing(settings, home):
    pipeline = Pipeline(settings)
    pipeline.step("ingest")
    pipeline.step("facts")
    pipeline.step("measure")

    def reasons(asset):
        return {
            cell.key: (needs.state, needs.reason) for cell, needs in pipeline.plan().assets[asset].cells.items() if needs.state != "fresh"
        }

    assert reasons("signals/activity") == {}
    with pipeline.store.ledger.lease("test"):
        row = pipeline.store.ledger.asset_cell("signals/activity", MARCH)
        pipeline.store.ledger.record_asset("signals/activity", MARCH, row.input_fp, "another", row.content_hash, row.rows)
    assert reasons("signals/activity") == {MARCH.key: ("stale", plan.NEW_CODE)}
    assert reasons("signals/outcomes") == {}
    write_month(home, "2026-04", 2, prompts=2)
    pipeline.step("ingest")
    assert reasons("signals/outcomes") == {"claude|2026-04": ("stale", plan.NEW_INPUT)}
    pipeline.store.ledger.forget_asset("signals/outcomes", [MARCH])
    assert reasons("signals/outcomes")[MARCH.key][0] == "missing"
    pipeline.close()


@pytest.mark.feature("run.ahead")
def test_a_step_that_finds_its_cell_done_records_what_the_other_process_counted(settings):
    pipeline = Pipeline(settings)
    pipeline.step("ingest")
    pipeline.step("measure")
    earlier = CellReport("done", {"readings": 7}, "x", 1.5)
    pipeline.earlier = [
        StageReport("measure", {MARCH.key: earlier}),
        StageReport("mine", {MARCH.key: CellReport("done", {"candidates": 9})}),
    ]

    (report,) = pipeline.step("measure", cells=[MARCH])

    assert report.cells[MARCH.key] is earlier
    pipeline.store.ledger.forget_asset("signals/activity", [MARCH])
    (report,) = pipeline.step("measure", cells=[MARCH])
    assert report.cells[MARCH.key].status == "done"
    assert report.cells[MARCH.key] is not earlier, "what was really made here is what counts"
    pipeline.close()


@pytest.mark.feature("run.ahead")
def test_stages_done_elsewhere_are_recorded_as_runs_of_boxes_and_of_the_tail(settings):
    class Elsewhere:
        """Other processes that have done all of it."""

        def __init__(self):
            from ctx_pipeline.pipeline import background, run
            from ctx_pipeline.storage import open_store

            with open_store(settings) as store:
                self.parts = {background.INGEST: run.step("ingest", store, settings)}
                self.parts[background.DERIVE] = background._derived(settings, None, None)
                self.parts[background.TAIL] = [r for name in run.TAIL_STEPS for r in run.step(name, store, settings)]

        def wait(self, part, progress=None):
            return self.parts[part]

    outcome = launch.run(settings, ahead=Elsewhere())

    assert (outcome.failed, outcome.cells_materialized, len(outcome.runs)) == ([], 2, 1), "the cells and all below them are one run"
    with launch.instance(settings) as instance:
        for asset in ("raw/segments", "signals/activity", "mined/error_resolutions"):
            assert len(instance.get_materialized_partitions(dg.AssetKey(asset.split("/")))) == 2, asset
        for asset in ("search/index", "memory/index", "warehouse/duckdb", "dashboard/site"):
            assert instance.get_latest_materialization_event(dg.AssetKey(asset.split("/"))) is not None, asset
        last = instance.get_latest_materialization_event(dg.AssetKey(["signals", "activity"])).asset_materialization.metadata
        assert last["dagster/row_count"].value > 0
        assert last["bytes"].value > 0
        assert "readings" not in last, "what a step counted over all families is not told of each"
        told = engine_events(instance, outcome.runs[0])
    assert [[words.split()[0] for words in said.removeprefix(BESIDE).split(", ")] for said in told] == [
        ["capture", "normalize", "index_search", "facts", "measure", "mine"],
        ["index_search", "score_lesson_use", "consolidate", "index_memory", "warehouse", "render"],
    ]
    assert launch.run(settings).runs == []


BESIDE = "Done in processes beside this one: "


def engine_events(instance, run):
    """Return what a run's log says of the work that was done before it."""
    records = instance.get_records_for_run(run, of_type=dg.DagsterEventType.ENGINE_EVENT).records
    return [r.event_log_entry.dagster_event.message for r in records if r.event_log_entry.dagster_event.message.startswith(BESIDE)]


@pytest.mark.feature("launch.failed-family")
def test_a_family_whose_commit_fails_is_red_alone_and_turns_green_when_it_is_mended(settings, monkeypatch):
    from ctx_pipeline.pipeline import measure

    real = measure.commit

    def broken(store, made):
        made = list(made)
        if any((rows.asset, rows._cell) == ("signals/activity", MARCH) for rows, *_ in made):
            raise ValueError("a defect")
        return real(store, made)

    def failed(instance):
        found = {}
        for key in [k for k in instance.all_asset_keys() if k.path[0] in ("raw", "normalized", "facts", "signals", "mined")]:
            states = instance.get_status_by_partition(key, [MARCH.key, "claude|2026-04"], definition())
            for cell, state in states.items():
                if state is None or state.value != "MATERIALIZED":
                    found[key.to_user_string(), cell] = state.value if state else None
        return found

    monkeypatch.setattr(measure, "commit", broken)
    outcome = launch.run(settings)
    (why,) = outcome.failed
    assert why.startswith("claude|2026-03: signals/activity: ValueError in test_recording.py")
    with launch.instance(settings) as instance:
        assert failed(instance) == {("signals/activity", MARCH.key): "FAILED"}

    monkeypatch.setattr(measure, "commit", real)
    outcome = launch.run(settings)
    assert (outcome.failed, outcome.cells_materialized) == ([], 1)
    with launch.instance(settings) as instance:
        assert failed(instance) == {}


@pytest.mark.feature("launch.data-versions")
def test_each_partition_of_a_range_has_its_content_hash_as_data_version_and_what_it_was_made_of(settings, home):
    launch.run(settings)
    keys = [MARCH.key, "claude|2026-04"]
    pipeline = Pipeline(settings)
    assets = [key for key, node in pipeline.graph().items() if node.partitioned and node.stage != "count"]
    hashes = {(asset, key): pipeline.store.ledger.asset_cell(asset, Cell.of(key)).content_hash[:16] for asset in assets for key in keys}
    pipeline.close()

    with launch.instance(settings) as instance:
        for asset in assets:
            found = instance.fetch_materializations(dg.AssetKey(asset.split("/")), limit=10).records
            assert len(found) == 2, f"one event a partition of {asset}, none from Dagster itself"
            told = {str(one.partition_key): one.event_log_entry.asset_materialization.tags for one in found}
            assert {key: tags["dagster/data_version"] for key, tags in told.items()} == {key: hashes[asset, key] for key in keys}
        signal = instance.fetch_materializations(dg.AssetKey(["signals", "activity"]), limit=1).records[0]
        tags = signal.event_log_entry.asset_materialization.tags
        assert tags["dagster/input_data_version/normalized/events"] == hashes["normalized/events", str(signal.partition_key)]
        site = instance.get_latest_materialization_event(dg.AssetKey(["dashboard", "site"])).asset_materialization.tags
        assert site["dagster/data_version_is_user_provided"] == "true"
        assert stale(instance) == {}, "nothing is out of sync after a run"

        write_month(home, "2026-03", 1, prompts=2)
        launch.run(settings)
        assert stale(instance) == {}


def stale(instance):
    """Return (asset, partition) -> why Dagster's own marks call it stale."""
    from dagster._core.definitions.data_version import CachingStaleStatusResolver
    from dagster._core.loader import LoadingContextForTest

    from ctx_pipeline.defs import location

    graph = location.build().resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    found = {}
    for node in graph.asset_nodes:
        if node.is_materializable and node.key.path[0] != "tokens" and node.key.path[-1] != "effect":
            for key in [MARCH.key, "claude|2026-04"] if node.is_partitioned else [None]:
                if causes := resolver.get_stale_causes(node.key, key):
                    found[node.key.to_user_string(), key] = [cause.reason for cause in causes]
    return found


@pytest.mark.feature("dagster.links")
def test_every_asset_leads_to_its_code_and_to_the_page(settings):
    from pathlib import Path

    from ctx_pipeline.defs import location

    with dg.DagsterInstance.ephemeral():  # Dagster keeps the one of an earlier test in mind, which may be gone
        nodes = location.build(Pipeline(settings)).resolve_asset_graph().asset_nodes
    for spec in nodes:
        assert spec.metadata["page"].value.startswith("file://")
        if spec.key.path[0] == "source":
            continue
        for link in spec.metadata["dagster/code_references"].code_references:
            text = Path(link.file_path).read_text("utf-8").splitlines()
            assert spec.key.path[0] not in ("signals", "mined") or "def " in "".join(text[link.line_number - 1 : link.line_number + 30])
