"""How a project is checked, as even one session shows it, and which tools this machine lacks."""

from __future__ import annotations

import os
import sys

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.learning.at_act import after_failure, before_command
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline_tests.factories.views import SECOND, START, view


def lessons(name, *sessions):
    method = discovery.methods()[name]
    return consolidate(method.combine([c for s in sessions for c in draw(method, s.build())[0]]))


def day(name, number, **place):
    return view(name, start=START + number * 86_400 * SECOND, **place)


@pytest.mark.feature("mining.project-facts")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("DATABASE_URL=sqlite:// pytest", "DATABASE_URL=sqlite:// pytest"),
        ("(source .venv/bin/activate && pytest)", "source .venv/bin/activate && pytest"),
        ("cd /w/app/server && npm test", "cd server && npm test"),
        ("just verify-tests", None),
        ("pytest", None),
    ],
)
def test_what_one_session_ran_again_and_again_is_kept_with_its_folder_environment_and_variables(command, told):
    session = day("a", 1).shell(command, text="3 passed").edit("/w/app/a.py").shell(command, text="3 passed")
    found = [m for m in lessons("project_conventions", session) if m.body.get("once")]
    assert [m.body["commands"] for m in found] == ([[told]] if told else [])
    assert lessons("project_conventions", day("a", 1).shell(command, text="3 passed")) == []


@pytest.mark.feature("mining.project-facts")
def test_the_own_tasks_that_one_session_ran_beside_other_checks_are_kept_and_what_anybody_would_try_is_not():
    session = (
        day("a", 1).shell("mise run fmt", text="ok").shell("go test ./pkg/...", text="ok  pkg  0.1s").shell("mise run lint", text="ok")
    )
    (found,) = lessons(
        "project_conventions", session.shell("npx biome check .", text="ok").shell("go test ./pkg/...", text="ok  pkg  0.1s")
    )
    assert (found.text, found.body["once"]) == ("lint with `mise run lint`; format with `mise run fmt`", True)
    assert lessons("project_conventions", day("a", 1).shell("mise run lint", text="ok")) == []


@pytest.mark.feature("mining.project-facts")
def test_a_missing_program_is_named_and_not_what_it_was_to_start():
    session = day("a", 1).shell("timeout 5 make test", exit=127, text="zsh: command not found: timeout")
    (found,) = lessons("reme", session)
    assert (found.text, found.when_to_use) == (
        "`timeout` is not installed here (“zsh: command not found: timeout”)",
        "`timeout` is about to run",
    )


@pytest.mark.feature("mining.project-facts")
def test_a_habit_names_the_variable_that_every_passing_run_had():
    sessions = [day(n, i).shell("DATABASE_URL=sqlite:// uv run pytest", text="3 passed") for i, n in enumerate("abc")]
    (found,) = lessons("project_conventions", *sessions)
    assert found.text == "run the tests with `DATABASE_URL=sqlite:// uv run pytest`"
    assert "once" not in found.body


@pytest.mark.feature("mining.project-facts")
def test_a_program_that_is_not_installed_is_a_warning_until_it_runs():
    absent = day("a", 1).shell("ruff check .", exit=127, text="bash: ruff: command not found")
    (found,) = lessons("reme", absent)
    assert found.text == "`ruff` is not installed here (“bash: ruff: command not found”)"
    assert (found.body["warning"], found.body["once"], found.when_to_use) == (True, True, "`ruff` is about to run")
    assert lessons("reme", absent, day("b", 2).shell("ruff check .", text="All checks passed!")) == []


@pytest.mark.feature("mining.project-facts")
def test_an_error_that_comes_again_is_one_warning_whatever_it_quotes():
    sessions = [
        day(n, i).shell(f"gh pr view {i} --json {f}", exit=1, text=f'Unknown JSON field: "{f}"')
        for i, (n, f) in enumerate(zip("ab", ("x", "threads"), strict=True))
    ]
    (found,) = lessons("reme", *sessions)
    assert (found.support, found.body["warning"]) == (2, True)


_LEFTHOOK = "\x1b[1m\u2502 lefthook v1.12.3  hook: pre-commit \u2502\x1b[0m\n\u2503  format \u276f \n\n\u2503  lint \u276f \n"
_PRE_COMMIT = "eol.......Passed\nruff (x).......(no files to check)Skipped\nmypy........Failed\n"


