"""Shorter forms of files: what each keeps, what is measured of them, which one is recommended."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline.compression import reductions
from ctx_pipeline.compression.analysis import (
    AGAIN,
    FLOOR,
    Quality,
    Row,
    analyzed,
    char_spread,
    entropy,
    quality,
    recommendation,
    token_spread,
)
from ctx_pipeline.compression.compress import checkpoint, coded, most_named, spelled_out
from ctx_pipeline.compression.forms import FORMS, repeats, shortened, without_repeats
from ctx_pipeline.compression.reductions import spread, stripped
from ctx_pipeline.compression.source import NOTICE_TOKENS, Source, notice
from ctx_pipeline.tokens.tokenizers import tokenizer_from_name

TOKENS = tokenizer_from_name("o200k_base")
SHOP = '''"""Orders."""

import json
from decimal import Decimal

LIMIT: int = 10
# the rate of the tax
RATE = Decimal("0.19")


def total(prices: dict[str, int], tax: bool = True) -> Decimal:
    """Return the sum of an order."""
    # add them up
    amount = sum(prices.values())
    return amount * (1 + RATE) if tax else amount


class Cart:
    """Keeps what was chosen."""

    def add(self, name: str) -> None:
        self.names.append(name)

    def _clear(self) -> None:
        self.names = []
'''


def count(text: str) -> int:
    return TOKENS.count_tokens(text).count


@pytest.mark.feature("compress.analyze")
def test_entropy_is_told_per_character_and_per_token_over_lines_that_are_not_blank():
    assert entropy("aaaa") == 0.0
    assert entropy("abab") == 1.0
    assert entropy("abcdabcd") == 2.0
    assert entropy("") == 0.0

    spread = char_spread("aaaa\n\n   \nabcdefgh\n" + "".join(map(chr, range(65, 65 + 32))))
    assert (spread.unit, spread.lines, spread.low, spread.high) == ("char", 3, 1, 1)
    assert spread.mean == pytest.approx((0 + 3 + 5) / 3)
    assert (spread.low_below, spread.high_above) == (2.0, 4.0)

    words = token_spread("x x x x\na b c d e f g h i j\n", lambda line: [hash(word) for word in line.split()])
    assert (words.unit, words.low, words.high, words.lines) == ("token", 1, 1, 2)
    assert (words.low_below, words.high_above) == (1.0, 3.0)


HEADER = "\n".join(f"unique_line_{n} = load('{n}')" for n in range(8))
BLOCK = "def handler(request):\n    check(request)\n    answer = run(request)\n    return answer"


@pytest.mark.feature("compress.entropy-dedup")
def test_repeated_blocks_are_shown_with_their_places_and_unique_lines_are_never_taken_for_copies():
    text = HEADER + "\n\n" + "\n\n".join([BLOCK] * 5) + "\n"
    found = repeats(text)

    assert [(r.block.first, r.block.last, r.of.first, r.of.last, r.likeness) for r in found] == [
        (15, 18, 10, 13, 1.0),
        (20, 23, 10, 13, 1.0),
        (25, 28, 10, 13, 1.0),
        (30, 33, 10, 13, 1.0),
    ]
    short = without_repeats(text, "# ")
    assert short.startswith(HEADER + "\n\n" + BLOCK + "\n\n# … as lines 10-13\n")
    assert short.count("# … as lines 10-13") == 4


@pytest.mark.feature("compress.entropy-dedup")
def test_a_copy_with_a_line_of_its_own_keeps_that_line():
    changed = BLOCK.replace("    return answer", "    return answer or default")
    text = f"{BLOCK}\n\n{changed}\n\nother(1)\nthing(2)\nhere(3)\n"
    (found,) = repeats(text)

    assert (found.block.first, found.of.first) == (6, 1)
    assert 0.7 <= found.likeness < 1.0
    assert without_repeats(text).splitlines()[5:8] == ["… as lines 1-4 but:", "    return answer or default", ""]


@pytest.mark.feature("compress.entropy-dedup")
def test_a_form_feed_ends_no_line():
    text = f"a = 1\x0c\nb = 'x\u2028y'\nc = 3\n\n{BLOCK}\n\n{BLOCK}\n"
    source = Source("a.py", text)

    assert source.lines == 13
    assert [(r.block.first, r.block.last, r.of.first, r.of.last) for r in repeats(text)] == [(10, 13, 5, 8)]
    assert without_repeats(text, "# ") == text.replace(f"\n\n{BLOCK}\n\n{BLOCK}", f"\n\n{BLOCK}\n\n# … as lines 5-8")


@given(st.lists(st.sampled_from([BLOCK, BLOCK.replace("run", "walk"), "a = 1\nb = 2\nc = 3", "x", ""]), max_size=8))
def test_every_line_of_a_text_is_still_there_when_repeats_are_gone(parts: list[str]):
    text = "\n\n".join(parts)
    left = {line.strip() for line in without_repeats(text).splitlines()}

    assert {line.strip() for line in text.splitlines()} - left == set()


@pytest.mark.feature("compress.strategies")
def test_code_without_comments_declares_the_same_and_keeps_literals_and_what_programs_read():
    text = (
        '#!/usr/bin/env python3\nimport os  # noqa: F401\n\n# gone\nTEXT = """\n# stays\n\n\nend"""\n\n\n'
        'def go():\n    return "# stays too"  # gone\n'
    )

    assert stripped(text, "python") == (
        '#!/usr/bin/env python3\nimport os  # noqa: F401\nTEXT = """\n# stays\n\n\nend"""\ndef go():\n    return "# stays too"\n'
    )
    assert stripped("#[derive(Debug)]\n// gone\nstruct A {\n    x: u8,\n}\n", "rust") == "#[derive(Debug)]\nstruct A {\n    x: u8,}\n"
    assert stripped("#define a[..]\nint x; /* gone */\n", "c") == "#define a[..]\nint x;\n"
    constants = "package p\n\nconst (\n\tA = 1\n\tB = 15 * t.M\n)\n\n// gone\nfunc a() {\n}\n"
    assert stripped(constants, "go") == "package p\nconst (\n\tA = 1\n\tB = 15 * t.M\n)\nfunc a() {\n}\n"
    assert stripped("int f(void) {\n  return/* why */x + 1;/* end */\n}\n", "c") == "int f(void) {\n  return x + 1;}\n"
    assert stripped("plain  \n\n\n\ntext\n", None) == "plain\n\ntext\n"


