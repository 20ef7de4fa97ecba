"""Outcome signals over hand-made sessions."""

from __future__ import annotations

import pytest

from ctx_pipeline.model.declared import Reading
from ctx_pipeline.signals.checks import lint_problems_at_end, type_errors_at_end
from ctx_pipeline.signals.outcomes import (
    failed_command_count,
    failed_command_ratio,
    interrupted_signal,
    interruption_count,
    session_grade,
    user_correction_count,
    user_satisfaction_lexical,
)
from ctx_pipeline_tests.factories.views import view


def take(signal, session) -> Reading:
    return signal.function(session.build())


@pytest.mark.feature("signals.failed-commands")
def test_a_command_and_its_result_are_one_command_and_count_and_ratio_agree():
    session = view().shell("pytest", exit=1).shell("pytest").shell("make", exit=2).shell("ls")
    assert take(failed_command_count, session).value == 2
    assert take(failed_command_ratio, session).value == 0.5
    assert take(failed_command_ratio, session).evidence == ("s1.e1", "s1.e5")


@pytest.mark.feature("signals.failed-commands")
@pytest.mark.parametrize(
    ("command", "status", "failed"),
    [
        ("grep -r todo src", 1, 0),
        ("cd src && rg -n todo", 1, 0),
        ("rg -n 'todo", 2, 1),
        ("cat x | grep todo", 1, 0),
        ("grep -q a b && pytest", 1, 1),
        ("diff a b", 1, 0),
        ("pytest", 1, 1),
        ("test -f x", 1, 0),
    ],
)
def test_a_search_without_a_hit_is_an_answer_and_no_failure(command, status, failed):
    assert take(failed_command_count, view().shell(command, exit=status)).value == failed


@pytest.mark.feature("signals.failed-commands")
def test_a_refused_or_unanswered_command_never_ran():
    session = view().shell("rm -rf build", refused="").shell("sleep 100", exit=None, answered=False).shell("ls")
    assert take(failed_command_count, session).value == 0
    assert take(failed_command_ratio, session).metadata == {"failed": 0, "commands": 1}


@pytest.mark.feature("signals.null-reason")
def test_no_command_gives_no_ratio_but_a_reason():
    found = take(failed_command_ratio, view().prompt("hello").answer("hi"))
    assert found.value is None
    assert found.reason == "no shell command was answered"


@pytest.mark.feature("signals.interrupted")
def test_only_the_hosts_own_record_is_an_interruption():
    spoken = (
        view()
        .prompt("handle the keyboard interrupt in main")
        .answer("the interrupt is handled")
        .shell("grep interrupt x", text="interrupt")
    )
    assert take(interrupted_signal, spoken).value is False
    claude = view().prompt("go").injected("[Request interrupted by user for tool use]", "interrupt")
    assert take(interrupted_signal, claude) == Reading(True, ("s1.e1",), metadata={"count": 1})
    quoted = view().prompt("go").injected("[Request interrupted by user]")
    assert take(interrupted_signal, quoted).value is False  # what a text says is for its host to tell


@pytest.mark.feature("signals.interrupted")
def test_a_turn_that_the_host_replaced_was_not_stopped_by_the_person():
    replaced = view().prompt("go")
    replaced.event("injected", "system", "replaced", subtype="turn_aborted")
    assert take(interrupted_signal, replaced).value is False
    stopped = view().prompt("go")
    stopped.event("injected", "user", "interrupted", subtype="turn_aborted")
    assert take(interrupted_signal, stopped).value is True


@pytest.mark.feature("signals.corrections")
@pytest.mark.parametrize(
    "text",
    [
        "no, that's wrong",
        "That's not what I asked for. Look again.",
        "please don't use pip",
        "I said the other file",
        "use uv, not pip",
        "you forgot the tests",
        "revert that",
        "still doesn't work",
        "why did you delete it?",
        "you are not correct: the docs say so",
        "claude stop is not correct, that is at the end of the turn.",
        "The redirection doesn't work :( do we have to move it?",
        "never open prs against release!!!",
        "not as a comment, but as a document attached to the issue",
        "let's not leave all the tests to the very end...",
        "hmm, I was able to do it through the page",
        "I don't think we need to loop through all items",
        "why can't we just use real booleans?",
        "the build is failing again",
        "Are you sure the page is the cause?",
    ],
)
def test_the_person_corrects(text):
    assert take(user_correction_count, view().prompt("do it").answer("done").prompt(text)).value == 1


