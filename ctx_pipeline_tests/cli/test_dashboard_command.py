"""``ctx dashboard``: the page in another cost mode, and the same overview in a terminal."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from ctx_pipeline.cli.page.dashboard import _moved, changed
from ctx_pipeline.model.readings import Month, trend
from ctx_pipeline_tests.cli.conftest import Ctx


@pytest.fixture(scope="module")
def own(ran: Ctx, tmp_path_factory: pytest.TempPathFactory) -> Ctx:
    """A copy of the store that these tests may build anew."""
    folder = tmp_path_factory.mktemp("own") / "store"
    shutil.copytree(ran.store, folder, symlinks=True)
    return Ctx(ran.folder, {**ran.environ, "CTX_HOME": str(folder)})


@pytest.mark.feature("dashboard.build-modes")
def test_the_page_is_built_in_the_named_cost_mode_and_says_so(own: Ctx):
    before = own.json("dashboard", "view")
    built = own.json("dashboard", "build", "--cost-mode", "display")
    folder = Path(built["site"]).parent
    page = (folder / "accounting.html").read_text("utf-8") + (folder / "history.html").read_text("utf-8")
    again = own.json("dashboard", "build")

    assert (built["cost_mode"], built["status"]) == ("display", "done")
    assert "mode <code>display</code>" in page
    assert "as the hosts recorded it" in page
    assert (again["cost_mode"], again["status"]) == ("auto", "done")
    assert "mode <code>auto</code>" in (Path(again["site"]).parent / "accounting.html").read_text("utf-8")
    assert own.json("dashboard", "view") == before
    assert "display" in own("dashboard", "build", "--cost-mode", "guessed", ok=False).stderr


@pytest.mark.feature("dashboard.terminal-view")
def test_the_overview_in_a_terminal_has_the_figures_of_the_page(own: Ctx):
    built = own.json("dashboard", "build")
    folder = Path(built["site"]).parent
    index = (folder / "history.html").read_text("utf-8") + (folder / "findings.html").read_text("utf-8")
    shown = own.json("dashboard", "view")
    text = own("dashboard", "view").stdout

    on_page = re.findall(r"<div><dt>([^<]*)</dt><dd>([^<]*)</dd>", index)
    assert on_page == [(f["name"], f["value"].replace("<", "&lt;")) for f in shown["figures"]]
    assert {f["title"] for f in shown["findings"]} <= {*re.findall(r"<h3>(?:<a[^>]*>)?([^<]*)", index)}
    listed = json.loads(re.search(r",(\{.*\})\);", (Path(built["site"]).parent / "data" / "sessions.js").read_text("utf-8"))[1])
    assert sum(project["sessions"] for project in shown["projects"]) == len(listed["rows"])
    for head in ("Needs a look", "In numbers", "By model", "By project", "Signals that changed", "Memories", "Newest sessions"):
        assert f"\n{head}\n" in text
    assert "\x1b" not in text


@pytest.mark.feature("dashboard.terminal-view")
def test_signals_that_changed_name_the_months_that_are_compared():
    months = [["2026-01", 9, 1.0, 0.5], ["2026-02", 9, None, None], ["2026-03", 9, 1.0, 0.5], ["2026-04", 9, 3.0, 0.5]]
    record = {
        "signal": "command_count",
        "kind": "numeric",
        "unit": "commands",
        "trend": asdict(trend([Month(*month) for month in months], "lower")),
        "months": months,
    }
    (row,) = changed(SimpleNamespace(aggregates=[record]))
    shown = _moved(row)

    assert shown["now"].endswith(" in 2026-04")
    assert shown["before"].endswith(" in 2026-01, 2026-03")


@pytest.mark.feature("cli.view-gaps")
def test_days_without_a_call_are_seen_in_the_terminal(own: Ctx):
    heading = "active days, with the days without a call between them\n"
    lines = own("dashboard", "view").stdout.partition(heading)[2].split("\n\n")[0].splitlines()[1:]

    named = [line.split("  ")[0] for line in lines]
    assert named[:3] == ["2026-09-14", "7 days", "2026-09-22"]
    assert named[named.index("2026-09-30") :][:4] == ["2026-09-30", "2026-10-01", "2026-10-02", "2026-10-03"]
    assert [line.split()[-1] for line in lines if line.startswith("2026-10-01")] == ["0"]


@pytest.mark.feature("dashboard.terminal-view")
def test_an_empty_store_says_in_words_what_to_do(bare: Ctx):
    (bare.folder / "claude" / "projects").mkdir(parents=True)
    empty = Ctx(bare.folder, {**bare.environ, "CLAUDE_CONFIG_DIR": str(bare.folder / "claude")})

    assert empty("dashboard", "view").stdout == "No session has been captured yet: ctx run reads the homes of your agents.\n"
