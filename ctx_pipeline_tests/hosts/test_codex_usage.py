"""Tokens of Codex threads are counted once."""

from __future__ import annotations

import pytest

from ctx_pipeline.hosts.codex import HOST
from ctx_pipeline.model.raw import SessionInput
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS
from ctx_pipeline_tests.factories import codex as make

T = make.THREAD


def calls(*streams, session=T):
    return [MODEL_CALLS.row(*row) for row in make.parse(*streams, session=session).model_calls]


def numbers(call):
    return (call.input, call.cache_read, call.cache_write_5m, call.output, call.reasoning, call.context_tokens)


@pytest.mark.feature("codex.usage")
def test_cached_tokens_leave_input_and_reasoning_stays_in_output():
    total = make.usage(1000, 600, 80, 30, cache_write_input_tokens=100)
    (call,) = calls(make.stream([make.meta(), make.context(1), make.tokens(5, total, total)]))
    assert numbers(call) == (300, 600, 100, 80, 30, 1000)
    assert (call.model, call.model_guessed, call.owner, call.rule, call.copy_of) == ("gpt-5.5", False, True, "own", None)
    assert call.call_key == f"{T}:1000.600.100.80.30"
    assert call.cost is None


@pytest.mark.feature("codex.usage")
@pytest.mark.feature("signals.wrong-numbers")
def test_a_repeated_event_and_one_of_rate_limits_alone_add_nothing():
    first, last = make.usage(1000, 600, 80), make.usage(1000, 600, 80)
    records = [
        make.meta(),
        make.context(1),
        make.tokens(2, None, None, {"primary": {"used_percent": 1.0}}),
        make.tokens(5, first, last),
        make.tokens(6, first, last, {"primary": {"used_percent": 2.0}}),
        make.tokens(9, make.usage(2500, 1600, 100), make.usage(1500, 1000, 20)),
        make.tokens(10, first, last),
    ]
    found = calls(make.stream(records))
    assert [numbers(c)[:4] for c in found] == [(400, 600, 0, 80), (500, 1000, 0, 20)]


@pytest.mark.feature("codex.usage")
def test_without_last_the_growth_counts_and_without_totals_the_last():
    records = [
        make.meta(),
        make.context(1),
        make.tokens(5, make.usage(1000, 600, 80), None),
        make.tokens(9, make.usage(2500, 1600, 100), None),
        make.tokens(12, None, make.usage(700, 0, 7)),
    ]
    assert [numbers(c)[:4] for c in calls(make.stream(records))] == [(400, 600, 0, 80), (500, 1000, 0, 20), (700, 0, 0, 7)]


@pytest.mark.feature("codex.usage")
def test_totals_that_fall_count_what_the_last_call_used():
    records = [
        make.meta(),
        make.context(1),
        make.tokens(5, make.usage(9000, 600, 80), make.usage(9000, 600, 80)),
        make.tokens(9, make.usage(500, 100, 10), make.usage(300, 100, 5)),
    ]
    assert [numbers(c)[:4] for c in calls(make.stream(records))] == [(8400, 600, 0, 80), (200, 100, 0, 5)]


@pytest.mark.feature("codex.models")
def test_the_model_is_that_of_the_latest_turn_and_guessed_where_none_was_written():
    one, two = make.usage(100, 0, 1), make.usage(200, 0, 2)
    switched = [make.meta(), make.context(1, "a"), make.tokens(2, one, one), make.context(3, "b"), make.tokens(4, two, one)]
    assert [(c.model, c.model_guessed) for c in calls(make.stream(switched))] == [("a", False), ("b", False)]
    (guessed,) = calls(make.stream([make.meta(), make.tokens(2, one, one)]))
    assert (guessed.model, guessed.model_guessed) == ("gpt-5", True)


def record(seconds, response, last, total, thread=T):
    body = {"thread_id": thread, "session_id": thread, "response_id": response, "usage": last, "thread_token_usage": total}
    return make.line(seconds, "token_usage_record", body)