@pytest.mark.feature("signals.corrections")
@pytest.mark.parametrize(
    "text",
    [
        "great, now add the docs",
        "yes, but we don't need to commit",
        "the page says `don't use pip`, is that right?",
        "```\nno, that's wrong\n```\nexplain this log",
        "> you forgot the tests\n\nanswer this review",
        "add a note that users can undo their changes",
        "what does the interrupt do? nothing?",
        "never mind, commit it",
        "tell me if the name is wrong",
        "check why the login doesn't work for guests",
        "not now",
        "I think we need to loop through all items",
    ],
)
def test_ordinary_prompts_are_no_corrections(text):
    assert take(user_correction_count, view().prompt("do it").answer("done").prompt(text)).value == 0


@pytest.mark.feature("signals.corrections")
def test_injected_text_and_the_task_itself_are_no_corrections():
    session = view().prompt("don't use pip in this project").injected("no, that's wrong").answer("no, that's wrong")
    assert take(user_correction_count, session).value == 0


@pytest.mark.feature("signals.null-reason")
def test_a_session_that_nobody_typed_in_has_no_count_of_corrections():
    assert take(user_correction_count, view().answer("hi")).reason == "the person typed nothing in this session"


@pytest.mark.feature("signals.corrections")
def test_hostile_text_is_read_in_linear_time():
    for text in ("no " * 200_000, "use " + "x " * 200_000, "```" * 100_000, "> " * 100_000, "still " * 100_000, "\n" * 300_000):
        assert take(user_correction_count, view().prompt("go").prompt(text)).value in (0, 1)


@pytest.mark.feature("signals.corrections")
def test_what_was_typed_when_a_call_was_refused_is_a_correction():
    session = view().prompt("install it").shell("npm i", refused="use pnpm").shell("npm i", refused="")
    printed = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nuse pnpm"
    session.shell("cat log", exit=None, failed=True, text=printed)
    assert take(user_correction_count, session) == Reading(1, ("s1.e3",), confidence=0.7)


@pytest.mark.feature("signals.corrections")
@pytest.mark.parametrize(
    ("words", "corrections"),
    [
        ("Entire Inc.", 0),
        ("i'll take it from here.", 0),
        ("branch and PR. but also is there any other way to solve this?", 0),
        ("commit first", 0),
        ("pnpm", 1),
        ("nein, das ist falsch", 1),
        ("Use React", 1),
        ("really? Can't we set the decoder to be strict?", 1),
        ("is this right? it should be in main", 1),
        ("huh, that's what my expectation says. Try again.", 1),
    ],
)
def test_a_name_a_question_or_taking_over_is_no_correction_of_a_refused_call(words, corrections):
    session = view().prompt("do it").shell("npm i", refused=words)
    assert take(user_correction_count, session).value == corrections


@pytest.mark.feature("signals.corrections")
@pytest.mark.parametrize(
    ("words", "corrections"),
    [("fix the test, the code is right", 1), ("you can set it with the library, which is less work", 1), ("go on", 0), ("i'll do it.", 0)],
)
def test_what_was_typed_right_after_a_call_was_refused_without_a_word_is_a_correction(words, corrections):
    refused = view().prompt("do it").tool("Edit", action="edit", paths=("/w/a.py",), refused="")
    assert take(user_correction_count, refused.injected("[Request interrupted by user]", "interrupt").prompt(words)).value == corrections
    done = view().prompt("do it").shell("npm i", refused="").shell("ls").prompt("fix the test, the code is right")
    assert take(user_correction_count, done).value == 0


@pytest.mark.feature("signals.corrections")
@pytest.mark.parametrize("action", ["plan", "ask"])
def test_what_follows_a_refused_plan_or_question_is_an_answer(action):
    refused = view().prompt("do it").tool("Tool", action=action, refused="")
    assert take(user_correction_count, refused.prompt("OK, commit the other work first, then go on with this")).value == 0


@pytest.mark.feature("signals.corrections")
@pytest.mark.parametrize(
    ("asked", "words", "corrections"),
    [
        ("Which of the two?", "no just add the name", 0),
        ("Which of the two?", "no, that's wrong", 1),
        ("Does it work now?", "nope, still fails", 1),
        ("I chose the first.", "no just add the name", 1),
    ],
)
def test_a_no_to_a_question_of_the_agent_is_an_answer(asked, words, corrections):
    assert take(user_correction_count, view().prompt("do it").answer(asked).prompt(words)).value == corrections


