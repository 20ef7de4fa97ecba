"""Where the PACT specification contradicts itself: the choices of docs/context.md, one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ctx_pipeline import Component, Context, TextContent
from ctx_pipeline.context.errors import InvalidSelector

pytestmark = pytest.mark.feature("history.contradictions")


def turn(context, text="said"):
    context.add_user(text)
    context.commit()


def test_a_key_selector_never_selects_an_id():
    context = Context()
    context.pact_insert("d0, 1", Component("x", id="name"))

    assert context.select("#name") == []
    assert context.select('{id="name"}') == ["name"]


def test_now_is_the_working_state_and_the_newest_snapshot_is_one_back():
    context = Context()
    context.pact_insert("d0, 1", Component("old", id="n"))
    context.seal("kept")
    context.pact_update('{id="n"}', content="new")

    assert (context["@t0 {id='n'}"].content, context["@t-1 {id='n'}"].content) == ("new", "old")


def test_blocks_directly_below_a_turn_stand_in_a_core_that_is_understood_and_never_written():
    said = {"id": "b", "nodeType": "block", "offset": 0, "content": "x"}
    data = {"root": {"id": "root", "nodeType": "^root", "children": [{"id": "h", "nodeType": "^ah", "offset": 0, "children": [said]}]}}
    context = Context.from_snapshot(data)

    assert context.select(".mc > .cb") == ["b"]
    [head] = context.model_dump()["root"]["children"]
    assert [child["id"] for child in head["children"]] == ["b"]


def test_a_ttl_counts_in_the_head_as_anywhere():
    context = Context()
    context.pact_insert("d0, 1", TextContent("brief", key="k", ttl=0))
    turn(context)

    assert context.select("#k") == []


def test_a_sealed_turn_keeps_the_id_of_the_head_and_the_next_head_is_new():
    context = Context()
    head = context["^ah"].id
    turn(context)

    assert context["d1"].id == head
    assert context["d1"].node_type == "seg"
    assert context["^ah"].id != head


def test_offsets_follow_insertion_and_show_in_differences():
    context = Context()
    context.pact_insert("d0, 1", Component("a", id="a"))
    context.seal("before")
    context.pact_insert("d0, 1", Component("b", id="b"))
    [change] = context.select("@t0..@t-1 .block")["diffs"][0]["changed"]

    assert (change["id"], change["fields"]) == ("a", ["offset"])
    assert change["offset_changed"] == {"previous_offset": 1, "new_offset": 2}


def test_a_head_without_a_message_is_not_sealed_and_keeps_what_is_attached():
    context = Context()
    context.pact_insert("d0, 1", TextContent("note", key="k"))
    context.commit()

    assert (len(context), context["#k"].depth) == (1, 0)


def test_a_tag_after_a_position_filters_and_never_searches_below():
    context = Context()
    context.pact_insert("d0, 1", TextContent("x", tags=["t"]))

    assert context.select("(d0) +t") == []
    assert context.select("(d0, 1) +t") == context.select("+t")


def test_an_unknown_control_is_an_error():
    with pytest.raises(InvalidSelector):
        Context().select(".block @vendor=1")


def test_every_contradiction_is_written_down():
    page = (Path(__file__).resolve().parents[2] / "docs" / "context.md").read_text("utf-8")
    section = page.partition("### Where the specification contradicts itself")[2]

    assert len(re.findall(r"^\| .+ \| .+ \| .* ?\|$", section, re.MULTILINE)) - 1 >= 12
