"""The context window: how full, what filled it, what compactions lost, the cache, and the verdict."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.pipeline.measure import take
from ctx_pipeline.pipeline.signals.signal_inputs import analyses
from ctx_pipeline.pricing.price_book import Rates
from ctx_pipeline_tests.factories.views import view

SIGNALS = discovery.signals()
RATES = Rates(input=10.0, cache_read=1.0, cache_write_5m=12.5, cache_write_1h=20.0)


def read(name, builder):
    """Take one reading, with a window of 200,000 tokens and round prices."""
    built = builder.build()
    built.analyses = {**analyses(), "rate_of": lambda _: lambda *_a: RATES}
    return take(SIGNALS[name], built)


def growing():
    """Three calls of one thread; 10,000 characters of tool output come in between, 4,000 tokens by the bill."""
    return (
        view()
        .prompt("fix the tests")
        .model(10_000, 100, said="I look.")
        .tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 10_000)
        .model(14_100, 200, said="And now the other one.")
        .tool("Bash", action="shell", argv=["pytest"], text="y" * 1_000)
        .model(15_000, 50, said="Done, all of them pass now.")
    )


@pytest.mark.feature("signals.context-window")
def test_the_peak_and_its_share_are_those_of_the_largest_prompt():
    peak = read("context_peak_tokens", growing())
    assert peak.value == 15_000
    assert peak.metadata["fill"] == [10_000, 14_100, 15_000]
    assert peak.evidence == ("s1.e7",)
    assert read("context_peak_share", growing()).value == pytest.approx(0.075)
    beyond = view().model(300_000, 1)
    assert read("context_peak_share", beyond).metadata["window"] == 1_000_000


@pytest.mark.feature("signals.context-window")
def test_growth_is_the_median_step_and_says_its_shape():
    assert read("context_growth_per_call", growing()).value == (4_100 + 900) / 2
    assert read("context_growth_shape", growing()).value == "short"
    shapes = {
        "flat": (100, 105, 110, 112, 118),
        "linear": (100, 200, 300, 400, 500),
        "plateau": (100, 400, 700, 710, 720),
        "superlinear": (100, 110, 120, 400, 900),
    }
    for shape, prompts in shapes.items():
        session = view()
        for prompt in prompts:
            session.model(prompt, 1)
        assert read("context_growth_shape", session).value == shape


@pytest.mark.feature("tokens.scaled")
@pytest.mark.feature("signals.tool-share")
@pytest.mark.feature("signals.context-window")
def test_tool_output_is_scaled_to_the_bill_and_the_factor_and_its_error_are_shown():
    share = read("tool_output_share", growing())
    scale = share.metadata["scale"]["claude-sonnet-4-5"]
    assert scale == {"factor": 0.3, "error": 0.15, "pairs": 0}
    assert share.value == pytest.approx((3_000 + 300) / 5_000)
    assert read("context_largest_layer", growing()).value == "tools"
    fitted = view()
    for step in range(8):
        fitted.model(1_000 + step * 2_050, 50).tool("Bash", action="shell", argv=["x"], text="z" * 4_000)
    scale = read("tool_output_share", fitted).metadata["scale"]["claude-sonnet-4-5"]
    assert scale == {"factor": 0.5, "error": 0.0, "pairs": 7}


@pytest.mark.feature("signals.carry-cost")
def test_a_result_is_carried_by_every_later_call_until_a_compaction():
    carried = read("tool_result_carry_tokens", growing())
    assert carried.value == 3_000 * 2 + 300 * 1
    assert carried.metadata["largest"][0] == {"tool": "Read", "tokens": 3_000, "calls": 2, "event": "s1.e3"}
    # the first reading is no carrying; the second costs input, since nothing of the prompt was cached
    assert read("tool_result_carry_cost", growing()).value == 3_000 * 10 / 10**9
    assert read("largest_result_carry_share", growing()).value == pytest.approx(6_000 / 39_100)
    ended = growing().other("compaction", "", "compact").model(2_000, 5).model(2_100, 5)
    assert read("tool_result_carry_tokens", ended).value == carried.value


def compacted(trigger='{"trigger":"auto","preTokens":15500}'):
    """A session that reads a file and runs a command, is compacted, and does both again."""
    return (
        growing()
        .prompt("please never touch the loader module of the shop, it is generated")
        .tool("Read", action="read", paths=("/w/app/b.py",), text="b" * 100)
        .other("compaction", trigger, "system/compact_boundary")
        .model(3_000, 10)
        .tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 10_000)
        .edit("/w/app/b.py")
        .tool("Read", action="read", paths=("/w/app/b.py",), text="b" * 100)
        .shell("pytest", text="y" * 1_000)
        .shell("ls", text="new")
        .prompt("I said: please never touch the loader module of the shop, it is generated")
        .model(8_000, 10)
    )


@pytest.mark.feature("signals.compaction-loss")
def test_what_a_compaction_dropped_and_was_needed_again_is_counted_with_its_size():
    assert read("compaction_count", compacted()).value == 1
    assert read("compaction_trigger", compacted()).value == "auto"
    assert read("compaction_dropped_tokens", compacted()).value == 15_500 - 3_000
    files = read("compaction_files_read_again", compacted())
    assert (files.value, files.metadata) == (1, {"files": ["/w/app/a.py"]})
    commands = read("compaction_commands_run_again", compacted())
    assert (commands.value, commands.metadata) == (1, {"commands": ["pytest"]})
    assert read("compaction_prompts_said_again", compacted()).value == 1
    again = read("compaction_recovery_tokens", compacted())
    assert (again.value, again.metadata["dollars"]) == (3_300, 33_000 / 10**9)


@pytest.mark.feature("signals.compaction-loss")
def test_a_trigger_that_nobody_recorded_is_manual_only_behind_the_persons_command():
    asked = growing().injected("<command-name>/compact</command-name>", "command-name").other("compaction", "", "compacted").model(1_000)
    assert read("compaction_trigger", asked).value == "manual"
    assert read("compaction_trigger", growing().other("compaction", "", "compacted")).value == "unrecorded"
    dropped = read("compaction_dropped_tokens", growing().other("compaction", "{broken", "compacted"))
    assert (dropped.value, dropped.reason) == (None, "no model call stands behind a compaction")
    assert read("compaction_count", growing()).value == 0
    assert read("compaction_files_read_again", growing()).reason == "the session was never compacted"


def cached():
    """Four calls with a cache: a hit, an expiry after ten minutes, and a changed prompt."""
    return (
        view()
        .model(10_000, 10, written=9_000)
        .model(11_000, 10, read=9_000, written=1_500)
        .model(12_000, 10, read=0, written=12_000, after=600)
        .model(12_500, 10, read=2_000, written=10_000)
    )


@pytest.mark.feature("signals.cache-behaviour")
def test_hit_share_savings_and_rebuilds_with_their_cause():
    assert read("cache_hit_share", cached()).value == pytest.approx(11_000 / 45_500)
    # 11,000 tokens at 9 less than input; 32,500 written at 2.5 more
    assert read("cache_saved_cost", cached()).value == (11_000 * 9 - 32_500 * 2.5) / 10**9
    rebuilt = read("cache_rebuild_count", cached())
    assert (rebuilt.value, rebuilt.metadata["causes"]) == (2, {"expired": 1, "prompt changed": 1})
    assert rebuilt.evidence == ("s1.e2", "s1.e3")
    tokens = read("cache_rebuild_tokens", cached())
    assert tokens.metadata["causes"] == {"expired": 10_500, "prompt changed": 10_000}
    other = view().model(10_000, written=9_000).model(10_500, written=10_000, model="claude-opus-4-5")
    assert read("cache_rebuild_count", other).metadata["causes"] == {"model changed": 1}
    shrunk = view().model(10_000, written=9_000).other("compaction").model(2_000, written=2_000)
    assert read("cache_rebuild_count", shrunk).metadata["causes"] == {"compaction": 1}
    assert read("cache_hit_share", growing()).reason == "no call of the session used a cache"


WORDS = "the parser drops the header because the reader starts one line too late in the file"


@pytest.mark.feature("signals.rot-verdict")
def test_a_session_that_says_the_same_again_and_again_is_severe_with_reasons():
    stuck = view()
    for step in range(12):
        stuck.model(10_000 * (step + 1), max(1, 2_000 - 180 * step), said=WORDS)
    verdict = read("context_rot_verdict", stuck)
    assert verdict.value == "severe"
    assert any("repeat the one before" in reason for reason in verdict.metadata["reasons"])
    assert read("context_rot_score", stuck).value >= 5
    assert read("completion_repetition", stuck).value == 1.0
    tiny = view().model(10_000, 23, said="one two three").model(100_000, 5, said="four five six")
    assert read("completion_efficiency_kept", tiny).value == pytest.approx(0.00005 / 0.0023)
    assert read("completion_efficiency_kept", stuck).value == pytest.approx((20 / 120_000) / (2_000 / 10_000), rel=0.01)
    fine = view()
    for step in range(4):
        fine.model(1_000 + step * 20, 200, said=f"step {step} handles module number {step * 7} of another kind {step**3}")
    assert read("context_rot_verdict", fine).value == "none"
    first_counts = view()
    for step in range(12):
        first_counts.model(1_000 + step * 20, 300 if step < 3 else 2, said=f"part {step} " + " ".join(f"word{step}x{n}" for n in range(60)))
    told = read("context_rot_verdict", first_counts)
    assert (told.value, told.metadata["reasons"]) == (
        "none",
        ["output not judged: 9 of 12 calls record only the first count of their output"],
    )
    assert read("completion_efficiency_kept", first_counts).reason == "calls record only the first count of their output"
    assert read("context_rot_verdict", view().model(10, 1)).reason == "fewer than two model calls of its own"


@pytest.mark.feature("signals.non-adjacent-loops")
def test_a_loop_is_found_although_other_steps_stand_between_its_rounds():
    said = ["alpha beta gamma delta epsilon zeta", "one two three four five six", "red green blue white black grey"]
    loop = view()
    for step in range(9):
        loop.model(1_000 + step, 20, said=said[step % 3])
    found = read("looping_completion_count", loop)
    assert found.value == 6
    assert found.metadata["loops"] == [{"distance": 3, "calls": 6, "from": 4}]
    assert read("completion_repetition", loop).value == 0.0


@pytest.mark.feature("signals.context-window")
@pytest.mark.parametrize("name", [n for n, s in SIGNALS.items() if s.group == "context"])
def test_odd_sessions_give_a_reading_or_a_reason(name):
    copies = growing()
    copies.model_calls = [c._replace(owner=False) for c in copies.model_calls]
    backwards = growing()
    backwards.events = [e._replace(ts=-e.ts) for e in backwards.events]
    timeless = growing()
    timeless.events = [e._replace(ts=None, call_key=None) for e in timeless.events]
    timeless.model_calls = [c._replace(ts=None) for c in timeless.model_calls]
    only = view().other("compaction", json.dumps({"preTokens": "many", "trigger": 7}))
    for odd in (view(), copies, backwards, timeless, only, view().prompt("x"), view().other("title", "a summary"), view().model(1)):
        found = read(name, odd)
        assert not (found.reason or "").startswith("the signal raised"), found
        assert (found.value is None) == bool(found.reason)


@pytest.mark.feature("signals.context-window")
def test_forty_five_thousand_events_of_one_session_are_measured():
    big = view()
    for step in range(5_000):
        big.model(1_000 + step * 10, 20, said=f"{WORDS} {step % 7}")
        for part in range(4):
            big.tool("Bash", action="shell", argv=[f"make {part}"], text="out" * 20)
        if step % 50 == 49:
            big.other("compaction", '{"trigger":"auto"}')
    built = big.build()
    assert len(built.events) > 45_000
    built.analyses = analyses()
    for name, signal in SIGNALS.items():
        if signal.group == "context":
            found = take(signal, built)
            assert not (found.reason or "").startswith("the signal raised"), (name, found)
    assert take(SIGNALS["compaction_count"], built).value == 100
    assert take(SIGNALS["looping_completion_count"], built).value > 4_000