@pytest.mark.feature("mining.git-hooks")
@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        (
            "git commit -m x",
            _LEFTHOOK,
            "`git commit` runs the pre-commit hook of lefthook here (`format`, `lint`); 1 of 2 commits that ran it failed",
        ),
        (
            "git add . && git commit -m x",
            _PRE_COMMIT,
            "`git commit` runs the pre-commit hook of pre-commit here (`eol`, `ruff (x)`, `mypy`); 1 of 2 commits that ran it failed",
        ),
        (
            "git push",
            "husky - pre-push hook exited with code 1\n",
            "`git push` runs the pre-push hook of husky here; 1 of 2 pushes that ran it failed",
        ),
        ("git commit -m x", "[main 1a2b3c4] x\n 1 file changed", None),
        ("cat lefthook.log", _LEFTHOOK, None),
    ],
)
def test_hooks_of_git_that_ran_twice_are_a_fact_with_their_steps_and_failures(command, output, told):
    twice = day("a", 1).shell(command, exit=1, text=output).shell(command, text=output)
    found = lessons("project_conventions", twice)
    assert [(m.text, m.body["fact"]) for m in found] == ([(told, True)] if told else [])
    assert lessons("project_conventions", day("a", 1).shell(command, exit=1, text=output)) == []
    sessions = [day(n, i).shell(command, exit=i, text=output) for i, n in enumerate("ab")]
    found = lessons("project_conventions", *sessions)
    assert [m.text for m in found] == ([told] if told else [])
    assert before_command(command, found) == found  # told before the next one
    assert before_command("git status", found) == []


@pytest.mark.feature("mining.project-facts")
def test_a_call_that_failed_again_after_it_had_been_called_well_is_told_of_one_session():
    wrong = "error: unexpected argument '{}' found"
    session = (
        day("a", 1)
        .shell("cargo test one two", exit=1, text=wrong.format("two"))
        .shell("cargo test one", text="test result: ok. 1 passed; 0 failed")
        .shell("cargo test one " + "mod::" * 20 + "two", exit=1, text=wrong.format("mod::" * 20 + "two"))
        .shell("cargo test two", text="test result: ok. 1 passed; 0 failed")
    )
    (found,) = lessons("reme", session)
    quoted = "\u201cerror: unexpected argument 'two' found\u201d"
    assert found.text == f"`cargo test one two` fails with {quoted} (2 times in one session): `cargo test one` works"
    assert found.body["once"]
    at_once = (
        day("b", 1).shell("cargo test one two", exit=1, text=wrong.format("two")).shell("cargo test one 2", exit=1, text=wrong.format("2"))
    )
    assert lessons("reme", at_once) == []


@pytest.mark.feature("mining.package-checks")
def test_how_a_package_is_checked_is_told_beside_how_the_project_is():
    whole = [day(n, i).shell("make check", text="ok").shell("uv run pytest", text="3 passed") for i, n in enumerate("abc")]
    part = "npm --prefix web run test"
    two = [day(n, i).shell(part, text="3 passed") for i, n in enumerate("de", 3)]
    (found,) = [m for m in lessons("project_conventions", *whole, *two) if "web" in m.text]
    assert (found.text, found.when_to_use) == ("in `web`: run the tests with `npm --prefix web run test`", "`web` is changed")
    assert (found.support, "once" in found.body) == (2, False)
    assert [m for m in lessons("project_conventions", *whole, two[0]) if "web" in m.text] == []
    (again,) = [m for m in lessons("project_conventions", *whole, two[0].shell(part, text="3 passed")) if "web" in m.text]
    assert again.body["once"] is True


@pytest.mark.feature("mining.package-checks")
def test_a_folder_that_needs_an_option_and_other_checks_of_a_package_are_told():
    whole = [day(n, i).shell("mise run check", text="ok").shell("mise run test", text="ok") for i, n in enumerate("abc")]
    tagged = "go test ./cmd/it/... -run TestOne -tags=integration"
    part = (
        day("d", 3)
        .shell("mise --cd crates/web run test", text="3 passed")
        .shell("mise --cd crates/web run test", text="3 passed")
        .shell("mise --cd crates/web run lint", text="ok")
        .shell(tagged, text="ok")
        .shell(tagged.replace("One", "Two"), text="ok")
    )
    texts = [m.text for m in lessons("project_conventions", *whole, part) if m.text.startswith("in ")]
    assert sorted(texts) == [
        "in `cmd/it`: run the tests with `go test ./cmd/it/... -tags=integration`",
        "in `crates/web`: run the tests with `mise --cd crates/web run test`; lint with `mise --cd crates/web run lint`",
    ]


