"""Stories of failures: which pass by themselves, and which programs are not there."""

from __future__ import annotations

import pytest

from ctx_pipeline_tests.factories.story import edited, ran, said
from ctx_pipeline_tests.learning.test_stories import before, failed, story, texts

__all__ = ["story"]

MENDED = {
    "npx eslint src": "/w/src/a.ts\n  429:7  error  'x' is not defined  no-undef",
    "ruff check .": "src/a.py:429:1: F821 Undefined name `x`",
    "cargo test": "thread 'limits' panicked at src/lib.rs:429:9:\nassertion `left == right` failed\ntest result: FAILED. 1 failed",
    "go test ./...": "    api_test.go:12: got status 429, want 200\nFAIL",
    "npx vitest run": "AssertionError: expected 'ETIMEDOUT' to be 'ECONNRESET'\n 1 failed",
    "pytest -q tests/test_retry.py": "E   app.errors.RateLimitError: rate limit reached\n1 failed in 0.1s",
    "pytest -q": "E   AssertionError: assert 200 == 429\n1 failed in 0.1s",
    "pytest -q tests/test_db.py": "E   sqlite3.OperationalError: database is locked\n1 failed in 0.1s",
    "javac A.java": "A.java:429: error: cannot find symbol",
    "make": "src/x.c:429:10: error: expected ';' before '}' token",
    "python setup.py build": "src/x.c:12:10: error: 'EAI_AGAIN' undeclared (first use in this function)",
    "g++ -c src/a.cpp": "src/a.cpp:12:5: error: call of overloaded 'scale(int)' is ambiguous",
    "pip install -e .": "error: invalid command 'bdist_wheel'\nCollecting urllib3==1.26 (429 kB)",
    "./migrate.sh": "sqlite3.OperationalError: database is locked",
}
MET_TWICE = {
    "npx tsc --noEmit": "src/app.ts(429,3): error TS2322: Type 'string' is not assignable to type 'number'.",
    "go build ./...": "./main.go:429:7: undefined: Handler",
    "gcc -c net.c": "net.c:4:3: error: implicit declaration of function 'getaddrinfo'",
    "./deploy.sh staging": "error: unknown variable 'REGION' in config.tf\n  429 | value = var.REGION",
    "pytest -q tests/test_busy.py": "E   AssertionError: assert 'database is locked' == 'busy'\n1 failed in 0.1s",
    "pytest -q tests/test_net.py": "E   ConnectionResetError: connection reset\n1 failed in 0.1s",
    "cargo build": "error[E0658]: use of unstable library feature `x`: not yet available",
    "mypy src": "src/a.py:4: error: Overloaded function signatures 1 and 2 overlap with incompatible return types  [misc]",
    "gh pr merge 429": "GraphQL: Pull request #429 is not mergeable (mergePullRequest)\nerror: not mergeable",
}
LOCKED = "fatal: Unable to create '/w/.git/index.lock': File exists."


@pytest.mark.feature("mining.passing-causes")
def test_an_error_of_the_code_never_passes_by_itself(story):
    for command, output in MENDED.items():
        well = "12 passed in 0.1s" if "pytest" in command else "ok"
        story.day(said("go on"), ran(command, output, 1), edited("src/a.py", "1", "2"), ran(command, well))
    for command, output in list(MET_TWICE.items()) * 2:
        story.day(said("go on"), ran(command, output, 1), edited("src/a.py", "1", "2"))
    for _ in range(2):
        story.day(
            said("commit"), ran("git commit -m x", LOCKED, 128), ran("rm -f .git/index.lock"), ran("git commit -m x", "1 file changed")
        )
    story.learn()
    assert [t for t in texts(story) if "wait and run it again" in t] == []
    everything = MENDED | MET_TWICE | {"git commit -m x": LOCKED}
    assert [c for c, output in everything.items() if "wait" in failed(story, c, output)] == []


@pytest.mark.feature("mining.passing-causes")
def test_what_passed_with_nothing_changed_passes_by_itself(story):
    seen = {
        "pytest -q tests/test_net.py": "E   ConnectionResetError: connection reset\n1 failed in 0.1s",
        "git fetch": "ssh: Could not resolve hostname github.com: Name or service not known",
        "npm ci": "npm error code ETIMEDOUT\nnpm error network request to https://registry.npmjs.org/zod failed",
        "curl -f https://api.example.com/v1": "curl: (22) The requested URL returned error: 429",
        "git commit -m x": LOCKED,
    }
    for command, output in seen.items():
        story.day(said("go on"), ran(command, output, 1), ran("git status --short"), ran(command, "3 passed in 0.1s"))
    story.learn()
    assert [c for c, output in seen.items() if "wait and run it again" not in failed(story, c, output)] == []


ABSENT = "bash: line 1: {}: command not found"


def absent(program, command=None, status=127):
    return ran(command or program, ABSENT.format(program), status)


@pytest.mark.feature("mining.absent-programs")
def test_what_is_missing_elsewhere_is_not_missing_here(story):
    for _ in range(2):
        remote = (absent("zpytest", "docker exec web zpytest -q"), absent("zhtop", "ssh prod zhtop"))
        named = (absent("zfoo", "./ci.sh zfoo", 1), absent("zlint", "source .venv/bin/activate && zlint src"))
        story.day(said("look"), *remote, *named, absent("zbar", ".tools/zbar --check"))
    story.learn()
    assert [t for t in texts(story) if "not installed here" in t] == []
    assert [c for c in ("zpytest -q", "zhtop", "zfoo", "zlint src", "zbar --check") if before(story, c)] == []


@pytest.mark.feature("mining.absent-programs")
def test_an_absent_program_is_told_where_the_shell_looks_for_it_until_it_ran_whatever_it_is_for(story):
    for _ in range(2):
        story.day(said("test it"), absent("zpytest", "zpytest -q"), absent("zgh", "zgh pr list"))
    story.learn()
    assert "`zpytest` is not installed here" in before(story, "zpytest -x tests")
    others = ("source .venv/bin/activate && zpytest -q", ".venv/bin/zpytest -q", "uv run zpytest", "docker exec web zpytest")
    assert [c for c in others if before(story, c)] == []
    assert "`zgh` is not installed here" in before(story, "zgh pr create --fill")
    story.day(said("i installed it, list them"), ran("zgh pr list", "#1 x")).learn()
    assert before(story, "zgh pr create --fill") == ""
    assert "`zpytest` is not installed here" in before(story, "zpytest -x tests")


@pytest.mark.feature("mining.other-name")
def test_another_name_is_told_as_it_was_typed_and_only_where_a_version_tells_the_two_apart(story):
    story.day(said("run it"), absent("zpy", "zpy run a.py"), ran(".venv/bin/zpy3 run a.py", "hello"))
    story.day(said("run it"), absent("zgo", "zgo x"), ran("zgotmpl x", "rendered"), absent("zjs", "zjs a"), ran("uv run zjs2 a", "ok"))
    story.learn()
    assert ": `.venv/bin/zpy3` is" in before(story, "zpy run b.py")
    assert [c for c in ("zgo x", "zjs a") if "not installed here" not in before(story, c) or " is (" in before(story, c)] == []
