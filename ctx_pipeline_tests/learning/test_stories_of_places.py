"""More stories of several sessions: tools, places and services of a project, and what a person wants first or not at all."""

from __future__ import annotations

import os
import sys

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.learning import memories
from ctx_pipeline.learning.lesson_review import for_rules_file, proposals
from ctx_pipeline.model.memories import WOVEN
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.story import Story, edited, ran, said
from ctx_pipeline_tests.learning.test_stories import before, failed, prompt, story, texts

__all__ = ["story"]


@pytest.mark.feature("mining.said-rules")
def test_a_project_that_names_its_manager_beside_another_rule_is_heard_once(story):
    told = said("This project is managed with poetry, never call pip directly.")
    story.day(said("Wire up the endpoint"), ran("pip install fastapi"), told)
    story.learn()
    for command in ("pip install uvicorn", "python -m pip install uvicorn"):
        assert "poetry" in before(story, command)
    assert before(story, "poetry add uvicorn") == before(story, "pip list") == ""


@pytest.mark.feature("mining.said-rules")
def test_a_tool_that_was_dropped_for_another_gives_way_to_it(story):
    story.day(said("please run prettier on what you change, we format with prettier"), ran("npx prettier --write src/a.ts", "ok"))
    story.day(said("tidy up the client"), ran("npx prettier --write src/b.ts"), said("we dropped prettier last month, it's biome now"))
    story.learn()
    assert texts(story) == ["we dropped prettier last month, it's biome now"]
    assert "biome" in before(story, "npx prettier --write src/c.ts")
    assert before(story, "npx biome format --write src") == ""


@pytest.mark.feature("mining.said-rules")
def test_what_is_wanted_no_longer_ends_the_rule_before_it_whatever_reason_is_given(story):
    story.day(said("open a PR"), ran("gh pr create --fill", "ok"), said("always open PRs as drafts"))
    story.day(said("open it"), ran("gh pr create --draft", "ok"), said("never open draft PRs any more, reviewers get no notification"))
    story.learn()
    assert "never open draft" in before(story, "gh pr create --draft --fill")
    assert before(story, "gh pr create --fill") == ""


@pytest.mark.feature("mining.said-rules")
def test_a_reverted_work_and_its_reason_in_two_wordings_are_told_before_the_same_is_asked_for(story):
    story.day(said("speed up the list"), edited("src/list.py", "a", "b"), said("revert that, we don't use caching in views"))
    story.day(said("make it faster"), edited("src/detail.py", "a", "b"), said("no. undo it. I don't want caching in the views"))
    story.learn()
    assert "caching" in prompt(story, "add caching to the order views")
    assert prompt(story, "add an order model") == ""


@pytest.mark.feature("mining.said-rules")
def test_a_polite_question_that_orders_is_a_rule_and_told_at_the_act_it_comes_before(story):
    story.day(said("implement export"), ran("ls"), said("could you please always run `make lint` before committing?"))
    story.day(said("also pls make sure you run make lint before you commit"), ran("ls")).learn()
    assert [m.support for m in story.memories()] == [2]
    assert "make lint" in before(story, "git commit -am x")
    assert [c for c in ("make lint && git commit -am x", "git status", "git log") if before(story, c)] == []


@pytest.mark.feature("mining.said-rules")
def test_tests_beside_their_source_go_into_the_folder_that_is_named(story):
    story.day(said("add a test"), edited("tests/parser.test.ts", "a", "b"), said("no, tests live next to the source in __tests__ folders"))
    story.day(said("test the lexer"), edited("tests/lexer.test.ts", "a", "b"), said("put tests in __tests__/, not tests/")).learn()
    assert "__tests__" in prompt(story, "write a test for the emitter")


