"""The selector language over small trees.

The fixtures PACT_*, and what they are expected to give, are the canonical tests of the PACT
specification (github.com/earldennison/PACT-spec, 02 §12.8 and §12.9, 04 §6.2 and §6.3;
Apache-2.0), typed again; see docs/context.md for where the specification contradicts itself.
"""

from __future__ import annotations

import json
import time

import pytest

from ctx_pipeline import Component, Context, TextContent
from ctx_pipeline.context.errors import InvalidSelector, UnknownSnapshot
from ctx_pipeline.context.tree.selectors import parsing as expression
from ctx_pipeline.context.tree.selectors.operators import OPERATORS


def block(name, content, role="user", **fields):
    return {"id": name, "role": role, "kind": "text", "offset": 0, "content": content, **fields}


def typed(name, content, **fields):
    return {"id": name, "nodeType": "block", "kind": "text", "offset": 0, "content": content, **fields}


def tree(sys, turns, head):
    """Turns are lists of children, the oldest first."""
    seq = [{"id": name, "nodeType": kind, "children": children} for kind, name, children in turns]
    return {
        "spec_version": "PACT/1.0.0",
        "root": {
            "id": "root-1",
            "children": [
                {"id": "sys-1", "nodeType": "^sys", "children": sys},
                {"id": "seq-1", "nodeType": "^seq", "children": seq},
                {"id": "ah-1", "nodeType": "^ah", "children": head},
            ],
        },
    }


def cont(name, *children):
    return {"id": name, "nodeType": "cont", "children": list(children)}


PACT_THREAD = tree(
    [block("cb:sysA", "You are a helpful assistant.", "system")],
    [("mt", "mt:1", [block("cb:u1", "Hello")]), ("mt", "mt:2", [block("cb:a1", "Hi! How can I help?", "assistant")])],
    [block("cb:u2", "Summarize the above.")],
)
PACT_PRE_POST = tree(
    [block("cb:sysB", "System header B", "system")],
    [
        (
            "mt",
            "mt:10",
            [
                block("cb:pre1", "Pre-context hint", "system", offset=-1),
                block("cb:core1", "Hello with context"),
                block("cb:post1", "status: ok", "tool", kind="result", offset=1),
            ],
        )
    ],
    [
        block("cb:pre2", "AH pre", "system", offset=-1),
        block("cb:core2", "Working..."),
        block("cb:post2", "Interim note", "assistant", offset=1),
    ],
)
PACT_QUERIES = tree(
    [typed("block:sysA", "S")],
    [
        ("seg", "seg:1", [cont("cont:1", typed("block:u1", "U1", ttl=2)), cont("cont:2", typed("block:a1", "A1", ttl=1))]),
        ("seg", "seg:2", [cont("cont:3", typed("block:u2", "U2"))]),
    ],
    [typed("block:u3", "U3")],
)
PACT_TURNS = tree(
    [block("cb:sysA", "S", "system", nodeType="cb")],
    [
        ("mt", "mt:1", [block("cb:u1", "U1", nodeType="cb", ttl=2)]),
        ("mt", "mt:2", [block("cb:a1", "A1", "assistant", nodeType="cb", ttl=1)]),
    ],
    [block("cb:u2", "U2", nodeType="cb")],
)


@pytest.mark.feature("history.golden")
@pytest.mark.feature("context.pact.golden")
def test_the_provider_thread_of_the_specification():
    expected = [
        {"id": "cb:sysA", "role": "system", "kind": "text", "content": "You are a helpful assistant."},
        {"id": "cb:u1", "role": "user", "kind": "text", "content": "Hello"},
        {"id": "cb:a1", "role": "assistant", "kind": "text", "content": "Hi! How can I help?"},
        {"id": "cb:u2", "role": "user", "kind": "text", "content": "Summarize the above."},
    ]

    assert json.dumps(Context.from_snapshot(PACT_THREAD).provider_thread()) == json.dumps(expected)


@pytest.mark.feature("tree.order")
@pytest.mark.feature("history.golden")
@pytest.mark.feature("context.pact.golden")
def test_the_provider_thread_with_pre_and_post_context():
    expected = [
        {"id": "cb:sysB", "role": "system", "kind": "text", "content": "System header B"},
        {"id": "cb:pre1", "role": "system", "kind": "text", "content": "Pre-context hint"},
        {"id": "cb:core1", "role": "user", "kind": "text", "content": "Hello with context"},
        {"id": "cb:post1", "role": "tool", "kind": "result", "content": "status: ok"},
        {"id": "cb:pre2", "role": "system", "kind": "text", "content": "AH pre"},
        {"id": "cb:core2", "role": "user", "kind": "text", "content": "Working..."},
        {"id": "cb:post2", "role": "assistant", "kind": "text", "content": "Interim note"},
    ]

    assert json.dumps(Context.from_snapshot(PACT_PRE_POST).provider_thread()) == json.dumps(expected)


