"""Places, regions, keys, life and the provider's thread of a context tree."""

from __future__ import annotations

import json
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline import Component, Context, Pos, TextContent
from ctx_pipeline.context import errors
from ctx_pipeline.context.tree.blocks import appended, without_all
from ctx_pipeline.context.tree.changes import inserted
from ctx_pipeline.context.tree.dump import dumped
from ctx_pipeline.context.tree.new_nodes import empty
from ctx_pipeline.context.tree.tree import ReplayedBirths, Tree
from ctx_pipeline.errors import CtxError, SchemaTooNew


def contents(context, place):
    return [(n.offset, n.content) for n in context[place].children if n.structure == "block"]


@pytest.mark.feature("context.tree.places")
@pytest.mark.parametrize("place", ["d0, 1, 0", "d0,1", "(d0, 1)", [0, 1, 0], (0, 1), Pos(0, 1)])
def test_every_way_of_writing_a_place_is_the_same_place(place):
    context = Context()
    context.pact_insert(place, TextContent("note"))

    for other in ("d0, 1, 0", [0, 1, 0], (0, 1), "(d0,1)"):
        assert context[other].content == "note"
    assert context[0, 1, 0].content == "note"


@pytest.mark.feature("context.tree.push")
def test_insertion_pushes_outward_on_both_sides_and_never_leaves_a_gap():
    context = Context()
    for text in ("first", "second"):
        context.pact_insert("d0, 1", text)
        context.pact_insert("d0, -1", text)
    context.pact_insert("d0, 9", "far")

    assert contents(context, "d0") == [(-2, "first"), (-1, "second"), (1, "second"), (2, "first"), (3, "far")]


@pytest.mark.feature("context.tree.core")
def test_the_first_in_a_container_is_its_core_and_a_new_core_pushes_the_old_one():
    context = Context()
    context.pact_insert("d0, 0, 5", "one")
    assert contents(context, "d0, 0") == [(0, "one")]
    context.pact_insert("d0, 0, 0", "two")
    context.pact_insert("d0, 0", "last")
    assert contents(context, "d0, 0") == [(0, "two"), (1, "one"), (2, "last")]
    context.pact_delete("d0, 0, 0")
    assert contents(context, "d0, 0") == [(0, "one"), (1, "last")]


@pytest.mark.feature("context.tree.core")
def test_deleting_closes_the_gap():
    context = Context()
    for number in range(4):
        context.pact_insert((0, number + 1), f"n{number}")
    context.pact_delete("d0, 2")

    assert contents(context, "d0") == [(1, "n0"), (2, "n2"), (3, "n3")]


@pytest.mark.feature("context.tree.bad-places")
@pytest.mark.parametrize(
    ("place", "error", "words"),
    [
        ("d7, 1", errors.NothingThere, "depths go from -1"),
        ("d0, 1, 3, 4", errors.InvalidPlacement, "holds no others"),
        ("#nobody", errors.NothingThere, "nothing matches"),
        ("d0 d1 (", errors.InvalidSelector, "does not belong here"),
        ([0, "x"], errors.InvalidPlacement, "is no place"),
    ],
)
def test_a_place_that_is_not_there_is_an_error_with_a_hint(place, error, words):
    context = Context()
    before = context.to_json()
    with pytest.raises(error) as caught:
        context.pact_insert(place, "x")

    assert words in str(caught.value)
    assert caught.value.hint or error is errors.NothingThere
    assert context.to_json() == before


@pytest.mark.feature("context.tree.bad-places")
def test_reading_nothing_is_a_key_error_that_says_what_is_there():
    context = Context()
    context.pact_insert("d0, 1", "x")

    with pytest.raises(KeyError, match="d0 has 0, 1"):
        context["d0, 4"]


@pytest.mark.feature("context.tree.bad-places")
@pytest.mark.parametrize("component", ["", "  ", 7, None, {"content": "x"}])
def test_only_components_and_text_are_inserted(component):
    with pytest.raises(errors.InvalidPlacement):
        Context().pact_insert("d0, 1", component)


