"""A lost ledger comes back from raw and says what is lost; a lost journal is an error; what was forgotten stays away."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import root
from ctx_pipeline.errors import StoreDamaged
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.pipeline import run
from ctx_pipeline.pipeline.forget import sessions
from ctx_pipeline.pipeline.repair import rebuild
from ctx_pipeline.storage import open_store, store_marker
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import claude as build

FIRST, SECOND, FORK = (f"aaaaaaaa-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))


def home(environ) -> build.ClaudeHome:
    return build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))


def written(claude: build.ClaudeHome, session: str, said: str) -> Path:
    transcript = claude.session(session)
    transcript.prompt(f"please {said}")
    transcript.call("toolu_1", "Bash", "no such file", is_error=True, command="make")
    transcript.answer(build.text(f"Done: {said}."))
    return transcript.save()


@pytest.fixture
def settings(environ):
    written(home(environ), FIRST, "mend the parser")
    written(home(environ), SECOND, "write the tests")
    chosen = settings_module.load(environ)
    with open_store(chosen) as store:
        run.run_stages(store, chosen)
    return chosen


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def ctx(environ, monkeypatch, capsys):
    """The command in this process: any error that is no sentence fails the test."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    def call(*words: str) -> Done:
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.StringIO())
        with pytest.raises(SystemExit) as ended:
            root.run(list(words))
        shown = capsys.readouterr()
        return Done(int(ended.value.code or 0), shown.out, shown.err)

    return call


def hashes(settings) -> dict[str, str]:
    with open_store(settings) as store:
        return {
            f"{r.asset}@{r.partition.key}": r.content_hash for a, _ in store.ledger.recorded() for r in store.ledger.asset_cells(a).values()
        }


def total(settings) -> dict[str, object]:
    return usage("session", stored=True, settings=settings).to_json()


def damage(settings, session: str) -> str:
    """Change one byte of the raw object of a session, whose source is gone as well, and return the object's name."""
    with open_store(settings) as store:
        (source,) = store.ledger.session_streams("claude", session)
        (segment,) = store.ledger.segments_of([source.stream])[source.stream]
    Path(source.path).unlink()
    path = settings.home / segment.path
    data = bytearray(path.read_bytes())
    data[-9] ^= 0xFF
    path.write_bytes(data)
    return segment.path


@pytest.mark.feature("doctor.raw-lost")
def test_rows_whose_raw_is_lost_are_named_kept_and_counted_as_before(environ, settings):
    before, contents = total(settings), hashes(settings)
    broken = damage(settings, FIRST)

    with open_store(settings) as store:
        report = rebuild.rebuild_ledger(store, settings)
        told = "\n".join(report.lines())
        (lost,) = report.unread

    assert (report.before, report.after) == (report.before, report.before)
    assert report.before.sessions == 2
    assert report.before.calls == before["totals"]["calls"]
    assert (lost.path, lost.sessions, lost.start) == (broken, [("claude", FIRST)], 0)
    assert lost.end > 0
    assert report.kept == [("claude", FIRST)]
    assert all(
        said in told for said in (broken, FIRST, lost.stream, "before: 2 sessions", "after:  2 sessions", "kept as it was made before")
    )

    for _ in range(2):  # neither dropped nor computed anew by any later run
        with open_store(settings) as store:
            done = run.run_stages(store, settings)
            assert done.failed == []
            assert [s.session_id for s in store.ledger.undecodable_sessions()] == [FIRST]
            assert store.ledger.dirty_sessions() == []
            examined = doctor.examine(store, settings)
        assert total(settings) == before
        assert {k: v for k, v in hashes(settings).items() if k.startswith("normalized/")} == {
            k: v for k, v in contents.items() if k.startswith("normalized/")
        }
        assert examined.raw_lost == [("claude", FIRST)]
        assert examined.lines()[0].endswith("the raw of 1 session is lost")


@pytest.mark.feature("doctor.raw-lost")
def test_an_object_that_was_set_aside_is_named_until_its_bytes_are_there_again(environ, settings):
    broken = damage(settings, FIRST)
    with open_store(settings) as store:
        whole = doctor.examine(store, settings).set_aside
        rebuild.rebuild_ledger(store, settings)
        lost = doctor.examine(store, settings)
    written(home(environ), FIRST, "mend the parser")
    with open_store(settings) as store:
        run.run_stages(store, settings)
        again = doctor.examine(store, settings)

    assert (whole, lost.set_aside, again.set_aside) == ([], [f"{broken}.damaged"], [])
    assert "; 1 raw object lost" in lost.lines()[0]


