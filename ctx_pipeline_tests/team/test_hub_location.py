"""The hub as a Dagster code location: partitioned by member and month."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("dagster")

import dagster as dg
from dagster._core.test_utils import create_run_for_test, instance_for_test

from ctx_pipeline import discovery
from ctx_pipeline.defs import hub_location
from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.storage.team_tables.delta import TeamTable
from ctx_pipeline.team.hub import URL, Hub
from ctx_pipeline.team.hub_upkeep import doctor
from ctx_pipeline_tests.factories.team_machines import TeamMachine


@pytest.mark.feature("team.graph")
def test_the_sensor_asks_for_months_that_changed_and_the_assets_bring_them_to_the_page(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    for number, name in ((1, "ann"), (2, "bob")):
        who = TeamMachine(tmp_path / name, name).join(folder_bucket, share=("facts",))
        who.works(number)
        who.publish()
    monkeypatch.setenv(URL, folder_bucket)
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "hub-store"))
    definitions = hub_location.build()
    keys = {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert {"team/collected", "team_signals/checks", "team/warehouse", "team/lessons", "team/page", "team/compacted"} <= keys

    with dg.DagsterInstance.ephemeral() as instance:
        hub = Hub(hub_location.settings_module.load())
        asked = hub_location.tick(dg.build_sensor_context(instance=instance), hub)
        assert [r.partition_key for r in asked.run_requests or ()] == ["ann|2026-03-01", "bob|2026-03-01"]
        instance.add_dynamic_partitions(hub_location.MEMBERS, ["ann", "bob"])
        seen = hub_location.tick(dg.build_sensor_context(instance=instance, cursor=asked.cursor), hub)
        assert not seen.run_requests
        parts = list(definitions.assets or ())
        for request in asked.run_requests or ():
            done = dg.materialize(
                parts, selection=["team/collected", "team_signals/activity"], partition_key=request.partition_key, instance=instance
            )
            assert done.success
        assert dg.materialize(parts, selection=["team/warehouse", "team/lessons", "team/page", "team/compacted"], instance=instance).success

    collected = TeamTable(Bucket(folder_bucket), "team/sessions").rows()
    assert collected is not None
    assert sorted(collected.column("member").to_pylist()) == ["ann", "bob"]
    page = (hub.folder / "site" / "index.html").read_text("utf-8")
    assert ">ann<" in page
    assert ">bob<" in page


@pytest.mark.feature("team.graph")
@pytest.mark.parametrize("before", ["nothing", "ctx hub refresh"])
def test_where_one_machine_does_all_one_run_brings_everything_to_the_page_and_no_partition_looks_missing(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch, before: str
):
    for number, name in ((1, "ann"), (2, "bob")):
        who = TeamMachine(tmp_path / name, name).join(folder_bucket, share=("facts",))
        who.works(number)
        who.publish()
    head = json.loads(Bucket(folder_bucket).read("heads/bob/laptop.json") or b"")
    head["months"] = {"1999-01": "x"} | head["months"]
    Bucket(folder_bucket).write("heads/bob/laptop.json", json.dumps(head).encode())
    monkeypatch.setenv(URL, folder_bucket)
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "hub-store"))
    definitions = hub_location.build()

    with instance_for_test(temp_dir=str(tmp_path)) as instance:
        hub = Hub(hub_location.settings_module.load())
        if before == "ctx hub refresh":
            hub.refresh()
        asked = hub_location.tick(dg.build_sensor_context(instance=instance), hub)
        (request,) = asked.run_requests or ()
        assert {str(one.partition) for one in asked.asset_events or ()} == {"ann|2026-03-01", "bob|2026-03-01"}
        instance.add_dynamic_partitions(hub_location.MEMBERS, ["ann", "bob"])
        chosen = [key.to_user_string() for key in request.asset_selection or ()]
        assert dg.materialize(list(definitions.assets or ()), selection=chosen, instance=instance).success
        made = {
            name: set(instance.get_materialized_partitions(dg.AssetKey(name.split("/"))))
            for name in ("team/collected", "team_signals/checks")
        }
        again = hub_location.tick(dg.build_sensor_context(instance=instance, cursor=asked.cursor), hub)

    assert {name: {tuple(sorted(key.split("|"))) for key in keys} for name, keys in made.items()} == {
        name: {("2026-03-01", "ann"), ("2026-03-01", "bob")} for name in ("team/collected", "team_signals/checks")
    }
    assert not again.run_requests
    assert ">bob<" in next((tmp_path / "hub-store").glob("hub/*/site/index.html")).read_text("utf-8")


@pytest.mark.feature("team.graph")
@pytest.mark.parametrize("local", [True, False])
def test_the_sensor_asks_for_a_month_that_was_taken_back_and_for_one_that_comes_again_as_it_was(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch, local: bool
):
    ann = TeamMachine(tmp_path / "ann", "ann").join(folder_bucket)
    ann.works(1)
    monkeypatch.setenv(URL, folder_bucket)
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "hub-store"))
    hub, definitions = Hub(hub_location.settings_module.load()), hub_location.build()

    def sessions() -> int:
        return len(hub.database.reports(("members",))["members"])

    with instance_for_test(temp_dir=str(tmp_path)) if local else dg.DagsterInstance.ephemeral() as instance:
        cursor, keys, counts = None, [], []
        for share in ("counts", "none", "counts"):
            ann.join(folder_bucket, share=(share,)).publish()
            asked = hub_location.tick(dg.build_sensor_context(instance=instance, cursor=cursor), hub)
            (request,) = asked.run_requests or ()
            instance.add_dynamic_partitions(hub_location.MEMBERS, ["ann"])
            chosen = [key.to_user_string() for key in request.asset_selection or ()]
            parts = list(definitions.assets or ())
            assert dg.materialize(parts, selection=chosen, partition_key=request.partition_key, instance=instance).success
            counts.append(len(TeamTable(Bucket(folder_bucket), "team/sessions").rows() or ()))
            assert not local or sessions() == counts[-1]
            keys.append(request.run_key)
            cursor = asked.cursor
            assert not hub_location.tick(dg.build_sensor_context(instance=instance, cursor=cursor), hub).run_requests

    assert counts == [1, 0, 1]
    assert len(set(keys)) == 3  # Dagster makes no second run of a key


@pytest.mark.feature("team.graph", "team.bad-input")
def test_a_member_whose_tables_cannot_be_read_fails_the_run_and_the_others_of_it_are_in(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    for number, name in ((1, "ann"), (2, "bob")):
        who = TeamMachine(tmp_path / name, name).join(folder_bucket)
        who.works(number)
        who.publish()
    for path in Path(folder_bucket).glob("members/ann/turns/**/*.parquet"):
        path.unlink()
    monkeypatch.setenv(URL, folder_bucket)
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "hub-store"))
    parts = list(hub_location.build().assets or ())
    ends = {f"dagster/asset_partition_range_{end}": f"{name}|2026-03-01" for end, name in (("start", "ann"), ("end", "bob"))}

    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(hub_location.MEMBERS, ["ann", "bob"])
        done = dg.materialize(parts, selection=["team/collected"], tags=ends, instance=instance, raise_on_error=False)

    assert not done.success
    assert "ann|2026-03" in str(done.failure_data_for_node("team__collected"))
    collected = TeamTable(Bucket(folder_bucket), "team/turns").rows()
    assert collected is not None
    assert set(collected.column("member").to_pylist()) == {"bob"}


@pytest.mark.feature("team.asked-again", "team.doctor")
@pytest.mark.parametrize("local", [True, False])
def test_a_month_that_could_not_be_collected_is_asked_for_again_at_growing_distance_and_named_until_it_is_mended(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch, local: bool
):
    for number, name in ((1, "ann"), (2, "bob")):
        who = TeamMachine(tmp_path / name, name).join(folder_bucket, share=("facts",))
        who.works(number)
        who.publish()
    (damaged,) = Path(folder_bucket).glob("members/ann/turns/**/*.parquet")
    sound = damaged.read_bytes()
    damaged.write_bytes(sound[:50])
    monkeypatch.setenv(URL, folder_bucket)
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "hub-store"))
    hub, parts = Hub(hub_location.settings_module.load()), list(hub_location.build().assets or ())
    minute, began = 0.0, time.time()
    monkeypatch.setattr(hub_location, "time", SimpleNamespace(time=lambda: began + 60 * minute))

    with instance_for_test(temp_dir=str(tmp_path)) if local else dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(hub_location.MEMBERS, ["ann", "bob"])
        cursor, asked = None, []

        def tick() -> list[dg.RunRequest]:
            nonlocal cursor
            found = hub_location.tick(dg.build_sensor_context(instance=instance, cursor=cursor), hub)
            cursor = found.cursor
            return list(found.run_requests or ())

        def run(requests: list[dg.RunRequest]) -> None:
            for one in requests:
                chosen = [key.to_user_string() for key in one.asset_selection or ()]
                tags = {"dagster/run_key": str(one.run_key)}
                dg.materialize(parts, selection=chosen, partition_key=one.partition_key, instance=instance, tags=tags, raise_on_error=False)

        for minute in range(0, 200, 5):
            if requests := tick():
                asked.append((minute, [r.partition_key for r in requests], {r.run_key for r in requests}))
                run(requests)
        ill = doctor(hub)
        damaged.write_bytes(sound)
        minute = 310.0
        run(tick())
        minute = 5_000.0
        after = tick()

    # at once, then after 10, 20, 40 and 80 minutes: and only what is not there
    assert [minute for minute, _, _ in asked] == [0, 10, 30, 70, 150]
    assert local or [keys for _, keys, _ in asked[1:]] == [["ann|2026-03-01"]] * 4
    assert len({key for _, _, keys in asked for key in keys}) == sum(len(keys) for _, _, keys in asked)
    ((_, failed),) = ((one["part"], one) for one in ill.failed)
    assert (failed["part"], failed["tries"]) == ("ann|2026-03", 5)
    assert "members/ann/turns" in failed["why"]
    (told,) = [p for p in ill.problems if p.startswith("ann|2026-03: not collected since ")]
    assert failed["since"] in told
    assert after == []
    assert doctor(hub).failed == []


@pytest.mark.feature("team.asked-again")
def test_what_a_run_is_still_about_is_not_asked_for_twice_and_what_never_comes_is_left_after_some_tries(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    ann = TeamMachine(tmp_path / "ann", "ann").join(folder_bucket)
    ann.works(1)
    ann.publish()
    monkeypatch.setenv(URL, folder_bucket)
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "hub-store"))
    hub, minute, began = Hub(hub_location.settings_module.load()), 0.0, time.time()
    monkeypatch.setattr(hub_location, "time", SimpleNamespace(time=lambda: began + 60 * minute))

    with dg.DagsterInstance.ephemeral() as instance:
        first = hub_location.tick(dg.build_sensor_context(instance=instance), hub)
        (request,) = first.run_requests or ()
        started = create_run_for_test(instance, tags={"dagster/run_key": str(request.run_key)}, status=dg.DagsterRunStatus.STARTED)
        minute, cursor, asked = 60.0, first.cursor, 0
        waits = hub_location.tick(dg.build_sensor_context(instance=instance, cursor=cursor), hub)
        instance.delete_run(started.run_id)  # nobody made it
        cursor = waits.cursor
        for _ in range(12):
            minute += 2_000
            found = hub_location.tick(dg.build_sensor_context(instance=instance, cursor=cursor), hub)
            asked, cursor = asked + len(found.run_requests or ()), found.cursor
        ann.works(2)
        ann.publish()
        anew = hub_location.tick(dg.build_sensor_context(instance=instance, cursor=cursor), hub)

    assert not waits.run_requests
    assert asked == 7
    assert len(anew.run_requests or ()) == 1


OWN = '''"""Calls: a signal of the hub's own."""

