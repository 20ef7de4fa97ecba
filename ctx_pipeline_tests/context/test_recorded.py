"""Recorded events played again as context trees."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ctx_pipeline.context.recorded import replay_window
from ctx_pipeline.context.tree.tree import Tree
from ctx_pipeline.model.host_records import OUT, SYSTEM, TURN, Change
from ctx_pipeline.tokens.tokenizers import FallbackWordCountTokenizer

WORDS = FallbackWordCountTokenizer(1)


def event(seq, kind, text, call_id=None, *, call_key=None, parent=None, subtype=None):
    return SimpleNamespace(
        event_id=f"e{seq}",
        seq=seq,
        kind=kind,
        text=text,
        call_id=call_id,
        call_key=call_key,
        parent_id=parent,
        subtype=subtype,
        ts=1_700_000_000_000_000 + seq * 1_000_000,
    )


EVENTS = [
    event(0, "session_start", None),
    event(1, "prompt", "mend it"),
    event(2, "tool_call", "ls", "c1", call_key="k1"),
    event(3, "tool_result", "a.py", "c1"),
    event(4, "answer", "done", call_key="k2"),
    event(5, "prompt", "and now"),
    event(6, "compaction", "so far: mended"),
    event(7, "answer", "all good", call_key="k3"),
]


def said(context):
    return [b["content"] for b in context.provider_thread()]


def shown(recording):
    return [(m.trigger, said(recording.history.at_snapshot(m.episode))) for m in recording.moments]


@pytest.mark.feature("context.recorded")
def test_a_window_is_there_at_every_turn_and_around_a_compaction():
    recording = replay_window(EVENTS)
    history = recording.history

    assert shown(recording) == [
        ("turn:1", ["mend it", "ls", "a.py", "done"]),
        ("before-compaction:1", ["mend it", "ls", "a.py", "done", "and now"]),
        ("after-compaction:1", ["so far: mended"]),
        ("end", ["so far: mended", "all good"]),
    ]
    before = history.at_snapshot(2)
    assert before["d1, 0, 1"].kind == "call"
    assert before.select("+tool_result") == ["e3"]
    assert history.diff(2, 3, ".block") == {"added": ["e6"], "removed": ["e1", "e2", "e3", "e4", "e5"], "changed": []}


@pytest.mark.feature("history.of-a-session")
def test_a_window_can_be_had_at_any_event():
    assert said(replay_window(EVENTS, upto=3).history.at_snapshot(1)) == ["mend it", "ls", "a.py"]
    marked = replay_window(EVENTS, marks=(2,), before=(2,))
    assert shown(marked)[:2] == [("seen-by:2", ["mend it"]), ("2", ["mend it", "ls"])]
    assert [(m.seq, m.components) for m in marked.moments] == [(1, 1), (2, 2), (4, 4), (5, 5), (6, 1), (7, 2)]


@pytest.mark.feature("history.of-a-session")
def test_a_moment_has_the_time_and_the_place_of_its_event():
    recording = replay_window(EVENTS, upto=3)
    node = recording.history.at_snapshot(1)["d0, 0, 2"]

    assert recording.moments[-1].at == 1_700_000_003_000_000
    assert recording.history.snapshots[1]["created_at"] == 1_700_000_003.0
    assert (node.id, node.created_at_ns, node.attributes["data_seq"]) == ("e3", 1_700_000_003_000_000_000, 3)


@pytest.mark.feature("history.of-a-session")
def test_a_turn_ends_with_what_was_said_or_done_not_with_a_note_that_the_host_writes_later():
    late = [event(1, "prompt", "mend it"), event(2, "answer", "done"), event(90, "meta", "begun anew"), event(91, "prompt", "more")]

    assert next((m.trigger, m.at) for m in replay_window(late).moments) == ("turn:1", 1_700_000_002_000_000)


@pytest.mark.feature("history.unseen")
def test_what_was_billed_and_is_in_no_file_is_one_node():
    recording = replay_window(EVENTS, billed={"k1": 1002, "k2": 1013, "k3": 504}, tokenizer=WORDS)
    sizes = [recording.history.at_snapshot(m.episode)["#unseen"].attributes for m in recording.moments]

    # counted: before k1 "mend it"; before k2 also "ls" and "a.py"; before k3 the three words of the compaction
    assert [(c.seq, c.counted, c.unseen) for c in recording.calls] == [(2, 2, 1000), (4, 4, 1009), (7, 3, 501)]
    # a window right after a compaction has no call yet: its first one says how much is unseen
    assert sizes == [
        {"data_tokens": 1009, "data_billed": 1013},
        {"data_tokens": 1009, "data_billed": 1013},
        {"data_tokens": 501, "data_billed": 504},
        {"data_tokens": 501, "data_billed": 504},
    ]
    assert [m.tokens for m in recording.moments] == [5, 7, 3, 5]
    last = recording.history.at_snapshot(recording.moments[-1].episode)
    assert last["#unseen"].depth == -1
    assert said(last) == ["so far: mended", "all good"]


@pytest.mark.feature("history.unseen")
def test_nothing_is_unseen_where_more_was_counted_than_billed_and_no_node_where_nothing_was_billed():
    over = replay_window(EVENTS, billed={"k1": 1}, tokenizer=WORDS)

    assert over.moments[-1].sent.unseen == 0
    assert over.moments[-1].sent.counted == 2
    assert "#unseen" not in replay_window(EVENTS).history.at_snapshot(1)


@pytest.mark.feature("history.of-a-session")
def test_a_compaction_keeps_what_its_record_lists_and_the_newest_of_equal_texts():
    events = [
        event(0, "injected", "rules", subtype="base"),
        event(1, "prompt", "again"),
        event(2, "answer", "one"),
        event(3, "prompt", "again"),
        event(4, "answer", "two"),
        event(5, "compaction", None),
        event(6, "answer", "three"),
    ]
    change = Change("compaction", everything=True, kept=("again", "never said"))
    recording = replay_window(events, effect=lambda e: SYSTEM if e.seq == 0 else change if e.kind == "compaction" else TURN)
    before, after, now = recording.moments[-3:]

    assert said(recording.history.at_snapshot(after.episode)) == ["rules", "again"]
    assert recording.history.diff(before.episode, after.episode, ".block")["removed"] == ["e1", "e2", "e4"]
    assert said(recording.history.at_snapshot(now.episode)) == ["rules", "again", "three"]
    assert recording.history.at_snapshot(now.episode)["d-1, 0"].content == "rules"


@pytest.mark.feature("history.of-a-session")
def test_a_compaction_without_a_list_can_keep_the_prompts():
    keeping = Change("compaction", everything=True, keeps_prompts=True, text="summary")
    recording = replay_window(EVENTS, effect=lambda e: keeping if e.kind == "compaction" else TURN if e.text else OUT)

    assert shown(recording)[2] == ("after-compaction:1", ["mend it", "and now", "summary"])


@pytest.mark.feature("history.of-a-session")
def test_a_summary_behind_the_boundary_belongs_to_the_window_after_it():
    events = [*EVENTS[:6], event(6, "compaction", "{}"), event(7, "injected", "the story so far"), event(8, "answer", "on")]
    boundary = Change("compaction", everything=True)
    recording = replay_window(events, effect=lambda e: boundary if e.kind == "compaction" else TURN if e.text else OUT)

    assert shown(recording)[2:] == [("after-compaction:1", ["the story so far"]), ("end", ["the story so far", "on"])]


@pytest.mark.feature("history.of-a-session")
def test_results_that_the_host_blanked_are_empty_and_their_calls_stay():
    events = [*EVENTS[:5], event(5, "compaction", "{}"), event(6, "prompt", "go on")]
    clearing = Change("clearing", results=("c1", "unknown"))
    recording = replay_window(events, effect=lambda e: clearing if e.kind == "compaction" else TURN if e.text else OUT, tokenizer=WORDS)
    before, after = recording.moments[:2]

    assert (before.trigger, after.trigger) == ("before-clearing:1", "after-clearing:1")
    assert said(recording.history.at_snapshot(after.episode)) == ["mend it", "ls", "", "done"]
    assert (before.tokens, after.tokens) == (5, 4)
    assert recording.history.at_snapshot(after.episode).select("+cleared") == ["e3"]
    [change] = recording.history.diff(before.episode, after.episode)["changed"]
    assert (change["id"], change["delta"]["data_tokens"]) == ("e3", {"from": 1, "to": 0})


@pytest.mark.feature("history.of-a-session")
@pytest.mark.parametrize(("turns", "left"), [(1, ["one", "a"]), (2, []), (9, [])])
def test_turns_that_were_rolled_back_are_gone(turns, left):
    events = [
        event(0, "prompt", "one"),
        event(1, "answer", "a"),
        event(2, "prompt", "two"),
        event(3, "answer", "b"),
        event(4, "attachment", "{}"),
    ]
    back = Change("rollback", turns=turns)
    recording = replay_window(events, effect=lambda e: back if e.seq == 4 else TURN)

    assert shown(recording)[-1] == ("end", left)


@pytest.mark.feature("history.of-a-session")
def test_a_prompt_that_answers_an_earlier_turn_takes_back_those_in_between():
    events = [
        event(0, "prompt", "one"),
        event(1, "answer", "a", parent="e0"),
        event(2, "prompt", "wrong", parent="e1"),
        event(3, "answer", "b", parent="e2"),
        event(4, "prompt", "right", parent="e1"),
        event(5, "answer", "c", parent="e4"),
        event(6, "prompt", "wrong after all", parent="e3"),
    ]
    recording = replay_window(events)

    assert shown(recording)[-5:] == [
        ("before-rewind:1", ["one", "a", "wrong", "b"]),
        ("turn:2", ["one", "a"]),
        ("before-rewind:2", ["one", "a", "right", "c"]),
        ("turn:3", ["one", "a", "wrong", "b"]),
        ("end", ["one", "a", "wrong", "b", "wrong after all"]),
    ]


@pytest.mark.feature("history.of-a-session")
def test_playing_the_same_events_again_gives_the_same_bytes():
    one, two = (replay_window(EVENTS, billed={"k1": 9}, tokenizer=WORDS).history for _ in range(2))

    assert [one.at_snapshot(n).to_json() for n in one.snapshots] == [two.at_snapshot(n).to_json() for n in two.snapshots]


@pytest.mark.feature("history.of-a-session")
def test_a_thread_without_events_has_an_empty_window():
    recording = replay_window([])

    assert [(m.trigger, m.seq, m.components, m.sent) for m in recording.moments] == [("end", -1, 0, None)]
    assert said(recording.history.at_snapshot(1)) == []


@pytest.mark.feature("context.recorded")
def test_prompts_without_an_answer_stand_in_one_turn_until_somebody_answers():
    events = [event(0, "prompt", "a"), event(1, "prompt", "b"), event(2, "answer", "c"), event(3, "prompt", "d"), event(4, "prompt", "e")]

    assert shown(replay_window(events)) == [("turn:1", ["a", "b", "c"]), ("end", ["a", "b", "c", "d", "e"])]
    # taken back to the turn that was answered: the next prompt begins a turn of its own
    back = [*events[:3], event(3, "prompt", "d"), event(4, "answer", "e"), event(5, "prompt", "f", parent="e2")]
    assert shown(replay_window(back))[-2:] == [("turn:2", ["a", "b", "c"]), ("end", ["a", "b", "c", "f"])]


@pytest.mark.feature("history.unseen")
def test_a_moment_is_measured_by_the_last_call_of_its_window_else_by_its_first():
    events = [
        event(0, "prompt", "a"),
        event(1, "answer", "b", call_key="k1"),
        event(2, "prompt", "c"),
        event(3, "answer", "d", call_key="k2"),
        event(4, "compaction", "so far"),
        event(5, "answer", "e", call_key="k3"),
        event(6, "compaction", "and so on"),
    ]
    recording = replay_window(events, billed={"k1": 10, "k2": 20, "k3": 30}, before=(1,))

    assert [(m.trigger, m.sent.billed) for m in recording.moments] == [
        ("seen-by:1", 10),
        ("turn:1", 10),
        ("before-compaction:1", 20),
        ("after-compaction:1", 30),
        ("before-compaction:2", 30),
        # no call of this window: the last one there was
        ("after-compaction:2", 30),
        ("end", 30),
    ]
    assert [m.sent for m in replay_window(events).moments] == [None] * 6


@pytest.mark.feature("context.recorded")
def test_a_compaction_that_lists_a_picture_keeps_no_empty_result():
    events = [
        event(0, "prompt", "a"),
        event(1, "tool_call", "ls", "c", call_key="k"),
        event(2, "tool_result", "", "c"),
        event(3, "answer", "b"),
    ]
    recording = replay_window(
        [*events, event(4, "compaction", None)],
        effect=lambda e: Change("compaction", everything=True, kept=("", "a")) if e.seq == 4 else TURN,
    )

    assert [n.id for n in recording.history.at_snapshot(recording.moments[-1].episode).find(".block")] == ["e0"]


@pytest.mark.feature("context.recorded")
@pytest.mark.parametrize("before", [(), (150,)])
def test_what_only_adds_to_a_window_makes_no_tree_of_its_own(monkeypatch, before):
    """Two trees an event took a third of a second of CPU in a session of seven thousand."""
    made = []
    plain = Tree.__init__
    monkeypatch.setattr(Tree, "__init__", lambda tree, *given, **named: (made.append(tree), plain(tree, *given, **named))[1])

    def trees(events):
        made.clear()
        replay_window(events, before=before)
        return len(made)

    def turn(size):
        return [event(0, "prompt", "begin"), *(event(n, "answer", f"answer {n}") for n in range(1, size))]

    assert trees(turn(200)) == trees(turn(2_000)) > 0
    taken = [*turn(2_000), event(2_000, "compaction", "so far"), event(2_001, "answer", "on")]
    assert trees(taken) < trees(turn(2_000)) + 10