@pytest.mark.feature("learn.stories")
def test_a_file_that_was_looked_for_below_a_folder_of_another_place_is_told_of_it(story):
    story.day(said("change the copy. translations live in packages/i18n/locales"), ran("ls"))
    story.day(said("fix the text"), ran("ls"), said("the translations are in packages/i18n/locales")).learn()
    missed = "cat: src/translations/fr.json: No such file or directory"
    assert "packages/i18n/locales" in failed(story, "cat src/translations/fr.json", missed)
    assert failed(story, "cat src/app.ts", "cat: src/app.ts: No such file or directory") == ""


@pytest.mark.feature("mining.missing-option")
def test_an_option_that_a_program_lacks_is_told_where_it_refused_itself_and_is_of_that_make_here(story):
    of_bsd = "cat: illegal option -- A\nusage: cat [-belnstuv] [file ...]"
    of_gnu = "{}: invalid option -- '{}'\nTry '{} --help' for more information."
    story.day(said("when was it"), ran("date -v -1d", of_gnu.format("date", "v", "date"), 1), ran("cat -A f", of_bsd, 1))
    story.day(said("why is ci red"), ran("gh run view 1 --log-failed | grep -Z option", of_gnu.format("grep", "Z", "grep"), 1))
    story.day(said("what did it say"), ran("ssh box sort -Y f", of_gnu.format("sort", "Y", "sort"), 2)).learn()
    told = [c for c in ("date -v -1d +%F", "cat -A g", "ls | grep -Z x", "sort -Y g") if before(story, c)]
    assert told == {"linux": ["date -v -1d +%F"], "darwin": ["cat -A g"]}.get(sys.platform, [])


@pytest.mark.feature("learn.told-ports")
def test_a_port_that_was_told_twice_is_told_where_the_service_is_called_and_where_another_port_refused(story):
    refused = "curl: (7) Failed to connect to localhost port {}: Connection refused"
    story.day(said("start the app. the api runs on port 8081, not 8080"), ran("ls"))
    story.day(said("is it up?"), ran("ls"), said("the api runs on port 8081")).learn()
    assert "8081" in prompt(story, "call the api and show me its health")
    assert "8081" in failed(story, "curl -s localhost:8080/health", refused.format(8080))
    assert "8081" in failed(story, "curl -s localhost:9000/api/health", refused.format(9000))
    assert failed(story, "curl -s localhost:5000/health", refused.format(5000)) == ""
    assert failed(story, "curl -s localhost:8081/api", refused.format(8081)) == ""
    assert [p for p in ("add an endpoint to the api", "rename the footer", "call the shop") if prompt(story, p)] == []


REFUSED = "curl: (7) Failed to connect to {} port {}: Connection refused"


@pytest.mark.feature("learn.told-ports")
@pytest.mark.parametrize(
    ("words", "port"),
    [
        ("the api runs on port 3000, change it to 4000", 4000),
        ("the api runs on port 8081 in staging", 3000),
        ("the api runs on port 8081 inside the container", 3000),
        ("the api runs on port 8081 only while CI is up", 3000),
        ("the old api listens on port 7001 and should listen on 7002", 7002),
    ],
)
def test_a_port_of_another_place_or_one_that_is_to_change_is_not_told(story, words, port):
    for _ in range(2):
        story.day(said("start it"), ran("ls"), said(words))
    story.learn()
    assert [t for t in texts(story) if "port" in t] == []
    assert failed(story, f"curl -s localhost:{port}/api", REFUSED.format("localhost", port)) == prompt(story, "call the api") == ""