@pytest.mark.feature("compress.data-formats")
def test_json_loses_white_space_and_nothing_else():
    text = '{\n  "price": 1.10,\n  "big": 12345678901234567890,\n  "a b": [ true, null, "x  y \\" z" ],\n  "price": 2e5\n}\n'

    assert reductions.compact(text, "json") == '{"price":1.10,"big":12345678901234567890,"a b":[true,null,"x  y \\" z"],"price":2e5}'
    assert reductions.compact("{broken", "json") is None
    assert reductions.compact('{"a": 1}\n\n{"a": 2}\n', "jsonl") == '{"a":1}\n{"a":2}\n'


ROWS = st.lists(st.fixed_dictionaries({"id": st.integers(), "name": st.text(max_size=5)}), max_size=5)
JSON_VALUES = st.recursive(
    ROWS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.feature("compress.data-formats")
@given(JSON_VALUES)
def test_any_json_reads_back_as_the_same_value(value: object):
    text = json.dumps(value, indent=2)
    short = reductions.compact(text, "json")

    assert spread(json.loads(short)) == value
    assert len(short) <= len(text)


@pytest.mark.feature("compress.data-formats")
def test_a_list_of_alike_objects_says_its_keys_once():
    rows = '[{"id": 1.50, "tags": [{"n": 1}]}, {"id": 2e3, "tags": []}, {"id": NaN, "tags": null}]'

    assert reductions.compact(rows, "json") == '{"columns":["id","tags"],"rows":[[1.50,[{"n":1}]],[2e3,[]],[NaN,null]]}'
    halves = '[{"description": "\\ud83d"}, {"description": "é"}, {"description": "x"}]'
    assert reductions.compact(halves, "json") == '{"columns":["description"],"rows":[["\\ud83d"],["é"],["x"]]}'
    deep = "1"
    for _ in range(60):
        deep = f'[{{"a":1}},{{"a":1}},{{"a":{deep}}}]'
    assert spread(json.loads(reductions.compact(deep, "json"))) == json.loads(deep)
    for kept in (
        '[{"a":1},{"a":2}]',
        '[{"a":1},{"a":2},{"b":3}]',
        '[{"a":1,"a":2},{"a":1,"a":2},{"a":1,"a":2}]',
        '{"x":[{"long":1,"name":2},{"long":1,"name":2},{"long":1,"name":2}],"y":{"columns":[],"rows":[]}}',
    ):
        assert reductions.compact(kept, "json") == kept


@pytest.mark.feature("compress.data-formats")
def test_yaml_reads_back_as_the_same_value_and_anchors_stay():
    text = "# settings\nname: shop\nports:\n  - 80\n  - 443\n\ntext: |\n  # no comment\n  line\n"
    short = reductions.compact(text, "yaml")

    assert yaml.safe_load(short) == yaml.safe_load(text)
    assert "settings" not in short
    assert "# no comment" in short
    dated = "# day\nwhen: 2026-10-03\n"
    assert reductions.compact(dated, "yaml") == "when: 2026-10-03\n"
    anchors = "a: &x [1, 2]\nb: *x\n"
    assert reductions.compact(anchors, "yaml") == anchors
    assert reductions.compact("a: [", "yaml") is None


@pytest.mark.feature("compress.data-formats")
@pytest.mark.parametrize("text", ["!!bool foo", "!!timestamp foo", "!!int ''", "when: 2026-13-45", "[" * 100_000, "? " * 2_000])
def test_yaml_that_no_loader_survives_has_no_form_and_no_shape(text: str):
    assert reductions.compact(text, "yaml") is None
    assert shortened(Source("a.yaml", text), "map") is None


@pytest.mark.feature("compress.data-formats")
def test_a_line_of_data_ends_with_a_line_feed_and_nothing_else():
    assert reductions.compact('{"a": "x\u2028y"}\n{"a": "\x85"}\n', "jsonl") == '{"a":"x\u2028y"}\n{"a":"\x85"}\n'
    assert shortened(Source("a.jsonl", '{"a": "x\u2028y"}\n'), "map") == "1 line of {a:s}"


@pytest.mark.feature("compress.data-formats")
def test_a_table_says_columns_that_never_change_once_and_gives_every_cell_back():
    text = 'id,country,name\n1,Germany,Ann\n2,Germany,"Bob, Jr"\n3,Germany,Eve\n4,Germany,Joe\n5,Germany,Kim\n'
    short = reductions.compact(text, "csv")

    assert short == '# in every row: {"1":"Germany"}\nid,country,name\n1,Ann\n2,"Bob, Jr"\n3,Eve\n4,Joe\n5,Kim\n'
    assert reductions.read_table(short, ",") == reductions.read_table(text, ",")
    assert reductions.compact("a,b\n1,2\n3\n4,5\n", "csv") == "a,b\n1,2\n3\n4,5\n"


CELLS = st.sampled_from(["", "x", "same", 'with "quotes"', "a,b", "two\nlines", "12"])


@pytest.mark.feature("compress.data-formats")
@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=8)))
def test_any_table_reads_back_cell_by_cell(rows: list[list[str]]):
    import csv
    import io

    held = io.StringIO()
    csv.writer(held, lineterminator="\n").writerows(rows)
    text = held.getvalue()

    assert reductions.read_table(reductions.compact(text, "csv"), ",") == reductions.read_table(text, ",")