from ctx_pipeline.model.declared import Reading, signal


@signal(version=1, group="activity", unit="calls", better="lower", reads=("tool_calls",))
def own_calls(view):
    """Tool calls of the session.

    Read it beside the turns.
    """
    return Reading(float(len(view.tool_calls)))
'''


@pytest.mark.feature("team.signals", "team.graph")
@pytest.mark.parametrize("by", ["ctx hub refresh", "a backfill"])
def test_a_signal_of_the_hubs_own_is_an_asset_and_filled_over_all_members(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch, by: str
):
    for number, name in ((1, "ann"), (2, "bob")):
        who = TeamMachine(tmp_path / name, name).join(folder_bucket, share=("facts",))
        who.works(number, turns=number)
        who.publish()
    monkeypatch.setenv(URL, folder_bucket)
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "hub-store"))
    Hub(hub_location.settings_module.load()).refresh()
    own = tmp_path / "hub-store" / "config" / "signals" / "own_calls.py"
    own.parent.mkdir(parents=True)
    own.write_text(OWN, "utf-8")
    discovery.look_in(None)
    discovery.reload()
    try:
        assets = list(hub_location.build().assets or ())
        if by == "ctx hub refresh":
            assert Hub(hub_location.settings_module.load()).refresh().measured == ["ann|2026-03 own_calls", "bob|2026-03 own_calls"]
        else:
            ends = {f"dagster/asset_partition_range_{end}": f"{name}|2026-03-01" for end, name in (("start", "ann"), ("end", "bob"))}
            with dg.DagsterInstance.ephemeral() as instance:
                instance.add_dynamic_partitions(hub_location.MEMBERS, ["ann", "bob"])
                assert dg.materialize(assets, selection=["team_signals/own_calls"], tags=ends, instance=instance).success
        found = TeamTable(Bucket(folder_bucket), "team/readings").rows()
        shown = Hub(hub_location.settings_module.load())
        shown.refresh()
        assert "own_calls" in {row["signal"] for row in shown.database.reports(("signals",))["signals"]}
        assert shown.refresh().measured == []
    finally:
        discovery.look_in(None)
        discovery.reload()

    assert found is not None
    readings = [row for row in found.to_pylist() if row["signal"] == "own_calls"]
    assert sorted((row["member"], row["value"]) for row in readings) == [("ann", 1.0), ("bob", 2.0)]
