"""Which characters nobody sees, and that no text leaves with one."""

from __future__ import annotations

import json
import unicodedata

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline.cli import output
from ctx_pipeline.dashboard.page import script_json
from ctx_pipeline.integrations.agent_output import clean
from ctx_pipeline.memory.prompt_block import inline
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.model.display import HIDDEN, escaped, visible
from ctx_pipeline.rot.export import line
from ctx_pipeline.rot.terminal.snapshot import safe

NUMBER_SIGNS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}
"""Format characters that are seen."""

HOSTILE = "a\u061cb\U000e0041c\u2028d\u2029e\u200bf\u202eg\x9bmh\x1b[31mi\ufeffj\u2066k\U000e0100l\ud800m\x85n\ro"


@pytest.mark.feature("cli.visible-characters")
def test_every_format_character_and_control_is_hidden_but_what_is_seen() -> None:
    for number in range(0x110000):
        character = chr(number)
        category = unicodedata.category(character)
        if category in ("Cc", "Cf", "Zl", "Zp", "Cs") and character not in "\t\n\r" and number not in NUMBER_SIGNS:
            assert HIDDEN.search(character), hex(number)
            assert visible(character) in ("", "\n")
        elif category[0] in "LNPSM" and category != "Cf" and HIDDEN.search(character):
            # fillers, joiners and selectors without a shape, which Unicode counts as letters and marks
            assert unicodedata.name(character).endswith(("FILLER", "JOINER", "INHERENT AQ", "INHERENT AA", "SEPARATOR")) or (
                "VARIATION SELECTOR" in unicodedata.name(character)
            ), hex(number)


@pytest.mark.feature("cli.visible-characters", "mcp.visible-text")
def test_every_way_out_leaves_the_same_characters_out() -> None:
    ends = "abc\nd\nefghijklm\nn\no"
    assert visible(HOSTILE) == clean(HOSTILE) == output.plain(HOSTILE) == safe(HOSTILE) == ends
    assert clean({HOSTILE: [HOSTILE]}) == {ends: [ends]}
    assert output.one_line(HOSTILE) == inline(HOSTILE.replace("\ud800", "")) == " ".join(ends.split())


@pytest.mark.feature("cli.visible-characters")
def test_json_escapes_what_is_not_seen_and_says_the_same() -> None:
    @click.command()
    def told() -> None:
        output.emit({"a": HOSTILE})

    printed = CliRunner().invoke(told).stdout
    for written in (printed, line({"a": HOSTILE})):
        assert HIDDEN.search(written.rstrip("\n")) is None
        assert json.loads(written) == {"a": HOSTILE}
    assert escaped('"\U000e0041"') == '"\\udb40\\udc41"'


@pytest.mark.feature("cli.visible-characters")
def test_the_page_gets_no_character_that_is_not_seen() -> None:
    made = script_json({"title": HOSTILE.replace("\ud800", "")})
    assert HIDDEN.search(made.decode()) is None
    assert json.loads(made)["title"].replace("\x1b", "") == "abc\u2028d\u2029efgmh[31mijklm\x85n\ro"


@pytest.mark.feature("cli.visible-characters")
@given(st.text())
def test_what_is_visible_stays_and_a_second_look_changes_nothing(text: str) -> None:
    shown = visible(text)
    assert HIDDEN.search(shown) is None
    assert visible(shown) == shown
    if HIDDEN.search(text) is None and "\r" not in text:
        assert shown == text


@pytest.mark.feature("memory.safety-characters")
@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("a\u061cb", "direction-control"),
        ("a\U000e0101b", "tag-character"),
        ("a\u200db", "invisible-character"),
        ("a\ufff9b", "invisible-character"),
    ],
)
def test_the_scan_of_memories_knows_them_all(text: str, flag: str) -> None:
    assert scan([text]) == [flag]
