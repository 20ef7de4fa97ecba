"""Which session fixed an error: also where the agent's own record says that the failed call ended well."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli.root import cli
from ctx_pipeline.search.fixed import fixed_errors
from ctx_pipeline.settings import Settings
from ctx_pipeline_tests.factories import claude, codex
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
    apart = fixed_errors("error registry mise", settings=settings)
    partly = fixed_errors("no library missing", settings=settings)

    assert not apart.partly
    assert (partly.fixed, partly.left_open) == ([], []), "the word that says most stands in none"
    partly = fixed_errors("no such library", settings=settings)
    assert ([one.failed for one in partly.fixed], partly.partly) == (["cargo test registry --lib"], True)
    (fixed,) = found.fixed
    assert (fixed.failed, fixed.passed) == ("cargo test registry --lib", "cargo test registry")
    assert (found.failures, found.left_open) == (1, [])


@pytest.mark.feature("search.fixed-errors")
def test_a_file_that_could_not_be_changed_is_followed_to_the_later_change_that_went_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = claude.ClaudeHome(tmp_path / "claude")
    session = home.session(cwd="/home/dev/shop").prompt("rename it")
    missing = "<tool_use_error>String to replace not found in file.</tool_use_error>"
    for number, (tool, file, failed) in enumerate(
        [("Edit", "a.py", True), ("Read", "a.py", False), ("Edit", "b.py", False), ("Edit", "a.py", True), ("Edit", "a.py", False)]
    ):
        session.answer(claude.tool_use(f"t{number}", tool, file_path=f"/home/dev/shop/{file}", old_string="x", new_string="y"))
        session.result(f"t{number}", missing if failed else "done", is_error=failed)
    session.save()
    other = home.session("20000000-0000-4000-8000-000000000000", cwd="/home/dev/shop").prompt("rename it")
    other.answer(claude.tool_use("t9", "Edit", file_path="/home/dev/shop/a.py", old_string="x", new_string="y"))
    other.result("t9", missing.replace("file.", "file. String: x"), is_error=True).save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (home.root,)}))

    found = fixed_errors("String to replace not found in file", settings=settings)

    changed = {one.session_id: one.changed for one in found.left_open}
    assert changed == {claude.SESSION: "a.py", other.session_id: ""}
    assert (found.fixed, found.sessions, found.changed) == ([], 2, 1)
    followed = next(one for one in found.left_open if one.changed)
    assert followed.then in {"Read: a.py", "Edit: a.py"}, "the tool and the file, not its arguments"
    assert followed.changed_by not in {"", followed.event_id}
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home.root))
    verdict, *hits = CliRunner().invoke(cli, ["search", "--fixed", "String to replace not found in file"]).output.splitlines()
    assert verdict.startswith("no session is known to have fixed it: ")
    assert verdict.endswith(" in 2 sessions; in 1 of them a later change of the same file went through")
    assert sum(line.startswith("  a later change of a.py went through; next the agent: ") for line in hits) == 1
    assert sum(line.startswith("  no later run of it passed; ") for line in hits) == 1
