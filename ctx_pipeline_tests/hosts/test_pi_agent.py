"""Sessions of Pi: a tree in a file, its branches, and files that were branched from another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline.hosts.pi_agent import HOST
from ctx_pipeline.hosts.pi_agent.session import tokens_of
from ctx_pipeline.model.host_records import OUT, Change
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline_tests.factories import pi_agent as make
from ctx_pipeline_tests.factories.sample_homes import assert_made, put, sessions_of

MODEL = "claude-sonnet-4-5"


def events(records):
    data = "".join(json.dumps(r) + "\n" for r in records).encode()
    parsed = HOST.records.parse(SessionInput("pi_agent", make.MAIN, (StreamBytes("0" * 16, "session", make.FILE, 0, data, make.MAIN),)))
    return [EVENTS.row(*row) for row in parsed.events]


@pytest.mark.feature("pi.sample")
def test_the_sample_home_is_made_by_its_factory() -> None:
    assert_made("pi_agent", make.home())


@pytest.mark.feature("pi.fork")
def test_a_file_that_was_branched_from_another_is_a_fork_and_copies_count_for_the_origin(tmp_path: Path) -> None:
    found = sessions_of("pi_agent", put(tmp_path / "home", make.home_with_fork()), tmp_path / "store")

    assert found[make.FORK]["parent_session"] == make.MAIN
    assert found[make.FORK]["calls"] == [(MODEL, 2, 6, 0, 700, 0)]
    assert found[make.MAIN]["calls"] == [
        (MODEL, 3, 4, 0, 500, 0),
        (MODEL, 5, 20, 0, 1000, 0),
        (MODEL, 7, 9, 0, 1100, 0),
        (MODEL, 10, 50, 100, 900, 0),
    ]
    assert found[make.MAIN]["recorded_cost"] == 2_000_000
    assert (found[make.MAIN]["title"], found[make.MAIN]["cwd"]) == ("Tests that pass", make.FOLDER)


@pytest.mark.feature("pi.branch")
def test_a_jump_to_an_older_entry_takes_turns_back() -> None:
    found = events(make.lines())

    assert [(e.text, e.actor) for e in found if e.subtype == "branch"] == [("1", "user")]
    assert HOST.records.window is not None
    assert HOST.records.window("injected", "branch", "1", bytes) == Change("rollback", turns=1)
    assert [e.text for e in found if e.kind == "compaction"] == ["Tests pass."]
    assert [e.kind for e in found if e.subtype == "interrupt"] == ["injected"]


@pytest.mark.feature("pi.commands")
def test_commands_of_the_person_stand_in_the_window_unless_kept_out() -> None:
    def ran(**fields):
        entry = make.message("x", None, 1, "bashExecution", command="git status", output="clean", exitCode=0, **fields)
        (event,) = events([entry])
        assert HOST.records.window is not None
        return event.text, HOST.records.window(event.kind, event.subtype, event.text, bytes)

    assert ran() == ("$ git status\nclean", "turn")
    assert ran(excludeFromContext=True) == ("$ git status\nclean", OUT)


@pytest.mark.feature("pi.first-format")
def test_entries_of_the_first_format_have_no_ids(tmp_path: Path) -> None:
    records = [{k: v for k, v in r.items() if k not in {"id", "parentId"} or r["type"] == "session"} for r in make.lines()]
    found = sessions_of("pi_agent", put(tmp_path / "home", {make.FILE: "".join(json.dumps(r) + "\n" for r in records)}), tmp_path / "store")

    assert len(found[make.MAIN]["calls"]) == 4
    assert found[make.MAIN]["prompts"] == 3


@pytest.mark.feature("pi.tokens")
def test_a_total_alone_counts_as_output() -> None:
    assert tuple(tokens_of({"totalTokens": 321})) == (0, 321, 0, 0, 0)
    assert tuple(tokens_of(make.usage(1, 2, 3, 4))) == (1, 2, 4, 3, 0)


@pytest.mark.feature("pi.resume")
def test_a_session_is_resumed_from_its_folder() -> None:
    assert HOST.resuming("s-1", "/home/ada/notes") == "cd /home/ada/notes && pi --session s-1"