@pytest.mark.feature("learn.told-ports")
def test_a_port_is_told_of_calls_to_that_very_service_on_this_machine_alone(story):
    for _ in range(2):
        story.day(said("start it"), ran("ls"), said("the api runs on port 8081, not 8080"))
    story.learn()
    told = "runs on port 8081"
    down = 'psql: error: connection to server at "localhost" (127.0.0.1), port {} failed: Connection refused'
    assert told in failed(story, "curl -s 127.0.0.1:9000/api/v1", REFUSED.format("127.0.0.1", 9000))
    assert [
        (command, error)
        for command, error in (
            ("curl https://vendor.example.com:8080/api", REFUSED.format("vendor.example.com", 8080)),
            ("curl https://api.stripe.com:443/v1", REFUSED.format("api.stripe.com", 443)),
            ("psql -h localhost -p 5432 -d api", down.format(5432)),
            ("psql -h db.local -p 8080", "psql: error: connection to server on port 8080 failed: Connection refused"),
            ("pytest tests/api -q", "E   ConnectionRefusedError: connection refused localhost:6379\n1 failed in 1s"),
            ("docker exec db psql -p 8080", down.format(8080)),
            ("ssh box curl localhost:8080", REFUSED.format("localhost", 8080)),
            ("cat logs/api.log", REFUSED.format("localhost", 8080)),
            ("cat api/config.yml", "cat: api/config.yml: No such file or directory"),
        )
        if failed(story, command, error)
    ] == []
    assert failed(story, "grep -rn refused logs | head", REFUSED.format("localhost", 8080), host="codex") == ""


@pytest.mark.feature("learn.told-ports")
def test_a_port_is_told_at_a_prompt_that_starts_or_calls_the_service_itself(story):
    for _ in range(2):
        story.day(said("start it"), ran("ls"), said("the frontend runs on port 5173"))
    story.learn()
    for words in ("start the frontend", "please restart the frontend server and look at it", "open the frontend"):
        assert "5173" in prompt(story, words), words
    quiet = ("check the docs of the frontend for typos", "run the frontend tests", "open the frontend docs", "show the frontend code")
    assert [p for p in quiet if prompt(story, p)] == []


@pytest.mark.feature("learn.told-ports")
def test_a_port_that_was_said_once_is_not_told(story):
    story.day(said("start it"), ran("ls"), said("the api runs on port 8081, not 8080")).learn()
    assert failed(story, "curl -s localhost:8080/api", REFUSED.format("localhost", 8080)) == prompt(story, "call the api") == ""


@pytest.mark.feature("hooks.after-failure")
def test_a_failure_of_a_host_that_gives_no_status_is_known_by_the_line_that_ended_the_program(story):
    error = "Error: STRIPE_KEY environment variable is not set"
    for host in ("codex", "claude"):
        story.day(said("fix rounding"), ran("npx vitest run", error, 1), ran("STRIPE_KEY=x npx vitest run", "12 passed"), host=host)
    story.learn()
    tool = {"tool_name": "Bash", "tool_input": {"command": "npx vitest run"}}

    def told(output):
        from ctx_pipeline_tests.cli.test_hook import hook

        return story.ask(hook, "PostToolUse", host="codex", **tool, tool_response=output)

    assert "STRIPE_KEY=x npx vitest run" in told(f"{error}\n    at load (src/env.ts:3:1)\n")
    assert told(f"{error}\n 12 passed (12)\n") == ""


@pytest.mark.feature("learn.stories")
def test_a_variable_that_was_exported_cures_an_exception_of_any_name(story):
    error = "django.core.exceptions.ImproperlyConfigured: Requested setting APPS, but settings are not configured. You must configure()"
    red = ran("pytest shop/tests", f"E   {error}", 2)
    for _ in range(2):
        story.day(said("add an index"), red, ran("export DJANGO_SETTINGS_MODULE=shop.test && pytest shop/tests", "9 passed in 1.2s"))
    story.learn()
    assert "DJANGO_SETTINGS_MODULE=shop.test" in failed(story, "pytest shop/tests", f"E   {error}")
    assert [t for t in texts(story) if "You must" in t] == []


