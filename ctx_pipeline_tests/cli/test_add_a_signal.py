"""The walk of docs/signals.md as a person does it: missing, filled, and seen in the terminal, the tables and the page."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "signals.md"


NIGHTLY = {"tokens/exact", "memory/effect"}
"""Assets that the night fills, and no run."""


def states(ctx):
    """Return asset key -> missing cells."""
    return {a["asset"]: a["missing"] for a in ctx.json("status")["assets"]}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.feature("docs.add-a-signal")
def test_the_walk_of_the_page_works_as_written(ctx):
    ctx("run", "--json")
    before = {a: m for a, m in states(ctx).items() if a not in NIGHTLY}
    assert set(before.values()) == {0}
    text = PAGE.read_text("utf-8")
    source, *_ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    new, *rest = [shlex.split(line)[1:] for line in re.findall(r"^\$ (ctx .*)$", text, re.MULTILINE)]
    path = Path(ctx.json(*new)["path"])
    assert path == ctx.store / "config" / "signals" / "long_answers.py"
    path.write_text(source, "utf-8")
    said = {}
    for words in rest:
        if words[0] == "backfill":
            missing = {a: m for a, m in states(ctx).items() if m and a not in NIGHTLY}
            assert set(missing) == {"signals/long_answers"}
        said[words[0], words[1] if len(words) > 1 else ""] = ctx(*words).stdout
    assert "long_answers example 1: holds" in said["signal", "check"]
    assert re.search(r"signals/long_answers +0 +0 +[1-9]\d* +new asset", said["status", ""])
    assert "partitions filled" in said["backfill", "long_answers"]
    assert "long_answers" in said["signal", "summary"]
    sessions = ctx.json("signal", "summary", "--signal", "long_answers")["signals"][0]
    assert sessions["count"] >= 5
    assert sessions["sum"] >= 1
    assert "long_answers" in (ctx.store / "site" / "panels" / "signals.js").read_text("utf-8")
    assert "`long_answers`" in (ctx.store / "signals" / "summary.md").read_text("utf-8")
    rows = ctx.json("sql", "SELECT host, session_id FROM readings WHERE signal = 'long_answers' AND value > 0 LIMIT 1")["rows"]
    host, session_id = (list(rows[0].values()) if isinstance(rows[0], dict) else rows[0])[:2]
    shown = ctx.json("signal", "show", host, session_id)["readings"]
    (reading,) = [r for r in shown if r["signal"] == "long_answers"]
    assert len(reading["evidence"][0]["text"]) > 40
    assert {a for a, m in states(ctx).items() if m} == NIGHTLY


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.feature("dagster.exact-tokens")
def test_exact_tokens_are_filled_by_a_backfill_and_by_no_run(ctx):
    ctx("run", "--json")
    assert states(ctx)["tokens/exact"] > 0
    assert json.loads(ctx("run", "--json").stdout)["cells_materialized"] == 0
    filled = ctx.json("backfill", "--asset", "tokens/exact")
    assert filled["cells_materialized"] > 0
    assert states(ctx)["tokens/exact"] == 0
    rows = ctx.json("sql", "SELECT count(*) AS n FROM token_counts WHERE kind = 'tool_result' AND tokens > 0")["rows"]
    assert (next(iter(rows[0].values())) if isinstance(rows[0], dict) else rows[0][0]) > 0
