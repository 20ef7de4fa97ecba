"""Whose memories may be seen where."""

from __future__ import annotations

import pytest

from ctx_pipeline.memory.consolidation import dangling, links_of
from ctx_pipeline.memory.scope import Place, identity, nearness, place_of, visible


@pytest.mark.feature("memory.scope")
def test_a_memory_of_a_folder_is_seen_in_its_subfolders_and_nowhere_else():
    place = Place("/w/app/src/x", ("/w/app",))
    assert visible("repo", "/w/app", "/w/app", place)
    assert visible("repo", "/w/app/docs", None, place)
    assert not visible("repo", "/w/apple", "/w/apple", place)
    assert not visible("repo", "/client/other", "/client/other", place)
    assert not visible("repo", "/w", None, Place("/v", ("/v",)))
    assert not visible("repo", None, None, place)


@pytest.mark.feature("memory.scope")
def test_without_a_place_only_what_holds_everywhere_is_seen():
    assert visible("user", None, None, None)
    assert visible("global", "/w/app", None, None)
    assert not visible("repo", "/w/app", "/w/app", None)


@pytest.mark.feature("memory.scope")
@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Acme/App.git",
        "git@github.com:acme/app.git",
        "ssh://git@github.com:22/acme/app",
        "https://user:pw@github.com/acme/app/",
    ],
)
def test_a_repository_has_one_name_in_every_notation(url):
    assert identity(url) == "github.com/acme/app"


@pytest.mark.feature("memory.scope")
def test_a_place_is_read_from_the_files_of_git(tmp_path):
    git = tmp_path / "app" / ".git"
    (git / "worktrees" / "feature").mkdir(parents=True)
    (git / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/app.git\n')
    (git / "worktrees" / "feature" / "commondir").write_text("../..\n")
    (tmp_path / "app" / "src").mkdir()
    place = place_of(tmp_path / "app" / "src")
    assert place == Place(str(tmp_path / "app" / "src"), (str(tmp_path / "app"),), ("github.com/acme/app",))
    tree = tmp_path / "elsewhere"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {git / 'worktrees' / 'feature'}\n")
    assert place_of(tree).identities == ("github.com/acme/app",)
    assert visible("repo", str(tmp_path / "app"), None, place_of(tree))
    assert visible("repo", "https://github.com/acme/app", None, place_of(tree))
    assert not visible("repo", "https://github.com/acme/other", None, place_of(tree))


@pytest.mark.feature("memory.scope")
def test_the_same_folder_is_nearer_than_the_same_repository():
    place = Place("/w/app/src", ("/w/app",))
    assert nearness("repo", "/w/app", place) > nearness("repo", "/w/app/docs", place) > nearness("user", None, place)


@pytest.mark.feature("memory.links")
def test_links_are_read_with_aliases_and_parts():
    assert links_of("see [[mem-1]], [[mem-2|that]] and [[mem-1#part]]", None, "[[mem-3]] [not] [[]]") == ["mem-1", "mem-2", "mem-3"]
    assert dangling({"a": ["b", "c"], "b": []}) == {"a": ["c"]}
