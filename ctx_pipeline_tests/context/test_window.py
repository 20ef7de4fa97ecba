"""Fitting conversations into a budget."""

from __future__ import annotations

import cProfile

import pytest

from ctx_pipeline import (
    ContextBuilder,
    FallbackWordCountTokenizer,
    InvalidMessage,
    SummarizeOldestStrategy,
    TokenCountResult,
    Tokenizer,
    TruncateOldestStrategy,
    deterministic_sort_key,
    get_strategy,
)
from ctx_pipeline.context.window.costs import in_order
from ctx_pipeline.errors import BudgetTooSmall, UsageError

ONE = FallbackWordCountTokenizer(tokens_per_word=1.0)


def said(number, words, role="user", **fields):
    return {"id": str(number), "role": role, "content": " ".join(["w"] * words), "timestamp": f"2024-01-01T00:{number:02d}:00Z", **fields}


def ids(result):
    return [m["id"] for m in result.messages]


TALK = [said(1, 2), said(2, 3, "assistant"), said(3, 3), said(4, 4, "assistant")]


@pytest.mark.feature("context.builder.result")
def test_everything_fits():
    result = ContextBuilder(ONE).build(TALK, max_tokens=12)

    assert result.messages == TALK
    assert (result.total_tokens, result.approximate, result.strategy_used, result.metadata) == (
        12,
        True,
        "none",
        {"truncation_applied": False},
    )


@pytest.mark.feature("context.builder.truncate-oldest")
def test_the_oldest_go_first():
    result = ContextBuilder(ONE).build(TALK, max_tokens=7)

    assert ids(result) == ["3", "4"]
    assert (result.total_tokens, result.strategy_used) == (7, "truncate_oldest")
    assert result.metadata == {
        "truncation_applied": True,
        "tokens_before": 12,
        "dropped_ids": ["1", "2"],
        "summarized_ids": [],
        "iterations": 1,
        "strategy": "truncate_oldest",
    }


@pytest.mark.feature("context.builder.recent-only")
def test_recent_only_keeps_what_fits_and_contiguous_stops_at_a_gap():
    talk = [said(1, 1), said(2, 9), said(3, 2)]

    assert ids(ContextBuilder(ONE).build(talk, 4, strategy="recent_only")) == ["1", "3"]
    assert ids(ContextBuilder(ONE).build(talk, 4, strategy="recent_only", strategy_opts={"contiguous": True})) == ["3"]


@pytest.mark.feature("context.builder.summarize-oldest")
def test_summaries_replace_the_oldest_and_all_ids_are_reported():
    asked = []

    def summarizer(messages):
        asked.append([m["id"] for m in messages])
        return "short"

    talk = [said(n, 5) for n in range(1, 9)]
    result = ContextBuilder(ONE).build(talk, 21, strategy="summarize_oldest", strategy_opts={"summarizer": summarizer, "chunk_size": 2})

    assert asked == [["1", "2"], ["summary_1", "3"], ["summary_1", "4"]]
    assert ids(result) == ["summary_1", "5", "6", "7", "8"]
    assert result.total_tokens == 21
    assert result.messages[0] == {
        "id": "summary_1",
        "role": "system",
        "content": "short",
        "timestamp": "2024-01-01T00:01:00Z",
        "metadata": {"is_summary": True, "summarized_count": 4},
    }
    assert result.metadata["summarized_ids"] == ["1", "2", "3", "4"]
    assert result.metadata["dropped_ids"] == []


@pytest.mark.feature("context.builder.summarize-oldest")
def test_an_async_summarizer_works():
    async def summarizer(_messages):
        return "short"

    result = ContextBuilder(ONE).build(TALK, 8, strategy="summarize_oldest", strategy_opts={"summarizer": summarizer, "chunk_size": 2})

    assert ids(result) == ["summary_1", "3", "4"]


@pytest.mark.feature("context.builder.summarize-oldest")
@pytest.mark.parametrize(
    ("summarizer", "reason"),
    [
        (None, "no_summarizer"),
        (lambda _m: 1 / 0, "summarizer_failed"),
        (lambda _m: "w " * 50, "summary_too_large"),
        (lambda _m: 7, "summarizer_failed"),
    ],
)
def test_why_nothing_was_summarised_is_said(summarizer, reason):
    result = ContextBuilder(ONE).build(TALK, 7, strategy="summarize_oldest", strategy_opts={"summarizer": summarizer})

    assert result.metadata["fallback_reason"] == reason
    assert ids(result) == ["3", "4"]


@pytest.mark.feature("context.builder.summarize-oldest")
def test_thousands_of_messages_are_summarised_without_recursion():
    talk = [{"id": str(n), "content": "w w"} for n in range(6000)]
    strategy = SummarizeOldestStrategy(summarizer=lambda _m: "s", chunk_size=1)

    result = strategy.apply(talk, 11, ONE)

    assert result.tokens_after == 11
    assert len(result.summarized_ids) == 5995


