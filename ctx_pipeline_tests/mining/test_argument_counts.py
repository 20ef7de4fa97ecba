"""How many arguments a subcommand takes, learned from its own refusal and a call that passed."""

from __future__ import annotations

import pytest

from ctx_pipeline.learning.at_act import after_failure, before_command
from ctx_pipeline.memory.consolidation import consolidate, store_candidate
from ctx_pipeline.mining.error_resolutions import combine, extract
from ctx_pipeline_tests.factories.views import view

AT_MOST = "accepts at most 1 arg(s), received 2"


def lessons(failed, output, passed):
    return list(extract(view().shell(failed, exit=1, text=output).shell(passed, text="fine").build()))


@pytest.mark.feature("mining.argument-counts")
@pytest.mark.parametrize(
    ("failed", "output", "passed", "takes", "told"),
    [
        ("gh pr diff 12 -- a.rs", AT_MOST, "gh pr diff 12 --patch", "`gh pr diff` takes at most 1 argument", "gh pr diff ARG ARG"),
        ("gh pr diff 12 a", f"Error: {AT_MOST}\nUsage:", "gh pr diff 12", "`gh pr diff` takes at most 1 argument", "gh pr diff ARG ARG"),
        (
            "gh repo view",
            "requires at least 1 arg(s), only received 0",
            "gh repo view a/b",
            "`gh repo view` takes at least 1 argument",
            "gh repo view",
        ),
        (
            "helm pull a b c",
            "accepts between 1 and 2 arg(s), received 3",
            "helm pull a",
            "`helm pull` takes 1 to 2 arguments",
            "helm pull ARG ARG ARG",
        ),
        (
            "helm status a 5 --debug",
            "accepts 1 arg(s), received 2",
            "helm status a",
            "`helm status` takes 1 argument",
            "helm status ARG ARG …",
        ),
    ],
)
def test_the_number_of_arguments_that_a_subcommand_takes_is_told_with_the_refused_call_and_the_one_that_passed(
    failed, output, passed, takes, told
):
    (found,) = lessons(failed, output, passed)
    assert found.text.startswith(f"{takes}: `{told}` fails with “")
    assert found.text.endswith(f"; `{passed}` works.")
    assert found.evidence_refs == ("s1.e0", "s1.e1", "s1.e2", "s1.e3")


@pytest.mark.feature("mining.argument-counts")
@pytest.mark.parametrize(
    ("failed", "passed"),
    [
        ("gh pr diff 12 src/app.rs", "gh pr diff 14"),
        ("gh pr diff 12 src/app.rs", "gh pr diff src/app.rs"),
        ("gh pr diff 12 src/app.rs", "gh pr view 12"),
        ("gh pr diff 12 src/app.rs", "gh pr diff 12 src/app.rs --patch"),
        ("gh pr diff 12 $FILES", "gh pr diff 12"),
        ("gh pr diff 12 src/*.rs", "gh pr diff 12"),
        ("gh pr diff --color never 12 src/app.rs", "gh pr diff 12"),
        ("gh pr diff 12 src/app.rs src/b.rs", "gh pr diff 12"),
    ],
    ids=("other-target", "not-the-first", "other-subcommand", "as-many", "variable", "glob", "value-of-an-option", "miscounted"),
)
def test_a_call_for_another_target_or_with_words_that_are_not_surely_arguments_proves_nothing(failed, passed):
    assert lessons(failed, AT_MOST, passed) == []


@pytest.mark.feature("mining.argument-counts")
@pytest.mark.parametrize(
    ("failed", "output", "passed"),
    [
        ("go test ./a ./b", AT_MOST, "go test ./a"),
        ("helm pull a b", f"$ tool pull a b\n{AT_MOST}", "helm pull a"),
    ],
    ids=("of-a-tested-program", "of-a-called-program"),
)
def test_the_refusal_of_another_program_says_nothing_of_the_one_that_was_typed(failed, output, passed):
    assert [c for c in lessons(failed, output, passed) if "argument_count" in c.structured] == []


@pytest.mark.feature("mining.argument-counts")
@pytest.mark.parametrize(
    ("failed", "passed", "works"),
    [
        ("gh secret set DB_PW Xk29fLq8", "gh secret set DB_PW", "gh secret set ARG"),
        ("gh secret set DB_PW Xk29fLq8", "gh secret set DB_PW --body=Xk29fLq8", "gh secret set ARG …"),
        ("gh variable set DB_PW Xk29fLq8", "gh variable set DB_PW --body=Xk29fLq8", "gh variable set ARG …"),
        ("gh variable set DB_PW Xk29fLq8", "gh variable set DB_PW", "gh variable set DB_PW"),
    ],
)
def test_what_was_refused_is_nowhere_in_the_lesson_nor_are_arguments_of_a_call_about_secrets(failed, passed, works):
    (found,) = lessons(failed, AT_MOST, passed)
    assert found.text.endswith(f"; `{works}` works.")
    assert "Xk29" not in repr(found)


@pytest.mark.feature("mining.argument-counts")
def test_whoever_asks_for_help_or_hands_in_a_file_is_not_told_of_too_few_arguments():
    session = view().shell("gh repo view", exit=1, text="requires at least 1 arg(s), only received 0").shell("gh repo view a/b", text="a")
    built = session.build()
    found = consolidate(combine([store_candidate(c, session=built.session, method="error_resolutions", version=1) for c in extract(built)]))
    assert before_command("gh repo view", found) == found
    for fine in ("gh repo view --help", "gh repo view -h", "gh repo view help", "gh repo view <<< a/b", "gh repo view < names.txt"):
        assert before_command(fine, found) == []


@pytest.mark.feature("mining.argument-counts")
def test_it_is_told_before_a_call_with_too_many_arguments_and_before_no_other():
    session = view().shell("gh pr diff 12 -- src/app.rs", exit=1, text=AT_MOST).shell("gh pr diff 12 --patch", text="fine").build()
    found = consolidate(
        combine([store_candidate(c, session=session.session, method="error_resolutions", version=1) for c in extract(session)])
    )
    assert [m.text.partition(":")[0] for m in found] == ["`gh pr diff` takes at most 1 argument"]
    assert before_command("cd /w && gh pr diff 9 src/b.rs | head", found) == found
    for fine in ("gh pr diff 9", "gh pr diff", "gh pr diff 9 --name-only", "gh pr diff --repo a/b 9", "gh pr view 9 10", "gh pr diff $N x"):
        assert before_command(fine, found) == []
    assert after_failure("gh pr view 9 10", AT_MOST, None, found) == []
