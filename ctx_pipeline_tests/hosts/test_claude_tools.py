"""Tool calls of Claude Code, joined with their results."""

from __future__ import annotations

from typing import Any

import pytest

from ctx_pipeline.hosts.claude_code import HOST
from ctx_pipeline.model.tables import EVENTS, TOOL_CALLS
from ctx_pipeline_tests.factories.claude import SESSION, ClaudeHome, Transcript, small_home, text, tool_use
from ctx_pipeline_tests.factories.homes import parse_home


def tool_rows(transcript: Transcript) -> list[Any]:
    transcript.save()
    parsed = parse_home(HOST, transcript.path.parent.parent.parent)[SESSION]
    return [TOOL_CALLS.row(*row) for row in parsed.tool_calls]


@pytest.mark.feature("claude.tools")
def test_an_ordinary_session_gives_calls_with_paths_ranges_and_status(tmp_path) -> None:
    small_home(tmp_path)
    parsed = parse_home(HOST, tmp_path)[SESSION]
    rows = [TOOL_CALLS.row(*row) for row in parsed.tool_calls]
    parser = "/home/dev/shop/parser.py"
    assert [(c.tool, c.action, c.paths, c.ranges, c.argv, c.exit, c.is_error) for c in rows] == [
        ("Read", "read", [parser], ["10-29"], [], None, False),
        ("Edit", "edit", [parser], ["12-14"], [], None, False),
        ("Bash", "shell", [], [], ["pytest -q"], 2, True),
        ("Bash", "shell", [], [], ["cat log"], 0, False),
        ("Task", "task", [], [], [], None, False),
    ]
    assert [c.seq for c in rows] == sorted(c.seq for c in rows)
    events = {row[0]: EVENTS.row(*row) for row in parsed.events}
    for call in rows:
        assert events[call.call_event].call_id == events[call.result_event].call_id == call.call_id
        assert call.in_chars == len(events[call.call_event].text)
        assert call.ended == events[call.result_event].ts


@pytest.mark.feature("claude.spilled-results")
def test_a_spilled_result_is_read_from_its_file_by_name_alone(tmp_path) -> None:
    small_home(tmp_path)
    (tmp_path / "outside.txt").write_text("secret")
    parsed = parse_home(HOST, tmp_path)[SESSION]
    results = {row[11]: row[9] for row in parsed.events if row[6] == "tool_result"}
    assert results["toolu_4"] == "all of the log"
    assert next(row for row in parsed.tool_calls if row[0] == "toolu_4")[15] == len("all of the log")
    main = ClaudeHome(tmp_path / "other").session()
    stub = f"<persisted-output>\nFull output saved to: {tmp_path}/outside.txt\n"
    main.call("t", "Bash", stub, command="x").save()
    (result,) = [row[9] for row in parse_home(HOST, tmp_path / "other")[SESSION].events if row[6] == "tool_result"]
    assert result == stub


@pytest.mark.feature("claude.tools")
@pytest.mark.parametrize(
    ("tool", "action"),
    [
        ("Read", "read"),
        ("MultiEdit", "edit"),
        ("NotebookEdit", "edit"),
        ("Write", "write"),
        ("Grep", "search"),
        ("Glob", "search"),
        ("LS", "search"),
        ("BashOutput", "shell"),
        ("WebFetch", "web"),
        ("WebSearch", "web"),
        ("Agent", "task"),
        ("TodoWrite", "plan"),
        ("TaskCreate", "plan"),
        ("ExitPlanMode", "plan"),
        ("AskUserQuestion", "ask"),
        ("mcp__linear__get_issue", "mcp"),
        ("Skill", "other"),
        ("SomethingNew", "other"),
    ],
)
def test_every_tool_has_an_action(tmp_path, tool: str, action: str) -> None:
    (row,) = tool_rows(ClaudeHome(tmp_path).session().call("t", tool, "ok"))
    assert (row.tool, row.action) == (tool, action)


@pytest.mark.feature("claude.tools")
@pytest.mark.parametrize(
    ("answer", "status", "failed"),
    [
        (("Exit code 1\nno", True, "Error: Exit code 1\nno"), 1, True),
        (("fine", None, {"stdout": "fine", "stderr": "", "interrupted": False}), 0, False),
        (("no matches", None, {"stdout": "", "interrupted": False, "returnCodeInterpretation": "No matches found"}), None, False),
        (("running", None, {"stdout": "", "interrupted": False, "backgroundTaskId": "b1"}), None, False),
        (("stopped", None, {"stdout": "", "interrupted": True}), None, False),
        (("denied", True, "Error: The user doesn't want to proceed"), None, True),
        (("fine", None, None), None, False),
        (("fine", None, {"exitCode": 3, "status": "completed"}), 3, True),
        (("Exit code 99999999999999999999", True, None), None, True),
    ],
)
def test_exit_status_is_taken_only_where_it_is_recorded(tmp_path, answer, status, failed) -> None:
    content, is_error, structured = answer
    (row,) = tool_rows(ClaudeHome(tmp_path).session().call("t", "Bash", content, is_error=is_error, structured=structured, command="x"))
    assert (row.exit, row.is_error) == (status, failed)


@pytest.mark.feature("claude.tools")
def test_parallel_unanswered_and_stray_results_are_matched_by_id(tmp_path) -> None:
    main = ClaudeHome(tmp_path).session().prompt("go")
    main.answer(tool_use("t1", "Read", file_path="a"), tool_use("t2", "Read", file_path="b"), tool_use("t3", "Read", file_path="c"))
    main.result("t2", "B").result("t1", "A").result("stray", "?")
    rows = tool_rows(main)
    assert [(r.call_id, r.out_chars, r.ended is None) for r in rows] == [("t1", 1, False), ("t2", 1, False), ("t3", 0, True)]


@pytest.mark.feature("claude.tools")
def test_a_written_file_is_known_by_the_hash_of_its_text_unless_the_write_failed(tmp_path) -> None:
    main = ClaudeHome(tmp_path).session()
    main.call("t1", "Write", "File created", file_path="/a", content="abc").call(
        "t2", "Write", "denied", is_error=True, file_path="/b", content="abc"
    )
    rows = tool_rows(main)
    assert rows[0].after_sha == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert [(r.paths, r.before_sha) for r in rows] == [(["/a"], None), (["/b"], None)]
    assert rows[1].after_sha is None


@pytest.mark.feature("claude.tools")
def test_images_in_a_result_are_named_but_their_data_is_left_in_raw(tmp_path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * 50}}
    main = ClaudeHome(tmp_path).session().answer(tool_use("t", "Read", file_path="x.png")).result("t", [text("see"), image])
    main.save()
    events = [EVENTS.row(*row) for row in parse_home(HOST, tmp_path)[SESSION].events]
    assert [(e.kind, e.subtype, e.call_id) for e in events] == [
        ("tool_call", None, "t"),
        ("tool_result", None, "t"),
        ("attachment", "image", "t"),
    ]
    assert "QUJD" not in (events[2].text or "")
    assert "image/png" in (events[2].text or "")


@pytest.mark.feature("claude.tools")
def test_server_tools_are_answered_inside_the_assistant_record(tmp_path) -> None:
    main = ClaudeHome(tmp_path).session()
    call = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "weather"}}
    main.answer(call, {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": [{"type": "text", "text": "sunny"}]})
    (row,) = tool_rows(main)
    assert (row.tool, row.action, row.argv, row.out_chars) == ("web_search", "web", ["weather"], 5)
