"""Exact transcripts go encrypted, and workers with the team's key make rows of them, one worker a member at a time."""

from __future__ import annotations

import io
import json
import random
import re
import signal
import tarfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import StoreLocked, UnknownChoice, UsageError
from ctx_pipeline.pipeline.forget.sessions import Selection, forget
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.storage.team_tables.delta import Fenced, TeamTable
from ctx_pipeline.team import bundles, shards
from ctx_pipeline.team.hub import Hub
from ctx_pipeline.team.hub_upkeep import doctor
from ctx_pipeline.team.membership import demand, save, shared
from ctx_pipeline.team.raw_out import bundle_path
from ctx_pipeline.team.shard_claim import claimed, committed
from ctx_pipeline.team.withdraw import leave, withdraw
from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.factories.team_machines import TeamMachine, session_id

pyrage = pytest.importorskip("pyrage")

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

WORD = "quetzalcoatl"
TABLES = ("sessions", "model_calls", "turns", "check_runs", "tool_calls", "threads", "command_runs", "file_accesses")


@pytest.fixture
def key(tmp_path: Path) -> tuple[str, Path]:
    """The team's public key, and the file with the private one."""
    made = pyrage.x25519.Identity.generate()
    place = tmp_path / "team-key.txt"
    place.write_text(f"# public key: {made.to_public()}\n{made}\n", "utf-8")
    return str(made.to_public()), place


def runner(tmp_path: Path, url: str, public: str, name: str = "job-1") -> TeamMachine:
    return TeamMachine(tmp_path / f"ci-{name}", "ci", name).join(url, share=("raw",), key=(public,))


def worker(tmp_path: Path, name: str = "one") -> Settings:
    return settings_module.load({"HOME": str(tmp_path / "w"), "CTX_HOME": str(tmp_path / f"worker-{name}"), "TZ": "UTC"})


def work(tmp_path: Path, url: str, place: Path, name: str = "one", **options: Any) -> list[shards.ShardDone]:
    return shards.work(Hub(worker(tmp_path, name), url), place, **options)


def rows(url: str, table: str, member: str = "ci") -> list[dict[str, Any]]:
    found = TeamTable(Bucket(url), f"members/{member}/{table}").rows()
    return [] if found is None else sorted(found.to_pylist(), key=str)


def same_rows(url: str) -> bool:
    """Tell whether ``ci`` has the rows of ``ann``, but for names of files, which each home has its own of."""
    for table in TABLES:
        found = []
        for member in ("ci", "ann"):
            told = [{k: v for k, v in row.items() if k not in {"member", "machine", "shared"}} for row in rows(url, table, member)]
            found.append(sorted(re.sub(r"'[0-9a-f]{16}(\.\d+)*'|'[0-9a-f]{64}'", "?", str(row)) for row in told))
        assert found[0] == found[1], table
    return bool(rows(url, "model_calls"))


@pytest.mark.feature("team.raw")
def test_transcripts_leave_encrypted_and_no_row_with_them(tmp_path: Path, s3_bucket: str, key: tuple[str, Path], unpacked: Any):
    ci = runner(tmp_path, s3_bucket, key[0])
    ci.works(1, words=WORD)

    first, again = ci.publish(), ci.publish()

    assert (first.transcripts, first.transcript_bytes > 500, again.transcripts) == (1, True, 0)
    assert not unpacked(s3_bucket, WORD, session_id(1))
    (file,) = bundles.opened(Bucket(s3_bucket).read(bundle_path("ci", "job-1", 1)) or b"", [private(key[1])], "it")
    assert file.data == next(Path(ci.folder / "claude").rglob("*.jsonl")).read_bytes()


@pytest.mark.feature("team.raw")
def test_without_a_key_raw_is_refused_and_a_rehearsal_sends_nothing(tmp_path: Path, folder_bucket: str, key: tuple[str, Path]):
    with pytest.raises(UsageError, match="key"):
        TeamMachine(tmp_path / "a", "ci").join(folder_bucket, share=("raw",))
    with pytest.raises(UsageError):
        TeamMachine(tmp_path / "a", "ci").join(folder_bucket, share=("raw",), key=("no-key",))
    with pytest.raises(UsageError, match="shard"):
        TeamMachine(tmp_path / "a", "ci", "shard").join(folder_bucket)
    ci = runner(tmp_path, folder_bucket, key[0])
    ci.works(1)

    done = ci.publish(dry_run=True)

    assert (done.transcripts, done.transcript_bytes > 500) == (1, True)
    assert not list(Path(folder_bucket).rglob("*.age"))


