"""Sessions of OpenCode, as documents and as rows: counted by step, once in forks and in both eras."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline.hosts.opencode import HOST
from ctx_pipeline.hosts.opencode.session import tokens_of
from ctx_pipeline.model.host_records import OUT, REFUSED
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline_tests.factories import opencode as make
from ctx_pipeline_tests.factories.sample_homes import assert_made, put, sessions_of

MODEL = "claude-sonnet-4-5"
MAIN_CALLS = [(MODEL, 20, 30, 0, 2400, 0), (MODEL, 50, 25, 0, 100, 5), (MODEL, 100, 50, 300, 2000, 10)]
CHILD_CALL = (MODEL, 300, 8, 0, 0, 0)


@pytest.mark.feature("opencode.sample")
def test_the_sample_home_is_made_by_its_factory() -> None:
    assert_made("opencode", make.sample_home())


@pytest.mark.feature("opencode.documents")
def test_documents_become_sessions_with_what_they_started(tmp_path: Path) -> None:
    found = sessions_of("opencode", put(tmp_path / "home", make.documents()), tmp_path / "store")

    assert sorted(found) == [make.MAIN]
    main = found[make.MAIN]
    assert (main["title"], main["cwd"], main["version"], main["threads"], main["prompts"]) == (
        "Contents for the notes",
        make.FOLDER,
        "1.2.10",
        2,
        1,
    )
    assert main["calls"] == sorted([*MAIN_CALLS, CHILD_CALL])


@pytest.mark.feature("opencode.database")
def test_the_database_gives_the_same_and_nothing_appears_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make.write_database(home / "opencode.db", make.everything())
    found = sessions_of("opencode", home, tmp_path / "store")

    assert found[make.MAIN]["calls"] == sorted([*MAIN_CALLS, CHILD_CALL])
    assert [path.name for path in home.iterdir()] == ["opencode.db"]


@pytest.mark.feature("opencode.database")
def test_a_home_of_both_eras_counts_once(tmp_path: Path) -> None:
    home = put(tmp_path / "home", make.documents())
    make.write_database(home / "opencode.db", make.everything())
    found = sessions_of("opencode", home, tmp_path / "store")

    assert found[make.MAIN]["calls"] == sorted([*MAIN_CALLS, CHILD_CALL])
    assert found[make.MAIN]["prompts"] == 1


@pytest.mark.feature("opencode.steps")
def test_a_message_repeats_the_tokens_of_its_last_step(tmp_path: Path) -> None:
    found = sessions_of("opencode", put(tmp_path / "home", make.documents()), tmp_path / "store")

    assert found[make.MAIN]["recorded_cost"] == 9_300_000


@pytest.mark.feature("opencode.fork")
def test_what_a_fork_copied_counts_for_the_session_it_was_copied_from(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make.write_database(home / "opencode.db", make.forked())
    found = sessions_of("opencode", home, tmp_path / "store")

    assert found[make.FORK]["calls"] == [(MODEL, 11, 7, 0, 0, 0)]
    assert len(found[make.MAIN]["calls"]) == 4


@pytest.mark.feature("opencode.tokens")
@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (make.tokens(100, 40, thought=10, read=5), (100, 50, 0, 5, 10)),
        (make.tokens(100, 40, thought=10, read=5, total=145), (100, 40, 0, 5, 10)),
        (make.tokens(100, 40, thought=10, read=5, total=155), (100, 50, 0, 5, 10)),
        ({"total": 321}, (0, 321, 0, 0, 0)),
        ({}, (0, 0, 0, 0, 0)),
    ],
)
def test_reasoning_is_beside_the_output_unless_the_total_says_otherwise(tokens, expected) -> None:
    assert tuple(tokens_of(tokens)) == expected


@pytest.mark.feature("opencode.events")
def test_rejected_calls_summaries_and_stops_are_told_apart(tmp_path: Path) -> None:
    streams = make.database_streams(tmp_path / "opencode.db", make.everything())
    rel, text = next((rel, text) for rel, text in streams.items() if make.MAIN in rel)
    parsed = HOST.records.parse(SessionInput("opencode", make.MAIN, (StreamBytes("0" * 16, "database", rel, 0, text.encode(), make.MAIN),)))
    events = [EVENTS.row(*row) for row in parsed.events]

    assert [e.subtype for e in events if e.kind == "tool_result"] == [None, None, REFUSED]
    assert [e.text for e in events if e.kind == "compaction"] == ["Contents were asked for."]
    assert [(e.kind, e.actor) for e in events if e.subtype == "interrupt"] == [("injected", "user")]
    assert len([e for e in events if e.kind == "todo"]) == 1
    assert HOST.records.window is not None
    assert HOST.records.window("injected", "compaction", "{}", bytes) == OUT


@pytest.mark.feature("opencode.resume")
def test_a_session_is_resumed_from_its_folder() -> None:
    assert HOST.resuming("ses_1", "/home/ada/notes") == "cd /home/ada/notes && opencode --session ses_1"