@pytest.mark.feature("codex.usage-records")
def test_a_usage_record_replaces_the_event_beside_it_and_earlier_events_still_count():
    one, two, three = make.usage(100, 0, 1), make.usage(250, 0, 2), make.usage(450, 0, 3)
    records = [
        make.meta(),
        make.context(1, "m"),
        make.tokens(2, one, make.usage(100, 0, 1)),
        make.tokens(3, two, make.usage(150, 0, 1)),
        record(3.01, "resp_2", make.usage(150, 0, 1), two),
        record(4, "resp_3", make.usage(200, 0, 1), three),
        make.tokens(4.01, three, make.usage(200, 0, 1)),
        make.line(5, "compacted", {"message": "", "latest_token_usage_record": {"response_id": "resp_3", "usage": three}}),
        record(6, "resp_3", make.usage(200, 0, 1), three),
    ]
    assert [(c.call_key, c.input) for c in calls(make.stream(records))] == [
        (f"{T}:100.0.0.1.0", 100),
        ("resp_2", 150),
        ("resp_3", 200),
    ]


@pytest.mark.feature("codex.usage-records")
def test_a_record_of_another_thread_is_a_copy():
    one = make.usage(100, 0, 1)
    found = calls(make.stream([make.meta(), make.context(1), record(2, "resp_1", one, one, make.PARENT), record(9, "resp_2", one, one)]))
    assert [(c.call_key, c.owner, c.copy_of) for c in found] == [("resp_1", False, make.PARENT), ("resp_2", True, None)]


def history(count, *, begin=0.0, step=0.001, turn=-90_000.0):
    """The copied part of a fork: everything stamped within milliseconds."""
    records = [
        make.event(begin, "task_started", turn_id=make.turn_id(turn)),
        make.event(begin, "user_message", message="the parent's prompt"),
    ]
    for n in range(1, count + 1):
        now = begin + step * n
        records += [
            make.item(now, "function_call", name="exec_command", call_id=f"old_{n}", arguments='{"cmd":"ls"}'),
            make.item(now, "function_call_output", call_id=f"old_{n}", output="x"),
            make.tokens(now, make.usage(100_000 * n, 80_000 * n, 100 * n), make.usage(100_000, 80_000, 100)),
        ]
    return records


def fork(*own, count=54, **fields):
    head = [make.meta(**fields), make.meta(0.001, make.PARENT, timestamp=make.at(-100_000), session_id="root-of-parent")]
    return head + history(count, begin=0.002) + list(own)


OWN = (
    make.event(30, "user_message", message="go on"),
    make.tokens(40, make.usage(5_600_000, 4_450_000, 5_900), make.usage(200_000, 130_000, 500)),
)


@pytest.mark.feature("codex.fork-usage")
def test_a_fork_owns_only_what_it_used_itself():
    found = calls(make.stream(fork(*OWN, forked_from_id=make.PARENT)))
    own = [c for c in found if c.owner]
    assert [(c.input, c.cache_read, c.output) for c in own] == [(70_000, 130_000, 500)]
    assert own[0].call_key == f"{T}:5600000.4450000.0.5900.0"
    copies = [c for c in found if not c.owner]
    assert len(copies) == 54
    assert {(c.rule, c.copy_of) for c in copies} == {("replayed history", "root-of-parent")}
    assert copies[0].call_key == f"{make.PARENT}:100000.80000.0.100.0"


@pytest.mark.feature("codex.fork-usage")
def test_the_copies_have_the_keys_of_the_parents_own_calls():
    parent = make.stream(
        [make.meta(thread=make.PARENT), make.context(1), *history(3, begin=100, step=10)], make.PARENT, path=make.rel(make.PARENT)
    )
    keys = [c.call_key for c in calls(parent, session=make.PARENT)]
    assert [c.call_key for c in calls(make.stream(fork(count=3, forked_from_id=make.PARENT)))] == keys