@pytest.mark.feature("tree.order")
@pytest.mark.feature("tree.spec-examples")
@pytest.mark.feature("context.pact.golden")
@pytest.mark.parametrize(
    ("fixture", "selector", "expected"),
    [
        (PACT_QUERIES, "@t0 ^sys .block", ["block:sysA"]),
        (PACT_QUERIES, "@t0 .seg", ["seg:1", "seg:2"]),
        (PACT_QUERIES, "@t0 .seg .cont > .block", ["block:u1", "block:a1", "block:u2"]),
        (PACT_QUERIES, '@t0 {id="block:u2"}', ["block:u2"]),
        (PACT_QUERIES, "@t0 #block:u2", []),
        (PACT_TURNS, "@t0 ^sys .cb", ["cb:sysA"]),
        (PACT_TURNS, "@t0 ^seq .mt:depth(1)", ["mt:2"]),
        (PACT_TURNS, "@t0 ^seq .mt:depth(1,2)", ["mt:1", "mt:2"]),
        (PACT_TURNS, "@t0 ^seq .mt:depth(1-2) .mc > .cb", ["cb:u1", "cb:a1"]),
        (PACT_TURNS, "^root .cb[ttl<=1]", ["cb:a1"]),
    ],
)
def test_the_canonical_selectors_of_the_specification(fixture, selector, expected):
    assert Context.from_snapshot(fixture).select(selector) == expected


@pytest.mark.feature("context.pact.golden")
@pytest.mark.parametrize("fixture", [PACT_THREAD, PACT_PRE_POST, PACT_TURNS])
def test_a_foreign_tree_is_written_as_it_was_read(fixture):
    assert Context.from_snapshot(fixture).model_dump()["root"] == fixture["root"]


@pytest.fixture
def talk():
    """Two sealed turns and a head; keys and tags as the ids say."""
    context = Context()
    context.add_system("rules", id="rules", key="rules")
    for number, word in ((1, "one"), (2, "two")):
        context.add_user(word, id=f"u{number}", tags=["user"])
        context.add_assistant(f"{word}!", id=f"a{number}", tags=["assistant"])
        context.pact_insert("d0, -1", TextContent("hint", id=f"pre{number}", ttl=9, attributes={"topic": f"t{number}"}))
        context.pact_insert("d0, 1", Component("sum", id=f"sum{number}", node_type="summary", priority=number, tags=["user", "old"]))
        context.commit()
    context.add_user("three", id="u3", tags=["user"])
    context.pact_insert("d0, 1", TextContent("post", id="post3", key="hero banner", ttl=1))
    return context