@pytest.mark.feature("context.tree.headers")
def test_every_node_has_the_headers_of_the_specification():
    context = Context()
    context.pact_insert("d0, 1", Component({"a": [1]}, key="k", tags=["t", "u"], ttl=3, priority=2, role="tool", kind="result"))
    root = context.model_dump()["root"]
    waiting, times = [root], []
    while waiting:
        node = waiting.pop()
        assert list(node)[:10] == [
            "id",
            "nodeType",
            "parent_id",
            "offset",
            "ttl",
            "priority",
            "cycle",
            "created_at_ns",
            "created_at_iso",
            "creation_index",
        ]
        times.append(node["created_at_ns"])
        for child in node.get("children", []):
            assert child["parent_id"] == node["id"]
            waiting.append(child)

    assert root["parent_id"] is None
    assert [c["nodeType"] for c in root["children"]] == ["^sys", "^seq", "^ah"]
    assert len(set(times)) == len(times)
    assert (context["#k"].tags, context["#k"].content, context["#k"].ttl, context["#k"].priority) == (["t", "u"], {"a": [1]}, 3, 2)


@pytest.mark.feature("context.tree.headers")
def test_content_that_was_read_or_given_cannot_change_the_tree():
    given = {"a": [1]}
    context = Context()
    context.pact_insert("d0, 1", Component(given))
    given["a"].append(2)
    context["d0, 1"].content["a"].append(3)

    assert context["d0, 1"].content == {"a": [1]}


@pytest.mark.feature("context.tree.content-hash")
def test_the_content_hash_is_sha256_of_canonical_json():
    context = Context()
    context.pact_insert("d0, 1", Component("é", attributes={"data_b": 1, "content_a": None, "other": 5}))

    # sha256 of {"content":"\u00e9","content_a":null,"data_b":1}
    import hashlib

    expected = hashlib.sha256(b'{"content":"\\u00e9","content_a":null,"data_b":1}').hexdigest()
    assert context["d0, 1"].content_hash == expected


@pytest.mark.feature("context.tree.odi")
def test_a_key_lives_once_at_a_height():
    context = Context()
    context.pact_insert("d0, 1", TextContent("old", key="k"))
    with pytest.raises(errors.OverlapWouldViolateODI) as caught:
        context.pact_insert("d0, 2", TextContent("new", key="k"))
    assert caught.value.body()["error"]["code"] == "OverlapWouldViolateODI"
    context.add_user("hello")
    context.commit()
    context.pact_insert("d0, 2", TextContent("new", key="k"))

    assert context.get_by_key("k").content == "new"
    assert [n.depth for n in context.find("#k")] == [1, 0]
    assert context.get_by_key("nobody") is None


@pytest.mark.feature("context.tree.tags")
def test_tags_are_all_or_any():
    context = Context()
    context.pact_insert("d0, 1", TextContent("ab", tags=["a", "b"]))
    context.pact_insert("d0, 2", TextContent("a", tags=["a"]))

    assert [n.content for n in context.get_by_tags(["a", "b"])] == ["ab"]
    assert [n.content for n in context.get_by_tags(["b", "a"], match="any")] == ["ab", "a"]
    assert context.get_by_tags(["x"]) == []


@pytest.mark.feature("context.tree.update")
def test_update_keeps_the_id_and_append_stands_behind():
    context = Context()
    context.pact_insert("d0, 1", TextContent("old", key="k"))
    node = context["#k"]
    context.pact_update("#k", content="new")
    assert (context["#k"].id, context["#k"].content, node.content) == (node.id, "new", "old")
    context.pact_update("d0, 1", TextContent("replaced"))
    assert (context["d0, 1"].id, context["d0, 1"].content, context.get_by_key("k")) == (node.id, "replaced", None)
    context.pact_update("d0, 1", TextContent("behind"), mode="append")
    assert contents(context, "d0") == [(1, "replaced"), (2, "behind")]
    with pytest.raises(errors.InvalidPlacement, match="Invalid mode: both"):
        context.pact_update("d0, 1", content="x", mode="both")


@pytest.mark.feature("context.tree.delete")
def test_a_call_goes_with_its_result():
    context = Context()
    for kind in ("call", "result"):
        context.add(Component("x", kind=kind, attributes={"tool_call_id": "c"}))
    context.pact_delete("{kind='call'}")

    assert context.find(".block") == []
    with pytest.raises(KeyError, match="nothing to delete"):
        context.pact_delete(key="nobody")
    with pytest.raises(errors.InvalidPlacement, match="cannot be deleted"):
        context.pact_delete("d0, 0")