@pytest.mark.feature("mining.trusted-cures")
@pytest.mark.parametrize(
    ("command", "error", "cause"),
    [
        ("npm install zod", "npm error code ETIMEDOUT\nnpm error network request to https://registry.npmjs.org/zod failed", "network"),
        ("git commit -m x", "fatal: Unable to create '/w/.git/index.lock': File exists.", "lock"),
    ],
)
def test_what_passed_by_itself_is_told_with_its_cause(story, command, error, cause):
    for _ in range(2):
        story.day(said("go on"), ran(command, error, 1), ran("npm cache verify", "ok"), ran(command, "done"))
    story.learn()
    told = failed(story, command, error)
    assert cause in told
    assert "wait and run it again" in told
    assert before(story, command) == ""


@pytest.mark.feature("mining.project-facts")
def test_a_search_program_that_is_not_there_is_told_before_its_next_call_until_somebody_installs_it(story, tmp_path):
    for host in ("claude", "codex"):
        absent = ran("ripgrap FLAG src", "bash: ripgrap: command not found", 127)
        story.day(said("find the flag"), absent, ran("grep -rn FLAG src", "src/a.py:1:FLAG"), host=host)
    story.learn()
    assert "`ripgrap` is not installed here" in before(story, "ripgrap TODO src")
    assert "in 2 sessions" in before(story, "ripgrap TODO src")
    assert before(story, "grep -rn TODO src") == ""


@pytest.mark.feature("mining.trusted-cures")
@pytest.mark.parametrize("user", ["", "ops@"])
@pytest.mark.parametrize("said_by_system", ["Name or service not known", "nodename nor servname provided, or not known"])
def test_a_host_of_another_name_is_a_cure_that_waits_for_a_person_and_a_host_that_answers_otherwise_is_none(story, user, said_by_system):
    unknown = f"ssh: Could not resolve hostname prod: {said_by_system}"
    absent = "ls: cannot access '/opt/app': No such file or directory"
    for _ in range(2):
        story.day(said("is it up"), ran(f"ssh {user}prod uptime", unknown, 255), ran(f"ssh {user}prod-eu-1 uptime", "up 3 days"))
        story.day(said("what is there"), ran("ssh web-1 ls /opt/app", absent, 2), ran("ssh web-2 ls /opt/app", "1 2"))
    story.learn()
    held = [m for m in memories.memories(settings=settings_module.load(story.environ)) if m.body.get("did")]
    assert {(*m.body["did"], m.status in WOVEN) for m in held} == {(f"ssh {user}prod-eu-1 uptime", False)}
    settings = settings_module.load(story.environ)
    with open_store(settings) as store:
        assert consolidate(store, settings, force=True).totals["needs_review"] == sum(m.superseded_by is None for m in held) == 1
    assert len(held) > 1
    assert failed(story, "ssh web-1 ls /opt/app", absent) == ""


@pytest.mark.feature("mining.returning-requests")
def test_a_request_that_returns_in_other_words_is_the_same_one(story):
    asked = ("why is this failing?", "why is the pipeline failing", "why's this failing again")
    wishes = ("open a pr", "make a PR", "create a pull request")
    for number, (words, wish) in enumerate(zip(asked, wishes, strict=True)):
        look = ran(f"gh run view {number} --log-failed", "lint: E501")
        story.day(said(f"{words} https://ci/runs/{number}"), look, edited("a.py", "1", "2"), said(wish), ran("gh pr create --fill", "ok"))
    story.learn()
    (found,) = [m for m in story.memories() if m.kind == "procedure"]
    assert (found.support, "`gh run view`" in found.text) == (3, True)


@pytest.mark.feature("hooks.asked-first")
def test_a_file_that_a_person_wants_to_be_asked_about_is_told_before_what_changes_it(environ):
    told = Story(environ)
    told.day(said("fix the ports"), ran("ls"), said("don't touch config.prod.yml without asking"))
    told.day(said("clean up"), ran("ls"), said("never use git push --force without asking")).learn()
    for command in ("sed -i s/a/b/ deploy/{}", "rm {}", "mv {} old.yml", "echo x >> {}"):
        assert "config.prod.yml" in before(told, command.format("config.prod.yml")), command
    assert "--force" in before(told, "git push -f origin fix")
    assert [c for c in ("cat config.prod.yml", "sed -i s/a/b/ config.dev.yml", "git push") if before(told, c)] == []