@pytest.mark.feature("context.builder.summarize-oldest")
def test_the_work_of_summarising_grows_with_the_messages_and_not_with_their_square():
    def steps(count):
        talk = [{"id": str(n), "content": "w w"} for n in range(count)]
        strategy = SummarizeOldestStrategy(summarizer=lambda _m: "s")
        profile = cProfile.Profile()
        profile.runcall(strategy.apply, talk, 11, ONE)
        return sum(entry.callcount for entry in profile.getstats())

    assert steps(4000) < 4.4 * steps(1000)


@pytest.mark.feature("context.builder.order")
def test_order_is_by_instant_then_by_id(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        _check_order()
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()


def _check_order():
    messages = [
        {"id": "10", "timestamp": "2024-01-01T00:30:00Z"},
        {"id": "9", "timestamp": "2024-01-01T00:30:00Z"},
        {"id": "a", "timestamp": "2024-01-01T01:00:00+02:00"},
        {"id": "n", "timestamp": "2024-01-01T00:10:00"},
    ]

    assert [m["id"] for m in in_order(messages)] == ["a", "n", "9", "10"]


@pytest.mark.feature("context.builder.order")
def test_messages_without_times_keep_their_places():
    assert [m["id"] for m in in_order([{"id": "2"}, {"id": "10"}, {"id": "1"}])] == ["2", "10", "1"]
    mixed = [
        {"id": "b", "timestamp": "2024-01-02"},
        {"id": "after b"},
        {"id": "a", "timestamp": "2024-01-01"},
        {"id": "x", "timestamp": "soon"},
    ]
    assert [m["id"] for m in in_order(mixed)] == ["a", "x", "b", "after b"]


@pytest.mark.feature("context.builder.order")
def test_ids_of_different_kinds_compare():
    at = "2024-01-01T00:00:00Z"
    messages = [{"id": 10, "timestamp": at}, {"id": "b", "timestamp": at}, {"id": 9, "timestamp": at}, {"timestamp": at}]

    assert [m.get("id") for m in in_order(messages)] == [None, 9, 10, "b"]


@pytest.mark.feature("context.builder.options")
def test_a_pinned_system_message_stays():
    talk = [said(1, 2, "system"), *TALK[1:]]

    assert ids(ContextBuilder(ONE).build(talk, 9)) == ["3", "4"]
    assert ids(ContextBuilder(ONE).build(talk, 9, strategy_opts={"pin_system": True})) == ["1", "3", "4"]
    with pytest.raises(BudgetTooSmall) as caught:
        ContextBuilder(ONE).build(talk, 1, strategy_opts={"pin_system": True})
    assert caught.value.fields == {"asked": 1, "minimum": 2}


TOOLS = [
    said(1, 2),
    said(2, 2, "assistant", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}]),
    said(3, 2, "tool", tool_call_id="c"),
    said(4, 2),
]


@pytest.mark.feature("context.builder.tool-pairs")
def test_a_call_and_its_result_go_together():
    assert ids(ContextBuilder(ONE).build(TOOLS, 5)) == ["4"]
    assert ids(ContextBuilder(ONE).build(TOOLS, 5, strategy_opts={"keep_tool_pairs": False})) == ["3", "4"]


@pytest.mark.feature("context.builder.tool-pairs")
def test_parts_of_the_other_provider_are_pairs_too():
    talk = [
        {"id": "1", "role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"id": "2", "role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "w"}]},
        {"id": "3", "role": "user", "content": "w w"},
    ]

    assert ids(ContextBuilder(ONE).build(talk, 3)) == ["3"]


@pytest.mark.feature("context.builder.options")
def test_priority_decides_and_the_edges_hold_the_highest():
    talk = [said(n, 1, weight=n % 3) for n in range(1, 7)]

    kept = ContextBuilder(ONE).build(talk, 4, strategy_opts={"priority": "weight"})
    edges = ContextBuilder(ONE).build(talk, 6, strategy_opts={"priority": "weight", "placement": "edges"})

    assert ids(kept) == ["1", "2", "4", "5"]
    assert ids(edges) == ["2", "1", "3", "6", "4", "5"]


@pytest.mark.feature("context.builder.filters")
def test_filters_run_before_and_after():
    def users(message):
        return message["role"] == "user"

    before = ContextBuilder(ONE).build(TALK, 4, pre_filter=users)
    after = ContextBuilder(ONE).build(TALK, 7, post_filter=users)

    assert (ids(before), before.total_tokens) == (["3"], 3)
    assert (ids(after), after.total_tokens) == (["3"], 3)


