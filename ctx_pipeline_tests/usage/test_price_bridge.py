"""Another tool's dollars are explained per model: today's prices, what it counts twice or never, its terms, recorded costs."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli.root import cli
from ctx_pipeline.model.host_records import Sum
from ctx_pipeline.pricing import PriceBook
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.provenance.ccusage_comparison import LISTED, RECORDED, compare_with
from ctx_pipeline.usage.provenance.explain import explain
from ctx_pipeline.usage.provenance.price_bridge import Bridge, added

CHANGED = "gpt-5.6-sol"
"""5 and 30 dollars a million until 2026-08-21, then 4 and 20."""


def line(number: int, when: str, output: int, **more: object) -> str:
    used = {"input_tokens": 1_000, "output_tokens": output}
    message = {"id": f"msg_{number}", "role": "assistant", "model": CHANGED, "content": [{"type": "text", "text": "x"}], "usage": used}
    record = {"type": "assistant", "uuid": f"u{number}", "timestamp": when, "sessionId": "s", "cwd": "/w", "message": message, **more}
    return json.dumps(record, separators=(",", ":")) + "\n"


@pytest.fixture
def homes(tmp_path: Path) -> Settings:
    folder = tmp_path / "claude" / "projects" / "-w"
    folder.mkdir(parents=True)
    text = line(1, "2026-07-16T10:00:00Z", 2_000) + line(2, "2026-07-16T11:00:00Z", 500, costUSD=0.5)
    (folder / "11111111-1111-4111-8111-111111111111.jsonl").write_text(text)
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})


@pytest.mark.feature("explain.against-dollars")
def test_old_days_at_the_prices_of_today_are_told_in_dollars(homes: Settings):
    (told,) = compare_with("ccusage", "2026-07-16", settings=homes).to_json()["models"]
    first, _ = PriceBook.of(homes).cost_nano(CHANGED, int(time.time() * 1e6), input=1_000, output=2_000)
    assert first is not None

    # 1,000 tokens in at 5 dollars a million and 2,000 out at 30; both take the recorded half dollar for the second call
    assert told["here_usd"] == pytest.approx(0.065 + 0.5)
    assert told["price_change_usd"] == pytest.approx(first / 1e9 - 0.065)
    assert told["there_usd"] == pytest.approx(first / 1e9 + 0.5)
    assert (told["recorded_calls"], told["recorded_usd"]) == (1, 0.5)
    assert told["recorded_calls_at_list_usd"] == pytest.approx(0.02)
    steps = ("here_usd", "price_change_usd", "counted_more_usd", "counted_less_usd", "terms_usd")
    assert sum(told[name] for name in steps) == pytest.approx(told["there_usd"], abs=1e-9)


@pytest.mark.feature("explain.cost-of-the-tables")
@pytest.mark.parametrize(("mode", "rules"), [("auto", []), ("calculate", [RECORDED]), ("display", [LISTED])])
def test_here_is_what_the_tables_of_usage_print_in_any_cost_mode(homes: Settings, mode: str, rules: list[str]):
    chosen = replace(homes, cost_mode=mode)
    (row,) = usage("daily", settings=chosen).to_json()["rows"]
    found = compare_with("ccusage", "2026-07-16", settings=chosen)
    explained = explain("2026-07-16", settings=chosen).to_json()

    assert found.ours.nano / 1e9 == found.models.total().here / 1e9 == pytest.approx(row["cost_usd"])
    assert explained["totals"]["cost_usd"] == pytest.approx(row["cost_usd"])
    assert sum(call["cost_usd"] or 0 for call in explained["calls"]) == pytest.approx(row["cost_usd"])
    assert [told["rule"] for told in found.rules()] == rules
    assert found.theirs.nano - found.ours.nano == sum(told["nano"] for told in found.rules())


@pytest.mark.feature("explain.cost-of-the-tables")
@pytest.mark.parametrize(
    ("mode", "total", "calls"),
    [
        (
            "auto",
            "$0.565000: $0.500000 recorded for 1 call, list price for the others; all at list price $0.085000",
            ["$0.065000", "$0.500000 recorded, $0.020000 at list price"],
        ),
        ("calculate", "$0.085000 at list price, $0.500000 recorded", ["$0.065000", "$0.020000, $0.500000 recorded"]),
        (
            "display",
            "$0.500000 recorded (1 unpriced), $0.085000 at list price",
            ["unpriced, $0.065000 at list price", "$0.500000 recorded, $0.020000 at list price"],
        ),
    ],
)
def test_the_cost_that_counts_is_told_first_and_the_other_beside_it(
    homes: Settings, monkeypatch: pytest.MonkeyPatch, mode: str, total: str, calls: list[str]
):
    for name, value in {"CTX_HOME": homes.home, "CTX_COST_MODE": mode, "CLAUDE_CONFIG_DIR": homes.demo_roots["claude"][0]}.items():
        monkeypatch.setenv(name, str(value))
    printed = CliRunner().invoke(cli, ["explain", "2026-07-16", "--host", "claude"]).stdout.splitlines()

    assert printed[1].endswith(f"cache read 0; {total}")
    assert [line.split("  ", 3)[3] for line in printed if "  msg_" in line] == calls


@pytest.mark.feature("explain.against-dollars")
def test_the_steps_of_a_bridge_add_up_to_the_difference():
    one, two = Bridge("a"), Bridge("b")
    tokens, double, none = Sum(10, 5, 0, 0, 0), Sum(20, 10, 0, 0, 0), Sum(0, 0, 0, 0, 0)
    one.take(tokens, tokens, here=100, today=80, there=80)
    one.take(tokens, double, here=100, today=80, there=160)
    two.take(tokens, none, here=100, today=80, there=0)
    two.take(tokens, tokens, here=100, today=80, there=70)
    two.take(none, tokens, here=0, today=0, there=80)
    whole = added("total", [one, two])

    assert (one.prices, one.more, one.less, one.terms) == (-40, 80, 0, 0)
    assert (two.prices, two.more, two.less, two.terms) == (-40, 80, -80, -10)
    assert whole.here + whole.prices + whole.more + whole.less + whole.terms == whole.there == 390
