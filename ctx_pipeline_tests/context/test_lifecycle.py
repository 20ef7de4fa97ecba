"""Expiry, cadence and stages, counted in commits."""

from __future__ import annotations

import pytest

from ctx_pipeline import Component, Context, Pos, TextContent
from ctx_pipeline.context import errors


def alive(context, key, commits):
    """Return whether a key is there now and after each of some commits."""
    seen = [context.get_by_key(key) is not None]
    for _ in range(commits):
        context.commit()
        seen.append(context.get_by_key(key) is not None)
    return seen


@pytest.mark.feature("context.lifecycle.ttl")
@pytest.mark.parametrize(
    ("ttl", "seen"),
    [(None, [True, True, True, True]), (0, [True, False, False, False]), (1, [True, True, False, False]), (2, [True, True, True, False])],
)
def test_a_ttl_is_how_many_further_commits_a_component_lives_through(ttl, seen):
    context = Context()
    context.pact_insert("d0, 1", TextContent("x", key="k", ttl=ttl))

    assert alive(context, "k", 3) == seen


@pytest.mark.feature("context.lifecycle.ttl")
def test_a_ttl_counts_in_every_region_and_what_is_gone_is_found_by_nothing():
    context = Context()
    context.pact_insert("d-1, 1", TextContent("x", key="k", tags=["t"], ttl=0))
    context.add_user("hello", ttl=0)
    context.commit()

    assert context.select("#k") == context.select("+t") == context.select(".block") == []
    assert context.get_by_tags(["t"]) == []


@pytest.mark.feature("context.lifecycle.seal")
def test_sealing_moves_no_turn_and_ages_nothing():
    context = Context()
    context.add_user("hello")
    context.pact_insert("d0, 1", TextContent("x", key="k", ttl=0))
    for _ in range(5):
        context.seal("again")

    assert context["d0, 0, 0"].content == "hello"
    assert context.get_by_key("k").content == "x"
    assert (context.current_episode, context.cycle) == (5, 0)


@pytest.mark.feature("context.lifecycle.seal")
def test_render_commits_and_gives_what_was_there_before():
    context = Context()
    context.add_user("hello")
    context.pact_insert("d0, 1", TextContent("once", ttl=0))

    assert [b["content"] for b in context.render()] == ["hello", "once"]
    assert [b["content"] for b in context.provider_thread()] == ["hello"]
    assert context["d1, 0, 0"].content == "hello"
    assert context.history.by_trigger("render") == [1]


@pytest.mark.feature("context.lifecycle.cadence")
def test_sticky_is_always_there_and_in_the_head():
    context = Context()
    context.pact_insert("d0, 1", TextContent("x", key="k", ttl=1, cad=1))
    for _ in range(3):
        context.add_user("hello")
        context.commit()
        assert [n.depth for n in context.find("#k")] == [0]
    assert [n.content for n in context.find(".block[sticky]")] == ["x"]


@pytest.mark.feature("context.lifecycle.cadence")
def test_cyclic_comes_every_cad_cycles_for_ttl_of_them():
    context = Context()
    context.pact_insert("d0, 1", TextContent("x", key="k", ttl=1, cad=3))

    assert alive(context, "k", 7) == [True, False, False, True, False, False, True, False]


@pytest.mark.feature("context.lifecycle.cadence")
def test_what_was_deleted_does_not_come_again():
    context = Context()
    context.pact_insert("d0, 1", TextContent("x", key="k", ttl=1, cad=1))
    context.pact_delete(key="k")

    assert alive(context, "k", 2) == [False, False, False]


@pytest.mark.feature("context.lifecycle.stages")
@pytest.mark.parametrize(
    ("cycle", "places"),
    [(False, ["d0", "sys", None, None, None]), (1, ["d0", "sys", "d0", "sys", None]), (True, ["d0", "sys", "d0", "sys", "d0"])],
)
def test_stages_move_a_component_from_place_to_place(cycle, places):
    context = Context()
    component = TextContent("x", key="k").render_lifecycle([Pos(0, 1, ttl=0), Pos(-1, 1, ttl=0)], cycle=cycle)
    context.pact_insert("d0, 1", component)
    first = context["#k"].id
    seen = []
    for _ in range(5):
        found = context.get_by_key("k")
        seen.append(None if found is None else "sys" if found.depth == -1 else f"d{found.depth}")
        assert found is None or found.id == first
        context.commit()

    assert seen == places


@pytest.mark.feature("context.lifecycle.cascade")
def test_an_emptied_container_goes_only_when_it_is_removable():
    context = Context()
    for key, removable in (("goes", True), ("stays", False)):
        context.pact_insert("d0, 1", Component(None, key=key, node_type="cont:group", removable=removable))
        context.pact_insert(f"#{key}", TextContent("inside", ttl=0))
    context.commit()

    assert context.get_by_key("goes") is None
    assert context.get_by_key("stays").children == []
    assert context["^ah"].structure == "ah"


@pytest.mark.feature("context.lifecycle.bad-input")
@pytest.mark.parametrize(("ttl", "cad"), [(-1, None), (1.5, None), (True, None), (1, 0), (None, 2), (0, 2)])
def test_lives_that_cannot_be_are_refused(ttl, cad):
    with pytest.raises(errors.InvalidLifecycle):
        TextContent("x", ttl=ttl, cad=cad)