@pytest.mark.feature("context.builder.filters")
def test_metrics_are_told_once():
    told = []
    ContextBuilder(ONE).build(TALK, 7, metrics_callback=told.append)

    assert [(m["total_tokens"], m["message_count"], m["strategy_used"], m["approximate"]) for m in told] == [
        (7, 2, "truncate_oldest", True)
    ]


@pytest.mark.feature("context.builder.bad-input")
@pytest.mark.parametrize("budget", [0, -5])
def test_no_budget_keeps_nothing(budget):
    result = ContextBuilder(ONE).build(TALK, budget)

    assert (result.messages, result.total_tokens) == ([], 0)
    assert result.metadata["dropped_ids"] == ["1", "2", "3", "4"]


@pytest.mark.feature("context.builder.bad-input")
def test_one_message_over_the_budget_is_named():
    result = ContextBuilder(ONE).build([said(1, 100)], 5)

    assert result.messages == []
    assert result.metadata["over_budget_ids"] == ["1"]


@pytest.mark.feature("context.builder.bad-input")
def test_unknown_strategies_and_what_is_no_message_are_errors():
    with pytest.raises(ValueError, match="Unknown strategy: best"):
        ContextBuilder(ONE).build(TALK, 99, strategy="best")
    with pytest.raises(ValueError, match="Unknown strategy"):
        get_strategy("unknown")
    with pytest.raises(TypeError, match="message 0 is str"):
        ContextBuilder(ONE).build(["hello"], 99)


@pytest.mark.feature("context.builder.multimodal")
def test_parts_dicts_and_nothing_are_counted():
    talk = [
        {"id": "1", "content": [{"type": "text", "text": "w w"}, {"type": "image_url", "image_url": {"url": "u", "detail": "low"}}]},
        {"id": "2", "content": {"data": "w w w"}},
        {"id": "3", "content": None},
        {"id": "4", "content": 7},
    ]

    assert ContextBuilder(ONE).build(talk, 10_000).total_tokens == 2 + 85 + 3 + 0 + 1


