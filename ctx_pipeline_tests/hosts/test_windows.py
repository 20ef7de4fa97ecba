"""What the records of each host do to the context window."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.hosts.claude_code.window import window as claude
from ctx_pipeline.hosts.codex.window import window as codex
from ctx_pipeline.model.host_records import OUT, SYSTEM, TURN, Change


def no_record():
    raise AssertionError("the record is not needed")


@pytest.mark.feature("history.of-a-session")
@pytest.mark.parametrize(
    ("kind", "subtype", "stands"),
    [
        ("prompt", None, TURN),
        ("answer", None, TURN),
        ("injected", "meta", TURN),
        ("injected", "compact-summary", TURN),
        ("attachment", "attachment/skill_listing", TURN),
        ("attachment", "image", TURN),
        ("todo", "attachment/task_reminder", TURN),
        ("subagent_start", "agent_prompt", TURN),
        ("injected", "queue-operation/enqueue", OUT),
        ("injected", "system/away_summary", OUT),
        ("injected", "synthetic", OUT),
        ("attachment", "progress/bash_progress", OUT),
        ("attachment", "file-history-snapshot", OUT),
        ("error", "system/api_error", OUT),
        ("subagent_start", "workflow/started", OUT),
        ("title", "ai-title", OUT),
    ],
)
def test_what_claude_code_sends_and_what_it_only_shows(kind, subtype, stands):
    assert claude(kind, subtype, "text", no_record) == stands


@pytest.mark.feature("history.of-a-session")
def test_a_boundary_of_claude_code_empties_the_window_and_a_small_one_blanks_results():
    small = json.dumps({"trigger": "auto", "compactedToolIds": ["toolu_1", 7, "toolu_2"]})

    assert claude("compaction", "system/compact_boundary", '{"preTokens":9}', no_record) == Change("compaction", everything=True)
    assert claude("compaction", "system/microcompact_boundary", small, no_record).results == ("toolu_1", "toolu_2")
    for broken in (None, "", "{", "[]", '{"compactedToolIds":"x"}', '{"compactedToolIds":null}'):
        assert claude("compaction", "system/microcompact_boundary", broken, no_record) == Change("clearing")


@pytest.mark.feature("history.of-a-session")
@pytest.mark.parametrize(
    ("kind", "subtype", "stands"),
    [
        ("injected", "session_meta/instructions", SYSTEM),
        ("injected", "message/developer", TURN),
        ("prompt", "user_message", TURN),
        ("tool_result", "function_call_output", TURN),
        ("injected", "replay/response_item/message", OUT),
        ("injected", "interrupt", OUT),
        ("attachment", "world_state", OUT),
        ("attachment", "token_count/rate_limits", OUT),
    ],
)
def test_what_codex_sends_and_what_it_only_records(kind, subtype, stands):
    assert codex(kind, subtype, "text", no_record) == stands


@pytest.mark.feature("history.of-a-session")
def test_a_compaction_of_codex_keeps_the_messages_that_it_lists():
    history = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "mend"}, {"type": "input_text", "text": "it"}]},
        {"type": "message", "role": "developer", "content": "rules"},
        {"type": "compaction", "encrypted_content": "x"},
        "junk",
    ]
    line = json.dumps({"type": "compacted", "payload": {"message": "so far", "replacement_history": history}}).encode()

    assert codex("compaction", "compacted", "so far", lambda: line) == Change(
        "compaction", everything=True, kept=("mend\nit", "rules"), text="so far"
    )


@pytest.mark.feature("history.of-a-session")
@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"payload":7}', b'{"payload":{"message":""}}', b"[" * 100_000])
def test_a_compaction_of_codex_without_a_list_keeps_the_prompts(line):
    assert codex("compaction", "compacted", None, lambda: line) == Change("compaction", everything=True, keeps_prompts=True)
    assert codex("compaction", "context_compacted", None, no_record) == Change("compaction", everything=True, keeps_prompts=True)


@pytest.mark.feature("history.of-a-session")
@pytest.mark.parametrize(
    ("said", "turns"), [('{"payload":{"num_turns":2}}', 2), ('{"num_turns":-1}', 0), ('{"num_turns":true}', 0), (None, 0)]
)
def test_turns_that_codex_rolled_back_are_counted(said, turns):
    assert codex("attachment", "thread_rolled_back", said, no_record) == Change("rollback", turns=turns)
