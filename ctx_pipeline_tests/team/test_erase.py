"""What a member takes back from a team is gone from every byte of the bucket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.errors import StoreError, UsageError
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.storage.team_tables.delta import TeamTable
from ctx_pipeline.team.hub import Hub
from ctx_pipeline.team.membership import RECORD, TAKEN, demand, elsewhere, join, save, shared
from ctx_pipeline.team.withdraw import leave, withdraw
from ctx_pipeline_tests.factories.team_machines import TeamMachine, session_id

if TYPE_CHECKING:
    from ctx_pipeline_tests.team.conftest import Unpacked


def machine(tmp_path: Path, url: str, member: str = "ann", name: str = "laptop") -> TeamMachine:
    return TeamMachine(tmp_path / f"{member}-{name}", member, name).join(url, share=("texts",))


def hub_of(tmp_path: Path, url: str) -> Hub:
    return Hub(TeamMachine(tmp_path / "hub", "hub").settings, url)


def two_sessions_published(tmp_path: Path, url: str) -> tuple[TeamMachine, Hub]:
    """Return a machine that published two sessions, and a hub that collected them."""
    ann = machine(tmp_path, url)
    ann.works(1, words="lighthouse keeper")
    ann.works(2, words="harbor master")
    ann.publish()
    hub = hub_of(tmp_path, url)
    hub.refresh()
    return ann, hub


@pytest.mark.feature("team.erase")
def test_a_forgotten_session_leaves_no_word_in_the_bucket(tmp_path: Path, folder_bucket: str, unpacked: Unpacked):
    ann, hub = two_sessions_published(tmp_path, folder_bucket)
    assert unpacked(folder_bucket, "lighthouse", session_id(1)) == {"lighthouse", session_id(1)}

    with pytest.MonkeyPatch.context() as patch:
        for name, value in ann.settings.environ.items():
            patch.setenv(name, value)
        done = CliRunner().invoke(cli, ["forget", session_id(1), "--yes"])
    assert done.exit_code == 0, done.output
    assert "1 of them were removed from the team" in done.output
    assert "1 session forgotten." in done.output
    assert hub.refresh().erased > 0

    assert unpacked(folder_bucket, "lighthouse", session_id(1), "harbor") == {"harbor"}
    assert "nothing of them is left" in done.output
    ann.publish()
    assert unpacked(folder_bucket, "lighthouse", session_id(1)) == set()
    assert hub.refresh().erased == 0  # once


@pytest.mark.feature("team.erase")
def test_forgetting_that_was_cut_off_before_earlier_versions_went_is_finished_by_the_next_publication(
    tmp_path: Path, folder_bucket: str, unpacked: Unpacked, monkeypatch: pytest.MonkeyPatch
):
    ann, hub = two_sessions_published(tmp_path, folder_bucket)

    def failing(self: TeamTable, hours: int = 0) -> int:
        raise StoreError("the network is gone")

    with monkeypatch.context() as patch:
        for name, value in ann.settings.environ.items():
            patch.setenv(name, value)
        patch.setattr(TeamTable, "vacuum", failing)
        done = CliRunner().invoke(cli, ["forget", session_id(1), "--yes"])
    assert "ctx publish removes them there" in done.output
    assert unpacked(folder_bucket, "lighthouse") == {"lighthouse"}

    ann.publish()

    assert hub.refresh().erased > 0
    assert unpacked(folder_bucket, "lighthouse", session_id(1), "harbor") == {"harbor"}


@pytest.mark.feature("team.erase")
def test_a_narrower_policy_leaves_no_word_of_what_it_withholds(tmp_path: Path, folder_bucket: str, unpacked: Unpacked):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1, words="lighthouse keeper")
    ann.publish()

    save(ann.settings, shared(demand(ann.settings), "*", "counts"))
    ann.publish()

    assert unpacked(folder_bucket, "lighthouse", session_id(1)) == {session_id(1)}
    ann.works(2)
    assert ann.publish().sessions == 1  # the log that is left takes new commits


@pytest.mark.feature("team.erase")
def test_what_was_erased_while_a_table_could_not_be_read_is_gone_once_it_can_be(tmp_path: Path, folder_bucket: str, unpacked: Unpacked):
    ann, bob = machine(tmp_path, folder_bucket), machine(tmp_path, folder_bucket, "bob")
    for number, (one, words) in enumerate(((ann, "lighthouse"), (bob, "pier")), 1):
        one.works(number, words=words)
        one.publish()
    hub = hub_of(tmp_path, folder_bucket)
    hub.refresh([])
    for one in (ann, bob):
        save(one.settings, shared(demand(one.settings), "*", "counts"))
        one.publish()
    kept = {path: path.read_bytes() for path in Path(folder_bucket).glob("members/ann/sessions/**/*.parquet")}
    for path in kept:
        path.unlink()

    first = hub.refresh([])
    held = unpacked(folder_bucket, "lighthouse", "pier")
    again = hub.refresh([])
    for path, body in kept.items():
        path.write_bytes(body)
    after = hub.refresh([])

    assert first.erased > 0
    assert held == {"lighthouse"}  # of the member that could be read nothing is left
    assert again.erased == 0  # nothing is done again while it is damaged
    assert after.erased > 0
    assert unpacked(folder_bucket, "lighthouse", "pier") == set()


@pytest.mark.feature("team.erase")
def test_a_machine_that_leaves_and_erases_is_gone_and_others_stay(tmp_path: Path, s3_bucket: str, unpacked: Unpacked):
    ann, desk, bob = machine(tmp_path, s3_bucket), machine(tmp_path, s3_bucket, name="desk"), machine(tmp_path, s3_bucket, "bob")
    for number, (one, words) in enumerate(((ann, "lighthouse"), (desk, "harbor"), (bob, "pier")), 1):
        one.works(number, words=words)
        one.publish()
    hub = hub_of(tmp_path, s3_bucket)
    hub.refresh()

    with open_store(ann.settings) as store:
        assert leave(store, ann.settings, erase=True) == 1
    hub.refresh()
    assert unpacked(s3_bucket, "lighthouse", "harbor", "pier", session_id(1)) == {"harbor", "pier"}
    with open_store(desk.settings) as store:
        leave(store, desk.settings, erase=True)
    hub.refresh()

    assert unpacked(s3_bucket, "lighthouse", "harbor", "pier") == {"pier"}
    assert [e.path for e in Bucket(s3_bucket).entries() if "ann" in e.path] == []
    assert {row["member"] for row in hub.database.reports(("members",))["members"]} == {"bob"}
    with pytest.raises(UsageError):
        demand(ann.settings)


@pytest.mark.feature("team.erase")
def test_who_left_and_erased_is_named_in_no_byte_of_the_bucket(tmp_path: Path, folder_bucket: str, unpacked: Unpacked):
    gone, bob = machine(tmp_path, folder_bucket, "annabel-lee", name="kingdom"), machine(tmp_path, folder_bucket, "bob")
    for number, one in enumerate((gone, bob), 1):
        one.works(number, words="lighthouse" if one is gone else "pier")
        one.publish()
    hub = hub_of(tmp_path, folder_bucket)
    hub.refresh()
    hub.lessons()
    words = ("annabel-lee", "kingdom", session_id(1), "lighthouse", "pier")
    assert unpacked(folder_bucket, *words) == set(words)

    with open_store(gone.settings) as store:
        leave(store, gone.settings, erase=True)
    hub.refresh()

    assert unpacked(folder_bucket, *words) == {"pier"}
    kept = b"".join(path.read_bytes() for path in hub.folder.rglob("*") if path.is_file())
    assert {word for word in words if word.encode() in kept} == {"pier"}


@pytest.mark.feature("team.erase")
def test_the_database_of_every_hub_holds_no_byte_of_a_session_that_was_forgotten(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1, words="lighthouse keeper")
    ann.works(2, words="harbor master")
    ann.publish()
    hubs = [Hub(TeamMachine(tmp_path / name, "hub").settings, folder_bucket) for name in ("one", "two")]
    for hub in hubs:
        hub.refresh()
        assert b"lighthouse" in hub.database.path.read_bytes()

    with open_store(ann.settings) as store:
        withdraw(store, ann.settings, [("claude", session_id(1))])

    for hub in hubs:  # the second finds that the team's tables are clean already
        hub.refresh()
        assert b"lighthouse" not in hub.database.path.read_bytes()
        assert b"harbor" in hub.database.path.read_bytes()
        assert hub.database.path.stat().st_mode & 0o777 == 0o600
        assert [row["sessions"] for row in hub.database.reports(("members",))["members"]] == [1]


@pytest.mark.feature("team.erase")
def test_a_machine_that_left_takes_its_names_again_and_erases_and_no_other_machine_can(
    tmp_path: Path, folder_bucket: str, unpacked: Unpacked
):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1, words="lighthouse keeper")
    ann.publish()
    with open_store(ann.settings) as store:
        leave(store, ann.settings)
    with pytest.raises(StoreError, match="another machine publishes as ann/laptop"):
        TeamMachine(tmp_path / "other", "ann").join(folder_bucket)

    again = ann.join(folder_bucket, share=())
    assert dict(demand(again.settings).share) == {}  # nothing leaves before a policy says so anew
    with open_store(ann.settings) as store:
        leave(store, ann.settings, erase=True)

    assert unpacked(folder_bucket, "lighthouse", session_id(1), "ann") == set()
    TeamMachine(tmp_path / "other", "ann").join(folder_bucket)


@pytest.mark.feature("team.erase")
def test_a_machine_may_leave_without_the_bucket_and_what_it_published_stays(tmp_path: Path, folder_bucket: str, unpacked: Unpacked):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1)
    ann.publish()

    with open_store(ann.settings) as store:
        assert leave(store, ann.settings) == 0

    assert unpacked(folder_bucket, session_id(1)) == {session_id(1)}


@pytest.mark.feature("team.erase")
@pytest.mark.parametrize("body", [b"\x00 garbage", b'{"votes": "many"}', b""])
def test_what_is_ones_own_can_be_erased_though_nobody_can_read_what_the_team_agreed_on(
    tmp_path: Path, folder_bucket: str, unpacked: Unpacked, body: bytes
):
    ann = machine(tmp_path, folder_bucket)
    for number, words in enumerate(("lighthouse keeper", "harbor master"), 1):
        ann.works(number, words=words)
    ann.publish()
    agreed = Path(folder_bucket) / "team.json"
    if body:
        agreed.write_bytes(body)
    else:
        agreed.unlink()

    with open_store(ann.settings) as store:
        assert withdraw(store, ann.settings, [("claude", session_id(1))]) == 1
    assert unpacked(folder_bucket, "lighthouse", session_id(1), "harbor") == {"harbor"}
    with open_store(ann.settings) as store:
        assert leave(store, ann.settings, erase=True) == 1

    assert [e.path for e in Bucket(folder_bucket).entries() if e.path != "team.json"] == []


@pytest.mark.feature("team.erase")
def test_nothing_counts_as_erased_where_a_folder_is_not_the_one_that_the_machine_joined(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1)
    ann.publish()
    away = Path(folder_bucket).rename(tmp_path / "not mounted")
    Path(folder_bucket).mkdir()

    with open_store(ann.settings) as store:
        for take_back in (
            lambda: withdraw(store, ann.settings, [("claude", session_id(1))]),
            lambda: leave(store, ann.settings, erase=True),
        ):
            with pytest.raises(StoreError, match="no team is at"):
                take_back()
    Path(folder_bucket).rmdir()
    away.rename(folder_bucket)

    with open_store(ann.settings) as store:
        assert leave(store, ann.settings, erase=True) == 1


@pytest.mark.feature("team.erase")
@pytest.mark.parametrize("moved", ["name", "team", "damaged"])
def test_what_was_published_under_an_earlier_name_is_named_and_can_still_be_erased(
    tmp_path: Path, folder_bucket: str, unpacked: Unpacked, monkeypatch: pytest.MonkeyPatch, moved: str
):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1, words="lighthouse keeper")
    ann.publish()
    if moved == "damaged":
        (ann.settings.home / "team" / "membership.json").write_text("{", "utf-8")
    for name, value in ann.settings.environ.items():
        monkeypatch.setenv(name, value)

    def said(*words: str) -> str:
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
        return done.output

    joined = said("team", "join", str(tmp_path / "second") if moved == "team" else folder_bucket, "--as", "mary", "--machine", "desk")

    again = f"ctx team join {folder_bucket} --as ann --machine laptop"
    assert again in joined
    assert again in said("team", "show")
    assert again in said("forget", session_id(1), "--yes")
    assert unpacked(folder_bucket, "lighthouse") == {"lighthouse"}
    assert again not in said(*again.split()[1:])
    said("team", "leave", "--erase", "--yes")
    assert unpacked(folder_bucket, "lighthouse", session_id(1), "ann") == set()
    assert again not in said("team", "join", folder_bucket, "--as", "mary", "--machine", "desk")


@pytest.mark.feature("team.erase")
@pytest.mark.parametrize("left", [False, True])
def test_names_under_which_nothing_was_published_are_not_said_to_hold_anything_and_can_be_taken_again(
    tmp_path: Path, folder_bucket: str, left: bool
):
    ann = machine(tmp_path, folder_bucket)
    if left:
        with open_store(ann.settings) as store:
            leave(store, ann.settings)
    anna = TeamMachine(ann.folder, "anna").join(folder_bucket)
    anna.works(1)
    anna.publish()

    assert elsewhere(anna.settings) == []
    with open_store(anna.settings) as store:
        leave(store, anna.settings)
    assert elsewhere(anna.settings) == [f"ctx team join {folder_bucket} --as anna --machine laptop"]
    ann.join(folder_bucket)
    assert demand(ann.settings).member == "ann"


@pytest.mark.feature("team.erase")
@pytest.mark.parametrize("lost", ["record", "bucket", "earlier version"])
def test_where_it_is_not_known_whether_something_was_published_under_names_they_are_told(tmp_path: Path, folder_bucket: str, lost: str):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1)
    ann.publish()
    (ann.settings.home / RECORD).unlink()
    if lost == "bucket":
        Path(folder_bucket).rename(tmp_path / "not mounted")
    if lost == "earlier version":
        Path(folder_bucket).rename(tmp_path / "not mounted")
        names = {f"{folder_bucket} ann/laptop": demand(ann.settings).machine_id}
        (ann.settings.home / TAKEN).write_text(json.dumps(names), "utf-8")

    TeamMachine(ann.folder, "anna").join(str(tmp_path / "second"))

    assert elsewhere(ann.settings) == [f"ctx team join {folder_bucket} --as ann --machine laptop"]


@pytest.mark.feature("team.erase")
@pytest.mark.parametrize("names", [{"name": ""}, {"machine": " "}])
def test_a_name_that_a_script_left_empty_is_no_name(tmp_path: Path, folder_bucket: str, names: dict[str, str]):
    ann = TeamMachine(tmp_path / "ann", "ann")

    with pytest.raises(UsageError, match="is no name"):
        join(ann.settings, folder_bucket, **{"name": "ann", "machine": "laptop", **names})