@pytest.mark.feature("tree.selector-controls")
@pytest.mark.feature("tree.selector-unions")
@pytest.mark.feature("tree.selector-combinators")
@pytest.mark.feature("tree.selector-predicates")
@pytest.mark.feature("tree.selector-types")
@pytest.mark.feature("context.selectors.language")
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("^sys .block", ["rules"]),
        ("^ah .block", ["u3", "post3"]),
        ("^ah > .block", ["post3"]),
        ("^ah > .cont > .block", ["u3"]),
        ("^ah :pre .block", []),
        ("^seq :pre .block", ["pre1", "pre2"]),
        ("^seq .block:post", ["a1", "sum1", "a2", "sum2"]),
        (".block:core", ["rules", "u1", "u2", "u3"]),
        ("(d1, .block) +user", ["u2", "sum2"]),
        ("( d1..d2, .block ) +user +old", ["sum1", "sum2"]),
        ("d1..d2 .summary", ["sum1", "sum2"]),
        ("d1..* .block +assistant", ["a1", "a2"]),
        ("(d0..d*, .block) +assistant", ["a1", "a2"]),
        (".block:summary", ["sum1", "sum2"]),
        (".block[nodeType='summary']", ["sum1", "sum2"]),
        ("(d2,0,1)", ["a1"]),
        ("d2, 0, 1", ["a1"]),
        ("((d1,0,0),(d2,0,1))", ["a1", "u2"]),
        ("(d1, -1)", ["pre2"]),
        ("(d1, -1..1, first)", ["u2"]),
        ("(d1, cont, *:block)", ["u2", "a2"]),
        ("(d1, cont[offset=0], last)", ["a2"]),
        ("(d1, seg, all)", ["pre2", None, "sum2"]),
        ("#rules", ["rules"]),
        ("#'hero banner'", ["post3"]),
        ("#'hero:FIRST'", []),
        ("#rules:first", ["rules"]),
        ("#rules:post", []),
        ("+user:first", ["u1", "sum1", "u2", "sum2", "u3"]),
        (".block:of-my-own", []),
        (".block[never_given=1]", []),
        (".block[ttl='9']", ["pre1", "pre2"]),
        ("{key='hero banner'}", ["post3"]),
        ("{key in ['rules', 'x']}", ["rules"]),
        ("{topic='t2'}", ["pre2"]),
        (".block{topic='t1'}[ttl=9]", ["pre1"]),
        (".block[topic!='t1' ttl=9]", ["pre2"]),
        (".block(priority=2 nodeType='summary')", ["sum2"]),
        ("^root .block[ttl=null] +assistant", ["a1", "a2"]),
        (".block[ephemeral]", ["post3"]),
        (".block[priority>=1][priority<2]", ["sum1"]),
        ("^seq .seg .block:first", ["pre1", "pre2"]),
        ("^seq .seg .block:nth(2)", ["u1", "u2"]),
        ("^seq .seg > .block:last", ["sum1", "sum2"]),
        ("{id~='^a[12]$'}", ["a1", "a2"]),
        ("^ah .block, ^sys .block", ["u3", "post3", "rules"]),
        ("+assistant, {id='a2'}, +assistant", ["a1", "a2"]),
        ("(d9) ?? (d0, 1)", ["post3"]),
        ("+user @limit=2", ["u1", "sum1"]),
        ("+user @offset=1 @limit=1", ["sum1"]),
        ("@limit=1 +user @order=newest", ["u3"]),
        ("@t0 .block[age=0]", ["u3", "post3"]),
        ("*[nodeType='nothing']", []),
    ],
)
def test_what_a_selector_means(talk, selector, expected):
    found = talk.select(selector)

    assert len(found) == len(expected)
    assert [got for got, want in zip(found, expected, strict=True) if want is not None] == [want for want in expected if want is not None]


@pytest.mark.feature("tree.regions")
@pytest.mark.feature("context.selectors.aliases")
@pytest.mark.parametrize(
    ("one", "other"), [("^sys .block", "d-1 .block"), ("^ah .block", "depth(0) .block"), ("^seq .block", "d1..* .block")]
)
def test_regions_and_depths_select_the_same(talk, one, other):
    assert talk.select(one) == talk.select(other) != []


@pytest.mark.feature("tree.selector-controls")
@pytest.mark.feature("context.selectors.language")
def test_latest_keeps_the_newest_of_a_key():
    context = Context()
    for word in ("old", "new"):
        context.pact_insert("d0, 1", TextContent(word, key="k"))
        context.add_user("x")
        context.commit()

    assert [n.content for n in context.find("#k")] == ["old", "new"]
    assert [n.content for n in context.find("#k @mode=latest")] == ["new"]
    assert [n.content for n in context.find("#k @order=newest @first")] == ["new"]


@pytest.mark.feature("history.bad-input")
@pytest.mark.feature("tree.grammar")
@pytest.mark.feature("context.selectors.invalid")
@pytest.mark.parametrize(
    ("selector", "position"),
    [
        ("", 0),
        ("^nowhere", 0),
        ("^ah ..x", 4),
        (".block[ttl=]", 11),
        (".block[", 6),
        (".block >", 8),
        ("> .block", 0),
        ("{}", 1),
        (".block:nowhere(", 14),
        ("(x)", 1),
        ("(d0, ?)", 5),
        ("(d0,1,)", 6),
        ("(d3..d1)", 1),
        ("(d-2)", 1),
        (".block @nonsense", 6),
        (".block @limit=many", 6),
        (".block @mode=best", 6),
        ("@t0..@c3 .block", 5),
        ("@t0..@* .block", 5),
        ("@t+1 .block", 0),
        ("@t1 .block", 0),
        ("@t0..@t5 .block", 5),
        ("@t-1,@t2 .block", 5),
        ("d0..d-3 .block", 0),
        ("^seq .seg:depth(3-1)", 16),
        ("d-2 .block", 0),
        (".block:FIRST", 6),
        ("#rules:Nth", 6),
        ("+user:Post", 5),
        (".block[ttl=abc]", 11),
        (".block[ttl in [1, soon]]", 14),
        ("{priority>'high'}", 10),
        ("[age<2]", 1),
        (".block:nth(0)", 6),
        ("{id~='('}", 1),
        ("d" + "9" * 5000, 1),
        (".block[ttl<=" + "9" * 5000, 12),
    ],
)
def test_an_invalid_selector_says_where_and_what_to_do(talk, selector, position):
    with pytest.raises(InvalidSelector) as caught:
        talk.select(selector)

    assert caught.value.position == position
    assert caught.value.hint
    assert caught.value.body()["error"]["code"] == "INVALID_SELECTOR"


