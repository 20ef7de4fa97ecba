"""What holds for every context, store and window, whatever is done to it."""

from __future__ import annotations

import json
import string
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctx_pipeline import Agent, Component, Context, ContextBuilder, ContextHistory, InMemoryMemory, SQLiteMemory, TextContent
from ctx_pipeline.context.errors import InvalidSelector, PactError, UnknownSnapshot
from ctx_pipeline.context.tree.selectors.parsing import parse
from ctx_pipeline.context.tree.tree import Row
from ctx_pipeline.errors import BudgetTooSmall
from ctx_pipeline.tokens.tokenizers import FallbackWordCountTokenizer

few = settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(few, max_examples=400)

WORDS = st.text(string.ascii_letters + "äß☃🦊 \n\"'\\", max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(WORDS, inside, max_size=3),
    max_leaves=6,
)
PLACES = st.sampled_from([(-1, 0), (-1, 2), (0, 1), (0, -1), (0, 0), (1, 1), (1, -1), (2, 1), (0, 3), (0, 0, 1)])
KEYS = st.none() | st.sampled_from(["a", "b"])
TAGS = st.lists(st.sampled_from(["x", "y", "z"]), max_size=2, unique=True)
OPERATIONS = st.one_of(
    st.tuples(st.just("insert"), PLACES, JSON, KEYS, TAGS, st.sampled_from([(None, None), (0, None), (2, None), (1, 1), (1, 2)])),
    st.tuples(st.just("say"), WORDS),
    st.tuples(st.just("answer"), WORDS),
    st.tuples(st.just("update"), st.integers(0, 9), JSON),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("seal"), st.sampled_from(["one", "two"])),
)
SCRIPTS = st.lists(OPERATIONS, min_size=1, max_size=14)


def do(context, operation):
    """Do one operation; one that the tree refuses changes nothing."""
    match operation:
        case ("insert", place, content, key, tags, (ttl, cad)):
            context.pact_insert(place, Component(content, key=key, tags=tags, ttl=ttl, cad=cad))
        case ("say", words):
            context.add_user(words)
        case ("answer", words):
            context.add_assistant(words)
        case ("update", number, content):
            context.pact_update(f"{{id='{nth(context, number)}'}}", content=content)
        case ("delete", number):
            context.pact_delete(id=nth(context, number))
        case ("commit",):
            context.commit()
        case ("seal", trigger):
            context.seal(trigger)


def nth(context, number):
    blocks = context.select(".block")
    return blocks[number % len(blocks)] if blocks else "nobody"


def replay_window(script, context):
    for operation in script:
        before = context.to_json()
        try:
            do(context, operation)
        except PactError:
            assert context.to_json() == before
    return context


@few
@given(SCRIPTS)
@pytest.mark.feature("history.export")
def test_every_context_goes_through_json_byte_for_byte(script):
    context = replay_window(script, Context())
    text = context.to_json()
    back = Context.from_snapshot(json.loads(text))

    assert back.to_json() == text
    assert back.provider_thread() == context.provider_thread()
    assert back.select("^root *") == context.select("^root *")
    assert [n.offset for n in back.find("^root *")] == [n.offset for n in context.find("^root *")]


@few
@given(SCRIPTS)
@pytest.mark.feature("history.at-snapshot")
def test_what_was_sealed_stays_as_it_was_whatever_happens_later(script):
    context, kept = Context(), {}
    for operation in script:
        replay_window([operation], context)
        kept.setdefault(context.seal("after"), context.to_json())

    assert {n: context.history.at_snapshot(n).to_json() for n in kept} == kept
    assert list(context.history.snapshots) == sorted(context.history.snapshots)
    assert len(set(context.history.snapshots)) == len(context.history)


@few
@given(SCRIPTS, st.data())
@pytest.mark.feature("history.cost")
def test_a_change_shares_all_that_it_does_not_touch(script, data):
    context = replay_window(script, Context())
    before = context._tree
    replay_window([data.draw(OPERATIONS.filter(lambda o: o[0] in {"insert", "say", "update"}))], context)
    after = context._tree

    touched = {k for k in after.nodes if before.nodes.get(k) is not after.nodes[k]}
    assert len(touched) <= 1
    assert sum(1 for k in after.kids if before.kids.get(k) is not after.kids[k]) <= 1