LIMITED = (
    ("don't use pnpm for docs, use npm", (), ("pnpm install", "pnpm test")),
    ("this project is built with yarn, the other one with npm", (), ("npm install",)),
    (
        "don't edit files in src/gen/, edit src/schema.graphql instead",
        ("sed -i s/a/b/ src/gen/a.ts",),
        ("sed -i s/a/b/ src/schema.graphql",),
    ),
    (
        "don't remove tests from api/, move them to api/tests/",
        ("rm api/test_views.py",),
        ("mv a.py api/tests/a.py", "mv api/test_a.py api/tests/test_a.py", "touch api/views.py", "rm api/views.py"),
    ),
    ("don't touch settings.py in this PR, that's for later", (), ("sed -i s/a/b/ settings.py",)),
    (
        "always run make migrate before you push to production",
        ("git push origin production", "git push production main"),
        ("git push origin feature", "make migrate && git push origin production"),
    ),
    ("don't delete dist/ without asking", ("rm -rf dist", "rm dist/a.js"), ("ls dist/ && rm x.txt", "rm distance.py")),
    ("would you please stop running the tests", (), ("pytest -q",)),
    ("can you please stop running the tests?", (), ("pytest -q",)),
    (
        "never commit changes to schema.sql without asking",
        ("git commit -m x schema.sql", "git add db/schema.sql && git commit -m x"),
        ("git commit -am x", "cat schema.sql && git commit -m x a.py", "git commit -m 'explain schema.sql' a.py"),
    ),
)


@pytest.mark.feature("hooks.rule-limits")
@pytest.mark.parametrize(("words", "told", "quiet"), LIMITED)
def test_a_rule_is_told_where_it_holds_and_at_nothing_else_that_it_names(story, words, told, quiet):
    for _ in range(2):
        story.day(said("work on it"), ran("ls"), said(words))
    story.learn()
    assert [c for c in told if words not in before(story, c)] == []
    assert [c for c in quiet if before(story, c)] == []
    if not told:
        assert [m.text for m in story.memories() if m.body.get("instead_of")] == []


@pytest.mark.feature("hooks.machine-facts")
@pytest.mark.parametrize(
    "looked", [ran("command -v shoplint", "", 1), ran("shoplint Dockerfile", "bash: shoplint: command not found", 127)]
)
def test_a_program_that_another_machine_lacked_is_told_nowhere_where_it_is_installed(story, tmp_path, monkeypatch, looked):
    for _ in range(2):
        story.day(said("lint the Dockerfile"), looked)
    story.learn()
    asked = "run shoplint on the Dockerfile: is shoplint not installed here?"
    for note in (prompt(story, asked), before(story, "shoplint Dockerfile")):
        assert "`shoplint` is not installed here" in note
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/shoplint").write_text("#!/bin/sh\n")
    (tmp_path / "bin/shoplint").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert prompt(story, asked) == before(story, "shoplint Dockerfile") == ""


@pytest.mark.feature("learn.rules-of-machine")
def test_what_one_machine_lacks_is_not_written_into_the_rules_that_a_project_shares(story):
    for _ in range(2):
        story.day(said("lint the Dockerfile"), ran("command -v shoplint", "", 1))
    story.day(said("deploy"), ran("deploy preview tag:*", "zsh:1: no matches found: tag:*", 1)).learn()
    found = proposals(settings=settings_module.load(story.environ))
    assert len(found) == 2
    assert for_rules_file(found) == []
    accepted = [one._replace(memory=one.memory._replace(status="accepted")) for one in found]
    assert for_rules_file(accepted) == accepted