@pytest.mark.feature("signals.corrections")
def test_hostile_words_of_a_refusal_are_read_in_linear_time():
    for text in ("ok " * 200_000, "branch and " * 100_000, "A " * 200_000, "is " * 200_000, "." * 300_000, "not a " * 100_000):
        assert take(user_correction_count, view().prompt("go").shell("ls", refused=text)).value in (0, 1)


@pytest.mark.feature("signals.satisfaction")
@pytest.mark.parametrize(
    ("text", "mood"),
    [
        ("thanks, looks good", "positive"),
        ("That works! now the docs", "positive"),
        ("good. commit it", "positive"),
        ("LGTM, ship it", "positive"),
        ("it still doesn't work", "negative"),
        ("this is not right", "negative"),
        ("great, but it is still broken", "neutral"),
        ("make sure it works on windows", "neutral"),
        ("add a nice button", "neutral"),
        ("```\nperfect\n```\nwhat is this line?", "neutral"),
        ("> thanks\n\nwho wrote that?", "neutral"),
    ],
)
def test_how_content_the_last_words_sound(text, mood):
    found = take(user_satisfaction_lexical, view().prompt("great, terrible").answer("perfect").prompt(text).injected("thanks"))
    assert (found.value, found.evidence, found.confidence) == (mood, ("s1.e2",), 0.4)


@pytest.mark.feature("signals.satisfaction")
def test_the_task_itself_is_no_reaction():
    assert take(user_satisfaction_lexical, view().prompt("fix this broken thing")).reason == "the person typed nothing after the task"


@pytest.mark.feature("signals.interrupted")
def test_two_marks_of_one_stop_are_one():
    session = (
        view().prompt("go").injected("[Request interrupted by user]", "interrupt").injected("[Request interrupted by user]", "interrupt")
    )
    session.prompt("go on").injected("[Request interrupted by user for tool use]", "interrupt")
    session.events[2] = session.events[2]._replace(ts=session.events[1].ts + 5)
    assert take(interruption_count, session).value == 2


@pytest.mark.feature("signals.grade")
def test_a_grade_is_made_of_its_parts():
    session = view().prompt("go").shell("make", exit=1).shell("ls").edit("a.py").prompt("no, that's wrong")
    found = take(session_grade, session)
    assert found.value == "D"
    assert found.metadata == {
        "points": 52.0,
        "off": {
            "failed_command_ratio": 10.0,
            "trajectory_premature_finish_without_validation": 15.0,
            "user_correction_count": 8.0,
            "user_satisfaction_lexical": 15,
        },
    }
    assert take(session_grade, view().prompt("hello").answer("hi")).reason == "the agent took no step"


@pytest.mark.feature("signals.lint-types")
def test_what_is_clean_in_the_end_has_no_problem_though_it_prints_no_sum():
    red = "src/a.ts(3,9): error TS2769: No overload matches this call.\nFound 1 error."
    session = view().shell("npm run build", exit=2, text=red)
    assert take(type_errors_at_end, session).value == 1
    assert take(type_errors_at_end, session.edit("/w/a.ts").shell("npm run build", text="> tsc\n")).value == 0


@pytest.mark.feature("signals.lint-types")
def test_a_formatter_after_its_check_leaves_the_end_unknown():
    session = view().shell("cargo fmt --check", exit=1, text="Diff in /w/a.rs:3:\n-x\n+y")
    assert take(lint_problems_at_end, session).value == 1
    assert take(lint_problems_at_end, session.shell("cargo fmt", text="")).value is None


@pytest.mark.feature("signals.lint-types")
def test_another_check_that_passed_and_a_pass_that_failed_again_are_no_clean_end():
    red = "a.py:1:1: F401 unused\nFound 1 error."
    both = view().shell("ruff check . ; mypy .", exit=1, text=red)
    assert take(lint_problems_at_end, both.shell("mypy .", text="Success: no issues found in 3 source files")).value == 1
    again = view().shell("ruff check .", exit=1, text=red).shell("ruff check .", text="All checks passed!")
    assert take(lint_problems_at_end, again).value == 0
    assert take(lint_problems_at_end, again.shell("ruff check .", exit=1, text="error: cannot read pyproject.toml")).value is None
