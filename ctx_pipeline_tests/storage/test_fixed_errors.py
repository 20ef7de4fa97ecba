"""Which session fixed an error: also where the agent's own record says that the failed call ended well."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.search.fixed import fixed_errors
from ctx_pipeline.settings import Settings
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.usage.conftest import ingested

if TYPE_CHECKING:
    from pathlib import Path


def cell(seconds: float, command: str, exit_code: int, output: str) -> list[dict[str, object]]:
    script = f"const r = await tools.exec_command({json.dumps({'cmd': command})});text(JSON.stringify(r));"
    told = {"chunk_id": "fcd439", "wall_time_seconds": 0.4, "exit_code": exit_code, "output": output}
    answer = f"Script completed\nWall time 0.6 seconds\nOutput:\n\n{json.dumps(told)}"
    return [
        codex.item(seconds, "custom_tool_call", name="exec", call_id=f"call-{seconds}", input=script),
        codex.item(seconds + 1, "custom_tool_call_output", call_id=f"call-{seconds}", output=answer),
    ]


@pytest.mark.feature("search.fixed-errors")
def test_a_command_that_failed_in_a_call_that_ended_well_is_followed_to_what_passed(tmp_path: Path) -> None:
    home = tmp_path / "codex"
    records = [
        codex.meta(),
        codex.context(1),
        codex.message(2, "user", "make the tests pass"),
        *cell(3, "cargo test registry --lib", 101, "error: no library targets found in package `mise`\r\n"),
        *cell(5, "cargo test registry", 0, "running 21 tests\r\ntest result: ok. 21 passed; 0 failed; 0 ignored\r\n"),
        *cell(7, "cat notes.md", 0, "no library targets found was last week's error\r\n"),
    ]
    codex.write(home, records)
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"codex": (home,)}))

    found = fixed_errors("no library targets found", settings=settings)

    pasted = fixed_errors("error: no library targets found in package mise", settings=settings)
    elsewhere = fixed_errors("targets of last week", settings=settings)

    assert [one.failed for one in pasted.fixed] == ["cargo test registry --lib"]
    assert (elsewhere.fixed, elsewhere.left_open) == ([], []), "no line of what failed holds most of these words"
    (fixed,) = found.fixed
    assert (fixed.failed, fixed.passed) == ("cargo test registry --lib", "cargo test registry")
    assert (found.failures, found.left_open) == (1, [])
