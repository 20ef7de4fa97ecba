"""What a session was asked to do."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from ctx_pipeline.facts.pasted_output import beside_output
from ctx_pipeline.facts.prompts import is_request, requests, stands_alone, task, typed
from ctx_pipeline.model.host_records import plan_heading
from ctx_pipeline_tests.factories.views import view


@pytest.mark.feature("facts.task")
@pytest.mark.parametrize("text", ["push", "1", "</heartbeat>", "yes, go on", "Thank you!", "ok do that", "/review", "...", "y"])
def test_a_prompt_that_only_steers_is_no_request(text):
    assert not is_request(text)


@pytest.mark.feature("facts.task")
@pytest.mark.parametrize(
    "text", ["fix it", "add the logo", "why does push fail?", "run the tests again", "Ändere die Farbe", "<div> is broken"]
)
def test_what_asks_for_something_is_a_request(text):
    assert is_request(text)


@pytest.mark.feature("facts.task")
def test_the_first_and_the_last_request_are_known_and_steering_is_neither():
    session = view().prompt("1").prompt("Fix the sum of the cart in shop/cart.py").answer("done")
    session.prompt("Add a test for discounts to tests/test_cart.py").answer("done").prompt("push")
    found = task(session.build())
    assert found.first is not None
    assert found.now is not None
    assert (found.first.text, found.first.event_id) == ("Fix the sum of the cart in shop/cart.py", "s1.e1")
    assert (found.now.text, found.now.by) == ("Add a test for discounts to tests/test_cart.py", "prompt")


@pytest.mark.feature("facts.task")
@pytest.mark.parametrize("thread", ["agent-7", "s1/7f1e17a3"])
def test_what_an_agent_asks_of_its_subagent_is_no_task_where_the_main_thread_holds_nothing(thread):
    session = view().subagent(thread).prompt("List every test of the cart").answer("They are in tests/test_cart.py").build()
    if "/" in thread:
        session.threads.clear()

    assert typed(session) == []


@pytest.mark.feature("claude.approved-plan")
def test_a_plan_that_was_approved_is_the_task_from_then_on():
    session = view().prompt("Fix the sum of the cart in shop/cart.py").answer("Here is my plan.")
    session.injected("Implement the following plan:\n\n# Plan: Sum in cents\n\nNever use floats.", "approved_plan").answer("Done.")
    found = task(session.build())
    assert (found.first.text, found.first.by) == ("Fix the sum of the cart in shop/cart.py", "prompt")
    assert (found.now.text, found.now.by) == ("Sum in cents", "plan")
    alone = view().injected("Implement the following plan:\n\n# Sum in cents\n\nNever use floats.", "approved_plan").answer("Done.")
    assert [(one.text, one.by) for one in task(alone.build())[:2]] == [("Sum in cents", "plan")] * 2
    assert task(alone.prompt("Now change the tax in shop/tax.py to cents too").build()).now.by == "prompt"


@pytest.mark.feature("claude.approved-plan")
def test_the_newest_approved_plan_is_the_task_however_it_was_approved():
    began = "Implement the following plan:\n\n# Sum in cents\n\nNever use floats."
    call = json.dumps({"plan": "# Round the tax\n\n1. round"})
    session = view().injected(began, "approved_plan").answer("Done.").tool("ExitPlanMode", action="plan", argv=[call])
    assert task(session.build()).now.text == "Round the tax"
    session = view().prompt("Plan it").tool("ExitPlanMode", action="plan", argv=[call]).injected(began, "approved_plan")
    assert task(session.build()).now.text == "Sum in cents"


@pytest.mark.feature("claude.approved-plan")
@pytest.mark.parametrize(
    ("plan", "heading"),
    [
        ("# Plan\n\n## Context\n\nThe tax is not rounded.", "The tax is not rounded."),
        ("## 1. Overview\n# Round the tax", "Round the tax"),
        ("# Summary", "Summary"),
        ("# Plan-B rollout", "Plan-B rollout"),
        ("# Plan - Round the tax", "Round the tax"),
        ("# Implementation Plan: Round the tax", "Round the tax"),
    ],
)
def test_a_plan_is_named_by_the_first_line_that_only_it_has(plan, heading):
    assert plan_heading(plan) == heading


@pytest.mark.feature("facts.task")
def test_a_word_that_answers_the_agents_question_is_no_request_and_any_other_word_is_one():
    session = view().prompt("Write down how the header looks").answer("It is written. Keep it local, or commit it?").prompt("local")
    assert task(session.build()).last.text == "Write down how the header looks"
    session = (
        view().prompt("Write down how the header looks").answer("It is written.").prompt("commit the plan").answer("Done.").prompt("lint")
    )
    assert task(session.build()).last.text == "lint"


@pytest.mark.feature("facts.task")
def test_where_nothing_else_was_typed_a_steering_prompt_is_told():
    assert requests(["push", " "]) == ["push"]
    found = task(view().prompt("push").build())
    assert (found.now.text, found.told) == ("push", False)
    assert task(view().build()) == (None, None, False, None, None, None)


@pytest.mark.feature("facts.task")
def test_what_only_steers_behind_the_last_request_is_told_beside_it():
    found = task(view().prompt("Fix the sum of the cart").answer("Done.").prompt("commit and push").build())
    assert (found.first.text, found.last.text, found.then.text) == ("Fix the sum of the cart", "Fix the sum of the cart", "commit and push")
    assert task(view().prompt("Fix the sum of the cart").build()).then is None


@pytest.mark.feature("facts.task")
def test_what_is_said_with_a_refusal_counts_as_asked():
    session = (
        view()
        .prompt("Why does the build fail?")
        .tool("Edit", action="edit", paths=("a.py",), refused="branch and PR, is there another way?")
    )
    assert task(session.build()).last.text == "branch and PR, is there another way?"
    session = view().prompt("Why does the build fail?").tool("Edit", action="edit", paths=("a.py",), refused="no, stop")
    found = task(session.build())
    assert (found.last.text, found.then.text) == ("Why does the build fail?", "no, stop")


@pytest.mark.feature("facts.task")
@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("<command-message>review</command-message>\n<command-name>/review</command-name>", "/review"),
        # what is typed behind a command is a prompt of its own; what the program does by itself is no request
        (
            "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>the cart</command-args>",
            "Fix the sum of the cart",
        ),
        ("<command-name>/clear</command-name>\n<command-message>clear</command-message>", "Fix the sum of the cart"),
    ],
)
def test_a_session_that_begins_with_a_command_of_the_person_was_asked_that_first(before: str, first: str):
    session = view()
    session.event("injected", "system", before, subtype="command-message")
    assert task(session.prompt("Fix the sum of the cart").build()).first.text == first


@pytest.mark.feature("facts.task")
def test_prompts_are_told_in_the_order_of_their_times():
    session = view().prompt("Say what speaks for it").answer("Much.").prompt("Write a balanced opinion")
    session.start -= 3_600_000_000
    found = task(session.prompt("Look at the idea in notes.md").build())
    assert (found.first.text, found.last.text) == ("Look at the idea in notes.md", "Write a balanced opinion")


@pytest.mark.feature("facts.task")
def test_a_command_of_the_person_may_be_what_was_asked_last_and_praise_is_no_request():
    session = view().prompt("Fix the sum of the cart").answer("Done.").prompt("ok, works. great").answer("Good.")
    assert (task(session.build()).last.text, task(session.build()).then.text) == ("Fix the sum of the cart", "ok, works. great")
    command = "<command-message>pr</command-message>\n<command-name>/pr</command-name>"
    session.event("injected", "system", command, subtype="command-message")
    found = task(session.answer("Title: mend the sum").build())
    assert (found.last.text, found.last.by, found.then) == ("/pr", "command", None)


@pytest.mark.feature("facts.task")
def test_where_a_time_is_missing_the_place_in_the_file_says_what_came_last():
    session = view().prompt("Fix the sum of the cart")
    session.event("injected", "system", "<command-message>review</command-message>\n<command-name>/review</command-name>")
    built = session.prompt("please work on the second one").build()
    events = [e._replace(ts=None) if e.text.startswith("please") else e for e in built.events]
    found = task(replace(built, events=events))
    assert (found.first.text, found.last.text, found.then) == ("Fix the sum of the cart", "please work on the second one", None)


@pytest.mark.feature("facts.handing-in")
@pytest.mark.parametrize(
    "text", ["make a pr", "ok make a pr and reply to discussion", "commit it and push to origin", "okay let's open a PR"]
)
def test_a_request_that_only_hands_in_what_was_made_is_told_with_what_it_is_about(text: str):
    work = view().prompt("why does the cart lose its tax?").answer("A rounding.").prompt("Round the tax in shop/cart.py").answer("Done.")
    found = task(work.prompt(text).answer("Opened.").build())
    assert found.about is not None
    assert found.about.text == "Round the tax in shop/cart.py"
    work.event("injected", "system", "<command-message>pr</command-message>\n<command-name>/pr</command-name>", subtype="command-message")
    by_command = task(work.answer("Opened.").build())
    assert (by_command.last.text, by_command.about.text) == ("/pr", "Round the tax in shop/cart.py")


@pytest.mark.feature("facts.handing-in")
@pytest.mark.parametrize(
    "text", ["make a pr for exact versions with cargo", "fix the sum of the cart in shop/sum.py", "why does shop/sum.py fail?"]
)
def test_a_request_that_says_what_it_is_about_needs_no_other(text: str):
    assert task(view().prompt("Round the tax in shop/cart.py").answer("Done.").prompt(text).build()).about is None


LOG = """> check
> biome check .
app/lib/auth.ts:35:11 lint/suspicious/noImplicitAny
  x This variable implicitly has the any type.
