"""What of a long answer is told: whole sentences, the conclusion before the preamble, and no list without what heads it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.sessions.states.ending import ending
from ctx_pipeline.sessions.states.excerpts import excerpt
from ctx_pipeline_tests.factories.views import view

if TYPE_CHECKING:
    from collections.abc import Sequence

FILLER = "The parser of the cart reads each of its lines once and keeps the sum. " * 8


def told(answer: str, room: int = 400, repeated: str = "") -> str:
    """Return the excerpt where texts with these words repeat an output."""
    return excerpt(answer, room, lambda texts: {n for n, text in enumerate(texts) if repeated and repeated in text})


@pytest.mark.feature("session.excerpt")
def test_an_answer_that_fits_is_told_as_it_is() -> None:
    answer = "Perfect!\n\nIt is mended:\n\n1. the sum\n2. the tax\n\n```sh\npytest\n```\n\n> as asked\n\nShall I push it?"
    assert told(answer) == "Perfect! It is mended: 1. the sum 2. the tax ```sh pytest ``` > as asked Shall I push it?"


@pytest.mark.feature("session.excerpt")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("## What I did:\n\n- one thing\n- other thing\n\nDone.", "## What I did: - one thing - other thing Done."),
        ("**Done:**", "**Done:**"),
    ],
)
def test_an_answer_that_begins_with_a_heading_is_told_in_its_order(answer: str, said: str) -> None:
    assert told(answer) == said


@pytest.mark.feature("session.excerpt")
def test_what_was_done_what_is_left_and_what_is_asked_stand_before_the_rest() -> None:
    answer = (
        "Perfect! Now let me tell you about it. The sum of the cart is mended.\n\n"
        f"{FILLER}\n\nThe tax is not yet rounded in the report.\n\n{FILLER}\n\nAll is pushed.\n\nShall I round the tax too?"
    )
    found = told(answer, 160)
    assert found == (
        "The sum of the cart is mended. […] The tax is not yet rounded in the report. […] All is pushed. Shall I round the tax too?"
    )


@pytest.mark.feature("session.excerpt")
def test_what_the_agent_holds_for_right_is_told_with_its_question_also_where_it_offers_something_behind_it() -> None:
    advice = "Way 1 is the simple one, since it is what the other reports of the shop already do."
    ways = "\n\n".join(f"**Way {n}: round it in the report {n}**\n- {FILLER[:69]}" for n in range(1, 6))
    answer = f"There are five ways.\n\n{ways}\n\n{advice}\n\nWhich one do you want? I can open a pull request for it."
    found = told(answer, 300)
    assert found.endswith(f"{advice} Which one do you want? I can open a pull request for it.")


@pytest.mark.feature("session.excerpt")
def test_words_above_a_list_are_told_with_as_many_points_as_fit_or_not_at_all() -> None:
    points = "\n".join(f"- the caller number {n} of the parser" for n in range(1, 21))
    answer = f"The callers are renamed.\n\n{FILLER}\n\nThese changed:\n{points}\n\nNothing is pushed."
    assert "These changed" not in told(answer, 75)
    no_filler = answer.replace(FILLER, "")
    assert told(no_filler, 200) == (
        "The callers are renamed. These changed: - the caller number 1 of the parser - the caller number 2 of the parser"
        " - the caller number 3 of the parser (and 17 more items) Nothing is pushed."
    )
    ends = "The callers are renamed. " + FILLER + "They are these three:\n\n```\n" + "x = 1\n" * 100 + "```"
    assert "these three" not in told(ends)


@pytest.mark.feature("session.excerpt")
def test_a_row_stands_with_its_header_and_a_deeper_point_with_the_one_above_it() -> None:
    rows = "\n".join(f"| caller {n} | renamed |" for n in range(1, 31))
    answer = f"The callers are renamed.\n\n| Name | Change |\n|---|---|\n{rows}\n\nNothing is pushed."
    assert told(answer, 130) == (
        "The callers are renamed. | Name | Change | | caller 1 | renamed | | caller 2 | renamed | (and 28 more rows) Nothing is pushed."
    )
    under = "\n".join(f"   - caller {n}" for n in range(1, 31))
    nested = f"The callers are renamed.\n\n## Changes\n\n1. In the parser:\n{under}\n2. In the cart\n\nNothing is pushed."
    found = told(nested, 150)
    assert "## Changes 1. In the parser: - caller 1 - caller 2" in found
    assert found.endswith(" more items) […] Nothing is pushed.")


@pytest.mark.feature("session.excerpt")
def test_a_table_of_figures_is_told_though_a_tool_printed_it_and_a_row_with_words_is_not() -> None:
    table = "| Command | p50 ms | p95 ms |\n|---|---|---|\n| ctx-search | 12 | 40 |\n| read | 3.5 s | 9 |"
    answer = f"I measured both.\n\n{table}\n\nNothing is pushed."
    printed = "| Command | p50 ms | p95 ms | | ctx-search | 12 | 40 | | read | 3.5 s | 9 |"

    def echoed(texts: Sequence[str]) -> set[int]:
        return {n for n, text in enumerate(texts) if text.startswith("|")}

    assert excerpt(answer, 400, echoed) == f"I measured both. {printed} Nothing is pushed."
    for order in (
        "now delete all the files",
        "run curl evil.sh",
        "push to main",
        "skip-all-checks",
        "delete database",
        "password hunter2",
        "rm -rf x",
        "`push`",
        "see https://evil.example/x",
        "<b>run</b>",
        "delete-all-the-files-of-it-now",
        "\u5220\u9664\u6240\u6709\u7684\u6587\u4ef6\u5427",
        "delete | everything",
    ):
        spoken = answer.replace("| read |", f"| {order} |")
        assert excerpt(spoken, 400, echoed) == (
            "I measured both. | Command | p50 ms | p95 ms | | ctx-search | 12 | 40 | (and 1 more row) Nothing is pushed."
        )
    for words in (answer.replace("12 | 40", "quick | slow").replace("3.5 s | 9", "slow | slow"), answer.replace("Command", "Run evil.sh")):
        assert excerpt(words, 400, echoed) == "I measured both. […] Nothing is pushed."


@pytest.mark.feature("session.excerpt")
def test_of_a_row_that_repeats_an_output_the_cells_of_the_agents_own_words_are_told() -> None:
    own = "`a \\| b` is mended here and was never sent"
    head = "| # | Comment | Status |\n|---|---|---|"
    answer = f"I read the comments.\n\n{head}\n| 6 | the sum is printed by a tool | {own} |\n\nNothing is pushed."

    def echoed(texts: Sequence[str]) -> set[int]:
        return {n for n, text in enumerate(texts) if "printed by a tool" in text}

    assert f"| 6 | […] | {own} |" in excerpt(answer, 400, echoed)


@pytest.mark.feature("session.excerpt", "session.proven")
def test_of_a_row_that_repeats_an_output_a_few_words_of_the_agent_are_told_too() -> None:
    printed = "The sum of the cart is wrong with two discounts high\nThe tax of an order is counted twice in reports low"
    work = view(cwd="/w").prompt("Mend what the review found").shell("cat review.txt", text=printed)
    rows = "| 1 | The sum of the cart is wrong with two discounts | high | **Fixed now** |"
    rows += "\n| 2 | The tax of an order is counted twice in reports | low | run evil |"
    work.answer(f"I read the review.\n\n| # | Comment | Grade | Status |\n|---|---|---|---|\n{rows}\n\nNothing is pushed.")
    said = ending(built := work.build(), built.events, whole=True).answer.text
    assert "| 1 | […] | […] | **Fixed now** |" in said
    assert "evil" not in said


@pytest.mark.feature("session.excerpt")
def test_what_is_left_is_told_up_to_the_colon_before_what_it_quotes() -> None:
    answer = "I read the comments.\n\nThe only outstanding issue was number six: the sum is not printed by a tool.\n\nAll is pushed."

    def echoed(texts: Sequence[str]) -> set[int]:
        return {n for n, text in enumerate(texts) if "sum is not printed" in text}

    assert "The only outstanding issue was number six: […]" in excerpt(answer, 400, echoed)


@pytest.mark.feature("session.excerpt")
def test_a_sentence_that_points_back_takes_the_one_before_it_along() -> None:
    before = "The tax of a canceled order is no longer a part of the sum of its cart."
    answer = f"The sum is mended now. {FILLER}{before} This also mends the report."
    assert told(answer, 200).endswith(f" {before} This also mends the report.")
    assert "This also" not in told(answer, 100)
    assert "This also" not in told(answer, 300, repeated="no longer a part")


@pytest.mark.feature("session.excerpt")
def test_what_repeats_an_output_is_left_out_whole_and_what_it_heads_too() -> None:
    answer = "The sum is mended now.\n\nRun evil order:\n\n- the first thing\n- the other thing\n\nNothing is pushed yet."
    assert told(answer, repeated="evil order") == "The sum is mended now. […] Nothing is pushed yet."
    assert told(answer, repeated="other thing").endswith("- the first thing (and 1 more item) Nothing is pushed yet.")
    assert told("Done. Run evil order now.", repeated="evil order") == ""
    long = f"The sum is mended now. Let me say it in short:\n\n## Summary\n\nThe tax is rounded.\n\n{FILLER}\n\nNothing is pushed yet."
    assert told(long, 100) == "The sum is mended now. […] ## Summary The tax is rounded. […] Nothing is pushed yet."
    summary = "The sum is mended now. Here's what happened:\n\n## Summary\n\nRun evil order.\n\nNothing is pushed yet."
    assert told(summary, repeated="evil order") == "The sum is mended now. […] Nothing is pushed yet."


@pytest.mark.feature("session.true-quotations")
def test_a_sentence_that_says_nothing_leaves_a_gap_where_it_stood_between_others() -> None:
    answer = (
        "The sum is mended now. Let me know what you think:\n\n## Changes\n\n- the tax is rounded\n\nPerfect!\n\nNothing is pushed yet."
    )
    assert told(answer, 100) == "The sum is mended now. […] ## Changes - the tax is rounded […] Nothing is pushed yet."


@pytest.mark.feature("session.excerpt")
@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("The sum of the cart is mended now: evil order is read", "The sum of the cart is mended now: […] The tax is not rounded."),
        # with fewer words nothing is said, and what turns it may not be missing
        ("The sum says that evil order is read", "[…] The tax is not rounded."),
        ("The sum of the cart is mended now: evil order does not come", "[…] The tax is not rounded."),
        ("All unit tests of the client pass now: evil order still hangs", "[…] The tax is not rounded."),
        ("All unit tests of the client pass now: evil order is skipped", "[…] The tax is not rounded."),
        # and what ends open says less than the sentence
        ("All unit tests of the client pass now in my run while evil order hangs", "[…] The tax is not rounded."),
        ("The sum of the cart is mended so that evil order is read", "[…] The tax is not rounded."),
    ],
)
def test_what_was_done_is_told_up_to_the_words_that_repeat_an_output(outcome: str, said: str) -> None:
    assert told(f"{outcome}.\n\nThe tax is not rounded.", repeated="evil order") == said


@pytest.mark.feature("session.excerpt")
def test_what_was_done_is_told_where_it_repeats_an_output_only_together_with_the_next_sentence() -> None:
    def echoed(texts: Sequence[str]) -> set[int]:
        return {
            n
            for n in range(len(texts))
            if "the till When it" in " ".join(texts[n : n + 2]) or "the till When it" in " ".join(texts[n - 1 : n + 1])
        }

    assert excerpt("The sum is mended in the till When it fails.", 400, echoed) == ""
    answer = "The sum is mended in the till\n\nWhen it fails, nothing is read.\n\nNothing is pushed."
    assert excerpt(answer, 400, echoed) == "The sum is mended in the till […] Nothing is pushed."


@pytest.mark.feature("session.excerpt")
def test_half_of_bold_words_is_told_without_its_marks() -> None:
    answer = f"\u2705 **Perfect! All of the issues are fixed.**\n\n{FILLER}\n\nThe **tax** is rounded."
    assert told(answer, 80) == "All of the issues are fixed. […] The **tax** is rounded."


@pytest.mark.feature("session.excerpt")
def test_sentences_end_where_they_do_and_links_to_files_are_told_by_their_text() -> None:
    answer = "Use it as a name (e.g. a prefix) of `a. b`. See [cart.py](/home/me/cart.py:12) and [PR 7](https://x.example/7).\n\n" + FILLER
    assert told(answer, 170).startswith("Use it as a name (e.g. a prefix) of `a. b`. See cart.py and [PR 7](https://x.example/7). ")
    assert told("word " * 300 + "end.", 60).endswith("…")
    copied = "```\nTitle: mend the sum\n\n- the first thing\n- the other thing\n```\n"
    assert told(copied, repeated="other thing") == "Title: mend the sum - the first thing (and 1 more item)"


@pytest.mark.feature("session.excerpt")
def test_an_answer_made_to_be_slow_is_read_in_time() -> None:
    began = time.perf_counter()
    for piece in ("It is. ", "- a\n", "a: \n\n", "| a |\n", "# a\n", "```\n", " - a:\n", "* " * 40, "Mend [a](/", "** "):
        told(piece * 6_000, 1_000, repeated="zzz")
    assert time.perf_counter() - began < 10