@pytest.mark.feature("mining.project-facts")
def test_tasks_that_a_project_named_and_checks_by_other_programs_stand_beside_its_habits():
    whole = [day(n, i).shell("mise run check", text="ok").shell("mise run test", text="ok") for i, n in enumerate("abc")]
    other = day("d", 3).shell("mise run test:e2e -- -run One", text="ok")
    for _ in range(2):
        other.shell("""A='b c' D="e f" act -j test""", text="ok").shell("mise run test", text="ok")
    (found,) = lessons("project_conventions", *whole, other)
    assert found.text.endswith("; other checks that passed: `mise run test:e2e -- -run NAME`, `act -j test`")
    assert not {"act -j test", "mise run test:e2e -- -run NAME"} & set(found.body["commands"])


_IGNORED = "The following paths are ignored by one of your .gitignore files:\ndocs\nhint: Use -f if you really want to add them.\n"
_TAKEN = "fatal: 'main' is already used by worktree at '/w/app'"
_GLOB = "zsh:1: no matches found: repos/a/b?ref=main"


@pytest.mark.feature("mining.place-facts")
@pytest.mark.parametrize(
    ("failed", "output", "after", "told"),
    [
        ("git add docs/a.md", _IGNORED, "git status", "git ignores `docs` here"),
        ("git add docs/a.md", _IGNORED, "git add -f docs/a.md", None),
        ("git add docs/a.md", _IGNORED, "git add docs", None),
        ("git add src/a.md", _IGNORED, "git status", None),
        ("cd /elsewhere && git add docs/a.md", _IGNORED, "git status", None),
        ("git -C /elsewhere add docs/a.md", _IGNORED, "git status", None),
        ("cd /elsewhere && git checkout main", _TAKEN, "git status", None),
        ("git checkout main", _TAKEN, "git checkout main", None),
        ("git checkout main && git pull", _TAKEN, "git status", "in a worktree of this repository `git checkout main` fails"),
        ("gh api repos/a/b?ref=main", _GLOB, "gh api 'repos/a/b?ref=main'", "quote it: `gh api 'repos/a/b?ref=main'`"),
        ("gh api repos/a/b?ref=main", _GLOB, "gh api repos/a/b", "quote it: `'repos/a/b?ref=main'`"),
    ],
)
def test_one_failure_proves_what_it_says_of_the_place(failed, output, after, told):
    found = lessons("reme", day("a", 1).shell(failed, exit=1, text=output).shell(after, text="ok"))
    assert [(told or "-") in m.text for m in found] == ([True] if told else [])
    assert all(m.body["fact"] and m.body["warning"] for m in found)


@pytest.mark.feature("mining.place-facts")
def test_folders_that_git_ignores_are_one_lesson_of_a_repository():
    more = [
        day(n, i).shell(f"git add {f}/a", exit=1, text=_IGNORED.replace("docs", f))
        for i, (n, f) in enumerate(zip("ab", ("docs", "out"), strict=True))
    ]
    (found,) = lessons("reme", *more)
    assert (found.support, "`out`, `docs`" in found.text) == (2, True)


@pytest.mark.feature("mining.success-failure")
def test_a_wrong_name_in_a_long_call_is_told_as_what_to_leave_out_and_no_number_of_one_run_is_told():
    fields = ",".join(f"{n}Field" for n in ("title", "author", "body", "files", "labels", "reviews", "state"))
    wrong = f"gh pr view 10722 --json {fields},threads"
    sessions = [
        day(n, i).shell(wrong, exit=1, text='Unknown JSON field: "threads"').shell(wrong.removesuffix(",threads"), text="{}")
        for i, n in enumerate("ab")
    ]
    found = [m for m in lessons("reme", *sessions) if m.body.get("sessions") == 2]
    assert [m.text for m in found] == ['`gh pr view` fails with “Unknown JSON field: "threads"” (2 sessions): leave out `threads`']
    running = [
        day(n, i).shell("gh run view 28943891068 --log", exit=1, text="run 28943891068 is still in progress") for i, n in enumerate("ab")
    ]
    (waits,) = lessons("reme", *running)
    assert waits.text.startswith("`gh run view ID --log` failed with")