@pytest.mark.feature("team.shards")
def test_a_worker_makes_the_rows_that_the_machine_would_have_made(tmp_path: Path, s3_bucket: str, key: tuple[str, Path]):
    ci, plain = runner(tmp_path, s3_bucket, key[0]), TeamMachine(tmp_path / "plain", "ann").join(s3_bucket, share=("facts",))
    for one in (ci, plain):
        one.works(1, turns=3)
        one.works(2, project="till")
        one.publish()

    (done,) = work(tmp_path, s3_bucket, key[1])

    assert (done.member, done.bundles, done.sessions, done.problems) == ("ci", 1, 2, [])
    assert same_rows(s3_bucket)
    assert not [e for e in Bucket(s3_bucket).entries("members/ci/job-1/raw") if e.path.endswith(".age")]
    assert work(tmp_path, s3_bucket, key[1]) == []


@pytest.mark.feature("team.shards", "lake.any-root")
def test_what_grew_and_came_from_other_runners_is_there_once_on_whichever_worker(tmp_path: Path, s3_bucket: str, key: tuple[str, Path]):
    first, other = runner(tmp_path, s3_bucket, key[0]), runner(tmp_path, s3_bucket, key[0], "job-2")
    plain = TeamMachine(tmp_path / "plain", "ann").join(s3_bucket, share=("facts",))
    first.works(1)
    first.publish()
    work(tmp_path, s3_bucket, key[1], "one")
    for machine, number, turns in ((first, 1, 4), (other, 2, 2)):
        machine.works(number, turns=turns)
        plain.works(number, turns=turns)
        machine.publish()
    plain.publish()

    (done,) = work(tmp_path, s3_bucket, key[1], "two")

    assert done.restored > 3
    assert [(r["session_id"], r["prompts"], r["machine"]) for r in rows(s3_bucket, "sessions")] == [
        (session_id(1), 4, "shard"),
        (session_id(2), 2, "shard"),
    ]
    calls = [r["call_key"] for r in rows(s3_bucket, "model_calls")]
    assert len(calls) == len(set(calls)) == 12
    assert same_rows(s3_bucket)
    (again,) = work(tmp_path, s3_bucket, key[1], "two", members=["ci"])
    assert (again.restored, again.sessions) == (0, 0)


@pytest.mark.feature("team.shards")
def test_the_store_between_workers_is_encrypted(tmp_path: Path, s3_bucket: str, key: tuple[str, Path], unpacked: Any):
    ci = runner(tmp_path, s3_bucket, key[0])
    ci.works(1, words=WORD)
    ci.publish()
    work(tmp_path, s3_bucket, key[1])

    assert Bucket(s3_bucket).entries("shards/ci/objects")
    assert not unpacked(s3_bucket, WORD)
    left = [p for p in worker(tmp_path).home.rglob("*") if p.is_file()]
    assert left
    assert {oct(p.stat().st_mode & 0o777) for p in left} == {"0o600"}
    assert not [p for p in left if WORD.encode() in p.read_bytes() or session_id(1).encode() in p.read_bytes()]


@pytest.mark.feature("team.shard-fence")
def test_one_worker_has_a_shard_and_the_next_takes_it_over_when_it_is_silent(tmp_path: Path, s3_bucket: str, key: tuple[str, Path]):
    runner(tmp_path, s3_bucket, key[0])
    bucket = Bucket(s3_bucket)
    with claimed(bucket, "ci", seconds=60), pytest.raises(StoreLocked, match="works on the shard of ci"), claimed(bucket, "ci"):
        pass
    with claimed(bucket, "ci", seconds=60) as after:
        assert after.token == 2
    with claimed(bucket, "ci", seconds=0.0) as silent:
        silent._ended.set()
        with claimed(bucket, "ci") as next_one:
            with pytest.raises(Fenced):
                silent.commit({"taken": {"job-1": 9}})
            next_one.commit({"taken": {"job-1": 1}})
    assert committed(bucket, "ci")["taken"] == {"job-1": 1}


