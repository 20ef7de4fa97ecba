"""The four result fixtures of the PACT specification, typed again.

From github.com/earldennison/PACT-spec, folder ``fixtures`` (pair_basic, pair_jsonpatch,
range_pairwise_unified, range_tokens), Apache-2.0. Ids, labels, cycles, fields and shapes are
the specification's; hashes and byte counts, which it abbreviates, are worked out here. Where a
fixture leaves something out (the ranges of a unified hunk, ``"@@"``) the full form is expected.
"""

from __future__ import annotations

import hashlib
import json

import pytest

from ctx_pipeline import Component, Context, TextContent

pytestmark = [pytest.mark.feature("history.golden"), pytest.mark.feature("tree.spec-examples")]


def content_hash(content):
    text = json.dumps({"content": content}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def talk():
    """A context with one sealed turn, beside which components stand that may still change."""
    context = Context()
    context.add_user("plan a trip")
    context.commit()
    return context


def attach(context, name, content, *tags, kind="text"):
    context.pact_insert("d1, 1", Component(content, id=name, tags=tags, kind=kind))


def labels(refs):
    return [ref["label"] for ref in refs]


def test_pair_basic():
    context = talk()
    attach(context, "block:a2", "old plan", "assistant")
    attach(context, "block:a7", "2 days", "assistant")
    attach(context, "block:u1", "not of the assistant", "user")
    while context.cycle < 200:
        context.commit()
    context.pact_delete(id="block:a2")
    context.pact_update("{id='block:a7'}", content="3 days")
    context.pact_insert("{id='block:a7'}", Component("hotel", id="block:a9", tags=["assistant"]))
    context.pact_insert("{id='block:a9'}", Component("train", id="block:a12", tags=["assistant"]))
    context.pact_update("{id='block:u1'}", content="and this is not compared")
    while context.cycle < 204:
        context.commit()
    found = context.select("@t-1,@t-5 ^seq .seg .block +assistant")
    change = {k: v for k, v in found["changed"][0].items() if k in {"id", "fields", "delta"}}

    assert found["selector"] == "@t-1,@t-5 ^seq .seg .block +assistant"
    assert {k: found["from"][k] for k in ("label", "cycle")} == {"label": "@t-1", "cycle": 204}
    assert {k: found["to"][k] for k in ("label", "cycle")} == {"label": "@t-5", "cycle": 200}
    assert sorted(found["added_ids"]) == ["block:a12", "block:a9"]
    assert found["removed_ids"] == ["block:a2"]
    assert len(found["changed"]) == 1
    assert change["id"] == "block:a7"
    assert change["delta"]["content_hash"] == {"from": content_hash("2 days"), "to": content_hash("3 days")}
    assert found["stats"] == {"added": 2, "removed": 1, "changed": 1}
    # the same as the one difference of the list that ranges give
    assert found["diffs"] == [{k: found[k] for k in ("from", "to", "added_ids", "removed_ids", "changed", "stats")}]


def test_pair_jsonpatch():
    context = talk()
    attach(context, "block:tool:42", {"plan": {"kyotoDays": 2, "notes": ["fly"]}}, "tool", kind="json")
    attach(context, "block:tool:43", {"same": True}, "tool", kind="json")
    context.seal("@t-5")
    context.pact_update("{id='block:tool:42'}", content={"plan": {"kyotoDays": 3, "notes": ["fly", "use HND"]}})
    for _ in range(4):
        context.seal("later")
    selector = "@t-2,@t-5 ^seq .seg .block[kind='json'] +tool"
    found = context.select(selector, include_content=True, content_mode="jsonpatch")

    assert (found["selector"], labels([found["from"], found["to"]])) == (selector, ["@t-2", "@t-5"])
    assert (found["added_ids"], found["removed_ids"]) == ([], [])
    [change] = found["changed"]
    assert (change["id"], change["fields"], list(change["delta"])) == ("block:tool:42", ["content_hash"], ["content_hash"])
    # {"plan": {"kyotoDays": 3, "notes": ["fly", "use HND"]}} and {"plan": {"kyotoDays": 2, "notes": ["fly"]}}
    assert change["content_diff"] == {
        "mode": "jsonpatch",
        "mime": "application/json",
        "summary": {"bytesNewer": 55, "bytesOlder": 44, "identical": False, "truncated": False},
        "patch": [
            {"op": "replace", "path": "/plan/kyotoDays", "value": 3},
            {"op": "add", "path": "/plan/notes/-", "value": "use HND"},
        ],
    }


def test_range_pairwise_unified():
    context = Context()
    context.add_user("how long")
    context.add(TextContent("2 days in Kyoto", id="block:a:c121", role="assistant", tags=["assistant"]))
    old = context.add(TextContent("never mind", id="block:a:old", tags=["assistant"]))
    context.seal("@t-3")
    context.pact_delete(id=old.id)
    context.seal("@t-2")
    context.add(TextContent("one more thing", id="block:a:new", tags=["assistant"]))
    context.seal("@t-1")
    context.pact_update("{id='block:a:c121'}", content="3 days in Kyoto")
    found = context.select("@t-3..@t0 ^ah .cont > .block[kind='text'] +assistant", include_content=True)

    assert labels(found["snapshots"]) == ["@t0", "@t-1", "@t-2", "@t-3"]
    assert [(d["from"]["label"], d["to"]["label"], d["added_ids"], d["removed_ids"]) for d in found["diffs"]] == [
        ("@t0", "@t-1", [], []),
        ("@t-1", "@t-2", ["block:a:new"], []),
        ("@t-2", "@t-3", [], ["block:a:old"]),
    ]
    [change] = found["diffs"][0]["changed"]
    assert found["diffs"][1]["changed"] == []
    assert (change["id"], change["fields"]) == ("block:a:c121", ["content_hash"])
    assert change["delta"] == {"content_hash": {"from": content_hash("2 days in Kyoto"), "to": content_hash("3 days in Kyoto")}}
    assert change["content_diff"] == {
        "mode": "unified",
        "mime": "text/plain",
        "summary": {"bytesNewer": 15, "bytesOlder": 15, "identical": False, "truncated": False},
        "diff": "--- older(@t-1)/block:a:c121\n+++ newer(@t0)/block:a:c121\n@@ -1 +1 @@\n-2 days in Kyoto\n+3 days in Kyoto\n",
    }


def test_range_tokens():
    context = talk()
    attach(context, "block:text:9", "we all fly to Osaka in the early morning then")
    context.seal("@t-6")
    context.pact_update("{id='block:text:9'}", content="we all fly to Tokyo (HND) in the early morning then")
    for _ in range(5):
        context.seal("later")
    found = context.select("@t-4..@t-6 ^seq .seg .block[kind='text']", include_content=True, content_mode="tokens")

    assert labels(found["snapshots"]) == ["@t-4", "@t-5", "@t-6"]
    assert [len(d["changed"]) for d in found["diffs"]] == [0, 1]
    [change] = found["diffs"][1]["changed"]
    assert (change["id"], change["fields"]) == ("block:text:9", ["content_hash"])
    assert change["content_diff"] == {
        "mode": "tokens",
        "mime": "text/plain",
        "tokenizer": "word",
        "summary": {"tokensNewer": 11, "tokensOlder": 10, "identical": False, "truncated": False},
        "hunks": [
            {
                "from": {"start": 0, "end": 11},
                "to": {"start": 0, "end": 10},
                "ops": [{"op": "keep", "count": 4}, {"op": "rep", "del": 1, "ins": ["Tokyo", "(HND)"]}, {"op": "keep", "count": 5}],
            }
        ],
    }
