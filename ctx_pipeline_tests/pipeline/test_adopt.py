"""Taking over an archive of the documented layout, and another store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.errors import StoreDamaged, UsageError
from ctx_pipeline.integrations.adopt import Adopted, adopt, plan
from ctx_pipeline.integrations.archive import archive
from ctx_pipeline.pipeline.forget.sessions import Selection, forget
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.raw.segments import read_stream
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import claude, codex

OTHER = "22222222-2222-4222-8222-222222222222"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def retro(folder: Path) -> Path:
    """An archive as retro writes it: a Claude session with a to-do list, a Codex thread, and a file that belongs nowhere."""
    main = claude.ClaudeHome(folder / "made").session()
    main.prompt("mend it").answer(claude.text("done"), usages=[claude.usage(1_000, 50)])
    own = folder / "raw" / "claude-code" / claude.SESSION
    (own / "sidecars" / "todos").mkdir(parents=True)
    (own / "transcript.jsonl").write_bytes(main.data())
    (own / "sidecars" / "todos" / f"{claude.SESSION}-agent-{claude.SESSION}.json").write_text('[{"content":"a","status":"pending"}]')
    (own / "notes.txt").write_text("mine")
    source = f"/home/sam/.claude/projects/-home-dev-shop/{claude.SESSION}.jsonl"
    facts = {"host": "claude-code", "session_id": claude.SESSION, "source_transcript": source, "claude_home": "/home/sam/.claude"}
    (own / "import_meta.json").write_text(json.dumps(facts))
    thread = folder / "raw" / "codex" / codex.THREAD
    thread.mkdir(parents=True)
    (thread / "rollout.jsonl").write_bytes(codex.lines(codex.session()))
    rollout = f"/home/sam/.codex/{codex.rel()}"
    (thread / "thread.json").write_text(json.dumps({"thread_id": codex.THREAD, "source_rollout": rollout}))
    return folder


def empty(tmp_path: Path, name: str = "store", **more: object) -> Settings:
    none = {"claude": (tmp_path / "no",), "codex": (tmp_path / "no",)}
    return Settings(home=tmp_path / name, timezone="UTC", demo_roots=none, **more)


def adopted(settings: Settings, folder: Path, **more: bool) -> Adopted:
    with open_store(settings) as store:
        return adopt(store, settings, folder, **more)


@pytest.mark.feature("retro.archive-import")
def test_sessions_of_an_archive_are_captured_with_their_side_files_and_counted(tmp_path: Path) -> None:
    folder = retro(tmp_path / "archive")
    before = snapshot(folder)
    settings = empty(tmp_path)

    done = adopted(settings, folder)

    assert (done.counts(), done.verified, done.unverified, done.sessions) == ({"no place": 1, "take": 3}, 3, [], 2)
    assert [e["name"] for e in done.to_json()["left_out"]] == [f"raw/claude-code/{claude.SESSION}/notes.txt"]
    totals = usage("session", settings=settings, stored=True)
    assert {(r["host"], r["session_id"]): r["calls"] for r in totals.rows} == {("claude", claude.SESSION): 1, ("codex", codex.THREAD): 2}
    assert snapshot(folder) == before
    assert not list((settings.home / "taken").rglob("*.jsonl"))


@pytest.mark.feature("retro.archive-import")
def test_our_own_export_of_the_layout_comes_back_with_the_same_usage(tmp_path: Path) -> None:
    home = claude.ClaudeHome(tmp_path / "claude")
    home.session().prompt("mend it").answer(claude.text("done"), usages=[claude.usage(1_000, 50)]).save()
    home.agent("abc1234").prompt("look").answer(claude.text("found"), usages=[claude.usage(10, 5)]).save()
    codex.write(tmp_path / "codex", codex.session())
    first = Settings(home=tmp_path / "first", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",), "codex": (tmp_path / "codex",)})
    with open_store(first) as store:
        ingest(store, first)
    archive(tmp_path / "out", settings=first)
    second = empty(tmp_path, "second")

    assert adopted(second, tmp_path / "out").unverified == []
    assert usage("thread", settings=second, stored=True).rows == usage("thread", settings=first, stored=True).rows


@pytest.fixture
def older(tmp_path: Path) -> Settings:
    """A store whose homes are gone, with a session of two generations."""
    home = claude.ClaudeHome(tmp_path / "old")
    main = home.session()
    main.prompt("first").answer(claude.text("a"), usages=[claude.usage(100, 1)]).save()
    settings = Settings(home=tmp_path / "older", timezone="UTC", demo_roots={"claude": (tmp_path / "old",)})
    with open_store(settings) as store:
        ingest(store, settings)
        main.path.write_bytes(main.data().replace(b"first", b"again"))
        ingest(store, settings)
    shutil.rmtree(tmp_path / "old")
    return settings


@pytest.mark.feature("store.swap-root")
def test_another_store_is_taken_over_with_every_generation_and_left_as_it_was(older: Settings, tmp_path: Path) -> None:
    before = snapshot(older.home)
    settings = empty(tmp_path)

    done = adopted(settings, older.home)

    assert (done.counts(), done.verified, done.sessions) == ({"take": 2}, 2, 1)
    assert usage("session", settings=settings, stored=True).rows == usage("session", settings=older, stored=True).rows
    with open_store(settings, read_only=True) as store:
        assert sorted(
            {
                s.generation
                for members in store.ledger.segments_of([x.stream for x in store.ledger.sources().values()]).values()
                for s in members
            }
        ) == [0, 1]
    assert {name: data for name, data in snapshot(older.home).items() if not name.endswith(("-wal", "-shm"))} == {
        name: data for name, data in before.items() if not name.endswith(("-wal", "-shm"))
    }


@pytest.mark.feature("store.swap-root")
def test_taken_over_again_there_is_nothing_to_do_and_what_grew_is_newer(tmp_path: Path) -> None:
    folder, settings = retro(tmp_path / "archive"), empty(tmp_path)
    adopted(settings, folder)

    again = adopted(settings, folder)
    assert (again.counts(), again.sessions) == ({"held": 3, "no place": 1}, 0)

    path = folder / "raw" / "codex" / codex.THREAD / "rollout.jsonl"
    path.write_bytes(path.read_bytes() + codex.lines([codex.event(99, "user_message", message="one more")]))
    grown = adopted(settings, folder)
    assert (grown.counts(), grown.verified) == ({"held": 2, "newer": 1, "no place": 1}, 1)


@pytest.mark.feature("store.swap-root")
def test_a_conflict_is_named_and_left_until_it_is_wanted(tmp_path: Path) -> None:
    folder, settings = retro(tmp_path / "archive"), empty(tmp_path)
    adopted(settings, folder)
    path = folder / "raw" / "claude-code" / claude.SESSION / "transcript.jsonl"
    path.write_bytes(path.read_bytes().replace(b"mend it", b"break it"))

    left = adopted(settings, folder)
    assert left.counts()["conflict"] == 1
    assert [e["does"] for e in left.to_json()["left_out"]] == ["no place", "conflict"] or left.to_json()["left_out"][1][
        "does"
    ] == "conflict"
    assert usage("session", settings=settings, stored=True).totals["calls"] == 3

    assert adopted(settings, folder, conflicts=True).counts() == {"held": 2, "no place": 1, "take": 1}
    assert usage("session", settings=settings, stored=True).totals["calls"] == 3


@pytest.mark.feature("store.swap-root")
def test_what_was_interrupted_goes_on_and_nothing_is_captured_before_all_is_copied_right(tmp_path: Path) -> None:
    folder, settings = retro(tmp_path / "archive"), empty(tmp_path)
    path = folder / "raw" / "codex" / codex.THREAD / "rollout.jsonl"
    planned = path.read_bytes()

    with open_store(settings) as store:
        found = plan(store, settings, folder)
        path.write_bytes(planned[:-5])
        with pytest.raises(StoreDamaged, match="1 files are not what was planned"):
            adopt(store, settings, folder, found=found)
        assert store.ledger.sessions() == []
    assert list((settings.home / "taken").rglob("*.jsonl"))
    path.write_bytes(planned)

    done = adopted(settings, folder)

    assert (done.verified, done.unverified, done.sessions) == (3, [], 2)
    assert not list((settings.home / "taken").rglob("*.jsonl"))


@pytest.mark.feature("store.swap-root")
def test_damaged_objects_are_named_and_the_others_are_taken(older: Settings, tmp_path: Path) -> None:
    objects = sorted((older.home / "raw").rglob("*.zst"))
    objects[0].write_bytes(objects[0].read_bytes()[:-7] + b"garbage")

    done = adopted(empty(tmp_path), older.home)

    assert done.counts() == {"damaged": 1, "take": 1}


@pytest.mark.feature("store.swap-root")
def test_ignored_and_forgotten_sessions_are_not_taken_back(tmp_path: Path) -> None:
    folder = retro(tmp_path / "archive")
    ignoring = empty(tmp_path, "ignoring", ignore=("-home-dev-shop",))
    assert adopted(ignoring, folder).counts() == {"ignored": 1, "no place": 1, "take": 2}

    settings = empty(tmp_path)
    adopted(settings, folder)
    with open_store(settings) as store:
        forget(store, settings, Selection(host="claude", session_id=claude.SESSION))
    done = adopted(settings, folder)
    assert (done.counts(), done.unverified) == ({"forgotten": 2, "held": 1, "no place": 1}, [])
    with open_store(settings) as store:
        assert [s.session_id for s in store.ledger.sessions()] == [codex.THREAD]


@pytest.mark.feature("forget.everywhere")
def test_what_an_interrupted_take_over_left_goes_with_a_forgotten_session(tmp_path: Path) -> None:
    folder, settings = retro(tmp_path / "archive"), empty(tmp_path)
    adopted(settings, folder)
    path = folder / "raw" / "claude-code" / claude.SESSION / "transcript.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"summary","summary":"more"}\n')
    with open_store(settings) as store:
        found = plan(store, settings, folder)
        path.write_bytes(path.read_bytes()[:-5])
        with pytest.raises(StoreDamaged):
            adopt(store, settings, folder, found=found)
        assert list((settings.home / "taken").rglob("*.jsonl"))

        forget(store, settings, Selection(host="claude", session_id=claude.SESSION))

    assert not (settings.home / "taken").exists()


@pytest.mark.feature("forget.stays-out-of-shared-files")
def test_lines_that_were_forgotten_do_not_come_back_with_another_store(tmp_path: Path) -> None:
    home = claude.ClaudeHome(tmp_path / "claude")
    home.session().prompt("the plan of the merger").answer(claude.text("done"), usages=[claude.usage(10, 5)]).save()
    said = {"display": "the plan of the merger", "timestamp": 1_767_225_600_000, "project": "/home/dev/shop", "sessionId": claude.SESSION}
    (tmp_path / "claude" / "history.jsonl").write_text(json.dumps(said) + "\n")
    first = Settings(home=tmp_path / "first", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})
    second = empty(tmp_path, "second")
    with open_store(first) as store:
        ingest(store, first)
    adopted(second, first.home)
    with open_store(second) as store:
        forget(store, second, Selection(host="claude", session_id=claude.SESSION))

    adopted(second, first.home)
    shutil.copytree(first.home, tmp_path / "moved")
    adopted(second, tmp_path / "moved")

    with open_store(second, read_only=True) as store:
        held = [read_stream(store.files, m) for m in store.ledger.segments_of([s.stream for s in store.ledger.sources().values()]).values()]
    assert not [data for data in held if b"merger" in data]


@pytest.mark.feature("retro.archive-import")
def test_a_file_of_our_own_archive_with_a_flipped_byte_is_damaged(tmp_path: Path) -> None:
    home = claude.ClaudeHome(tmp_path / "claude")
    home.session().prompt("mend it").answer(claude.text("done"), usages=[claude.usage(1_000, 50)]).save()
    first = Settings(home=tmp_path / "first", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})
    with open_store(first) as store:
        ingest(store, first)
    archive(tmp_path / "out", settings=first)
    path = tmp_path / "out" / "raw" / "claude-code" / claude.SESSION / "transcript.jsonl"
    path.write_bytes(path.read_bytes().replace(b"mend it", b"mind it"))

    assert adopted(empty(tmp_path, "second"), tmp_path / "out").counts()["damaged"] == 1


@pytest.mark.feature("retro.archive-import")
@pytest.mark.parametrize("rel", ["../../../../escaped.jsonl", "/projects/../../x.jsonl", "a\x00b"])
def test_no_path_in_an_archive_leads_outside(tmp_path: Path, rel: str) -> None:
    folder = retro(tmp_path / "archive")
    facts = folder / "raw" / "claude-code" / claude.SESSION / "import_meta.json"
    facts.write_text(json.dumps({"source_transcript": f"/home/sam/.claude/{rel}"}))

    assert adopted(empty(tmp_path), folder).counts() == {"no place": 2, "take": 2}
    assert not list(tmp_path.glob("*escaped*"))


def test_any_other_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with open_store(empty(tmp_path)) as store, pytest.raises(UsageError, match="neither an archive nor a store"):
        plan(store, empty(tmp_path), tmp_path / "photos")


@pytest.mark.feature("retro.archive-import")
@pytest.mark.feature("store.swap-root")
def test_the_command_shows_the_plan_asks_and_takes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = retro(tmp_path / "archive")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "no"))

    shown = CliRunner().invoke(cli, ["adopt", str(folder)], input="n\n")
    assert shown.exit_code == 1
    assert "no place: raw/claude-code" in shown.output
    assert json.loads(CliRunner().invoke(cli, ["adopt", str(folder), "--dry-run", "--json"]).stdout)["files"] == {"no place": 1, "take": 3}
    done = json.loads(CliRunner().invoke(cli, ["adopt", str(folder), "--yes", "--json"]).stdout)
    assert (done["verified"], done["sessions"]) == (3, 2)
    assert len(json.loads(CliRunner().invoke(cli, ["list", "--json"]).stdout)["sessions"]) == 2