@pytest.mark.feature("team.shard-fence")
def test_a_claim_or_commit_whose_answer_was_lost_is_still_ones_own(
    tmp_path: Path, s3_bucket: str, key: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
):
    ci = runner(tmp_path, s3_bucket, key[0])
    ci.works(1)
    ci.publish()
    real = Bucket.create
    # the provider's library asks again, and is told that the object is there
    monkeypatch.setattr(Bucket, "create", lambda bucket, path, body: real(bucket, path, body) and real(bucket, path, body))

    (done,) = work(tmp_path, s3_bucket, key[1])

    assert (done.problems, done.sessions) == ([], 1)
    assert work(tmp_path, s3_bucket, key[1]) == []


@pytest.mark.feature("team.shard-fence")
def test_a_worker_that_was_overtaken_changes_no_row(tmp_path: Path, s3_bucket: str, key: tuple[str, Path], monkeypatch: pytest.MonkeyPatch):
    ci = runner(tmp_path, s3_bucket, key[0])
    ci.works(1)
    ci.publish()
    real, expected = shards.publish, []

    def stalls(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(shards, "publish", real)
        with monkeypatch.context() as patch:
            patch.setattr("ctx_pipeline.team.shard_claim.time.time", lambda now=time.time: now() + 10_000)
            ci.works(1, turns=5)
            ci.publish()
            (other,) = work(tmp_path, s3_bucket, key[1], "two", members=["ci"])
            assert other.problems == []
        expected.extend(rows(s3_bucket, "sessions"))
        return real(*args, **options)

    monkeypatch.setattr(shards, "publish", stalls)
    (overtaken,) = work(tmp_path, s3_bucket, key[1], "one")

    assert "under the name shard" in overtaken.problems[0]
    assert [r["prompts"] for r in expected] == [5]
    assert rows(s3_bucket, "sessions") == expected
    (after,) = work(tmp_path, s3_bucket, key[1], "one", members=["ci"])
    assert after.problems == []
    assert rows(s3_bucket, "sessions") == expected


_KILLED = """
import os, sys
from pathlib import Path
from ctx_pipeline import settings
from ctx_pipeline.team import shards
from ctx_pipeline.team.hub import Hub
where, home, url, key = sys.argv[1:]
real = getattr(shards._Shard, where)
def dies(self, *args, **options):
    if len(sys.argv) and where == "_give_back":
        os.kill(os.getpid(), 9)
    real(self, *args, **options)
    os.kill(os.getpid(), 9)
setattr(shards._Shard, where, dies)
shards.work(Hub(settings.load({"HOME": home, "CTX_HOME": home, "TZ": "UTC"}), url), Path(key))
"""


@pytest.mark.feature("team.shard-fence")
@pytest.mark.parametrize("where", ["_restore", "_unpack", "_publish", "_give_back"])
def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path, folder_bucket: str, key: tuple[str, Path], where: str):
    ci, plain = runner(tmp_path, folder_bucket, key[0]), TeamMachine(tmp_path / "plain", "ann").join(folder_bucket, share=("facts",))
    for one in (ci, plain):
        one.works(1, turns=2)
        one.works(2)
        one.publish()
    words = ["-c", _KILLED, where, str(tmp_path / "killed"), folder_bucket, str(key[1])]
    assert preloaded.run(words, env=environment(tmp_path), cwd=tmp_path, stdin=None, seconds=200).returncode == -signal.SIGKILL
    expire(folder_bucket)

    (done,) = work(tmp_path, folder_bucket, key[1], "next", members=["ci"])

    assert done.problems == []
    assert same_rows(folder_bucket)


