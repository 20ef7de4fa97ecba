"""Figures as they are printed, and data that stays data inside a script."""

from __future__ import annotations

import base64
import json
import random
import re
import zlib

import pytest

from ctx_pipeline.dashboard import figures
from ctx_pipeline.dashboard.figures import Column, axis, nice_ceiling, stacked
from ctx_pipeline.dashboard.page import chunk, packed_chunk, script_json, unpacked_chunk
from ctx_pipeline_tests.factories.history import HOSTILE


@pytest.mark.feature("dashboard.numbers-with-units")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (950, "950"),
        (999.6, "1.00k"),
        (1_234, "1.23k"),
        (12_345, "12.3k"),
        (999_700, "1.00M"),
        (287_000_000, "287M"),
        (2.5, "2.50"),
    ],
)
def test_short_numbers_keep_three_figures(value, text):
    assert figures.short(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_900, "1 h 05"), (90_000, "1 d 1 h")])
def test_durations(seconds, text):
    assert figures.duration(seconds) == text


@pytest.mark.parametrize(("part", "whole", "text"), [(1, 0, "\u2013"), (0, 5, "0%"), (1, 1000, "<1%"), (37, 100, "37%")])
def test_shares(part, whole, text):
    assert figures.share(part, whole) == text


@pytest.mark.parametrize(("octets", "text"), [(999, "999 B"), (1_000, "1.00 kB"), (12_345_678, "12.3 MB"), (5_000_000_000, "5.00 GB")])
def test_sizes(octets, text):
    assert figures.size(octets) == text


@pytest.mark.feature("dashboard.text-escaped")
def test_a_chunk_is_plain_for_every_parser_and_gives_the_text_back():
    written = chunk("name", list(HOSTILE))

    assert not any(mark in written for mark in (b"<", b">", b"&", "\u2028".encode(), "\u2029".encode()))
    assert written.startswith(b'ctx.receive("name",[')
    assert json.loads(script_json(list(HOSTILE))) == list(HOSTILE)


@pytest.mark.feature("dashboard.packed")
def test_a_packed_chunk_gives_every_byte_back_and_takes_a_quarter_less_than_base64():
    value = {"texts": list(HOSTILE), "noise": base64.b64encode(random.Random(3).randbytes(200_000)).decode()}
    written = packed_chunk("name", script_json(value))

    assert unpacked_chunk(written) == value
    string = written.removeprefix(b'ctx.receive("name",').removesuffix(b");\n")
    assert not re.search(rb"[\n\r\0]", string)
    assert re.fullmatch(rb'"(?:[^"\\]|\\.)*"', string, re.DOTALL)
    held = zlib.compress(script_json(value), 1)
    assert len(string) < 1.04 * len(held) < len(base64.b64encode(held))
    with pytest.raises(ValueError, match="no packed chunk"):
        unpacked_chunk(written[: len(written) // 2])


@pytest.mark.parametrize(("value", "top"), [(0, 1), (0.03, 0.04), (1, 1), (1.1, 2), (63, 100), (400, 400), (401, 600)])
def test_the_scale_of_a_chart_ends_at_a_round_figure(value, top):
    assert nice_ceiling(value) == pytest.approx(top)


@pytest.mark.feature("dashboard.activity-by-day")
def test_columns_are_stacked_from_the_bottom_in_proportion():
    drawn = stacked([Column((1.0, 3.0), "Monday"), Column((0.0, 0.0), "Tuesday")], ["c0", "c1"], str, title="t")

    assert '<rect class="c0" x="1" y="75.00" width="8" height="25.00"/>' in drawn
    assert '<rect class="c1" x="1" y="0.00" width="8" height="75.00"/>' in drawn
    assert drawn.count('class="c') == 2 + 1
    assert "<title>Tuesday</title>" in drawn


@pytest.mark.feature("dashboard.activity-by-day")
def test_no_word_of_a_chart_is_read_as_markup():
    drawn = stacked([Column((1.0,), "</title><script>")], ['c0"><i>'], lambda _: "<b>", title='"<u>')

    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in drawn
    assert 'class="c0&#34;&gt;&lt;i&gt;"' in drawn
    assert not [tag for tag in ("<script", "<i>", "<b>", "<u>") if tag in drawn]


@pytest.mark.feature("dashboard.activity-by-day")
@pytest.mark.parametrize(
    ("columns", "most", "placed"),
    [
        (31, 4, [("0.00%", 0), ("33.87%", 10), ("66.13%", 20), ("98.39%", 30)]),
        (4, 7, [("12.50%", 0), ("37.50%", 1), ("62.50%", 2), ("87.50%", 3)]),
        (6, 4, [("25.00%", 1), ("58.33%", 3), ("91.67%", 5)]),
        (1, 7, [("50.00%", 0)]),
        (0, 7, []),
    ],
)
def test_a_label_of_an_axis_stands_below_its_column_and_the_last_is_among_them(columns, most, placed):
    drawn = re.findall(r'<text[^>]* x="([^"]+)" y="11">(\d+)</text>', axis([str(n) for n in range(columns)], most))

    assert [(place, int(text)) for place, text in drawn] == placed
