"""Another tool's dollars are explained per model: today's prices, what it counts twice or never, its terms, recorded costs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ctx_pipeline.model.host_records import Sum
from ctx_pipeline.pricing import PriceBook
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.ccusage_comparison import against
from ctx_pipeline.usage.price_bridge import Bridge, added

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
    (told,) = against("ccusage", "2026-07-16", settings=homes).to_json()["models"]
    today, _ = PriceBook.of(homes).cost_nano(CHANGED, int(time.time() * 1e6), input=2_000, output=2_500)
    first, _ = PriceBook.of(homes).cost_nano(CHANGED, int(time.time() * 1e6), input=1_000, output=2_000)
    assert today is not None
    assert first is not None

    # 2,000 tokens in at 5 dollars a million and 2,500 out at 30
    assert told["here_usd"] == pytest.approx(0.085)
    assert told["price_change_usd"] == pytest.approx(today / 1e9 - 0.085)
    # it takes the recorded half dollar for the second call
    assert told["there_usd"] == pytest.approx(first / 1e9 + 0.5)
    assert (told["recorded_calls"], told["recorded_usd"]) == (1, 0.5)
    assert told["recorded_calls_at_list_usd"] == pytest.approx(0.02)
    steps = ("here_usd", "price_change_usd", "counted_more_usd", "counted_less_usd", "terms_usd")
    assert sum(told[name] for name in steps) == pytest.approx(told["there_usd"], abs=1e-9)


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
