"""Sessions as Markdown files and as traces of an open schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.errors import StoreError, UnknownName
from ctx_pipeline.integrations.export import Chosen, markdown, opentraces
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage.files import PrivateFolder
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import claude, codex
from ctx_pipeline_tests.usage.conftest import ingested

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
OTHER = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def stored(tmp_path: Path) -> Settings:
    home = claude.ClaudeHome(tmp_path / "claude")
    main = home.session()
    main.prompt(f"use {SECRET} to mend it")
    main.answer(claude.thinking("look first"), claude.text("I read it."), claude.tool_use("t1", "Read", file_path="/home/dev/shop/a.py"))
    main.result("t1", "x = 1").call("t2", "Bash", "Exit code 2\nboom", is_error=True, command="make")
    main.compact(9_000, "what was done").answer(claude.text("Done."), usages=[claude.usage(100, 7, read=50)]).save()
    home.agent("abc1234").prompt("look around").answer(claude.text("found"), usages=[claude.usage(5, 3)]).save()
    home.session(OTHER, cwd="/home/dev/site").prompt("hello").answer(claude.text("hi"), costUSD=0.5).save()
    codex.write(tmp_path / "codex", codex.session())
    roots = {"claude": (tmp_path / "claude",), "codex": (tmp_path / "codex",)}
    return ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots=roots))


@pytest.mark.feature("export.markdown")
def test_each_session_is_a_redacted_file_of_its_own_for_its_owner_alone(stored: Settings, tmp_path: Path) -> None:
    names = markdown(tmp_path / "out", settings=stored)

    assert sorted(names) == [
        f"claude/2026-03-05-shop-{claude.SESSION}.md",
        f"claude/2026-03-05-site-{OTHER}.md",
        f"codex/2026-03-01-app-{codex.THREAD}.md",
    ]
    path = tmp_path / "out" / f"claude/2026-03-05-shop-{claude.SESSION}.md"
    text = path.read_text()
    assert "[REDACTED:" in text
    assert SECRET not in text
    assert "I read it." in text
    assert "boom" in text
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.feature("export.markdown")
def test_sessions_are_chosen_by_host_id_project_and_day(stored: Settings, tmp_path: Path) -> None:
    def chosen(**words: str) -> int:
        return len(markdown(tmp_path / "out", Chosen(**words), settings=stored))

    assert chosen(host="codex") == 1
    assert chosen(host="claude", session_id="2222") == 1
    assert chosen(project="shop") == 1
    assert chosen(since="2026-03-02") == 2
    assert chosen(until="2026-03-01") == 1
    with pytest.raises(UnknownName):
        chosen(host="claude", session_id="nobody")
    with pytest.raises(StoreError, match="lies in the store"):
        markdown(stored.home / "out", settings=stored)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        markdown(tmp_path / "file" / "out", settings=stored)


@pytest.mark.feature("export.opentraces")
def test_sessions_of_every_host_leave_as_traces_that_the_schema_takes(stored: Settings, tmp_path: Path) -> None:
    schema = pytest.importorskip("opentraces_schema")
    sessions, count = opentraces(tmp_path / "t.jsonl", settings=stored)
    lines = (tmp_path / "t.jsonl").read_text().splitlines()

    assert (sessions, count, len(lines)) == (3, 4, 4)
    read = [schema.TraceRecord.model_validate_json(line) for line in lines]
    assert {t.agent.name for t in read} == {"claude", "codex"}
    main = next(t for t in read if t.trace_id == f"claude/{claude.SESSION}/{claude.SESSION}")
    assert [s.role for s in main.steps] == ["user", "agent", "agent", "system", "agent"]
    assert [(c.tool_name, c.input) for c in main.steps[1].tool_calls] == [("Read", {"file_path": "/home/dev/shop/a.py"})]
    assert (main.steps[1].content, main.steps[1].reasoning_content) == ("I read it.", "look first")
    assert [(o.content, o.error) for o in main.steps[1].observations] == [("x = 1", None)]
    assert [(o.content, o.error) for o in main.steps[2].observations] == [(None, "Exit code 2\nboom")]
    assert main.task.description == main.steps[0].content
    assert SECRET not in "".join(lines)
    assert (tmp_path / "t.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.feature("export.opentraces")
def test_tokens_and_cost_of_all_traces_are_those_of_usage(stored: Settings, tmp_path: Path) -> None:
    opentraces(tmp_path / "t.jsonl", settings=stored)
    traces = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    totals = usage("daily", settings=stored).totals

    assert sum(t["metrics"]["total_output_tokens"] for t in traces) == totals["output_tokens"]
    assert sum(s.get("token_usage", {}).get("output_tokens", 0) for t in traces for s in t["steps"]) == totals["output_tokens"]
    assert totals["recorded_calls"] == 1
    assert sum(t["metrics"]["estimated_cost_usd"] for t in traces) == pytest.approx(totals["cost_nano"] / 1e9)


@pytest.mark.feature("export.opentraces")
def test_a_thread_that_was_stopped_or_failed_says_so_and_no_other_claims_success(stored: Settings, tmp_path: Path) -> None:
    home = claude.ClaudeHome(tmp_path / "claude")
    home.session("33333333-3333-4333-8333-333333333333").prompt("go").answer(claude.text("on it")).prompt(
        "[Request interrupted by user]"
    ).save()
    opentraces(tmp_path / "t.jsonl", settings=ingested(stored))
    outcomes = {t["session_id"][:4]: t["outcome"] for t in map(json.loads, (tmp_path / "t.jsonl").read_text().splitlines())}

    assert outcomes["3333"] == {"success": False, "terminal_state": "interrupted"}
    assert outcomes["2222"] == {}


@pytest.mark.feature("export.markdown")
@pytest.mark.feature("export.opentraces")
def test_both_are_commands(stored: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTX_HOME", str(stored.home))

    def ctx(*words: str) -> dict[str, object]:
        return json.loads(CliRunner().invoke(cli, ["export", *words, "--json"]).stdout)

    assert len(ctx("markdown", str(tmp_path / "md"), "--project", "shop")["files"]) == 1
    assert ctx("opentraces", str(tmp_path / "t"), "--host", "cx")["traces"] == 1
    assert CliRunner().invoke(cli, ["export", "markdown", str(tmp_path / "md"), "--session-id", "no-such"]).exit_code != 0


def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    (tmp_path / "out" / "report.md").mkdir(parents=True)

    with pytest.raises(StoreError, match=r"report\.md cannot be written"):
        PrivateFolder(tmp_path / "out").text("report.md", "what was done")

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.md"]
