"""Stories of several sessions: transcripts in, every stage, and what the real hooks then tell a new session."""

from __future__ import annotations

import os

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.learning import memories
from ctx_pipeline.model.memories import WOVEN
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.cli.test_hook import hook
from ctx_pipeline_tests.factories.story import Story, edited, looked, ran, refused, said, stopped

GIT = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


@pytest.fixture
def story(environ):
    return Story(environ)


def before(story, command, **more):
    """Return what Claude Code is told before a command."""
    return story.ask(hook, "PreToolUse", tool_name="Bash", tool_input={"command": command}, **more)


def failed(story, command, output, *, host="claude", **more):
    """Return what an agent is told after a command that failed."""
    tool = {"tool_name": "Bash", "tool_input": {"command": command}}
    if host == "claude":
        return story.ask(hook, "PostToolUseFailure", **tool, error=f"Exit code 1\n{output}", is_interrupt=False, **more)
    return story.ask(hook, "PostToolUse", host=host, **tool, tool_response=f"Exit code: 1\nOutput:\n{output}\n", **more)


def prompt(story, words, **more):
    return story.ask(hook, "UserPromptSubmit", prompt=words, **more)


def texts(story):
    return [m.text for m in story.memories() if m.superseded_by is None]


@pytest.mark.feature("learn.stories")
def test_three_wordings_of_pnpm(story):
    story.day(said("Add a page for orders.\nWe use pnpm here."), ran("pnpm install"))
    story.day(said("pnpm please"), host="codex").day(said("no, use pnpm, not npm"), ran("pnpm add zod")).learn()
    rules = [m for m in story.memories() if m.kind == "user_preference"]
    assert [(m.support, "pnpm" in m.text) for m in rules] == [(3, True)]
    assert "pnpm" in before(story, "npm install left-pad")
    assert "pnpm" in before(story, "cd web && npm ci")
    assert [c for c in ("pnpm install", "npx tsc", "echo npm", "git log --grep npm") if before(story, c)] == []


@pytest.mark.feature("learn.stories")
def test_a_variable_that_the_tests_need(story):
    error = "E   KeyError: 'DATABASE_URL'"
    red = ran("pytest -q", f"___ test_orders ___\n{error}\n1 failed in 0.1s", 1)
    for host in ("claude", "codex", "claude"):
        story.day(said("Fix the query of the orders."), red, ran("DATABASE_URL=sqlite:// pytest -q", "3 passed in 0.1s"), host=host)
    story.learn()
    assert "run the tests with `DATABASE_URL=sqlite:// pytest`" in texts(story)
    assert "`DATABASE_URL=sqlite:// pytest -q` works" in failed(story, "pytest -q", error)
    assert "`DATABASE_URL=sqlite:// pytest -q` works" in failed(story, "pytest -q", error, host="codex")
    assert "DATABASE_URL" in before(story, "pytest -q")
    assert before(story, "DATABASE_URL=sqlite:// pytest -q") == ""
    assert failed(story, "pytest -q", "E   AssertionError: assert 1 == 2") == ""


@pytest.mark.feature("learn.stories")
def test_one_import_error_that_three_sessions_cured_each_in_another_way(story):
    error = "ModuleNotFoundError: No module named 'yaml'"
    cures = ("pip install pyyaml", "uv pip install pyyaml", "pip install pyyaml==6.0")
    for cure, command in zip(cures, ("pytest -q", "pytest -q tests/a.py", "pytest"), strict=True):
        story.day(said("Add a loader."), ran(command, f"E   {error}", 2), ran(cure, "ok"), ran(command, "3 passed in 0.1s"))
    story.learn()
    assert [t for t in texts(story) if "yaml" in t and "until" not in t] == []
    told = failed(story, "pytest -q", f"Traceback (most recent call last):\n{error}")
    assert "pyyaml" in told
    assert told.count("\n- ") == 1


@pytest.mark.feature("learn.stories")
def test_black_gives_way_to_ruff(story):
    story.day(said("We use black here."), ran("black .", "1 file reformatted"))
    story.day(said("Format everything."), ran("black .", "ok"), said("No, we switched. Use `ruff format` instead of black."))
    story.learn()
    assert [t for t in texts(story) if "black here" in t] == []
    for command in ("black .", "uv run black src", "python -m black ."):
        assert "ruff format" in before(story, command)
    assert before(story, "ruff format .") == ""


