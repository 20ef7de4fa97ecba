"""Checkouts of one repository are one place for lessons, whether a remote says so, a path, or only their first commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.learning import memories as api
from ctx_pipeline.learning.injection import inject
from ctx_pipeline.memory.injection_policy import Choice
from ctx_pipeline.memory.scope import first_commit, place_of
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.index import index_memory
from ctx_pipeline.pipeline.lessons.repositories import _of_one_name as named_as_one
from ctx_pipeline.pipeline.lessons.repositories import look
from ctx_pipeline.pipeline.mine import candidates, mine
from ctx_pipeline.recorded_paths import git as _git
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import SECOND, START, view

QUERY = "pytest: command not found"


def git(folder, *words):
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder), "PATH": os.environ["PATH"]}
    who = {f"GIT_{role}_{part}": f"sam{at}" for role in ("AUTHOR", "COMMITTER") for part, at in (("NAME", ""), ("EMAIL", "@acme.example"))}
    subprocess.run(["git", *words], cwd=folder, env=alone | who, check=True, capture_output=True, timeout=60)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Git has as long as it needs: what is tested is its answer."""
    monkeypatch.setattr("ctx_pipeline.learning.repository_identity._SECONDS", 60.0)
    monkeypatch.setattr("ctx_pipeline.pipeline.lessons.repositories._SECONDS", 60.0)


@pytest.fixture
def app(tmp_path):
    """A repository with two commits and no remote."""
    folder = tmp_path / "app"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text(f"begun in {tmp_path.name}\n")  # its first commit is no other repository's
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "begin")
    git(folder, "commit", "-q", "--allow-empty", "-m", "go on")
    return folder


def clone(app, name, *, remote=False):
    folder = app.parent / name
    git(app.parent, "clone", "-q", str(app), name)
    if not remote:
        git(folder, "remote", "remove", "origin")
    return folder


def checked(name, number, folder):
    return view(name, start=START + number * 86_400 * SECOND, cwd=str(folder)).shell("make check", text="ok")


def learned(chosen, folder, *others):
    """Learn in one folder how pytest is called; work in the others."""
    failed = view("learned", cwd=str(folder)).shell("pytest", exit=127, text="bash: pytest: command not found")
    with open_store(chosen) as store:
        normalized(store, failed.shell("uv run pytest", text="3 passed"), *(checked(f"o{n}", n, f) for n, f in enumerate(others, 1)))
        mine(store, chosen, cells=[CELL])
        consolidate(store, chosen)
        index_memory(store, chosen)


@pytest.mark.feature("memory.clones")
@pytest.mark.parametrize("how", ["clone", "clone-without-remote", "copy", "worktree", "subfolder", "nobody-worked-there"])
def test_a_lesson_is_offered_in_every_checkout_of_its_repository_and_in_no_other(chosen, app, how):
    other = app.parent / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "another one")
    here = app / "src"
    if how == "copy":
        here = app.parent / "copy"
        shutil.copytree(app, here)
    elif how == "worktree":
        here = app.parent / "tree"
        git(app, "worktree", "add", "-q", str(here), "-b", "side")
    elif how != "subfolder":
        here = clone(app, "again", remote=how == "clone")
    learned(chosen, app, *([here] if how == "clone-without-remote" else []), other)
    assert "`uv run pytest` works" in api.weave(QUERY, cwd=str(here), settings=chosen)
    assert api.weave(QUERY, cwd=str(other), settings=chosen) == ""


@pytest.mark.feature("memory.clones")
def test_a_hook_tells_it_in_a_clone_without_a_remote_in_which_somebody_worked(chosen, app):
    here, fresh = clone(app, "again"), clone(app, "fresh")
    learned(chosen, app, here)
    for folder, told in ((here, True), (fresh, False)):
        payload = {"hook_event_name": "UserPromptSubmit", "session_id": f"s-{folder.name}", "cwd": str(folder), "prompt": QUERY}
        choice = Choice(threshold=0.0)
        assert ("uv run pytest" in inject(payload, host="claude", choice=choice, settings=chosen)) is told


@pytest.mark.feature("memory.clones")
def test_what_clones_do_alike_is_one_convention(chosen, app):
    folders = [app, clone(app, "b"), clone(app, "c")]
    with open_store(chosen) as store:
        normalized(store, *(checked(n, i, f) for i, (n, f) in enumerate(zip("abc", folders, strict=True))))
        mine(store, chosen, methods=["project_conventions"], cells=[CELL])
        method = discovery.methods()["project_conventions"]
        assert candidates(store, method) == []
        assert look(store) == 3
        told = candidates(store, method)
        assert {(c.repository, c.text) for c in told} == {(str(app), "check the work with `make check`")}
        facts = store.journal.facts()
        assert look(store) == 0
        assert store.journal.facts() == facts
        assert str(app) not in str(facts)


