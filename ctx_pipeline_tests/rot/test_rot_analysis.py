"""The figures of an analysis against values worked out by hand."""

from __future__ import annotations

import random

import pytest

from ctx_pipeline import CtxRotStore, analyze_session
from ctx_pipeline.rot import context_growth, repetition

NOON = 1_767_268_800.0


def session(tmp_path, calls, *, state="completed", tools=()):
    """Store calls of (prompt tokens, completion tokens, completion) and return the store."""
    store = CtxRotStore(tmp_path / "a.db")
    store.insert_session("s", NOON)
    for n, (prompt, completion, text, *more) in enumerate(calls, 1):
        store.insert_lm_call(
            id=f"c{n}",
            session_id="s",
            seq=n,
            model="m",
            started_at=NOON + n,
            ended_at=NOON + n,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cache_read_tokens=more[0] if more else 0,
            messages_json=None if text is None else "[]",
            completion=text,
        )
    for n, (after, name, size) in enumerate(tools):
        store.insert_tool_call(
            id=f"t{n}", session_id="s", after_seq=after, tool_name=name, started_at=NOON, ended_at=NOON, output_tokens_est=size
        )
    if state:
        store.update_session_end("s", NOON + 99, state)
    return store


@pytest.mark.feature("rot.repetition")
def test_the_documented_scores(tmp_path):
    texts = ["[[ ## answer ## ]]\na b c d", "A  b c d e", "x y", "a b c d"]
    result = analyze_session(session(tmp_path, [(10, 5, t) for t in texts]), "s")
    # 3-grams: {abc, bcd}, {abc, bcd, cde}, {}, {abc, bcd}; "a b c d" and "A b c d e" share " b c d", 6 of 7 and 9 characters
    assert result["repetition"] == [
        {"seq": 1, "ngram_jaccard": 0.0, "sequence_similarity": 0.0, "cumulative_max": 0.0},
        {"seq": 2, "ngram_jaccard": 0.667, "sequence_similarity": 0.75, "cumulative_max": 0.667},
        {"seq": 3, "ngram_jaccard": 0.0, "sequence_similarity": round(2 / 12, 3), "cumulative_max": 0.0},
        {"seq": 4, "ngram_jaccard": 0.0, "sequence_similarity": round(2 / 10, 3), "cumulative_max": 1.0},
    ]
    assert result["summary"] == {
        "repetition_detected": True,
        "onset_iteration": 2,
        "max_repetition": 0.667,
        "initial_efficiency": 0.5,
        "final_efficiency": 0.5,
        "terminal_state": "completed",
    }
    assert result["has_content"] is True
    assert result["session"]["id"] == "s"


@pytest.mark.feature("rot.repetition")
def test_the_cumulative_maximum_equals_comparing_every_pair(tmp_path):
    rng = random.Random(3)
    texts = [" ".join(rng.choice("abcde") for _ in range(rng.randrange(12))) for _ in range(60)]
    rows, _ = repetition.compared([{"seq": n, "completion": t} for n, t in enumerate(texts)])
    sets = [repetition.grams(t) for t in texts]
    for i, row in enumerate(rows):
        expected = max((len(sets[i] & s) / len(sets[i] | s) if sets[i] | s else 0.0 for s in sets[:i]), default=0.0)
        assert row["cumulative_max"] == round(expected, 3)


@pytest.mark.feature("rot.onset")
def test_exactly_0_4_is_no_repetition(tmp_path):
    # 4 and 3 grams, 2 shared: 2 / 5 = 0.4
    result = analyze_session(session(tmp_path, [(1, 1, "a b c d e f"), (1, 1, "x c d e f")]), "s")
    assert result["repetition"][1]["ngram_jaccard"] == 0.4
    assert result["summary"]["repetition_detected"] is False


@pytest.mark.feature("rot.loops")
def test_a_loop_over_two_completions_is_found_where_neighbours_differ(tmp_path):
    a, b = "one two three four five", "six seven eight nine ten"
    result = analyze_session(session(tmp_path, [(100, 50, t) for t in (a, b) * 4]), "s")
    assert result["summary"]["repetition_detected"] is False
    assert result["loops"] == [{"distance": 2, "calls": 6, "onset": 3, "similarity": 1.0}]
    assert result["verdict"]["severity"] == "mild"
    assert result["verdict"]["onset"] == 3
    assert [r["sign"] for r in result["verdict"]["reasons"]] == ["loop"]


@pytest.mark.feature("rot.efficiency")
def test_efficiency_and_where_it_stays_below_half(tmp_path):
    calls = [(1000, 100, None), (1000, 40, None), (1000, 60, None), (2000, 90, None), (4000, 60, None)]
    result = analyze_session(session(tmp_path, calls), "s")
    assert [r["efficiency_ratio"] for r in result["efficiency"]] == [0.1, 0.04, 0.06, 0.045, 0.015]
    assert result["efficiency_onset"] == 4
    assert result["repetition"] is None
    assert result["has_content"] is False
    assert context_growth.efficiency([{"seq": 1, "prompt_tokens": 0, "completion_tokens": 5}])[0]["efficiency_ratio"] == 0.0