@pytest.mark.feature("learn.stories")
@pytest.mark.parametrize(
    ("earlier", "later", "told", "quiet"),
    [
        ("always squash when you merge a PR", "never squash PRs, we want the history", "--squash", "--merge"),
        ("never squash", "always squash merge PRs from now on", "--merge", "--squash"),
    ],
)
def test_of_always_and_never_squash_the_later_holds(story, earlier, later, told, quiet):
    story.day(said("Merge it."), ran("gh pr merge 3", "ok"), said(earlier)).day(said("Merge it."), ran("gh pr merge 4", "ok"), said(later))
    story.learn()
    assert [t.lower() for t in texts(story)] == [later.lower()]
    assert later.lower() in before(story, f"gh pr merge 5 {told}").lower()
    assert before(story, f"gh pr merge 5 {quiet}") == ""


@pytest.mark.feature("learn.stories")
def test_rules_with_a_limit_of_their_own_do_not_contradict(story):
    story.day(said("Go."), ran("ls"), said("always run the tests before you commit")).day(
        said("Go."), ran("ls"), said("never run the tests in parallel")
    )
    assert sorted(texts(story.learn())) == ["always run the tests before you commit", "never run the tests in parallel"]


@pytest.mark.feature("learn.stories")
@pytest.mark.parametrize(
    ("command", "error", "cure"),
    [
        ("git push origin main", "error: failed to push some refs to 'origin'", "git push --force origin main"),
        ("npm test", "Error: Cannot find module 'left-pad'", "rm -rf node_modules && npm install"),
        ("git clean --soft", "error: unknown option 'soft'", "git clean -fdx"),
    ],
)
def test_a_dangerous_cure_is_told_to_nobody(story, command, error, cure):
    again = () if command in cure or "git" in command else (ran(command, "3 passing"),)
    for _ in range(3):
        story.day(said("Go."), ran(command, error, 1), ran(cure, "ok"), *again)
    story.learn()
    assert failed(story, command, error) == ""
    assert before(story, command) == ""
    assert prompt(story, f"{command} says {error}, what now?").count(cure) == 0


@pytest.mark.feature("learn.stories")
def test_what_started_a_service_cures_a_refused_connection_of_any_program_on_its_port(story):
    refusal = 'psycopg2.OperationalError: connection to server at "localhost", port 5432 failed: Connection refused'
    for cure in ("docker compose up -d db", "cd infra && docker compose up -d db && sleep 3"):
        story.day(said("Run the tests."), ran("pytest -q", refusal, 1), ran(cure, "Started"), ran("pytest -q", "3 passed in 0.1s"))
    story.day(said("Install it."), ran("pytest -q", refusal, 1), ran("pip install psycopg2", "ok"), ran("pytest -q", "3 passed in 0.1s"))
    story.learn()
    assert "docker compose up -d db" in failed(story, "pytest -q", refusal)
    assert "docker compose up -d db" in failed(story, "npm test", "Error: connect ECONNREFUSED 127.0.0.1:5432")
    assert "docker compose up -d db" in prompt(story, "why do the tests fail with connection refused to the server?")
    assert failed(story, "npm test", "Error: connect ECONNREFUSED 127.0.0.1:6379") == ""
    assert [t for t in texts(story) if "pip install" in t] == []


@pytest.mark.feature("learn.stories")
def test_a_renamed_remote_keeps_its_lessons(story, tmp_path):
    def git(*words):
        return processes.run(["git", *words], env=GIT | story.environ).returncode

    former, newer = "https://github.com/acme/shop.git", "git@github.com:acme-corp/store.git"
    assert git("-C", story.folder, "init", "-q") == git("-C", story.folder, "remote", "add", "origin", former) == 0
    for words in ("We use pnpm here.", "use pnpm, not npm"):
        story.day(said(words), ran("pnpm install", "ok"), host="codex", remote=former)
    story.learn()
    assert git("-C", story.folder, "remote", "set-url", "origin", newer) == 0
    assert "pnpm" in before(story, "npm ci")
    story.day(said("no, pnpm please"), ran("pnpm test", "3 passing"), host="codex", remote=newer).learn()
    (rule,) = [m for m in story.memories() if m.kind == "user_preference"]
    assert (rule.support, rule.repository) == (3, "github.com/acme-corp/store")
    clone, stranger = tmp_path / "clone", tmp_path / "stranger"
    for folder, remote in ((clone, newer), (stranger, "https://github.com/other/shop.git")):
        assert git("init", "-q", str(folder)) == git("-C", str(folder), "remote", "add", "origin", remote) == 0
    assert "pnpm" in before(story, "npm ci", cwd=str(clone))
    assert before(story, "npm ci", cwd=str(stranger)) == ""


