"""Surfaces that name the same number show the same number, of one small home."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline.maintenance.verify import verify
from ctx_pipeline.pipeline import run
from ctx_pipeline.sessions.reports.work import work
from ctx_pipeline.sessions.reports.wrapped import wrapped
from ctx_pipeline.sessions.session_details import show, view_of
from ctx_pipeline.sessions.states.state_fold import fold
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import claude as build

SESSION = "aaaaaaaa-0000-4000-8000-000000000001"


@pytest.fixture
def home(environ):
    made = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    transcript = made.session(SESSION)
    transcript.prompt("mend the parser")
    transcript.call("toolu_1", "Bash", "a\nb", command="sed -n 1,2p a.py | sed s/a/b/")
    transcript.call("toolu_2", "Bash", "Exit code 1\n1 failed in 0.1s", is_error=True, command="pytest -q")
    transcript.call("toolu_3", "Bash", "1 failed, 2 passed in 0.1s", command="pytest -q | tail -1")
    transcript.call("toolu_4", "Read", "File does not exist.", is_error=True, file_path="/w/no.py")
    transcript.call("toolu_5", "Bash", "c", command="sed -n 3p a.py")
    transcript.answer(build.text("done"))
    transcript.save()
    return made


@pytest.mark.feature("facts.same-numbers")
def test_failed_calls_and_programs_are_the_same_wherever_they_are_shown(environ, chosen, home):
    with open_store(chosen) as store:
        run.run_stages(store, chosen)
        with store.lake.connect() as connection:
            store.lake.views(connection)
            (failed,) = connection.execute("SELECT count(*) FROM command_runs WHERE result = 'failed'").fetchone()
            sed = connection.execute("SELECT count(*) FROM command_runs WHERE list_contains(programs, 'sed')").fetchone()[0]
        readings = {r.signal: r.value for cell in store.ledger.cells() for r in store.lake.read_rows("readings", cell)}
        view = view_of(store, "claude", SESSION, ("events", "tool_calls", "threads"))
        import duckdb

        with duckdb.connect(str(store.warehouse_path), read_only=True) as page:
            overview = page.execute("SELECT commands, failed_commands, failed_tool_calls FROM session_overview").fetchone()
    done = work(settings=chosen)[0]
    assert failed == readings["failed_command_count"] == done.commands.failed == overview[1] == 2
    assert readings["command_count"] == done.commands.times == overview[0] == 4
    shown = show("claude", SESSION, settings=chosen)["session"]["failed_tool_calls"]
    (chosen.home / "slos.toml").write_text('[[slo]]\nmetric = "failed_tool_calls"\nthreshold = 2\n')
    assert verify(settings=chosen).limits[0].worst == (f"claude/{SESSION}", 3.0)
    assert shown == readings["failed_tool_call_count"] == done.tool_calls.failed == overview[2] == 3
    card = dict(wrapped("all", settings=chosen).commands)
    assert sed == done.programs["sed"].times == card["sed"] == 2
    assert [check.outcome[:6] for check in fold(view).checks] == ["failed"]


@pytest.mark.feature("facts.same-numbers")
def test_a_check_that_still_runs_is_not_told_as_passed():
    from ctx_pipeline_tests.factories.views import view

    text = "Process running with session ID 9\nOutput:\n   Compiling app v0.1.0"
    session = view(host="codex").prompt("mend it").shell("cargo test", exit=None, text=text).build()
    session.session = session.session._replace(session_id="main")
    assert [check.outcome for check in fold(session).checks] == ["had not ended"]