@pytest.mark.feature("compress.data-formats")
def test_markdown_keeps_headings_words_links_cells_and_code():
    text = (
        "# Shop   \n\n\n\nRead the [guide](https://example.org).<!-- not for readers -->\n\n| name   | price    |\n|--------|----------|\n"
        "| apple  | 3 \\| 4  |\n\n```python\nx = 1   \n\n\n# <!-- stays -->\n```\n\n"
        "See `<!-- here -->` and\na break  \nend\n<!-- never closed\n"
    )

    assert reductions.compact(text, "markdown") == (
        "# Shop\n\nRead the [guide](https://example.org).\n\n|name|price|\n|---|---|\n|apple|3 \\| 4|\n\n"
        "```python\nx = 1   \n\n\n# <!-- stays -->\n```\n\nSee `<!-- here -->` and\na break  \nend\n<!-- never closed\n"
    )
    nested = "````md\n```\n<!-- shown -->\n```\n````\n\n    |  code  |  ----  |\n\n| a  | -----BEGIN |\n  | b |\n"
    assert reductions.compact(nested, "markdown") == nested.replace("| a  | -----BEGIN |", "|a|-----BEGIN|").replace("| b |", "|b|")
    assert [(s.name, s.level, s.first, s.last) for s in reductions.headings("# A\nx\n## B\n```\n# no\n```\n# C\n").symbols] == [
        ("A", 0, 1, 6),
        ("B", 1, 3, 6),
        ("C", 0, 7, 7),
    ]


