"""The truth table of the one condition that launches."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import pytest

from ctx_pipeline.defs import launch, location
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.months import write_month

PARTITIONED = {"raw/segments", "normalized/events", "signals/activity", "mined/error_resolutions"}
TAIL = {"search/index", "memory/used", "memory/consolidated", "memory/index", "warehouse/duckdb", "dashboard/site"}


class Daemon:
    """Evaluates the conditions tick by tick, and remembers its cursor as the daemon does."""

    def __init__(self, instance):
        self.instance = instance
        self.cursor = None
        self.definitions = location.build()

    def tick(self):
        """Return partition key (None for the tail) -> asset keys that are requested."""
        result = dg.evaluate_automation_conditions(self.definitions, self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        found = {}
        for one in result.results:
            if one.true_subset.is_partitioned:
                for key in one.true_subset.expensively_compute_partition_keys():
                    found.setdefault(str(key), set()).add(one.key.to_user_string())
            elif one.true_subset.size:
                found.setdefault(None, set()).add(one.key.to_user_string())
        return found


@pytest.fixture
def daemon(settings):
    """A daemon that looks after `ctx run` brought everything up to date."""
    launch.run(settings)
    with launch.instance(settings) as instance:
        yield Daemon(instance)


def materialize(daemon, key, assets):
    """Do what the daemon does with a request."""
    job = daemon.definitions.resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey(a.split("/")) for a in assets]
    assert job.execute_in_process(instance=daemon.instance, partition_key=key, asset_selection=keys).success


@pytest.mark.feature("automation.quiet")
def test_after_a_run_in_another_process_nothing_is_requested(daemon, home):
    assert daemon.tick() == {}

    # not because it is deaf: the next append is heard
    write_month(home, "2026-04", 2, prompts=2)
    assert set(daemon.tick()) == {"claude|2026-04"}


@pytest.mark.feature("automation.late-append")
def test_a_late_append_to_an_old_month_is_one_run_of_its_cell_and_then_one_of_the_tail(daemon, home):
    assert daemon.tick() == {}
    write_month(home, "2026-03", 1, prompts=2)

    first = daemon.tick()
    assert set(first) == {"claude|2026-03"}
    assert first["claude|2026-03"] >= PARTITIONED
    assert "claude|2026-03" not in daemon.tick(), "requested once, though nothing has run yet"

    materialize(daemon, "claude|2026-03", first["claude|2026-03"])
    then = daemon.tick()
    assert set(then) == {None}
    assert {"warehouse/duckdb", "dashboard/site"} <= then[None] <= TAIL
    materialize(daemon, None, then[None])
    assert daemon.tick() == {}


@pytest.mark.feature("automation.new-month")
def test_a_session_of_a_month_never_seen_is_requested(daemon, home):
    write_month(home, "2026-05", 3)

    assert set(daemon.tick()) == {"claude|2026-05"}


@pytest.mark.feature("automation.live-file")
def test_a_file_that_is_still_written_to_is_left_alone(daemon, home):
    import os
    import time

    path = write_month(home, "2026-03", 1, prompts=2)
    os.utime(path, (time.time(), time.time()))
    assert daemon.tick() == {}

    os.utime(path, (time.time() - 600, time.time() - 600))
    assert set(daemon.tick()) == {"claude|2026-03"}, "once it has been quiet"


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


@pytest.mark.feature("automation.code-version")
def test_a_new_code_version_requests_the_cells_of_that_asset_alone(daemon, settings, monkeypatch):
    known = code_versions.collect(settings)
    bumped = replace(known, assets=known.assets | {"signals/activity": "another"})
    monkeypatch.setattr(code_versions, "versions", lambda *_, **__: bumped)
    daemon.definitions = location.build(versions=bumped)

    assert daemon.tick() == {"claude|2026-03": {"signals/activity"}, "claude|2026-04": {"signals/activity"}}


@pytest.mark.feature("automation.failed-cell")
def test_a_cell_that_failed_is_not_requested_again_until_its_input_changes(daemon, home, settings, holding):
    bad = location.build(holding(settings, "measure", Cell("claude", "2026-03"))).resolve_implicit_global_asset_job_def()

    def fail(requested):
        selection = [dg.AssetKey(a.split("/")) for a in requested]
        assert not bad.execute_in_process(
            instance=daemon.instance, partition_key="claude|2026-03", asset_selection=selection, raise_on_error=False
        ).success

    write_month(home, "2026-03", 1, prompts=2)
    fail(daemon.tick()["claude|2026-03"])
    # its tables are new now, which is new input for what reads them; it fails on these as well
    again = daemon.tick()["claude|2026-03"]
    assert "signals/activity" in again
    assert "normalized/events" not in again
    fail(again)

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

    assert [request.partition_key for request in ticked.run_requests] == ["claude|2026-03"]
