"""A broken file of the person's own is named everywhere and takes nothing else with it."""

from __future__ import annotations

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories.shipped import copied

METHOD = """
from ctx_pipeline.mining.base import MiningResult, register_method


@register_method("bad", description="Draws nothing.")
def mine_bad(ctx):
    return MiningResult(ctx.session_id, ctx.host, "bad")
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A store whose own folder holds a method that cannot be imported, a signal that is no Python, and a link to nowhere."""
    folder = tmp_path_factory.mktemp("broken")
    ctx = Ctx(folder, copied(folder))
    own = ctx.store / "config"
    (own / "methods").mkdir(parents=True)
    (own / "signals").mkdir()
    (own / "methods" / "bad.py").write_text("import os\nimport a_module_that_is_nowhere\n")
    (own / "methods" / "gone.py").symlink_to(folder / "nowhere.py")
    (own / "signals" / "worse.py").write_text("def (:\n")
    return ctx, ctx("run", "--json")


@pytest.mark.feature("mining.broken-file")
def test_a_run_names_broken_files_with_their_lines_and_makes_all_the_rest(broken):
    ctx, ran = broken
    named = [line for line in ran.stderr.splitlines() if line.startswith("left out: ")]
    assert ["bad.py" in named[0], "gone.py" in named[1], "worse.py" in named[2], len(named)] == [True, True, True, 3]
    assert "No module named 'a_module_that_is_nowhere', line 2" in named[0]
    assert "SyntaxError" in named[2]
    again = ctx("run")
    assert "nothing changed" in again.stdout
    assert [line for line in again.stderr.splitlines() if line.startswith("left out: ")] == named
    status = ctx.json("status")
    assert status["nothing_to_do"]
    assert {a["asset"] for a in status["assets"]} >= {"mined/reme", "signals/outcomes", "memory/consolidated", "dashboard/site"}
    assert not {"mined/bad", "signals/worse"} & {a["asset"] for a in status["assets"]}
    assert [place.rpartition("/")[2] for place in status["left_out"]] == ["bad.py", "gone.py", "worse.py"]


@pytest.mark.feature("mining.broken-file")
@pytest.mark.parametrize(
    ("words", "names"),
    [(("doctor",), ["bad.py", "gone.py", "worse.py"]), (("methods",), ["bad.py", "gone.py"]), (("signal", "list"), ["worse.py"])],
    ids=["doctor", "methods", "signals"],
)
def test_what_is_left_out_stands_in_the_reports(broken, words, names):
    ctx, _ = broken
    assert [place.rpartition("/")[2] for place in ctx.json(*words)["left_out"]] == names


@pytest.mark.feature("mining.broken-file")
def test_the_graph_loads_without_broken_files_and_with_them_when_they_are_mended(broken):
    ctx, _ = broken
    assets = ctx.json("ui", "--check")["assets"]
    assert "mined/reme" in assets
    assert "mined/bad" not in assets
    bad = ctx.store / "config" / "methods" / "bad.py"
    kept = bad.read_text()
    bad.write_text(METHOD)
    try:
        assert "mined/bad" in ctx.json("ui", "--check")["assets"]
        assert "bad.py" not in " ".join(ctx.json("methods")["left_out"])
    finally:
        bad.write_text(kept)
