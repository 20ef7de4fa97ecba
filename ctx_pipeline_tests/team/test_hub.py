"""The hub: what members published, counted once, checked, measured and judged."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.team_tables.bucket import Bucket, at_once
from ctx_pipeline.storage.team_tables.delta import Fenced, TeamTable
from ctx_pipeline.team.hub import Hub, Part
from ctx_pipeline.team.hub_page import build_page
from ctx_pipeline.team.hub_upkeep import compact_tables, doctor
from ctx_pipeline.team.membership import Agreement
from ctx_pipeline.team.published_tables import PARTITIONS
from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.factories.team_machines import DAY, TeamMachine, session_id

if TYPE_CHECKING:
    from collections.abc import Callable

MARCH = Part("ann", "2026-03")


def hub_of(tmp_path: Path, url: str) -> Hub:
    return Hub(settings_module.load({"HOME": str(tmp_path / "nobody"), "CTX_HOME": str(tmp_path / "hub-store"), "TZ": "UTC"}), url)


def machine(tmp_path: Path, url: str, member: str, name: str = "laptop", share: tuple[str, ...] = ("counts",)) -> TeamMachine:
    return TeamMachine(tmp_path / f"{member}-{name}", member, name).join(url, share=share)


def published(tmp_path: Path, url: str) -> tuple[TeamMachine, TeamMachine]:
    """Return the machines of two members who published a session each."""
    both = machine(tmp_path, url, "ann"), machine(tmp_path, url, "bob")
    for number, who in enumerate(both, 1):
        who.works(number)
        who.publish()
    return both


def local_readings(machine: TeamMachine) -> dict[tuple[str, str], Any]:
    from ctx_pipeline.pipeline.measure import measure

    with open_store(machine.settings) as store:
        measure(store, machine.settings)
        rows = [row for cell in store.ledger.cells() for row in store.lake.read_rows("readings", cell)]
    return {(row.session_id, row.signal): (row.value, row.label) for row in rows}


@pytest.mark.feature("team.hub", "team.counted-once")
def test_a_session_on_two_machines_and_a_call_of_two_members_count_once(tmp_path: Path, s3_bucket: str):
    ann, desktop = machine(tmp_path, s3_bucket, "ann"), machine(tmp_path, s3_bucket, "ann", "desktop")
    bob = machine(tmp_path, s3_bucket, "bob")
    ann.works(1, turns=3)
    ann.publish()
    shutil.copytree(ann.home.root, desktop.home.root)
    desktop.works(2)
    desktop.publish()
    ann.works(1, turns=4)  # goes on where the copy was made
    ann.publish()
    shutil.copytree(ann.home.root, bob.home.root)
    bob.works(3)
    bob.publish()
    hub = hub_of(tmp_path, s3_bucket)

    hub.refresh()
    reports = hub.database.reports()

    assert (reports["total"][0]["calls"], sum(row["sessions"] for row in reports["members"])) == (2 * (4 + 1 + 1), 3)
    assert reports["shared_sessions"] == [
        {"host": "claude", "session_id": session_id(1), "seen_on": ["ann/desktop", "ann/laptop", "bob/laptop"]}
    ]
    everything = machine(tmp_path, str(tmp_path / "elsewhere"), "everyone")
    shutil.copytree(bob.home.root, everything.home.root)
    everything.works(2)
    everything.capture()
    with open_store(everything.settings) as store:
        owned = [c for cell in store.ledger.cells() for c in store.lake.read_rows("model_calls", cell) if c.owner]
    assert reports["total"][0]["calls"] == len(owned)
    for name in ("input", "output", "cache_read", "cache_write_5m"):
        assert reports["total"][0][f"{name}_tokens"] == sum(getattr(c, name) for c in owned)
    assert reports["total"][0]["cost_nano"] == sum(c.cost for c in owned)


@pytest.mark.feature("team.counted-once")
def test_calls_without_an_id_of_a_session_on_two_machines_count_once(tmp_path: Path, folder_bucket: str):
    ann, bob = machine(tmp_path, folder_bucket, "ann"), machine(tmp_path, folder_bucket, "bob")
    ann.works(1, turns=2)
    (transcript,) = ann.home.root.rglob("*.jsonl")
    lines = [json.loads(line) for line in transcript.read_text("utf-8").splitlines()]
    for line in lines:
        if line["type"] == "assistant":
            line["message"].pop("id", None)
            line.pop("requestId", None)
            line.pop("uuid", None)
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    shutil.copytree(ann.home.root, bob.home.root)
    for who in (ann, bob):
        who.publish()
    with open_store(ann.settings) as store:
        owned = [c for cell in store.ledger.cells() for c in store.lake.read_rows("model_calls", cell) if c.owner]
    hub = hub_of(tmp_path, folder_bucket)

    hub.refresh([])

    keys = {
        name: set(TeamTable(Bucket(folder_bucket), f"members/{name}/model_calls").rows()["call_key"].to_pylist()) for name in ("ann", "bob")
    }  # type: ignore[index]
    assert not keys["ann"] & keys["bob"]  # places in files
    assert hub.database.reports(("total",))["total"][0]["calls"] == len(owned) > 0


def counted_of_one_store(folder: Path, machines: list[TeamMachine]) -> tuple[dict[tuple[str, str], int], int]:
    """Return (host, session) -> its calls, and the cost, of one store over the homes of all these machines."""
    everyone = TeamMachine(folder, "everyone")
    for who in machines:
        for host in ("claude", "codex"):
            if (who.folder / host).exists():
                shutil.copytree(who.folder / host, everyone.folder / host, dirs_exist_ok=True)
    everyone.capture()
    with open_store(everyone.settings) as store:
        owned = [c for cell in store.ledger.cells() for c in store.lake.read_rows("model_calls", cell) if c.owner]
    return dict(Counter((c.host, c.session_id) for c in owned)), sum(cost_of("auto", c.recorded_cost, c.cost) or 0 for c in owned)


def counted_of_team(hub: Hub) -> tuple[dict[tuple[str, str], int], int]:
    total = hub.database.reports(("total",))["total"][0]
    with duckdb.connect(str(hub.database.path), read_only=True) as connection:
        rows = connection.execute("SELECT host, session_id, count(*) FROM team_calls GROUP BY ALL").fetchall()
    assert total["calls"] == sum(n for _, _, n in rows)
    return {(host, session): n for host, session, n in rows}, total["cost_nano"]


@pytest.mark.feature("team.counted-once", "usage.owner-same-calls", "usage.owner-same-totals")
def test_copies_under_another_id_and_slow_forks_with_another_member_count_as_in_one_store(tmp_path: Path, folder_bucket: str):
    ann, bob, cyd, dan = machines = [machine(tmp_path, folder_bucket, name) for name in ("ann", "bob", "cyd", "dan")]
    original, copy, fork, alike = (f"019ca9d4-0000-7000-8000-00000000000{n}" for n in range(1, 5))
    codex.write(ann.folder / "codex", codex.session(original, calls=4), original)
    codex.write(bob.folder / "codex", codex.session(copy, calls=6), copy)  # went on by itself
    records = codex.session(fork, calls=5, begin=4_000)
    records[0]["payload"]["forked_from_id"] = original
    codex.write(cyd.folder / "codex", records, fork)
    codex.write(dan.folder / "codex", codex.session(alike, calls=4, begin=60), alike)  # the same totals at other moments
    for who in machines:
        who.publish()
    hub = hub_of(tmp_path, folder_bucket)

    hub.refresh([])

    assert counted_of_team(hub) == counted_of_one_store(tmp_path / "all", machines)
    assert counted_of_team(hub)[0] == {("codex", original): 4, ("codex", copy): 2, ("codex", fork): 1, ("codex", alike): 4}


@pytest.mark.feature("team.counted-once", "usage.owner-order")
def test_a_call_that_two_members_recorded_differently_counts_for_the_session_that_it_has_in_one_store(tmp_path: Path, folder_bucket: str):
    ann, bob = machines = [machine(tmp_path, folder_bucket, name) for name in ("ann", "bob")]
    ann.works(1, turns=2)
    bob.works(2, turns=2, started=DAY + timedelta(days=1))
    transcripts = [next(who.home.root.rglob("*.jsonl")) for who in machines]
    of_ann, of_bob = [[json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in transcripts]
    (first, *_), (fuller, *_) = [[line["message"] for line in lines if "usage" in line.get("message", {})] for lines in (of_ann, of_bob)]
    told = fuller["id"]
    for message in (line.get("message", {}) for line in of_bob):
        if message.get("id") == told:
            message["id"], message["usage"]["output_tokens"] = first["id"], first["usage"]["output_tokens"] + 5_000
    transcripts[1].write_text("".join(json.dumps(line) + "\n" for line in of_bob), "utf-8")
    for who in machines:
        who.publish()
    hub = hub_of(tmp_path, folder_bucket)

    hub.refresh([])

    assert counted_of_team(hub) == counted_of_one_store(tmp_path / "all", machines)


@pytest.mark.feature("team.counted-once")
def test_a_call_costs_the_team_what_it_costs_the_machine(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket, "ann")
    ann.works(1, turns=2)
    (transcript,) = ann.home.root.rglob("*.jsonl")
    lines = [json.loads(line) for line in transcript.read_text("utf-8").splitlines()]
    next(line for line in lines if line["type"] == "assistant")["costUSD"] = 7.25
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    ann.publish()
    hub = hub_of(tmp_path, folder_bucket)

    hub.refresh()

    (total,) = hub.database.reports(("total",))["total"]
    with open_store(ann.settings) as store:
        calls = [c for cell in store.ledger.cells() for c in store.lake.read_rows("model_calls", cell) if c.owner]
    assert [c.recorded_cost for c in calls if c.recorded_cost] == [7_250_000_000]
    assert total["cost_nano"] == sum(cost_of("auto", c.recorded_cost, c.cost) for c in calls)
    assert total["cost_nano"] > 7_250_000_000


@pytest.mark.feature("team.hub")
def test_a_refresh_collects_only_what_changed(tmp_path: Path, folder_bucket: str):
    _ann, bob = published(tmp_path, folder_bucket)
    hub = hub_of(tmp_path, folder_bucket)
    assert hub.refresh().collected == ["ann|2026-03", "bob|2026-03"]
    assert hub.refresh().collected == []

    bob.works(4)
    bob.publish()

    assert hub_of(tmp_path, folder_bucket).refresh().collected == ["bob|2026-03"]
    checks = hub.database.reports(("checks",))["checks"]
    assert [(row["runner"], row["result"], row["runs"], row["members"]) for row in checks] == [("pytest", "passed", 3, 2)]


@pytest.mark.feature("team.signals")
def test_signals_over_published_facts_say_what_they_say_on_the_machine_and_a_new_one_is_filled_over_all_members(
    tmp_path: Path, folder_bucket: str
):
    ann, bob = (machine(tmp_path, folder_bucket, name, share=("texts",)) for name in ("ann", "bob"))
    ann.works(1, turns=3)
    bob.works(2, turns=2)
    for who in (ann, bob):
        who.publish()
    hub = hub_of(tmp_path, folder_bucket)

    first = hub.refresh(["activity"])
    rows = TeamTable(Bucket(folder_bucket), "team/readings").rows()
    assert rows is not None
    assert first.measured == ["ann|2026-03 activity", "bob|2026-03 activity"]
    assert {row["family"] for row in rows.to_pylist()} == {"activity"}

    filled = hub.refresh()

    assert [name for name in filled.measured if name.endswith(" activity")] == []
    assert {name.partition(" ")[0] for name in filled.measured} == {"ann|2026-03", "bob|2026-03"}
    known = local_readings(ann) | local_readings(bob)
    rows = TeamTable(Bucket(folder_bucket), "team/readings").rows()
    assert rows is not None
    found = {(row["session_id"], row["signal"]): (row["value"], row["label"]) for row in rows.to_pylist()}
    assert len(found) > 100
    assert found == {key: known[key] for key in found}
    assert hub.refresh().measured == []


@pytest.mark.feature("team.bad-input")
def test_rows_of_another_member_and_tables_of_wrong_types_are_refused_and_named(tmp_path: Path, folder_bucket: str):
    published(tmp_path, folder_bucket)
    bucket = Bucket(folder_bucket)
    rows = TeamTable(bucket, "members/bob/sessions").rows()
    assert rows is not None
    forged = rows.set_column(0, "member", pa.array(["ann"]))
    TeamTable(bucket, "members/bob/sessions").put(forged, writer="forger", number=1, by=PARTITIONS)
    place = {"member": ["bob"] * 2, "machine": ["laptop"] * 2, "month": ["2026-03"] * 2}  # as many rows as the machine sent
    garbage = pa.table({**place, "call_key": [b"\xff"] * 2, "input": ["many"] * 2})
    shutil.rmtree(Path(folder_bucket) / "members/bob/model_calls")
    TeamTable(bucket, "members/bob/model_calls").put(garbage, writer="forger", number=1, by=PARTITIONS)
    bucket.write("heads/eve/laptop.json", b"\x00garbage")
    hub = hub_of(tmp_path, folder_bucket)

    done = hub.refresh()

    assert done.problems == [
        "bob|2026-03 sessions: 1 rows without a key, of another member or month, or with figures or times that cannot be",
        "bob|2026-03 model_calls: no column session_id",
    ]
    sessions = hub.database.reports(("members",))["members"]
    assert {row["member"]: (row["sessions"], row["calls"]) for row in sessions} == {"ann": (1, 2), "bob": (1, None)}


def no_table_of_ours(url: str) -> None:
    shutil.rmtree(Path(url) / "members/bob/model_calls")
    TeamTable(Bucket(url), "members/bob/model_calls").put(pa.table({"x": [1]}), writer="someone", number=1, by=())


def other_kind_of_month(url: str) -> None:
    shutil.rmtree(Path(url) / "members/bob/model_calls")
    TeamTable(Bucket(url), "members/bob/model_calls").put(pa.table({"month": [202603]}), writer="someone", number=1, by=())


def log_of_garbage(url: str) -> None:
    for path in Path(url).glob("members/bob/model_calls/_delta_log/*.json"):
        path.write_text('{"garbage')


def files_removed(url: str) -> None:
    for path in Path(url).glob("members/bob/model_calls/**/*.parquet"):
        path.unlink()


def files_cut_off(url: str) -> None:
    for path in Path(url).glob("members/bob/model_calls/**/*.parquet"):
        path.write_bytes(path.read_bytes()[:50])


@pytest.mark.feature("team.bad-input")
@pytest.mark.parametrize("damage", [no_table_of_ours, other_kind_of_month, log_of_garbage, files_removed, files_cut_off])
def test_a_table_that_somebody_else_rewrote_stops_nobody_and_is_taken_again_when_it_can_be_read(
    tmp_path: Path, folder_bucket: str, damage: Callable[[str], None]
):
    ann, bob = machine(tmp_path, folder_bucket, "ann"), machine(tmp_path, folder_bucket, "bob")
    hub = hub_of(tmp_path, folder_bucket)
    bob.works(1)
    bob.publish()
    hub.refresh([])
    for number, who in ((2, ann), (3, bob)):
        who.works(number)
        who.publish()
    sound = shutil.copytree(Path(folder_bucket) / "members/bob/model_calls", tmp_path / "sound")
    damage(folder_bucket)

    first = hub.refresh([])
    kept = {row["member"]: row["calls"] for row in hub.database.reports(("members",))["members"]}
    shutil.rmtree(Path(folder_bucket) / "members/bob/model_calls")
    shutil.copytree(sound, Path(folder_bucket) / "members/bob/model_calls")
    after = hub.refresh([])

    assert first.collected == ["ann|2026-03"]
    assert [p.partition(" ")[0] for p in first.not_collected] == ["bob|2026-03"]
    assert "members/bob/model_calls" in first.not_collected[0]
    assert kept == {"ann": 2, "bob": 2}
    assert (after.collected, after.not_collected) == (["bob|2026-03"], [])
    assert {row["member"]: row["calls"] for row in hub.database.reports(("members",))["members"]} == {"ann": 2, "bob": 4}


@pytest.mark.feature("team.bad-input")
def test_a_table_of_a_member_is_named_as_not_collected_and_one_of_the_hub_ends_the_command_with_1(tmp_path: Path, folder_bucket: str):
    ann, _bob = published(tmp_path, folder_bucket)
    files_removed(folder_bucket)
    words, environ = ["hub", "refresh", "--url", folder_bucket], dict(hub_of(tmp_path, folder_bucket).settings.environ)

    member = CliRunner().invoke(cli, words, env=environ)
    ann.works(3)
    ann.publish()
    for path in Path(folder_bucket).glob("team/model_calls/_delta_log/*.json"):
        path.write_text('{"garbage')
    own = preloaded.run(words, env={**environment(tmp_path), **environ}, cwd=tmp_path, stdin=None, seconds=250)

    assert (member.exit_code, "not collected: bob|2026-03 " in member.output, "refused:" in member.output) == (0, True, False)
    assert own.returncode == 1
    assert f"{folder_bucket}/team/model_calls" in own.stderr
    assert "collected" not in own.stdout + own.stderr


@pytest.mark.feature("team.bad-input")
def test_while_a_table_of_a_member_cannot_be_read_its_others_stay_as_they_are_in_the_team(tmp_path: Path, folder_bucket: str):
    bob = machine(tmp_path, folder_bucket, "bob")
    bob.works(1)
    bob.publish()
    hub = hub_of(tmp_path, folder_bucket)
    hub.refresh([])
    bob.works(2)
    bob.publish()
    files_removed(folder_bucket)

    def commits() -> list[Path]:
        return sorted(Path(folder_bucket).glob("team/*/_delta_log/*.json"))

    before = commits()
    done = [hub.refresh([]) for _ in range(2)]

    assert [len(one.not_collected) for one in done] == [1, 1]
    assert commits() == before
    found = TeamTable(Bucket(folder_bucket), "team/sessions").rows()
    assert found is not None
    assert found.column("session_id").to_pylist() == [session_id(1)]


@pytest.mark.feature("team.bad-input")
def test_another_hub_shows_what_the_team_has_of_a_member_whose_table_cannot_be_read(tmp_path: Path, folder_bucket: str):
    bob = machine(tmp_path, folder_bucket, "bob")
    bob.works(1)
    bob.publish()
    hub_of(tmp_path, folder_bucket).refresh([])
    sound = shutil.copytree(Path(folder_bucket) / "members/bob/model_calls", tmp_path / "sound")
    files_removed(folder_bucket)
    other = hub_of(tmp_path / "other", folder_bucket)

    assert len(other.refresh([]).not_collected) == 1
    assert [(row["member"], row["calls"]) for row in other.database.reports(("members",))["members"]] == [("bob", 2)]

    shutil.copytree(sound, Path(folder_bucket) / "members/bob/model_calls", dirs_exist_ok=True)
    assert other.refresh([]).collected == ["bob|2026-03"]  # still due
    assert other.refresh([]).collected == []


@pytest.mark.feature("team.bad-input")
def test_a_machine_that_says_it_sent_a_million_months_gives_the_hub_no_work(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket, "ann")
    ann.works(1)
    ann.publish()
    bucket = Bucket(folder_bucket)
    for machine_name, count in (("many", 1_000_000), ("some", 2_000)):
        months = {f"{number // 12:04}-{number % 12 + 1:02}": "x" for number in range(count)}
        bucket.write(f"heads/eve/{machine_name}.json", json.dumps({"months": months}).encode())

    assert hub_of(tmp_path, folder_bucket).refresh([]).collected == ["ann|2026-03"]


@pytest.mark.feature("team.fenced")
def test_of_two_workers_on_one_part_the_one_that_stalled_fails_at_its_commit(
    tmp_path: Path, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    ann = machine(tmp_path, s3_bucket, "ann")
    ann.works(1)
    ann.publish()
    stalled, other = hub_of(tmp_path / "a", s3_bucket), hub_of(tmp_path / "b", s3_bucket)
    rows = TeamTable.rows_of
    done: list[str] = []

    def slow(self: TeamTable, *words: Any) -> Any:
        found = rows(self, *words)
        if not done and self.path.startswith("members/ann/sessions"):
            done.append("overtaken")
            ann.works(2)
            ann.publish()
            other.collect([MARCH])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(TeamTable, "rows_of", slow)
        with pytest.raises(Fenced):
            stalled.collect([MARCH])

    found = TeamTable(Bucket(s3_bucket), "team/sessions").rows()
    assert found is not None
    assert sorted(found.column("session_id").to_pylist()) == [session_id(1), session_id(2)]


@pytest.mark.feature("team.batched")
def test_a_refresh_commits_once_to_each_table_whatever_the_number_of_members_and_months(tmp_path: Path, folder_bucket: str):
    machines = [machine(tmp_path, folder_bucket, name, share=("facts",)) for name in ("ann", "bob", "cyd")]
    for number, who in enumerate(machines):
        for month in (2, 3):
            who.works(10 * number + month, started=DAY.replace(month=month))
        who.publish()
    hub = hub_of(tmp_path, folder_bucket)

    done = hub.refresh()

    assert len(done.collected) == 6
    logs = {path: len(list(path.glob("*.json"))) for path in Path(folder_bucket).glob("team/*/_delta_log")}
    assert {path.parent.name: count for path, count in logs.items()} == dict.fromkeys(
        ("sessions", "model_calls", "turns", "check_runs", "threads", "tool_calls", "command_runs", "readings"), 1
    )
    fresh = hub_of(tmp_path / "other", folder_bucket)
    assert fresh.refresh().measured == []  # it reads from the tables what the first one had at hand
    for name in ("members", "signals", "turns"):
        assert fresh.database.reports((name,)) == hub.database.reports((name,))
    assert {row["member"]: row["sessions"] for row in hub.database.reports(("members",))["members"]} == {"ann": 2, "bob": 2, "cyd": 2}


@pytest.mark.feature("team.signals", "team.hub")
def test_what_is_published_between_collecting_and_measuring_is_measured_when_it_was_collected(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket, "ann", share=("facts",))
    ann.works(1)
    ann.publish()
    hub = hub_of(tmp_path, folder_bucket)
    hub.collect([MARCH])
    ann.works(1, turns=2)
    ann.works(2)
    ann.publish()

    assert hub.measure([MARCH], ["activity"]) == {MARCH: ["activity"]}  # of what was collected
    hub.collect([MARCH])
    assert hub_of(tmp_path, folder_bucket).measure([MARCH], ["activity"]) == {MARCH: ["activity"]}
    assert hub.measure([MARCH], ["activity"]) == {}

    found = TeamTable(Bucket(folder_bucket), "team/readings").rows()
    assert found is not None
    assert {row["session_id"]: row["value"] for row in found.to_pylist() if row["signal"] == "tool_call_count"} == {
        session_id(1): 2,
        session_id(2): 1,
    }


@pytest.mark.feature("team.batched")
def test_of_months_in_one_commit_the_one_that_cannot_be_read_stays_and_the_others_come(tmp_path: Path, folder_bucket: str):
    ann, bob = machine(tmp_path, folder_bucket, "ann"), machine(tmp_path, folder_bucket, "bob")
    for month in (2, 3):
        bob.works(month, started=DAY.replace(month=month))
    ann.works(1)
    for who in (ann, bob):
        who.publish()
    for path in Path(folder_bucket).glob("members/bob/turns/**/month=2026-02/*.parquet"):
        path.unlink()

    done = hub_of(tmp_path, folder_bucket).refresh([])

    assert done.collected == ["ann|2026-03", "bob|2026-03"]
    assert [text.partition(" ")[0] for text in done.not_collected] == ["bob|2026-02"]


@pytest.mark.feature("team.fenced", "team.batched")
def test_one_part_that_another_worker_took_meanwhile_keeps_a_whole_commit_out(tmp_path: Path, folder_bucket: str):
    table = TeamTable(Bucket(folder_bucket), "team/sessions")
    table.put(pa.table({"member": ["ann"], "x": [1]}), writer="hub:ann", number=1, by=("member",))
    both = {"hub:ann": 2, "hub:bob": 1}
    stalled = TeamTable(Bucket(folder_bucket), "team/sessions")
    assert [stalled.last_number(writer) for writer in both] == [1, 0]
    TeamTable(Bucket(folder_bucket), "team/sessions").put(
        pa.table({"member": ["bob"], "x": [2]}), writer="hub:bob", number=1, by=("member",)
    )
    late = pa.table({"member": ["ann", "bob"], "x": [3, 4]})

    with pytest.raises(Fenced):
        stalled.put_all(late, numbers=both, keys=[{"member": {"ann", "bob"}}], by=("member",))
    with pytest.raises(Fenced):
        TeamTable(Bucket(folder_bucket), "team/sessions").put_all(late, numbers=both, by=("member",))

    found = TeamTable(Bucket(folder_bucket), "team/sessions").rows()
    assert found is not None
    assert sorted(found["x"].to_pylist()) == [1, 2]


@pytest.mark.feature("team.batched")
def test_numbers_of_writers_are_those_that_the_table_has_before_and_after_its_log_is_summed_up(tmp_path: Path, folder_bucket: str):
    bucket = Bucket(folder_bucket)
    writers = {f"hub:{n}": 0 for n in range(4)}
    old = TeamTable(bucket, "team/t")
    for turn in range(25):
        writer = f"hub:{turn % 4}"
        writers[writer] += 1
        TeamTable(bucket, "team/t").put(pa.table({"x": [turn]}), writer=writer, number=writers[writer], by=())
        if turn == 12:
            assert old.last_number("hub:0") == 4
    assert list(Path(folder_bucket).glob("team/t/_delta_log/*.checkpoint.parquet"))
    old.opened(anew=True)
    fresh = TeamTable(bucket, "team/t")
    assert {w: (old.last_number(w), fresh.last_number(w)) for w in writers} == {w: (n, n) for w, n in writers.items()}
    fresh.vacuum(0)  # entries that were summed up are gone
    assert {w: TeamTable(bucket, "team/t").last_number(w) for w in writers} == writers
    (Path(folder_bucket) / "team/t/_delta_log/_last_checkpoint").write_text("{}")
    assert {w: TeamTable(bucket, "team/t").last_number(w) for w in writers} == writers


@pytest.mark.feature("team.fenced")
def test_that_another_worker_was_first_is_said_before_what_else_went_wrong(tmp_path: Path, folder_bucket: str):
    bucket = Bucket(folder_bucket)
    for name in ("damaged", "overtaken"):
        TeamTable(bucket, f"team/{name}").put(pa.table({"x": [1]}), writer="hub", number=1, by=())
    for path in Path(folder_bucket).glob("team/damaged/_delta_log/*.json"):
        path.write_text('{"garbage')

    def put(name: str) -> int:
        return TeamTable(bucket, f"team/{name}").put(pa.table({"x": [1]}), writer="hub", number=1, by=())

    with pytest.raises(Fenced):
        at_once(put, ["damaged", "overtaken", "new"])

    assert TeamTable(bucket, "team/new").files()  # all have ended


@pytest.mark.feature("team.page")
def test_the_page_escapes_what_members_publish_and_shows_aliases_where_the_team_says_so(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket, "ann")
    ann.works(1, project="<script>alert(1)</script>")
    ann.publish()
    hub = hub_of(tmp_path, folder_bucket)
    hub.refresh()

    page = build_page(hub, hub.lessons())
    text = page.read_text("utf-8")

    assert "<script" not in text
    assert '<td class="">ann</td>' in text
    assert page.stat().st_mode & 0o777 == 0o600
    hub.team = Agreement(aliases=True)
    assert ">ann<" not in build_page(hub, hub.lessons()).read_text("utf-8")


@pytest.mark.feature("team.page")
def test_the_page_says_whose_sessions_are_counted_with_another_member_and_shows_no_signal_without_a_figure(
    tmp_path: Path, folder_bucket: str
):
    ann, eve = (machine(tmp_path, folder_bucket, name, share=("facts",)) for name in ("ann", "eve"))
    ann.works(1)
    ann.publish()
    shutil.copytree(ann.home.root, eve.home.root)
    eve.publish()
    hub = hub_of(tmp_path, folder_bucket)
    hub.refresh()

    text = " ".join(build_page(hub, hub.lessons()).read_text("utf-8").split())

    assert '<td class="">eve</td> <td class="n">0</td> <td class="n">1</td>'.replace("> <", "><") in text.replace("> <", "><")
    signals = {row["signal"]: row["sessions"] for row in hub.database.reports(("signals",))["signals"]}
    assert (signals["command_count"], signals["exit_statuses"]) == (1, 0)
    assert ">command_count<" in text
    assert ">exit_statuses<" not in text


@pytest.mark.feature("team.doctor")
def test_the_doctor_names_lag_clocks_versions_files_and_costs(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket, "ann")
    ann.works(1)
    ann.publish()
    bucket = Bucket(folder_bucket)
    head = bucket.read("heads/ann/laptop.json")
    assert head is not None
    import json

    forged = json.loads(head) | {"published_at": "2031-01-01T00:00:00+00:00", "rows": {}}  # it sent none
    bucket.write("heads/bob/laptop.json", json.dumps(forged).encode())
    hub = hub_of(tmp_path, folder_bucket)
    hub.collect([MARCH])

    found = doctor(hub)

    assert [(m["machine"], m["commits"]) for m in found.machines] == [("ann/laptop", 1), ("bob/laptop", 1)]
    assert [p.partition(" is ")[0] for p in found.problems] == ["bob/laptop: its clock"]
    assert {t["table"]: t["files"] for t in found.tables} == {"sessions": 1, "model_calls": 1, "turns": 1, "check_runs": 1}
    ann_costs = next(m for m in found.members if m["member"] == "ann")
    assert ann_costs["bytes"] > 10_000
    assert ann_costs["month_usd"] > 0


@pytest.mark.feature("team.doctor")
def test_the_doctor_asks_for_upkeep_where_upkeep_merges_something(tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ctx_pipeline.team.hub_upkeep._MANY_SMALL", 2)
    Path(folder_bucket).mkdir()
    table = TeamTable(Bucket(folder_bucket), "team/sessions")
    hub = hub_of(tmp_path, folder_bucket)

    def commits(month: str, number: int) -> list[str]:
        rows = pa.table({"member": ["ann"], "machine": ["laptop"], "month": [month], "session_id": [str(number)]})
        table.put(rows, writer="hub", number=number, by=PARTITIONS)
        return doctor(hub).problems

    assert [problem for number in range(1, 10) for problem in commits(f"2026-0{number}", number) if "small files" in problem] == []
    for number in range(10, 14):
        problems = commits("2026-01", number)
    assert "team/sessions: 4 small files can be merged: ctx hub upkeep" in problems
    assert compact_tables(hub) == 5
    assert not [problem for problem in doctor(hub).problems if "small files" in problem]


@pytest.mark.feature("team.signals", "team.counted-once")
def test_of_two_that_have_the_same_session_the_one_that_shares_its_facts_gives_checks_and_signals(tmp_path: Path, folder_bucket: str):
    ann, bob = machine(tmp_path, folder_bucket, "ann"), machine(tmp_path, folder_bucket, "bob", share=("facts",))
    ann.works(1)
    shutil.copytree(ann.home.root, bob.home.root)
    for who in (ann, bob):
        who.publish()
    hub = hub_of(tmp_path, folder_bucket)

    hub.refresh()

    signals = {row["signal"]: row["sessions"] for row in hub.database.reports(("signals",))["signals"]}
    assert signals["command_count"] == 1


@pytest.mark.feature("team.bad-input")
def test_a_member_with_a_hundred_thousand_projects_makes_no_page_that_long(tmp_path: Path, folder_bucket: str):
    ann, eve = machine(tmp_path, folder_bucket, "ann"), machine(tmp_path, folder_bucket, "eve")
    for number, who in ((1, ann), (2, eve)):
        who.works(number)
        who.publish()
    for name, key in (("sessions", "session_id"), ("model_calls", "call_key")):
        table = TeamTable(Bucket(folder_bucket), f"members/eve/{name}")
        found = table.rows()
        assert found is not None
        many = found.take([0] * 100_000)
        changed = {"session_id": "{:036}", key: "{:036}", "project": "project {}"}
        for column in changed.keys() & set(many.column_names):
            values = [changed[column].format(number) for number in range(many.num_rows)]
            many = many.set_column(many.column_names.index(column), column, pa.array(values))
        table.put(many, writer="forger", number=1, by=PARTITIONS)
    hub = hub_of(tmp_path, folder_bucket)

    assert hub.refresh([]).problems == []

    assert len(hub.database.reports(("projects",))["projects"]) == 500
    assert build_page(hub, hub.lessons()).stat().st_size < 500_000


@pytest.mark.feature("team.counted-once", "team.hub")
def test_what_reports_read_is_made_anew_only_when_something_was_loaded_and_tables_of_earlier_versions_go(
    tmp_path: Path, folder_bucket: str
):
    ann = machine(tmp_path, folder_bucket, "ann")
    ann.works(1)
    ann.publish()
    hub = hub_of(tmp_path, folder_bucket)
    hub.refresh([])

    def changed(sql: str) -> None:
        with duckdb.connect(str(hub.database.path)) as connection:
            connection.execute(sql)

    def sessions() -> int:
        return sum(row["turns"] for row in hub.database.reports(("turns",))["turns"])

    changed("CREATE TABLE counted_calls AS SELECT 1; CREATE TABLE team_checks AS SELECT 1")
    assert hub.database.reports(("lessons",)) == {"lessons": []}
    changed("SELECT * FROM counted_calls")  # lessons need none of it
    assert sessions() == 1
    with pytest.raises(duckdb.CatalogException):
        changed("SELECT * FROM counted_calls")
    changed("DELETE FROM team_sessions")
    assert sessions() == 0  # nothing was loaded since
    ann.works(2)
    ann.publish()
    hub.refresh([])
    assert sessions() == 2


@pytest.mark.feature("team.counted-once", "team.bad-input")
def test_a_session_that_a_member_publishes_twice_over_multiplies_no_call(tmp_path: Path, folder_bucket: str):
    ann, eve = machine(tmp_path, folder_bucket, "ann"), machine(tmp_path, folder_bucket, "eve")
    for number, who in ((1, ann), (2, eve)):
        who.works(number)
        who.publish()
    for name in ("sessions", "model_calls"):
        table = TeamTable(Bucket(folder_bucket), f"members/eve/{name}")
        found = table.rows()
        assert found is not None
        table.put(pa.concat_tables([found] * 3), writer="forger", number=1, by=PARTITIONS)
    hub = hub_of(tmp_path, folder_bucket)

    hub.refresh([])

    reports = hub.database.reports()
    assert {row["member"]: (row["sessions"], row["calls"]) for row in reports["members"]} == {"ann": (1, 2), "eve": (1, 2)}
    assert (reports["total"][0]["calls"], sum(row["calls"] for row in reports["projects"])) == (4, 4)