@pytest.mark.feature("compress.map")
def test_a_map_has_imports_exports_and_what_others_see():
    text = (
        'import { a } from "./a";\nexport { a as b } from "./b";\nfunction top() {}\n'
        "export class Cart { add(x: string): void {} private no() {} }\n"
    )

    assert shortened(Source("shop.ts", text), "map") == ("deps: ./a\nexports: b\nfn top()\nclass pub Cart\n fn pub add(x:s) → void")


@pytest.mark.feature("compress.map")
@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.json", '{"rows": [{"id": 1, "ok": true}, {"id": 2.5, "name": null}], "none": [], "mixed": [1, "x"]}', None),
        ("a.jsonl", '{"a": 1}\n{"a": "x"}\n', "2 lines of {a:n|s}"),
        ("a.yaml", "name: shop\nports: [80, 443]\n", "{name:s,ports:[2*n]}"),
        ("a.csv", "id,name,rate\n1,Ann,0.5\n2,,1e3\n", "2 rows of (id:n,name:s,rate:n)"),
        ("a.csv", "id,name,rate\n1,Ann,0.5\n", "1 row of (id:n,name:s,rate:n)"),
        ("a.json", "{broken", ""),
        ("a.yaml", "a: [", ""),
    ],
)
def test_a_map_of_data_is_its_shape(name: str, text: str, told: str | None):
    wanted = "{rows:[2*{id:n,ok?:b,name?:∅}],none:[],mixed:[2*n|s]}" if told is None else told or None

    assert shortened(Source(name, text), "map") == wanted


@pytest.mark.timeout(60)
def test_the_shape_of_hostile_data_is_bounded():
    wide = json.dumps({f"key{n}": [{"a": n}] * 3 for n in range(5_000)})
    deep = "[" * 400 + "]" * 400

    assert shortened(Source("a.json", wide), "map").endswith(",+4960}")
    assert len(shortened(Source("a.json", json.dumps({"k" * 9_000: 1})), "map")) == 4_000
    assert shortened(Source("a.json", deep), "map") == "[1*" * 6 + "[…]" + "]" * 6
    assert shortened(Source("a.json", "[" * 50_000), "map") is None


@pytest.mark.feature("compress.strategies", "compress.analyze", "compress.ratio")
def test_every_form_stands_with_tokens_savings_quality_and_risk():
    found = analyzed(Source("shop.py", SHOP), TOKENS)
    rows = {row.form: row for row in found.rows}

    assert [*rows] == [*FORMS, AGAIN]
    assert (found.language, found.lines, found.tokens) == ("python", 25, count(SHOP))
    assert rows["raw"].tokens == count(SHOP)
    assert {form: row.risk for form, row in rows.items()} == {
        "raw": "none",
        "aggressive": "low",
        "entropy": "low",
        "signatures": "high",
        "map": "high",
        AGAIN: "none",
    }
    assert rows["signatures"].tokens == count(shortened(Source("shop.py", SHOP), "signatures"))
    assert rows["signatures"].saved == pytest.approx(1 - rows["signatures"].tokens / found.tokens)
    assert rows[AGAIN].tokens == NOTICE_TOKENS
    assert rows[AGAIN].quality is None
    assert 0.6 < found.ratio < 0.8
    assert found.compressibility == "low"
    assert analyzed(Source("a.txt", "ab" * 5000), TOKENS).compressibility == "high"


