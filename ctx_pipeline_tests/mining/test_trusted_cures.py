"""Which passes prove a cure, and that a cure is never lost to a lesson without one."""

from __future__ import annotations

import pytest

from ctx_pipeline.memory.consolidation import consolidate, store_candidate
from ctx_pipeline.mining import error_resolutions, reme
from ctx_pipeline.mining.lessons.failures import salient_line
from ctx_pipeline_tests.factories.views import SECOND, START, view

DAY = 86_400 * SECOND
ABSENT = "bash: pytest: command not found"
ASSERTION = "E   AssertionError: assert 'a' == 'b'"
REFUSED = "psycopg2.OperationalError: connection refused"


def lessons(session):
    return list(error_resolutions.extract(session.build()))


@pytest.mark.feature("mining.trusted-cures")
@pytest.mark.parametrize(
    ("failed", "output", "passed", "text"),
    [
        ("ssh one 'systemctl show app'", "error: unknown option 'show'", "ssh two 'systemctl status app'", "ok"),
        ("docker exec web pytest -q", ABSENT, "docker exec worker python -m pytest -q", "3 passed in 0.1s"),
        ("npm test --workspace a", "Error: Cannot find module 'left'", "npm test --workspace b", "3 passing"),
        ("pytest -q", ABSENT, "uv run pytest -q", "no tests ran in 0.01s"),
        (
            "cargo test parses",
            "error: no such command: `test`",
            "cargo +nightly test parses",
            "test result: ok. 0 passed; 0 failed; 0 ignored",
        ),
        ("deploy --dry", "error: unknown option '--dry'", "deploy --dry-run | tail -2", "done"),
        ("python - <<'E'\nimport yaml\nE", "ModuleNotFoundError: No module named 'yaml'", "uv run python - <<'E'\nimport yaml\nE", "ok"),
        ("bash /tmp/try.sh", "error: unknown option 'x'", "bash /tmp/try.sh --y", "ok"),
        ("make lint", "sh: shellcheck: command not found", "make lint SHELLCHECK=true", "ok"),
        (
            "gh run view 7 --log",
            "run 7 is still in progress; logs will be available when it is complete",
            "gh run view 7 --log --job 3",
            "x",
        ),
        ("cargo build", "error: could not resolve host: github.com", "cargo build --offline", "Finished"),
    ],
    ids=("host", "container", "package", "none-ran", "zero-ran", "piped", "heredoc", "temporary", "inner-program", "not-ended", "network"),
)
def test_what_passed_elsewhere_or_by_chance_or_checked_nothing_is_no_cure(failed, output, passed, text):
    assert lessons(view().shell(failed, exit=1, text=output).shell(passed, text=text)) == []


@pytest.mark.feature("mining.trusted-cures")
def test_the_same_target_and_a_run_that_checked_something_is_a_cure():
    (found,) = lessons(
        view().shell("docker exec web pytest -q", exit=1, text=ABSENT).shell("docker exec web python -m pytest -q", text="3 passed")
    )
    assert found.structured["did"] == ["docker exec web python -m pytest -q"]


@pytest.mark.feature("mining.trusted-cures")
def test_a_service_that_was_started_is_the_cure_of_a_refused_connection_and_an_install_is_not():
    started = (
        view().shell("pytest -q", exit=1, text=REFUSED).shell("docker compose up -d db", text="Started").shell("pytest -q", text="3 passed")
    )
    (found,) = lessons(started)
    assert found.structured["did"] == ["docker compose up -d db"]
    assert found.text == f"`pytest -q` fails with “{REFUSED}” until `docker compose up -d db` has run."
    installed = view().shell("pytest -q", exit=1, text=REFUSED).shell("pip install psycopg2", text="ok").shell("pytest -q", text="3 passed")
    assert lessons(installed) == []


@pytest.mark.feature("mining.trusted-cures")
def test_of_several_installs_the_one_that_brought_what_was_missing_is_told():
    session = view().shell("pytest -q", exit=1, text="ModuleNotFoundError: No module named 'yaml'")
    session = session.shell("pip install ruff", text="ok").shell("pip install pyyaml", text="ok").shell("pytest -q", text="3 passed")
    (found,) = lessons(session)
    assert found.structured["did"] == ["pip install pyyaml"]


def told(*sessions):
    """Return the memories of both methods over sessions."""
    rows = []
    for method, module in (("error_resolutions", error_resolutions), ("reme", reme)):
        drawn = [store_candidate(c, session=b.session, method=method, version=1) for b in sessions for c in module.extract(b)]
        rows += module.combine(drawn)
    return [m for m in consolidate(rows) if m.superseded_by is None]


@pytest.mark.feature("mining.trusted-cures")
def test_a_cure_with_a_variable_survives_the_lesson_over_sessions():
    error = "KeyError: 'DATABASE_URL'"
    works = "DATABASE_URL=sqlite:// pytest -q"
    sessions = [
        view(f"s{n}", start=START + n * DAY).shell("pytest -q", exit=1, text=error).shell(works, text="3 passed").build() for n in range(3)
    ]
    (found,) = [m for m in told(*sessions) if m.body.get("error") == error]
    assert works in found.text
    assert found.support == 3


@pytest.mark.feature("mining.trusted-cures")
def test_a_failure_without_a_cure_is_a_warning_with_a_count_and_one_that_passes_by_itself_is_named_so():
    sessions = [view(f"s{n}", start=START + n * DAY).shell("pytest -q", exit=1, text=ASSERTION).build() for n in range(2)]
    (warning,) = told(*sessions)
    assert (warning.body["warning"], warning.body["sessions"]) == (True, 2)
    limited = [
        view(f"s{n}", start=START + n * DAY).shell("cargo build", exit=1, text="error: too many requests (rate limit)").build()
        for n in range(2)
    ]
    (passing,) = told(*limited)
    assert ", as a rate limit was reached: wait and run it again" in passing.text
    quoting = f"{ASSERTION}\n > 52 |     pytest.skip('rate limit reached')"
    checked = [view(f"q{n}", start=START + n * DAY).shell("uv run ty check", exit=1, text=quoting).build() for n in range(2)]
    assert "rate limit" not in " ".join(m.text for m in (*told(*checked), *told(checked[0]))), "code that a check quotes is no cause"


@pytest.mark.feature("mining.passing-causes")
@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("npx tsc", "src/app.ts(429,3): error TS2322: Type 'string' is not assignable to type 'number'."),
        ("pytest -q", "E   sqlite3.OperationalError: database is locked"),
    ],
)
def test_what_an_edit_cured_keeps_its_cure_though_it_could_have_passed_by_itself(command, error):
    (found,) = lessons(view().shell(command, exit=1, text=error).edit("src/db.py").shell(command, text="3 passed"))
    assert found.structured["files"] == ["src/db.py"]
    assert lessons(view().shell(command, exit=1, text=error).shell(command, text="3 passed")) == []


@pytest.mark.feature("mining.salient-line")
@pytest.mark.parametrize(
    "line",
    [
        "dial tcp 127.0.0.1:5432: connect: connection refused",
        "npm error ERESOLVE unable to resolve dependency tree",
        "thread 'main' panicked at src/main.rs:4:5:",
        "zsh:1: no matches found: refs/tags/*",
        "sudo: a terminal is required to read the password",
        "run 28557 is still in progress",
    ],
)
def test_common_failures_have_a_telling_line(line):
    assert salient_line(f"Compiling app v1\n{line}; either use the -S option or configure an askpass helper").startswith(line)