@pytest.mark.feature("forget.every-byte")
def test_a_file_that_was_set_aside_goes_with_the_session_that_it_names(settings):
    aside = settings.home / "journal.db.damaged-2026-11-22-120000"
    aside.write_bytes(b"a fact of " + FIRST.encode())
    other = aside.with_name("journal.db.damaged-2026-11-21-120000")
    other.write_bytes(b"a fact of " + SECOND.encode())
    with open_store(settings) as store:
        sessions.forget(store, settings, sessions.Selection(host="claude", session_id=FIRST))

    assert (aside.exists(), other.exists()) == (False, True)


@pytest.mark.feature("doctor.raw-lost")
def test_a_session_is_decoded_again_as_soon_as_raw_holds_all_of_it(environ, settings):
    before = hashes(settings)
    with open_store(settings) as store:
        (source,) = store.ledger.session_streams("claude", FIRST)
    kept = Path(source.path).read_bytes()
    damage(settings, FIRST)
    with open_store(settings) as store:
        rebuild.rebuild_ledger(store, settings)
        run.run_stages(store, settings)
    Path(source.path).write_bytes(kept)

    with open_store(settings) as store:
        run.run_stages(store, settings)
        assert store.ledger.undecodable_sessions() == []
        assert doctor.examine(store, settings).raw_lost == []
        (segment,) = store.ledger.segments_of([source.stream])[source.stream]
        assert store.files.exists(segment.path)
        assert store.files.exists(f"{segment.path}.damaged")
    assert {k: v for k, v in hashes(settings).items() if k.startswith("normalized/")} == {
        k: v for k, v in before.items() if k.startswith("normalized/")
    }


@pytest.mark.feature("doctor.raw-lost")
@pytest.mark.parametrize("former", ["kept", "gone"])
def test_calls_that_a_fork_shares_with_a_session_without_raw_count_once(environ, former):
    claude = home(environ)
    first = claude.session(FIRST)
    first.prompt("please mend the parser")
    first.answer(build.text("Mended."))
    first.save()
    (path,) = Path(environ["CLAUDE_CONFIG_DIR"]).rglob(f"{FIRST}.jsonl")
    path.with_name(f"{FORK}.jsonl").write_bytes(path.read_bytes().replace(FIRST.encode(), FORK.encode()))
    settings = settings_module.load(environ)
    with open_store(settings) as store:
        run.run_stages(store, settings)
    before = total(settings)
    damage(settings, FIRST)
    if former == "gone":
        (settings.home / "ledger.db").unlink()

    with open_store(settings) as store:
        report = rebuild.rebuild_ledger(store, settings)
        run.run_stages(store, settings)

    assert report.kept == [("claude", FIRST)]
    assert report.before.calls == report.after.calls == before["totals"]["calls"]
    assert total(settings) == before


@pytest.mark.feature("doctor.raw-lost")
def test_forgetting_a_session_without_raw_leaves_nothing_of_it(environ, settings):
    broken = damage(settings, FIRST)
    with open_store(settings) as store:
        rebuild.rebuild_ledger(store, settings)
        run.run_stages(store, settings)
        assert store.files.exists(f"{broken}.damaged")

        sessions.forget(store, settings, sessions.Selection(host="claude", session_id=FIRST))
        run.run_stages(store, settings)

        assert [s.session_id for s in store.ledger.sessions()] == [SECOND]
        assert not any(FIRST.encode() in p.read_bytes() for p in settings.home.rglob("*") if p.is_file())
        assert not any(p.name.endswith(".damaged") for p in (settings.home / "raw").rglob("*"))
    assert [row["session_id"] for row in total(settings)["rows"]] == [SECOND]


@pytest.mark.feature("store.ledger-lost")
@pytest.mark.parametrize("lost", ["missing", "empty", "no database", "cut"])
def test_a_lost_ledger_is_made_again_by_the_next_command_which_says_so(environ, settings, ctx, lost):
    before = total(settings)
    shutil.rmtree(environ["CLAUDE_CONFIG_DIR"])
    lose(settings.home / "ledger.db", lost)

    done = ctx("usage", "session", "--json")

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "ledger.db" in done.stderr
    assert "before: 2 sessions" in done.stderr
    assert "after:  2 sessions" in done.stderr
    with open_store(settings) as store:
        assert len(store.ledger.sessions()) == 2
        run.run_stages(store, settings)
    assert total(settings) == before


