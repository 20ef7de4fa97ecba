"""The traps of usage accounting: right in tokens and nano-dollars, with and without a store, and what another tool makes of them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.engine import calls, usage
from ctx_pipeline.usage.provenance.ccusage_comparison import compare_with
from ctx_pipeline.usage.provenance.explain import explain
from ctx_pipeline_tests.factories.traps import TRAPS, Tokens, Trap, write
from ctx_pipeline_tests.usage.conftest import ingested

NAMED = [pytest.param(trap, id=f"{trap.host}-{trap.day:02d} {trap.name}") for trap in TRAPS]
COSTS = ("cost_nano", "unpriced_calls", "recorded_nano", "calculated_nano")


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("traps")
    write(folder / "claude", folder / "codex")
    roots = {"claude": (folder / "claude",), "codex": (folder / "codex",)}
    return ingested(Settings(home=folder / "store", timezone="UTC", cost_mode="calculate", demo_roots=roots))


@pytest.fixture(scope="module", params=["homes", "stored", "both"])
def days(request: pytest.FixtureRequest, homes: Settings) -> dict[tuple[str, str], dict[str, Any]]:
    settings = replace(homes, home=homes.home.with_name("none")) if request.param == "homes" else homes
    report = usage("daily", settings=settings, stored=request.param == "stored")
    assert report.source == request.param
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in report.rows:
        one = found.setdefault((row["host"], row["date"]), dict.fromkeys(row, 0))
        for name, value in row.items():
            if isinstance(value, int):
                one[name] += value
    return found


@pytest.mark.feature("usage.traps")
@pytest.mark.parametrize("trap", NAMED)
def test_each_trap_is_counted_right_in_tokens_and_nano_dollars(days: dict[tuple[str, str], dict[str, Any]], trap: Trap):
    row = days[trap.host, trap.date]

    written = row["cache_write_5m_tokens"] + row["cache_write_1h_tokens"]
    assert Tokens(row["input_tokens"], row["output_tokens"], written, row["cache_read_tokens"]) == trap.right
    assert (row["calculated_nano"], row["recorded_nano"]) == (trap.nano or 0, trap.recorded)
    assert (row["unpriced_calls"] > 0) == (trap.nano is None)


@pytest.mark.feature("usage.owner-same-totals", "usage.statusline")
def test_the_newest_files_alone_count_a_slow_copy_for_the_parent_that_was_left_out(tmp_path: Path):
    (trap,) = [t for t in TRAPS if t.name == "a fork whose copy was written slowly"]
    trap.write(trap, tmp_path)
    parent, fork = sorted(tmp_path.rglob("*.jsonl"))
    os.utime(parent, (1, 1))
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"codex": (tmp_path,)})

    newest = calls(settings, since_ns=2 * 10**9).owned

    assert [(c.session_id in fork.name, len(rows)) for c, rows in newest] == [(True, 1)]
    assert sum(len(rows) for _, rows in calls(settings).owned) == 4


@pytest.mark.feature("pricing.guessed-model")
def test_a_model_that_was_not_recorded_is_priced_as_its_eras_default_and_marked(homes: Settings):
    guessed = {
        m.row[5] for trap in TRAPS if trap.host == "codex" for m in explain(trap.date, host="codex", settings=homes).calls if m.row[19]
    }
    (trap,) = [t for t in TRAPS if t.guessed]
    (made,) = explain(trap.date, host="codex", settings=homes).calls

    assert guessed == {"gpt-5"}
    assert (made.to_json()["model_guessed"], made.row[17]) == (True, trap.nano)


@pytest.mark.feature("explain.other-tools")
@pytest.mark.parametrize("trap", NAMED)
def test_the_other_tools_number_of_each_trap_is_what_it_really_printed(homes: Settings, trap: Trap):
    found = compare_with("ccusage", trap.date, host=trap.host, settings=homes)
    theirs = found.theirs.tokens

    assert Tokens(theirs.input, theirs.output, theirs.cache_write_5m + theirs.cache_write_1h, theirs.cache_read) == (
        trap.ccusage or trap.right
    )
    assert bool(found.differences) == (
        trap.ccusage is not None or bool(trap.searches) or bool(trap.recorded) or trap.name.startswith("a prompt above")
    )
    assert sum(d.theirs.total() - d.ours.total() for d in found.differences) == theirs.total() - found.ours.tokens.total()
    assert all(d.rule and d.spots for d in found.differences)


@pytest.mark.feature("explain.other-tools")
@pytest.mark.parametrize(
    ("day", "host", "rule", "dollars"),
    [
        (9, "claude", "without a request id", 0.030315 - 0.0189),
        (10, "claude", "the cost that the log holds", 9.99 - 0.0189),
        (12, "claude", "does not bill web searches", -1.0),
        # 1000 x 3 + 500 x 15 + 2000 x 3.75 + 200,000 x 0.3 + 50,000 x 0.6 millionths, where the whole call is 0.18225
        (14, "claude", "excess of each count", 0.108 - 0.18225),
        (17, "claude", "another request id", 0.0189),
        (6, "codex", "a copy here", 0.0028),
        (13, "codex", "packed files", -0.0028),
    ],
)
def test_a_difference_is_named_with_its_rule_and_its_dollars(homes: Settings, day: int, host: str, rule: str, dollars: float):
    (told,) = compare_with("ccusage", f"2026-11-{day:02d}", host=host, settings=homes).rules()

    assert rule in told["rule"]
    assert told["nano"] / 1e9 == pytest.approx(dollars, abs=1e-9)
    assert told["examples"][0].spots[0].file.startswith(str(homes.home.parent))
