"""Several hubs and workers write at the same time: none undoes or fails what another one did."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.storage.team_tables.delta import Fenced, TeamTable
from ctx_pipeline.team.failed_parts import FAILED, FailedParts

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.team.failed_parts import Notes

MANY = 30
"""Members of one commit, more than the engine compares with one list."""


def rows(members: list[str]) -> pa.Table:
    return pa.table({"member": members, "month": ["2026-03"] * len(members), "session_id": members})


def keys(members: list[str]) -> list[dict[str, set[str]]]:
    return [{"month": {"2026-03"}, "member": set(members)}]


def shares() -> tuple[list[str], list[str]]:
    members = [f"m{number:03}" for number in range(2 * MANY)]
    return members[::2], members[1::2]


def at_one_version(bucket: Bucket) -> tuple[TeamTable, TeamTable]:
    """Return a table of all members, opened twice."""
    TeamTable(bucket, "team/turns").put(rows([*shares()[0], *shares()[1]]), writer="first", number=1, by=("member", "month"))
    both = TeamTable(bucket, "team/turns"), TeamTable(bucket, "team/turns")
    for one in both:
        one.opened()
    return both


@pytest.mark.feature("team.workers", "team.batched")
def test_two_workers_commit_many_members_each_at_the_same_time_and_neither_has_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ctx_pipeline.storage.team_tables.delta._ATTEMPTS", 1)
    one, two = at_one_version(Bucket(str(tmp_path / "bucket")))

    for table, members in zip((one, two), shares(), strict=True):
        table.put_all(rows(members), numbers={f"of {members[0]}": 1}, keys=keys(members), by=("member", "month"))

    found = two.rows()
    assert found is not None
    assert sorted(found["session_id"].to_pylist()) == sorted([*shares()[0], *shares()[1]])


@pytest.mark.feature("team.workers", "team.fenced")
def test_a_commit_that_cannot_be_told_from_anothers_is_made_again_and_one_of_the_same_part_fails(tmp_path: Path):
    one, two = at_one_version(Bucket(str(tmp_path / "bucket")))
    stalled = TeamTable(one.bucket, "team/turns")
    stalled.opened()
    every = [{"month": {"2026-03"}}]
    one.put_all(rows(["m000"]), numbers={"one": 1}, keys=every, by=("member", "month"))

    two.put_all(rows(["m001"]), numbers={"two": 1}, keys=[{"session_id": {"m001"}}], by=("member", "month"))
    with pytest.raises(Fenced):
        stalled.put_all(rows(["m002"]), numbers={"one": 1}, keys=every, by=("member", "month"))

    found = two.rows()
    assert found is not None
    assert sorted(found["session_id"].to_pylist()) == ["m000", "m001"]


@pytest.mark.feature("team.doctor")
def test_what_two_hubs_note_at_the_same_time_of_a_member_is_all_noted(tmp_path: Path):
    bucket = Bucket(str(tmp_path / "bucket"))
    FailedParts(bucket).change({"ann": lambda _: {"2026-01": {"why": "gone"}}})
    both = threading.Barrier(2, timeout=20)
    late = threading.Event()

    def noted(month: str, other: str) -> None:
        def change(before: Notes) -> Notes:
            if not late.is_set():
                both.wait()  # both have read what was there before
                late.set()
            return {name: one for name, one in before.items() if name != other} | {month: {"why": "damaged"}}

        FailedParts(bucket).change({"ann": change})

    hubs = [threading.Thread(target=noted, args=args) for args in (("2026-02", "2026-01"), ("2026-03", ""))]
    for hub in hubs:
        hub.start()
    for hub in hubs:
        hub.join(30)

    assert {month: one["why"] for month, one in FailedParts(bucket).read()["ann"].items()} == {"2026-02": "damaged", "2026-03": "damaged"}
    assert len(bucket.entries(FAILED)) == 1  # earlier ones are gone


@pytest.mark.feature("team.doctor")
def test_a_note_under_a_number_that_others_have_passed_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bucket = Bucket(str(tmp_path / "bucket"))
    slow, fast = FailedParts(bucket), FailedParts(bucket)
    fast.change({"ann": lambda _: {"2026-01": {"why": "gone"}}})
    passed: list[int] = []

    def change(before: Notes) -> Notes:
        if not passed:
            for number in (2, 3):  # the number that the slow one is about to write comes and goes
                fast.change({"ann": lambda notes, n=number: {**notes, f"2026-0{n}": {"why": "damaged"}}})
            passed.append(1)
        return {**before, "2026-04": {"why": "late"}}

    slow.change({"ann": change})

    assert sorted(FailedParts(bucket).read()["ann"]) == ["2026-01", "2026-02", "2026-03", "2026-04"]


@pytest.mark.feature("team.doctor")
def test_notes_of_members_who_are_gone_go_and_nothing_is_written_where_nothing_failed(tmp_path: Path):
    bucket = Bucket(str(tmp_path / "bucket"))
    notes = FailedParts(bucket)
    notes.change({"ann": lambda _: {"2026-01": {"why": "gone"}}, "bob": lambda _: {"2026-01": {"why": "gone"}}, "cyd": lambda n: n})
    assert sorted(notes.read()) == ["ann", "bob"]

    notes.forget({"bob"})

    assert sorted({entry.path.split("/")[2] for entry in bucket.entries(FAILED)}) == ["bob"]