@pytest.mark.feature("context.tree.sealed-core")
def test_the_core_of_a_sealed_turn_cannot_change_and_a_correction_beside_it_can():
    context = Context()
    context.add_user("said")
    context.commit()

    for change in (
        lambda: context.pact_update("d1, 0, 0", content="other"),
        lambda: context.pact_delete("d1, 0, 0"),
        lambda: context.pact_insert("d1, 0, 0", "x"),
    ):
        with pytest.raises(errors.ConflictingUpdate, match="sealed"):
            change()
    context.pact_insert("d1, 1", "a correction")
    assert context["d1, 1"].content == "a correction"


@pytest.mark.feature("context.tree.depths")
def test_a_commit_moves_turns_and_keeps_what_is_attached_to_them():
    context = Context()
    context.add_user("one")
    context.pact_insert("d0, 1", "note one")
    turn = context[0].id
    context.commit()
    context.add_user("two")
    context.commit()

    assert len(context) == 3
    assert context[2].id == turn
    assert [context[d, 0, 0].content for d in (1, 2)] == ["two", "one"]
    assert context["d2, 1"].content == "note one"
    assert context["d2, 1"].depth == 2


@pytest.mark.feature("history.render")
@pytest.mark.feature("context.tree.thread")
def test_the_thread_is_system_then_turns_then_head():
    context = Context()
    context.add_system("be kind")
    context.add_user("one")
    context.pact_insert("d0, -1", TextContent("hint", role="system"))
    context.add_assistant("answer")
    context.commit()
    context.add_user("two")

    assert [(b["role"], b["content"]) for b in context.provider_thread()] == [
        ("system", "be kind"),
        ("system", "hint"),
        ("user", "one"),
        ("assistant", "answer"),
        ("user", "two"),
    ]


@pytest.mark.feature("history.export")
@pytest.mark.feature("context.tree.json")
def test_a_context_goes_through_json_without_loss():
    context = Context()
    context.add_system("be kind")
    context.add_user("one", tags=["t"])
    context.pact_insert("d0, -1", Component([1, {"x": None}], key="k", ttl=2, attributes={"data_x": 1}))
    context.pact_insert("d0, 1", TextContent("sticky", ttl=1, cad=1))
    context.seal("x")
    again = Context.from_snapshot(json.loads(context.to_json()))

    assert again.to_json() == context.to_json()
    assert again.current_episode == 1
    for copy in (context, again):
        copy.commit()
        copy.add_user("two")
    assert [b["content"] for b in again.provider_thread()] == [b["content"] for b in context.provider_thread()]


@pytest.mark.feature("history.version")
@pytest.mark.feature("context.tree.bad-input")
def test_trees_that_cannot_be_are_refused():
    good = Context().model_dump()

    def broken(change):
        data = json.loads(json.dumps(good))
        change(data)
        return data

    head = 2
    cases = [
        (SchemaTooNew, lambda d: d.update(spec_version="PACT/2.0.0")),
        (SchemaTooNew, lambda d: d.update(schema=99)),
        (errors.DuplicateContainer, lambda d: d["root"]["children"][head]["children"].append({"id": "x", "nodeType": "cont", "offset": 0})),
        (errors.DuplicateContainer, lambda d: d["root"]["children"].append({"id": "x", "nodeType": "^ah"})),
        (errors.ConflictingUpdate, lambda d: d["root"]["children"].append({"id": "sys", "nodeType": "block"})),
        (errors.ParentMissing, lambda d: d["root"]["children"][0].update(children=[{"id": "x", "parent_id": "elsewhere"}])),
        (errors.InvalidPlacement, lambda d: d["root"]["children"][0].update(children=[{"id": "x", "offset": 10**9}])),
        (errors.InvalidLifecycle, lambda d: d["root"]["children"][0].update(children=[{"id": "x", "ttl": -1}])),
        (errors.InvalidPlacement, lambda d: d.pop("root")),
    ]
    for error, change in cases:
        with pytest.raises(error):
            Context.from_snapshot(broken(change))
    assert issubclass(errors.DuplicateContainer, CtxError)


