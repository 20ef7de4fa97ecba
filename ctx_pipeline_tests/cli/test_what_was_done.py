"""``ctx files``, ``ctx show --turns`` and the columns of ``ctx usage --cache``, as a person reads them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.cli.sessions import _turns
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories import claude

DISCOUNTS = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"


@pytest.fixture
def ctx(ran: Ctx, monkeypatch: pytest.MonkeyPatch):
    """Run a command in this process over the store of the sample homes and return what it prints."""
    for name, value in ran.environ.items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> str:
        done = CliRunner().invoke(cli, list(words))
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


@pytest.mark.feature("normalize.diffs")
def test_changes_are_printed_with_their_hashes_and_lines(ctx) -> None:
    told = ctx("files", "claude", DISCOUNTS, "--diff")

    assert "before " in told
    assert any(line.startswith("+") for line in told.splitlines())
    assert any(line.startswith("-") for line in told.splitlines())
    listed = ctx("files", "claude", DISCOUNTS)
    assert "last read" in listed
    assert "changes" in listed


@pytest.mark.feature("normalize.shell-reads")
def test_reads_are_printed_with_their_lines_and_a_path_that_fits_nothing_says_so(ctx) -> None:
    assert "through" in ctx("files", "claude", DISCOUNTS, "--reads")
    assert "no file fits" in ctx("files", "claude", DISCOUNTS, "--path", "nothing/here")


@pytest.mark.feature("normalize.answers")
def test_each_turn_is_printed_with_how_it_ended(ctx) -> None:
    told = ctx("show", "claude", DISCOUNTS, "--turns")

    assert "  answered, 5 tool calls: 3 Bash, 1 Read, 1 Edit\n  changed bookshop/discounts.py\n" in told
    assert "\n  checked `uv run pytest -q tests/test_discounts.py` passed\n" in told
    assert "\n  answered, 0 tool calls\n" in told


@pytest.mark.feature("usage.cache-efficiency")
def test_what_the_cache_did_stands_in_the_table_and_in_csv(ctx) -> None:
    table = ctx("usage", "model", "--cache")

    assert all(name in table for name in ("cache hits", "rebuilds", "cache saved"))
    assert "cache hits" not in ctx("usage", "model")
    header = ctx("usage", "daily", "--cache", "--csv").splitlines()[0]
    assert all(name in header for name in ("cache_hit_share", "cache_rebuilds", "cache_saved_usd"))


@pytest.mark.feature("usage.cache-efficiency")
def test_sessions_are_put_in_the_order_of_their_rebuilds(bare: Ctx) -> None:
    home = claude.ClaudeHome(bare.folder / "claude")
    for number, sizes in enumerate(((9_000, 9_000, 9_000), (10, 9_000, 10), (9_000, 10, 10, 9_000, 10))):
        main = home.session(f"{number:08d}-1111-4111-8111-111111111111", mark=f"m{number}").prompt(f"task {number}")
        for read in sizes:
            main.answer(claude.text("a"), usages=[claude.usage(0, 10, written=9_000 - read, read=read)])
        main.save()
    bare.environ["CLAUDE_CONFIG_DIR"] = str(bare.folder / "claude")

    rows = bare.json("usage", "session", "--cache", "--sort", "rebuilds")["rows"]
    printed = bare("usage", "session", "--cache", "--sort", "rebuilds").stdout

    rebuilds = [(row["session_id"][:8], row["cache_rebuilds"]) for row in rows]
    assert rebuilds == [("00000002", 3), ("00000001", 1), ("00000000", 0)]
    assert [line[:8] for line in printed.splitlines() if line.startswith("0000000")] == [name for name, _ in rebuilds]
    assert "ctx usage session --cache --sort rebuilds" in bare("usage", "session", "--sort", "rebuilds", ok=False).stderr


@pytest.mark.feature("usage.per-commit")
def test_figures_per_unit_are_printed_by_project(ctx) -> None:
    assert "per tool call" in ctx("usage", "outcomes")
    assert "no record says that a limit was reached" in ctx("usage", "limits")


@pytest.mark.feature("work.errors")
def test_errors_that_failed_calls_printed_are_counted_with_the_session_that_met_them_last(ran: Ctx) -> None:
    found = ran.json("work", "--errors")["errors"]
    failed = ran.json("work")["hosts"][0]["failed_tool_calls"]

    assert 0 < sum(one["times"] for one in found) <= failed
    assert [one["times"] for one in found] == sorted((one["times"] for one in found), reverse=True)
    sql = "select text from events where kind = 'tool_result' and session_id = '{}'"
    for one in found:
        texts = " ".join(row["text"] or "" for row in ran.json("sql", sql.format(one["session_id"]))["rows"])
        assert one["error"].removesuffix("…").split()[-1] in texts
    assert found[0]["error"][:40] in ran("work", "--errors").stdout
    assert ran.json("work", "--errors", "--since", "2031-01-01")["errors"] == []
    refused = ran("work", "--errors", "--project", "nosuch", ok=False)
    assert (refused.returncode, "there is no project called 'nosuch'" in refused.stderr) == (1, True)


@pytest.mark.feature("normalize.answers")
def test_of_many_checks_of_a_turn_the_last_are_named_and_the_others_counted(capsys) -> None:
    checks = [{"program": f"pytest test_{n}.py", "result": "passed"} for n in range(6)]
    turn = {"prompt": {"ts": None, "text": "Test it", "command": False}, "ended": "answered", "tool_calls": 6, "tools": {"Bash": 6}}
    _turns([turn | {"changed": [], "compactions": [], "answer": None, "checks": checks}], "UTC", as_json=False)

    assert "\n  checked 2 earlier, `pytest test_2.py` passed, `pytest test_3.py` passed," in capsys.readouterr().out
