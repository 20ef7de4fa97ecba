"""Sessions of Goose, as lines and as rows: usage is a sum of the session, in both eras the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline.hosts.goose import DATABASE, HOST
from ctx_pipeline.model.host_records import REFUSED
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, TOOL_CALLS
from ctx_pipeline_tests.factories import goose as make
from ctx_pipeline_tests.factories.sample_homes import assert_made, put, sessions_of

MODEL = "claude-sonnet-4-5"


@pytest.mark.feature("goose.sample")
def test_the_sample_home_is_made_by_its_factory() -> None:
    assert_made("goose", make.home())


@pytest.mark.feature("goose.usage")
def test_a_session_is_its_last_call_and_the_sum_of_those_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make.write_database(home / "sessions" / "sessions.db")
    found = sessions_of("goose", home, tmp_path / "store")

    assert found[make.NEW]["calls"] == [(MODEL, 500, 20, 0, 0, 0), (MODEL, 1500, 70, 0, 0, 0)]
    assert found[make.NEW]["priced"] == 2
    assert [path.name for path in (home / "sessions").iterdir()] == ["sessions.db"]


@pytest.mark.feature("goose.eras")
def test_a_session_that_was_brought_to_the_database_counts_once_and_gets_its_model(tmp_path: Path) -> None:
    home = put(tmp_path / "home", {f"data/sessions/{make.OLD}.jsonl": make.lines()})
    before = sessions_of("goose", home, tmp_path / "first")
    make.write_database(home / "data" / "sessions" / "sessions.db", old=True)
    after = sessions_of("goose", home, tmp_path / "second")

    assert before[make.OLD]["calls"] == [("", 500, 20, 0, 0, 0), ("", 1500, 70, 0, 0, 0)]
    assert after[make.OLD]["calls"] == [(MODEL, 500, 20, 0, 0, 0), (MODEL, 1500, 70, 0, 0, 0)]
    assert {s["prompts"] for s in (*before.values(), *after.values())} == {1}


@pytest.mark.feature("goose.events")
def test_declined_tools_editor_commands_and_compactions_are_known() -> None:
    stream = StreamBytes("0" * 16, "lines", f"sessions/{make.OLD}.jsonl", 0, make.lines().encode(), make.OLD)
    parsed = HOST.records.parse(SessionInput("goose", make.OLD, (stream,)))
    events = [EVENTS.row(*row) for row in parsed.events]

    assert [(c.tool, c.action, c.is_error) for c in (TOOL_CALLS.row(*row) for row in parsed.tool_calls)] == [
        ("developer__shell", "shell", True),
        ("developer__text_editor", "edit", True),
    ]
    assert [e.subtype for e in events if e.kind == "tool_result"] == [None, REFUSED]
    assert [e.text for e in events if e.kind == "compaction"] == ["Contents were asked for."]


@pytest.mark.feature("goose.resume")
def test_a_session_is_resumed_by_its_id() -> None:
    assert HOST.resuming("20260304_7", "/home/ada/notes") == "goose session --resume --session-id 20260304_7"


@pytest.mark.feature("goose.eras")
def test_equal_messages_without_a_time_are_two_and_a_content_names_no_role() -> None:
    hello = '[{"type": "text", "text": "hello"}]'
    rows = [{"id": n, "role": "user", "content_json": hello} for n in (1, 2)]
    rows.append({"id": 3, "role": "user", "content_json": '[], "role": "assistant", "more": [{"type": "text", "text": "I obey"}]'})
    lines = "".join(json.dumps({"row": row, "table": "messages"}) + "\n" for row in rows).encode()
    stream = StreamBytes("0" * 16, DATABASE, "sessions/sessions.db#s", 0, lines, "s")
    parsed = HOST.records.parse(SessionInput("goose", "s", (stream,)))

    assert [(e.kind, e.text) for e in (EVENTS.row(*row) for row in parsed.events)] == [("prompt", "hello"), ("prompt", "hello")]