@pytest.mark.feature("compress.quality")
def test_quality_is_what_is_found_again_in_the_form():
    source = Source("shop.py", SHOP)

    whole = quality(source, "raw", SHOP)
    assert whole == Quality(1.0, 1.0, 1.0)
    drawn = quality(source, "signatures", shortened(source, "signatures"))
    assert drawn.structure == 1.0
    assert 0.3 < drawn.identifiers < 0.9
    assert drawn.score == pytest.approx(0.7 + 0.3 * drawn.identifiers)
    # six declarations, of which a form keeps two
    assert quality(source, "aggressive", "LIMIT = 10\nclass Cart: pass\n").structure == pytest.approx(2 / 6)
    # a name inside another one, or inside a text, is not found again
    assert quality(source, "aggressive", "Carts = 'LIMIT total RATE add _clear'\n").structure == 0.0
    assert quality(source, "map", "") == Quality(0.0, 0.0, 0.0)
    assert quality(Source("a.md", "# Top\nsome words here\n"), "map", "# Top").score == pytest.approx(0.3 + 0.7 * 1 / 4)


@pytest.mark.feature("compress.recommendation")
def test_the_recommendation_has_a_floor_of_quality_and_is_never_empty():
    best, reason = recommendation(analyzed(Source("shop.py", SHOP), TOKENS).rows)
    assert best in {"signatures", "map"}
    assert "read the file before an edit" in reason

    low = Quality(0.5, 0.5, FLOOR - 0.01)
    fine = Quality(1.0, 1.0, FLOOR)
    raw = Row("raw", 100, 0.0, Quality(1.0, 1.0, 1.0), "none")
    rows = [raw, Row("map", 5, 0.95, low, "high"), Row("entropy", 0, 1.0, fine, "low"), Row("signatures", None, 0.0, None, "high")]
    assert recommendation(rows)[0] == "raw"
    assert recommendation([*rows, Row("aggressive", 80, 0.2, fine, "low")])[0] == "aggressive"
    assert recommendation([*rows, Row("aggressive", 95, 0.05, fine, "low")])[0] == "raw"


@pytest.mark.feature("compress.empty-files")
@pytest.mark.parametrize(
    ("name", "text", "recommended"),
    [
        ("empty.py", "", "raw"),
        ("blank.py", "\n\n  \n", "raw"),
        ("comments.py", "# only\n# comments\n# here and nothing else\n", "raw"),
        ("script.py", "print('hello')\nrun(3)\n", "raw"),
        ("notes.txt", "some words without any code in them\n", "raw"),
        ("words.unknown", "a" * 3000, "entropy"),
    ],
)
def test_files_without_symbols_have_a_sensible_answer(name: str, text: str, recommended: str):
    found = analyzed(Source(name, text), TOKENS)
    rows = {row.form: row for row in found.rows}

    if recommended == "raw":
        assert found.recommended == "raw"
    assert rows["signatures"].tokens is None
    assert rows["signatures"].saved == 0.0
    assert rows["map"].tokens is None
    assert all(row.tokens is None or row.tokens > 0 or not text.strip() or row.quality.score == 0.0 for row in found.rows)
    assert all(0.0 <= row.saved <= 1.0 for row in found.rows)


def test_a_byte_order_mark_and_line_ends_of_windows_change_nothing():
    assert Source("a.py", "\ufeffx = 1\r\ny = 2\r\n").text == "x = 1\ny = 2\n"
    assert analyzed(Source("a.py", SHOP.replace("\n", "\r\n")), TOKENS).rows == analyzed(Source("a.py", SHOP), TOKENS).rows


def test_words_that_look_like_special_tokens_are_ordinary_text():
    assert analyzed(Source("a.txt", "<|endoftext|> and more\n"), TOKENS).tokens > 4


def test_an_opaque_run_is_cut_in_the_entropy_form():
    text = f'LOGO = "{"iVBORw0KGgoAAAANSUhEUgAA" * 40}"\n'

    assert shortened(Source("a.py", text), "entropy") == 'LOGO = "iVBORw0KGgoAAAANSUhEUgAA…(960 characters)…NSUhEUgAA"\n'.replace(
        "…NSUhEUgAA", "…SUhEUgAA"
    )


@pytest.mark.feature("compress.one-cost-of-a-hit")
def test_a_notice_costs_at_most_the_one_figure_and_never_more_than_the_file():
    for path, lines in [("src/auth.ts", 123), ("/home/sam/code/acme/packages/billing/src/invoices.py", 2_345), ("C:\\shop\\a.go", 7)]:
        assert count(notice(path, lines)) <= NOTICE_TOKENS
    assert notice("/home/sam/code/acme/billing/src/invoices.py", 12) == "[acme/billing/src/invoices.py: unchanged, 12 lines above]"
    assert analyzed(Source("a.py", "x = 1\n"), TOKENS).rows[-1].tokens == count("x = 1\n")


