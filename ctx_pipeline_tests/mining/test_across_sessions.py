"""What only several sessions of a project prove: habits, comparisons, skills; and the course of one session."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.learning.at_act import before_command
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.memory.ranking import rank, words_of
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.factories.views import SECOND, START, view


def lessons(name, *sessions):
    method = discovery.methods()[name]
    drawn = [c for s in sessions for c in draw(method, s.build())[0]]
    return consolidate(method.combine(drawn) if method.combine else drawn)


def day(name, number, **place):
    return view(name, start=START + number * 86_400 * SECOND, **place)


@pytest.mark.feature("mining.conventions")
def test_the_command_that_most_sessions_tested_with_is_the_habit_of_the_project():
    sessions = [
        day("a", 1).shell("make tests 2>&1 | tail -5", text="4 passed in 0.1s").shell("pytest tests/test_a.py::test_b -v", text="1 passed"),
        day("b", 2).shell("make tests", exit=1, text="error: boom").shell("uv run pytest", text="3 passed"),
        day("c", 3).shell("cd /w/app && make tests", text="ok").shell("pytest tests/test_c.py::test_d", text="1 passed"),
        day("d", 4).shell("uv run pytest -q", text="3 passed").shell("make tests --version", text="GNU Make"),
        day("e", 5).shell("make tests", text="ok").shell("pytest -q", text="ok"),
        day("f", 6).shell("make tests", text="ok"),
        day("g", 7).shell("make tests", text="ok"),
        day("h", 8, cwd="/w/other").shell("npm test", text="ok"),
    ]
    (found,) = lessons("project_conventions", *sessions)
    assert found.kind == "repo_convention"
    assert found.text == "run the tests with `make tests`, also `uv run pytest`, only some with `pytest FILE::NAME`"
    assert (found.support, found.repository) == (7, "/w/app")
    assert set(found.sessions) == {f"claude/{n}" for n in "abcdefg"}
    body = json.loads(found.structured)
    assert body["commands"] == ["make tests", "uv run pytest"]
    assert body["sessions_by_command"] == {"make tests": 5, "uv run pytest": 3}
    (later,) = lessons("project_conventions", *sessions, day("i", 9).shell("make tests", text="ok"))
    assert (json.loads(later.structured)["sessions_by_command"]["make tests"], later.text) == (6, found.text)
    assert later.memory_id == found.memory_id


@pytest.mark.feature("mining.conventions")
@pytest.mark.parametrize(
    ("ran", "text"),
    [
        ("aabb", "check the types with `pyright` (earlier sessions: `mypy`)"),
        ("aaaaabb", "check the types with `mypy`, also `pyright`"),
        ("abab", "check the types with `pyright` or `mypy`"),
        ("ababaa", "check the types with `mypy`, also `pyright`"),
        ("bbaaaa", "check the types with `mypy`"),
    ],
    ids=["took-its-place", "too-few-yet", "tied", "clear", "given-up"],
)
def test_of_two_commands_the_clear_one_is_told_the_later_one_or_both(ran, text):
    sessions = [day(f"s{n}", n).shell({"a": "mypy", "b": "pyright"}[c], text="ok") for n, c in enumerate(ran)]
    (found,) = lessons("project_conventions", *sessions)
    assert found.text == text


@pytest.mark.feature("mining.echoed-commands")
@pytest.mark.parametrize(
    ("plain", "more", "told"),
    [
        (
            ("mise run test", "[test] $ go test ./...\nok  \tapp\t1.6s"),
            ("mise run test:ci", "[test:ci] $ go test -race ./...\nok  \tapp\t9.6s"),
            "`mise run test` or `mise run test:ci`",
        ),
        (
            ("npm run test:unit", "\n> app@1.2.0 test:unit\n> vitest run\n\n Tests  4 passed"),
            ("npm run test:ui", "\n> app@1.2.0 test:ui\n> vitest run --browser\n\n Tests  9 passed"),
            "`npm run test:unit` or `npm run test:ui`",
        ),
        (
            ("make test", "pytest -q\n4 passed"),
            ("make tests", "pytest -q --run-slow && echo $(date)\n9 passed"),
            "`make tests` or `make test`",
        ),
        (("mise run test", "ok"), ("mise run test:ci", "[lint] $ go vet ./...\nok"), "`mise run test:ci` or `mise run test`"),
        (
            ("mise run test", "[test] $ ./tasks/test\nok"),
            ("mise run test:ci", "[test:ci] $ go test -race ./...\nok"),
            "`mise run test:ci` or `mise run test`",
        ),
    ],
    ids=["mise", "npm", "make", "another-task", "a-script"],
)
def test_the_command_to_which_another_one_adds_is_told_first_and_nothing_that_a_task_runner_prints(plain, more, told):
    sessions = [
        built.shell(command, text=printed)
        for n in range(2)
        for built, (command, printed) in ((day(f"p{n}", 2 * n), plain), (day(f"m{n}", 2 * n + 1), more))
    ]
    (found,) = lessons("project_conventions", *sessions)
    assert found.text == f"run the tests with {told}"


@pytest.mark.feature("mining.conventions")
@pytest.mark.parametrize(
    ("formats", "looks"),
    [
        ("cargo +nightly fmt", "cargo +nightly fmt --check"),
        ("mise run fmt", "mise run fmt:check"),
        ("prettier -w .", "prettier --list-different ."),
    ],
)
def test_to_look_whether_code_is_formatted_is_not_to_format_it(formats, looks):
    (found,) = lessons("project_conventions", *(day(n, i).shell(formats).shell(looks) for i, n in enumerate("ab")))
    assert found.text == f"format with `{formats}`; check the formatting with `{looks}`"
    (alone,) = lessons("project_conventions", *(day(n, i).shell(looks) for i, n in enumerate("abc")))
    assert alone.text == f"check the formatting with `{looks}`"


@pytest.mark.feature("mining.conventions")
def test_one_memory_tells_the_checks_of_a_repository_and_their_order_where_a_clear_majority_keeps_it():
    def ran(name, number, *checks):
        built = day(name, number)
        for check in checks:
            built = built.shell(f"make {check}", text="ok")
        return built

    kept = [ran(n, i, "fmt", "lint", "test") for i, n in enumerate("abc", 1)]
    whole = "in the order `make fmt` → `make lint` → `make test`"
    (found,) = lessons("project_conventions", *kept)
    assert found.text == (f"run the tests with `make test`; lint with `make lint`; format with `make fmt`; {whole}")
    assert found.when_to_use == (
        "the tests of the project are run (how to test), code of the project is linted (which linter, how to lint), "
        "code of the project is formatted (which formatter, how to format), "
        "work is checked before it is committed or handed over"
    )
    body = json.loads(found.structured)
    assert (body["steps"], body["kinds"]) == (
        ["make fmt", "make lint", "make test"],
        ["tests", "lint and format", "format", "order of checks"],
    )
    assert found.support == 3

    def told(*sessions):
        (memory,) = lessons("project_conventions", *sessions)
        return memory.text.partition("in the order ")[2]

    assert told(*kept[:2]) == ""
    assert told(*kept, ran("d", 4, "test", "lint", "fmt")) == "`make fmt` → `make lint` → `make test`"
    assert told(*kept, *(ran(n, i, "test", "lint", "fmt") for i, n in enumerate("de", 4))) == ""
    contradicted = told(*kept, *(ran(n, i, "lint", "fmt") for i, n in enumerate("de", 4)))
    assert contradicted.endswith("→ `make test`")
    assert "`make fmt` → `make lint`" not in contradicted


@pytest.mark.feature("mining.conventions")
def test_a_project_that_only_ever_runs_some_of_its_tests_is_told_how_it_chooses_them():
    chosen = [f"mise exec -- go test -run Test{n} ./{f}/" for n, f in (("Load", "cmd/app"), ("Save", "pkg/store"), ("Stop", "cmd/app"))]
    (found,) = lessons("project_conventions", *(day(n, i).shell(c, text="ok") for i, (n, c) in enumerate(zip("abc", chosen, strict=True))))
    assert found.text == "run some of the tests with `mise exec -- go test -run NAME ./path/`"
    for command, open_form in (
        ("uv run pytest tests/test_a.py -k 'reads and writes'", "uv run pytest FILE -k NAME"),
        ("cargo test --all-features store::tests::keeps_order", "cargo test --all-features NAME"),
        ("mise run test -- ./redact/...", "mise run test -- ./path/..."),
        ("uv run pytest -x tests/test_a.py tests/test_b.py tests/test_c.py", "uv run pytest FILE FILE"),
    ):
        (found,) = lessons("project_conventions", *(day(n, i).shell(command, text="ok") for i, n in enumerate("abc")))
        assert f"`{open_form}`" in found.text
    both = [day(n, i).shell("cargo test reads", text="ok").shell("mise run test:e2e e2e/lock", text="ok") for i, n in enumerate("abc")]
    (found,) = lessons("project_conventions", *both)
    assert found.text == "run some of the tests with `cargo test NAME` or `mise run test:e2e path/`"


@pytest.mark.feature("mining.conventions")
def test_what_anybody_would_try_first_is_no_lesson_unless_the_project_does_more():
    def ran(*commands):
        built = [day(n, i) for i, n in enumerate("abc", 1)]
        for command in commands:
            built = [b.shell(command, text="ok") for b in built]
        return [m.text for m in lessons("project_conventions", *built)]

    assert ran("npm test") == ran("cargo test", "cargo build") == ran("go test ./...", "gofmt -l .") == []
    assert ran("pytest tests/test_a.py") == ran("cargo test keeps_order") == ran("go test ./a/b/ -run TestLoad") == []
    assert ran("npm run test:unit") == ["run the tests with `npm run test:unit`"]
    (told,) = ran("cargo build", "just lint")
    assert told.startswith("lint with `just lint`; build with `cargo build`")


@pytest.mark.feature("mining.options-add-up")
def test_calls_that_differ_in_their_options_alone_are_one_habit_where_one_session_ran_it_without():
    def told(*commands):
        return [
            m.text for m in lessons("project_conventions", *(day(f"s{i}", i).shell(c, text="3 passed") for i, c in enumerate(commands)))
        ]

    plain, some, many = "uv run pytest", 'uv run pytest -m "not slow"', "pytest --numprocesses=4"
    assert told(plain, many, some) == [f"run the tests with `{plain}`, also `{some}`"]
    assert told(plain, many, f"{some} --snapshot-update") == told(plain, many, "uv run pytest --lf") == []
    plain, few, many = "uv run tox", "uv run tox --quiet", "tox --parallel 4"
    assert told(plain, many, few) == [f"run the tests with `{plain}`"]
    assert told(few, many, "uv run tox --ff") == []
    assert told(plain, "uv run nox", "make tests") == []
    unit = "npm run test:unit"
    assert told(unit, f"{unit} --silent", f"{unit} --if-present") == [f"run the tests with `{unit}`"]
    for first, second in (
        ("--prefix web", "--prefix api"),
        ("-w web", "-w api"),
        ("--workspace=web", "--silent"),
        ("-- -u", "--silent"),
        ("-- --filter web", "--silent"),
        ("-- web.test.ts", "--silent"),
    ):
        assert told(unit, f"{unit} {first}", f"{unit} {second}") == []
    assert told("uv run pytest src", "uv run pytest --cov src", "uv run pytest --tb src") == []
    assert told("uv run tox", "uv run tox -e py311", "uv run tox -e lint") == []
    assert told("uv run mypy", "uv run mypy --install-types", "uv run mypy --strict") == []
    assert told("uv run ruff check", "uv run ruff check --fix", "uv run ruff check --statistics") == []
    assert told("mvn -B verify", "mvn -B verify -pl api", "mvn -B verify -pl web") == []
    # of what anybody would try first nothing is said, with whatever options
    assert told("go test ./...", "go test -race ./...", "go test -race -shuffle=on ./...") == []
    assert told("cargo test", "cargo test --quiet", "cargo test --release") == []
    race = ("mise exec -- go test ./...", "mise exec -- go test -race ./...", "mise exec -- go test -race -shuffle=on ./...")
    assert told(*race) == [f"run the tests with `{race[0]}`"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("./gradlew build -x test", "build with `./gradlew build -x test`"),
        ("mise exec -- cargo test --locked -- --nocapture", "run the tests with `mise exec -- cargo test --locked`"),
    ],
)
def test_a_habit_keeps_what_an_option_leaves_out_and_no_dashes_without_options(command, told):
    texts = [m.text for m in lessons("project_conventions", *(day(f"s{i}", i).shell(command, text="3 passed") for i in range(3)))]

    assert texts == [told]


@pytest.mark.feature("mining.options-add-up")
@pytest.mark.parametrize(
    ("plain", "options", "counts"),
    [
        ("uv run pytest", ("-n auto", "--tb short"), True),
        ("uv run pytest", ("-n 4", "-n auto --dist loadfile"), True),
        ("uv run pytest", ("--maxfail 1", "--maxfail=3"), True),
        ("uv run pytest", ("--durations 5", "--cov src --cov-report term"), True),
        ("uv run pytest", ("--cov", "--cov=src --no-header -l"), True),
        ("uv run pytest src", ("-n auto", "--timeout 30"), True),
        ("bundle exec rubocop", ("--format json", "--parallel"), True),
        ("uv run ruff check", ("--output-format=concise", "--output-format json"), True),
        ("bundle exec rspec", ("--format progress", "--order rand"), True),
        ("mvn verify", ("-B", "-B -ntp"), True),
        ("mise exec -- cargo test", ("--locked --jobs=4", "--no-fail-fast --color=always"), True),
        ("mise exec -- go test ./...", ("-race -timeout 10m", "-count=2 -parallel 4"), True),
        ("yarn test:unit", ("--ci --maxWorkers=50%", "--bail 2 --reporter dot"), True),
        ("uv run pytest", ("-n", "-n auto web"), False),
        ("uv run pytest", ("-kload", "-ksave"), False),
        ("uv run pytest", ("-mslow", '-m="not slow"'), False),
        ("uv run pytest", ("--sw", "--nf"), False),
        ("uv run pytest", ("--quiet=", "--tb="), False),
        ("make tests", ("-n", "-n 4"), False),
        ("yarn test:unit", ("--bail 2fa", "--bail login"), False),
        ("uv run mypy", ("--python-version 3.11", "--strict"), False),
        ("yarn test:unit", ("--testNamePattern=load", "--testNamePattern=save"), False),
        ("npm run test:unit", ("-- --testNamePattern=load", "-- --testPathPattern=save"), False),
        ("bundle exec rubocop", ("-A", "--autocorrect-all"), False),
        ("npx biome check", ("--apply", "--apply-unsafe"), False),
        ("uv run ruff check", ("--select=E501", "--select=F401"), False),
        ("uv run ruff check", ("--add-noqa", "--diff"), False),
        ("uv run ruff check", ("--show-files", "--show-settings"), False),
        ("mvn -B test", ("-Dtest=FooTest", "-Dtest=BarTest"), False),
        ("mise exec -- cargo test", ("--doc", "--examples"), False),
        ("mise exec -- golangci-lint run", ("--new-from-rev=main", "--new"), False),
    ],
)
def test_only_options_that_are_known_to_leave_the_work_as_it_is_add_up(plain, options, counts):
    commands = (plain, *(f"{plain} {more}" for more in options))
    found = lessons("project_conventions", *(day(f"s{i}", i).shell(c, text="3 passed") for i, c in enumerate(commands)))
    assert [m.support for m in found if f"`{plain}`" in m.text] == ([3] if counts else [])


@pytest.mark.feature("mining.reported-checks")
@pytest.mark.parametrize(
    ("printed", "counts"),
    [
        ("a.py:1:8: F401 `os` imported but unused\nFound 1 error.", True),
        ("error: unexpected argument '--fast' found", False),
        ("error: Failed to spawn: `ruff`", False),
    ],
)
def test_a_check_that_passed_elsewhere_is_borne_out_by_a_session_in_which_it_found_something(printed, counts):
    command = "uv run ruff check src"
    passed = [day(n, i).shell(command, text="All checks passed!") for i, n in enumerate("ab")]
    reported = [day(n, i).shell(command, exit=1, text=printed) for i, n in enumerate("cde", 3)]
    found = lessons("project_conventions", *passed, reported[0])
    assert [(m.text, m.support) for m in found] == ([(f"lint with `{command}`", 3)] if counts else [])
    assert lessons("project_conventions", *reported) == []


@pytest.mark.feature("mining.conventions")
def test_a_fork_that_repeats_its_parents_calls_and_one_session_alone_make_no_habit():
    once = day("a", 1).shell("make check", text="ok")
    assert lessons("project_conventions", once) == []
    assert lessons("project_conventions", once, day("fork", 1).shell("make check", text="ok")) == []
    assert lessons("project_conventions", once, day("b", 2).shell("make check", text="ok")) == []
    assert lessons("project_conventions", once, day("b", 2).shell("make check", text="ok"), day("c", 3).shell("make check", text="ok"))
    asks = [day(n, i).shell("command -v ruff", text="/bin/ruff").shell("ruff --version", text="ruff 1") for i, n in enumerate("abc")]
    assert lessons("project_conventions", *asks) == []


@pytest.mark.feature("mining.reported-checks")
def test_a_fork_that_met_the_findings_of_its_parent_is_no_further_session():
    command, findings, clean = "uv run ruff check src", "a.py:1:8: F401 `os` imported but unused\nFound 1 error.", "All checks passed!"

    def parent(name):
        return day(name, 1).shell(command, exit=1, text=findings).edit("/w/app/src/a.py").shell(command, text=clean)

    later = day("q", 5).shell(command, text=clean)
    for name in ("a", "z"):
        fork = day(name, 1).shell(command, exit=1, text=findings).answer("let us think otherwise")
        assert lessons("project_conventions", parent("p"), later, fork) == []
    found = lessons("project_conventions", parent("p"), later, day("r", 7).shell(command, exit=1, text=findings))
    assert [(m.text, m.support) for m in found] == [(f"lint with `{command}`", 3)]


@pytest.mark.feature("mining.conventions")
@pytest.mark.parametrize(("code", "printed"), [(0, "3 passed in 0.1s"), (1, "FAILED tests/test_a.py::x\n1 failed, 2 passed in 0.1s")])
def test_a_variable_that_is_named_like_a_secret_is_kept_in_no_command(code, printed):
    method = discovery.methods()["project_conventions"]

    def drawn(variable):
        session = day("a", 1).shell(f"{variable}=abcdef123456 uv run pytest -q", exit=code, text=printed)
        return [c.text + json.dumps(c.structured) for c in draw(method, session.build())[0]]

    for variable in ("STAGE", "MAX_TOKENS", "TOKENIZERS", "PATTERN", "KEYBOARD", "COMPASS", "authority"):
        assert all(f"{variable}=abcdef123456" in text for text in drawn(variable))
    names = "TOKEN GITHUB_TOKEN API_KEY DB_PASS PGPASSWORD MY_SECRET apikey DB_PASSPHRASE GH_PAT JWT SIGNING_PRIVATEKEY SESSION_COOKIE"
    more = "PGPASS SLACK_WEBHOOK RAILS_MASTER_KEY githubToken dbPassword APIKey TOKEN2 AWS_SECRET_ACCESS_KEY SECRET_KEY_BASE"
    for variable in f"{names} {more}".split():
        assert drawn(variable)
        assert not any("abcdef123456" in text for text in drawn(variable))
        assert all(f"{variable}=... uv run pytest" in text for text in drawn(variable))


@pytest.mark.feature("mining.conventions")
@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ("GH_PAT=abcdef123456 STAGE=ci", "GH_PAT=... STAGE=ci"),
        ("GH_PAT='ab cd' STAGE=ci", "GH_PAT=... STAGE=ci"),
        ("TOKENIZERS_PARALLELISM=false STAGE=ci", "TOKENIZERS_PARALLELISM=false STAGE=ci"),
        ("REQUIRE_TOKEN=true MOCK_AUTH=0", "REQUIRE_TOKEN=true MOCK_AUTH=0"),
        ("DB_PASS=12345", "DB_PASS=..."),
    ],
)
def test_of_a_variable_that_is_named_like_a_secret_only_the_value_is_left_open(variables, told):
    built = [day(name, i).shell(f"{variables} uv run pytest", text="3 passed") for i, name in enumerate("abc")]
    assert [m.text for m in lessons("project_conventions", *built)] == [f"run the tests with `{told} uv run pytest`"]


@pytest.mark.feature("mining.conventions")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("env GH_PAT=abcdef123456 STAGE=ci uv run pytest", "GH_PAT=... STAGE=ci uv run pytest"),
        ("uv run env GH_PAT='ab cd' pytest", "uv run env GH_PAT=... pytest"),
        (r"uv run env GH_PAT=ab\ cd pytest", "uv run env GH_PAT=... pytest"),
        ("uv run pytest --password=abcdef123456 --seed=12345", "uv run pytest --password=... --seed=12345"),
        (f"uv run pytest --base-url={'a' * 120} --password='ab {'c' * 60}'", f"uv run pytest --base-url={'a' * 120} --password=..."),
        ("uv run pytest --api-token rosebud99 --seed 7", "uv run pytest --api-token ... --seed 7"),
        (r"GH_PAT=ab\ cd uv run pytest --seed=1", "GH_PAT=... uv run pytest --seed=1"),
    ],
)
def test_behind_env_and_in_an_option_a_secret_is_left_open_too(command, told):
    built = [day(name, i).shell(command, text="3 passed") for i, name in enumerate("abc")]
    assert [m.text for m in lessons("project_conventions", *built)] == [f"run the tests with `{told}`"]


@pytest.mark.feature("mining.success-failure")
def test_a_step_after_which_a_check_passes_and_without_which_it_fails_is_a_success_pattern():
    with_it = [day(f"w{n}", n).edit("/w/app/a.py").shell("make fmt").shell("make lint", text="ok") for n in range(3)]
    without = [day(f"o{n}", 10 + n).edit("/w/app/a.py").shell("make lint", exit=1, text="error: unformatted") for n in range(2)]
    found = [m for m in lessons("reme", *with_it, *without) if m.kind == "procedure"]
    assert [m.text for m in found] == ["`make lint` passed at once in 3 of 3 sessions after `make fmt`, in 0 of 2 without it"]
    assert found[0].support == 3
    assert [m for m in lessons("reme", *with_it, without[0]) if m.kind == "procedure"] == []


@pytest.mark.feature("mining.success-failure")
def test_a_failure_that_two_sessions_met_is_a_trigger_and_one_alone_is_not():
    first = day("a", 1).shell("make test", exit=1, text="error: port 5432 is taken")
    second = day("b", 2).shell("make test", exit=1, text="error: port 6000 is taken").shell("make test", text="ok")
    found = [m for m in lessons("reme", first, second) if m.kind == "failure_trigger"]
    assert [m.text for m in found] == ["`make test` failed with “error: port … is taken” in 2 sessions; 1 of them got it to pass"]
    assert found[0].support == 2
    assert lessons("reme", first) == []
    assert list(lessons("reme", first, day("c", 3, cwd="/w/other").shell("make test", exit=1, text="error: port 1 is taken"))) == []


@pytest.mark.feature("mining.success-failure")
def test_of_commands_that_failed_alike_a_lesson_shows_what_they_have_in_common():
    runs = [
        day("a", 1).shell(
            "gh run view 28943 --job 858 --log-failed", exit=1, text="run 28943 is still in progress; logs will be available"
        ),
        day("b", 2).shell("gh run view 11111 --job 7 --log-failed", exit=1, text="run 11111 is still in progress; logs will be available"),
    ]
    (found,) = [m for m in lessons("reme", *runs) if m.kind == "failure_trigger"]
    assert found.text.startswith(
        "`gh run view … --job … --log-failed` failed with “run … is still in progress; logs will be available”"
        " in 2 sessions, as a job had not ended yet"
    )
    fields = [day("c", 3).shell("gh pr view 7 --json a", exit=1, text='Unknown JSON field: "a"')]
    fields.append(day("d", 4).shell("gh pr view 8 --json b", exit=1, text='Unknown JSON field: "b"'))
    texts = [m.text for m in lessons("reme", *fields) if m.kind == "failure_trigger"]
    assert not any("…" in text for text in texts), "which field it was tells the error"


@pytest.mark.feature("mining.success-failure")
def test_a_program_that_was_absent_in_one_session_and_ran_otherwise_in_others_is_a_tool_lesson():
    absent = day("a", 1).shell("pytest", exit=127, text="bash: pytest: command not found")
    works = [day(n, i + 2).shell("uv run pytest", text="3 passed") for i, n in enumerate("bc")]
    found = [m for m in lessons("reme", absent, *works) if m.kind == "tool_lesson"]
    assert [m.text for m in found] == ["`pytest` fails with “bash: pytest: command not found”; `uv run pytest` passed in 2 other sessions"]
    assert any(e.startswith("b.") for e in found[0].evidence)


@pytest.mark.feature("mining.success-failure")
def test_what_the_person_refused_with_a_rule_is_a_risk_rule_and_a_mere_no_is_not():
    def refused(said, command="npm install"):
        return day("a", 1).shell(command, refused=said)

    (found,) = lessons("reme", refused("don't install globally, use pnpm"))
    assert (found.kind, found.text) == (
        "risk_rule",
        "the person refused `npm install`: “don't install globally, use pnpm”; run `pnpm install` instead",
    )
    assert (found.body["steps"], found.body["line"]) == (["run `pnpm install`"], "- Run `pnpm install`, not `npm install`.")
    for said, command, text in (
        ("use `make setup` please", "npm install", "the person refused `npm install`: “use `make setup` please”; run `make setup` instead"),
        ("use uv", "pip install yaml", "the person refused `pip install yaml`: “use uv”"),
        ("always use a branch", "git push", "the person refused `git push`: “always use a branch”"),
    ):
        assert [m.text for m in lessons("reme", refused(said, command))] == [text]
    for said in ("i'll take it from here", "what does this do?", "no", "use " + "long " * 50):
        assert lessons("reme", refused(said)) == []


@pytest.mark.feature("hooks.before-command")
@pytest.mark.parametrize(
    ("words", "every"),
    [
        ("use pnpm for this one, not npm", False),
        ("use pnpm just this once, not npm", False),
        ("use pnpm, not npm, but only now", False),
        ("not npm this time, use pnpm", False),
        ("use pnpm for now, not npm", False),
        ("use pnpm, not npm", True),
        ("use pnpm for this project, not npm", True),
        ("from now on use pnpm, not npm", True),
        ("we use pnpm here, not npm", True),
        ("use pnpm instead of npm, there is a lockfile here", True),
        ("use pnpm instead of npm for this monorepo", True),
        ("Use pnpm, not npm. I need to go now", True),
        ("always use pnpm, never npm, for that reason we have a lockfile", True),
        ("use pnpm, not npm. Same for that folder", True),
    ],
)
def test_a_refusal_for_this_time_holds_for_the_call_that_was_refused(words, every):
    (lesson,) = [m for m in lessons("reme", day("a", 1).shell("npm test", refused=words)) if m.kind == "risk_rule"]
    assert before_command("npm test", [lesson]) == [lesson]
    assert before_command("npm ci", [lesson]) == ([lesson] if every else [])


def changed(name, number, ask, *files, check="make test"):
    return day(name, number).prompt(ask).edit(*(f"/w/app/{f}" for f in files)).shell(check, text="ok")


@pytest.mark.feature("mining.skills", "mining.turn-boundaries")
def test_a_file_that_two_sessions_changed_and_checked_becomes_a_skill_with_its_companions():
    (found,) = lessons(
        "skill_pro",
        changed("a", 1, "add a flag that skips hidden files please", "export.py", "docs.md"),
        changed("b", 2, "make the export keep empty folders as well", "export.py", "docs.md"),
        changed("c", 3, "rename the loader to something that fits better", "loader.py"),
    )
    assert found.kind == "skill"
    assert found.text == ("`export.py` was changed in 2 sessions, together with `docs.md` (2), and checked with `make test` (2)")
    body = json.loads(found.structured)
    assert body["steps"] == ["change `export.py`", "see whether `docs.md` changes with it", "run `make test`"]
    assert body["termination"] == "`make test` passes"
    assert body["verification"] == ["`make test`"]
    assert len(body["activation"]) == 2


@pytest.mark.feature("mining.turn-boundaries")
def test_a_file_alone_is_a_skill_only_with_a_check_of_its_own():
    asks = ("add a flag that skips hidden files please", "make the export keep empty folders as well")
    own = "pytest tests/test_export.py"
    (found,) = lessons("skill_pro", *(changed(n, i, a, "export.py", check=own) for i, (n, a) in enumerate(zip("ab", asks, strict=True))))
    assert found.text == f"`export.py` was changed in 2 sessions, and checked with `{own}` (2)"
    assert json.loads(found.structured)["steps"] == ["change `export.py`", f"run `{own}`"]
    whole = [changed(n, i, asks[i % 2], "export.py", check="make lint") for i, n in enumerate("abcd")]
    assert lessons("skill_pro", *whole) == []


@pytest.mark.feature("mining.turn-boundaries")
def test_a_turn_that_failed_at_the_end_or_was_corrected_supports_no_skill():
    good = changed("a", 1, "add a flag that skips hidden files please", "export.py", "docs.md")
    for bad in (
        changed("b", 2, "make the export keep empty folders as well", "export.py", "docs.md").prompt("no, that's wrong, revert it"),
        day("b", 2)
        .prompt("make the export keep empty folders as well")
        .edit("/w/app/export.py", "/w/app/docs.md")
        .shell("make test", exit=1, text="error: x"),
        day("b", 2)
        .prompt("make the export keep empty folders as well")
        .shell("make test", text="ok")
        .edit("/w/app/export.py", "/w/app/docs.md"),
    ):
        assert lessons("skill_pro", good, bad) == []
    assert len(lessons("skill_pro", good, changed("b", 2, "make the export keep empty folders", "export.py", "docs.md"))) == 1


def exported(name="a", number=1, *, first="Now I'll add the hidden flag to the exporter:", second="Next, pass the flag on to `cli.py`."):
    return (
        day(name, number)
        .prompt("add a flag to the export command that skips hidden files")
        .shell("uv sync", text="ok")
        .answer(first)
        .edit("/w/app/export.py")
        .shell("make test", exit=1, text="E   KeyError: 'hidden'")
        .edit("/w/app/export.py")
        .shell("make test", text="ok")
        .prompt("and offer the flag on the command line too please")
        .answer(second)
        .edit("/w/app/cli.py")
    )


@pytest.mark.feature("mining.procedures")
def test_a_session_is_a_procedure_with_goal_preconditions_steps_that_say_what_for_warnings_and_a_check():
    session = exported().shell("make test", text="ok").shell('git commit -m "flag"', text="[main 1a2b3c] flag")
    (found,) = lessons("memp_procedural", session)
    body = json.loads(found.structured)
    assert body["goal"] == "add a flag to the export command that skips hidden files"
    assert body["preconditions"] == ["`uv sync` has run", "`export.py`, `cli.py` are there"]
    assert body["steps"] == [
        "run `uv sync`",
        "edit `export.py`: add the hidden flag to the exporter",
        "run `make test`",
        "edit `cli.py`: pass the flag on to cli.py",
    ]
    assert body["warnings"] == ["`make test`: KeyError: 'hidden'"]
    assert (body["outcome"], body["verification"]) == ("`make test` passed", ["`make test`"])
    assert found.text.startswith("“add a flag to the export command that skips hidden files”")
    assert "add the hidden flag to the exporter (`export.py`); pass the flag on to cli.py (`cli.py`); `make test` passed" in found.text
    assert (found.confidence, found.risk) == (0.6, "low")


@pytest.mark.feature("mining.procedures", "mining.text-in-project-terms")
@pytest.mark.parametrize(
    "session",
    [
        exported(second="Now the other file.").shell("make test", text="ok"),
        exported(second="Let me fix that too.").shell("make test", text="ok"),
        exported(first="", second="").shell("make test", text="ok"),
        exported().shell('git commit -m "flag"', text="[main 1a2b3c] flag"),
    ],
    ids=["one step says nothing", "it points", "a list of files", "no check at the end"],
)
def test_a_course_that_does_not_tell_how_stays_an_observation(session):
    assert len(draw(discovery.methods()["memp_procedural"], session.build())[0]) == 1
    assert lessons("memp_procedural", session) == []


@pytest.mark.feature("mining.procedures")
def test_an_unfinished_session_is_no_course_and_two_that_did_alike_are_told_apart():
    assert draw(discovery.methods()["memp_procedural"], exported().build())[0] == []
    other = exported("b", 2, first="Now I'll add the hidden flag to the importer:").shell("make test", text="ok")
    found = lessons("memp_procedural", exported().shell("make test", text="ok"), other)
    assert [m.support for m in found] in ([1, 1], [2])


@pytest.mark.feature("mining.convention-words")
@pytest.mark.parametrize(
    ("question", "answered"),
    [
        ("which linter do we use", True),
        ("how do I run the linter", True),
        ("which formatter do we use", True),
        ("how do I run the tests", True),
        ("which type checker runs here", False),
        ("how do I build this", False),
        ("how do we rotate the signing certificates", False),
    ],
)
def test_a_question_in_everyday_words_finds_the_convention_and_only_what_it_tells(tmp_path, question, answered):
    ran = [
        day(n, i).shell("mise run fmt", text="ok").shell("mise run lint", text="ok").shell("mise run test", text="ok")
        for i, n in enumerate("ab")
    ]
    (found,) = lessons("project_conventions", *ran)
    index = MemoryIndex(tmp_path / "memory.db")
    index.rebuild([found])
    hits = rank(index.recall(words_of(question), allowed=lambda *_: True), everywhere=True, now=START)
    index.close()
    assert [s.memory.memory_id for s in hits] == ([found.memory_id] if answered else [])


@pytest.mark.feature("mining.success-failure")
def test_of_a_chain_the_command_that_failed_is_told():
    line = "git add src/a.rs && git status && cd crates/vfox && cargo test registry --lib"
    error = "error: unexpected argument '--lib' found"
    rows = [
        day(n, i)
        .shell(line, exit=101, text=error)
        .shell("cd crates/vfox && cargo test registry", text="test result: ok. 3 passed; 0 failed")
        for i, n in enumerate("ab")
    ]
    (found,) = lessons("reme", *rows)
    assert found.text.startswith("`cd crates/vfox && cargo test registry --lib` fails with")


@pytest.mark.feature("mining.success-failure")
def test_a_program_that_two_sessions_lacked_is_told_with_what_worked_instead_whatever_it_is_for():
    def lacking(name, number, instead):
        lacks = day(name, number).shell("cargo deny check", exit=101, text="error: no such command: `deny`")
        return lacks.shell(f"mise x {instead} -- cargo deny check", text="advisories ok")

    (found,) = lessons("reme", lacking("a", 1, "cargo:cargo-deny"), lacking("b", 2, "aqua:cargo-deny"))
    assert found.text == (
        "`cargo deny` is missing here (“error: no such command: `deny`” in 2 sessions): "
        "run `mise x aqua:cargo-deny -- cargo deny check`; `mise x cargo:cargo-deny -- cargo deny check` worked too"
    )
    assert found.when_to_use == "`cargo deny` is about to run, or fails with “error: no such command: `deny`”"
    rows = [lacking("a", 1, "cargo:cargo-deny"), lacking("b", 2, "cargo:cargo-deny"), lacking("c", 3, "aqua:cargo-deny")]
    assert json.loads(lessons("reme", *rows)[0].structured)["steps"] == ["run `mise x cargo:cargo-deny -- cargo deny check`"]
    assert set(found.evidence) >= {"a.e0", "a.e1", "a.e2", "a.e3", "b.e3"}
    other = [
        day(n, i).shell("cargo fetch -q", exit=1, text="error: a licence is denied").shell("cargo fetch -q") for i, n in enumerate("cd")
    ]
    assert lessons("reme", *other) == []


@pytest.mark.feature("mining.conventions")
def test_every_check_of_a_line_that_passed_counts():
    sessions = [day(n, i).shell("make fmt && make lint && make test", text="ok") for i, n in enumerate("ab", 1)]
    (found,) = lessons("project_conventions", *sessions)
    assert found.text == ("run the tests with `make test`; lint with `make lint`; format with `make fmt`")
    seldom = [*sessions, day("c", 3).shell("make lint", text="ok")]
    assert "lint with `make lint`; format with `make fmt`" in lessons("project_conventions", *seldom)[0].text
    either = [day(n, i).shell("make lint || make test", text="ok") for i, n in enumerate("ab", 1)]
    assert not any("make test" in m.text for m in lessons("project_conventions", *either))
