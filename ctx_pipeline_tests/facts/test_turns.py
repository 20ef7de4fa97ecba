"""How turns end, over the events of both agents."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.facts.turns import interruptions, turn_rows, turns
from ctx_pipeline.hosts.claude_code import HOST as CLAUDE
from ctx_pipeline.mining.lessons.turns import turns as requests
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline_tests.factories import claude, codex
from ctx_pipeline_tests.factories.views import SECOND, view


def of_claude(main: claude.Transcript) -> list:
    stream = StreamBytes("0" * 16, "transcript", f"projects/p/{claude.SESSION}.jsonl", 0, main.data(), claude.SESSION, None, True)
    parsed = CLAUDE.records.parse(SessionInput("claude", claude.SESSION, (stream,), {}))
    return turns(SessionView(None, events=[EVENTS.row(*row) for row in parsed.events]))


def of_codex(records: list) -> list:
    return turns(SessionView(None, events=[EVENTS.row(*row) for row in codex.parse(codex.stream(records)).events]))


@pytest.mark.feature("normalize.answers")
def test_the_final_answer_is_the_one_behind_which_nothing_was_done(tmp_path):
    main = claude.ClaudeHome(tmp_path).session()
    main.prompt("first").answer(claude.text("I look")).call("t1", "Read", "x", file_path="/a").answer(claude.text("It is done"))
    main.prompt("second").answer(claude.text("I begin")).answer(claude.tool_use("t2", "Read", file_path="/b"))

    first, second = of_claude(main)

    assert (first.ended, first.answer.text, first.tool_calls) == ("answered", "It is done", 1)
    assert (second.ended, second.answer, second.tool_calls) == ("open", None, 1)


@pytest.mark.feature("claude.approved-plan")
def test_an_approved_plan_begins_a_turn(tmp_path):
    plan = "Implement the following plan:\n\n# Plan: Invert the flag\n\nUse `--telemetry`."
    main = claude.ClaudeHome(tmp_path).session().prompt("invert it").answer(claude.text("on it")).prompt("[Request interrupted by user]")
    main.prompt(plan, planContent="# Plan: Invert the flag").answer(claude.text("done"))

    first, second = of_claude(main)

    assert (first.ended, second.ended) == ("interrupted", "answered")
    assert second.prompt.text == plan


@pytest.mark.feature("normalize.answers")
def test_an_interruption_and_a_compaction_are_events_of_their_turn(tmp_path):
    main = claude.ClaudeHome(tmp_path).session()
    main.prompt("go").answer(claude.text("on it")).prompt("[Request interrupted by user]")
    main.prompt("again")
    main.compact(90_000, "What was done so far")
    main.answer(claude.text("ready"))

    first, second = of_claude(main)

    assert (first.ended, first.answer, first.interruption.kind) == ("interrupted", None, "injected")
    assert (second.ended, second.answer.text) == ("answered", "ready")
    assert [(e.kind, e.subtype) for e in second.compactions] == [("compaction", "system/compact_boundary")]


@pytest.mark.feature("normalize.answers")
def test_a_rollout_says_itself_which_answer_is_final_and_that_a_turn_was_stopped():
    records = codex.session(calls=1)
    records += [codex.event(40, "user_message", message="more"), codex.event(41, "agent_message", message="I look", phase="commentary")]
    records += [codex.event(42, "turn_aborted", turn_id="x", reason="interrupted")]

    first, second = of_codex(records)

    assert (first.ended, first.answer.text, first.answer.subtype) == ("answered", "done", "agent_message/final_answer")
    assert (second.ended, second.interruption.subtype) == ("interrupted", "interrupt")


@pytest.mark.feature("normalize.answers")
def test_a_turn_that_ends_in_an_error_has_failed(tmp_path):
    main = claude.ClaudeHome(tmp_path).session()
    main.prompt("go")
    main.answer(claude.text("API Error: 529 overloaded"), isApiErrorMessage=True, model="<synthetic>")
    main.prompt("again").answer(claude.text("I look"))
    main.answer(claude.text("API Error: 529 overloaded"), isApiErrorMessage=True, model="<synthetic>")

    first, second = of_claude(main)

    assert (first.ended, first.answer) == ("failed", None)
    assert (second.ended, second.answer) == ("failed", None)


@pytest.mark.feature("facts.turns")
def test_rows_tell_how_a_turn_ended_and_several_marks_in_one_are_one_stop():
    session = view().injected("[Request interrupted by user]", "interrupt").prompt("go").shell("ls")
    session.injected("[Request interrupted by user]", "interrupt").injected("[Request interrupted by user]", "interrupt")
    built = session.prompt("again").shell("ls").answer("done").build()
    rows = turn_rows(built)
    assert [(r.number, r.prompt_event, r.ended, r.tool_calls) for r in rows] == [
        (0, None, "interrupted", 0),
        (1, "s1.e1", "interrupted", 1),
        (2, "s1.e6", "answered", 1),
    ]
    assert interruptions(built) == ["s1.e0", "s1.e4"]
    assert [[c.action for c in t.calls] for t in turns(built)] == [[], ["shell"], ["shell"]]


@pytest.mark.feature("normalize.answers")
def test_what_others_read_with_it_changes_no_turn():
    records = [*codex.session(calls=1), codex.event(40, "user_message", message="more"), codex.event(41, "agent_message", message="done")]
    events = [EVENTS.row(*row) for row in codex.parse(codex.stream(records)).events]
    title = events[-1]._replace(event_id="title", kind="title", text="A title", ts=None)

    whole = turns(SessionView(None, events=[*events, title]))

    assert [turn.last.event_id for turn in whole] == [turn.last.event_id for turn in turns(SessionView(None, events=events))]
    assert whole[-1].last.text == "done"


@pytest.mark.feature("facts.turns")
def test_a_command_that_the_model_carried_out_begins_a_turn_and_is_no_request_for_the_miners():
    session = view().prompt("go").shell("ls").answer("done")
    session.injected("\n<command-message>pr</command-message>\n<command-name>/pr</command-name>", "command-message").shell("git diff")
    built = session.injected("<command-name>/clear</command-name>", "command-name").answer("Title").prompt("thanks").answer("ok").build()

    rows = turn_rows(built)

    assert [(r.number, r.tool_calls, r.ended) for r in rows] == [(0, 1, "answered"), (1, 1, "answered"), (2, 0, "answered")]
    assert rows[1].prompt_event == next(e.event_id for e in built.events if "/pr" in (e.text or ""))
    assert [(t.ask, len(t.calls)) for t in requests(built)] == [("go", 1), ("thanks", 0)]


HOUR = 3600 * SECOND


def clocked(session, *hours):
    """Return the view of a session whose events have times so many hours after its start; calls have those of their events."""
    session.events = [event._replace(ts=session.start + round(at * HOUR)) for event, at in zip(session.events, hours, strict=True)]
    built = session.build()
    times = {event.event_id: event.ts for event in session.events}
    built.tool_calls = [c._replace(started=times[c.call_event], ended=times.get(c.result_event)) for c in built.tool_calls]
    return built


def in_hours(built):
    """Return for each turn when it ended, and how long the agent worked in it."""
    return [((row.finished - row.began) / HOUR, row.worked / HOUR) for row in turn_rows(built)]


@pytest.mark.feature("facts.turns")
def test_a_turn_ends_with_the_last_thing_that_the_agent_did_and_not_with_a_command_of_the_host_days_later():
    session = view().prompt("go").answer("done").other("attachment", subtype="system/turn_duration")
    session.injected("You changed the layout", "system/away_summary")
    session.injected("<command-name>/reload-plugins</command-name>", "command-name")
    session.injected("Reloaded: 22 plugins", "system/local_command").prompt("more").answer("ok")
    built = clocked(session, 0, 0.01, 0.02, 0.1, 66, 67, 68, 68.25)
    assert in_hours(built) == [(0.01, 0.01), (0.25, 0.25)]
    assert turn_rows(built)[0].last_event == "s1.e5", "what stands in it is shown with it all the same"


@pytest.mark.feature("facts.turns")
def test_half_an_hour_without_a_record_is_a_pause_unless_a_tool_ran_all_the_time():
    def spent(session):
        (turn,) = in_hours(clocked(session.answer("done"), 0, 0.1, 5.1, 5.2))
        return turn

    assert spent(view().prompt("go").answer("on it").answer("back")) == (5.2, pytest.approx(0.2))
    assert spent(view().prompt("go").tool("Task", action="task")) == (5.2, 5.2)
    assert spent(view().prompt("go").tool("Read", action="read")) == (5.2, pytest.approx(0.2))
    waited, ran = view().prompt("go").shell("make"), view().prompt("go").shell("make")
    for session, limit in ((waited, 60_000), (ran, 5 * 3_600_000)):
        session.events[1] = session.events[1]._replace(text=json.dumps({"command": "make", "timeout": limit}))
    assert spent(waited) == (5.2, pytest.approx(0.2)), "a command with a limit of a minute waited for the person"
    assert spent(ran) == (5.2, 5.2)
    assert spent(view().prompt("go").shell("make")) == (5.2, pytest.approx(0.2)), "no limit is known"


@pytest.mark.feature("facts.turns")
def test_what_a_subagent_recorded_in_the_meantime_is_no_pause_of_the_turn_that_waited_for_it():
    def spent(*hours):
        session = view("main").prompt("go").answer("I wait").answer("done").subagent("agent").answer("a").answer("b")
        return in_hours(clocked(session, *hours))

    assert spent(0, 0.1, 1.2, 0.4, 0.8) == [(1.2, pytest.approx(1.2))]
    assert spent(0, 0.1, 3.8, 0.4, 0.8) == [(3.8, pytest.approx(0.8))]
