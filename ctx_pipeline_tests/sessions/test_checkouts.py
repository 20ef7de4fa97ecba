"""Files are counted by repository and path, whichever folder a session was started in."""

from __future__ import annotations

import pytest

from ctx_pipeline.sessions.checkouts import Checkouts
from ctx_pipeline.sessions.files import accesses, heat, sessions_with_file
from ctx_pipeline.sessions.session_choice import Line
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.claude import ClaudeHome
from ctx_pipeline_tests.sessions.conftest import LATER, WORK, Shop, captured, repository

SHOP = "/gone/code/shop"


def ran(cwd: str, *, branch: str | None = None, remote: str | None = None, project: str = "p") -> Line:
    return Line("claude", cwd, cwd, remote or cwd, 0, 0, branch, project)


@pytest.fixture
def work(tmp_path, monkeypatch) -> Shop:
    """A session of a repository, and one of the folder above it that edits a file of each of two repositories there."""
    folder = tmp_path / "work"
    for name in ("shop", "cafe"):
        repository(folder / name, f"https://example.com/acme/{name}.git")
    home = ClaudeHome(tmp_path / "claude")
    inside = home.session(WORK, cwd=str(folder / "shop"), mark="w")
    inside.prompt("mend").call("w1", "Edit", "ok", file_path=f"{folder}/shop/cart.py", old_string="a", new_string="b").save()
    above = home.session(LATER, slug="-work", cwd=str(folder), mark="l", branch=None)
    above.prompt("mend all")
    for n, name in enumerate(("shop/cart.py", "cafe/cart.py", "notes.md")):
        above.call(f"l{n}", "Edit", "ok", file_path=f"{folder}/{name}", old_string="a", new_string="b")
    above.save()
    shop = captured(tmp_path)
    return Shop(shop.settings, folder / "shop", folder / "cafe")


def counts(found):
    return {f.name: f.counts["edit"] for f in found.files}


@pytest.mark.feature("session.heatmap-checkout")
def test_a_file_is_one_whether_it_was_edited_from_inside_its_repository_or_from_a_folder_above(work: Shop):
    everything = heat(everywhere=True, settings=work.settings)
    here = heat(cwd=str(work.clone), settings=work.settings)

    assert counts(everything) == {"shop: cart.py": 2, "cafe: cart.py": 1, "work: notes.md": 1}
    assert everything.projects == {"shop": 2, "cafe": 1, "work": 1}
    assert counts(here) == counts(heat(project="shop", settings=work.settings)) == {"cart.py": 2}
    assert here.sessions == 2
    # nobody worked inside of this one, and nothing of the folder above speaks for it
    assert counts(heat(cwd=str(work.other), settings=work.settings)) == {"cart.py": 1}


@pytest.mark.feature("session.heatmap-checkout")
def test_in_the_folder_above_its_own_session_tells_of_its_files_by_their_place_below_it(work: Shop):
    found = heat(cwd=str(work.clone.parent), settings=work.settings)

    assert counts(found) == {"shop/cart.py": 1, "cafe/cart.py": 1, "notes.md": 1}


@pytest.mark.feature("session.heatmap-checkout")
def test_a_file_is_found_by_its_path_below_the_repository_and_below_the_folder_above(work: Shop):
    with open_store(work.settings) as store:
        below, above = sessions_with_file(store, "cart.py"), sessions_with_file(store, "shop/cart.py")
        assert {a.path for a in accesses(store)[0]} == {"cart.py", "notes.md"}

    assert below == {("claude", WORK): "1 change", ("claude", LATER): "2 changes"}
    assert above == {("claude", WORK): "1 change", ("claude", LATER): "1 change"}


@pytest.mark.feature("session.heatmap-checkout")
@pytest.mark.parametrize(
    ("lines", "own", "path", "root"),
    [
        # the folder is gone; a session that recorded a branch ran in a checkout there, one of the folder above did not
        ([ran(SHOP, branch="main"), ran("/gone/code")], "/gone/code", f"{SHOP}/a.py", SHOP),
        ([ran(SHOP, remote="example.com/acme/shop"), ran("/gone/code", branch="")], "/gone/code", f"{SHOP}/a.py", SHOP),
        # nothing tells whether the inner folder is a checkout of its own
        ([ran(SHOP, branch="main"), ran(f"{SHOP}/api", branch="main")], SHOP, f"{SHOP}/api/a.py", SHOP),
        ([ran(SHOP), ran("/gone/code")], "/gone/code", f"{SHOP}/a.py", "/gone/code"),
        # another remote, and a worktree, are checkouts of their own
        ([ran(SHOP, remote="example.com/a/b"), ran(f"{SHOP}/api", remote="example.com/a/c")], SHOP, f"{SHOP}/api/a.py", f"{SHOP}/api"),
        ([ran(SHOP, branch="main"), ran(f"{SHOP}/.worktrees/1", branch="b")], SHOP, f"{SHOP}/.worktrees/1/a.py", f"{SHOP}/.worktrees/1"),
        # a subfolder of the same remote lies in the same checkout
        ([ran(SHOP, remote="example.com/a/b"), ran(f"{SHOP}/api", remote="example.com/a/b")], f"{SHOP}/api", f"{SHOP}/api/a.py", SHOP),
        # a file of another checkout, and one of none
        ([ran(SHOP, branch="main"), ran("/gone/cafe", branch="main")], "/gone/cafe", f"{SHOP}/a.py", SHOP),
        ([ran(SHOP, branch="main")], SHOP, "/etc/hosts", SHOP),
        ([ran(SHOP, branch="main")], "", "a.py", ""),
    ],
)
def test_of_folders_that_are_gone_the_records_tell_which_were_checkouts(lines, own, path, root):
    known = Checkouts(lines)

    assert known.of(path, known.own(own)) == root


@pytest.mark.feature("session.heatmap-checkout")
def test_the_project_of_a_checkout_is_that_of_its_remote_and_not_of_a_folder_in_it():
    known = Checkouts([ran(SHOP, branch="main", project="shop"), ran(SHOP, remote="example.com/acme/store", project="store")])

    assert known.project(SHOP) == "store"
    assert Checkouts([]).project("/gone/code/cafe/.worktrees/2") == "cafe"