@pytest.fixture
def sealed():
    """A note that changes over three snapshots: made, rewritten, deleted; then another."""
    context = Context()
    context.pact_insert("d0, 1", TextContent("two days", id="note", key="k"))
    context.seal("one")
    context.pact_update("#k", content="three days", component=None)
    context.seal("two")
    context.pact_delete(key="k")
    context.pact_insert("d0, 1", TextContent("other", id="other"))
    context.seal("three")
    return context


@pytest.mark.feature("tree.time")
@pytest.mark.feature("context.selectors.time")
def test_a_selector_reads_the_past(sealed):
    assert sealed.select("@t-1 ^ah .block") == sealed.select("@t0 ^ah .block") == ["other"]
    assert sealed.select("@t-2 ^ah .block") == sealed.select("@t-3 ^ah .block") == ["note"]
    assert sealed["@t-3 #k"].content == "two days"
    assert sealed["@t-2 #k"].content == "three days"
    assert sealed.select("@* ^ah .block") == ["other", "note"]
    assert sealed.select("@c0 ^ah .block") == ["other"]
    with pytest.raises(UnknownSnapshot, match="nearest are @t-1, @t-2, @t-3"):
        sealed.select("@t-4 .block")
    with pytest.raises(UnknownSnapshot, match="nearest are @c0"):
        sealed.select("@c7 .block")


@pytest.mark.feature("tree.time")
@pytest.mark.feature("context.selectors.time")
@pytest.mark.parametrize("selector", ["@c0..@c9 .block", "@c5..@c9 .block", "@t-7..@t-9 .block", "@t-1,@t-9 .block"])
def test_a_range_that_begins_beyond_the_snapshots_is_not_an_empty_one(sealed, selector):
    with pytest.raises(UnknownSnapshot, match="nearest are"):
        sealed.select(selector)


@pytest.mark.feature("context.selectors.time")
def test_a_range_ends_at_the_oldest_snapshot(sealed):
    assert [s["label"] for s in sealed.select("@t-2..@t-9 .block")["snapshots"]] == ["@t-2", "@t-3"]
    assert [s["label"] for s in sealed.select("@c0..@c0 .block")["snapshots"]] == ["@c0"]


@pytest.mark.feature("history.range-diffs")
@pytest.mark.feature("context.selectors.time")
@pytest.mark.parametrize("selector", ["@t-3..@t-1 ^ah .block", "@t-1:@t-3 ^ah .block", "@t-1..-3 ^ah .block"])
def test_a_range_gives_differences_from_the_newest_to_the_oldest(sealed, selector):
    found = sealed.select(selector)

    assert [s["label"] for s in found["snapshots"]] == ["@t-1", "@t-2", "@t-3"]
    assert [
        (d["from"]["label"], d["to"]["label"], d["added_ids"], d["removed_ids"], [c["id"] for c in d["changed"]]) for d in found["diffs"]
    ] == [
        ("@t-1", "@t-2", ["other"], ["note"], []),
        ("@t-2", "@t-3", [], [], ["note"]),
    ]
    assert (found["query"], found["mode"]) == (selector, "pairwise")


@pytest.mark.feature("history.range-diffs")
@pytest.mark.feature("context.selectors.time")
def test_history_is_everything_and_a_pair_is_two(sealed):
    assert [s["label"] for s in sealed.select("@history .block")["snapshots"]] == ["@t0", "@t-1", "@t-2", "@t-3"]
    assert [s["label"] for s in sealed.select("@t-1,@t-3 .block")["snapshots"]] == ["@t-1", "@t-3"]
    assert sealed.select("@history .block", max_snapshots=2)["limits"] == {"maxSnapshots": 2, "truncated": True}