@pytest.mark.feature("mining.project-facts")
def test_a_call_that_no_other_wording_cured_is_told_with_the_form_that_passed_in_between():
    wrong = "error: unexpected argument '{}' found"
    session = (
        day("a", 1)
        .shell("cargo test one", text="test result: ok. 1 passed; 0 failed")
        .shell("cargo test two three", exit=1, text=wrong.format("three"))
        .shell("cargo test four", text="test result: ok. 1 passed; 0 failed")
        .shell("cargo test five six", exit=1, text=wrong.format("six"))
    )
    (found,) = lessons("reme", session)
    assert found.text.startswith("`cargo test NAME NAME` failed with “error: unexpected argument NAME found”")
    assert found.text.endswith("2 times in one session; `cargo test NAME` passed in between")


@pytest.mark.feature("mining.success-failure")
@pytest.mark.parametrize("last", [0, 3])
def test_a_session_that_met_the_error_with_another_name_is_not_counted_for_the_one_that_is_left_out(last):
    wrong = "gh pr view --json title,author,headRefName,baseRefName,commits,reviews,comments,statusCheckRollup,threads"
    cured = day("a", 1).shell(wrong, exit=1, text='Unknown JSON field: "threads"').shell(wrong.removesuffix(",threads"), text="{}")
    other = day("b", last).shell("gh pr status --json current", exit=1, text='Unknown JSON field: "current"')
    told = '`gh pr view` fails with “Unknown JSON field: "threads"” (another session with `current`): leave out `threads`'
    assert [m.text for m in lessons("reme", other, cured)] == [told]


@pytest.mark.feature("mining.success-failure")
def test_a_missing_program_is_counted_by_the_sessions_that_missed_it_and_not_another_one():
    def missed(name, n, missing):
        failed = day(name, n).shell("cargo foo check", exit=101, text=f"error: no such command: `{missing}`")
        return failed.shell("mise x -- cargo foo check" if missing == "nextest" else "cargo test", text="12 passed")

    met = [missed("a", 1, "deny"), missed("b", 2, "nextest"), missed("c", 3, "nextest")]
    (found,) = lessons("reme", *met)
    why = "“error: no such command: `nextest`” in 2 sessions, another session with `deny`"
    assert found.text == f"`cargo foo` is missing here ({why}): run `mise x -- cargo foo check`"


@pytest.mark.feature("mining.error-resolution-command")
def test_of_a_chain_the_command_that_failed_is_quoted_with_what_it_needs_of_the_shell():
    error = "error: no library targets found in package `app`"
    chain = "cd crates && git add src/a.rs && git diff --check && cargo test registry::tests --lib"
    session = (
        day("a", 1).shell(chain, exit=101, text=error).shell("cd crates && cargo test registry::tests", text="test result: ok. 3 passed")
    )
    (found,) = lessons("error_resolutions", session)
    assert "git" not in found.text
    assert "cd crates && cargo test registry::tests --lib" in found.text
    assert found.body["failed"] == chain


_REFUSED_BY_GNU = "date: invalid option -- 'v'\nTry 'date --help' for more information."
_REFUSED_BY_BSD = "cat: illegal option -- A\nusage: cat [-belnstuv] [file ...]"


@pytest.mark.feature("mining.missing-option")
def test_an_option_that_one_make_of_a_program_lacks_is_told_before_the_next_call_has_it_where_the_program_is_of_that_make():
    session = day("a", 1).shell("sed -n 1,9p a.go | cat -A", exit=1, text=_REFUSED_BY_BSD)
    session.shell("cd src && date -v -1d", exit=1, text=_REFUSED_BY_GNU)
    found = lessons("reme", session)
    of_bsd, of_gnu = "the `cat` of macOS and BSD has no option `-A`", "the `date` of GNU has no option `-v`"
    assert sorted(m.text for m in found) == [of_bsd, of_gnu]
    told = [m.text for command in ("cat -A b.go", "date -v -1d +%F") for m in before_command(command, found)]
    assert told == {"linux": [of_gnu], "darwin": [of_bsd]}.get(sys.platform, [])
    assert before_command("cat -n b.go", found) == before_command("date -u", found) == []
    assert after_failure("cat -A b.go", "cat: illegal option -- A\nusage: cat [-u]", "/w/app", found) == []