@pytest.mark.slow
@pytest.mark.feature("team.shard-fence")
@pytest.mark.parametrize("seed", [1, 7])
def test_killed_at_random_moments_on_three_machines_no_row_is_lost_or_there_twice(
    tmp_path: Path, folder_bucket: str, key: tuple[str, Path], seed: int
):
    drawn, turns = random.Random(seed), Counter[int]()
    runners = [runner(tmp_path, folder_bucket, key[0], name) for name in ("job-1", "job-2")]
    plain = TeamMachine(tmp_path / "plain", "ann").join(folder_bucket, share=("facts",))
    ends = []
    for step in range(10):
        number = drawn.choice([1, 2]) + 10 * (step % 2)
        turns[number] += drawn.randint(1, 2)
        for machine in (runners[step % 2], plain):
            machine.works(number, turns=turns[number])
            machine.publish()
        home = str(tmp_path / f"worker-{step % 3}")
        words = ["hub", "shards", "ci", "--url", folder_bucket, "--identity", str(key[1])]
        environ = {**environment(tmp_path), "HOME": home, "CTX_HOME": home}
        ends.append(preloaded.killed_after(drawn.uniform(0.1, 1.5), words, env=environ, cwd=tmp_path))
        expire(folder_bucket)

    (last,) = work(tmp_path, folder_bucket, key[1], "last", members=["ci"])

    assert set(ends) <= {0, -signal.SIGKILL}, ends
    assert last.problems == []
    assert same_rows(folder_bucket)
    assert not list(Path(folder_bucket).rglob("members/ci/*/raw/*.age"))


@pytest.mark.feature("team.shard-forget")
def test_what_a_machine_takes_back_leaves_bundles_rows_and_the_shard(tmp_path: Path, s3_bucket: str, key: tuple[str, Path], unpacked: Any):
    ci = runner(tmp_path, s3_bucket, key[0])
    ci.works(1, words=WORD)
    ci.works(2)
    ci.publish()
    work(tmp_path, s3_bucket, key[1])
    ci.works(3)
    ci.publish()

    with open_store(ci.settings) as store:
        assert withdraw(store, ci.settings, [("claude", session_id(1)), ("claude", session_id(3))]) == 2
        for number in (1, 3):
            forget(store, ci.settings, Selection(host="claude", session_id=session_id(number)))
    assert not [e for e in Bucket(s3_bucket).entries("members/ci/job-1/raw") if e.path.endswith(".age")]
    (done,) = work(tmp_path, s3_bucket, key[1])

    assert done.removed == 1
    assert [r["session_id"] for r in rows(s3_bucket, "sessions")] == [session_id(2)]
    assert not unpacked(s3_bucket, WORD)
    assert WORD.encode() not in b"".join(p.read_bytes() for p in worker(tmp_path).home.rglob("*") if p.is_file())


@pytest.mark.feature("team.shard-forget")
def test_a_narrower_policy_and_leaving_take_all_back(tmp_path: Path, folder_bucket: str, key: tuple[str, Path]):
    ci, other = runner(tmp_path, folder_bucket, key[0]), runner(tmp_path, folder_bucket, key[0], "job-2")
    ci.works(1)
    ci.works(2, project="till")
    other.works(3)
    ci.publish()
    other.publish()
    work(tmp_path, folder_bucket, key[1])

    save(ci.settings, shared(demand(ci.settings), "till", "none"))
    ci.publish()
    work(tmp_path, folder_bucket, key[1])
    assert [r["session_id"] for r in rows(folder_bucket, "sessions")] == [session_id(1), session_id(3)]

    with open_store(ci.settings) as store:
        assert leave(store, ci.settings, erase=True) == 1
    work(tmp_path, folder_bucket, key[1])
    assert [r["session_id"] for r in rows(folder_bucket, "sessions")] == [session_id(3)]

    with open_store(other.settings) as store:
        leave(store, other.settings, erase=True)
    work(tmp_path, folder_bucket, key[1])
    assert {e.path.split("/")[0] for e in Bucket(folder_bucket).entries()} <= {"team.json", "shards", "team"}
    assert not Bucket(folder_bucket).entries("shards/ci/objects")
    assert not list(worker(tmp_path).home.glob("hub/*/shards/ci"))


