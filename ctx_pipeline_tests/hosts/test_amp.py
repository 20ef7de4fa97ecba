"""Threads of Amp: usage of the ledger or of the messages, never of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline.hosts.amp import HOST
from ctx_pipeline.hosts.amp.thread import tokens_of
from ctx_pipeline.model.host_records import BILLED, DENIED, REFUSED
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline_tests.factories import amp as make
from ctx_pipeline_tests.factories.sample_homes import assert_made, put, sessions_of


def parse(*documents, name=make.MESSAGES):
    streams = tuple(
        StreamBytes(
            "0" * 16, "thread", f"threads/{name}.json", number, json.dumps(document).encode(), name, None, number + 1 == len(documents)
        )
        for number, document in enumerate(documents)
    )
    return HOST.records.parse(SessionInput("amp", name, streams))


@pytest.mark.feature("amp.sample")
def test_the_sample_home_is_made_by_its_factory() -> None:
    assert_made("amp", make.home())


@pytest.mark.feature("amp.usage")
def test_the_ledger_goes_before_the_usage_of_messages(tmp_path: Path) -> None:
    found = sessions_of("amp", put(tmp_path / "home", make.with_fork()), tmp_path / "store")

    assert found[make.LEDGER]["calls"] == [("claude-haiku-4-5", 30, 5, 0, 0, 0), ("claude-sonnet-4-5", 10, 50, 100, 900, 0)]
    assert found[make.MESSAGES]["calls"] == [("claude-sonnet-4-5", 10, 50, 100, 900, 0), ("gpt-5", 300, 20, 0, 800, 0)]
    assert found[make.FORK]["calls"] == [("claude-haiku-4-5", 40, 8, 0, 0, 0), ("gemini-3-pro", 50, 6, 0, 400, 0)]
    assert found[make.FORK]["parent_session"] == make.MESSAGES
    assert (found[make.MESSAGES]["cwd"], found[make.MESSAGES]["title"]) == (make.FOLDER, "Contents for the notes")


@pytest.mark.feature("amp.usage")
def test_credits_are_kept_in_their_own_unit_and_are_no_cost() -> None:
    parsed = parse(make.thread(make.LEDGER, make.messages(), usageLedger={"events": make.ledger()}), name=make.LEDGER)
    kept = [json.loads(e.text or "") for e in (EVENTS.row(*row) for row in parsed.events) if e.subtype == BILLED]

    assert [entry["credits"] for entry in kept] == [1.25, 0.1]


@pytest.mark.feature("amp.usage")
def test_a_ledger_that_covers_a_part_of_a_thread_leaves_the_rest_to_its_messages() -> None:
    late = [{**entry, "toMessageId": 3} for entry in make.ledger()[:1]]
    sub = {"id": "s1", "operationType": "subagent", "model": "claude-haiku-4-5", "tokens": {"input": 7, "output": 2}, "toMessageId": 3}
    parsed = parse(make.thread(make.LEDGER, make.messages(), usageLedger={"events": [*late, sub]}), name=make.LEDGER)
    calls = sorted((c.model, c.input, c.output, c.cache_write_5m, c.cache_read) for c in (MODEL_CALLS.row(*r) for r in parsed.model_calls))

    assert calls == [
        ("claude-haiku-4-5", 7, 2, 0, 0),  # what the message that asked for the subagent has of the cache is not the subagent's
        ("claude-sonnet-4-5", 10, 50, 100, 900),  # before the ledger
        ("claude-sonnet-4-5", 10, 50, 300, 800),  # the entry, with what its message says of the cache
    ]


@pytest.mark.feature("amp.events")
def test_what_a_person_ran_refused_and_stopped_is_told_apart_and_a_subagent_is_a_thread() -> None:
    parsed = parse(make.fork(), name=make.FORK)
    events = [EVENTS.row(*row) for row in parsed.events]
    own = [(e.kind, e.subtype, e.actor, e.text) for e in events if e.thread_id == make.FORK][5:]
    calls = [TOOL_CALLS.row(*row) for row in parsed.tool_calls]

    assert own == [
        ("tool_call", "Bash", "user", '{"cmd":"make check"}'),
        ("tool_result", None, "tool", "all is well"),
        ("injected", "info", "system", "Load the skill first."),
        ("prompt", None, "user", "start over"),
        ("tool_call", "Bash", "assistant", '{"cmd":"rm notes.md"}'),
        ("injected", "interrupt", "user", None),
        ("tool_result", REFUSED, "tool", "no"),
        ("error", None, "system", "overloaded"),
    ]
    assert [(e.kind, e.text) for e in events if e.thread_id == f"{make.FORK}/t1"] == [
        ("subagent_start", "look at all notes"),
        ("answer", "Two notes."),
    ]
    assert [(c.argv, c.exit, c.is_error) for c in calls if c.tool == "Bash"] == [
        (["make check"], None, False),
        (["make check"], 0, False),
        (["rm notes.md"], None, True),
    ]
    assert parsed.facts.version == "0.0.1767830505-ga62310"


@pytest.mark.feature("amp.tokens")
@pytest.mark.parametrize(
    ("usage", "model", "expected"),
    [
        (make.usage(1, "x", 10, 5, read=3, written=2), "claude-sonnet-4-5", (10, 5, 2, 3, 0)),
        (make.usage(1, "x", 0, 5, read=3, written=2), "gpt-5", (2, 5, 0, 3, 0)),
        (make.usage(1, "x", 0, 5, read=3, written=2), "gemini-3-pro", (2, 5, 0, 3, 0)),
        ({"totalTokens": 345}, "claude-sonnet-4-5", (0, 345, 0, 0, 0)),
    ],
)
def test_models_that_bill_no_cache_writes_have_none(usage, model, expected) -> None:
    assert tuple(tokens_of(usage, model)) == expected


@pytest.mark.feature("amp.rewritten")
def test_a_document_that_was_written_anew_keeps_what_it_no_longer_holds() -> None:
    parsed = parse(make.thread(make.MESSAGES, make.messages()), make.thread(make.MESSAGES, make.messages()[:2]))
    events = [EVENTS.row(*row) for row in parsed.events]

    assert [e.text for e in events if e.kind == "answer"] == ["I look.", "It fails."]
    assert [e.subtype for e in events if e.kind == "tool_result"] == [None, DENIED]
    assert len(parsed.model_calls) == 2


@pytest.mark.feature("amp.resume")
def test_a_thread_is_continued_by_its_id() -> None:
    assert HOST.resuming("T-1", "/home/ada/notes") == "amp threads continue T-1"


@pytest.mark.feature("amp.usage")
@pytest.mark.parametrize(
    "credits_", [-1, 10**400, float("nan"), True], ids=["below zero", "beyond every number", "not a number", "no number"]
)
def test_credits_that_cannot_be_are_none(credits_) -> None:
    entries = [{**entry, "credits": credits_} for entry in make.ledger()]
    parsed = parse(make.thread(make.LEDGER, make.messages(), usageLedger={"events": entries}), name=make.LEDGER)

    assert [row for row in parsed.events if row[7] == BILLED] == []
    assert len(parsed.model_calls) == 2
