"""Threads of Amp: usage of the ledger or of the messages, never of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline.hosts.amp import HOST
from ctx_pipeline.hosts.amp.thread import tokens_of
from ctx_pipeline.model.host_records import BILLED, DENIED
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS
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
    found = sessions_of("amp", put(tmp_path / "home", make.home()), tmp_path / "store")

    assert found[make.LEDGER]["calls"] == [("claude-haiku-4-5", 30, 5, 0, 0, 0), ("claude-sonnet-4-5", 10, 50, 100, 900, 0)]
    assert found[make.MESSAGES]["calls"] == [("claude-sonnet-4-5", 10, 50, 100, 900, 0), ("gpt-5", 300, 20, 0, 800, 0)]
    assert (found[make.MESSAGES]["cwd"], found[make.MESSAGES]["title"]) == (make.FOLDER, "Contents for the notes")


@pytest.mark.feature("amp.usage")
def test_credits_are_kept_in_their_own_unit_and_are_no_cost() -> None:
    parsed = parse(make.thread(make.LEDGER, make.messages(), usageLedger={"events": make.ledger()}), name=make.LEDGER)
    kept = [json.loads(e.text or "") for e in (EVENTS.row(*row) for row in parsed.events) if e.subtype == BILLED]

    assert [entry["credits"] for entry in kept] == [1.25, 0.1]


@pytest.mark.feature("amp.tokens")
@pytest.mark.parametrize(
    ("usage", "model", "expected"),
    [
        (make.usage(1, "x", 10, 5, read=3, written=2), "claude-sonnet-4-5", (10, 5, 2, 3, 0)),
        (make.usage(1, "x", 0, 5, read=3, written=2), "gpt-5", (2, 5, 0, 3, 0)),
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