@pytest.mark.feature("rot.growth")
@pytest.mark.parametrize(
    ("prompts", "name"),
    [
        ([100, 200, 300, 400, 500], "linear"),
        ([100, 110, 120, 300, 900], "superlinear"),
        ([100, 400, 700, 710, 715], "plateau"),
        ([100, 110, 105, 115, 110], "flat"),
        ([100, 900], "short"),
        ([0, 0], "none"),
    ],
)
def test_the_class_of_growth(prompts, name):
    found = context_growth.shape([{"prompt_tokens": p} for p in prompts])
    assert found["class"] == name


@pytest.mark.feature("rot.growth")
def test_layers_tell_tools_from_reasoning_and_count_compression():
    calls = [{"seq": n, "prompt_tokens": p, "completion_tokens": 10} for n, p in ((1, 100), (2, 300), (3, 120))]
    rows = context_growth.layers(calls, {1: [{"output_tokens_est": 150}]})
    assert rows == [
        {"seq": 1, "input": 100, "reasoning": 0, "tools": 0, "output": 10, "compression": 0, "prompt": 100},
        {"seq": 2, "input": 100, "reasoning": 50, "tools": 150, "output": 10, "compression": 0, "prompt": 300},
        {"seq": 3, "input": 100, "reasoning": 0, "tools": 20, "output": 10, "compression": 180, "prompt": 120},
    ]


@pytest.mark.feature("rot.cache-behaviour")
@pytest.mark.feature("rot.tool-bloat")
def test_lost_caches_and_tools_that_fill_the_context(tmp_path):
    calls = [(1000, 10, None, 0), (2000, 10, None, 1000), (3000, 10, None, 0), (4000, 10, None, 2000)]
    result = analyze_session(session(tmp_path, calls, tools=[(1, "read", 900), (2, "read", 900), (3, "look", 600)]), "s")
    assert result["cache"] == {"hit_share": 0.3, "lost_at": [3]}
    assert result["tools"] == {"tokens": 2400, "share_of_growth": 0.8, "largest": "read"}
    assert {r["sign"] for r in result["verdict"]["reasons"]} == {"cache", "tools", "efficiency"}


@pytest.mark.feature("rot.verdict")
def test_a_healthy_session_has_none_and_a_rotten_one_says_why(tmp_path):
    (tmp_path / "well").mkdir()
    fine = [(1000, 100, f"alpha{n} beta{n} gamma{n} delta{n}") for n in range(8)]
    assert analyze_session(session(tmp_path / "well", fine), "s")["verdict"] == {
        "severity": "none",
        "score": 0,
        "onset": None,
        "reasons": [],
        "limits": [],
    }
    rotten = [(1000, 1000, f"a start of something{n} new{n} every{n} time{n}") for n in range(3)]
    rotten += [(1000 * 2**n, 100, "the same words over and over") for n in range(1, 10)]
    verdict = analyze_session(session(tmp_path, rotten, state="errored"), "s")["verdict"]
    assert verdict["severity"] == "severe"
    assert verdict["onset"] == 4
    assert [r["sign"] for r in verdict["reasons"]] == ["repetition", "efficiency", "collapse", "growth", "errored"]


@pytest.mark.feature("rot.verdict")
def test_a_few_calls_are_mild_at_most_and_one_repeat_among_many_weighs_little(tmp_path):
    (tmp_path / "short").mkdir()
    rotten = [(1000, 1000, "a start of something new"), *[(1000 * 2**n, 100, "the same words over and over") for n in range(1, 8)]]
    verdict = analyze_session(session(tmp_path / "short", rotten, state="errored"), "s")["verdict"]
    assert (verdict["severity"], verdict["score"]) == ("mild", 2)
    assert verdict["limits"] == ["mild at most: 8 model calls are too few to tell rot from the beginning of a session"]

    long = [(1000, 100, f"alpha{n} beta{n} gamma{n} delta{n}") for n in range(30)]
    long[20] = (1000, 100, long[19][2])
    (reason,) = analyze_session(session(tmp_path, long), "s")["verdict"]["reasons"]
    assert (reason["sign"], reason["points"]) == ("repetition", 1)
    assert reason["text"].startswith("1 completion repeats the one before, from call 21 on")


@pytest.mark.feature("rot.unknown-session")
def test_an_unknown_session_gives_empty_figures(tmp_path):
    result = analyze_session(session(tmp_path, []), "nobody")
    assert (result["session"], result["efficiency"], result["has_content"]) == (None, [], False)


@pytest.mark.feature("rot.large-content")
def test_a_completion_of_a_hundred_megabytes_is_analyzed_by_its_beginning(tmp_path):
    huge = "one two three four five six " * 4_000_000 + "seven eight nine ten"
    result = analyze_session(session(tmp_path, [(10, 5, huge), (10, 5, "one two three four five six")]), "s")
    # six different 3-grams at the beginning of the long text, four of them in the short one
    assert result["repetition"][1]["ngram_jaccard"] == round(4 / 6, 3)
