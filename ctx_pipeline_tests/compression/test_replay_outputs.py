"""The replay of recorded sessions: what their output would have cost, and what a later edit would have missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline.compression import shell_output
from ctx_pipeline.compression.output_filters import Filtered
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline_tests.bench.replay_outputs import replay
from ctx_pipeline_tests.factories.claude import ClaudeHome

HUNK = (
    "diff --git a/cart.py b/cart.py\nindex 0123456..89abcde 100644\n--- a/cart.py\n+++ b/cart.py\n"
    "@@ -1,2 +1,2 @@\n-old_total = 1\n+new_total = 2\n"
)
SOURCE = "".join(f"{n:6}\tamount_{n} = {n}\n" for n in range(1, 30))
PASSES = "".join(f"tests/test_{n}.py::test_it PASSED\n" for n in range(50)) + "50 passed in 1s\n"


@pytest.mark.feature("compression.replay-outputs")
def test_what_a_later_edit_used_is_counted_and_found_missing_where_it_was_left_out(store, chosen, environ, monkeypatch):
    made = ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"])).session(cwd="/w/shop")
    made.prompt("mend the cart")
    made.call("t1", "Bash", HUNK, command="git diff", structured={"stdout": HUNK, "stderr": "", "interrupted": False})
    made.call("t2", "Bash", PASSES, command="pytest -v", structured={"stdout": PASSES, "stderr": "", "interrupted": False})
    made.call("r1", "Read", SOURCE, file_path="/w/shop/cart.py")
    made.call("r2", "Read", SOURCE, file_path="/w/shop/cart.py")
    made.call("t3", "Edit", "ok", file_path="/w/shop/cart.py", old_string="+new_total = 2\nnot_shown_before = 3", new_string="x")
    made.save()
    ingest(store, chosen)

    told = replay(chosen)
    assert (told.runs, told.needed, told.missing) == ({"git": 1, "test": 1, "read again": 1}, 1, [])
    assert told.told["read again"] == 20 < 0.2 * told.raw["read again"]
    assert (told.names, told.names_missing) == (1, [])
    assert told.told["test"] < 0.3 * told.raw["test"]
    assert not (chosen.home / "outputs").exists()

    monkeypatch.setitem(shell_output.FILTERS, "git", lambda lines: Filtered(lines[:1]))
    told = replay(chosen)
    assert [line for _, _, line in told.missing] == ["+new_total = 2"]
    assert [name for _, _, name in told.names_missing] == ["new_total"]
    halves = [replay(chosen, half=half).runs.total() for half in (0, 1)]
    assert sorted(halves) == [0, 3]