@pytest.mark.feature("context.selectors.content-diff")
def test_content_differences_have_the_shapes_of_the_specification(sealed):
    def diff(**options):
        return sealed.select("@t-2,@t-3 #k", include_content=True, **options)["diffs"][0]["changed"][0]["content_diff"]

    assert diff() == {
        "mode": "unified",
        "mime": "text/plain",
        "summary": {"bytesNewer": 10, "bytesOlder": 8, "identical": False, "truncated": False},
        "diff": "--- older(@t-3)/note\n+++ newer(@t-2)/note\n@@ -1 +1 @@\n-two days\n+three days\n",
    }
    assert diff(content_mode="tokens")["hunks"] == [
        {
            "from": {"start": 0, "end": 2},
            "to": {"start": 0, "end": 2},
            "ops": [{"op": "rep", "del": 1, "ins": ["three"]}, {"op": "keep", "count": 1}],
        }
    ]
    assert diff(content_mode="jsonpatch")["patch"] == [{"op": "replace", "path": "", "value": "three days"}]


@pytest.mark.feature("context.selectors.content-diff")
def test_a_json_patch_names_what_changed_inside():
    context = Context()
    context.pact_insert("d0, 1", Component({"plan": {"days": 2, "notes": []}}, key="k", kind="json"))
    context.seal("before")
    context.pact_update("#k", content={"plan": {"days": 3, "notes": ["use HND"]}})
    change = context.select("@t0..@t-1 #k", include_content=True, content_mode="jsonpatch")["diffs"][0]["changed"][0]

    assert change["content_diff"]["patch"] == [
        {"op": "replace", "path": "/plan/days", "value": 3},
        {"op": "add", "path": "/plan/notes/-", "value": "use HND"},
    ]
    assert change["fields"] == ["content_hash"]


@pytest.mark.feature("context.selectors.invalid")
@pytest.mark.parametrize("selector", [{}, [], {"a": 1}, None, b".block"], ids=repr)
def test_what_is_no_text_is_an_invalid_selector(selector):
    with pytest.raises(InvalidSelector, match="a selector is text"):
        Context().select(selector)


@pytest.mark.feature("context.selectors.expressions")
def test_a_pattern_that_goes_back_for_ever_in_other_engines_ends_at_once():
    context = Context()
    context.add_user("a" * 200_000 + "!", id="u1", tags=["a" * 5_000 + "!"])
    context.add_user("lone \ud800 a", id="u2")
    context.commit()
    began = time.monotonic()
    assert context.select("{content~='(a+)+$'}") == ["u2"]
    assert context.select("{tag~='(a+)+$'}") == []
    assert time.monotonic() - began < 20


@pytest.mark.feature("context.selectors.expressions")
@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\\1", "a" * 1_001])
def test_a_pattern_that_cannot_be_bounded_is_refused_with_its_place(talk, pattern):
    with pytest.raises(InvalidSelector) as caught:
        talk.select(f"{{content~='{pattern}'}}")
    assert caught.value.position == 1


@pytest.mark.feature("context.selectors.expressions")
def test_a_pattern_over_many_texts_ends_within_its_seconds(talk, monkeypatch):
    monkeypatch.setattr(expression, "SECONDS", 0.0)
    monkeypatch.setattr(expression, "_AT_ONCE", 1)
    with pytest.raises(InvalidSelector, match="took more than"):
        talk.select("{content~='o'}")


@pytest.mark.feature("context.selectors.operators")
def test_an_operator_is_one_entry_and_the_grammar_follows(monkeypatch):
    context = Context()
    context.add_user("alpha", id="a", tags=["red"])
    context.add_user("beta", id="b", tags=["blue"])
    caches = (expression._parse, expression._grammar)
    with pytest.raises(InvalidSelector):
        context.select("^ah .block{content^='al'}")

    begins = OPERATORS["="]._replace(
        sign="^=",
        test=lambda found, value: str(found).startswith(str(value)),
        of_tags=lambda tags, value: any(tag.startswith(value) for tag in tags),
        same=None,
        of_list="",
    )
    monkeypatch.setitem(OPERATORS, "^=", begins)
    for kept in caches:
        kept.cache_clear()
    try:
        assert list(context.select("^ah .block{content^='al'}")) == ["a"]
        assert list(context.select("^ah .block[tag^='bl']")) == ["b"]
        assert list(context.select("^ah .block{content='beta'}")) == ["b"]
        with pytest.raises(InvalidSelector, match="a list goes with"):
            context.select("^ah .block[content^=['al']]")
    finally:
        monkeypatch.undo()
        for kept in caches:
            kept.cache_clear()