@pytest.mark.feature("team.shards")
@pytest.mark.parametrize(
    "name",
    [
        "claude/../../out.jsonl",
        "claude//abs",
        "nobody/a.jsonl",
        "claude/a\\b",
        "claude/link",
        "garbage",
        "other key",
        "claude/sparse",
        "claude/when",
        "claude/a/file",
    ],
)
def test_a_bundle_that_is_none_is_named_and_kept_and_the_others_go_on(tmp_path: Path, folder_bucket: str, key: tuple[str, Path], name: str):
    ci = runner(tmp_path, folder_bucket, key[0])
    ci.works(1)
    ci.publish()
    bad = bundle_path("ci", "job-1", 7)
    Bucket(folder_bucket).write(bad, hostile(name, key[0]))

    (done,) = work(tmp_path, folder_bucket, key[1], members=["ci"])

    assert len(done.problems) == 1
    assert bad in done.problems[0]
    assert Bucket(folder_bucket).read(bad) is not None
    assert [r["session_id"] for r in rows(folder_bucket, "sessions")] == [session_id(1)]
    assert not (tmp_path / "out.jsonl").exists()
    assert not list(worker(tmp_path).home.rglob("out.jsonl"))


@pytest.mark.feature("team.shards")
def test_workers_need_a_key_that_opens_and_a_wrong_one_loses_nothing(tmp_path: Path, folder_bucket: str, key: tuple[str, Path]):
    ci = runner(tmp_path, folder_bucket, key[0])
    ci.works(1)
    ci.publish()
    hub = Hub(worker(tmp_path), folder_bucket)
    with pytest.raises(UsageError, match="no key is named"):
        shards.work(hub)
    with pytest.raises(UnknownChoice):
        shards.work(hub, key[1], share="all")
    wrong = tmp_path / "wrong.txt"
    wrong.write_text(f"{pyrage.x25519.Identity.generate()}\n", "utf-8")
    (failed,) = shards.work(hub, wrong)
    assert "cannot be opened with this key" in failed.problems[0]

    (done,) = shards.work(hub, key[1])

    assert [r["session_id"] for r in rows(folder_bucket, "sessions")] == [session_id(1)], done
    ci.works(2)
    ci.publish()
    (failed,) = shards.work(hub, wrong)
    assert "cannot be opened with this key" in failed.problems[0]
    (done,) = shards.work(hub, key[1])
    assert [r["session_id"] for r in rows(folder_bucket, "sessions")] == [session_id(1), session_id(2)], done


@pytest.mark.feature("team.raw", "team.shards")
def test_the_command_line_ships_takes_and_says_what_waits(tmp_path: Path, folder_bucket: str, key: tuple[str, Path]):
    ci = runner(tmp_path, folder_bucket, key[0])
    ci.works(1)
    ci.capture()
    own = dict(ci.settings.environ)
    hub = {"CTX_HOME": str(tmp_path / "hub"), "HOME": str(tmp_path)}
    at = ("--url", folder_bucket)
    joined = said(own, "team", "join", folder_bucket, "--share", "raw", "--key", key[0], "--json")
    sent = said(own, "publish")
    before = said(hub, "hub", "doctor", *at)
    done = said(hub, "hub", "shards", *at, "--identity", str(key[1]))
    after = said(hub, "hub", "doctor", *at)
    again = said(hub | {"CTX_TEAM_IDENTITY": str(key[1])}, "hub", "shards", *at)

    assert json.loads(joined)["key"] == [key[0]]
    assert "the transcripts of 1 session sent encrypted" in sent
    assert re.search(r"ci: transcripts wait since 20\d\d-[^ ]+: no worker with the team's key has taken it yet", before)
    assert "ci: 1 file in 1 bundle, rows of 1 session sent" in done
    assert "transcripts wait" not in after
    assert again.strip() == "nothing waits"


