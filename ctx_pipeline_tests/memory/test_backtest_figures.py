"""Shares, chance, intervals, proposals and comparisons, on figures worked out by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from ctx_pipeline.learning.backtest.hook_events import Around, at_commands, fits
from ctx_pipeline.memory.evaluation import (
    Asked,
    Prompted,
    Sides,
    at_start,
    chance,
    difference,
    effects,
    of_groups,
    proposals,
    recall,
    recommended,
    starts,
    thresholds,
    wilson,
    worse,
)
from ctx_pipeline.memory.injection_policy import AT_FAILURE
from ctx_pipeline.memory.scope import place_of
from ctx_pipeline.memory.session_facts import CHANGED, FAILED, RAN, About, SessionFact, Timeline, about
from ctx_pipeline.model.memories import Memory

A, B = ("failed", "a"), ("failed", "b")
ON_A, ON_B, ON_NOTHING = About(frozenset({A})), About(frozenset({B})), About()


def asked(*found, session="s1", targets=(A,), raw=(), visible=4, about=1, told=False, place="/w"):
    return Asked("error", session, place, frozenset(targets), found, raw, visible, about, told)


@pytest.mark.feature("backtest.controls")
def test_chance_is_that_of_drawing_without_putting_back():
    assert chance(4, 1, 1) == 0.25
    assert chance(10, 2, 5) == pytest.approx(1 - (8 * 7 * 6 * 5 * 4) / (10 * 9 * 8 * 7 * 6))
    assert (chance(4, 0, 5), chance(3, 1, 5), chance(0, 0, 5)) == (0.0, 1.0, 0.0)


@pytest.mark.feature("backtest.moments")
def test_where_two_ways_never_differ_their_difference_is_known_no_better_than_so_many_sessions_tell():
    same = of_groups([[0.0, 0.0]] * 28, differences=True)
    assert (same.value, same.of) == (0.0, 56)
    assert (same.low, same.high) == (-wilson(0, 28).high, wilson(0, 28).high)
    apart = of_groups([[1.0], [0.0], [-1.0], [1.0]], differences=True)
    assert apart.value == 0.25
    assert -1 <= apart.low < 0 < apart.high <= 1


@pytest.mark.feature("backtest.held-out", "backtest.controls")
def test_recall_counts_what_was_found_first_and_in_five_beside_chance_and_raw_text():
    (row,) = recall(
        [
            asked(ON_A, session="s1", raw=(True, False), told=True),
            asked(ON_B, ON_NOTHING, ON_A, session="s2", raw=(False, True)),
            asked(ON_B, session="s3", about=0),
            asked(session="s4", raw=(False,)),
        ]
    )

    assert (row["kind"], row["questions"], row["sessions"], row["learned"]) == ("error", 4, 4, 3)
    figures = {name: row[name]["value"] for name in ("hit_at_1", "hit_at_5", "raw_at_1", "raw_at_5", "injected", "chance_at_1")}
    assert figures == {"hit_at_1": 0.25, "hit_at_5": 0.5, "raw_at_1": 0.25, "raw_at_5": 0.5, "injected": 0.25, "chance_at_1": 0.1875}
    assert row["learnt_hit_at_5"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    assert 0 <= row["hit_at_5"]["low"] <= 0.5 <= row["hit_at_5"]["high"] <= 1


@pytest.mark.feature("backtest.controls")
def test_answers_that_fit_only_their_own_question_fail_when_outcomes_are_exchanged():
    own = [asked(ON_A, session="s1"), asked(ON_B, session="s2", targets=(B,))]
    popular = [asked(ON_A, ON_B, session="s1"), asked(ON_A, ON_B, session="s2", targets=(B,))]

    assert recall(own)[0]["shuffled_at_5"]["value"] == 0.0
    assert recall(popular)[0]["shuffled_at_5"]["value"] == 1.0
    assert recall([own[0]])[0]["shuffled_at_5"]["of"] == 0
    assert recall([own[0], own[1]._replace(place="/x")])[0]["shuffled_at_5"]["of"] == 0


@pytest.mark.feature("backtest.precision")
def test_thresholds_for_injection_and_search_are_calibrated_apart():
    told = [Prompted("s1", {0.4: (True, False), 0.5: (True,)}, first=(0.45, False))] * 10
    told += [Prompted("s2", {0.4: (None,)}, start=(True, None), first=(0.9, True))] * 10
    rows = {r["threshold"]: r for r in thresholds(told)}

    assert (rows[0.4]["told"], rows[0.4]["injection_precision"]["value"], rows[0.4]["prompts_told"]["value"]) == (30, 0.5, 1.0)
    assert (rows[0.5]["told"], rows[0.5]["injection_precision"]["value"], rows[0.5]["prompts_told"]["value"]) == (10, 1.0, 0.5)
    assert (rows[0.4]["search_precision"]["value"], rows[0.5]["search_precision"]["value"]) == (0.5, 1.0)
    assert recommended(list(rows.values()), 0.75) == {"wanted": 0.75, "injection": 0.5, "search": 0.5, "start": None}
    assert recommended(list(rows.values()), 0.5) == {"wanted": 0.5, "injection": 0.4, "search": 0.34, "start": None}
    assert recommended(thresholds(told[:3]), 0.1)["injection"] is None
    start = at_start(told)
    assert (start["told"], start["sessions"], start["precision"]["value"], start["precision"]["of"]) == (20, 10, 1.0, 10)


@pytest.mark.feature("backtest.start")
def test_the_most_generous_rule_of_the_start_that_is_right_often_enough_is_recommended():
    told = [Prompted("s1", {}, starts={"accepted": (True,), "proven": (True, False)})] * 10
    told += [Prompted("s1", {})] * 10
    rows = starts(told)

    assert [(r["start"], r["told"], r["sessions"], r["precision"]["value"]) for r in rows] == [
        ("accepted", 10, 10, 1.0),
        ("proven", 20, 10, 0.5),
    ]
    assert [recommended([], wanted, rows)["start"] for wanted in (0.5, 0.6, 1.0)] == ["proven", "accepted", "accepted"]
    assert recommended([], 0.1, starts(told[:4]))["start"] is None


@pytest.mark.feature("backtest.effect")
def test_intervals_are_those_of_the_books_and_the_same_every_time():
    share = wilson(8, 10)
    assert (share.value, round(share.low, 4), round(share.high, 4)) == (0.8, 0.4902, 0.9433)
    assert wilson(0, 0).value is None
    assert of_groups([[1.0], [1.0], [1.0]])[:3] == pytest.approx((1.0, *wilson(3, 3)[1:3]))
    assert of_groups([[0.0, 1.0]]).low is None
    apart = difference([1.0, 2.0, 3.0, 2.0], [5.0, 6.0, 7.0, 6.0])
    assert apart.value == -4.0
    assert -5.5 < apart.low < -4.0 < apart.high < -2.5
    assert difference([1.0, 2.0, 3.0, 2.0], [5.0, 6.0, 7.0, 6.0]) == apart
    assert difference([1.0], [2.0, 3.0])[:3] == (-1.5, None, None)


def side(*corrections):
    return [{"corrections": c, "retries": 0.0, "cost": 1.0} for c in corrections]


@pytest.mark.feature("backtest.effect")
def test_a_holdout_makes_it_an_experiment_and_without_one_it_is_observational():
    judged = [("s1", "followed"), ("s1", "ignored"), ("s2", "followed"), ("s2", "avoided")]
    watched = effects(Sides(told=side(1, 2, 3), others=side(4, 5), judged=judged))
    tried = effects(Sides(told=side(1, 2, 3, 9), randomized=side(1, 3), withheld=side(5, 7), others=side(0, 0), judged=judged))

    assert (watched["kind"], watched["sessions_told"], watched["sessions_not_told"]) == ("observational", 3, 2)
    assert {k: watched["differences"]["corrections"][k] for k in ("told", "not_told", "value")} == {
        "told": 2.0,
        "not_told": 4.5,
        "value": -2.5,
    }
    assert (tried["kind"], tried["sessions_told"], tried["sessions_not_told"]) == ("experiment", 2, 2)
    assert tried["differences"]["corrections"]["value"] == -4.0
    assert tried["differences"]["corrections"]["low"] <= -4.0 <= tried["differences"]["corrections"]["high"]
    assert (tried["used"]["value"], tried["followed"]["value"], tried["memories_judged"]) == (0.75, 0.5, 4)
    assert effects(Sides(others=side(1)))["kind"] == "nothing told"
    assert effects(Sides(others=side(1)))["differences"] == {}


def known(*names, status="candidate"):
    return {name: Memory(name, "tool_lesson", name, status=status) for name in names}


@pytest.mark.feature("memory.promotion")
def test_what_keeps_helping_is_proposed_as_accepted_and_what_never_helps_for_retirement():
    five = {f"s{n}" for n in range(5)}
    told = {"m-right": five, "m-wrong": five, "m-rare": {"s1"}, "m-warned": five, "m-gone": five}
    uses = {"m-helps": Counter(followed=2, avoided=1, ignored=4), "m-harms": Counter(harmful=2, quoted=1), "m-ignored": Counter(ignored=5)}
    memories = known("m-right", "m-wrong", "m-rare", "m-warned", "m-helps", "m-harms", "m-ignored")

    found = proposals(memories, told, {"m-right": {"s1", "s2", "s3"}}, {"m-warned"}, uses)

    assert {p["memory_id"]: p["propose"] for p in found} == {
        "m-right": "accept",
        "m-helps": "accept",
        "m-wrong": "retire",
        "m-harms": "retire",
        "m-ignored": "retire",
    }
    assert found[0]["command"].startswith("ctx memory accept m-")
    accepted = proposals(known("m-right", "m-wrong", status="accepted"), told, {"m-right": {"s1", "s2", "s3"}}, set(), {})
    assert [(p["memory_id"], p["propose"]) for p in accepted] == [("m-wrong", "retire")]
    assert proposals(known("m-wrong", status="rejected"), told, {}, set(), {}) == []


@pytest.mark.feature("backtest.daily-gate")
def test_a_figure_is_worse_beyond_the_interval_on_its_bad_side_alone():
    earlier = {
        "error.hit_at_5": {"value": 0.8, "low": 0.7, "high": 0.9, "of": 50, "better": "higher"},
        "control.everyday": {"value": 0.1, "low": 0.05, "high": 0.2, "of": 50, "better": "lower"},
        "warned": {"value": 0.5, "low": None, "high": None, "of": 1, "better": "higher"},
    }

    def now(hit, told):
        return {
            "error.hit_at_5": {**earlier["error.hit_at_5"], "value": hit},
            "control.everyday": {**earlier["control.everyday"], "value": told},
            "warned": {**earlier["warned"], "value": 0.0},
        }

    assert worse(earlier, now(0.75, 0.15)) == []
    assert worse(earlier, now(0.95, 0.0)) == []
    assert [w["figure"] for w in worse(earlier, now(0.6, 0.3))] == ["control.everyday", "error.hit_at_5"]
    assert worse(earlier, now(0.6, 0.1)) == [{"figure": "error.hit_at_5", "was": 0.8, "low": 0.7, "high": 0.9, "is": 0.6}]


@pytest.mark.feature("backtest.effect")
def test_what_one_session_says_many_times_counts_as_one_session():
    talkative = [Prompted("s0", {0.4: (True,)}, first=(0.9, True))] * 90
    others = [Prompted(f"s{n}", {0.4: ()}) for n in range(1, 10)]

    told = next(r for r in thresholds(talkative + others) if r["threshold"] == 0.4)["prompts_told"]
    used = effects(Sides(judged=[("s0", "followed")] * 90 + [(f"s{n}", "ignored") for n in range(1, 10)]))["used"]

    for share in (told, used):
        assert (share["value"], share["of"]) == (0.9091, 99)
        # prompts that were independent would give 0.836 to 0.951
        assert (share["low"], share["high"] > 0.95) == (0.0, True)


@pytest.mark.feature("backtest.controls")
def test_sessions_that_agree_on_a_share_between_give_no_interval_of_no_width():
    share = of_groups([[0.0, 1.0], [1.0, 0.0]])

    assert share[:3] == pytest.approx((0.5, *wilson(1, 2)[1:3]))
    assert (share.low < 0.1, share.high > 0.9) == (True, True)


@pytest.mark.feature("backtest.precision")
def test_a_threshold_that_somebody_chose_stands_among_the_usual_ones():
    rows = thresholds([Prompted("s1", {0.4: (True,), 0.45: ()})])

    assert [(r["threshold"], r["told"]) for r in rows][:3] == [(0.34, 0), (0.4, 1), (0.45, 0)]


@pytest.mark.feature("backtest.moments")
@pytest.mark.parametrize(
    ("hit", "right"),
    [
        ({(CHANGED, "a.py")}, False),
        ({(CHANGED, "a.py"), (FAILED, "name error")}, True),
        ({(RAN, "pytest a.py")}, True),
        ({(CHANGED, "b.py")}, False),
    ],
)
def test_a_search_that_shows_a_file_merely_changed_before_does_not_answer_a_failure(hit, right):
    deeds = [
        SessionFact(RAN, ("pytest",), 1, ("e1",), passed=False, subject="pytest", check=True),
        SessionFact(FAILED, ("name error",), 1, ("e1",), passed=False, subject="pytest", text="NameError: name 'x' is not defined"),
        SessionFact(CHANGED, ("a.py",), 2, ("e2",)),
        SessionFact(RAN, ("pytest a.py",), 3, ("e3",), subject="pytest", check=True),
    ]
    told = Timeline("claude", "s", "/w/app", "", 1, 3, deeds=deeds)
    here = Around(place_of("/w/app"), [], [], lambda _: About(), lambda _: hit, set())
    (failed,) = [m for m in at_commands(told, here, lambda _: True, set()) if m.moment == AT_FAILURE]
    assert failed.plain is right


@pytest.mark.feature("backtest.moments")
def test_a_lesson_that_leaves_a_name_open_is_right_where_that_call_with_any_name_ended_the_failure():
    lesson = Memory("m", "failure_trigger", "leave out `--bin`", structured='{"resolution": "command", "did": ["cargo test NAME"]}')
    assert [fits(lesson, about(lesson), {(RAN, call)}) for call in ("cargo test cart", "cargo test --bin", "cargo test cart x")] == [
        True,
        False,
        False,
    ]
    zsh = Memory(
        "z",
        "failure_trigger",
        "the shell is zsh: quote it",
        structured='{"about": "glob", "signature": "no matches found", "fact": true, "warning": true}',
    )
    for call, right in (("deploy preview 'tag:*'", True), ("deploy preview latest", False)):
        deeds = [
            SessionFact(RAN, ("deploy preview tag:*",), 1, ("e1",), passed=False, subject="deploy preview"),
            SessionFact(FAILED, ("no matches found",), 1, ("e1",), passed=False, text="zsh:1: no matches found: tag:*"),
            SessionFact(RAN, (call,), 3, ("e3",), subject="deploy preview"),
        ]
        told = Timeline("codex", "s", "/home/ada/shop", "", 1, 3, deeds=deeds)
        here = Around(place_of("/home/ada/shop"), [zsh], [], about, lambda _: set(), set())
        (failed,) = [m for m in at_commands(told, here, lambda _: True, set()) if m.moment == AT_FAILURE]
        assert failed.told == (("fact", right),)