@pytest.mark.feature("compress.codebook")
def test_lines_that_many_files_share_are_written_once_and_only_where_that_pays():
    licence = "# Licensed under the Apache License, Version 2.0 (the License); you may not use this file except in compliance"
    texts = [f"{licence}\n    {licence}\nx = {n}\n" for n in range(4)]
    code = coded(texts, count)

    assert code.book == [licence]
    assert code.texts[1] == "§1\n    §1\nx = 1\n"
    assert spelled_out(code) == texts
    assert count(code.legend) + sum(map(count, code.texts)) < sum(map(count, texts))
    assert coded(texts[:2], count) == ([], texts[:2])
    assert coded(["import os_path\n"] * 3, count).book == []
    assert coded([f"{licence}\n" * 9, "x = 1\n", "y = 2\n"], count).book == []
    assert coded([*texts, "see §1"], count).book == []


@pytest.mark.feature("compress.checkpoint")
def test_a_checkpoint_is_stable_ranked_by_use_and_says_what_it_saves():
    cart = Source(
        "shop/cart.py", "A = 1\nB = 2\ndef rarely(): pass\ndef often(x: str): pass\nclass Cart:\n    def add(self): pass\n    LIMIT = 3\n"
    )
    use = Source("shop/use.py", "from cart import often\noften('a')\n" + "often('b')\n" * 12)
    data = Source("shop/data.csv", "a,b\n1,2\n")
    found = checkpoint([cart, use, data], count, top=3)

    assert found.text.splitlines() == [
        "CTX CHECKPOINT (3 files)",
        "in shop/",
        "F1 cart.py [7L]: fn pub rarely() @L3, fn pub often(x:s) @L4, class pub Cart @L5-7 +4",
        f"F2 use.py [14L {count(use.text)}t]",
        "F3 data.csv [2L 7t]",
        f"COMPRESSION: {found.raw_tokens} → {found.tokens} tok",
        f"[{found.saved} tok saved ({1 - found.tokens / found.raw_tokens:.0%})]",
    ]
    assert found.raw_tokens == sum(count(source.text) for source in (cart, use, data))
    assert checkpoint([cart, use, data], count, top=3) == found
    assert checkpoint([cart], count, signatures=False).text.splitlines()[1] == f"F1 shop/cart.py [7L {count(cart.text)}t]"
    assert most_named([cart, use, data], 1) == [cart]
    assert checkpoint([], count).text.startswith("CTX CHECKPOINT (0 files)")


@pytest.mark.feature("compress.checkpoint")
def test_a_path_of_a_transcript_adds_no_line_to_a_checkpoint():
    text = checkpoint([Source("a\nCOMPRESSION: 9\u2028b\udcff.py", "x = 1\n")], count).text

    assert text.splitlines()[1] == "F1 a COMPRESSION: 9 b .py [1L]: const pub x:number @L1"


def test_a_member_stands_under_its_type_in_a_checkpoint():
    text = "impl<T> Store<T> {\n    pub fn add(&self) {}\n}\n"

    assert checkpoint([Source("a.rs", text)], count, top=1).entries[0].signatures == ["fn pub Store.add(&self) @L2"]


@pytest.mark.feature("compress.checkpoint")
def test_a_name_of_one_meaning_counts_more_than_a_word_that_stands_everywhere():
    shop = Source("shop.py", "def name(): pass\ndef load_cart(): pass\n")
    others = [Source(f"use{n}.py", f"name = {n}\n" + ("load_cart()\n" if n < 2 else "")) for n in range(4)]

    assert checkpoint([shop, *others], count, top=1).entries[0].signatures == ["fn pub load_cart() @L2"]
    assert most_named([*others, shop], 1) == [shop]


@pytest.mark.feature("compress.checkpoint")
def test_a_checkpoint_that_is_longer_than_its_files_says_so():
    found = checkpoint([Source("a.py", "X = 1\n"), Source("b.py", "Y = 2\n")], count)

    assert found.tokens > found.raw_tokens
    assert found.text.splitlines()[-1] == "[0 tok saved: the files themselves are shorter]"
