"""Sessions of DSPy programs, from the log and from the tables of ctxrot."""

from __future__ import annotations

import pytest

from ctx_pipeline.hosts.dspy_store import HOST
from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.storage.callback_store import LogRow, append, open_log
from ctx_pipeline.storage.raw import databases
from ctx_pipeline_tests.factories import dspy_store as make

STORE = HOST.files.databases["store"]


def stream(path, name, number=1) -> StreamBytes:
    data = databases.read(path, STORE, name)
    return StreamBytes(f"{number:016x}", "store", f"{path.name}#{name}", 0, data, name)


def parse(*streams) -> Parsed:
    return HOST.records.parse(SessionInput("dspy", streams[0].thread_id, streams))


def events(parsed):
    return [EVENTS.row(*row) for row in parsed.events]


@pytest.mark.feature("dspy.titles")
@pytest.mark.parametrize(
    "form",
    [
        "Respond with the corresponding output fields, starting with the field `[[ ## answer ## ]]`, and then end.",
        "Respond with a JSON object in the following order of fields: `answer`.",
    ],
)
def test_what_an_adapter_writes_behind_the_question_is_no_part_of_the_title(tmp_path, form):
    asked = [{"role": "user", "content": f"[[ ## question ## ]]\nRespond with care?\n\n{form}"}]
    row = make.LogRow(make.BEGIN, "s1", "lm_call", "c1", None, {"model": "m", "messages": asked, "completions": ["yes"]})
    path = make.write_log(tmp_path / "ctxrot.db", [row])
    assert parse(stream(path, "s1")).facts.title == "Respond with care?"


@pytest.mark.feature("dspy.log")
def test_a_program_becomes_prompts_answers_and_tool_calls(tmp_path):
    path = make.write_log(tmp_path / "ctxrot.db", make.react())
    parsed = parse(stream(path, "5e55104a0001"))
    assert [(e.kind, e.text) for e in events(parsed)] == [
        ("session_start", "react"),
        ("injected", "Your input fields are: question"),
        ("prompt", "[[ ## question ## ]]\nHow tall is Mont Blanc?"),
        ("reasoning", "a search will do"),
        ("answer", "I look it up"),
        ("tool_call", '{"q":"Mont Blanc"}'),
        ("tool_result", "4808"),
        ("answer", "4808 m"),
        ("session_end", "completed"),
    ]
    facts = parsed.facts
    assert (facts.title, facts.title_source, facts.cwd, facts.status) == ("How tall is Mont Blanc?", "prompt", "/code/climb", "completed")
    (tool,) = [TOOL_CALLS.row(*t) for t in parsed.tool_calls]
    assert (tool.tool, tool.is_error, tool.out_chars, tool.started, tool.ended) == (
        "search",
        False,
        4,
        make.BEGIN + 2_000_000,
        make.BEGIN + 3_000_000,
    )
    assert [e.seq for e in events(parsed)] == list(range(9))
    assert parsed.lines == 5


@pytest.mark.feature("dspy.usage")
def test_tokens_and_cost_of_a_call(tmp_path):
    path = make.write_log(tmp_path / "ctxrot.db", make.react())
    first, second = [MODEL_CALLS.row(*m) for m in parse(stream(path, "5e55104a0001")).model_calls]
    assert (first.call_key, first.input, first.cache_read, first.output, first.reasoning, first.context_tokens) == (
        "lm1",
        400,
        600,
        50,
        10,
        1000,
    )
    assert (first.recorded_cost, first.model, first.owner, first.ts) == (135_000, "openai/gpt-5.4-mini", True, make.BEGIN + 2_000_000)
    assert (second.input, second.recorded_cost) == (1100, None)


@pytest.mark.feature("dspy.usage")
def test_a_cache_hit_costs_nothing_and_a_failed_call_is_an_error_without_tokens(tmp_path):
    hit = {"model": "m", "cache_hit": True, "cost": 0.5, "usage": {"prompt_tokens": 90}, "completions": ["again"]}
    failed = {"model": "m", "error": "boom"}
    path = make.write_log(
        tmp_path / "s.db",
        [LogRow(1_767_225_600_000_000, "s1", "lm_call", "h", None, hit), LogRow(1_767_225_601_000_000, "s1", "lm_call", "f", None, failed)],
    )
    parsed = parse(stream(path, "s1"))
    (call,) = [MODEL_CALLS.row(*m) for m in parsed.model_calls]
    assert (call.call_key, call.input, call.context_tokens, call.recorded_cost) == ("h", 0, 0, 0)
    assert [(e.kind, e.text) for e in events(parsed)] == [("answer", "again"), ("error", "boom")]


