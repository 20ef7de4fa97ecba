"""What became of a session in git: asked once for every host, bounded, and safe from the repository itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.recorded_paths import git as _git
from ctx_pipeline.signals.git_outcome import look
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import SECOND, START, view

START_S = START // SECOND


def git(folder: Path, *arguments: str, at: int = START_S, who: str = "sam@example.org") -> str:
    """Run git as a person would, at a moment."""
    when = f"@{at} +0000"
    named = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in (("NAME", "Sam"), ("EMAIL", who))}
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, **named}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environ, check=True, capture_output=True, text=True, timeout=250)
    return done.stdout.strip()


def commit(folder: Path, name: str, lines: int, *, at: int, who: str = "sam@example.org") -> str:
    """Add a file of so many lines and commit it; returns the commit's name."""
    (folder / name).write_text("x\n" * lines)
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", f"add {name}", at=at, who=who)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of one commit, an hour older than any session."""
    folder = tmp_path / "app"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.email", "sam@example.org")
    commit(folder, "first", 1, at=START_S - 3600)
    return folder


def readings(store, cell=CELL):
    return {(r.session_id, r.signal): r for r in store.lake.read_rows("readings", cell, "signals/git_outcome")}


@pytest.mark.feature("signals.git-outcome")
@pytest.mark.parametrize("host", sorted(discovery.hosts()))
def test_commits_lines_reversals_and_what_was_shipped_are_seen_for_every_host(repository, chosen, host):
    git(repository, "checkout", "-q", "-b", "topic")
    made = commit(repository, "a", 10, at=START_S + 1)
    commit(repository, "theirs", 7, at=START_S + 1, who="other@example.org")
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--ff-only", "topic", at=START_S + 4)
    late = commit(repository, "b", 3, at=START_S + 600)
    git(repository, "revert", "--no-edit", made, at=START_S + 200_000)
    git(repository, "checkout", "-q", "-b", "unmerged", late)
    commit(repository, "c", 2, at=START_S + 700)
    session = view("s", host=host, cwd=str(repository)).prompt("go").shell("git add a && git commit -m x").answer("done")
    with open_store(chosen) as store:
        cell = normalized(store, session, cell=Cell(host, "2026-01"))
        measure(store, chosen, families=["git_outcome"], cells=[cell])
        found = readings(store, cell)
    assert found["s", "git_commits_made_during"].value == 1
    assert found["s", "git_commits_made_during"].evidence == ["s.e1"]
    assert found["s", "git_commits_after"].value == 2
    assert found["s", "git_lines_committed"].value == 10
    assert found["s", "git_commits_reverted"].value == 1
    assert found["s", "git_shipped_share"].value == pytest.approx(2 / 3)
    assert made[:12] in found["s", "git_commits_made_during"].metadata


@pytest.mark.feature("signals.git-outcome")
@pytest.mark.feature("journal.observations-refresh")
def test_what_was_seen_is_recorded_once_and_replayed_until_it_is_asked_for_again(repository, chosen):
    commit(repository, "a", 10, at=START_S + 1)
    session = view("s", cwd=str(repository)).prompt("go").answer("done").answer("and this")
    with open_store(chosen) as store:
        normalized(store, session)
        measure(store, chosen, families=["git_outcome"], cells=[CELL])
        assert readings(store)["s", "git_commits_made_during"].value == 1
        facts = len(store.journal.facts("observation"))
        commit(repository, "b", 10, at=START_S + 2)
        store.ledger.forget_asset("signals/git_outcome")
        store.lake.drop("signals/git_outcome", CELL)
        measure(store, chosen, families=["git_outcome"], cells=[CELL])
        assert readings(store)["s", "git_commits_made_during"].value == 1
        assert len(store.journal.facts("observation")) == facts == 1
        measure(store, chosen, families=["git_outcome"], cells=[CELL], refresh=True)
        assert readings(store)["s", "git_commits_made_during"].value == 2
        store.ledger.forget_asset("signals/git_outcome")
        store.lake.drop("signals/git_outcome", CELL)
        measure(store, chosen, families=["git_outcome"], cells=[CELL])
        assert readings(store)["s", "git_commits_made_during"].value == 2


