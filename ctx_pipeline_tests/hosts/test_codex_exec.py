"""Streams of ``codex exec --json``: sessions where no rollout says more."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from ctx_pipeline.hosts.codex import HOST
from ctx_pipeline.model.raw import Identity, SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline_tests.factories import codex as make

BORN = 1_772_375_769_088_000
"""The time in the thread's UUIDv7."""


def item(stage, kind, number=0, **fields):
    return {"type": f"item.{stage}", "item": {"id": f"item_{number}", "type": kind} | fields}


def turn(total, cached, output):
    return {"type": "turn.completed", "usage": {"input_tokens": total, "cached_input_tokens": cached, "output_tokens": output}}


HEAD = [{"type": "thread.started", "thread_id": make.THREAD}, {"type": "turn.started"}]
RUN = [
    *HEAD,
    item("started", "command_execution", command="ls", aggregated_output="", status="in_progress"),
    item("completed", "command_execution", command="ls", aggregated_output="a.txt\n", exit_code=2, status="failed"),
    item("completed", "file_change", 1, changes=[{"path": "/code/app/a.txt", "kind": "add"}], status="completed"),
    item("completed", "mcp_tool_call", 2, server="git", tool="log", arguments={"n": 1}, result={"ok": True}, status="completed"),
    item("completed", "web_search", 3, query="weather"),
    item("completed", "reasoning", 4, text="hm"),
    item("updated", "todo_list", 5, items=[{"text": "go", "completed": False}]),
    item("completed", "todo_list", 5, items=[{"text": "go", "completed": True}, {"text": "rest", "completed": False}]),
    item("completed", "agent_message", 6, text="One file: a.txt"),
    turn(24_763, 24_448, 122),
]


def parsed(*streams, hints=None):
    made = tuple(
        StreamBytes(f"{n:016x}", "loose", f"run-{n}.jsonl", 0, make.lines(records), make.THREAD) for n, records in enumerate(streams)
    )
    return HOST.records.parse(SessionInput("codex", make.THREAD, made, hints or {}))


def used(*streams):
    return [(c.input, c.cache_read, c.output) for c in (MODEL_CALLS.row(*row) for row in parsed(*streams).model_calls)]


@pytest.mark.feature("codex.exec-json")
def test_a_stream_gives_what_was_said_and_done():
    found = parsed(RUN, hints={make.THREAD: {"first_prompt": "list the files"}})
    assert [(e.kind, e.text) for e in (EVENTS.row(*row) for row in found.events)] == [
        ("session_start", None),
        ("attachment", None),
        ("tool_call", "ls"),
        ("tool_result", "a.txt\n"),
        ("tool_call", "/code/app/a.txt"),
        ("tool_result", "completed"),
        ("tool_call", '{"n":1}'),
        ("tool_result", '{"ok":true}'),
        ("tool_call", "weather"),
        ("tool_result", ""),
        ("reasoning", "hm"),
        ("todo", "[x] go\n[ ] rest"),
        ("answer", "One file: a.txt"),
        ("attachment", None),
    ]
    assert [(t.tool, t.action, t.paths, t.argv, t.exit, t.is_error) for t in (TOOL_CALLS.row(*row) for row in found.tool_calls)] == [
        ("command_execution", "shell", [], ["ls"], 2, True),
        ("file_change", "write", ["/code/app/a.txt"], [], None, False),
        ("git.log", "mcp", [], [], None, False),
        ("web_search", "web", [], ["weather"], None, False),
    ]
    assert (found.facts.title, found.facts.status, found.unknown) == ("list the files", "completed", {})


@pytest.mark.feature("codex.exec-json")
def test_usage_of_a_stream_has_the_time_of_its_thread_and_a_guessed_model():
    (call,) = [MODEL_CALLS.row(*row) for row in parsed(RUN).model_calls]
    assert (call.input, call.cache_read, call.output, call.ts, call.model, call.model_guessed) == (315, 24_448, 122, BORN, "gpt-5", True)


@pytest.mark.feature("codex.exec-json")
def test_running_totals_count_by_growth_and_others_by_turn():
    assert used([*HEAD, turn(1_000, 400, 50), turn(2_500, 1_400, 80)]) == [(600, 400, 50), (500, 1_000, 30)]
    assert used([*HEAD, turn(1_000, 400, 50), turn(2_500, 1_400, 20)]) == [(600, 400, 50), (1_100, 1_400, 20)]


@pytest.mark.feature("codex.exec-json")
def test_a_resumed_run_in_a_second_file_goes_on_and_a_copy_adds_nothing():
    first, second = [*HEAD, turn(1_000, 400, 50)], [*HEAD, turn(2_500, 1_400, 80)]
    assert used(second, first, first[:2], first) == [(600, 400, 50), (500, 1_000, 30)]


@pytest.mark.feature("codex.exec-json")
def test_the_first_builds_named_things_otherwise():
    old = [
        {"type": "session.created", "session_id": make.THREAD},
        {"type": "item.completed", "item": {"id": "i", "item_type": "assistant_message", "text": "hi"}},
        {"type": "turn.failed", "error": {"message": "quota"}},
        {"type": "hologram"},
    ]
    found = parsed(old)
    assert [(e[6], e[9]) for e in found.events[:3]] == [("session_start", None), ("answer", "hi"), ("error", "quota")]
    assert (found.facts.status, found.unknown) == ("errored", {"exec/hologram": 1})


@pytest.mark.feature("codex.exec-json")
def test_a_rollout_of_the_same_thread_is_read_in_place_of_the_stream():
    rollout = make.stream(make.session(), number=9)
    stream = StreamBytes("a" * 16, "loose", "run.jsonl", 0, make.lines(RUN), make.THREAD)
    alone, both = make.parse(rollout), make.parse(stream, rollout)
    assert (both.events, both.model_calls) == (alone.events, alone.model_calls)
    assert [*map(astuple, both.threads)] == [*map(astuple, alone.threads)]


@pytest.mark.feature("codex.exec-json")
@pytest.mark.parametrize(
    ("head", "found"),
    [
        (make.lines(RUN), Identity(make.THREAD, first_ts=BORN)),
        (b'{"type":"session.created","session_id":"../../up"}\n', "digest"),
        (make.lines(make.session()), Identity(make.THREAD, first_ts=1_772_366_400_000_000)),
        (make.lines([make.context(0), make.meta()]), Identity(make.THREAD, first_ts=1_772_366_400_000_000)),
        (
            b'{"id":"bare-1","timestamp":"2025-08-02T09:00:00.123Z","instructions":null}\n',
            Identity("bare-1", first_ts=1_754_125_200_123_000),
        ),
        (b'{"type":"thread.started"}\n', None),
        (b'{"id":7}\n[1]\nnot json\n', None),
        (b"", None),
    ],
)
def test_loose_files_are_told_apart_by_their_first_lines(head, found):
    identity = HOST.files.identify("loose", "any/name.jsonl", head)
    if found == "digest":
        assert identity is not None
        assert identity.thread_id.isalnum()
    else:
        assert identity == found