def lose(path: Path, how: str) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    if how == "missing":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes({"empty": b"", "no database": b"no database " * 999, "cut": data[: len(data) // 2 // 4096 * 4096]}[how])


@pytest.mark.feature("store.journal-lost")
@pytest.mark.parametrize("lost", ["missing", "empty", "no database"])
def test_a_lost_journal_stops_what_writes_until_a_person_goes_on_without_it(environ, settings, ctx, lost):
    with open_store(settings) as store:
        sessions.forget(store, settings, sessions.Selection(host="claude", session_id=FIRST))
        store.journal.append("finding", {"text": "kept only here"})
    written(home(environ), FORK, "something new")
    lose(settings.home / "journal.db", lost)

    for words in (["run"], ["sync"], ["status"]):
        done = ctx(*words)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "journal.db" in done.stderr
        assert "ctx doctor --new-journal" in done.stderr
        assert all(word in done.stderr for word in ("lessons", "findings", "decisions", "tombstones", "observations"))
    with open_store(settings) as store:
        assert [s.session_id for s in store.ledger.sessions()] == [SECOND]  # nothing was captured
    assert ctx("usage", "daily").returncode == 0  # what needs no journal goes on

    assert ctx("doctor", "--new-journal").returncode != 0  # a person agrees, or nothing happens
    done = ctx("doctor", "--new-journal", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tombstones" in done.stderr
    (settings.home / "ledger.db").unlink()
    assert ctx("list").returncode == 0  # makes the ledger again
    with open_store(settings) as store:
        run.run_stages(store, settings)
        assert [s.session_id for s in store.ledger.sessions()] == [SECOND, FORK]
    aside = [p.name for p in settings.home.glob("journal.db.damaged-*")]
    assert len(aside) == (lost != "missing")


@pytest.mark.feature("store.journal-lost")
def test_what_can_be_read_of_a_damaged_journal_goes_into_the_new_one(settings):
    path = settings.home / "journal.db"
    with open_store(settings) as store:
        for number in range(400):
            store.journal.append("finding", {"text": f"{number} " + "x" * 300})
        store.journal.observe("seen/a", lambda: {"answer": 1})
        held = len(store.journal.facts())
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(data)

    with open_store(settings) as store:
        with pytest.raises(StoreDamaged, match=r"journal\.db"):
            store.journal.facts()
        from ctx_pipeline.pipeline.repair.rebuild import new_journal

        made = new_journal(store)
        facts = store.journal.facts()
        assert held - 60 < made.facts == len(facts) < held
        assert facts[0].kind == "finding" or made.facts
        assert store.journal.observe("seen/a", dict) == {"answer": 1}


@pytest.mark.feature("store.tombstones-kept")
def test_what_was_forgotten_stays_away_though_ledger_and_journal_are_lost(settings):
    with open_store(settings) as store:
        sessions.forget(store, settings, sessions.Selection(host="claude", session_id=FIRST))
    for name in ("ledger.db", "journal.db"):
        lose(settings.home / name, "missing")
    from ctx_pipeline.pipeline.repair.rebuild import new_journal

    with open_store(settings) as store:
        rebuild.rebuild_ledger(store, settings)
        new_journal(store)
        run.run_stages(store, settings)
        assert [s.session_id for s in store.ledger.sessions()] == [SECOND]
    (settings.home / "ledger.db").unlink()
    with open_store(settings) as store:
        rebuild.rebuild_ledger(store, settings)  # now from the new journal
        run.run_stages(store, settings)
        assert [s.session_id for s in store.ledger.sessions()] == [SECOND]
    beside = (settings.home / store_marker.STONES).read_text()
    assert FIRST not in beside
    assert "parser" not in beside


@pytest.mark.feature("store.marker")
def test_a_store_without_a_marker_gets_one_and_is_not_called_broken(settings):
    path = settings.home / store_marker.MARKER
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with open_store(settings) as store:
        sessions.forget(store, settings, sessions.Selection(host="claude", session_id=FIRST))
    path.unlink()
    (settings.home / store_marker.STONES).unlink()

    with open_store(settings, read_only=True) as store:
        assert len(store.ledger.sessions()) == 1
    assert not path.exists()
    with open_store(settings) as store:
        run.run_stages(store, settings)
        assert doctor.examine(store, settings).sound
    assert path.exists()
    assert store_marker.stones_of(store_marker.facts_beside_journal(settings.home))


@pytest.mark.feature("store.ledger-lost")
def test_two_processes_that_miss_the_ledger_make_it_once(environ, settings):
    (settings.home / "ledger.db").unlink()
    command = [sys.executable, "-m", "ctx_pipeline", "list", "--json"]
    both = [
        subprocess.Popen(command, env={"PATH": os.environ["PATH"], **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120) for process in both]

    assert [process.returncode for process in both] == [0, 0], said
    assert sum("ledger made anew" in err for _, err in said) == 1
    with open_store(settings) as store:
        assert len(store.ledger.sessions()) == 2
        run.run_stages(store, settings)
        assert doctor.examine(store, settings).sound
    assert not list(settings.home.glob("ledger.*new*"))
