"""The asset graph as Dagster loads it."""

from __future__ import annotations

import typing

import dagster as dg
import pytest

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_file
from ctx_pipeline.defs import assets, checks, history_checks, location, partitions, sensors
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import plan

TABLES = ["events", "model_calls", "sessions", "threads", "tool_calls"]


@pytest.fixture(scope="module")
def definitions():
    return location.build()


@pytest.fixture(scope="module")
def nodes(definitions):
    graph = definitions.resolve_asset_graph()
    return {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}


@pytest.mark.feature("dagster.asset-keys")
def test_the_asset_keys_are_these_and_one_a_signal_file_and_method(nodes):
    assert sorted(nodes) == sorted(
        [
            "source/sessions",
            "raw/segments",
            *(f"normalized/{table}" for table in TABLES),
            "search/index",
            "facts/tables",
            *(f"signals/{name}" for name in discovery.families()),
            *(f"mined/{name}" for name, method in discovery.methods().items() if method.deterministic),
            "tokens/exact",
            "memory/used",
            "memory/consolidated",
            "memory/index",
            "memory/effect",
            "warehouse/duckdb",
            "dashboard/site",
        ]
    )


@pytest.mark.feature("dagster.few-partitioned-keys")
def test_at_most_thirty_keys_beside_those_of_methods_are_partitioned(nodes):
    assert (
        9
        <= sum(node.partitions_def is not None and node.is_materializable and not name.startswith("mined/") for name, node in nodes.items())
        <= 30
    )


@pytest.mark.feature("dagster.one-partitioning")
def test_every_partitioned_asset_has_the_same_cells(nodes):
    found = {node.partitions_def for node in nodes.values() if node.partitions_def is not None}

    assert len(found) == 1
    assert found.pop() == partitions.definition()


@pytest.mark.feature("dagster.upstream")
def test_a_mined_asset_reads_only_the_families_it_declares_and_the_tail_is_below_all(nodes):
    for name, method in [(name, method) for name, method in discovery.methods().items() if method.deterministic]:
        above = {key.to_user_string() for key in nodes[f"mined/{name}"].parent_keys}
        assert {key for key in above if key.startswith("signals/")} == {f"signals/{family}" for family in method.families}
    assert {key.to_user_string() for key in nodes["dashboard/site"].parent_keys} == {"warehouse/duckdb"}
    assert {f"signals/{name}" for name in discovery.families()} <= {key.to_user_string() for key in nodes["warehouse/duckdb"].parent_keys}


@pytest.mark.feature("dagster.code-versions")
def test_each_signal_file_has_its_own_code_version(nodes):
    for name, family in discovery.families().items():
        assert nodes[f"signals/{name}"].code_version == family.code_version


@pytest.mark.feature("dagster.described")
def test_every_asset_says_what_it_is_and_where_it_belongs(nodes):
    for key, node in nodes.items():
        assert node.description, key
        assert node.group_name == assets.GROUPS[key.partition("/")[0]]
        assert node.kinds, key
        assert node.owners == ["team:ctx"]
    columns = nodes["normalized/tool_calls"].metadata["dagster/column_schema"]
    assert [c.name for c in columns.columns][:4] == ["call_id", "host", "session_id", "thread_id"]


@pytest.mark.feature("dagster.no-pickle")
def test_no_output_reaches_the_pickle_io_manager(definitions):
    checked = 0
    for asset in [a for a in definitions.assets if isinstance(a, dg.AssetsDefinition)]:
        for output in asset.op.output_defs:
            assert output.dagster_type.is_nothing, output.name
            checked += 1
        assert "return" in typing.get_type_hints(asset.op.compute_fn.decorated_fn), asset.op.name
    assert checked >= 14


@pytest.mark.feature("dagster.single-run")
def test_a_range_of_cells_is_one_run(nodes):
    for key, node in nodes.items():
        if node.partitions_def is not None and key != "source/sessions":
            assert node.backfill_policy == dg.BackfillPolicy.single_run(), key


@pytest.mark.feature("dagster.in-process")
def test_steps_run_in_one_process_unless_told_otherwise(definitions):
    assert definitions.executor is dg.in_process_executor


@pytest.mark.feature("dagster.freshness")
def test_the_tail_has_a_freshness_policy_and_cells_have_none(nodes):
    assert {key for key, node in nodes.items() if node.freshness_policy is not None} == {
        "search/index",
        "memory/used",
        "memory/consolidated",
        "memory/index",
        "warehouse/duckdb",
        "dashboard/site",
    }