@pytest.mark.feature("mining.missing-option")
def test_of_a_program_that_a_person_put_in_place_of_that_of_the_system_no_option_is_called_missing(tmp_path, monkeypatch):
    own = tmp_path / "date"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    found = lessons("reme", day("a", 1).shell("date -v -1d", exit=1, text=_REFUSED_BY_GNU))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert found
    assert before_command("date -v -1d", found) == []


@pytest.mark.feature("mining.missing-option")
@pytest.mark.parametrize(
    ("command", "text", "exit_"),
    [
        ("ssh box cat -A a", _REFUSED_BY_BSD, 1),
        ("docker exec web date -v 1", _REFUSED_BY_GNU, 1),
        ("cat a | date -v 1; docker exec web sh -c 'date -v 1'", _REFUSED_BY_GNU, 1),
        ("ssh mac 'cat' < f | cat -A", _REFUSED_BY_BSD, 1),
        ("cat -A $(ssh mac ls)", _REFUSED_BY_BSD, 1),
        ("cat -A <(ssh mac ls)", _REFUSED_BY_BSD, 1),
        ("gh run view 1 --log-failed | cat -A", _REFUSED_BY_BSD, 1),
        ("git log -3; cat -A f", _REFUSED_BY_BSD, 1),
        ("cat -A f; cut -c1-80 mac.log", _REFUSED_BY_BSD, 1),
        ("cat mac.log none.log | cat -A", f"{_REFUSED_BY_BSD}\ncat: none.log: No such file or directory", 1),
        ("make report && cat -A f", _REFUSED_BY_BSD, 1),
        ("cat -A mac.log", _REFUSED_BY_BSD, 0),
        ("cat -A mac.log", _REFUSED_BY_BSD, None),
        ("cat -A mac.log none", f"a line\n{_REFUSED_BY_BSD}", 1),
        ("./tool -A", "tool: illegal option -- A\nusage: tool", 1),
        ("cat notes.txt", _REFUSED_BY_BSD, 1),
        ("rg option", "grep: invalid option -- P\nusage: grep", 1),
        ("cat -A f", "cat: illegal option -- A", 1),
        ("cat -A f", "cat: invalid option -- 'A'\nBusyBox v1.36.1 multi-call binary.", 1),
        ("netstat -Q", "netstat: invalid option -- 'Q'\nusage: netstat [-vWeenNcCF] [<Af>] -r", 1),
        ("sort -V f", "sort: invalid option -- V\nTry `sort --help' for more information.", 2),
    ],
)
def test_where_another_machine_a_file_or_an_unknown_make_may_speak_no_option_is_called_missing(command, text, exit_):
    assert lessons("reme", day("a", 1, host="claude" if exit_ is not None else "codex").shell(command, exit=exit_, text=text)) == []


@pytest.mark.feature("mining.missing-option")
def test_an_option_that_worked_later_is_not_called_missing():
    session = day("a", 1).shell("date -v 1", exit=1, text=_REFUSED_BY_GNU)
    assert lessons("reme", session)
    assert lessons("reme", session.shell("date -v 1", text="x")) == []


@pytest.mark.feature("mining.other-name")
@pytest.mark.parametrize(("answer", "told"), [("3 checks", ": `python3` is"), ("zsh:1: command not found: python3", "")])
def test_the_name_under_which_an_absent_program_is_there_is_told_where_no_exit_status_is_shown(answer, told):
    session = day("a", 1, host="codex")
    for program, output in (("python", "zsh:1: command not found: python"), ("python3", answer)):
        session.shell(f"{program} tools/inspect.py --json", exit=None, text=f"Script completed\nOutput:\n\n{output}")
    (found,) = (m for m in lessons("reme", session) if "`python`" in m.text)
    assert found.text == f"`python` is not installed here (“zsh:1: command not found: python”){told}"
