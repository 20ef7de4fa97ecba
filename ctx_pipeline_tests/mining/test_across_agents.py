"""Claude Code and Codex share one store: what one learned in a repository counts and is offered in the other."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.learning import memories as api
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.index import index_memory
from ctx_pipeline.pipeline.mine import candidates, mine
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import SECOND, START, view

REMOTE = "github.com/acme/app"
CODEX = Cell("codex", "2026-01")


@pytest.fixture
def checkout(tmp_path):
    git = tmp_path / "app" / ".git"
    git.mkdir(parents=True)
    (git / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/app.git\n')
    return str(tmp_path / "app")


def day(name, number, **place):
    return view(name, start=START + number * 86_400 * SECOND, **place).shell("make check", text="ok")


@pytest.mark.feature("mining.repository")
def test_a_folder_without_a_remote_is_the_repository_that_the_other_agent_recorded_there(chosen, checkout):
    with open_store(chosen) as store:
        normalized(store, day("a", 1, cwd=checkout), day("b", 2, cwd=f"{checkout}/.claude/worktrees/fix"), day("c", 3, cwd="/w/other"))
        normalized(store, day("d", 4, host="codex", cwd=checkout, repository=REMOTE), cell=CODEX)
        mine(store, chosen, methods=["project_conventions"], cells=[CELL, CODEX])
        found = candidates(store, discovery.methods()["project_conventions"], combined=False)
        assert {c.session_id: c.repository for c in found} == {"a": REMOTE, "b": REMOTE, "c": "/w/other", "d": REMOTE}
        (habit,) = {c.text for c in candidates(store, discovery.methods()["project_conventions"])}
        assert habit == "check the work with `make check`"


@pytest.mark.feature("mining.repository")
def test_a_folder_in_which_two_repositories_were_recorded_and_a_worktree_alone(chosen):
    with open_store(chosen) as store:
        normalized(store, day("a", 1, cwd="/w/app"), day("b", 2, cwd="/w/lib/.worktrees/2/src"))
        both = [day(f"{n}{i}", i, host="codex", cwd="/w/app", repository=f"github.com/acme/{n}") for i, n in enumerate("xyx", 3)]
        normalized(store, *both, cell=CODEX)
        mine(store, chosen, methods=["project_conventions"], cells=[CELL, CODEX])
        found = candidates(store, discovery.methods()["project_conventions"], combined=False)
        assert {c.session_id: c.repository for c in found if c.host == "claude"} == {"a": "/w/app", "b": "/w/lib"}


@pytest.mark.feature("memory.cross-agent")
def test_a_lesson_learnt_in_codex_is_woven_where_claude_works_and_nowhere_else(chosen, checkout, tmp_path):
    learned = view("d", host="codex", cwd="/elsewhere/app", repository=REMOTE)
    learned = learned.shell("pytest", exit=127, text="bash: pytest: command not found").shell("uv run pytest", text="3 passed")
    (tmp_path / "other").mkdir()
    with open_store(chosen) as store:
        normalized(store, view("a", cwd=checkout).prompt("hello"))
        normalized(store, learned, cell=CODEX)
        mine(store, chosen, cells=[CELL, CODEX])
        consolidate(store, chosen)
        index_memory(store, chosen)
    query = "pytest: command not found"
    assert "`uv run pytest` works" in api.weave(query, cwd=f"{checkout}/src", settings=chosen)
    assert api.weave(query, cwd=str(tmp_path / "other"), settings=chosen) == ""