@pytest.mark.feature("dagster.blocking-checks")
def test_contracts_block_and_drift_only_warns(definitions):
    graph = definitions.resolve_asset_graph()
    blocking = {key.name for key in graph.asset_check_keys if graph.get(key).blocking}

    assert blocking == {"unique_event_ids", "session_in_one_cell"}
    assert {key.name for key in graph.asset_check_keys} == {
        *checks.CHECKS,
        checks.SIGNAL_ERRORS,
        history_checks.GAPS,
        history_checks.IDENTITY,
    }


@pytest.mark.feature("dagster.off-by-default")
def test_sensors_schedule_and_automation_are_off_until_switched_on(definitions):
    repository = definitions.get_repository_def()

    off = {s.name for s in repository.sensor_defs if s.default_status == dg.DefaultSensorStatus.STOPPED}
    assert off == {"automation", "upkeep", "team_publication", *map(sensors.sensor_name, discovery.hosts().values())}
    assert {s.name for s in repository.sensor_defs} - off == {"partitions"}, "which only says which partitions there are"
    nightly = repository.get_schedule_def("nightly")
    hour, minute = map(int, settings_file.NIGHTLY.split(":"))
    assert (nightly.cron_schedule, nightly.default_status) == (f"{minute} {hour} * * *", dg.DefaultScheduleStatus.STOPPED)


@pytest.mark.feature("schedule.hour")
def test_the_hour_of_the_nightly_schedule_is_the_one_of_the_settings(tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text('nightly = "04:05"\ntimezone = "Europe/Berlin"\n')
    monkeypatch.setenv("CTX_HOME", str(tmp_path))
    monkeypatch.delenv("TZ", raising=False)

    nightly = location.build().get_repository_def().get_schedule_def("nightly")

    assert (nightly.cron_schedule, nightly.execution_timezone) == ("5 4 * * *", "Europe/Berlin")
    assert "04:05" in nightly.description


@pytest.mark.feature("dagster.watch", "dagster.watch-command")
def test_watching_declares_sensors_automation_and_schedule_running(monkeypatch):
    monkeypatch.setenv("CTX_WATCH", "1")

    repository = location.build().get_repository_def()

    assert {s.default_status for s in repository.sensor_defs} == {dg.DefaultSensorStatus.RUNNING}
    assert repository.get_schedule_def("nightly").default_status == dg.DefaultScheduleStatus.RUNNING


@pytest.mark.feature("dagster.boxes")
def test_dirty_cells_become_few_ranges_and_a_bad_cell_one_of_its_own():
    known = [Cell("claude", m) for m in ("2025-11", "2025-12", "2026-01", "2026-04", "2026-09")] + [Cell("codex", "2026-01")]
    cells = [*known[:3], *known[4:]]

    assert partitions.boxes(cells, known) == [(tuple(known[:3]),), (tuple(known[4:]),)]
    assert [cell for box in partitions.boxes(cells, known) for cell in box.cells] == cells, "nothing is recorded that was not asked for"
    assert [box.title for box in partitions.boxes(cells, known)] == ["claude 2025-11 to 2026-01", "claude 2026-09 to codex 2026-01"]
    assert partitions.boxes(known[:3], known, apart=[known[1]]) == [((known[0],),), ((known[2],),), ((known[1],),)]
    assert partitions.boxes([], known) == []


@pytest.mark.feature("dagster.keys-round-trip")
def test_an_instance_knows_the_cells_that_hold_sessions_and_no_others():
    march, april, codex = Cell("claude", "2026-03"), Cell("claude", "2026-04"), Cell("codex", "2026-03")
    with dg.DagsterInstance.ephemeral() as instance:
        assert partitions.add(instance, [april, codex]) == [codex, april], "hosts of one month are one range"
        assert partitions.add(instance, [march]) == [codex, april, march], "a range follows the order in which they came"
        partitions.synchronize(instance, [march, codex])
        assert april.key in instance.get_dynamic_partitions(partitions.NAME), "seen and not captured yet"
        instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["raw", "segments"]), partition=april.key))
        partitions.synchronize(instance, [march, codex])
        assert [Cell.of(key) for key in instance.get_dynamic_partitions(partitions.NAME)] == [codex, march]


def test_the_graph_of_the_plan_is_the_graph_of_dagster(definitions, nodes):
    from ctx_pipeline import settings as settings_file
    from ctx_pipeline.pipeline import code_versions

    planned = plan.graph(code_versions.collect(settings_file.load({})))

    assert {key: set(node.upstream) for key, node in planned.items()} == {
        key: {above.to_user_string() for above in node.parent_keys} for key, node in nodes.items() if key != "source/sessions"
    }
