"""What leaves a machine: by policy, what changed, once, redacted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.errors import StoreError, UnknownChoice, UsageError
from ctx_pipeline.memory.consolidation import AUTHORED
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.storage.team_tables.delta import Fenced, TeamTable
from ctx_pipeline.team import membership
from ctx_pipeline.team.membership import FILE, RECORD, TEAM_FILE, demand, join, save, shared
from ctx_pipeline.team.publish import publish
from ctx_pipeline.team.published_tables import PUBLISHED
from ctx_pipeline_tests.factories.team_machines import TeamMachine, session_id


def rows(url: str, table: str, member: str = "ann") -> list[dict]:
    found = TeamTable(Bucket(url), f"members/{member}/{table}").rows()
    return [] if found is None else found.to_pylist()


def bytes_of(url: str) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(Path(url).rglob("*")) if p.is_file())


def machine(tmp_path: Path, member: str = "ann", name: str = "laptop") -> TeamMachine:
    return TeamMachine(tmp_path / f"{member}-{name}", member, name)


@pytest.mark.feature("team.policy")
def test_nothing_leaves_without_a_policy(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path).join(folder_bucket, share=())
    ann.works(1)

    done = ann.publish()

    assert (done.sessions, dict(done.withheld)) == (0, {"shop": 1})
    assert sorted(p.name for p in Path(folder_bucket).rglob("*") if p.is_file()) == ["machine.json", "team.json"]


@pytest.mark.feature("team.publish")
def test_only_what_changed_is_sent_and_replaces_what_was_there(tmp_path: Path, s3_bucket: str):
    ann = machine(tmp_path).join(s3_bucket)
    ann.works(1)
    ann.works(2, turns=2)
    assert ann.publish().sessions == 2
    assert ann.publish().sessions == 0

    ann.works(2, turns=3)
    done = ann.publish()

    assert (done.sessions, done.rows["sessions"]) == (1, 1)
    assert sorted((r["session_id"], r["prompts"], r["member"], r["machine"], r["month"]) for r in rows(s3_bucket, "sessions")) == [
        (session_id(1), 1, "ann", "laptop", "2026-03"),
        (session_id(2), 3, "ann", "laptop", "2026-03"),
    ]
    calls = [r["call_key"] for r in rows(s3_bucket, "model_calls")]
    assert len(calls) == len(set(calls)) == 2 * (1 + 3)


@pytest.mark.feature("team.policy")
def test_counts_hold_no_prompt_no_path_and_no_command_and_texts_are_redacted(tmp_path: Path, folder_bucket: str):
    secret = "sk-ant-api03-" + "Ab1" * 30
    ann = machine(tmp_path).join(folder_bucket)
    ann.works(1, words=f"lighthouse keeper {secret}")
    ann.publish()
    sent = bytes_of(folder_bucket)
    assert not [word for word in (b"lighthouse", b"/w/shop", b"pytest -q", secret.encode()) if word in sent]
    assert {r["result"] for r in rows(folder_bucket, "check_runs")} == {"passed"}
    assert rows(folder_bucket, "events") == []

    save(ann.settings, shared(demand(ann.settings), "shop", "texts"))
    ann.publish()

    texts = "".join(r["text"] or "" for r in rows(folder_bucket, "events"))
    assert "lighthouse keeper [REDACTED:" in texts
    assert secret not in texts
    assert secret.encode() not in bytes_of(folder_bucket)


@pytest.mark.feature("team.policy")
def test_a_narrower_policy_removes_what_it_no_longer_allows(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path).join(folder_bucket, share=("facts",))
    ann.works(1)
    ann.works(2, project="private")
    ann.publish()
    assert {r["session_id"] for r in rows(folder_bucket, "command_runs")} == {session_id(1), session_id(2)}

    save(ann.settings, shared(shared(demand(ann.settings), "shop", "counts"), "private", "none"))
    done = ann.publish()

    assert (done.sessions, done.removed) == (1, 1)
    assert rows(folder_bucket, "command_runs") == []
    assert {r["session_id"] for r in rows(folder_bucket, "sessions")} == {session_id(1)}
    assert {r["session_id"] for r in rows(folder_bucket, "model_calls")} == {session_id(1)}


@pytest.mark.feature("team.dry-run")
def test_a_dry_run_shows_rows_and_an_example_and_sends_nothing(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path).join(folder_bucket)
    ann.works(1, turns=2)
    before = bytes_of(folder_bucket)

    done = ann.publish(dry_run=True)

    assert (done.sessions, done.rows["model_calls"], done.rows["sessions"]) == (1, 4, 1)
    assert done.examples["sessions"]["member"] == "ann"
    assert done.examples["sessions"]["prompts"] == 2
    assert done.by_project == {"shop": {"policies": ["counts"], "sessions": 1, "of": 1}}
    assert bytes_of(folder_bucket) == before
    assert ann.publish().sessions == 1


@pytest.mark.feature("team.dry-run", "team.publish")
def test_a_rehearsal_in_a_new_store_shows_what_is_sent_then_row_for_row(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path).join(folder_bucket, share=("texts", "lessons"))
    ann.works(1, words="lighthouse")
    ann.works(2)
    with open_store(ann.settings) as store:
        store.journal.append(
            AUTHORED, {"memory_id": "m-1", "text": "Run `make schema` before the tests.", "kind": "procedure"}, actor="cli"
        )
        consolidate(store, ann.settings)

    def said(*words: str) -> dict[str, Any]:
        done = CliRunner().invoke(cli, ["publish", *words, "--json"], env=dict(ann.settings.environ))
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    dry, sent = said("--dry-run"), said()

    assert dry["rows"]["check_runs"] == 2
    assert dry["rows"]["lessons"] == 1
    assert {name: count for name, count in sent["rows"].items() if count} == dry["rows"]
    assert {name: TeamTable(Bucket(folder_bucket), f"members/ann/{name}").rows().num_rows for name in dry["rows"]} == dry["rows"]  # type: ignore[union-attr]
    assert dry["examples"]["sessions"]["title"]  # the row with most in it: what a policy lets out is seen


@pytest.mark.feature("team.once")
def test_an_upload_that_was_cut_off_after_any_table_is_made_whole_and_nothing_is_there_twice(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    ann = machine(tmp_path).join(folder_bucket)
    ann.works(1, turns=2)
    put = TeamTable.put
    for allowed in range(4):
        left = [allowed]

        def failing(self: TeamTable, *words: object, left: list[int] = left, **options: object) -> int:
            if left[0] == 0:
                raise StoreError("the network is gone")
            left[0] -= 1
            return put(self, *words, **options)

        with monkeypatch.context() as patch:
            patch.setattr(TeamTable, "put", failing)
            with pytest.raises(StoreError, match="the network is gone"):
                ann.publish()
    ann.publish()

    assert {name: len(rows(folder_bucket, name)) for name in ("sessions", "model_calls", "turns", "check_runs")} == {
        "sessions": 1,
        "model_calls": 4,
        "turns": 2,
        "check_runs": 2,
    }


@pytest.mark.feature("team.once")
def test_what_a_publication_that_was_cut_off_before_its_head_sent_is_told_by_the_next_one(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    ann = machine(tmp_path).join(folder_bucket)
    ann.works(1)
    ann.publish()
    (place,) = Path(folder_bucket).glob("heads/ann/*.json")
    before = json.loads(place.read_bytes())
    ann.works(2)

    def failing(self: Bucket, path: str, body: bytes) -> None:
        raise StoreError("the network is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "write", failing)
        with pytest.raises(StoreError, match="the network is gone"):
            ann.publish()
    assert len(rows(folder_bucket, "sessions")) == 2
    assert json.loads(place.read_bytes()) == before

    assert ann.publish().sessions == 0

    after = json.loads(place.read_bytes())
    assert after["rows"]["2026-03"]["sessions"] == 2
    assert after["months"] != before["months"]
    ann.publish()
    assert json.loads(place.read_bytes()) == after  # nothing was left to tell


@pytest.mark.feature("team.once", "team.batched")
def test_of_an_upload_that_was_cut_off_a_session_that_is_shared_no_more_leaves_no_row_and_may_come_again(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    ann = machine(tmp_path).join(folder_bucket, share=())
    for name in ("shop", "other"):
        save(ann.settings, shared(demand(ann.settings), name, "counts"))
    ann.works(1)
    ann.publish()
    ann.works(2, project="other")
    put = TeamTable.put

    def failing(self: TeamTable, *words: Any, **options: Any) -> int:
        if self.path.endswith("check_runs"):
            raise StoreError("the network is gone")
        return put(self, *words, **options)

    with monkeypatch.context() as patch:
        patch.setattr(TeamTable, "put", failing)
        with pytest.raises(StoreError, match="the network is gone"):
            ann.publish()
    assert len(rows(folder_bucket, "sessions")) == 2

    save(ann.settings, shared(demand(ann.settings), "other", "none"))
    ann.publish()
    assert [row["session_id"] for row in rows(folder_bucket, "sessions")] == [session_id(1)]
    save(ann.settings, shared(demand(ann.settings), "other", "counts"))
    ann.publish()
    for name, count in {"sessions": 2, "model_calls": 4, "turns": 2, "check_runs": 2}.items():
        assert len(rows(folder_bucket, name)) == count, name


@pytest.mark.feature("team.batched")
def test_a_new_session_is_appended_and_no_log_is_read_for_the_numbers_of_a_machine_that_is_alone(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    ann = machine(tmp_path).join(folder_bucket)
    ann.works(1)
    ann.publish()
    ann.works(2)
    ann.capture()
    read: list[str] = []
    original = Bucket.read

    def watched(self: Bucket, path: str) -> bytes | None:
        read.append(path)
        return original(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "read", watched)
        ann.publish()

    assert read == [TEAM_FILE]
    assert len(rows(folder_bucket, "sessions")) == 2
    written = [path for path in Path(folder_bucket).glob("members/ann/sessions/**/*.parquet") if "_delta_log" not in path.parts]
    assert len(written) == 2  # the file of the first session stays as it is


@pytest.mark.feature("team.pruned")
def test_many_publications_leave_few_files_and_nothing_of_another_machine_is_touched(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ctx_pipeline.team.table_sender._PRUNED", 4)
    desk = machine(tmp_path, name="desk").join(folder_bucket)
    desk.works(90)
    desk.publish()

    def files(name: str) -> list[str]:
        found = TeamTable(Bucket(folder_bucket), "members/ann/sessions").opened()
        assert found is not None
        return [uri for uri in found.file_uris() if f"machine={name}" in uri]

    kept = files("desk")
    ann = machine(tmp_path).join(folder_bucket)
    most = 0
    for number in range(1, 11):
        ann.works(number)
        ann.publish()
        most = max(most, len(files("laptop")))

    assert most <= 5
    assert files("desk") == kept
    assert sorted(row["session_id"] for row in rows(folder_bucket, "sessions")) == sorted(map(session_id, [*range(1, 11), 90]))
    ann.works(3, turns=2)
    assert ann.publish().sessions == 1
    assert len(rows(folder_bucket, "sessions")) == 11


@pytest.mark.feature("team.once")
def test_a_machine_that_lost_its_record_sends_all_again_and_nothing_is_there_twice(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path).join(folder_bucket)
    ann.works(1)
    ann.works(2)
    ann.publish()
    (ann.settings.home / RECORD).unlink()

    assert ann.publish().sessions == 2
    assert sorted(r["session_id"] for r in rows(folder_bucket, "sessions")) == [session_id(1), session_id(2)]


@pytest.mark.feature("team.machine-names")
def test_a_second_machine_cannot_take_a_name_and_a_copied_store_is_fenced_off(tmp_path: Path, s3_bucket: str):
    ann = machine(tmp_path).join(s3_bucket)
    with pytest.raises(StoreError, match="another machine publishes as ann/laptop"):
        machine(tmp_path / "other").join(s3_bucket)
    machine(tmp_path, "ann", "desktop").join(s3_bucket)

    ann.works(1)
    ann.publish()
    copy = machine(tmp_path / "copied")
    copy.folder.parent.mkdir()
    import shutil

    shutil.copytree(ann.folder, copy.folder)
    ann.works(2)
    ann.publish()
    copy.works(3)
    with pytest.raises(Fenced, match="another process published to members/ann"):
        copy.publish()
    assert {r["session_id"] for r in rows(s3_bucket, "sessions")} == {session_id(1), session_id(2)}


@pytest.mark.feature("team.bad-input")
def test_wrong_addresses_names_policies_and_newer_teams_are_errors_with_a_hint(
    tmp_path: Path, folder_bucket: str, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    ann = machine(tmp_path)
    for url in ("ftp://x/y", "s3://", "s3://a/../b"):
        with pytest.raises(UsageError, match="no address of a bucket"):
            ann.join(url)
    with pytest.raises(StoreError, match="there is no bucket s3://nowhere-at-all"):
        ann.join("s3://nowhere-at-all")
    with pytest.raises(UsageError, match="is no name"):
        join(ann.settings, folder_bucket, name="../../etc")
    with pytest.raises(UnknownChoice):
        ann.join(folder_bucket, share=("everything",))
    with pytest.raises(UsageError, match="belongs to no team"):
        ann.publish()
    ann.join(folder_bucket)
    Bucket(folder_bucket).write(TEAM_FILE, b'{"protocol": 99}')
    ann.works(1)
    with pytest.raises(StoreError, match="newer version of ctx"):
        ann.publish()
    (ann.settings.home / FILE).write_text("{")
    with pytest.raises(membership.SettingsError, match="cannot be read"):
        ann.publish()


@pytest.mark.feature("team.bad-input")
def test_without_credentials_the_error_says_so_within_seconds(tmp_path: Path, s3_bucket: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    began = time.monotonic()
    with pytest.raises(StoreError, match="no credentials for s3://"):
        machine(tmp_path).join(s3_bucket)
    assert time.monotonic() - began < 60


@pytest.mark.feature("team.bad-input")
@pytest.mark.parametrize("command", [["hub", "refresh"], ["hub", "doctor"], ["team", "join"]])
def test_a_server_that_does_not_answer_is_said_in_one_sentence(
    tmp_path: Path, s3_bucket: str, monkeypatch: pytest.MonkeyPatch, command: list[str]
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    words = [*command, s3_bucket] if command[0] == "team" else [*command, "--url", s3_bucket]

    error = CliRunner().invoke(cli, words).exception

    assert isinstance(error, StoreError)
    assert error.message == f"{s3_bucket} does not answer"


@pytest.mark.feature("team.bad-input")
def test_an_endpoint_without_encryption_and_a_missing_account_are_said_in_one_sentence_each(
    tmp_path: Path, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(StoreError, match=r"is not encrypted \(http\)") as open_endpoint:
        machine(tmp_path).join(s3_bucket)
    assert "AWS_ALLOW_HTTP" in open_endpoint.value.hint
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(StoreError, match=r"^no storage account is named for az://acme"):
        machine(tmp_path).join("az://acme")


@pytest.mark.feature("team.policy")
def test_a_misspelled_policy_is_answered_with_all_of_them():
    with pytest.raises(UnknownChoice) as said:
        membership.policies("everything")
    assert said.value.hint == "known: counts, facts, lessons, none, raw, texts"


@pytest.mark.feature("team.bad-input")
def test_a_clock_that_the_provider_refuses_is_not_said_to_be_a_missing_right(s3_bucket: str):
    # as S3 answers a request that was signed more than a quarter of an hour off
    said = "403 Forbidden: <Code>RequestTimeTooSkewed</Code><Message>The difference between the request time and the current time"
    with pytest.raises(StoreError, match="refuses this machine's clock"), Bucket(s3_bucket).explained("team.json"):
        raise OSError(said)


@pytest.mark.feature("team.bad-input")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("error sending request for url (http://127.0.0.1:9/acme401/team.json), after 10 retries in 5.403s", "does not answer"),
        ("retries took 1.401s and 403ms; object acme-403 is broken", "object acme-403 is broken"),
        ("Server returned non-2xx status code: 403 Forbidden", "must not be read or written by these credentials"),
        ("status 401, <Code>InvalidToken</Code>", "must not be read or written by these credentials"),
    ],
)
def test_a_status_is_read_as_one_and_no_figures_of_a_duration_or_a_name_are(s3_bucket: str, said: str, told: str):
    with pytest.raises(StoreError, match=told), Bucket(s3_bucket).explained("team.json"):
        raise OSError(said)


@pytest.mark.feature("team.bad-input")
def test_a_bucket_to_which_nobody_published_is_asked_about(tmp_path: Path, s3_bucket: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    for command in ("refresh", "doctor"):
        done = CliRunner().invoke(cli, ["hub", command, "--url", s3_bucket])
        assert f"no machine has published to {s3_bucket}" in done.output
        assert "nothing is wrong" not in done.output


@pytest.mark.feature("team.bad-input")
def test_a_machine_whose_credentials_are_gone_says_so_when_it_publishes_and_sends_all_when_they_are_back(
    tmp_path: Path, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
):
    ann = machine(tmp_path).join(s3_bucket)
    ann.works(1)
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        patch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
        with pytest.raises(StoreError, match="no credentials for s3://") as said:
            ann.publish()
        assert "AWS_ACCESS_KEY_ID" in str(said.value.hint)
        with pytest.raises(StoreError, match="no credentials for s3://"):
            TeamTable(Bucket(s3_bucket), "members/ann/sessions").rows()

    assert ann.publish().sessions == 1


@pytest.mark.feature("team.publish")
def test_an_older_publisher_and_a_newer_one_write_one_table(tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch):
    ann = machine(tmp_path).join(folder_bucket)
    ann.works(1)
    tables = PUBLISHED

    class Older(type(tables[0])):
        @property
        def columns(self) -> tuple[str, ...]:
            return tuple(c for c in super().columns if c not in {"version", "status"})

    older = (Older(*tables[0]), *tables[1:])
    with monkeypatch.context() as patch:
        for module in ("publish", "table_sender"):
            patch.setattr(f"ctx_pipeline.team.{module}.PUBLISHED", older)
        ann.publish()
    desktop = machine(tmp_path, "ann", "desktop").join(folder_bucket)
    desktop.works(2)
    desktop.publish()
    with monkeypatch.context() as patch:
        for module in ("publish", "table_sender"):
            patch.setattr(f"ctx_pipeline.team.{module}.PUBLISHED", older)
        ann.works(3)
        with open_store(ann.settings) as store:
            publish(store, ann.settings)
        ann.publish()

    assert sorted((r["session_id"], r["status"] is None) for r in rows(folder_bucket, "sessions")) == [
        (session_id(1), True),
        (session_id(2), False),
        (session_id(3), True),
    ]


@pytest.mark.feature("team.bad-input")
@pytest.mark.parametrize(
    "said",
    [b"", b"no JSON", b"[]", b'{"protocol": "1"}', b'{"protocol": 1, "votes": -3}', b'{"votes": 2}"', b'{"aliases": "no"}', b"[" * 99_999],
)
def test_what_the_team_agreed_on_and_cannot_be_read_is_said_and_nothing_is_guessed(tmp_path: Path, folder_bucket: str, said: bytes):
    ann = machine(tmp_path).join(folder_bucket, share=("counts",))
    ann.works(1)
    Bucket(folder_bucket).write(TEAM_FILE, said)
    environ = dict(ann.settings.environ)
    for words in (["publish"], ["team", "pull"], ["hub", "refresh"], ["hub", "doctor"], ["team", "join", folder_bucket]):
        error = CliRunner().invoke(cli, words, env=environ).exception
        assert isinstance(error, StoreError), words
        assert f"{folder_bucket}/team.json cannot be read" in error.message
        assert '{"protocol":1,"votes":2,"aliases":false}' in str(error.hint)
    Bucket(folder_bucket).write(TEAM_FILE, b'{"protocol":1,"votes":2,"aliases":false}')
    assert ann.publish().sessions == 1


@pytest.mark.feature("team.bad-input")
def test_a_shared_folder_that_is_not_mounted_is_said_and_nothing_is_written_in_its_place(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path).join(folder_bucket, share=("counts",))
    ann.works(1)
    place = Path(folder_bucket)
    place.rename(tmp_path / "elsewhere")
    for words in (["publish"], ["team", "pull"], ["hub", "refresh"], ["hub", "doctor"], ["hub", "show"]):
        error = CliRunner().invoke(cli, words, env=dict(ann.settings.environ)).exception
        assert isinstance(error, StoreError), words
        assert error.message == f"there is no folder {folder_bucket}"
    assert not place.exists()
    place.mkdir()  # a mount point without what is mounted there
    with pytest.raises(StoreError, match="no team is at"):
        ann.publish()
    assert list(place.iterdir()) == []
    place.rmdir()
    (tmp_path / "elsewhere").rename(place)
    assert ann.publish().sessions == 1


@pytest.mark.feature("team.bad-input", "team.hub")
def test_a_hub_over_a_wrong_address_writes_nothing_there_and_loses_nothing_of_its_team(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path).join(folder_bucket, share=("counts",))
    ann.works(1)
    ann.publish()
    empty = tmp_path / "another"
    empty.mkdir()
    environ = {"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "hub"), "TZ": "UTC"}

    def told(*words: str) -> str:
        return CliRunner().invoke(cli, ["hub", *words], env=environ).output

    assert "1 month collected" in told("refresh", "--url", folder_bucket)
    assert "no machine has published to" in told("refresh", "--url", str(empty))
    assert "nothing is there yet" in told("show", "--url", str(empty))
    assert "0 months collected" in told("refresh", "--url", folder_bucket)
    assert "ann" in told("show", "--url", folder_bucket)
    assert not (empty / TEAM_FILE).exists()
    for wrong in ("s3:/acme", "S3:acme", "gs:/x/y"):
        with pytest.raises(UsageError, match="no address of a bucket"):
            Bucket(wrong)


@pytest.mark.feature("team.bad-input")
def test_an_error_that_says_what_to_do_keeps_what_it_came_from(tmp_path: Path):
    with pytest.raises(StoreError) as raised, Bucket(str(tmp_path)).explained("members/ann"):
        raise StoreError("another process was first") from ValueError("commit failed")

    assert isinstance(raised.value.__cause__, ValueError)


@pytest.mark.feature("team.policy")
@pytest.mark.parametrize("written", ["git@github.com:Acme/shop.git", "https://github.com/acme/shop", "github.com/acme/shop/"])
def test_a_repository_may_be_named_in_any_notation_and_a_name_that_nothing_has_is_told(
    tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch, written: str
):
    ann = machine(tmp_path).join(folder_bucket)
    ann.works(1)
    ann.publish()
    for name, value in ann.settings.environ.items():
        monkeypatch.setenv(name, value)

    told = {name: CliRunner().invoke(cli, ["team", "share", name, "none"]).output for name in (written, "shpo", "shop", "*")}

    assert demand(ann.settings).policy_of("other", "github.com/acme/shop") == ()
    assert {name: "no session here is of" in said for name, said in told.items()} == {
        written: True,
        "shpo": True,
        "shop": False,
        "*": False,
    }
    assert "did you mean shop" in told["shpo"]


@pytest.mark.feature("team.policy")
@pytest.mark.parametrize(
    ("kept", "shares"),
    [
        ({"github.com/Acme/App": [], "git@github.com:Acme/App.git": ["counts", "facts", "texts"]}, ()),
        ({"git@github.com:Acme/App.git": ["counts", "facts", "texts"], "github.com/acme/app": []}, ()),
        ({"github.com/Acme/App": ["counts", "lessons", "facts"], "github.com/acme/app": ["counts", "facts", "texts"]}, ("counts", "facts")),
    ],
)
def test_of_a_repository_that_an_earlier_version_kept_in_two_notations_the_narrower_policy_holds(
    tmp_path: Path, folder_bucket: str, kept: dict[str, list[str]], shares: tuple[str, ...]
):
    ann = machine(tmp_path).join(folder_bucket)
    path = ann.settings.home / FILE
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"share": {**kept, "*": ["counts"]}}), "utf-8")

    assert demand(ann.settings).policy_of("App", "github.com/Acme/App") == shares
    assert demand(ann.settings).policy_of("other", None) == ("counts",)


@pytest.mark.feature("team.policy")
def test_why_an_accepted_lesson_does_not_leave_is_told(tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch):
    ann = machine(tmp_path).join(folder_bucket, share=("counts", "lessons"))
    about = {"kind": "repo_convention", "scope": "repo", "text": "Run `make schema` before the tests."}
    placed = {"m-1": "github.com/acme/shop", "m-2": "/home/ann/notes", "m-3": None, "m-4": "github.com/acme/secret"}
    ann.works(1)
    ann.publish()
    with open_store(ann.settings) as store:
        save(ann.settings, shared(demand(ann.settings), "github.com/acme/secret", "counts"))
        for name, repository in placed.items():
            lesson = about | {"memory_id": name, "repository": repository, "text": f"{about['text']} {name}"}
            store.journal.append(AUTHORED, lesson, actor="person")
        consolidate(store, ann.settings)
    for name, value in ann.settings.environ.items():
        monkeypatch.setenv(name, value)

    for words in (["publish", "--dry-run"], ["publish"], ["publish"]):
        told = CliRunner().invoke(cli, words).output
        assert "3 accepted lessons stay here: 2 of a folder whose repository is not known, 1 of projects that do not share lessons" in told
    assert [row["memory_id"] for row in rows(folder_bucket, "lessons")] == ["m-1"]
