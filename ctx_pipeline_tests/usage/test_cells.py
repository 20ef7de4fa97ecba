"""``ctx explain --by``: a cell of any usage table is the sum of the calls that it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.usage_rules import UNDATED, UNNAMED
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.blocks import blocks
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.provenance.ccusage_comparison import compare_with
from ctx_pipeline.usage.provenance.explain import explain
from ctx_pipeline_tests.usage.conftest import ingested

OPUS, HAIKU = "claude-opus-4-5-20251101", "claude-haiku-4-5-20251001"
COLUMNS = (
    *("input_tokens", "output_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens", "reasoning_tokens"),
    "calls",
    "cost_usd",
    "calculated_usd",
    "recorded_usd",
)


def record(number: int, output: int, when: str | None, *tools: tuple[str, dict[str, Any]], model: str | None = OPUS, **more: Any) -> str:
    content = [{"type": "tool_use", "id": f"t{number}-{n}", "name": name, "input": given} for n, (name, given) in enumerate(tools)]
    used = {"input_tokens": 3, "output_tokens": output, "cache_read_input_tokens": 1000}
    body = {"id": f"msg_{number}00", "role": "assistant", "model": model, "content": content, "usage": used}
    told = {"type": "assistant", "uuid": f"u{number}", "timestamp": when, "sessionId": "s", "cwd": "/code/a", "message": body, **more}
    return json.dumps(told, separators=(",", ":"))


@pytest.fixture
def work(tmp_path: Path) -> Settings:
    """Calls of two weeks, two tools in one of them, a subagent, one without a time, one without a model."""
    folder = tmp_path / "claude" / "projects" / "-work-a"
    session = "11111111-1111-4111-8111-111111111111"
    agents = folder / session / "subagents"
    agents.mkdir(parents=True)
    lines = [
        record(1, 301, "2026-10-01T10:00:00Z", ("Bash", {"command": "pytest -q"}), ("mcp__tracker__get", {"id": 1}), costUSD=0.25),
        record(2, 100, "2026-10-01T16:00:00Z", ("Skill", {"skill": "pdf"})),
        record(3, 7, "2026-10-09T10:00:00Z", ("Bash", {"command": "git status"}), model=HAIKU),
        record(4, 11, None),
        record(5, 13, "2026-10-09T11:00:00Z", model=None),
    ]
    (folder / f"{session}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (agents / "agent-abc.jsonl").write_text(record(9, 17, "2026-10-02T10:05:00Z") + "\n")
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})


@pytest.mark.feature("explain.table-cell")
@pytest.mark.parametrize("with_store", [False, True])
@pytest.mark.parametrize(
    ("by", "key"),
    [(by, "date") for by in ("daily", "weekly", "monthly")]
    + [("session", "session_id")]
    + [(by, by) for by in ("project", "model", "thread", "tool", "server", "skill", "command")],
)
def test_every_cell_of_every_table_is_explained_by_calls_that_add_up_to_it(work: Settings, by: str, key: str, with_store: bool):
    if with_store:
        ingested(work)
    table = usage(by, settings=work)
    cells = table.to_json()["rows"]
    assert len(cells) > 1

    for row in cells:
        what = (row[key] or UNNAMED) if by == "model" else row[key] or UNDATED
        told = explain(what, by=by, host=row["host"], model=row["model"], settings=work).totals

        assert {name: told[name] for name in COLUMNS} == pytest.approx({name: row[name] for name in COLUMNS})


@pytest.mark.feature("explain.table-cell")
def test_a_window_is_explained_by_the_calls_that_fell_into_it(work: Settings):
    windows = blocks(settings=work)
    assert [iso(w.start) for w in windows][:2] == ["2026-10-01T10:00:00.000000Z", "2026-10-01T16:00:00.000000Z"]

    told = explain("2026-10-01 16:00", by="blocks", settings=work)

    assert (told.kind, told.totals["calls"], told.totals["output_tokens"]) == ("window", 1, 100)


@pytest.mark.feature("explain.table-cell")
def test_a_shared_call_tells_its_share_and_days_narrow_a_cell(work: Settings):
    (made,) = explain("Bash", by="tool", model=OPUS, settings=work).calls
    both = explain("Bash", by="tool", settings=work)
    late = explain("Bash", by="tool", since="2026-10-05", settings=work)

    # 301 tokens among two uses, the odd one to the first
    assert (made.to_json()["output_tokens"], made.uses, made.of) == (151, 1, 2)
    assert (both.totals["output_tokens"], late.totals["output_tokens"]) == (158, 7)


@pytest.mark.feature("explain.table-cell")
def test_calls_without_a_time_or_a_model_have_names(work: Settings):
    assert explain(UNDATED, settings=work).totals["output_tokens"] == 11
    assert explain(UNNAMED, settings=work).totals["output_tokens"] == 13


@pytest.mark.feature("explain.table-cell")
def test_unknown_tables_windows_and_comparisons_are_wrong_usage(work: Settings):
    with pytest.raises(UsageError, match="no table 'yearly'"):
        explain("2026", by="yearly", settings=work)
    with pytest.raises(UsageError, match="not the start of a window"):
        explain("noon", by="blocks", settings=work)
    with pytest.raises(UsageError, match="compared by daily"):
        compare_with("ccusage", "Bash", by="tool", settings=work)


@pytest.mark.feature("explain.other-tools")
def test_a_week_is_compared_with_another_tool(work: Settings):
    found = compare_with("ccusage", "2026-09-28", by="weekly", settings=work)

    assert (found.kind, found.ours.calls, found.theirs.calls, found.differences) == ("week", 3, 3, [])