@pytest.mark.feature("dspy.legacy")
def test_an_existing_ctxrot_store_is_read_as_it_is(tmp_path):
    path = make.write_legacy(tmp_path / "ctxrot.db")
    assert list(databases.streams(path, STORE)) == ["c0ffee000001"]
    parsed = parse(stream(path, "c0ffee000001"))
    assert [(e.kind, e.text) for e in events(parsed)] == [
        ("session_start", "predict"),
        ("prompt", "capital of France?"),
        ("answer", "Paris"),
        ("tool_call", '{"kwargs":{"x":1}}'),
        ("tool_result", "boom"),
        ("session_end", "errored"),
    ]
    (call,) = [MODEL_CALLS.row(*m) for m in parsed.model_calls]
    assert (call.call_key, call.input, call.cache_read, call.output, call.recorded_cost) == ("call1", 150, 50, 30, 2_000_000)
    (tool,) = [TOOL_CALLS.row(*t) for t in parsed.tool_calls]
    assert (tool.tool, tool.is_error) == ("lookup", True)
    assert parsed.facts.status == "errored"


@pytest.mark.feature("dspy.legacy")
def test_after_the_log_was_added_old_sessions_are_still_read(tmp_path):
    path = make.write_legacy(tmp_path / "ctxrot.db")
    connection = open_log(path)
    append(connection, make.react())
    connection.close()
    assert sorted(databases.streams(path, STORE)) == ["5e55104a0001", "c0ffee000001"]
    assert len(parse(stream(path, "c0ffee000001")).model_calls) == 1


@pytest.mark.feature("dspy.identity")
def test_a_stream_is_the_session_it_is_named_for(tmp_path):
    path = make.write_log(tmp_path / "ctxrot.db", make.react())
    one = stream(path, "5e55104a0001")
    found = HOST.files.identify("store", one.rel, one.data[:65_536])
    assert found is not None
    assert (found.thread_id, found.relation, found.first_ts) == ("5e55104a0001", "main", make.BEGIN)
    legacy = stream(make.write_legacy(tmp_path / "old.db"), "c0ffee000001")
    known = HOST.files.identify("store", legacy.rel, legacy.data)
    assert known is not None
    assert known.first_ts == 1_769_940_000_000_000
    assert HOST.files.identify("store", "ctxrot.db", b"x") is None
    assert HOST.files.identify("store", "ctxrot.db#s", b"") is None


@pytest.mark.feature("dspy.places")
def test_only_databases_in_the_root_are_stores():
    kinds = {
        rel: HOST.files.classify(rel) for rel in ("ctxrot.db", "a.sqlite3", "ctxrot.db-wal", "ctxrot.db-shm", "x/ctxrot.db", "notes.txt")
    }
    assert [rel for rel, kind in kinds.items() if kind] == ["ctxrot.db", "a.sqlite3"]
    assert HOST.files.enter("")
    assert not HOST.files.enter("x")


@pytest.mark.feature("dspy.hostile")
def test_unknown_kinds_and_broken_payloads_are_counted(tmp_path):
    connection = open_log(tmp_path / "s.db")
    append(connection, [LogRow(1, "s1", "hologram", None, None, {"x": 1})])
    connection.execute("INSERT INTO log (at, session_id, kind, payload) VALUES (2, 's1', 'lm_call', 'not json')")
    connection.execute("INSERT INTO log (at, session_id, kind, payload) VALUES (3, 's1', 'lm_call', '{\"completions\": 5}')")
    append(connection, [LogRow(4, "s1", "tool_call", "t", None, {"tool": "f", "output": False, "inputs": []})])
    connection.close()
    parsed = parse(stream(tmp_path / "s.db", "s1"))
    assert parsed.unknown == {"hologram": 1}
    assert [q.line for q in parsed.quarantined] == [1, 2]
    assert [(e.kind, e.text) for e in events(parsed)][1:] == [("tool_call", "[]"), ("tool_result", "false")]


@pytest.mark.feature("dspy.duplicates")
def test_the_same_session_in_two_stores_is_taken_once(tmp_path):
    first = make.write_log(tmp_path / "a.db", make.react())
    second = make.write_log(tmp_path / "b.db", make.react())
    alone = parse(stream(first, "5e55104a0001"))
    both = parse(stream(first, "5e55104a0001"), stream(second, "5e55104a0001", 2))
    assert (both.events, both.model_calls, both.tool_calls) == (alone.events, alone.model_calls, alone.tool_calls)