Error: Process completed with exit code 1."""


@pytest.mark.feature("facts.pasted-output")
def test_of_a_prompt_with_a_pasted_output_the_persons_words_are_told_and_the_error_that_it_ends_in():
    def asked(text: str) -> str:
        found = task(view().prompt(text).build()).last
        assert found is not None
        return found.text

    error = "Error: Process completed with exit code 1."
    assert asked(f"why is this happy locally but failing in ci?\n{LOG}") == f"why is this happy locally but failing in ci? […] {error}"
    assert asked(f"{LOG}\n\nPlease mend the linter, not the rule.") == f"[…] {error} Please mend the linter, not the rule."
    assert asked(LOG) == f"pasted output ending in: {error}"
    release = "  • running goreleaser v2\n  • failed after 0s\n    error=\n    │ failed to load it:\n    │   line 31: field retry not found"
    assert asked(f"{release}\nError: The process '/opt/goreleaser' failed with exit code 1") == (
        "pasted output with: line 31: field retry not found"
    )
    assert asked("Fix the cart.\\\n\\\nAlso, round the tax. \\") == "Fix the cart. Also, round the tax."
    assert asked("Look in C:\\shop\\") == "Look in C:\\shop\\"
    plan = "Implement the following plan:\n\n# Round the tax\n\n## Steps\n\n  1. in the cart\n  2. in the report\n  3. in the tests"
    assert asked(plan) == " ".join(plan.split())
    assert asked("First this.\nThen that.\nAnd then the rest of it.") == "First this. Then that. And then the rest of it."


@pytest.mark.feature("facts.pasted-output")
def test_a_prompt_made_to_be_slow_is_read_in_time():
    began = time.perf_counter()
    for piece in ("$ ", "(", "a.b", "-", "=", "fail ", "\n", "a(", " \n ", "x{"):
        task(view().prompt(piece * 60_000 + "\n" + (piece * 40 + "\n") * 400).build())
    assert time.perf_counter() - began < 10


@pytest.mark.feature("facts.pasted-output")
@pytest.mark.parametrize("marks", ["!", ". "])
def test_words_above_a_pasted_output_that_end_in_thousands_of_marks_are_read_in_time(marks: str):
    began = time.perf_counter()
    for _ in range(5):
        assert beside_output(f"x{marks * (7_000 // len(marks))}\n{LOG}").startswith("pasted output ending in: Error")
    assert time.perf_counter() - began < 5


@pytest.mark.feature("facts.task")
def test_a_run_of_dashes_is_looked_through_for_files_in_time():
    began = time.perf_counter()
    for run in ("-", "@", "a.", "-.", "./"):
        stands_alone(f"look at it now {run * 20_000}")
    assert time.perf_counter() - began < 2
    for file in (".env.local", "./src/a.py", "--path=src/a.py", "a-b/c.test.ts"):
        assert stands_alone(f"look well into {file}")