@pytest.mark.feature("tree.insert-sentinels")
@pytest.mark.feature("context.tree.insertion-points")
@pytest.mark.parametrize(
    ("point", "words"),
    [
        ("(d0, seg, cont[offset=0], )", ["new", "a", "b", "c"]),
        ("(d0, cont, end)", ["a", "b", "c", "new"]),
        ("(d0, seg, cont, +1)", ["a", "b", "new", "c"]),
        ("(d0, seg, cont, -1)", ["a", "new", "b", "c"]),
    ],
)
def test_insertion_points_of_the_specification(point, words):
    context = Context()
    for word in "abc":
        context.add_user(word)
    context.pact_insert(point, "new")

    assert [n.content for n in context["d0, 0"].children] == words


@pytest.mark.feature("tree.insert-sentinels")
@pytest.mark.feature("context.tree.insertion-points")
def test_insertion_points_of_a_turn_are_around_its_core():
    context = Context()
    context.pact_insert("d0, 1", "post")
    for point in ("(d0, seg, )", "(d0, seg, end)", "(d0, seg, +0)"):
        context.pact_insert(point, point)

    assert contents(context, "d0") == [(-1, "(d0, seg, )"), (1, "(d0, seg, +0)"), (2, "post"), (3, "(d0, seg, end)")]


@pytest.mark.feature("context.tree.bad-input")
@pytest.mark.parametrize(
    "broken",
    [
        *(None, [], 5, "x", "{", b"\xff", {"root": 5}, {"root": {}, "cycle": "z"}, {"root": {"lifecycle": 5}}, {"root": {"tag": 5}}),
        *(
            {"root": {}, "recurring": [5]},
            {"root": {"created_at_ns": 10**30}},
            {"root": {"children": [{"nodeType": "^ah", "children": [5]}]}},
        ),
        "[" * 100_000,
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_snapshot_is_refused_by_name(broken):
    with pytest.raises(errors.InvalidPlacement):
        Context.from_snapshot(broken)


@pytest.mark.feature("context.tree.json")
def test_a_context_comes_back_from_its_json_text():
    context = Context()
    context.add_user("hello")

    for text in (context.to_json(), context.to_json().encode()):
        assert Context.from_snapshot(text).to_json() == context.to_json()


def _at_one_clock(make):
    births = ReplayedBirths()
    births.at_ns = 5
    return make(empty(births))


@pytest.mark.feature("context.recorded")
@given(st.lists(st.booleans(), max_size=150), st.integers(0, 150), st.data())
def test_blocks_added_and_taken_all_at_once_stand_as_one_after_the_other(system, first, data):
    blocks = [Component(f"text {n}", id=f"e{n}", kind="text", tags=("answer",)) for n in range(len(system))]

    def singly(tree):
        for block, above in zip(blocks, system, strict=True):
            tree = inserted(tree, (-1, 1_000_000) if above else (0, 0), block)[0]
        return tree

    single = _at_one_clock(singly)
    stamped = [single.nodes[block.id] for block in blocks]
    batch = _at_one_clock(lambda tree: appended(appended(tree, stamped[:first]), stamped[first:]))
    assert (dumped(batch, 1), batch.last_ns, batch.index) == (dumped(single, 1), single.last_ns, single.index)

    held = [record.id for record in stamped if record.parent_id != single.sys]
    gone = data.draw(st.lists(st.sampled_from(held), unique=True)) if held else []
    assert dumped(without_all(batch, gone), 1) == dumped(reduce(Tree.without, gone, single), 1)


@pytest.mark.feature("context.recorded")
def test_blocks_added_all_at_once_keep_ids_apart():
    tree = _at_one_clock(lambda tree: inserted(tree, (0, 0), Component("once", id="e1"))[0])

    with pytest.raises(errors.ConflictingUpdate, match="there is a node 'e1' already"):
        appended(tree, [tree.nodes["e1"]])


@pytest.mark.feature("context.recorded")
def test_blocks_with_something_attached_are_taken_one_after_the_other():
    context = Context()
    for place in ("d0, -1", "d0, 1", "d0, 2", "d0, 3"):
        context.pact_insert(place, TextContent(place, key=f"key {place}"))
    tree = context._tree
    gone = [node.id for node in context["d0"].children if node.offset in (-1, 1, 3)]

    assert dumped(without_all(tree, gone), 1) == dumped(reduce(Tree.without, gone, tree), 1)
    assert without_all(tree, []) is tree
