"""How turns end, over the events of both agents."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.turns import interruptions, turn_rows, turns
from ctx_pipeline.hosts.claude_code import HOST as CLAUDE
from ctx_pipeline.mining.lessons.turns import turns as requests
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline_tests.factories import claude, codex
from ctx_pipeline_tests.factories.views import view


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