@few
@given(SCRIPTS)
@pytest.mark.feature("history.persistence")
def test_every_history_is_read_from_its_file_as_it_was(tmp_path_factory, script):
    path = tmp_path_factory.mktemp("history") / "history.jsonl"
    context = replay_window([*script, ("seal", "last")], Context(history=ContextHistory(path)))
    opened = ContextHistory(path)

    assert {n: s.copy() for n, s in opened.snapshots.items()} == {n: s.copy() for n, s in context.history.snapshots.items()}
    assert [opened.at_snapshot(n).to_json() for n in opened.snapshots] == [
        context.history.at_snapshot(n).to_json() for n in context.history.snapshots
    ]


def table(context):
    """Return id -> what differences compare of a node."""
    names = ("node_type", "ttl", "cad", "priority", "key", "role", "kind", "created_at_ns", "creation_index", "content_hash")
    return {
        n.id: {name: getattr(n, name) for name in names} | {"tag": n.tags, "parent": n.parent_id, "offset": n.offset}
        for n in context.find("^root *")
    }


def applied(rows, change, newer):
    """Return the rows of the older context with a difference done to them."""
    out = {k: dict(v) for k, v in rows.items() if k not in change["removed"]}
    out |= {k: newer[k] for k in change["added"]}
    for item in change["changed"]:
        row = out[item["id"]]
        for header, delta in item["delta"].items():
            name = "node_type" if header == "nodeType" else header
            assert row[name] == delta["from"]
            row[name] = delta["to"]
        if "parent_changed" in item:
            row["parent"] = item["parent_changed"]["new_parent_id"]
        if "offset_changed" in item:
            row["offset"] = item["offset_changed"]["new_offset"]
    return out


@few
@given(SCRIPTS, SCRIPTS)
@pytest.mark.feature("history.diff")
def test_a_difference_done_to_the_older_gives_the_newer(one, two):
    context = replay_window(one, Context())
    first = context.seal("first")
    replay_window(two, context)
    second = context.seal("second")
    history = context.history
    older, newer = table(history.at_snapshot(first)), table(history.at_snapshot(second))
    change, back = history.diff(first, second), history.diff(second, first)

    assert applied(older, change, newer) == newer
    assert applied(newer, back, older) == older
    assert (set(change["added"]), set(change["removed"])) == (set(back["removed"]), set(back["added"]))
    assert {c["id"] for c in change["changed"]} == {c["id"] for c in back["changed"]}
    assert history.diff(first, first) == {"added": [], "removed": [], "changed": []}


@few
@given(st.lists(WORDS.filter(str.strip), min_size=1, max_size=5), st.integers(1, 6))
@pytest.mark.feature("history.undo")
def test_redo_takes_back_what_undo_did(texts, steps):
    agent = Agent(lambda m: "ok")
    for text in texts:
        agent.context.seal("before")
        agent.call(text)
    states = [agent.context.model_dump()["root"]]
    for _ in range(steps):
        if agent.undo() is None:
            break
        states.append(agent.context.model_dump()["root"])
    for state in states[-2::-1]:
        assert agent.redo() is not None
        assert agent.context.model_dump()["root"] == state

    assert agent.redo() is None
    assert all(a != b for a, b in pairwise(states))


PIECES = st.sampled_from(
    [
        *(
            "^sys",
            "^ah",
            "^seq",
            "^root",
            ".seg",
            ".cont",
            ".block",
            "#a",
            "#b",
            "+x",
            "+y",
            "*",
            "d0",
            "d1",
            "d-1",
            "d1..d3",
            "(d0, 1)",
            "(d0)",
        ),
        *(" ", " ", " > ", ", ", " ?? ", ":pre", ":core", ":post", ":first", ":last", ":nth(2)", ":depth(1-2)", ":nth(0)"),
        *(
            "[ttl<=2]",
            "{key='a'}",
            "[priority>=0]",
            "{role=null}",
            "[:sticky]",
            "{tag in ['x']}",
            "[content~='a']",
            "(d0, -1)",
            "((d0,1),(d1,1))",
        ),
        *(
            "@t0 ",
            "@t-1 ",
            "@* ",
            "@t-2..@t0 ",
            "@history ",
            "@c1 ",
            " @limit=2",
            " @order=newest",
            " @mode=latest",
            " @first",
            " @limit=x",
        ),
        *("(", ")", "[", "]", "{", "}", "'", '"', "..", "9" * 30, "\\", "é", "\x00", "d", "#", "+", "@", "^", ":"),
    ]
)


@many
@given(st.lists(PIECES, max_size=7).map("".join) | st.text(max_size=20))
@pytest.mark.feature("tree.grammar")
def test_a_text_is_a_selector_or_an_error_with_its_place(text):
    refused = None
    try:
        query = parse(text)
    except InvalidSelector as error:
        refused = error
    if refused is None:
        assert query.text in {text, text.strip()}
    else:
        assert 0 <= refused.position <= len(text)
        assert refused.hint