@pytest.mark.feature("signals.git-outcome")
@pytest.mark.feature("journal.observations-refresh")
def test_a_folder_that_is_gone_when_looked_at_again_leaves_what_was_seen(repository, chosen):
    commit(repository, "a", 10, at=START_S + 1)
    with open_store(chosen) as store:
        normalized(store, view("s", cwd=str(repository)).prompt("go").answer("done").answer("and this"))
        measure(store, chosen, families=["git_outcome"], cells=[CELL])
        repository.rename(repository.with_name("moved"))
        measure(store, chosen, families=["git_outcome"], cells=[CELL], refresh=True)
        assert readings(store)["s", "git_commits_made_during"].value == 1


@pytest.mark.feature("signals.git-outcome")
def test_without_its_context_a_reading_is_null_and_says_why(tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    broken = tmp_path / "broken"
    (broken / ".git").mkdir(parents=True)
    places = [None, str(tmp_path / "gone"), "C:\\Users\\sam", "relative", "/w\0x", str(plain), str(broken), str(empty)]
    rows = [view(f"s{n}", cwd=place, repository="r").prompt("go").row() for n, place in enumerate(places)]
    rows.append(rows[5]._replace(first_ts=None, cwd=str(plain)))
    assert [answer.get("reason") for answer in look(rows)] == [
        "the session recorded no working directory",
        "the working directory is gone",
        "the working directory is gone",
        "the working directory is gone",
        "the working directory cannot be looked at: a zero byte is in the path",
        "the working directory is not in a git repository",
        "git does not read the repository",
        None,
        "the session has no times",
    ]


@pytest.mark.feature("signals.git-bounded")
def test_nothing_in_a_repository_is_run(repository, tmp_path):
    mark = tmp_path / "ran"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand", "gpg.program", "diff.x.textconv", "diff.x.command"):
        git(repository, "config", name, str(program))
    git(repository, "config", "core.hooksPath", str(tmp_path))
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "alias.log", f"!{program}")
    (repository / ".gitattributes").write_text("* diff=x\n")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* diff=x\n")
    (repository / "a").write_text("1\n")
    subprocess.run(["git", "-c", "core.fsmonitor=false", "add", "a"], cwd=repository, check=True, capture_output=True, timeout=250)
    git(repository, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "commit", "-q", "-m", "a", at=START_S)
    mark.unlink(missing_ok=True)
    (answer,) = look([view("s", cwd=str(repository)).prompt("go").answer("done").row()])
    assert answer["during"] == 1
    assert not mark.exists()


@pytest.mark.feature("signals.bounded-git")
@pytest.mark.feature("signals.git-bounded")
def test_a_git_that_does_not_end_is_ended_with_its_children(tmp_path, monkeypatch):
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nsleep 600 & echo $! > "{tmp_path}/child"; wait\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    child = tmp_path / "child"
    for seconds in (0.3, 3, 30):  # until it has come as far as starting its child
        assert _git.run(tmp_path, "log", seconds=seconds) == _git.Failed("timeout")
        if child.exists() and child.read_text().strip():
            break
    assert processes.gone(int(child.read_text()))


@pytest.mark.feature("signals.bounded-git")
@pytest.mark.feature("signals.git-bounded")
def test_one_repository_is_asked_once_for_all_its_sessions(repository, monkeypatch):
    asked: list[tuple[str, ...]] = []
    real = _git.run
    monkeypatch.setattr(_git, "run", lambda folder, *arguments, **more: (asked.append(arguments), real(folder, *arguments, **more))[1])
    answers = list(look([view(f"s{n}", cwd=str(repository)).prompt("go").row() for n in range(50)]))
    assert len(answers) == 50
    assert len(asked) < 12


@pytest.mark.feature("signals.git-bounded")
def test_an_endless_answer_is_read_up_to_its_bound_and_git_is_ended(tmp_path, monkeypatch):
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho $$ > "{tmp_path}/process"\nexec yes commit\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(_git, "MOST_BYTES", 1003)
    assert _git.run(tmp_path, "log", seconds=100) == "commit\n" * 143
    assert processes.gone(int((tmp_path / "process").read_text()))
