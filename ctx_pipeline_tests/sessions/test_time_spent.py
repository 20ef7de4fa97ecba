"""Where the time of sessions went: every moment of a turn is the model's, a tool's, or a wait for the person."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.facts.turns import turn_rows
from ctx_pipeline.sessions.reports import time_spent as module
from ctx_pipeline.sessions.reports.time_spent import time_spent
from ctx_pipeline.settings import Settings
from ctx_pipeline.signals.cost import active_seconds, idle_seconds, session_duration_seconds, time_to_first_edit_seconds
from ctx_pipeline.storage.reader import reading
from ctx_pipeline_tests.factories import claude, codex
from ctx_pipeline_tests.usage.conftest import ingested

DONE = {"stdout": "x", "stderr": "", "interrupted": False}
BEGAN = datetime(2026, 3, 5, 10, 0, tzinfo=UTC)
LATE = "22222222-2222-4222-8222-222222222222"


def at(minutes: float) -> dict[str, str]:
    return {"timestamp": (BEGAN + timedelta(minutes=minutes)).isoformat()}


def told(main: claude.Transcript, call_id: str, minutes: float, said: str = "ok", **fields: object) -> None:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": said}
    main.chained(
        {
            "type": "user",
            "message": {"role": "user", "content": [block | fields]},
            "toolUseResult": "User rejected tool use" if fields else DONE,
            **at(minutes),
        }
    )


def lived(tmp_path: Path) -> Settings:
    """Write a turn of 66 minutes, a wait of 8 for the next prompt, a turn of 2, and a night before a turn of 1."""
    home = claude.ClaudeHome(tmp_path / "claude")
    main = home.session()
    main.prompt("build it", **at(0))
    main.answer(claude.tool_use("t1", "Bash", command="make all"), **at(1))
    told(main, "t1", 8)  # two minutes are the limit of a command without one of its own: five were a wait
    main.answer(claude.tool_use("t2", "Bash", command="make slow", timeout=600_000), **at(9))
    told(main, "t2", 15)  # within its own limit: it ran
    main.answer(claude.tool_use("t3", "AskUserQuestion", questions=[]), **at(15))
    told(main, "t3", 18)
    main.answer(claude.tool_use("t4", "Bash", command="make test"), **at(18))
    told(main, "t4", 60)  # above half an hour, nobody was there
    main.answer(claude.tool_use("t5", "Read", file_path="/home/dev/shop/a.py"), claude.tool_use("t6", "Bash", command="ls"), **at(60))
    told(main, "t6", 61)
    told(main, "t5", 61)
    main.answer(claude.tool_use("t7", "Bash", command="rm -rf x"), **at(61))
    told(main, "t7", 64, "The user doesn't want to proceed with this tool use. The tool use was rejected", is_error=True)
    main.answer(claude.text("done"), **at(66))
    main.prompt("more", **at(74)).answer(claude.text("ok"), **at(76))
    main.prompt("again", **at(76 + 600)).answer(claude.text("ok"), **at(677)).save()
    other = home.session(LATE)
    other.prompt("short", **at(0)).answer(claude.text("ok"), **at(1)).save()
    codex.write(tmp_path / "codex", codex.session(calls=2))
    roots = {"claude": (tmp_path / "claude",), "codex": (tmp_path / "codex",)}
    return ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots=roots))


@pytest.mark.feature("work.time")
def test_every_moment_of_a_turn_is_the_models_a_tools_or_a_wait(tmp_path: Path) -> None:
    settings = lived(tmp_path)
    found = time_spent("claude", settings=settings)

    one = found.sessions["claude", claude.SESSION]
    minutes = {part: round(spent / 60, 2) for part, spent in one.seconds.items()}
    assert minutes == {"model": 1 + 1 + 2 + 2 + 1, "tools": 2 + 6 + 1, "approval": 5 + 3 + 3, "still": 42, "prompt": 8}
    assert (one.turns, one.away) == (3, [600 * 60])
    assert sum(found.whole.seconds.values()) == pytest.approx(one.total + 60)
    assert [key[1] for key in found.sessions] == [claude.SESSION, LATE]
    assert [(call.what, call.seconds / 60, call.session_id) for call in found.ran[:2]] == [
        ("make slow", 6, claude.SESSION),
        ("make test", 2, claude.SESSION),
    ]
    waits = [(call.what, call.seconds / 60) for call in found.waited]
    assert (waits[0], {*waits[1:]}) == (("make all", 5), {("rm -rf x", 3), ("AskUserQuestion", 3)})
    assert sum(minutes for _, minutes in waits) == minutes["approval"]
    assert [(call.what, call.seconds / 60) for call in found.stood] == [("make test", 42)]
    assert time_spent("claude", since="2026-03-06", settings=settings).sessions == {}


@pytest.mark.feature("work.time")
def test_a_turn_looks_at_the_calls_that_reach_into_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    real = module._add_turn
    monkeypatch.setattr(module, "_add_turn", lambda value, turn, idle, calls: looked.append(len(calls)) or real(value, turn, idle, calls))
    time_spent("claude", settings=lived(tmp_path))
    assert sorted(looked) == [0, 0, 0, 7]


@pytest.mark.feature("work.time")
def test_where_the_time_went_is_printed_with_the_sessions_and_calls_that_took_most(tmp_path: Path) -> None:
    settings = lived(tmp_path)
    environ = {"CTX_HOME": str(settings.home), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "TZ": "UTC"}
    printed = CliRunner().invoke(cli, ["work", "claude", "--time"], env=environ).stdout

    assert "\n1 h 18 in 4 turns of 2 sessions\n" in printed
    assert "the model answered\n" in printed
    assert re.search(r"\n11111111 +1 h 17 +7 min +9 min +11 min +42 min +8 min +build it\n", printed)
    assert "\n6 min  11111111  make slow\n" in printed
    waited, still = printed.split("waited longest for you\n")[1].split("stood still longest\n")
    assert "make test" not in waited
    assert still.startswith("42 min  11111111  make test\n")
    assert "left out: 1 break over 30 min between turns, 10 h 00 in all" in printed


@pytest.mark.feature("work.time")
def test_the_time_of_a_command_is_without_the_wait_that_came_before_it(tmp_path: Path) -> None:
    settings = lived(tmp_path)
    environ = {"CTX_HOME": str(settings.home), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "TZ": "UTC"}
    printed = CliRunner().invoke(cli, ["work", "claude", "--sort", "time"], env=environ).stdout

    assert re.search(r"\nmake slow +1 +0 +0% +360.0 s +360.0 s\n", printed)
    assert re.search(r"\nmake all +1 +0 +0% +120.0 s +120.0 s\n", printed)
    assert "\nsuch waits: 1 of make test (40 min), 1 of make all (5 min)\n" in printed
    assert "ctx work --time\n" in printed


def copied(tmp_path: Path, answers: int) -> Settings:
    """Write two turns of which a copy stamped the answers hours later, in two ticks of the clock, and a turn with times of its own."""
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("mend it", **at(0))
    for number in range(answers):
        main.answer(claude.tool_use(f"t{number}", "Edit", file_path="/home/dev/shop/a.py"), **at(300 + (number % 2) / 60_000))
        told(main, f"t{number}", 300 + (number % 2) / 60_000)
    main.prompt("more", **at(2)).answer(claude.text("ok"), **at(300))
    main.prompt("and now", **at(310)).answer(claude.text("ok"), **at(312)).save()
    return ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))


@pytest.mark.feature("work.copied-times")
@pytest.mark.parametrize(("answers", "known"), [(60, False), (20, True)])
def test_a_turn_whose_work_carries_the_time_of_a_copy_has_no_time(tmp_path: Path, answers: int, known: bool) -> None:
    one = time_spent("claude", settings=copied(tmp_path, answers)).sessions["claude", claude.SESSION]

    assert (one.turns, one.unknown) == ((3, 0) if known else (1, 2))
    assert (one.total > 4 * 3600) is known
    assert one.to_json()["unknown_turns"] == one.unknown
    if not known:
        assert {part: spent for part, spent in one.seconds.items() if spent} == {"model": 120}


@pytest.mark.feature("work.copied-times")
@pytest.mark.parametrize(("answers", "known"), [(60, False), (20, True)])
def test_signals_of_time_are_unknown_where_the_times_are_those_of_a_copy(tmp_path: Path, answers: int, known: bool) -> None:
    with reading(copied(tmp_path, answers)) as (store, _):
        [view] = store.lake.read_sessions(store.ledger.cells()[0], None, ("events", "tool_calls", "turns"))

    assert [turn.worked is not None for turn in turn_rows(view)] == [known, known, True]
    found = {make.name: make.function(view) for make in (active_seconds, idle_seconds, time_to_first_edit_seconds)}
    assert {name for name, one in found.items() if one.value is None} == (set() if known else found.keys())
    assert known or {one.reason for one in found.values()} == {"what the agent did carries the time at which the session was copied"}
    assert session_duration_seconds.function(view).value == 312 * 60
