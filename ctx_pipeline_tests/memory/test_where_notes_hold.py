"""Where a note holds when its front matter says so badly, and what may not reach a prompt before a person has read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.learning import memories as api
from ctx_pipeline.memory.lesson_files import read_note
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.index import index_memory
from ctx_pipeline.pipeline.lessons.memory_files import import_authored
from ctx_pipeline.storage import open_store

pytestmark = pytest.mark.feature("memory.notes-fail-closed")

OTHER = "github.com/other/repo"


def checkout(folder: Path, remote: str = "") -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(f'[remote "origin"]\n\turl = https://{remote}.git\n' if remote else "", "utf-8")
    return folder


@pytest.fixture
def imported(environ, tmp_path):
    chosen = settings_module.load(environ)

    def bring(folder: Path, **notes: str):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in notes.items():
            (folder / f"{name}.md").write_text(text, "utf-8")
        with open_store(chosen) as store:
            report = import_authored(store, chosen, folder)
            consolidate(store, chosen)
            index_memory(store, chosen)
        return report, chosen

    return bring


@pytest.mark.parametrize(
    "matter",
    [
        f"repository: {OTHER}",
        f"scope: repository\nrepository: {OTHER}",
        f"scope: project\nrepo: {OTHER}",
        f"scope: nonsense\nrepo: {OTHER}",
    ],
    ids=["no scope", "repository", "project", "unknown"],
)
def test_a_note_of_a_repository_is_seen_in_it_and_nowhere_else(imported, tmp_path, matter):
    here, other = checkout(tmp_path / "here", "github.com/acme/here"), checkout(tmp_path / "other", OTHER)
    _, chosen = imported(
        tmp_path / "notes", secret=f"---\n{matter}\n---\nthe walrus deploys on friday", seen="walrus habits are in [[secret]]"
    )
    found = {where: {s.memory.memory_id for s in api.retrieve("walrus", cwd=str(where), settings=chosen)} for where in (here, other)}
    assert found == {here: {"seen"}, other: {"seen", "secret"}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\nkind: [skill\n---\nthe walrus deploys", "the front matter is no YAML"),
        ("---\nscope: everybody\n---\nthe walrus deploys", "its scope is not understood"),
        ("---\nrepository: [a, b]\n---\nthe walrus deploys", "its repository is not understood"),
        ("---\nrepository:\n---\nthe walrus deploys", "its repository is empty"),
    ],
    ids=["no YAML", "scope", "list", "empty"],
)
def test_a_note_of_which_nobody_knows_where_it_holds_is_held_back_until_it_was_read(imported, tmp_path, text, why):
    folder = tmp_path / "notes"
    report, chosen = imported(folder, doubtful=text)
    held = api.memory("doubtful", settings=chosen)
    assert (held.status, list(held.flags)) == ("needs_review", [why])
    assert report.problems["doubtful.md"][-1] == f"held back for review: {why}"
    assert api.retrieve("walrus", settings=chosen) == []
    imported(folder, doubtful="---\nscope: user\n---\nthe walrus deploys")
    assert api.memory("doubtful", settings=chosen).status == "accepted"


def test_an_unknown_scope_in_a_repositorys_own_notes_is_that_repository(imported, tmp_path):
    _, chosen = imported(checkout(tmp_path / "app", "github.com/acme/app") / "notes", here="---\nscope: everybody\n---\nthe walrus deploys")
    memory = api.memory("here", settings=chosen)
    assert (memory.status, memory.scope, memory.repository) == ("accepted", "repo", "github.com/acme/app")


def test_words_that_would_be_understood_are_named_with_what_is_taken():
    note = read_note("a.md", b"---\nkind: wisdom\nstatus: open\n---\nx")
    assert note.problems == [
        (
            "kind: 'wisdom' is not understood (one of procedure, skill, failure_trigger, user_preference, repo_convention, tool_lesson,"
            " risk_rule, case; case is taken)"
        ),
        "status: 'open' is not understood (one of candidate, accepted, retired; accepted is taken)",
    ]


def test_a_note_imported_before_scopes_were_minded_is_of_its_repository(environ):
    chosen = settings_module.load(environ)
    with open_store(chosen) as store:
        store.journal.append("memory.authored", {"memory_id": "old", "text": "the walrus deploys", "repository": OTHER}, actor="person")
        consolidate(store, chosen)
        index_memory(store, chosen)
    assert api.memory("old", settings=chosen).scope == "repo"
