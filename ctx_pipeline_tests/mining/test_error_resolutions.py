"""Failures and their cures in hand-made sessions."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.learning.at_act import after_failure
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.mining.error_resolutions import ERROR_RESOLUTIONS, combine, extract, resolved
from ctx_pipeline.mining.lessons.commands import runs
from ctx_pipeline.mining.lessons.failures import looks_red, salient_line, signature
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline_tests.factories.views import SECOND, START, view

FAILED = "--- FAIL: TestCount (0.00s)\n    count_test.go:42: expected 3, got 4\nFAIL\nexit status 1"


def lessons(session):
    return list(extract(session.build()))


@pytest.mark.feature("mining.error-resolution-edit")
def test_a_failed_test_that_passes_after_an_edit_is_a_lesson_with_cause_files_and_evidence():
    session = (
        view()
        .shell("go test ./... 2>&1 | tail -20", exit=1, text=FAILED)
        .answer("Let me look. The counter starts at 1 because init runs twice. I will fix it.")
        .edit("/w/app/count.go")
        .shell("go test ./...", text="ok  app  0.1s")
    )
    (found,) = lessons(session)
    assert found.kind == "failure_trigger"
    assert found.text == (
        "`go test` failed with “expected 3, got 4”; it passed after changes in `count.go`. "
        "The agent's reason: “The counter starts at 1 because init runs twice.”"
    )
    assert found.when_to_use == "`go test` fails with “expected 3, got 4”"
    assert found.structured["error"] == "count_test.go:42: expected 3, got 4"
    assert found.evidence_refs == ("s1.e0", "s1.e1", "s1.e3", "s1.e5", "s1.e6")
    assert found.structured["files"] == ["count.go"]


@pytest.mark.feature("mining.error-resolution-command", "mining.recovery-tips")
def test_another_way_to_call_the_program_is_the_lesson():
    session = view().shell("pytest -q", exit=127, text="bash: pytest: command not found").shell("uv run pytest -q", text="12 passed")
    (found,) = lessons(session)
    assert found.kind == "tool_lesson"
    assert found.text == "`pytest -q` fails with “bash: pytest: command not found”; `uv run pytest -q` works."
    assert found.structured["steps"] == ["run `uv run pytest -q`"]


@pytest.mark.feature("mining.error-resolution-setup", "mining.recovery-tips")
def test_what_had_to_be_installed_is_the_lesson():
    session = (
        view()
        .shell("pytest", exit=1, text="ModuleNotFoundError: No module named 'yaml'")
        .shell("uv sync", text="Installed 12 packages")
        .shell("pytest", text="3 passed")
    )
    (found,) = lessons(session)
    assert found.text == "`pytest` fails with “ModuleNotFoundError: No module named 'yaml'” until `uv sync` has run."
    assert found.structured["steps"] == ["run `uv sync`", "run `pytest`"]
    assert found.evidence_refs == ("s1.e0", "s1.e1", "s1.e2", "s1.e3", "s1.e4", "s1.e5")


@pytest.mark.feature("mining.error-resolution-setup")
def test_what_was_installed_before_it_failed_again_did_not_help():
    missing = "ModuleNotFoundError: No module named 'yaml'"
    session = view().shell("pytest", exit=1, text=missing).shell("pip install pyyaml", text="ok").shell("pytest", exit=1, text=missing)
    (found,) = lessons(session.shell("uv add --dev pyyaml", text="ok").shell("pytest", text="3 passed"))
    assert found.text == "`pytest` fails with “ModuleNotFoundError: No module named 'yaml'” until `uv add --dev pyyaml` has run."


@pytest.mark.feature("mining.error-resolution-setup")
def test_of_two_installs_of_one_thing_the_later_one_is_the_cure_and_another_error_does_not_undo_it():
    missing = "ModuleNotFoundError: No module named 'yaml'"
    session = view().shell("pytest", exit=1, text=missing).shell("pip install pyyaml", text="ok").shell("uv sync", text="ok")
    session = session.shell("uv add --dev pyyaml", text="ok").shell("uv run pytest", exit=1, text="E   AssertionError: 1 == 2")
    (found, *_) = lessons(session.edit("/w/app/a.py").shell("uv run pytest", text="3 passed"))
    assert found.text == "`pytest` fails with “ModuleNotFoundError: No module named 'yaml'” until `uv sync`, `uv add --dev pyyaml` has run."


@pytest.mark.feature("mining.nothing-to-learn")
@pytest.mark.parametrize(
    "session",
    [
        view().prompt("hello").answer("hi"),
        view().shell("pytest", text="3 passed"),
        view().shell("pytest", exit=1, text="E   AssertionError: boom").edit("/w/app/a.py"),
        view().shell("pytest", exit=1, text="E   AssertionError: boom").shell("pytest", text="3 passed"),
        view()
        .shell("pytest", exit=1, text="E   AssertionError: boom")
        .edit("/w/app/a.py")
        .shell("pytest | tail -1", text="1 failed, 2 passed"),
        view().shell("cat missing.txt", exit=1, text="cat: missing.txt: No such file or directory").shell("cat there.txt", text="x"),
        view().shell("rg todo", exit=1).edit("/w/app/a.py").shell("rg todo", text="x"),
        view().shell("pytest", exit=1, text="E   boom").edit("/w/app/a.py").on("agent").shell("pytest", text="ok"),
        view().shell("pytest", exit=1, text="E   AssertionError: boom").edit("/tmp/scratch.py").shell("pytest", text="3 passed"),
        view().shell("node a.js", exit=1, text="Error: Cannot find module 'x'").edit("/w/app/a.js").shell("node --version", text="v20"),
    ],
    ids=["talk", "green", "unsolved", "flaky", "red-behind-a-pipe", "looking", "no-hit", "other-thread", "outside", "tells-of-itself"],
)
def test_a_session_with_nothing_to_learn_gives_nothing(session):
    assert lessons(session) == []


@pytest.mark.feature("mining.error-resolution-edit")
def test_a_different_error_in_between_breaks_the_pair():
    session = (
        view()
        .shell("pytest", exit=1, text="E   KeyError: 'a'")
        .edit("/w/app/a.py")
        .shell("pytest", exit=1, text="E   TypeError: unhashable type: 'list'")
        .edit("/w/app/b.py")
        .shell("pytest", text="3 passed")
    )
    assert [c.structured["error"] for c in lessons(session)] in ([], ["TypeError: unhashable type: 'list'"])


@pytest.mark.feature("mining.salient-line")
@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("Exit code 1\n[lint] ERROR task failed\nsrc/a.go:4:1: unused variable x (unused)", "src/a.go:4:1: unused variable x (unused)"),
        ("\x1b[31merror[E0382]: borrow of moved value: `x`\x1b[0m\n --> src/main.rs:4", "error[E0382]: borrow of moved value: `x`"),
        ("Traceback (most recent call last):\n  File x\nValueError: bad", "ValueError: bad"),
        ("all good", ""),
        ("", ""),
        ("Found 3 errors.", ""),
    ],
)
def test_the_line_that_says_what_is_wrong(output, line):
    assert salient_line(output) == line


@pytest.mark.feature("mining.salient-line")
def test_paths_of_the_person_and_numbers_do_not_make_two_errors():
    assert salient_line("/w/app/src/x.py:3: error: bad name", "/w/app") == "src/x.py:3: error: bad name"
    assert "paul" not in salient_line("/Users/paul/x.py:3: error: bad")
    assert signature("x.py:3: error at 0xdeadbeef") == signature("/tmp/1/x.py:99: error at 0xfeedface")
    assert looks_red("FAILED tests/test_a.py::test_b")
    assert not looks_red("0 failed, 3 passed")


@pytest.mark.feature("mining.salient-line")
def test_hostile_output_ends():
    for text in (
        "\x1b]" * 50_000,
        "error" * 20_000,
        "a:" * 50_000,
        "=" * 100_000,
        "E" + " " * 100_000,
        "\n".join(["x.py:1: bad"] * 20_000),
        "/Users/" * 20_000,
    ):
        salient_line(text, "/w")
        signature(text[:2000])
        looks_red(text)


def edit(built, path, before, after):
    """An edit with its arguments, as hosts record them."""
    built.edit(path)
    call = built.calls[-1]
    place = next(i for i, e in enumerate(built.events) if e.event_id == call.call_event)
    text = json.dumps({"file_path": path, "old_string": before, "new_string": after})
    built.events[place] = built.events[place]._replace(text=text)
    return built


LINT = "pkg/detached.go:146:2: Error return value of `client.Enqueue` is not checked (errcheck)"


SILENCED = "client.Enqueue(e) //nolint:errcheck // best effort"


def kept(*sessions):
    return list(combine([c for s in sessions for c in draw(ERROR_RESOLUTIONS, s.build())[0]]))


def linted(name="s1", number=0, path="/w/app/pkg/detached.go", after="_ = client.Enqueue(e)"):
    built = view(name, start=START + number * 86_400 * SECOND).shell("make lint", exit=1, text=LINT)
    built = edit(built, "/w/app/pkg/other.go", "import os", "import os\nimport time")
    built = edit(built, path, "x := 1\nclient.Enqueue(e)\n", f"x := 1\n{after}\n")
    return built.shell("make lint", text="ok")


@pytest.mark.feature("mining.error-resolution-change", "mining.recovery-tips")
def test_the_line_that_became_another_one_is_quoted_with_the_edit_as_evidence():
    (found,) = lessons(linted())
    assert found.text == (
        "`make lint` failed with errcheck: “Error return value of `client.Enqueue` is not checked”; "
        "it passed after `client.Enqueue(e)` became `_ = client.Enqueue(e)` in `pkg/detached.go`."
    )
    assert found.when_to_use == "errcheck says “Error return value of `client.Enqueue` is not checked”"
    assert found.structured["rule"] == "errcheck"
    assert found.structured["steps"] == ["make `client.Enqueue(e)` into `_ = client.Enqueue(e)`", "run `make lint`"]
    assert found.structured["change"] == {"before": "client.Enqueue(e)", "after": "_ = client.Enqueue(e)"}
    assert "s1.e4" in found.evidence_refs
    assert found.structured["files"] == ["pkg/detached.go"]


@pytest.mark.feature("mining.error-resolution-change")
def test_the_lines_of_a_patch_are_read_like_those_of_an_edit():
    patch = "*** Begin Patch\n*** Update File: pkg/detached.go\n@@\n-client.Enqueue(e)\n+_ = client.Enqueue(e)\n*** End Patch"
    built = view().shell("make lint", exit=1, text=LINT).edit("/w/app/pkg/detached.go")
    built.events[2] = built.events[2]._replace(text=patch)
    (found,) = lessons(built.shell("make lint", text="ok"))
    assert found.structured["change"] == {"before": "client.Enqueue(e)", "after": "_ = client.Enqueue(e)"}


@pytest.mark.feature("mining.error-resolution-change")
def test_a_change_that_tells_nothing_to_others_becomes_a_memory_only_when_two_sessions_met_it():
    def own_test(name, number):
        built = view(name, start=START + number * 86_400 * SECOND).shell("go test ./...", exit=1, text=FAILED)
        return edit(built, "/w/app/count_test.go", "expected = 3", "expected = 4").shell("go test ./...", text="ok")

    assert kept(own_test("a", 1)) == []
    assert kept(own_test("a", 1), own_test("fork", 1)) == []
    assert len(kept(own_test("a", 1), own_test("b", 2))) == 2
    assert len(kept(linted("c", 3))) == 1


@pytest.mark.feature("mining.error-resolution-change")
def test_a_change_of_one_file_is_an_observation_until_a_second_session_met_the_error_whatever_the_agent_says():
    def mended(name, number, path="/w/app/count.go", before="total := start + 1"):
        built = view(name, start=START + number * 86_400 * SECOND).shell("go test ./...", exit=1, text=FAILED)
        built = built.answer("The total is wrong because `start` is counted twice.")
        return edit(built, path, before, "total := start").shell("go test ./...", text="ok")

    for path in ("/w/app/count.go", "/w/app/count_test.go"):
        assert len(lessons(mended("a", 1, path))) == 1
        assert kept(mended("a", 1, path)) == []
        assert len(kept(mended("a", 1, path), mended("b", 2, path))) == 2


@pytest.mark.feature("mining.error-resolution-change")
def test_a_finding_that_was_silenced_in_place_is_less_sure_and_needs_a_second_session_with_the_rule():
    (found,) = lessons(linted(after=SILENCED))
    assert found.confidence == 0.35 < lessons(linted())[0].confidence
    assert kept(linted("a", 1, after=SILENCED)) == []
    other = linted("b", 2, path="/w/app/pkg/other.go", after="client.Enqueue(e) //nolint:errcheck // on exit")
    assert len(kept(linted("a", 1, after=SILENCED), other)) == 2


@pytest.mark.feature("mining.error-resolution-change")
def test_a_line_that_the_session_had_written_itself_is_no_lesson():
    def own(name, *, mine):
        built = view(name)
        if mine:
            built = edit(built, "/w/app/pkg/detached.go", "x := 1", "x := 1\nclient.Enqueue(e)")
        built = built.shell("make lint", exit=1, text=LINT)
        return edit(built, "/w/app/pkg/detached.go", "client.Enqueue(e)", "_ = client.Enqueue(e)").shell("make lint", text="ok")

    assert len(kept(own("a", mine=False))) == 1
    assert kept(own("b", mine=True)) == []
    written = view("c").edit("/w/app/pkg/detached.go", action="write")
    written.events[0] = written.events[0]._replace(
        text=json.dumps({"file_path": "/w/app/pkg/detached.go", "content": "client.Enqueue(e)\n"})
    )
    written = edit(written.shell("make lint", exit=1, text=LINT), "/w/app/pkg/detached.go", "client.Enqueue(e)", "_ = client.Enqueue(e)")
    assert kept(written.shell("make lint", text="ok")) == []


@pytest.mark.feature("mining.error-resolution-change")
def test_a_call_that_took_the_place_of_another_is_told_as_the_idiom_even_of_tests_the_session_wrote():
    chdir = "pkg/load_test.go:35:3: Error return value of `os.Chdir` is not checked (errcheck)"
    built = view().edit("/w/app/pkg/load_test.go", action="write")
    built.events[0] = built.events[0]._replace(
        text=json.dumps({"file_path": "/w/app/pkg/load_test.go", "content": "wd := os.Getwd()\nos.Chdir(dir)\nLoad(dir)\n"})
    )
    built = built.shell("make lint", exit=1, text=chdir)
    built = edit(built, "/w/app/pkg/load_test.go", "wd := os.Getwd()\nos.Chdir(dir)\nLoad(dir)", "t.Chdir(dir)\nLoad(dir)")
    (found,) = kept(built.shell("make lint", text="ok"))
    assert found.text == (
        "in tests `os.Chdir` makes `make lint` fail with errcheck: “Error return value of `os.Chdir` is not checked”; use `t.Chdir(dir)`."
    )
    assert found.when_to_use == (
        "errcheck says “Error return value of `os.Chdir` is not checked”, or `os.Chdir` is about to be written in tests"
    )
    assert found.body["steps"] == ["use `t.Chdir(dir)` in place of `os.Chdir`", "run `make lint`"]

    utc = "AttributeError: module 'datetime' has no attribute 'utcnow'"
    failing = view("p").shell("pytest", exit=1, text=utc)
    failing = edit(failing, "/w/app/clock.py", "now = utcnow()", "now = aware_now()").shell("pytest", text="1 passed")
    (found,) = kept(failing)
    assert found.text == f"`utcnow` makes `pytest` fail with “{utc}”; use `now = aware_now()`."


@pytest.mark.feature("mining.error-resolution-change")
def test_the_reason_that_is_quoted_was_said_right_before_the_edit_that_is_quoted():
    built = view().shell("make lint", exit=1, text=LINT)
    built = built.answer("The import is missing because `time` moved.")
    built = edit(built, "/w/app/pkg/other.go", "import os", "import os\nimport time")
    built = built.answer("The result of `Enqueue` needs to be dropped on purpose.")
    built = edit(built, "/w/app/pkg/detached.go", "client.Enqueue(e)", "_ = client.Enqueue(e)")
    (found,) = lessons(built.shell("make lint", text="ok"))
    assert found.structured["said"] == "The result of `Enqueue` needs to be dropped on purpose."
    silent = edit(
        view().shell("make lint", exit=1, text=LINT).answer("The import is missing because `time` moved."), "/w/app/a.go", "a", "b"
    )
    silent = edit(silent, "/w/app/pkg/detached.go", "client.Enqueue(e)", "_ = client.Enqueue(e)").shell("make lint", text="ok")
    assert "said" not in lessons(silent)[0].structured


def polled(built, session, *, exit=None, text=""):  # noqa: A002 - the status of the command
    """A look at a command that went on, as Codex records it."""
    going = f"Process running with session ID {session}" if exit is None else f"Process exited with code {exit}"
    built.tool("write_stdin", action="shell", argv=[], exit=exit, text=f"Chunk ID: c\n{going}\n{text}")
    place = next(i for i, e in enumerate(built.events) if e.event_id == built.calls[-1].call_event)
    built.events[place] = built.events[place]._replace(text=json.dumps({"session_id": session, "chars": ""}))
    return built


GOING = "Chunk ID: a\nWall time: 30 seconds\nProcess running with session ID 77\nOutput:\nCompiling"


@pytest.mark.feature("mining.still-running")
@pytest.mark.parametrize(("ends", "kept"), [(0, 1), (101, 0), (None, 0)])
def test_a_command_that_went_on_passed_only_when_a_later_look_saw_it_end_well(ends, kept):
    built = view(host="codex").shell("cargo test --lib", exit=101, text="error: no library targets found: unrecognized")
    built.shell("cargo test", exit=None, text=GOING)
    built = polled(built, 66, exit=0)
    built = polled(built, 77)
    built = polled(built, 77, exit=ends, text="test result: ok" if not ends else "error: boom unrecognized")
    found = lessons(built)
    assert len([c for c in found if c.text.endswith("without `--lib` it works: `cargo test`.")]) == kept
    if kept:
        assert found[0].evidence_refs[-2:] == ("s1.e2", "s1.e9")


@pytest.mark.feature("search.fixed-errors")
def test_an_error_is_followed_through_others_to_the_run_that_passed_wherever_it_was_called():
    session = view(cwd="/w/app").shell("pytest test/test_a.py", exit=1, text="E   TypeError: one is missing").edit("/w/app/a.py")
    session.shell("pytest test/test_a.py", exit=1, text="E   ValueError: another").edit("/w/app/b.py").shell("cd test")
    passed = session.shell("pytest /w/app/test/test_a.py", text="1 passed").build()
    first = passed.once(runs)[0]
    found = resolved(passed, first.call.result_event)
    assert found is not None
    assert found.files == ["a.py", "b.py"]
    assert not any("TypeError" in candidate.text for candidate in extract(passed))


@pytest.mark.feature("mining.refused-keys")
@pytest.mark.parametrize(
    ("error", "after", "told"),
    [
        ("ERROR: Unrecognized key(s) in object: 'ignoreUnlisted'", '{"ignoreDependencies": []}', "the key is `ignoreDependencies`"),
        ("error: unknown field `ignoreUnlisted`, expected one of `a`", "{}", "leave it out"),
        ("error: 3 unused dependencies", '{"ignoreDependencies": []}', None),
        ("ERROR: Unrecognized key(s) in object: 'ignoreUnlisted'", '{"ignoreUnlisted": [1]}', None),
    ],
    ids=["renamed", "left-out", "another-error", "still-there"],
)
def test_a_key_that_a_program_refused_is_told_with_the_one_that_was_put_in_its_place(error, after, told):
    session = edit(view("a").shell("npx knip", exit=1, text=error), "/w/app/knip.json", '{"ignoreUnlisted": []}', after)
    still = error if "ignoreUnlisted" in after else "unused: left-pad"
    session = session.shell("npx knip", exit=1, text=still).shell("npm rm left-pad", text="ok").shell("npx knip", text="no issues")
    found = [c.text for c in extract(session.build()) if "refuses the key" in c.text]
    assert found == ([f"`npx knip` refuses the key `ignoreUnlisted` in `knip.json`: {told}"] if told else [])


@pytest.mark.feature("mining.cure-prepared")
@pytest.mark.parametrize(
    ("failed", "output", "made", "error"),
    [
        ("npm run typecheck", "src/a.ts(1,2): error TS2307: Cannot find module './generated/client'", "npx prisma generate", "TS2307"),
        ("pytest", 'E   sqlalchemy.exc.ProgrammingError: relation "users" does not exist\n1 failed', "alembic upgrade head", "users"),
        ("docker compose up -d", "Cannot connect to the Docker daemon at unix:///x. Is it there?", "colima start", "Docker daemon"),
    ],
)
def test_what_made_what_a_check_needs_is_its_cure_where_nothing_else_was_done(failed, output, made, error):
    session = view("a").shell(failed, exit=1, text=output).shell(made, text="ok").shell(failed, text="3 passed")
    (found,) = extract(session.build())
    assert found.text.endswith(f"until `{made}` has run.")
    assert error in found.text
    edited = view("a").shell(failed, exit=1, text=output).edit("/w/app/a.ts").shell(made, text="ok").shell(failed, text="3 passed")
    assert failed.startswith("docker") or not any("until" in c.text for c in extract(edited.build()))


@pytest.mark.feature("mining.trusted-cures")
def test_a_program_that_zsh_does_not_find_is_the_one_that_was_called():
    session = view("a").shell("python a.py", exit=127, text="zsh: command not found: python").shell("python3 a.py", text="done")
    assert [c.text for c in extract(session.build())] == [
        "`python a.py` fails with “zsh: command not found: python”; `python3 a.py` works."
    ]


@pytest.mark.feature("mining.refused-keys", "mining.trusted-cures")
def test_a_later_session_that_meets_the_failure_is_told_the_key_and_how_a_program_is_run_that_zsh_does_not_find():
    error = "ERROR: Unrecognized key(s) in object: 'ignoreUnlisted'"
    session = edit(
        view("a").shell("npx knip", exit=1, text=error), "/w/app/knip.json", '{"ignoreUnlisted": 1}', '{"ignoreDependencies": 1}'
    )
    memories = consolidate(kept(session.shell("npx knip", text="no issues")))
    assert [m.body["steps"] for m in after_failure("npx knip", error, "/w/app", memories)] == [
        ["use `ignoreDependencies` in place of `ignoreUnlisted` in `knip.json`"]
    ]
    assert after_failure("npx knip", error.replace("ignoreUnlisted", "rules"), "/w/app", memories) == []
    habit = Memory("m1", "repo_convention", "run the tests with `uv run pytest`", sessions=["claude/a"], support=3)
    assert after_failure("pytest", "zsh: command not found: pytest", "/w/app", [habit]) == [habit]
    assert after_failure("ruff check", "zsh: command not found: ruff", "/w/app", [habit]) == []


@pytest.mark.feature("mining.chain-step")
@pytest.mark.parametrize(
    ("chain", "printed", "blamed"),
    [
        (
            "mise run fmt && mise run lint",
            "[fmt] $ gofmt -w .\n[lint] $ golangci-lint run ./...\n{}\n[lint] ERROR task failed",
            "mise run lint",
        ),
        ("mise run fmt && mise run lint", "[fmt] $ gofmt -w .\n{}\n[fmt] ERROR task failed", "mise run fmt"),
        ("mise run lint:all && mise run fmt", "[fmt] $ gofmt -w .\n[lint:all] $ golangci-lint run\n{}", "mise run lint:all"),
        ("npm run fmt && npm run lint", "> app@1.0.0 fmt\n> prettier -w .\n\n> app@1.0.0 lint\n> eslint .\n{}", "npm run lint"),
        ("npm run fmt && npm run lint", "> app@1.0.0 fmt\r\n> prettier -w .\r\n> app@1.0.0 lint\r\n> eslint .\r\n{}", "npm run lint"),
        ("npm run lint && npm run test", "> app@1.0.0 lint\n> eslint .\n{}", "npm run lint"),
        ("pytest && mise run lint && tsc", "3 passed\n[lint] $ golangci-lint run\n{}\n[lint] ERROR task failed", "mise run lint"),
        (
            "pnpm run lint && pytest",
            "> app@1.0.0 lint /w/app\n> eslint .\n\n{}\n\u2009ELIFECYCLE\u2009 Command failed with exit code 1.\n",
            "pnpm run lint",
        ),
        ("npm run lint && npm run test -- --silent", "> app@1.0.0 lint\n> eslint .\n{}", "npm run lint"),
    ],
)
def test_of_a_chain_of_checks_the_last_that_its_runner_began_is_the_one_that_failed(chain, printed, blamed):
    finding = "cmd/config.go:239:15: error returned from external package is unwrapped (wrapcheck)"
    session = view("s", cwd="/w/app").shell(chain, exit=1, text=printed.format(finding))
    session.edit("/w/app/cmd/config.go")
    session.shell(blamed, text="ok")
    found = [c.text for c in extract(session.build())]
    assert [text.startswith(f"`{blamed}` failed with wrapcheck: ") for text in found] == [True]


@pytest.mark.feature("mining.chain-step")
@pytest.mark.parametrize(
    ("chain", "printed"),
    [
        ("mise run fmt && mise run lint && golangci-lint run", "[fmt] $ gofmt -w .\n[lint] $ ruff check\nAll checks passed!\n{}"),
        ("pytest && mise run lint && tsc", "3 passed\n[lint] $ eslint .\n{}"),
        ("npm run lint && pytest", "> app@1.0.0 lint\n> eslint .\n\n{}"),
        ("npm run lint && npm run test --silent", "> app@1.0.0 lint\n> eslint .\n\n{}"),
        (
            "pnpm run lint && make tests",
            "> app@1.0.0 lint\n> eslint .\n\n> app@1.0.0 unit\n> jest\n{}\n ELIFECYCLE  Command failed with exit code 1.\n",
        ),
        ("pnpm run lint && pytest", "> app@1.0.0 lint\n> a || true\n ELIFECYCLE  Command failed with exit code 1.\n{}"),
    ],
)
def test_a_step_behind_the_one_that_its_runner_began_may_be_what_failed(chain, printed):
    finding = "cmd/config.go:239:15: error returned from external package is unwrapped (wrapcheck)"
    for passed in (*chain.split(" && "), chain):
        session = view("s", cwd="/w/app").shell(chain, exit=1, text=printed.format(finding))
        session.edit("/w/app/cmd/config.go")
        assert list(extract(session.shell(passed, text="ok").build())) == []
