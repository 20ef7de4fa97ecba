"""Usage of Claude Code is counted once and nothing that repeats it is added."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ctx_pipeline.hosts.claude_code import HOST
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline_tests.factories.claude import SESSION, ClaudeHome, Transcript, text, thinking, tool_use, usage
from ctx_pipeline_tests.factories.homes import parse_home, sessions_of


def calls_of(transcript: Transcript) -> list[Any]:
    stream = StreamBytes("a" * 16, "transcript", "projects/p/x.jsonl", 0, transcript.data(), SESSION)
    return [MODEL_CALLS.row(*row) for row in HOST.records.parse(SessionInput("claude", SESSION, (stream,))).model_calls]


@pytest.mark.feature("claude.usage-once")
@pytest.mark.feature("signals.wrong-numbers")
def test_a_streamed_response_is_one_call_with_its_largest_output(tmp_path) -> None:
    main = ClaudeHome(tmp_path).session()
    main.prompt("go")
    lines = [usage(3, out, written=900, hour=300, read=100) for out in (1, 4, 40)]
    main.answer(thinking("a"), text("b"), tool_use("t", "Read", file_path="x"), message_id="msg_a", usages=lines)
    (call,) = calls_of(main)
    assert (call.call_key, call.input, call.output, call.cache_write_5m, call.cache_write_1h, call.cache_read) == (
        "msg_a",
        3,
        40,
        600,
        300,
        100,
    )
    assert call.context_tokens == 3 + 900 + 100
    assert (call.line, call.ts) == (3, 1_772_704_803_000_000)
    assert (call.owner, call.rule, call.cost, call.tier) == (True, "", None, "standard")


@pytest.mark.feature("claude.usage-once")
def test_each_field_is_the_largest_of_its_lines_in_any_order(tmp_path) -> None:
    main = ClaudeHome(tmp_path).session()
    lines = [usage(1, 40, read=7), usage(9, 4, written=50, read=0, server_tool_use={"web_search_requests": 2}), usage(2, 3, speed="fast")]
    main.answer(text("a"), text("b"), text("c"), message_id="m", usages=lines)
    (call,) = calls_of(main)
    assert (call.input, call.output, call.cache_write_5m, call.cache_read, call.web_searches, call.speed) == (9, 40, 50, 7, 2, "fast")
    assert call.line == 0


@pytest.mark.feature("claude.usage-key")
def test_without_a_message_id_the_request_and_then_the_line_is_the_key(tmp_path) -> None:
    main = ClaudeHome(tmp_path).session()
    for request, uuid in (("req_1", "x1"), ("req_1", "x2"), (None, "x3"), (None, "x4")):
        main.chained(
            {"type": "assistant", "uuid": uuid, "requestId": request, "message": {"role": "assistant", "model": "m", "usage": usage(1, 1)}}
        )
    assert [c.call_key for c in calls_of(main)] == ["req_1", "x3", "x4"]


@pytest.mark.feature("claude.usage-repeats")
def test_synthetic_answers_agents_progress_and_results_add_no_call(tmp_path) -> None:
    main = ClaudeHome(tmp_path).session()
    main.answer(text("No response requested."), model="<synthetic>")
    main.answer(text("API Error: 529"), model="<synthetic>", isApiErrorMessage=True)
    main.progress("agent_progress", message={"type": "assistant", "message": {"id": "m9", "usage": usage(5, 5)}}, agentId="a1")
    main.answer(
        tool_use("t", "Task", prompt="x"), usages=[usage(1, 2, iterations=[{"type": "message", "input_tokens": 1, "output_tokens": 2}])]
    )
    main.result("t", "done", structured={"agentId": "a1", "totalTokens": 500, "usage": usage(100, 400)})
    assert [(c.input, c.output) for c in calls_of(main)] == [(1, 2)]


@pytest.mark.feature("claude.usage-advisor")
def test_an_advisor_inside_a_response_is_a_call_of_its_own(tmp_path) -> None:
    main = ClaudeHome(tmp_path).session()
    steps = [
        {"type": "message", "input_tokens": 10, "output_tokens": 5},
        {"type": "advisor_message", "model": "claude-opus-4-8", "input_tokens": 70, "output_tokens": 30, "cache_read_input_tokens": 4},
    ]
    main.answer(text("a"), text("b"), message_id="m", usages=[usage(10, 5, iterations=steps)])
    assert [(c.call_key, c.model, c.input, c.output, c.cache_read) for c in calls_of(main)] == [
        ("m", "claude-sonnet-4-5-20250929", 10, 5, 0),
        ("m/advisor-1", "claude-opus-4-8", 70, 30, 4),
    ]


@pytest.mark.feature("claude.usage-old")
def test_an_old_line_keeps_the_price_the_client_wrote(tmp_path) -> None:
    main = ClaudeHome(tmp_path).session(branch=None, version="0.2.104")
    main.answer(text("Hi"), usages=[usage(4, 12, written=20_000)], costUSD=0.075192)
    (call,) = calls_of(main)
    assert (call.recorded_cost, call.cache_write_5m, call.cache_write_1h) == (75_192_000, 20_000, 0)


@pytest.mark.feature("claude.usage-numbers")
@pytest.mark.parametrize("number", [None, -1, -5.5, 10**13, 2**70, 1e300, "many", [], {}, True])
def test_an_absurd_number_counts_as_none(tmp_path, number: object) -> None:
    main = ClaudeHome(tmp_path).session()
    main.answer(text("a"), usages=[usage(number, 7, read=number)])  # type: ignore[arg-type]
    (call,) = calls_of(main)
    assert (call.input, call.output, call.cache_read) == (0, 7, 0)


@pytest.mark.feature("claude.usage-replay")
def test_a_side_question_that_replays_its_parent_adds_nothing_but_its_own_call(tmp_path) -> None:
    home = ClaudeHome(tmp_path)
    main = home.session().prompt("go").answer(text("a"), message_id="msg_a", usages=[usage(1, 10)]).save()
    aside = home.agent("aside_question-1")
    for index, record in enumerate(main.records):
        assert isinstance(record, dict)
        aside.records.append(record | {"uuid": f"copy-{index}", "isSidechain": True})
    aside.answer(text("own"), message_id="msg_own", usages=[usage(2, 20)]).save()
    parsed = parse_home(HOST, tmp_path)[SESSION]
    rows = [MODEL_CALLS.row(*row) for row in parsed.model_calls]
    assert [(c.call_key, c.thread_id, c.output) for c in rows] == [("msg_a", SESSION, 10), ("msg_own", f"{SESSION}/aside_question-1", 20)]


@pytest.mark.feature("claude.copies")
def test_a_moved_session_and_its_older_generation_are_taken_once(tmp_path) -> None:
    home = ClaudeHome(tmp_path)
    main = home.session().prompt("go").answer(text("a"), usages=[usage(1, 10)]).plain("tag", tag="x")
    short = home.session(slug="-home-dev-moved")
    short.records = main.records[:1]
    short.save()
    main.save()
    once = HOST.records.parse(sessions_of(HOST, main.path.parent.parent.parent)[SESSION])
    session = sessions_of(HOST, tmp_path)[SESSION]
    older = StreamBytes(
        "b" * 16, "transcript", "projects/p/x.jsonl", 0, main.lines()[0] + b'{"type":"tag","tag":"only before"}\n', SESSION, current=False
    )
    parsed = HOST.records.parse(replace(session, streams=(*session.streams, older)))
    assert [row[9] for row in parsed.events] == ["go", "a", '{"type": "tag", "tag": "x"}', '{"type":"tag","tag":"only before"}']
    assert [(row[6], row[7]) for row in parsed.model_calls] == [(1, 10)]
    assert len(once.events) == 3