def talk():
    context = Context()
    for n in range(3):
        context.pact_insert("d0, 1", TextContent(f"note {n}", key="a" if n == 1 else None, tags=["x", "y"][: n + 1], ttl=3))
        context.add_user(f"turn {n}")
        context.commit()
    context.add_user("now")
    return context


TALK = talk()


@many
@given(st.lists(PIECES, min_size=1, max_size=5).map("".join))
@pytest.mark.feature("tree.grammar")
def test_what_a_selector_finds_is_there_and_each_once(text):
    before = TALK.to_json()
    try:
        found = TALK.select(text)
    except (InvalidSelector, UnknownSnapshot):
        return
    assert TALK.to_json() == before
    if isinstance(found, dict):
        assert {"snapshots", "diffs", "mode"} <= set(found)
        return
    assert len(found) == len(set(found))
    assert TALK.select(text) == found
    if not text.lstrip().startswith("@"):
        assert set(found) <= set(TALK.select("^root *")) | set(TALK.select("^root"))


@few
@given(st.lists(st.tuples(st.sampled_from(["in", "out", "put"]), st.integers(0, 10**6), st.integers()), max_size=300))
@pytest.mark.feature("history.cost")
def test_a_shared_sequence_is_a_list(steps):
    row, expected, olds = Row(), [], []
    for what, at, item in steps:
        olds.append((row, list(expected)))
        if what == "in":
            place = at % (len(expected) + 1)
            row = row.inserted(place, item)
            expected.insert(place, item)
        elif expected:
            place = at % len(expected)
            if what == "out":
                row = row.removed(place)
                del expected[place]
            else:
                row = row.replaced(place, item)
                expected[place] = item

    assert list(row) == expected
    assert list(reversed(row)) == expected[::-1]
    assert [row[n] for n in range(len(row))] == expected
    assert all(list(old) == was for old, was in olds[-20:])
    assert all(expected[row.find(item)] == item for item in expected[:10])


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.uuids().map(str),
            "role": st.sampled_from(["system", "user", "assistant", "tool"]),
            "content": WORDS | st.lists(JSON, max_size=2),
        },
        optional={"name": WORDS, "metadata": st.dictionaries(WORDS, JSON, max_size=3), "timestamp": st.just("2024-01-01T00:00:00Z")},
    ),
    max_size=8,
)


@few
@given(MESSAGES, MESSAGES)
@pytest.mark.feature("context.stores.round-trip")
def test_stores_give_back_what_they_got(one, two):
    sqlite = SQLiteMemory(":memory:")
    for store in (InMemoryMemory(), sqlite):
        store.sync.save_context("s", one)
        store.sync.append_context("s", two)
        found = store.sync.load_context("s")
        assert [{k: m[k] for k in given} for m, given in zip(found, [*one, *two], strict=True)] == [*one, *two]
        assert store.sync.load_context("s", 3) == found[-3:]
    sqlite.close()


@few
@given(MESSAGES, st.integers(-5, 60), st.sampled_from(["truncate_oldest", "recent_only", "summarize_oldest"]), st.booleans())
@pytest.mark.feature("context.builder.result")
def test_a_window_never_exceeds_its_budget_and_repeats(messages, budget, strategy, pinned):
    texts = [{"id": m["id"], "role": m["role"], "content": m["content"] if isinstance(m["content"], str) else "part"} for m in messages]
    tokenizer = FallbackWordCountTokenizer(1)
    builder = ContextBuilder(tokenizer)
    options = {"pin_system": pinned} | ({"summarizer": lambda some: f"{len(some)} more"} if strategy == "summarize_oldest" else {})

    def build():
        return builder.build(texts, budget, strategy=strategy, strategy_opts=options)

    least = sum(tokenizer.count_tokens(m["content"]).count for m in texts if m["role"] == "system") if pinned else 0
    if least > max(budget, 0):
        with pytest.raises(BudgetTooSmall) as refused:
            build()
        assert refused.value.fields["minimum"] == least
        return
    result = build()
    assert result.total_tokens <= max(budget, 0)
    assert not pinned or {m["id"] for m in texts if m["role"] == "system"} <= {m["id"] for m in result.messages}
    kept = [m["id"] for m in result.messages if m["id"] in {t["id"] for t in texts}]
    assert [m["id"] for m in build().messages if m["id"] in kept] == kept
    assert len(kept) == len(set(kept))
