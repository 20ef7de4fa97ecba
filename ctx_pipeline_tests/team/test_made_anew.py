"""What somebody else did to a machine's tables in the bucket is made good by the machine, which has all of it."""

from __future__ import annotations

import resource
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.tables import MEMORIES
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.team_tables.bucket import Bucket, NotATable
from ctx_pipeline.storage.team_tables.delta import TeamTable
from ctx_pipeline.team.lessons_out import Lessons
from ctx_pipeline.team.membership import TEAM_FILE
from ctx_pipeline.team.published_tables import LESSON_COLUMNS, LESSONS_MONTH, PARTITIONS, PLACE
from ctx_pipeline.team.withdraw import leave
from ctx_pipeline_tests.factories.team_machines import DAY, TeamMachine, session_id

deltalake = pytest.importorskip("deltalake")


def files_gone(table: Path) -> None:
    for path in table.rglob("*.parquet"):
        path.unlink()


def log_of_garbage(table: Path) -> None:
    for path in (table / "_delta_log").glob("*.json"):
        path.write_bytes(b"\x00no log")


def rows_deleted(table: Path) -> None:
    deltalake.DeltaTable(str(table)).delete()


def other_types(table: Path) -> None:
    rows = pa.table({name: [1] if name == "session_id" else ["x"] for name in ("member", "machine", "month", "session_id")})
    shutil.rmtree(table)
    deltalake.write_deltalake(str(table), rows, partition_by=["member", "machine", "month"])


def copied(table: Path) -> None:
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table()
    shutil.rmtree(table)
    deltalake.write_deltalake(str(table), rows, partition_by=list(PARTITIONS))


@pytest.mark.feature("team.made-anew")
@pytest.mark.parametrize("damage", [files_gone, log_of_garbage, rows_deleted, other_types, copied])
def test_all_that_a_machine_published_is_sent_again_over_a_table_that_somebody_else_damaged(
    tmp_path: Path, folder_bucket: str, damage: Callable[[Path], None]
):
    ann, other = TeamMachine(tmp_path / "one", "ann").join(folder_bucket, share=("facts",)), TeamMachine(tmp_path / "two", "ann", "desk")
    other.join(folder_bucket, share=("facts",))
    for number, who in ((1, ann), (2, other)):
        who.works(number)
        who.publish()
    damage(Path(folder_bucket) / "members/ann/sessions")

    for who in (ann, other):
        assert who.publish(whole=True).sessions == 1

    table = TeamTable(Bucket(folder_bucket), "members/ann/sessions")
    rows = table.rows()
    assert rows is not None
    assert sorted(rows["session_id"].to_pylist()) == [session_id(1), session_id(2)]
    assert (ann.publish().sessions, other.publish().sessions) == (0, 0)


@pytest.mark.feature("team.made-anew")
@pytest.mark.parametrize("how", [shutil.rmtree, other_types, copied])
def test_a_machine_whose_table_was_replaced_sends_all_again_by_itself(tmp_path: Path, folder_bucket: str, how: Callable[[Path], None]):
    ann = TeamMachine(tmp_path / "one", "ann").join(folder_bucket, share=("facts",))
    ann.works(1)
    ann.publish()
    how(Path(folder_bucket) / "members/ann/turns")
    ann.works(2)

    assert ann.publish().sessions == 2

    rows = TeamTable(Bucket(folder_bucket), "members/ann/turns").rows()
    assert rows is not None
    assert sorted(rows["session_id"].to_pylist()) == [session_id(1), session_id(2)]


@pytest.mark.feature("team.made-anew")
def test_a_table_that_another_machine_of_the_member_made_first_is_none_that_was_lost(tmp_path: Path, folder_bucket: str):
    one, two = TeamMachine(tmp_path / "one", "ann").join(folder_bucket, share=("facts",)), TeamMachine(tmp_path / "two", "ann", "desk")
    two.join(folder_bucket, share=("facts",))
    one.home.session(session_id(1), slug="-w-shop", cwd="/w/shop", mark="1", started=DAY).prompt("go on").save()  # no checks
    assert one.publish().sessions == 1
    assert not (Path(folder_bucket) / "members/ann/check_runs").exists()
    two.works(2)
    two.publish()
    one.works(3)

    assert one.publish().sessions == 1

    rows = TeamTable(Bucket(folder_bucket), "members/ann/check_runs").rows()
    assert rows is not None
    assert sorted(rows["session_id"].to_pylist()) == [session_id(2), session_id(3)]


@pytest.mark.feature("team.made-anew")
def test_lessons_that_a_machine_has_no_more_are_taken_back_when_all_is_sent_again(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    ann = TeamMachine(tmp_path / "one", "ann").join(folder_bucket, share=("facts", "lessons"))
    ann.works(1)
    lesson = dict.fromkeys(c.name for c in (*PLACE, *MEMORIES.columns) if c.name in {*(p.name for p in PLACE), *LESSON_COLUMNS})
    lesson |= {"member": "ann", "machine": "laptop", "month": LESSONS_MONTH, "memory_id": "m-1", "text": "Run `make lint`."}
    monkeypatch.setattr("ctx_pipeline.team.publish.lessons_that_leave", lambda *_: Lessons([lesson], Counter()))
    ann.publish()
    table = Path(folder_bucket) / "members/ann/lessons"
    assert deltalake.DeltaTable(str(table)).to_pyarrow_table()["memory_id"].to_pylist() == ["m-1"]
    monkeypatch.setattr("ctx_pipeline.team.publish.lessons_that_leave", lambda *_: Lessons([], Counter()))

    ann.publish(whole=True)

    assert deltalake.DeltaTable(str(table)).to_pyarrow_table().num_rows == 0


@pytest.mark.feature("team.made-anew")
def test_a_table_that_this_machine_cannot_open_just_now_is_not_taken_for_a_damaged_one(tmp_path: Path, folder_bucket: str):
    ann = TeamMachine(tmp_path / "one", "ann").join(folder_bucket, share=("facts",))
    ann.works(1)
    ann.publish()
    table = TeamTable(Bucket(folder_bucket), "members/ann/sessions")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        with pytest.raises(StoreError, match="Too many open files") as raised:
            table.opened()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert not isinstance(raised.value, NotATable)
    (Path(folder_bucket) / "members/ann/sessions/_delta_log/00000000000000000000.json").write_bytes(b"no log")
    with pytest.raises(NotATable):
        table.opened()


@pytest.mark.feature("team.made-anew", "team.erase")
def test_what_a_machine_published_can_be_erased_though_a_table_is_damaged(tmp_path: Path, folder_bucket: str):
    ann = TeamMachine(tmp_path / "one", "ann").join(folder_bucket, share=("facts",))
    ann.works(1)
    ann.publish()
    log_of_garbage(Path(folder_bucket) / "members/ann/turns")
    (Path(folder_bucket) / TEAM_FILE).unlink()

    with open_store(ann.settings) as store:
        assert leave(store, ann.settings, erase=True) == 1

    assert [e.path for e in Bucket(folder_bucket).entries("members")] == []
