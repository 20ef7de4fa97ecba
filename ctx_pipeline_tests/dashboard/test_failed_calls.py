"""What the page's transcript says of a call that failed, and that no code of a terminal is left in it."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.dashboard.transcript import transcript
from ctx_pipeline.storage.warehouse.transcript_queries import NO_ROWS, EventRow, ToolRow

BOX = "╭──────╮\n\x1b[31m│ biome │\x1b[0m\n╰──────╯\n\x1b[1G\x1b[0K\x1b[0m\x1b[34mChecked \x1b[0m<b>4</b> files\n"


def drawn(output: str, line: str | None = None) -> dict:
    """The call with its result, as the page unpacks it."""
    events = [EventRow(0, 1, 1, "tool_call", "c", None, "{}"), EventRow(0, 2, 2, "tool_result", "r", None, output)]
    tool = ToolRow("c", "r", "Bash", "run", True, 1, 5, "failed", line)
    (piece,) = transcript(NO_ROWS._replace(events=events, tools=[tool]), {}).inline
    (call,) = json.loads(piece)
    return call[6]


@pytest.mark.feature("dashboard.transcript")
def test_colors_and_moves_of_a_terminal_are_no_text_and_all_else_is():
    assert drawn(BOX)["r"] == "╭──────╮\n│ biome │\n╰──────╯\nChecked <b>4</b> files\n"


@pytest.mark.feature("dashboard.transcript")
@pytest.mark.parametrize(
    "line", [None, "╭──────╮", "check ━━━━━━━━", '"exit_code": 1,', "Exit code 1", "Process exited with code 1", "Script completed"]
)
def test_a_call_failed_with_the_first_line_that_says_something(line):
    heading = "Script completed\nWall time 1.2 seconds\nOutput:\ncheck ━━━━━━━━\n" if line else ""

    assert drawn(heading + '"exit_code": 1,\n' + BOX, line)["why"] == "Checked <b>4</b> files"
    assert drawn(BOX, "fatal: no such branch")["why"] == "fatal: no such branch"
    compiled = "Output:\n   Compiling libc v0.2\nerror: failed to run custom build command for `lua`\n"
    assert drawn(compiled, "Process exited with code 101")["why"] == "error: failed to run custom build command for `lua`"
    assert not drawn("Process exited with code 1\nOutput:\n", "Process exited with code 1")["why"], "the status is said once"
    assert not drawn('Script completed\nOutput:\n{"chunk_id":"a","exit_code":2,"output":"b"}', "Script completed")["why"]


@pytest.mark.feature("dashboard.reason-of-a-linter")
@pytest.mark.parametrize(
    ("output", "line", "why"),
    [
        (
            "a.go:9:2: Error return value of `f` is not checked (errcheck)\n\tf()\n1 issues:\n* errcheck: 1",
            "1 issues:",
            "a.go:9:2: Error return",
        ),
        ("a.py:3:1: F401 `os` imported but unused\nFound 1 error.", "Found 1 error.", "a.py:3:1: F401 `os` imported but unused"),
        (
            "a.py:1: error: Name x\nFound 3 errors in 1 file (checked 2 files)",
            "Found 3 errors in 1 file (checked 2 files)",
            "a.py:1: e",
        ),
        ("  3:1  error  'x' is not defined\n\n✖ 5 problems (3 errors, 2 warnings)", "✖ 5 problems (3 errors, 2 warnings)", "3:1 error"),
        ("a.py:1:1: F401 `os` unused\n[*] 3 fixable with the `--fix` option.", "[*] 3 fixable with the `--fix` option.", "a.py:1:1: F401"),
        (
            "error[E0425]: cannot find value `x`\nerror: could not compile `a` due to 2 previous errors",
            "could not compile `a` due to 2 previous errors",
            "error[E0425]",
        ),
        ("nothing more is known\nFound 1 error.", "Found 1 error.", "Found 1 error."),
    ],
)
def test_a_linter_failed_with_what_it_found_and_not_with_how_much(output: str, line: str, why: str):
    assert drawn(output, line)["why"].startswith(why)