@pytest.mark.feature("context.builder.overhead")
def test_an_exact_count_knows_the_overhead_and_says_so():
    builder = ContextBuilder.from_model("gpt-4")
    result = builder.build([{"id": "1", "role": "user", "content": "hello world"}], 100)
    pictured = builder.build([{"id": "1", "role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}], 2000)
    again = builder.build([{"id": "1", "role": "user", "content": "hello world"}], 100)

    assert (result.total_tokens, result.approximate) == (2 + 4 + 3, False)
    assert (pictured.total_tokens, pictured.approximate) == (765 + 4 + 3, True)
    assert again.approximate is False


@pytest.mark.feature("context.builder.counted-once")
def test_each_text_is_encoded_once():
    class Counting:
        encoded = 0

        def encode(self, text):
            Counting.encoded += 1
            return text.split()

    from ctx_pipeline import ModelTokenizer

    builder = ContextBuilder(ModelTokenizer(Counting(), "counting"))
    talk = [{"id": str(n), "content": f"w{n % 5}"} for n in range(50)]
    for _ in range(3):
        builder.build(talk, 20)

    assert Counting.encoded == 5


@pytest.mark.feature("context.builder.deterministic")
def test_the_input_stays_and_the_output_repeats():
    import copy

    before = copy.deepcopy(TALK)
    results = [ContextBuilder(ONE).build(TALK, 7) for _ in range(3)]

    assert before == TALK
    assert results[0] == results[1] == results[2]


@pytest.mark.feature("context.builder.truncate-oldest")
def test_a_strategy_works_by_itself():
    result = TruncateOldestStrategy().apply(TALK, 4, ONE)

    assert ([m["id"] for m in result.messages], result.tokens_before, result.tokens_after, result.dropped_ids) == (
        ["4"],
        12,
        4,
        ["1", "2", "3"],
    )


@pytest.mark.feature("context.from-model")
def test_a_builder_of_a_model_knows_its_window_and_fills_it_by_default():
    builder = ContextBuilder.from_model("openai/gpt-4")
    talk = [{"id": "1", "content": "a b c " * 4000}, {"id": "2", "content": "d"}]

    assert builder.context_window == 8192
    assert builder.build(talk).metadata["dropped_ids"] == ["1"]
    assert builder.build(talk, 20_000).metadata["truncation_applied"] is False
    assert ContextBuilder.from_model("claude-sonnet-4-5-20250929").context_window == 200_000
    for without in (ContextBuilder(), ContextBuilder.from_model("nobody's model")):
        assert without.context_window is None
        with pytest.raises(UsageError, match="no budget"):
            without.build(talk)


@pytest.mark.feature("context.builder.result")
def test_a_tokenizer_of_ones_own_that_estimates_is_called_approximate():
    class Guess(Tokenizer):
        name = "guess"

        def count_tokens(self, text):
            return TokenCountResult(len(text) // 4, approximate=True)

    class Exact(Tokenizer):
        name = "exact"

        def count_tokens(self, text):
            return TokenCountResult(len(text))

    assert ContextBuilder(Guess()).build(TALK, 1000).approximate is True
    assert ContextBuilder(Exact()).build(TALK, 1000).approximate is False


@pytest.mark.feature("context.builder.multimodal")
def test_a_picture_in_the_result_of_a_tool_is_a_picture_and_no_text():
    builder = ContextBuilder.from_model("gpt-4o")
    picture = {"type": "image", "source": {"type": "base64", "data": "QUJD" * 1000}}

    def cost(inner):
        return builder.build([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": inner}]}], 10**6)

    assert cost("three words here").total_tokens == cost([{"type": "text", "text": "three words here"}]).total_tokens == 3 + 7
    assert (cost([picture]).total_tokens, cost([picture]).approximate) == (765 + 7, True)
    # the next window without a picture is exact again
    assert builder.build(TALK, 1000).approximate is False


@pytest.mark.feature("context.builder.result")
def test_words_counted_together_are_those_counted_alone():
    strange = ["a b", " a b", "a b ", "a  b", "", "a\tb", "a\x1fb", "a\x85b", "a\u3000b", "caf\xe9 \u6f22\u5b57", "x" * 90, "y\n"] * 5
    plain = ["one two three"] * 40

    for texts in (strange, plain, plain + strange, [*plain, "z" * 400], strange[:1]):
        assert ONE.count_many(texts) == [ONE.count_tokens(text).count for text in texts]


@pytest.mark.feature("context.builder.summarize-oldest")
def test_a_summary_stands_behind_all_that_is_pinned_at_the_front():
    talk = [said(number, 3, "system" if number < 2 else "user") for number in range(8)]
    options = {"summarizer": lambda _messages: "so far", "pin_system": True}

    assert ids(ContextBuilder(ONE).build(talk, 14, "summarize_oldest", options)) == ["0", "1", "summary_2", "7"]


@pytest.mark.feature("context.builder.bad-input")
def test_content_of_any_form_is_counted_or_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]

    assert ContextBuilder(ONE).build([{"id": "1", "content": [["a b"], ["c d"]], "tool_calls": 5}], 100).total_tokens == 4
    with pytest.raises(TypeError, match="nested too deeply"):
        ContextBuilder(ONE).build([{"id": "1", "content": deep}], 100)


@pytest.mark.feature("context.builder.result")
def test_a_window_that_is_built_meanwhile_does_not_change_what_is_approximate():
    class Letters(Tokenizer):
        name = "letters"
        approximate = False

        def count_tokens(self, text):
            if text == "look":
                assert builder.build([{"content": "other"}], 1000).approximate is False
            return TokenCountResult(len(text))

    builder = ContextBuilder(Letters())
    picture = {"content": [{"type": "image_url", "image_url": {"url": "data:"}}, {"type": "text", "text": "look"}]}

    assert builder.build([picture], 1000).approximate is True


@pytest.mark.feature("context.builder.bad-input")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": "x"}, "max_tokens is 'x'"),
        ({"max_tokens": float("nan")}, "max_tokens is nan"),
        ({"max_tokens": True}, "max_tokens is True"),
        ({"strategy_opts": {"pins": 1}}, "truncate_oldest has no option 'pins'"),
        ({"strategy_opts": {"chunk_size": 2}, "strategy": "recent_only"}, "recent_only has no option 'chunk_size'"),
        ({"strategy_opts": [1]}, "strategy_opts is list"),
        ({"strategy_opts": {"chunk_size": "a"}, "strategy": "summarize_oldest"}, "chunk_size is 'a'"),
    ],
)
def test_a_budget_and_options_that_cannot_be_used_are_one_error_each(options, message):
    with pytest.raises(UsageError, match=message) as caught:
        ContextBuilder(ONE).build(TALK, **{"max_tokens": 5, **options})
    assert caught.value.hint


@pytest.mark.feature("context.builder.bad-input")
@pytest.mark.parametrize("messages", [None, "hello", {"role": "user"}])
def test_messages_are_a_list(messages):
    with pytest.raises(InvalidMessage, match="not a list"):
        ContextBuilder(ONE).build(messages, 5)


@pytest.mark.feature("context.builder.order")
def test_messages_that_have_a_time_sort_by_the_documented_key():
    talk = [
        {"id": "10", "timestamp": "2024-01-01T00:30:00Z"},
        {"id": "9", "timestamp": "2024-01-01T00:30:00Z"},
        {"id": "1", "timestamp": "2024-01-01T01:00:00+02:00"},
        {"id": 3, "timestamp": 1_600_000_000},
    ]

    assert [m["id"] for m in sorted(talk, key=deterministic_sort_key)] == [3, "1", "9", "10"]
    assert sorted(talk, key=deterministic_sort_key) == in_order(talk)