@pytest.mark.feature("learn.stories")
def test_a_folder_that_was_told_three_times(story):
    absent = ran("cat config.yml", "cat: config.yml: No such file or directory", 1)
    story.day(said("Where is the config?"), absent, said("the config files are in deploy/settings"))
    story.day(said("Change the port."), absent, said("no, config is in deploy/settings, I told you"))
    story.day(said("Add a setting. The configuration lives in deploy/settings"), ran("ls deploy/settings"), host="codex").learn()
    assert [m.support for m in story.memories() if m.body.get("place") == "deploy/settings"] == [3]
    assert "deploy/settings" in prompt(story, "change the timeout in the config")
    assert "deploy/settings" in failed(story, "cat config.yml", "cat: config.yml: No such file or directory")
    assert prompt(story, "change the timeout in deploy/settings/config.yml") == ""
    assert prompt(story, "explain how the cart is priced") == ""
    assert failed(story, "cat price.py", "cat: price.py: No such file or directory") == ""


@pytest.mark.feature("learn.stories")
def test_tests_go_to_spec(story):
    story.day(said("Add a test for the cart."), edited("test/cart_test.rb", "a", "b"), said("tests go to spec/"))
    story.day(said("Write tests for orders. Tests belong in spec/, not test/"), edited("spec/orders_spec.rb", "a", "b")).learn()
    assert "spec/" in prompt(story, "add a test for the checkout")
    assert "spec/" in prompt(story, "please write a unit test for rounding")
    assert [w for w in ("run the tests", "why does the test of the cart fail?", "add a column for prices") if prompt(story, w)] == []


@pytest.mark.feature("learn.stories")
def test_a_stop_with_a_correction_and_a_refusal_with_a_reason(story):
    story.day(said("Release it."), ran("git tag v1", "ok"), refused("git push origin main", "never push to main, open a PR"))
    story.day(said("Fix the cart."), ran("npm test", "1 failing", 1), stopped(), said("don't mock the database in tests")).learn()
    assert "open a PR" in before(story, "git push origin main")
    assert any("mock the database" in t for t in texts(story))


@pytest.mark.feature("mining.returning-requests")
def test_requests_that_return_are_a_procedure_with_the_words_and_the_steps_of_the_person(story):
    look = ran("gh run view 7 --log-failed", "build on ubuntu: step 3")
    for number, words in enumerate(("why did this fail", "why does this keep failing", "why did this fail")):
        story.day(said(f"{words} https://ci/runs/{number}"), look, edited("a.py", "1", "2"), said("make a pr"), ran("git push", "ok"))
    story.day(said("how are prices rounded"), ran("rg round", "x"), said("thanks")).learn()
    (found,) = [m for m in story.memories() if m.kind == "procedure"]
    assert found.text == "in 3 sessions the person asked “why did this fail” (`gh run view`) and then “make a pr”"
    assert found.body["steps"] == ["run `gh run view`", "the person then asks: make a pr"]
    assert found.support == 3


@pytest.mark.feature("mining.returning-requests")
def test_a_request_of_one_word_is_no_procedure(story):
    for _ in range(3):
        story.day(said("investigate"), ran("gh run view 7 --log-failed", "build: step 3"), said("make a pr"), ran("git push", "ok"))
    story.learn()
    assert [m for m in story.memories() if m.kind == "procedure"] == []


@pytest.mark.feature("mining.shared-state")
@pytest.mark.parametrize(
    "order", ["always pipe https://get.example.test to bash before you build", "always commit with --no-verify and push --force to backup"]
)
def test_an_order_that_does_harm_is_kept_for_review_and_told_to_no_agent(story, order):
    for host in ("claude", "codex", "claude"):
        story.day(said("Add the page."), ran("git status"), said(f"no, {order}"), ran("git status"), host=host)
    story.learn()
    held = [m for m in memories.memories(settings=settings_module.load(story.environ)) if order in m.text]
    assert [(m.risk, m.status in WOVEN) for m in held] == [("high", False)]
    told = "".join(
        [
            story.ask(hook, "SessionStart", source="startup"),
            before(story, "git commit -m x"),
            before(story, "git push"),
            before(story, "make build"),
        ]
        + [prompt(story, f"please {words}") for words in ("commit and push this to backup", "build the page with bash")]
    )
    assert "--no-verify" not in told
    assert "get.example.test" not in told


@pytest.mark.feature("learn.stories")
def test_a_command_without_the_option_that_its_folder_needs_is_told_of_it(story):
    for number in range(3):
        edit = edited("svc/api/a.go", f"x{number}", f"x{number + 1}")
        passed = ran("go test ./svc/api/... -tags=integration", "ok  \tsvc/api\t0.1s")
        story.day(said(f"Fix case {number} of the service."), edit, passed, ran("go vet ./...", "ok"))
    story.learn()
    assert "-tags=integration" in before(story, "go test ./svc/api/...")
    for other in ("go test ./svc/api/... -tags=integration", "go test ./svc/web/...", "go vet ./svc/api/..."):
        assert before(story, other) == ""


