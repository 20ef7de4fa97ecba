"""Fields of Codex records that columns and events have room for."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from ctx_pipeline.hosts.codex import HOST
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline_tests.factories import codex as make

PICTURE = b"\x89PNG" + bytes(3_000)
ADDRESS = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
KEPT = {"media_type": "image/png", "sha256": hashlib.sha256(PICTURE).hexdigest(), "bytes": 3_004}


def parsed(*records):
    return make.parse(make.stream([make.meta(), make.context(1), *records]))


def events(*records):
    return [EVENTS.row(*row) for row in parsed(*records).events]


def tools(*records):
    return [TOOL_CALLS.row(*row) for row in parsed(*records).tool_calls]


@pytest.mark.feature("codex.images")
def test_pictures_that_were_shown_are_kept_by_hash():
    block = {"type": "input_image", "image_url": ADDRESS}
    found = events(
        make.item(2, "message", role="user", content=[{"type": "input_text", "text": "what is this"}, block]),
        make.event(2, "user_message", message="what is this", images=[ADDRESS]),
        make.item(3, "function_call", name="view_image", call_id="c", arguments='{"path":"/code/app/a.png"}'),
        make.item(
            4, "function_call_output", call_id="c", output=[block, {"type": "input_image", "image_url": "https://example.com/b.png"}]
        ),
    )
    shown = [(e.actor, e.call_id, json.loads(e.text)) for e in found if e.subtype == "input_image"]
    assert shown == [("user", None, KEPT), ("tool", "c", KEPT), ("tool", "c", {"url": "https://example.com/b.png"})]
    assert len({e.event_id for e in found}) == len(found)


@pytest.mark.feature("codex.images")
def test_a_picture_that_was_made_is_kept_by_hash():
    made = base64.b64encode(PICTURE).decode()
    found = events(make.item(2, "image_generation_call", id="ig", status="completed", result=made, revised_prompt="a fox"))
    assert [(e.kind, e.text) for e in found[-2:-1]] == [("tool_call", "a fox")]
    assert json.loads(found[-1].text) == {"type": "image", "sha256": KEPT["sha256"], "bytes": KEPT["bytes"]}


@pytest.mark.feature("codex.mcp")
def test_calls_of_mcp_tools_carry_server_tool_duration_and_failure():
    took = {"secs": 2, "nanos": 500_000_000}
    alone, joined, spaced = tools(
        make.event(9, "mcp_tool_call_end", call_id="a", invocation={"server": "hub", "tool": "pr"}, duration=took, result={"Err": "no"}),
        make.item(10, "function_call", name="log", namespace="mcp__git__", call_id="b", arguments="{}"),
        make.event(11, "mcp_tool_call_end", call_id="b", invocation={"server": "git", "tool": "log"}, result={"Ok": {"isError": True}}),
        make.item(12, "function_call", name="ping", namespace="mcp__git", call_id="c", arguments="{}"),
    )
    assert (alone.tool, alone.action, alone.is_error, alone.ended - alone.started) == ("hub.pr", "mcp", True, 2_500_000)
    assert (joined.tool, joined.action, joined.is_error) == ("mcp__git__log", "mcp", True)
    assert (spaced.tool, spaced.action, spaced.is_error) == ("mcp__git__ping", "mcp", False)


@pytest.mark.feature("codex.tools")
def test_a_command_of_the_persons_own_has_its_output_and_its_time():
    took = {"secs": 3, "nanos": 0}
    found = parsed(make.event(9, "exec_command_end", call_id="u", command=["ls"], exit_code=1, aggregated_output="no such", duration=took))
    (tool,) = [TOOL_CALLS.row(*row) for row in found.tool_calls]
    assert (tool.tool, tool.exit, tool.out_chars, tool.ended - tool.started) == ("user_shell", 1, 7, 3_000_000)
    assert [(e[6], e[9]) for e in found.events[-2:]] == [("tool_call", '["ls"]'), ("tool_result", "no such")]


@pytest.mark.feature("codex.tools")
def test_a_patch_names_the_lines_it_changed():
    diff = "@@ -1,2 +1,3 @@\n a\n+b\n c\n@@ -10 +11 @@\n-x\n+y\n@@ -20,2 +20,0 @@\n-p\n-q\n"
    changes = {"/code/app/a.py": {"type": "update", "unified_diff": diff}, "/code/app/n.txt": {"type": "add", "content": "hi\n"}}
    (tool,) = tools(make.event(5, "patch_apply_end", call_id="p", success=True, changes=changes))
    assert (tool.paths, tool.ranges) == (["/code/app/a.py", "/code/app/n.txt"], ["1-3,11-11", ""])


@pytest.mark.feature("codex.windows")
def test_each_window_says_its_number_and_what_it_held_when_it_ended():
    found = events(
        make.tokens(2, make.usage(9_000, 100, 5), make.usage(9_000, 100, 5)),
        make.line(3, "compacted", {"message": "so far", "window_number": 2, "window_id": "w2"}),
    )
    assert [(e.kind, e.text) for e in found if e.subtype == "compacted"] == [("compaction", "so far")]
    (window,) = [json.loads(e.text) for e in found if e.subtype == "compacted/window"]
    assert window == {"window_number": 2, "window_id": "w2", "context_tokens": 9_000}


@pytest.mark.feature("codex.goals")
def test_goals_settings_and_rollbacks_are_events_with_what_they_say():
    found = {
        e.subtype: json.loads(e.text)["payload"]
        for e in events(
            make.event(2, "thread_goal_updated", goal={"objective": "ship"}),
            make.event(3, "thread_settings_applied", thread_settings={"service_tier": "fast"}),
            make.event(4, "thread_rolled_back", num_turns=2),
        )[2:]
    }
    assert found["thread_goal_updated"]["goal"] == {"objective": "ship"}
    assert found["thread_settings_applied"]["thread_settings"] == {"service_tier": "fast"}
    assert found["thread_rolled_back"]["num_turns"] == 2


@pytest.mark.feature("codex.realtime")
def test_realtime_items_and_retained_context_are_kept_as_they_are():
    found = events(make.line(2, "realtime_item", {"say": "hello"}), make.line(3, "retained_context", {"keep": [1]}))
    assert [(e.subtype, json.loads(e.text)["payload"]) for e in found[2:]] == [
        ("realtime_item", {"say": "hello"}),
        ("retained_context", {"keep": [1]}),
    ]


@pytest.mark.feature("codex.reviews")
@pytest.mark.parametrize(
    ("source", "kind"),
    [({"subagent": "review"}, "review"), ({"subagent": "compact"}, "compact"), ({"subagent": {"other": "guardian"}}, "subagent")],
)
def test_a_review_guardian_or_compaction_thread_is_work_of_the_session_that_it_names(source, kind):
    root = make.stream(make.session(make.PARENT), make.PARENT, path=make.rel(make.PARENT))
    side = make.stream([make.meta(source=source, session_id=make.PARENT), *make.session()[1:]], number=2)
    assert side.parent_thread_id == make.PARENT
    found = make.parse(root, side, session=make.PARENT)
    assert [(t.thread_id, t.kind, t.parent_thread_id) for t in found.threads] == [
        (make.PARENT, "main", None),
        (make.THREAD, kind, make.PARENT),
    ]
    assert {MODEL_CALLS.row(*row).session_id for row in found.model_calls} == {make.PARENT}


@pytest.mark.feature("codex.old-totals")
@pytest.mark.feature("codex.counter-restart")
def test_running_totals_alone_give_calls_also_after_they_start_over():
    totals = [(1_000, 10), (2_500, 30), (2_500, 30), (400, 5), (900, 9)]
    records = [make.tokens(2 + 5 * n, make.usage(total, 0, output), None) for n, (total, output) in enumerate(totals)]
    found = [MODEL_CALLS.row(*row) for row in parsed(*records).model_calls]
    assert [(c.input, c.output) for c in found] == [(1_000, 10), (1_500, 20), (400, 5), (500, 4)]


@pytest.mark.feature("codex.titles")
def test_the_prompt_history_names_a_thread_whose_file_says_nothing():
    lines = [
        {"session_id": "a", "ts": 1, "text": "/init"},
        {"session_id": "a", "ts": 2, "text": "first"},
        {"session_id": "a", "text": "next"},
    ]
    assert list(HOST.files.hints("history", make.lines(lines))) == [("a", "first_prompt", "first")]
    told = make.parse(make.stream([make.meta()]), hints={make.THREAD: {"first_prompt": "typed long ago"}})
    assert (told.facts.title, told.facts.title_source) == ("typed long ago", "prompt")


@pytest.mark.feature("codex.usage-numbers")
def test_numbers_beyond_reason_count_as_none_and_ten_million_counts():
    (odd, big) = [
        MODEL_CALLS.row(*row)
        for row in parsed(
            make.tokens(2, make.usage(10**15, -5, 7), make.usage(10**15, -5, 7)),
            make.tokens(9, make.usage(10_000_000, 0, 9), make.usage(10_000_000, 0, 2)),
        ).model_calls
    ]
    assert (odd.input, odd.cache_read, odd.output) == (0, 0, 7)
    assert (big.input, big.output) == (10_000_000, 2)
