"""Flaky tests: failed and passed though nothing between could have changed a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.sessions.reports.flaky_tests import Flaky, flaky_tests, leaves_files
from ctx_pipeline.settings import Settings
from ctx_pipeline_tests.factories import claude
from ctx_pipeline_tests.usage.conftest import ingested

BEGAN = datetime(2026, 3, 5, 10, 0, tzinfo=UTC)
OTHER = "22222222-2222-4222-8222-222222222222"
FAILED = "FAILED tests/test_net.py::test_fetch - TimeoutError\n1 failed, 4 passed in 0.52s"
PASSED = "5 passed in 0.41s"
TEST = "tests/test_net.py::test_fetch"


class Told:
    """A session, call by call, a minute each."""

    def __init__(self, home: claude.ClaudeHome, session_id: str = claude.SESSION, minute: float = 0) -> None:
        self.main, self.minute, self.calls, self.mark = home.session(session_id, mark=session_id[:2]), minute, 0, session_id[:2]

    def at(self) -> dict[str, str]:
        self.minute += 1
        return {"timestamp": (BEGAN + timedelta(minutes=self.minute)).isoformat()}

    def prompt(self, text: str) -> Told:
        self.main.prompt(text, **self.at())
        return self

    def bash(self, command: str, output: str = "", *, failed: bool = False) -> Told:
        return self.call("Bash", f"Exit code 1\n{output}" if failed else output, failed=failed, command=command)

    def call(self, tool: str, output: str = "ok", *, failed: bool = False, **arguments: str) -> Told:
        self.calls += 1
        name = f"{self.mark}-{self.calls}"
        self.main.answer(claude.tool_use(name, tool, **arguments), **self.at())
        block = {"type": "tool_result", "tool_use_id": name, "content": output, "is_error": failed}
        result = f"Error: {output}" if failed else {"stdout": output, "stderr": "", "interrupted": False}
        self.main.chained({"type": "user", "message": {"role": "user", "content": [block]}, "toolUseResult": result, **self.at()})
        return self

    def fails(self, command: str = "pytest -q") -> Told:
        return self.bash(command, FAILED, failed=True)

    def passes(self, command: str = "pytest -q", output: str = PASSED) -> Told:
        return self.bash(command, output)

    def edits(self, path: str) -> Told:
        return self.call("Edit", file_path=f"/home/dev/shop/{path}", old_string="a", new_string="b")


def found_in(tmp_path: Path, *sessions: Told, **chosen: str) -> Flaky:
    for one in sessions:
        one.main.save()
    roots = {"claude": (tmp_path / "claude",), "codex": (tmp_path / "none",)}
    return flaky_tests(settings=ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots=roots)), **chosen)


@pytest.fixture
def home(tmp_path: Path) -> claude.ClaudeHome:
    return claude.ClaudeHome(tmp_path / "claude")


@pytest.mark.feature("work.flaky")
def test_a_test_that_fails_and_passes_with_the_same_files_is_flaky_with_its_proof(tmp_path: Path, home: claude.ClaudeHome) -> None:
    told = Told(home).prompt("run the tests").fails().bash("git status && cat tests/test_net.py | head -5", "x").edits("README.md").passes()
    told.edits("net.py").fails()
    found = found_in(tmp_path, told)

    [one] = found.tests
    assert (one.test, one.failed, one.passed, list(one.sessions)) == (TEST, 1, 1, [("claude", claude.SESSION)])
    [(bad, good)] = one.proofs
    assert (bad.command, bad.at[11:16], good.at[11:16]) == ("pytest -q", "10:03", "10:09")
    assert (found.looked_at, found.runs, found.all_runs, found.sessions) == (1, 2, 3, 1)
    assert not found_in(tmp_path, until="2026-03-04").tests


@pytest.mark.feature("work.flaky")
@pytest.mark.parametrize(
    "between",
    [
        lambda told: told.edits("net.py"),
        lambda told: told.edits("requirements.txt"),
        lambda told: told.bash("git stash"),
        lambda told: told.bash("sed -i s/a/b/ net.py"),
        lambda told: told.bash("python fix.py"),
        lambda told: told.bash("ruff check --fix ."),
        lambda told: told.bash("docker compose up -d"),
        lambda told: told.call("mcp__files__put", path="a"),
        lambda told: told.prompt("I have mended it, run them again"),
    ],
    ids=["edit", "requirements", "git", "sed", "script", "fix", "service", "mcp", "the person"],
)
def test_what_may_have_changed_a_file_between_makes_a_test_no_flaky_one(tmp_path: Path, home: claude.ClaudeHome, between) -> None:
    assert not found_in(tmp_path, between(Told(home).prompt("run the tests").fails()).passes()).tests


@pytest.mark.feature("work.flaky")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest -q --runslow", PASSED),
        ("CI=1 pytest -q", PASSED),
        ("cd api && pytest -q", PASSED),
        ("pytest -q tests/test_other.py", PASSED),
        ("pytest -q", "2 passed in 0.41s"),
        ("pytest -q && npm run build", PASSED),
    ],
)
def test_a_run_that_does_not_show_that_the_test_passed_is_no_proof(
    tmp_path: Path, home: claude.ClaudeHome, command: str, output: str
) -> None:
    assert not found_in(tmp_path, Told(home).prompt("run").fails().passes(command, output)).tests


@pytest.mark.feature("work.flaky")
def test_runs_of_two_sessions_prove_it_where_the_test_turned_twice(tmp_path: Path, home: claude.ClaudeHome) -> None:
    first, second = Told(home).prompt("run").fails(), Told(home, OTHER, 60).prompt("run").passes()
    assert not found_in(tmp_path, first, second).tests

    second.fails(f"pytest -q {TEST}")
    [one] = found_in(tmp_path, second).tests
    assert (one.failed, one.passed, [name for _, name in one.sessions]) == (2, 1, [claude.SESSION, OTHER])


@pytest.mark.feature("work.flaky")
def test_a_test_that_passes_when_the_runner_tries_again_is_flaky_by_one_run(tmp_path: Path, home: claude.ClaudeHome) -> None:
    again = "tests/test_net.py::test_fetch RERUN [ 20%]\ntests/test_net.py::test_fetch PASSED [ 20%]\n5 passed, 1 rerun in 0.41s"
    [one] = found_in(tmp_path, Told(home).prompt("run").passes("pytest -v --reruns 2", again)).tests

    assert (one.test, one.failed, one.passed) == (TEST, 1, 1)
    assert one.proofs[0][0] == one.proofs[0][1]


@pytest.mark.feature("work.flaky")
def test_the_command_says_what_is_flaky_and_in_how_many_tests_it_looked(
    tmp_path: Path, home: claude.ClaudeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = found_in(tmp_path, Told(home).prompt("run the tests").fails().passes())
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("TZ", "UTC")
    shown = CliRunner().invoke(cli, ["work", "--flaky"]).stdout
    none = CliRunner().invoke(cli, ["work", "--flaky", "--until", "2026-03-04"]).stdout

    assert "1 flaky test: 1 test looked at" in shown
    assert f"{TEST}  " in shown
    for run in found.tests[0].proofs[0]:
        assert f"event {run.event}: pytest -q" in shown
    assert "no flaky test: 0 tests looked at" in none


@pytest.mark.feature("work.flaky")
@pytest.mark.parametrize(
    ("command", "leaves"),
    [
        ("ls -la && git diff --stat | tail -3", True),
        ("sed -n 1,20p a.py; rg -i net", True),
        ("pytest -q 2>&1 | tee /tmp/out.log", False),
        ("pytest -q > /tmp/out.log; tail -5 /tmp/out.log", True),
        ("echo x > a.py", False),
        ("find . -name '*.py' -delete", False),
        ("gh pr view 3", True),
        ("gh pr checkout 3", False),
        ("jest -u", False),
        ("black .", False),
        ("black --check .", True),
    ],
)
def test_a_command_leaves_files_only_where_that_is_known(command: str, leaves: bool) -> None:
    assert leaves_files(command) is leaves