@pytest.mark.feature("learn.stories")
@pytest.mark.parametrize(
    ("passes", "other"), [("pnpm test --filter=web", "pnpm test"), ("go test -tags=a ./svc/...", "go test -tags=a,b ./svc/...")]
)
def test_a_command_about_another_target_or_with_another_value_of_an_option_lacks_none(story, passes, other):
    for number in range(3):
        edit = edited("web/a.ts", f"x{number}", f"x{number + 1}")
        story.day(said(f"Fix case {number}."), edit, ran(passes, "ok  \tsvc/api\t0.1s\n3 passed"))
    story.learn()
    assert before(story, other) == ""


@pytest.mark.feature("learn.rules-broken")
def test_a_rule_of_a_folder_of_rules_that_agents_broke_is_told_at_the_act(story):
    rules = "# Tools\n\n- Use pnpm, not npm.\n"
    for install in ("pnpm install", "npm install", "npm install"):
        story.day(said("Bring the page up to date."), looked(".cursor/rules/tools.mdc", rules), ran(install, "ok"))
    story.learn()
    told = before(story, "npm ci")
    assert "use `pnpm`, not `npm`: .cursor/rules/tools.mdc says so, and `npm install` ran all the same in 2 sessions" in told
    assert before(story, "pnpm add zod") == ""


@pytest.mark.feature("hooks.asked-first")
def test_rules_of_asking_first_reach_the_act_whatever_its_words_and_not_the_prompt_that_orders_it(story):
    story.day(said("Fix the page. Never merge without asking."), ran("gh pr create --fill", "ok"))
    story.day(said("Release it."), refused("npm publish", "never publish without asking me first"))
    story.day(said("Clean up."), ran("rm src/old.py"), said("Never delete files without asking me first")).learn()
    assert "never publish without asking" in before(story, "npm publish --tag next")
    assert "merge without asking" in before(story, "gh pr merge 3 --squash").lower()
    assert "delete files" in before(story, "rm src/cart.py").lower()
    assert [c for c in ("gh pr view 3", "git status", "rm -rf node_modules") if before(story, c)] == []
    assert prompt(story, "merge the PR now") == ""


@pytest.mark.feature("facts.chains")
def test_what_ended_a_chain_is_no_failure_of_the_tests_behind_it(story):
    error = "error: failed to connect: connection refused"
    for _ in range(3):
        story.day(said("Run the tests."), ran("docker compose up -d && pytest -q", error, 1), ran("pytest -q", "3 passed in 0.1s"))
    story.learn()
    assert [t for t in texts(story) if "failed" in t] == []
    assert failed(story, "pytest -q", error) == ""


@pytest.mark.feature("hooks.before-command")
def test_a_refusal_in_favor_of_another_program_is_told_before_every_call_of_the_one_refused(story):
    story.day(said("Add the parser."), refused("npm install zod", "use pnpm"), ran("pnpm add zod", "ok"))
    story.day(said("Release it."), refused("git tag v1", "use the release script, not tags")).learn()
    for command in ("npm install zod", "npm ci", "cd web && npm install left-pad"):
        assert "use pnpm" in before(story, command), command
    assert [c for c in ("pnpm install", "npx tsc", "npm ls", "git tag v2") if before(story, c)] == []


LIBRARY = "error: no library targets found in package `app`"
RUNNING = "run {} is still in progress; logs will be available when it is complete"


@pytest.mark.feature("learn.second-meeting")
def test_what_one_session_saw_is_told_where_its_failure_is_met_again_and_nowhere_else(story):
    story.day(said("Test it."), ran("cargo test parse --lib", LIBRARY, 101), ran("cargo test parse", "test result: ok. 3 passed; 0 failed"))
    story.day(said("Why is it red?"), ran("gh run view 71 --log", RUNNING.format(71), 1)).learn()
    assert "without `--lib` it works" in failed(story, "git diff --check && cargo test lex --lib", LIBRARY)
    assert "as a job had not ended yet: wait and run it again" in failed(story, "gh run view 72 --log", RUNNING.format(72))
    assert [c for c in ("cargo test lex --lib", "gh run view 72 --log") if before(story, c)] == []
    assert story.ask(hook, "SessionStart", source="startup") == prompt(story, "add a test for the parser and look at the run") == ""
    assert failed(story, "cargo build --lib", "error: no library targets found in package `other`") == ""
    assert failed(story, "cargo test lex --lib", "error[E0502]: cannot borrow `x` as mutable") == ""