@pytest.mark.feature("memory.clones")
def test_a_remote_in_common_makes_two_folders_one_repository_and_its_name_stays_out_of_the_journal(chosen, tmp_path):
    url = "git@github.com:acme/app.git"
    for name, remote in (("one", url), ("two", "https://github.com/Acme/app"), ("three", url.replace("app", "lib"))):
        (tmp_path / name / ".git").mkdir(parents=True)
        (tmp_path / name / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    with open_store(chosen) as store:
        normalized(store, *(checked(n, i, tmp_path / n) for i, n in enumerate(("one", "two", "three"))))
        mine(store, chosen, methods=["project_conventions"], cells=[CELL])
        look(store)
        drawn = candidates(store, discovery.methods()["project_conventions"], combined=False)
        assert {c.session_id: c.repository for c in drawn} == {
            "one": str(tmp_path / "one"),
            "two": str(tmp_path / "one"),
            "three": str(tmp_path / "three"),
        }
        assert not [f for f in store.journal.facts() if "acme" in str(f)]


@pytest.mark.feature("memory.clones")
def test_the_first_commit_is_read_from_the_log_and_else_asked_for_within_bounds(app, tmp_path):
    begun = first_commit(app / ".git")
    assert len(begun) == 40
    again = clone(app, "again")
    assert first_commit(again / ".git") == ""
    assert _git.first_commit(again / ".git", seconds=30) == begun
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{app}", "half")
    assert _git.first_commit(tmp_path / "half" / ".git", seconds=30) == first_commit(tmp_path / "half" / ".git") == ""
    assert _git.first_commit(tmp_path / "nowhere", seconds=30) == ""
    assert place_of(tmp_path / "half").roots == (str(tmp_path / "half"), str(app))


@pytest.mark.feature("memory.clones")
@pytest.mark.parametrize("broken", ["fifo", "folder", "bytes", "loop"])
def test_files_of_git_that_are_none_give_no_repository_and_no_wait(tmp_path, broken):
    folder = tmp_path / ".git"
    folder.mkdir()
    config = folder / "config"
    if broken == "fifo":
        os.mkfifo(config)
    elif broken == "folder":
        config.mkdir()
    elif broken == "bytes":
        config.write_bytes(b"\xff\x00[remote]\n\turl\n" * 10)
    else:
        shutil.rmtree(folder)
        folder.write_text("gitdir: .git\n")
    assert place_of(tmp_path).identities == ()


@pytest.mark.feature("memory.clones")
def test_a_repository_that_had_no_answer_yet_is_asked_again(chosen, tmp_path):
    git(tmp_path, "init", "-q", "app")
    with open_store(chosen) as store:
        normalized(store, checked("a", 1, tmp_path / "app"))
        assert look(store) == 0
        git(tmp_path / "app", "commit", "-q", "--allow-empty", "-m", "begin")
        assert look(store) == 1


@pytest.mark.feature("memory.clones")
def test_a_first_commit_that_was_amended_is_the_one_that_clones_begin_with(app, tmp_path):
    git(tmp_path, "init", "-q", "new")
    for words in (("--allow-empty", "-m", "begin"), ("--amend", "-m", "begin well"), ("--amend", "-m", "begin better")):
        git(tmp_path / "new", "commit", "-q", "--allow-empty", *words)
    git(tmp_path / "new", "commit", "-q", "--allow-empty", "-m", "go on")
    assert first_commit(tmp_path / "new" / ".git") == _git.first_commit(tmp_path / "new" / ".git", seconds=60) != ""
    git(app, "commit", "-q", "--amend", "--allow-empty", "-m", "go on better")
    assert first_commit(app / ".git") == _git.first_commit(app / ".git", seconds=60)


@pytest.mark.feature("memory.clones")
def test_a_path_that_is_no_repository_is_nobodys_root_and_one_that_is_gone_still_is(app, tmp_path):
    folders = {"plain": str(tmp_path), "gone": str(tmp_path / "gone"), "whole": str(app)}
    (app / ".git" / "config").write_text("".join(f'[remote "{name}"]\n\turl = {path}\n' for name, path in folders.items()))
    assert place_of(app / "src").roots == (str(app), str(tmp_path / "gone"))


@pytest.mark.feature("memory.clones-of-a-name")
@pytest.mark.parametrize(
    ("folders", "repositories"),
    [
        (("/Users/ann/code/parser", "/home/bob/parser", "/Users/ann/code/parser/.worktrees/2"), 1),
        (("/Users/ann/code/parser", "/Users/ann/other/parser"), 2),
        (("/Users/ann/parser/src", "/Users/bob/lexer/src"), 2),
        (("/Users/ann", "/home/ann"), 2),
        (("/srv/parser", "/opt/parser"), 2),
    ],
    ids=["people", "one-person", "part-of-it", "home", "no-home"],
)
def test_clones_that_are_gone_are_one_repository_by_a_name_that_several_people_gave_them(chosen, folders, repositories):
    with open_store(chosen) as store:
        normalized(store, *(checked(f"s{n}", n, folder) for n, folder in enumerate(folders * 3)))
        mine(store, chosen, cells=[CELL])
        consolidate(store, chosen)
        index_memory(store, chosen)
    found = [m for m in api.memories(settings=chosen) if m.kind == "repo_convention"]
    assert len(found) == repositories
    assert sum(m.support for m in found) == 3 * len(folders)


@pytest.mark.feature("memory.clones-of-a-name")
def test_a_checkout_that_is_here_is_no_clone_of_those_that_are_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("ctx_pipeline.pipeline.lessons.repositories._HOME", re.compile(rf"{re.escape(str(tmp_path))}/[^/]+"))
    here, *gone = (f"{tmp_path}/{person}/parser" for person in ("ann", "bob", "cy"))
    Path(here).mkdir(parents=True)
    assert named_as_one([here, *gone], []) == dict.fromkeys(gone, gone[0])
    assert named_as_one(gone, ["github.com/acme/parser"]) == {}
