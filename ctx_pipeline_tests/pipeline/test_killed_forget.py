"""A forgetting that was killed at any step is ended by the next command of any kind; then no byte of the store tells of the session."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories import claude as build
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.factories.stored_text import files_with
from ctx_pipeline_tests.pipeline.test_killed_tail import Killer
from ctx_pipeline_tests.waiting import remove

if TYPE_CHECKING:
    import subprocess

ROOT = Path(__file__).resolve().parents[2]
GONE = "aaaaaaaa-0000-4000-8000-000000000001"
KEPT = "bbbbbbbb-0000-4000-8000-000000000002"
MARKS = (GONE, "zebrafinch", "-home-dev-zebrafinch")

STEPS = ["_note", "drop_saved", "blank_shared", "_remove_raw", "_rederive", "_clean_up"]
POINTS = [
    ("after", "swap forgetting.json"),
    *(("before", f"step {name}") for name in STEPS),
    ("after", "step _rederive"),
    ("after", "step _clean_up"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A home of two sessions and a store of them, with what hooks wrote of the first."""
    folder = tmp_path_factory.mktemp("made") / "there"
    folder.mkdir()
    home = build.ClaudeHome(folder / "claude")
    for session, mark in ((GONE, "zebrafinch"), (KEPT, "kingfisher")):
        cwd = f"/home/dev/{mark}"
        transcript = home.session(session, slug=cwd.replace("/", "-"), cwd=cwd)
        transcript.prompt(f"add a flag --{mark} to the settings parser in cli.py")
        transcript.call(f"toolu_{mark}1", "Edit", "updated", file_path=f"{cwd}/cli.py", old_string="a", new_string="b")
        transcript.call(f"toolu_{mark}2", "Bash", "3 passed", command="make test")
        transcript.answer(build.text(f"The {mark} parser works now."))
        transcript.save()
    lines = [
        {"display": f"the {m}s", "timestamp": 1772704800000, "project": "/p", "sessionId": s}
        for s, m in ((GONE, "zebrafinch"), (KEPT, "k"))
    ]
    home.file("history.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    (folder / "codex").mkdir()
    done = ask(folder, "run")
    assert done.returncode == 0, done.stderr
    store = folder / "store"
    (store / "hooks.log").write_text(f"2026-03-05T10:00:00Z resume claude: 5 characters for session {GONE}\n2026-03-05T10:00:00Z kept\n")
    with open_store(Settings(home=store)) as opened:
        told = {"host": "claude", "session_id": GONE, "memories": [{"memory_id": "mem-1"}]}
        opened.journal.append("hook.injected", told, actor="hook")
        rewarded = {"memory_id": "mem-1", "host": "claude", "session_id": GONE, "evidence": {"used": [f"{GONE}:4"]}, "outcome": "used"}
        opened.journal.append("memory.rewarded", rewarded | {"source": "measured", "reward": 1.0})
        (source,) = opened.ledger.session_streams("claude", GONE)
        raw = opened.files.local(opened.ledger.segments_of([source.stream])[source.stream][0].path)
    # copies that writers of an earlier version left, one of which may still be at it
    shutil.copy(raw, raw.with_name(".tmp-99999-deadbeef"))
    shutil.copy(store / "search.db", store / "search.db.building-99999")
    shutil.copytree(store / "site", store / ".site.99999.new")
    shutil.copytree(folder, folder.with_name("template"))
    return folder


@pytest.fixture
def killed(folder):
    """What begins to forget the session and is killed beside an event."""

    def at(side: str, event: str) -> None:
        assert Killer(folder).ask("forget", folder / "store", [side, event, 1], session=GONE)[0] == -signal.SIGKILL

    return at


def ask(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return preloaded.run(words, env=environment(folder), cwd=ROOT, stdin=given, seconds=200)


def words_of_indexes(store: Path) -> set[str]:
    """Return the words that the full-text indexes hold, whose bytes share their beginnings."""
    found: set[str] = set()
    for name, table in (("search.db", "history"), ("memory.db", "memory_fts"), ("cases.db", "memory_fts")):
        with sqlite3.connect(store / name) as db:
            db.execute(f"CREATE VIRTUAL TABLE temp.words_of USING fts5vocab(main, '{table}', row)")
            found |= {word for (word,) in db.execute("SELECT term FROM temp.words_of")}
    return found


@pytest.fixture
def folder(made):
    """The same folder as it was, since the store knows where its homes lie."""
    remove(made)
    shutil.copytree(made.with_name("template"), made)
    return made


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.feature("forget.finished-by-any-command", "forget.every-byte")
@pytest.mark.parametrize(("side", "event"), POINTS)
def test_after_a_kill_at_any_step_one_reading_command_ends_it(folder, killed, side, event):
    store = folder / "store"
    assert len(files_with(store, *MARKS)) > 12
    killed(side, event)
    assert (store / "forgetting.json").exists()
    shown = ask(folder, "usage", "session", "--json")
    assert shown.returncode == 0, shown.stderr
    assert GONE not in shown.stdout
    assert KEPT in shown.stdout
    assert not (store / "forgetting.json").exists()
    assert files_with(store, *MARKS) == []
    assert not any("zebra" in word for word in words_of_indexes(store))
    assert files_with(store, KEPT)
    with sqlite3.connect(store / "journal.db") as db:
        facts = [json.loads(text) for (text,) in db.execute("SELECT payload FROM facts WHERE kind IN ('hook.injected', 'memory.rewarded')")]
    assert [f["memories"] for f in facts if "memories" in f] == [[{"memory_id": "mem-1"}]]
    assert len({f["session_id"] for f in facts}) == 1
    assert (store / "hooks.log").read_text().endswith("kept\n")


@pytest.mark.slow
@pytest.mark.feature("forget.finished-by-any-command")
@pytest.mark.parametrize(
    "words", [["search", "zebrafinch", "--json"], ["show", "claude", KEPT], ["list", "--json"], ["mcp"], ["doctor"], ["sync"]]
)
def test_every_kind_of_command_ends_it(folder, killed, words):
    killed("after", "step _remove_raw")
    ask(folder, *words)
    assert not (folder / "store" / "forgetting.json").exists()
    assert files_with(folder / "store", *MARKS) == []


@pytest.mark.slow
@pytest.mark.feature("forget.finished-by-any-command")
def test_a_hook_tells_nothing_and_has_it_ended(folder, killed):
    killed("after", "step _remove_raw")
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "zebrafinch parser flag", "cwd": "/home/dev/zebrafinch"}
    answered = ask(folder, "hook", "weave", "claude", given=json.dumps(payload))
    assert (answered.returncode, answered.stdout) == (0, "")
    ended = ask(folder, "forget", "--finish", "--json")  # waits for the one that the hook started
    assert ended.returncode == 0, ended.stderr
    assert files_with(folder / "store", *MARKS) == []


@pytest.mark.slow
@pytest.mark.feature("forget.finished-by-any-command")
def test_a_store_in_which_it_cannot_be_ended_shows_nothing_of_the_session(folder, killed):
    killed("after", "step _remove_raw")
    marker = folder / "store" / "forgetting.json"
    with sqlite3.connect(folder / "store" / "ledger.db") as db:
        db.execute("BEGIN EXCLUSIVE")
        chosen = Settings(home=folder / "store")
        from ctx_pipeline.errors import StoreError
        from ctx_pipeline.learning.memories import retrieve
        from ctx_pipeline.storage.reader import reading, searching

        for use in (reading, searching):
            with pytest.raises(StoreError, match="being forgotten"), use(chosen):
                pass
        with pytest.raises(StoreError, match="being forgotten"):
            retrieve("zebrafinch", settings=chosen)
        db.execute("ROLLBACK")
    assert marker.exists()


@pytest.mark.slow
@pytest.mark.feature("forget.finished-by-any-command")
def test_a_marker_that_cannot_be_read_is_made_up_for_by_the_journal(folder, killed):
    killed("before", "step _remove_raw")
    (folder / "store" / "forgetting.json").write_bytes(b"\xff{")
    assert ask(folder, "list").returncode == 0
    assert files_with(folder / "store", *MARKS) == []


@pytest.mark.slow
@pytest.mark.feature("forget.every-byte")
def test_forgetting_says_what_it_searched_and_what_still_names_the_session(folder):
    store = folder / "store"
    (store / "notes.txt").write_text(f"see {GONE}")
    locked = store / "broken.parquet"
    locked.write_bytes(b"PAR1 and nothing more")
    done = ask(folder, "forget", "claude", GONE, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["found"] == ["notes.txt"]
    assert told["unreadable"] == ["broken.parquet"]
    assert told["files"]["raw"] >= 2
    assert told["files"]["tables"] > 5
    assert told["files"]["databases"] >= 5
    locked.unlink()
    assert files_with(store, *MARKS) == ["notes.txt"]
