"""Stories of several sessions, told through the real hook before a command and after one that failed."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.memory.injection_policy import MEASURED
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.cli.test_hook import SESSION, SHOP, hook, logged, note
from ctx_pipeline_tests.factories.views import SECOND, START, view

METHODS = ("error_resolutions", "reme", "repeated_corrections", "project_conventions")


def day(name, number, **place):
    return view(name, start=START + number * 86_400 * SECOND, cwd=SHOP, **place)


@pytest.fixture
def learned(environ):
    """Return what mines sessions and indexes what they taught, as a run does."""

    def learn(*sessions):
        found = []
        for name in METHODS:
            method = discovery.methods()[name]
            drawn = [c for s in sessions for c in draw(method, s.build())[0]]
            found += method.combine(drawn) if method.combine else drawn
        memories = consolidate(found)
        MemoryIndex(Path(environ["CTX_HOME"]) / "memory.db").rebuild(memories)
        return memories

    return learn


def before(environ, command, **more):
    """Return what Claude Code is told before a command."""
    payload = {"session_id": SESSION, "cwd": SHOP, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
    printed = hook(environ, payload | more)
    return note(printed, "PreToolUse") if printed else ""


def failed(environ, command, output, host="claude", **more):
    """Return what an agent is told after a command that failed."""
    payload = {"session_id": SESSION, "cwd": SHOP, "tool_name": "Bash", "tool_input": {"command": command}} | more
    if host == "claude":
        event, payload = "PostToolUseFailure", payload | {"error": f"Exit code 1\n{output}", "is_interrupt": False}
    else:
        event, payload = "PostToolUse", payload | {"tool_response": f"Exit code: 1\nOutput:\n{output}\n"}
    printed = hook(environ, payload | {"hook_event_name": event}, host=host)
    return note(printed, event) if printed else ""


@pytest.mark.feature("hooks.before-command")
def test_three_wordings_of_pnpm_are_told_before_npm_and_not_before_pnpm(environ, learned):
    said = ["we use pnpm here", "pnpm please", "use pnpm, not npm"]
    learned(*(day(name, n).prompt(f"Add a page.\n{words}") for n, (name, words) in enumerate(zip("abc", said, strict=True))))
    assert "use pnpm, not npm" in before(environ, "npm install left-pad")
    for number, quiet in enumerate(["pnpm install", "npx tsc", "git commit -m 'npm is gone'", "cat npm.txt", "ls"]):
        assert before(environ, quiet, session_id=f"other-{number}") == ""


@pytest.mark.feature("hooks.before-change")
def test_a_rule_of_a_file_is_told_before_an_edit_of_it_and_not_before_it_is_read_or_another_is_written(environ, learned):
    learned(*(day(name, n).prompt(f"Add a page.\n{words}") for n, (name, words) in enumerate((("a", "never edit files in gen/"),) * 2)))

    def changing(name, path, **more):
        given = {"session_id": name, "tool_name": "Edit", "tool_input": {"file_path": path} | more}
        return before(environ, "", **given)

    new = {"old_string": "a", "new_string": "b"}
    assert "never edit files in gen/" in changing("one", f"{SHOP}/gen/api.ts", **new)
    assert changing("one", f"{SHOP}/gen/other.ts", **new) == ""
    assert "never edit files in gen/" in changing("two", f"{SHOP}/gen/new.ts", content="x")
    assert changing("three", f"{SHOP}/gen/api.ts") == ""
    assert changing("four", f"{SHOP}/src/api.ts", **new) == ""
    assert changing("five", "/elsewhere/gen/api.ts", **new) == ""


@pytest.mark.feature("hooks.rule-of-folder")
def test_a_rule_of_a_folder_holds_at_any_depth_and_for_a_worktree_from_its_own_root(environ, learned, tmp_path):
    repository, tree = tmp_path / "app", tmp_path / "app/.claude/worktrees/feat"
    (repository / ".git/worktrees/feat").mkdir(parents=True)
    (repository / ".git/worktrees/feat/commondir").write_text("../..\n", "utf-8")
    (repository / "gen").mkdir()
    tree.mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {repository}/.git/worktrees/feat\n", "utf-8")
    place = {"start": START, "cwd": str(repository)}
    for number, folder in enumerate(("gen", ".claude")):
        place["start"] = START + number * 86_400 * SECOND
        learned(*(view(f"{folder}{n}", **place).prompt(f"Add a page.\nnever edit files in {folder}/") for n in "ab"))

        def edited(name, path, cwd=repository, folder=folder):
            given = {"session_id": f"{folder}-{name}", "cwd": str(cwd), "tool_name": "Edit"}
            return before(environ, "", **given, tool_input={"file_path": str(path), "new_string": "b"})

        def run(name, command, cwd=repository, folder=folder):
            return before(environ, command, session_id=f"{folder}-{name}", cwd=str(cwd))

        rule = f"never edit files in {folder}/"
        assert rule in edited("near", repository / folder / "a.ts")
        assert rule in edited("deep", repository / folder / "one/two/three/four/five/a.ts")
        assert rule in edited("middle", repository / "one/two/three" / folder / "four/five/six/a.ts")
        assert rule in run("deep-command", f"echo x > {folder}/one/two/three/four/five/a.ts")
        assert rule in run("inside", "echo x > a.ts", cwd=repository / folder)
        assert edited("beside", f"{repository}/{folder}/../src/a.ts") == run("out", "echo x > ../a.ts", cwd=repository / folder) == ""
        assert edited("tree", tree / "src/a.ts", cwd=tree) == run("tree-command", "echo x > src/a.ts", cwd=tree) == ""
        assert rule in edited("of-tree", tree / folder / "a.ts", cwd=tree)


@pytest.mark.feature("hooks.before-command", "hooks.payloads")
def test_codex_is_told_before_a_command_in_the_form_that_its_schema_allows(environ, learned):
    """Fields as Codex's own schemas of hooks name them; its output takes no other key than those that ``note`` looks for."""
    learned(day("a", 1).prompt("pnpm please"))
    payload = {
        "session_id": SESSION,
        "turn_id": "7",
        "transcript_path": None,
        "cwd": SHOP,
        "hook_event_name": "PreToolUse",
        "model": "gpt-5.2-codex",
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_use_id": "call_1",
        "tool_input": {"command": "npm install"},
    }

    assert "pnpm" in note(hook(environ, payload, host="codex"), "PreToolUse")
    assert hook(environ, payload | {"tool_use_id": "call_2"}, host="codex") == ""
    stopped = {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": "Done."}
    assert hook(environ, payload | stopped, does="capture", host="codex") == ""


@pytest.mark.feature("hooks.before-command")
def test_once_is_enough_where_the_very_program_is_about_to_run_and_the_same_session_hears_it_once(environ, learned):
    learned(day("a", 1).prompt("pnpm please"))
    assert "pnpm" in before(environ, "cd web && npm install")
    assert before(environ, "npm install") == ""
    (fact,) = logged(environ)
    assert (fact["event"], fact["withheld"]) == ("PreToolUse", False)


@pytest.mark.feature("hooks.before-command")
def test_black_gives_way_to_ruff(environ, learned):
    learned(day("a", 1).prompt("we use black here"), day("b", 2).prompt("use ruff instead of black from now on"))
    assert "ruff instead of black" in before(environ, "black .")
    assert before(environ, "ruff format .", session_id="other") == ""


@pytest.mark.feature("hooks.before-command")
def test_a_push_to_main_is_told_the_rule_and_another_push_is_not(environ, learned):
    learned(day("a", 1).shell("git push origin main", text="ok").prompt("never push to main"))
    assert "never push to main" in before(environ, "git push origin main")
    assert before(environ, "git push origin fix-it", session_id="other") == ""


@pytest.mark.feature("hooks.before-command", "hooks.after-failure")
def test_the_variable_that_the_tests_need_is_told_before_the_call_that_failed_and_after_the_failure(environ, learned):
    error, works = "KeyError: 'DATABASE_URL'", "DATABASE_URL=sqlite:// pytest -q"
    learned(*(day(n, i).shell("pytest -q", exit=1, text=error).shell(works, text="3 passed") for i, n in enumerate("abc")))
    assert works in failed(environ, "pytest -q", f"collected 3 items\n{error}")
    assert failed(environ, "pytest -q", "E   AssertionError: assert 1 == 2", session_id="two") == ""
    assert before(environ, works, session_id="three") == ""


@pytest.mark.feature("hooks.after-failure")
@pytest.mark.parametrize("host", ["claude", "codex"])
def test_the_same_import_error_that_three_sessions_cured_finds_its_cure_in_either_agent(environ, learned, host):
    error = "ModuleNotFoundError: No module named 'yaml'"
    cured = [
        day(n, i).shell("pytest -q", exit=1, text=error).shell("pip install pyyaml", text="ok").shell("pytest -q", text="3 passed")
        for i, n in enumerate("abc")
    ]
    learned(*cured)
    assert "pip install pyyaml" in failed(environ, "pytest -q tests/", f"Traceback (most recent call last):\n{error}", host=host)
    assert failed(environ, "node a.js", "Error: no module", host=host, session_id="two") == ""


@pytest.mark.feature("hooks.after-failure")
def test_a_refused_connection_is_told_what_started_the_service(environ, learned):
    refused = "psycopg2.OperationalError: connection refused"
    session = day("a", 1).shell("pytest -q", exit=1, text=refused).shell("docker compose up -d db", text="Started")
    learned(session.shell("pytest -q", text="3 passed"))
    assert "docker compose up -d db" in failed(environ, "pytest -q", refused)


@pytest.mark.feature("hooks.after-failure")
def test_a_dangerous_cure_is_told_to_nobody(environ, learned):
    error = "error: unknown option '--soft-clean'"
    session = day("a", 1).shell("git clean --soft-clean", exit=1, text=error).shell("git clean -fdx", text="ok")
    learned(session)
    assert "git clean -fdx" not in failed(environ, "git clean --soft-clean", error)
    assert before(environ, "git clean --soft-clean", session_id="other") == ""


@pytest.mark.feature("hooks.before-command")
def test_the_option_turns_it_off_and_another_tool_or_a_strange_payload_is_silent(environ, learned):
    learned(day("a", 1).prompt("use pnpm, not npm"))
    payload = {"session_id": SESSION, "cwd": SHOP, "hook_event_name": "PreToolUse", "tool_name": "Bash"}
    assert hook(environ, payload | {"tool_input": {"command": "npm install"}}, "--no-commands") == ""
    for strange in ({"file_path": "npm"}, {"command": 5}, {"command": []}, "npm", None, {"command": "'" * 5_000}):
        assert hook(environ, payload | {"tool_input": strange}) == ""


@pytest.mark.feature("hooks.before-command", "hooks.after-failure")
def test_the_hook_is_silent_at_commands_that_nothing_is_known_of(environ, learned):
    learned(
        day("a", 1)
        .prompt("use pnpm, not npm")
        .shell("pytest -q", exit=1, text="bash: pytest: command not found")
        .shell("uv run pytest -q"),
        day("b", 2).prompt("tests go to spec/").shell("cargo test --lib", exit=1, text="error: no library targets found in package `app`"),
    )
    quiet = ["ls -la", "git status", "cargo build", "uv run pytest -q", "python -m http.server", "rg pnpm", "echo npm", "cat package.json"]
    assert [c for n, c in enumerate(quiet) if before(environ, c, session_id=f"q{n}")] == []
    errors = ["E   AssertionError: assert 1 == 2", "error: linker `cc` not found", "npm error ERESOLVE unable to resolve", ""]
    assert [e for n, e in enumerate(errors) if failed(environ, "pytest -q", e, session_id=f"e{n}")] == []
    assert json.dumps(logged(environ)) == "[]"


@pytest.mark.feature("backtest.told-by-default")
def test_a_kind_of_lesson_that_did_no_better_than_a_search_is_told_only_once_accepted(environ, learned):
    sessions = [day(n, i).prompt("use pnpm, not npm") for i, n in enumerate("ab")]
    (rule,) = learned(*sessions)
    kinds = {"rule": {"told": 12, "right": 2, "plain": 5, "newest": 1}}
    with closing(Journal(Path(environ["CTX_HOME"]) / "journal.db")) as journal:
        journal.append(MEASURED, {"moments": {"before a command": {"kinds": kinds}}}, actor="test")
    assert before(environ, "npm install") == ""
    MemoryIndex(Path(environ["CTX_HOME"]) / "memory.db").rebuild([rule._replace(status="accepted")])
    assert "pnpm" in before(environ, "npm install")


@pytest.mark.feature("backtest.told-by-default")
def test_few_tellings_of_a_backtest_silence_neither_a_rule_before_its_command_nor_a_cure_after_its_failure(environ, learned):
    error = "ModuleNotFoundError: No module named 'yaml'"
    said = ("use pnpm", "please use pnpm", "we use pnpm here")
    sessions = [
        day(n, i)
        .prompt(words)
        .shell("pytest -q", exit=1, text=error)
        .shell("pip install pyyaml", text="ok")
        .shell("pytest -q", text="3 passed")
        for i, (n, words) in enumerate(zip("abc", said, strict=True))
    ]
    learned(*sessions)
    wrong = {"told": 9, "right": 0, "plain": 3, "newest": 0}
    tie = {"against_search": {"value": -0.1, "low": -0.3, "high": 0.1}, "answerable": 9}
    rows = {"before a command": {"kinds": {"rule": wrong}}, "after a failure": {"kinds": {"cure": wrong}, **tie}}
    with closing(Journal(Path(environ["CTX_HOME"]) / "journal.db")) as journal:
        journal.append(MEASURED, {"moments": rows}, actor="test")
    assert "pnpm" in before(environ, "npm install")
    assert "pip install pyyaml" in failed(environ, "pytest -q", error, session_id="other")


@pytest.mark.feature("hooks.asked-first")
@pytest.mark.parametrize(
    ("wish", "command"),
    [
        ("never remove anything without asking", "rm src/a.py"),
        ("always ask me before removing files", "rm src/a.py"),
        ("always ask me before pushing", "ssh build 'git push'"),
        ("never squash without asking", "gh pr merge 5 -s"),
    ],
)
def test_a_wish_to_be_asked_is_found_though_the_command_has_no_word_of_it(environ, learned, wish, command):
    learned(day("a", 1).prompt(wish), day("b", 2).prompt(wish))
    assert wish in before(environ, command)


@pytest.mark.feature("hooks.asked-first")
@pytest.mark.parametrize(
    ("wish", "act", "at_prompt"),
    [
        ("never commit secrets without asking", "git commit -m x", True),
        ("Ask me before you commit secrets", "git commit -m x", True),
        ("Never push tags without asking", "git push --tags", False),
        ("never deploy the backend without asking", "fly deploy", False),
    ],
)
def test_a_wish_to_be_asked_is_told_at_the_act_or_where_that_may_not_show_its_object_at_the_prompt(environ, learned, wish, act, at_prompt):
    learned(day("a", 1).prompt(wish), day("b", 2).prompt(wish))
    prompt = {"commit": "commit all of the secrets and push", "push": "push the tags and the branch", "fly": "deploy the backend now"}
    ordered = {"session_id": SESSION, "cwd": SHOP, "hook_event_name": "UserPromptSubmit"}
    printed = hook(environ, ordered | {"prompt": prompt[next(word for word in prompt if word in act)]})
    assert (wish in (note(printed, "UserPromptSubmit") if printed else "")) is at_prompt
    assert (wish in before(environ, act, session_id="another")) is not at_prompt
