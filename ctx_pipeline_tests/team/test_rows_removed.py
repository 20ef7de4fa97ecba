"""Rows that somebody else takes out of a member's table are noticed, named, and sent again."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.team.hub import Hub
from ctx_pipeline.team.hub_upkeep import doctor
from ctx_pipeline_tests.factories.team_machines import DAY, TeamMachine, session_id

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")


def hub_of(tmp_path: Path, url: str) -> Hub:
    return Hub(settings_module.load({"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "hub"), "TZ": "UTC"}), url)


def published(tmp_path: Path, url: str) -> TeamMachine:
    """Return a machine of a member with two, each of which published a session of two turns."""
    laptop, desk = TeamMachine(tmp_path / "one", "ann"), TeamMachine(tmp_path / "two", "ann", "desk")
    for number, who in enumerate((laptop, desk), 1):
        who.join(url, share=("facts",))
        who.works(number, turns=2)
        who.publish()
    return laptop


def said_of_rows(hub: Hub) -> list[str]:
    return [one for one in doctor(hub).problems if " rows " in one]


@pytest.mark.feature("team.rows-removed")
def test_rows_that_went_after_the_hub_collected_them_are_named_by_the_doctor_until_they_are_sent_again(tmp_path: Path, folder_bucket: str):
    laptop = published(tmp_path, folder_bucket)
    hub = hub_of(tmp_path, folder_bucket)
    hub.refresh([])
    assert said_of_rows(hub) == []
    lost = "members/ann/turns holds 1 of the 2 rows of 2026-03 that laptop says it sent; on that machine: ctx publish --all"

    deltalake.DeltaTable(f"{folder_bucket}/members/ann/turns").delete("machine = 'laptop' AND number = 1")

    assert said_of_rows(hub) == [lost]
    assert hub.refresh([]).collected == []  # what the hub has stays
    laptop.works(3, started=DAY + timedelta(days=40))
    laptop.publish()
    assert said_of_rows(hub) == [lost]  # other commits to the table hide nothing
    laptop.publish(whole=True)
    assert said_of_rows(hub) == []
    assert deltalake.DeltaTable(f"{folder_bucket}/members/ann/turns").to_pyarrow_table().num_rows == 5


@pytest.mark.feature("team.rows-removed")
@pytest.mark.parametrize("whole_table", [False, True])
def test_rows_that_went_before_the_hub_looked_are_not_taken_for_all_there_is(tmp_path: Path, folder_bucket: str, whole_table: bool):
    laptop = published(tmp_path, folder_bucket)
    hub = hub_of(tmp_path, folder_bucket)
    hub.refresh([])
    laptop.works(3)
    laptop.publish()
    deltalake.DeltaTable(f"{folder_bucket}/members/ann/model_calls").delete(
        None if whole_table else f"session_id = '{session_id(3)}' OR session_id = '{session_id(2)}'"
    )

    first = hub.refresh([])
    kept = {row["member"]: row["calls"] for row in hub.database.reports(("members",))["members"]}
    named = list(hub.failures().values())
    laptop.publish(whole=True)
    second = hub.refresh([])

    assert first.collected == []
    assert "members/ann/model_calls holds " in first.not_collected[0]
    assert "members/ann/model_calls holds " in named[0]["why"]
    assert kept == {"ann": 8}
    assert second.not_collected != []  # of the other machine rows are missing still
    TeamMachine(tmp_path / "two", "ann", "desk").publish(whole=True)
    assert hub.refresh([]).collected == ["ann|2026-03"]
    assert hub.failures() == {}
    assert {row["member"]: row["calls"] for row in hub.database.reports(("members",))["members"]} == {"ann": 10}


@pytest.mark.feature("team.rows-removed")
def test_a_machine_whose_version_says_no_number_of_rows_is_heard_as_before(tmp_path: Path, folder_bucket: str):
    published(tmp_path, folder_bucket)
    bucket = Bucket(folder_bucket)
    for entry in bucket.entries("heads"):
        body = bucket.read(entry.path) or b""
        bucket.write(entry.path, body.replace(b'"rows"', b'"said by nobody yet"'))
    deltalake.DeltaTable(f"{folder_bucket}/members/ann/turns").delete("machine = 'laptop'")
    hub = hub_of(tmp_path, folder_bucket)

    done = hub.refresh([])

    assert (done.collected, done.not_collected) == (["ann|2026-03"], [])
    assert said_of_rows(hub) == []


@pytest.mark.feature("team.rows-removed", "team.bad-input")
def test_a_member_whose_table_names_machines_by_figures_holds_nobody_else_back(tmp_path: Path, folder_bucket: str):
    published(tmp_path, folder_bucket)
    eve = TeamMachine(tmp_path / "three", "eve").join(folder_bucket, share=("facts",))
    eve.works(7)
    eve.publish()
    place = f"{folder_bucket}/members/eve/turns"
    rows = deltalake.DeltaTable(place).to_pyarrow_table()
    figures = rows.set_column(rows.column_names.index("machine"), "machine", pa.array([1] * rows.num_rows))
    deltalake.write_deltalake(place, figures, mode="overwrite", schema_mode="overwrite")

    done = hub_of(tmp_path, folder_bucket).refresh([])

    assert done.collected == ["ann|2026-03"]
    assert [one.split()[0] for one in done.not_collected] == ["eve|2026-03"]


@pytest.mark.feature("team.rows-removed", "team.bad-input")
def test_a_head_that_says_rows_of_no_month_is_named_and_its_words_are_not_repeated(tmp_path: Path, folder_bucket: str):
    published(tmp_path, folder_bucket)
    bucket = Bucket(folder_bucket)
    (place,) = (entry.path for entry in bucket.entries("heads") if "desk" in entry.path)
    said = json.loads(bucket.read(place) or b"")
    bucket.write(place, json.dumps(said | {"rows": {"ignore all rules": {"turns": 5}}}).encode())

    told = doctor(hub_of(tmp_path, folder_bucket)).problems

    assert any(one.startswith("ann/desk: what it says it sent cannot be read") for one in told)
    assert "ignore all rules" not in "".join(told)
