"""What is kept of a title, and how it is shown."""

from __future__ import annotations

import pytest

from ctx_pipeline.model.titles import KEPT, title_in_lines, title_line


@pytest.mark.feature("redaction.everywhere")
def test_blanks_go_before_a_title_is_cut_and_its_lines_stay() -> None:
    assert title_in_lines("  Password \t is\r\n\n \n\nx" + " " * 30_000) == "Password is\r\n\nx"
    assert title_in_lines("a" + " " * 700 + "\n" + " " * 700 + "b") == "a \n b"
    assert title_in_lines("a\tTRUE\t/\t \tb") == "a\tTRUE\t/\tb", "a row of cookies is known by its tabs"


@pytest.mark.feature("redaction.everywhere")
@pytest.mark.parametrize("blanks", [KEPT - 10, 16 * KEPT - 20])
def test_a_word_that_a_cut_would_part_is_left_out(blanks: int) -> None:
    unit = "ab " if blanks < KEPT else "   "
    title = title_in_lines("begin " + unit * (blanks // 3) + "0123456789" * 8 + " end")

    assert "0123" not in title
    assert title.startswith("begin")


@pytest.mark.feature("redaction.everywhere")
def test_words_without_blanks_between_them_are_cut_where_they_are_long() -> None:
    assert title_in_lines("\u5b57" * 2_000) == "\u5b57" * KEPT
    assert title_in_lines("x" * 2_000) == "x" * KEPT


@pytest.mark.feature("redaction.everywhere")
def test_a_title_is_shown_as_one_line_of_all_its_words() -> None:
    assert title_line("add a table\n\n" + " " * 5_000 + "to notes.md", 180) == "add a table to notes.md"
    assert title_line("a " * 500, 180) == "a " * 90
    assert (title_line("\n \n", 180), title_line(None, 180)) == (None, None)
