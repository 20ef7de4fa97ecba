"""Usage by branch and by home adds up to the rest, with a store, without one, and with newer bytes beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import UsageError
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.usage.conftest import ingested, without_store


def session(root: Path, number: int, *, branch: str | None, cwd: str = "/home/sam/code/acme", calls: int = 1) -> None:
    transcript = ClaudeHome(root).session(f"{number:08d}-0000-4000-8000-000000000000", mark=f"m{number}", cwd=cwd, branch=branch)
    for turn in range(calls):
        transcript.prompt(f"part {turn}")
        transcript.answer(text("done"), message_id=f"msg_{number}_{turn}")
    transcript.save()


@pytest.fixture
def settings(environ, tmp_path):
    session(tmp_path / "one", 1, branch="main", calls=2)
    session(tmp_path / "one", 2, branch="feature/till")
    session(tmp_path / "one", 3, branch="main", cwd="/home/sam/code/shop", calls=3)
    session(tmp_path / "two", 4, branch=None, calls=4)
    session(tmp_path / "two", 1, branch="main", calls=2)
    return settings_module.load({**environ, "CLAUDE_CONFIG_DIR": f"{tmp_path}/one,{tmp_path}/two"})


BRANCHES = [
    ("(no branch)", "/home/sam/code/acme", 4),
    ("feature/till", "/home/sam/code/acme", 1),
    ("main", "/home/sam/code/acme", 2),
    ("main", "/home/sam/code/shop", 3),
]


def branches(settings, **chosen):
    report = usage("branch", settings=settings, **chosen)
    return [(r["branch"], r["repository"], r["calls"]) for r in report.to_json()["rows"]]


def homes(settings, **chosen):
    report = usage("home", settings=settings, **chosen).to_json()
    return {Path(r["home"]).name: r["calls"] for r in report["rows"]}, report["totals"]["calls"]


@pytest.mark.feature("usage.by-branch")
def test_branches_of_a_repository_are_rows_of_their_own_and_add_up(settings, tmp_path):
    live = without_store(settings)
    assert branches(live) == BRANCHES
    ingested(settings)
    assert branches(settings, stored=True) == BRANCHES
    assert branches(settings, project="/home/sam/code/shop") == [BRANCHES[3]]
    assert branches(settings, until="2020-01-01") == []
    session(tmp_path / "one", 5, branch="feature/till", calls=2)
    assert branches(settings) == [BRANCHES[0], ("feature/till", "/home/sam/code/acme", 3), *BRANCHES[2:]]
    by_branch, by_model = (report(settings) for report in (lambda s: usage("branch", settings=s), lambda s: usage("model", settings=s)))
    assert by_branch.totals == by_model.totals


@pytest.mark.feature("usage.instances")
def test_several_homes_are_one_report_and_are_told_apart(settings, tmp_path):
    live = without_store(settings)
    assert homes(live) == ({"one": 6, "two": 4}, 10)
    assert usage("model", settings=live).totals["calls"] == 10
    ingested(settings)
    assert homes(settings, stored=True) == homes(settings) == ({"one": 6, "two": 4}, 10)
    session(tmp_path / "two", 6, branch=None)
    assert homes(settings) == ({"one": 6, "two": 5}, 11)
    assert homes(settings, stored=True) == ({"one": 6, "two": 4}, 10)
    with pytest.raises(UsageError, match="'planet' is not known"):
        usage("planet", settings=settings)
