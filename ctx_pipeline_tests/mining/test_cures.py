"""When a later command is the cure of one that failed, and how it is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ctx_pipeline.memory.consolidation import store_candidate
from ctx_pipeline.mining.error_resolutions import combine, extract
from ctx_pipeline_tests.factories.views import SECOND, START, view


def lessons(session):
    return list(extract(session.build()))


@pytest.mark.feature("mining.error-resolution-command")
def test_two_long_commands_that_are_alike_are_told_by_where_they_differ():
    start = "cargo update -p rattler -p rattler_menuinst -p rattler_package_streaming -p rattler_cache -p rattler_repodata_gateway"
    session = (
        view()
        .shell(f"{start} -p quick-xml", exit=101, text="error: the specification `quick-xml` is ambiguous: unrecognized")
        .shell(start, text="Updating crates.io index")
    )
    (found,) = lessons(session)
    assert found.text == (
        "`cargo update` fails with “error: the specification `quick-xml` is ambiguous: unrecognized”: leave out `-p quick-xml`."
    )
    assert found.structured["did"] == [start]


@pytest.mark.feature("mining.error-resolution-command")
def test_an_argument_that_was_dropped_is_no_cure_unless_the_error_says_that_it_is_wrong():
    ambiguous = "error: There are multiple `yaml` packages, and the specification `yaml` is ambiguous."
    plain = view().shell("cargo update -p serde -p yaml", exit=101, text=ambiguous).shell("cargo update -p serde", text="Locking")
    assert lessons(plain) == []
    offered = f"{ambiguous}\nPlease re-run with one of the following:\n  yaml@0.37.5\n  yaml@0.38.4\n"
    told = view().shell("cargo update -p serde -p yaml", exit=101, text=offered).shell("cargo update -p serde", text="Locking")
    (found,) = lessons(told)
    assert found.text == f"`cargo update -p yaml` fails with “{ambiguous}”: name one of those that it lists, as in `yaml@X.Y.Z`."
    assert found.structured["steps"] == ["name `yaml@X.Y.Z` in place of `yaml`, as listed"]
    locked = view().shell("cargo update -p serde -p yaml", exit=101, text="error: could not find the lock file")
    assert lessons(locked.shell("cargo update -p serde", text="Locking")) == []


@pytest.mark.feature("mining.error-resolution-command")
@pytest.mark.parametrize(
    ("works", "text", "step"),
    [
        (
            "gh run view 7 --json status,attempt",
            "use `attempt` in place of `runAttempt`",
            "use `attempt` in place of `runAttempt` in `gh run view --json`",
        ),
        ("gh run view 7 --json status", "leave out `runAttempt`", "leave out `runAttempt` in `gh run view --json`"),
    ],
)
def test_a_member_of_a_list_that_the_error_names_is_the_lesson(works, text, step):
    failed = view().shell("gh run view 7 --json status,runAttempt", exit=1, text='Unknown JSON field: "runAttempt"')
    (found,) = lessons(failed.shell(works, text="{}"))
    assert found.text == f'`gh run view --json` fails with “Unknown JSON field: "runAttempt"”: {text}.'
    assert found.structured["steps"] == [step]


@pytest.mark.feature("mining.error-resolution-command")
def test_more_names_than_a_program_takes_are_told_and_the_usage_that_it_prints_is_not():
    error = "error: unexpected argument 'keeps_order' found\n\nUsage: cargo test [OPTIONS] [TESTNAME] [-- [ARGS]...]"
    both = view().shell("cargo test parses_paths keeps_order", exit=1, text=error)
    (found,) = lessons(both.shell("cargo test keeps_order", text="ok"))
    assert found.text == ("`cargo test NAME NAME` fails with “error: unexpected argument 'NAME' found”; `cargo test NAME` works.")
    assert found.structured["steps"] == ["call it as `cargo test NAME`"]


@pytest.mark.feature("mining.error-resolution-command")
def test_a_cure_that_pins_a_version_names_its_day_and_counts_less():
    broken = "error: internal compiler error: /rustc-dev/f46ec5218fe7829ac18323b5ee0b409a63169f27/compiler/select.rs:775:21: unexpected"
    works = "rustup toolchain install nightly-2026-06-29 && cargo +nightly-2026-06-29 build"
    (found,) = lessons(view().shell("cargo +nightly build", exit=101, text=broken).shell(works, text="Finished"))
    day = datetime.fromtimestamp(START / SECOND, UTC).date()
    assert found.text == (
        f"on {day} `cargo +nightly build` failed with “error: internal compiler error”; `{works}` worked. "
        "It pins a version: try without it first."
    )
    assert found.when_to_use == "`cargo +nightly build` fails with “error: internal compiler error”"
    assert (found.confidence, found.priority) == (0.45, 2)


AMBIGUOUS = "error: There are multiple `zip` packages in your project, and the specification `zip` is ambiguous.\n  zip@1.2.3\n  zip@2.0.1"
USAGE = "error: unexpected argument 'b' found\n\nUsage: cargo test [OPTIONS] [TESTNAME]"
LISTED = 'Unknown JSON field: "runAttempt"\nAvailable fields:\n  attempt\n  status'


@pytest.mark.feature("mining.error-resolution-command")
@pytest.mark.parametrize(
    ("failed", "output", "passed", "kept"),
    [
        ("gh run view 7 --json status,runAttempt", LISTED, "gh run view 7 --json status,attempt", False),
        ("gh run view 7 --json status,runAttempt", LISTED.partition("\n")[0], "gh run view 7 --json status,attempt", True),
        ("gh pr view 7 --json title,threads", 'Unknown JSON field: "threads"', "gh pr view 7 --json title", False),
        ("cargo test a b", USAGE, "cargo test a", False),
        ("cargo update -p zip", AMBIGUOUS, "cargo update -p zip@1.2.3", False),
        ("ruff chek .", "error: unrecognized subcommand 'chek'\n\n  tip: a similar subcommand exists: 'check'", "ruff check .", False),
        ("cargo +nightly build", "error: internal compiler error: boom", "cargo +nightly-2026-06-29 build", False),
        ("cargo test a --lib", "error: no library targets found in package `app`", "cargo test a", False),
        ("cargo test a --offline", "error: no such command: `a` could not find it", "cargo test a", True),
        ("pytest -q", "bash: pytest: command not found", "uv run pytest -q", True),
        ("pytest -q", "bash: pytest: command not found", "(source .venv/bin/activate && pytest -q)", False),
        ("pytest -q", "bash: pytest: command not found", ".venv/bin/pytest -q", False),
    ],
    ids=[
        *("listed", "not-listed", "left-out", "usage", "offered", "tip", "pinned", "spoken-of", "unsaid", "absent"),
        *("activated", "in-the-folder"),
    ],
)
def test_a_cure_that_the_output_names_or_that_ages_is_marked_as_seen_once_until_a_second_session(failed, output, passed, kept):
    def mined(name, start):
        built = view(name, start=start).shell(failed, exit=1, text=output).shell(passed, text="ok").build()
        return [store_candidate(c, session=built.session, method="error_resolutions", version=1) for c in extract(built)]

    once, again = mined("a", START), mined("b", START + 86_400 * SECOND)
    assert [len(once), len(again)] == [1, 1]
    assert ["once" in c.body for c in combine(once)] == [not kept]
    assert list(combine(once + again)) == once + again
    fork = mined("fork", START)
    assert ["once" in c.body for c in combine(once + fork)] == [not kept, not kept]


@pytest.mark.feature("mining.error-resolution-command")
def test_commands_are_told_as_they_were_typed_and_never_cut_in_steps():
    (found,) = lessons(
        view().shell("mise run lint", exit=1, text="a.go:4:1: unused variable x (unused)").edit("/w/app/a.go").shell("mise run lint")
    )
    assert found.text.startswith("`mise run lint` failed with unused: “unused variable x”")
    long = "uv run --with " + " --with ".join(f"package-{n}-of-the-project" for n in range(8)) + " pytest"
    (found,) = lessons(view().shell("pytest", exit=127, text="/bin/bash: line 1: pytest: command not found").shell(long, text="3 passed"))
    assert found.structured["steps"] == [f"run `{long}`"]
    assert found.when_to_use == "`pytest` is about to run, or fails with “pytest: command not found”"


@pytest.mark.feature("mining.error-resolution-command")
def test_a_module_that_the_code_lacks_is_cured_by_a_call_for_the_same_target_only():
    missing = "ModuleNotFoundError: No module named 'yaml'"
    failed = view().shell("python -m timeit -s 'import test_localnet'", exit=1, text=missing)
    assert lessons(failed.shell("python -m timeit -s 'import test_net'", text="ok")) == []
    run = view().shell("pytest tests/test_a.py", exit=1, text=missing).shell("uv run pytest tests/test_a.py", text="3 passed")
    assert [c.structured["steps"] for c in lessons(run)] == [["run `uv run pytest tests/test_a.py`"]]
    absent = view().shell("python -m pytest tests/test_a.py", exit=1, text="/usr/bin/python: No module named pytest")
    assert [c.structured["steps"] for c in lessons(absent.shell("uv run pytest", text="3 passed"))] == [["run `uv run pytest`"]]


@pytest.mark.feature("mining.error-resolution-command")
def test_another_test_that_passes_is_no_cure_of_the_one_that_failed():
    failed = view().shell("cargo test parses_paths", exit=101, text="No such file or directory (os error 2)")
    assert lessons(failed.shell("cargo test keeps_order", text="ok")) == []
    linted = view().shell("ruff check src/loader.py", exit=1, text="TypeError: unhashable type: 'list'")
    assert lessons(linted.shell("ruff check src/parser.py", text="All checks passed!")) == []
    assert lessons(linted.shell("ruff check src/loader.py src/parser.py --quiet", text="All checks passed!"))
    both = view().shell("cargo test parses_paths keeps_order", exit=1, text="error: unexpected argument 'keeps_order' found")
    assert lessons(both.shell("cargo test keeps_order", text="ok")) == []


@pytest.mark.feature("mining.error-resolution-command")
def test_an_environment_in_the_folder_that_had_to_be_looked_for_is_a_lesson():
    failed = view().shell("pytest -q", exit=127, text="bash: pytest: command not found").shell("ls -a", text=".env")
    built = failed.shell("(source .env/bin/activate && pytest -q)", text="4 passed").build()
    rows = [store_candidate(c, session=built.session, method="error_resolutions", version=1) for c in extract(built)]
    assert [c.text for c in combine(rows)] == [
        "`pytest -q` fails with “bash: pytest: command not found”; `(source .env/bin/activate && pytest -q)` works."
    ]


def _told(*steps):
    made = view()
    for command, exit_status, text in steps:
        made = (
            made.edit("/w/app/a.ts")
            if command == "edit"
            else made.shell(command, exit=exit_status, text=text, failed=bool(text) and exit_status != 0)
        )
    return [c.text for c in lessons(made)]


@pytest.mark.feature("mining.trusted-cures")
@pytest.mark.parametrize("status", [1, None])
def test_a_formatter_alone_is_the_cure_of_a_check_whether_or_not_its_status_is_recorded(status):
    failed = ("npm run check", status, "a.ts:1 lint/unused\n! unused variable\na.ts format\nFound 2 errors.")
    formatted, passed = ("npm run format", 0, ""), ("npm run check", 0, "all good")
    assert _told(failed, formatted, passed) == ["`npm run check` fails on formatting until `npm run format` has run."]
    assert not any("formatting" in text for text in _told(failed, ("edit", 0, ""), formatted, passed))
    assert _told(("cargo fmt --check", 1, "error: Diff in a.rs"), ("cargo fmt", 0, ""), ("cargo fmt --check", 0, "")) == []


@pytest.mark.feature("mining.trusted-cures")
def test_a_path_that_was_not_found_below_the_root_is_told_as_the_folder_of_the_shell():
    missing, whole = "pytest test/test_a.py", "pytest /w/app/test/test_a.py"
    steps = (
        ("cd test && ls", 0, "test_a.py"),
        (missing, 4, "ERROR: file or directory not found: test/test_a.py"),
        (whole, 0, "1 passed in 0.1s"),
    )
    (text,) = _told(*steps)
    assert text.endswith("where the shell stands in `test`: run it from the root of the project.")