@pytest.mark.feature("codex.fork-usage")
def test_a_copy_that_lasts_longer_than_a_second_is_still_one():
    found = calls(
        make.stream(
            [
                *fork(count=0, forked_from_id=make.PARENT),
                *history(40, begin=0.01, step=0.2),
                make.tokens(60, make.usage(9_000_000, 1, 1), make.usage(10, 0, 1)),
            ]
        )
    )
    assert [c.owner for c in found] == [False] * 40 + [True]


@pytest.mark.feature("codex.fork-usage")
def test_turns_older_than_the_thread_are_copied_though_the_copy_paused():
    pause = [
        make.event(5, "task_started", turn_id=make.turn_id(-80_000)),
        make.tokens(5.001, make.usage(700_000, 0, 9), make.usage(7, 0, 1)),
    ]
    own = [make.event(9, "task_started", turn_id=make.turn_id(9)), make.tokens(20, make.usage(700_100, 0, 10), make.usage(100, 0, 1))]
    found = calls(make.stream(fork(*pause, *own, count=2, forked_from_id=make.PARENT)))
    assert [c.owner for c in found] == [False, False, False, True]


@pytest.mark.feature("codex.fork-usage")
def test_a_fork_whose_totals_start_from_zero_owns_them():
    start = make.usage(5_000, 0, 10)
    records = [make.meta(forked_from_id=make.PARENT), make.event(1, "user_message", message="fresh"), make.tokens(9, start, start)]
    assert [(c.owner, c.input) for c in calls(make.stream(records))] == [(True, 5_000)]


@pytest.mark.feature("codex.fork-usage")
def test_a_spawned_thread_in_its_parents_session_keeps_call_keys_apart():
    source = {"subagent": {"thread_spawn": {"parent_thread_id": make.PARENT}}}
    parent = make.stream(
        [make.meta(thread=make.PARENT), make.context(1), *history(3, begin=100, step=10)], make.PARENT, path=make.rel(make.PARENT)
    )
    child = make.stream(fork(*OWN, count=3, source=source), number=2)
    assert child.parent_thread_id == make.PARENT
    found = calls(parent, child, session=make.PARENT)
    assert len({c.call_key for c in found}) == len(found) == 7
    assert [(c.thread_id == T, c.owner, c.copy_of) for c in found] == [(False, True, None)] * 3 + [(True, False, make.PARENT)] * 3 + [
        (True, True, None)
    ]


@pytest.mark.feature("usage.owner-same-totals")
def test_a_spawned_thread_whose_copy_was_written_slowly_owns_what_it_used_itself():
    source = {"subagent": {"thread_spawn": {"parent_thread_id": make.PARENT}}}
    sums = [make.usage(1_000 * n, 600 * n, 50 * n) for n in (1, 2, 3)]
    last = make.usage(1_000, 600, 50)
    parent = make.stream(
        [make.meta(-900, thread=make.PARENT), make.context(-899), *(make.tokens(-800 + n, total, last) for n, total in enumerate(sums))],
        make.PARENT,
        path=make.rel(make.PARENT),
    )
    copy = [make.tokens(0.4 * n, total, last) for n, total in enumerate(sums, 1)]
    child = make.stream([make.meta(source=source), *copy, make.tokens(60, make.usage(4_000, 2_400, 200), last)], number=2)
    found = [(c.thread_id == T, c.owner, c.copy_of) for c in calls(parent, child, session=make.PARENT)]
    assert found == [(False, True, None)] * 3 + [(True, False, make.PARENT)] * 3 + [(True, True, None)]


@pytest.mark.feature("codex.fork-events")
def test_replayed_history_is_neither_prompts_nor_tool_calls_again():
    source = {"subagent": {"thread_spawn": {"parent_thread_id": make.PARENT}}}
    own = [
        make.event(0.06, "task_started", turn_id=make.turn_id(0.06)),
        make.event(0.061, "user_message", message="look into it"),
        make.item(4, "function_call", name="exec_command", call_id="new", arguments='{"cmd":"ls"}'),
    ]
    parsed = make.parse(make.stream(fork(*own, source=source)))
    rows = [EVENTS.row(*e) for e in parsed.events]
    assert [(e.kind, e.text) for e in rows if e.subtype == "agent_prompt"] == [("subagent_start", "look into it")]
    assert not [e for e in rows if e.kind == "prompt"]
    assert len(parsed.tool_calls) == 1
    copied = [e for e in rows if e.subtype.startswith("replay/")]
    assert len(copied) == 1 + 2 + 54 * 2
    assert {(e.kind, e.text) for e in copied} == {("injected", None)}
    assert [e.seq for e in rows] == list(range(len(rows)))


