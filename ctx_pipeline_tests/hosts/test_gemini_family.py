"""Recordings of Gemini CLI and records of Qwen Code: what is written twice, what is inside of what, and whose it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.host_records import Change
from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline_tests.factories import gemini as make
from ctx_pipeline_tests.factories.sample_homes import assert_made, put, sessions_of

GEMINI, QWEN = discovery.host("gemini"), discovery.host("qwen")


def parse(host, *streams: StreamBytes) -> Parsed:
    return host.records.parse(SessionInput(host.key, streams[0].thread_id, streams))


def stream(text: str, rel: str, kind: str, thread: str, *, generation: int = 0, current: bool = True) -> StreamBytes:
    return StreamBytes("0" * 15 + str(generation), kind, rel, generation, text.encode(), thread, None, current)


def recorded(records, **about) -> Parsed:
    return parse(GEMINI, stream(make.jsonl(records), "tmp/p/chats/session-x.jsonl", "chat", make.LINES, **about))


def events(parsed: Parsed):
    return [EVENTS.row(*row) for row in parsed.events]


@pytest.mark.feature("gemini.sample", "qwen.sample")
def test_the_sample_homes_are_made_by_their_factory() -> None:
    assert_made("gemini_cli", make.gemini_home())
    assert_made("qwen_code", make.qwen_home())


@pytest.mark.feature("gemini.capture")
def test_a_home_is_captured_and_counted_the_same_live_and_stored(tmp_path: Path) -> None:
    found = sessions_of("gemini_cli", put(tmp_path / "home", make.gemini_home()), tmp_path / "store")

    assert {s["session_id"]: (s["title"], s["prompts"], s["threads"]) for s in found.values()} == {
        make.DOCUMENT: ("Contents for the notes", 1, 1),
        make.LINES: ("Tests and a changelog", 3, 2),
    }
    assert found[make.DOCUMENT]["calls"] == [("gemini-2.5-flash", 1050, 30, 0, 0, 0), ("gemini-2.5-pro", 300, 65, 0, 600, 25)]
    assert found[make.DOCUMENT]["priced"] == 2


@pytest.mark.feature("gemini.tokens")
@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (make.tokens(900, 40, 600, 25), (300, 65, 600, 25)),
        (make.tokens(100, 10, tool=7), (107, 10, 0, 0)),
        ({"input": 100, "output": 10, "cached": 50, "total": 160}, (100, 10, 50, 0)),
        ({"input": 0, "output": 0, "cached": 0, "total": 77}, (0, 77, 0, 0)),
    ],
    ids=["cached inside the prompt", "prompts of tools beside it", "cached beside the prompt", "a total alone"],
)
def test_cached_tokens_are_inside_the_prompt_and_thoughts_beside_the_answer(tokens, expected) -> None:
    parsed = recorded([make.message("m", 1, "gemini", "words", tokens=tokens, model="gemini-2.5-pro")])
    (call,) = [MODEL_CALLS.row(*row) for row in parsed.model_calls]

    assert (call.input, call.output, call.cache_read, call.reasoning) == expected
    assert call.context_tokens == call.input + call.cache_read


@pytest.mark.feature("gemini.rewritten")
def test_a_message_that_is_written_again_is_one_with_all_that_it_got() -> None:
    parsed = recorded(make.lines())

    assert [e.text for e in events(parsed) if e.kind == "answer"] == ["On it.", "Renamed.", "Done."]
    assert len(parsed.model_calls) == 3
    (tool,) = [TOOL_CALLS.row(*row) for row in parsed.tool_calls]
    assert (tool.argv, tool.exit, tool.is_error) == (["pytest -q"], 0, False)


@pytest.mark.feature("gemini.rewritten")
def test_a_history_with_masked_results_keeps_the_results_of_before() -> None:
    begun, *_ = [r for r in make.lines() if r.get("id") == "n2" and "toolCalls" in r]
    call = begun["toolCalls"][0]
    masked = begun | {"toolCalls": [call | {"result": [{"functionResponse": {"id": call["id"], "response": {"output": "[masked]"}}}]}]}
    parsed = recorded([begun, {"$set": {"messages": [masked]}}])

    assert [e.text for e in events(parsed) if e.kind == "tool_result"] == ["Output: 3 passed\nExit Code: 0"]
    assert not [e for e in events(parsed) if e.kind == "compaction"]


@pytest.mark.feature("gemini.window")
def test_a_rewind_takes_turns_back_and_a_rewritten_history_is_a_compaction() -> None:
    parsed = recorded(make.lines())
    notes = [(e.kind, e.subtype, e.text) for e in events(parsed) if e.kind == "compaction" or e.subtype == "rewind"]

    assert notes == [("injected", "rewind", "1"), ("compaction", "$set/messages", "<state_snapshot>tests written</state_snapshot>")]
    assert GEMINI.records.window is not None
    assert GEMINI.records.window("injected", "rewind", "1", bytes) == Change("rollback", turns=1)
    assert next(e.text for e in events(parsed) if e.kind == "prompt") == "write the tests @plan.md"


@pytest.mark.feature("gemini.resumed")
def test_a_document_that_went_on_as_lines_is_one_session_and_counted_once() -> None:
    document = make.document()
    lines = [{k: document[k] for k in ("sessionId", "projectHash", "startTime", "lastUpdated")}, *document["messages"]]
    more = make.message("m8", 40, "user", "go on")
    old = stream(json.dumps(document, indent=2), "tmp/p/chats/session-a.json", "chat", make.DOCUMENT)
    new = stream(make.jsonl([*lines, more]), "tmp/p/chats/session-a.jsonl", "chat", make.DOCUMENT, generation=1)
    parsed = parse(GEMINI, old, new)

    assert len(parsed.model_calls) == 2
    assert [e.text for e in events(parsed) if e.kind == "prompt"] == ["add a table of contents to notes.md", "go on"]


@pytest.mark.feature("gemini.folder")
def test_the_folder_is_the_one_whose_hash_names_the_project() -> None:
    document = make.document()
    said = parse(GEMINI, stream(json.dumps(document), "tmp/p/chats/session-a.json", "chat", make.DOCUMENT))
    other = parse(GEMINI, stream(json.dumps(document | {"projectHash": "a-slug"}), "tmp/p/chats/session-a.json", "chat", make.DOCUMENT))

    assert (said.facts.cwd, other.facts.cwd) == (make.FOLDER, None)


@pytest.mark.feature("gemini.broken")
def test_a_document_that_is_cut_is_one_quarantined_record() -> None:
    text = json.dumps(make.document(), indent=2)
    parsed = parse(GEMINI, stream(text[: len(text) // 2], "tmp/p/chats/session-a.json", "chat", make.DOCUMENT))

    assert (len(parsed.quarantined), parsed.events) == (1, [])


@pytest.mark.feature("gemini.retention")
@pytest.mark.parametrize(
    ("settings", "days"),
    [
        (None, 30),
        ({"general": {"sessionRetention": {"enabled": False}}}, None),
        ({"general": {"sessionRetention": {"enabled": True, "maxAge": "2w"}}}, 14),
        ({"general": {"sessionRetention": {"maxAge": "12h"}}}, 1),
        ({"general": []}, 30),
    ],
)
def test_the_retention_of_the_settings_is_known(tmp_path: Path, settings, days) -> None:
    if settings is not None:
        (tmp_path / "settings.json").write_text(json.dumps(settings))
    assert GEMINI.files.retention_days is not None
    assert GEMINI.files.retention_days(tmp_path) == days


@pytest.mark.feature("gemini.history")
def test_prompts_of_sessions_that_are_gone_are_remembered() -> None:
    logs = next(text for rel, text in make.gemini_home().items() if rel.endswith("logs.json"))
    assert GEMINI.files.prompt_history is not None
    assert [session for session, _ in GEMINI.files.prompt_history("logs", logs.encode())] == [make.DOCUMENT]
    assert list(GEMINI.files.prompt_history("logs", b"[{")) == []


@pytest.mark.feature("qwen.tokens")
def test_thoughts_are_inside_the_candidates_where_the_total_says_so() -> None:
    parsed = parse(QWEN, stream(make.jsonl(make.qwen_lines()), "projects/p/chats/a.jsonl", "records", make.QWEN))
    calls = [MODEL_CALLS.row(*row) for row in parsed.model_calls]

    assert [(c.input, c.output, c.cache_read, c.reasoning) for c in calls] == [(200, 60, 1000, 20), (100, 30, 1200, 0), (800, 9, 0, 0)]
    assert parsed.threads[0].context_window == 1_000_000


@pytest.mark.feature("qwen.compaction")
def test_a_compaction_that_saved_nothing_is_none() -> None:
    parsed = parse(QWEN, stream(make.jsonl(make.qwen_lines()), "projects/p/chats/a.jsonl", "records", make.QWEN))

    assert [e.subtype for e in events(parsed) if e.kind in {"compaction", "attachment"}] == [
        "chat_compression",
        "chat_compression/failed",
        "ui_telemetry",
    ]


@pytest.mark.feature("qwen.branch")
def test_a_branch_is_a_session_whose_copied_calls_count_for_its_origin(tmp_path: Path) -> None:
    home = put(tmp_path / "home", make.qwen_home())
    put(home, {f"projects/-home-ada-notes/chats/{make.BRANCH}.jsonl": make.jsonl(make.qwen_branch())})
    found = sessions_of("qwen_code", home, tmp_path / "store")

    assert found[make.BRANCH]["parent_session"] == make.QWEN
    assert found[make.BRANCH]["calls"] == [("qwen3-coder-plus", 300, 12, 0, 1200, 0)]
    assert len(found[make.QWEN]["calls"]) == 4
    assert (found[make.QWEN]["threads"], found[make.QWEN]["title"], found[make.QWEN]["branch"]) == (2, "Tests that pass", "trunk")


@pytest.mark.feature("gemini.resume", "qwen.resume")
def test_sessions_are_resumed_from_their_folder() -> None:
    assert GEMINI.resuming("s-1", "/home/ada/notes") == "cd /home/ada/notes && gemini --resume s-1"
    assert QWEN.resuming("s-1", "/home/ada/notes") == "cd /home/ada/notes && qwen --resume s-1"