@pytest.mark.feature("team.shards", "team.graph")
def test_the_sensor_asks_for_a_shard_where_the_hub_has_the_key(
    tmp_path: Path, folder_bucket: str, key: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
):
    dg = pytest.importorskip("dagster")
    from ctx_pipeline.defs import hub_location

    ci = runner(tmp_path, folder_bucket, key[0])
    ci.works(1)
    ci.publish()
    monkeypatch.setenv("CTX_TEAM_URL", folder_bucket)
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "hub-store"))
    with dg.DagsterInstance.ephemeral() as instance:

        def asked(cursor: str | None = None) -> Any:
            return hub_location.tick(dg.build_sensor_context(instance=instance, cursor=cursor), Hub(settings_module.load()))

        assert not asked().run_requests
        monkeypatch.setenv("CTX_TEAM_IDENTITY", str(key[1]))
        first = asked()
        (request,) = first.run_requests
        assert (request.partition_key, request.asset_selection) == ("ci", [dg.AssetKey(["team", "shards"])])
        assert not asked(first.cursor).run_requests
        instance.add_dynamic_partitions(hub_location.MEMBERS, ["ci"])
        parts = list(hub_location.build().assets or ())
        assert dg.materialize(parts, selection=["team/shards"], partition_key="ci", instance=instance).success
        after = asked(first.cursor)
        assert [r.partition_key for r in after.run_requests] == ["ci|2026-03-01"]
    assert [r["session_id"] for r in rows(folder_bucket, "sessions")] == [session_id(1)]


def said(env: dict[str, str], *words: str) -> str:
    """Return what a command prints."""
    done = CliRunner().invoke(cli, list(words), env=env, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def private(place: Path) -> Any:
    return pyrage.x25519.Identity.from_str(place.read_text("utf-8").splitlines()[-1])


def hostile(name: str, public: str) -> bytes:
    """Return a bundle as somebody without good intentions would write it."""
    import zstandard

    if name == "garbage":
        return b"no bundle"
    if name == "other key":
        public, name = str(pyrage.x25519.Identity.generate().to_public()), "claude/a.jsonl"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        if name.endswith("link"):
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        if name.endswith("sparse"):
            entry.pax_headers = {
                "GNU.sparse.major": "0",
                "GNU.sparse.size": str(1 << 50),
                "GNU.sparse.map": "0,0",
                "GNU.sparse.numblocks": "1",
            }
        if name.endswith("when"):
            entry.pax_headers = {"mtime": "inf"}
        archive.addfile(entry, io.BytesIO())
        if name.endswith("file"):
            archive.addfile(tarfile.TarInfo("claude/a"), io.BytesIO())
    return bytes(pyrage.encrypt(zstandard.compress(packed.getvalue()), [pyrage.x25519.Recipient.from_str(public)]))


def expire(url: str) -> None:
    """Let the claims of killed workers run out."""
    bucket = Bucket(url)
    for entry in bucket.entries("shards/ci/claims"):
        bucket.write(entry.path, b'{"worker": "killed", "until": 0}')


@pytest.mark.feature("team.doctor", "team.shards")
def test_the_doctor_says_since_when_transcripts_wait_and_why(tmp_path: Path, folder_bucket: str, key: tuple[str, Path]):
    ci = runner(tmp_path, folder_bucket, key[0])
    ci.works(1)
    ci.publish()
    bucket, hub = Bucket(folder_bucket), Hub(worker(tmp_path), folder_bucket)
    sent = bucket.entries("members/ci/job-1/raw")[0].modified.isoformat(timespec="seconds")

    def told() -> tuple[str, str]:
        (one,) = doctor(hub).waiting
        return one["since"], one["why"]

    assert told() == (sent, "no worker with the team's key has taken it yet: ctx hub shards")
    with claimed(bucket, "ci", seconds=60):
        assert re.search(r":\d+ \(for at most \d+ s more unless it goes on\) is at work on it", told()[1])
    work(tmp_path, folder_bucket, key[1])
    assert doctor(hub).waiting == []

    ci.works(2)
    ci.publish()
    assert "no worker with the team's key has come since" in told()[1]
    (path,) = [e.path for e in bucket.entries("members/ci/job-1/raw") if e.path.endswith(".age")]
    bucket.write(path, b"no bundle")
    work(tmp_path, folder_bucket, key[1])
    assert "could not use all of it" in told()[1]
    assert shards.work(hub, key[1]) == []