@pytest.mark.feature("codex.resume")
def test_a_meta_written_again_at_resume_is_no_fork():
    one, two = make.usage(100, 0, 1), make.usage(250, 0, 2)
    records = [make.meta(), make.context(1), make.tokens(2, one, one), make.meta(50), make.tokens(52, two, make.usage(150, 0, 1))]
    parsed = make.parse(make.stream(records))
    assert [row[MODEL_CALLS.names.index("owner")] for row in parsed.model_calls] == [True, True]
    assert [(e[6], e[7]) for e in parsed.events if "meta" in e[7]] == [
        ("session_start", "session_meta"),
        ("attachment", "session_meta/resumed"),
    ]


@pytest.mark.feature("codex.usage")
def test_what_the_model_said_points_to_the_call_that_said_it():
    parsed = make.parse(make.stream(make.session()))
    rows = [EVENTS.row(*e) for e in parsed.events]
    said = [(e.kind, e.call_key) for e in rows if e.kind == "tool_call"]
    assert said == [("tool_call", f"{T}:1000.600.0.50.20"), ("tool_call", f"{T}:2000.1200.0.100.40")]
    assert {e.call_key for e in rows if e.kind in {"prompt", "tool_result"}} == {None}


def unsigned(*records):
    """A fork that says nothing of its parent: no second meta, no id, only its parent's lines, stamped anew."""
    return [make.meta(), *records]


@pytest.mark.feature("codex.unsigned-fork")
def test_a_copy_without_any_sign_is_known_by_two_calls_in_one_burst():
    own = [make.event(30, "user_message", message="go on"), *OWN]
    stream = make.stream(unsigned(*history(3)[1:], *own))
    found = calls(stream)
    assert [(c.owner, c.rule, c.copy_of) for c in found] == [(False, "replayed history", None)] * 3 + [(True, "own", None)]
    assert HOST.usage.read(SessionInput("codex", T, (stream,))) is None


@pytest.mark.feature("codex.unsigned-fork")
def test_a_copy_without_any_sign_is_known_by_a_turn_older_than_the_thread():
    old = make.event(0.01, "task_started", turn_id=make.turn_id(-90_000))
    stream = make.stream(unsigned(old, *history(1), make.event(30, "task_started", turn_id=make.turn_id(30)), *OWN))
    assert [c.owner for c in calls(stream)] == [False, True]
    assert HOST.usage.read(SessionInput("codex", T, (stream,))) is None


@pytest.mark.feature("codex.unsigned-fork")
@pytest.mark.parametrize("step", [0.3, 1, 20])
def test_calls_of_a_quick_thread_of_its_own_are_its_own(step: float):
    young = make.event(0.1, "task_started", turn_id=make.turn_id(0.1))
    found = calls(make.stream(unsigned(young, *history(4, begin=3, step=step, turn=3))))
    assert [c.owner for c in found] == [True] * 4


@pytest.mark.feature("codex.unsigned-fork")
def test_one_call_written_twice_is_no_burst():
    record = {"thread_id": T, "response_id": "r1", "usage": make.usage(9, 3, 1), "thread_token_usage": make.usage(9, 3, 1)}
    count = make.tokens(0.1, make.usage(9, 3, 1), make.usage(9, 3, 1))
    found = calls(make.stream(unsigned(count, make.line(0.11, "token_usage_record", record), *OWN)))
    assert [(c.owner, c.call_key) for c in found[:1]] == [(True, "r1")]
