"""Checks after changes, and what the agent did about failures."""

from __future__ import annotations

import pytest

from ctx_pipeline.signals import recovery, validation
from ctx_pipeline_tests.factories.views import view

RED = "1 failed, 2 passed in 0.10s"
GREEN = "3 passed in 0.10s"


def take(signal, session):
    return signal.function(session.build())


@pytest.mark.feature("signals.validation-presence")
def test_a_check_counts_after_the_first_fix_only():
    assert take(validation.trajectory_validation_presence, view().shell("pytest", text=GREEN).edit("a.py")).value is False
    checked = view().edit("a.py").shell("cargo build")
    assert take(validation.trajectory_validation_presence, checked).evidence == ("s1.e0", "s1.e3")
    found = take(validation.trajectory_validation_presence, view().edit("README.md").shell("pytest"))
    assert (found.value, found.reason) == (None, "no source file was changed")


@pytest.mark.feature("signals.fix-without-validation")
@pytest.mark.feature("signals.fix-validation-latency")
def test_ten_changes_before_one_check_are_one_change():
    session = view()
    for name in "abcdefghij":
        session.edit(f"{name}.py")
    session.shell("pytest", text=GREEN)
    assert take(validation.trajectory_fix_without_validation_count, session).value == 0
    assert take(validation.trajectory_fix_validation_latency_steps, session).value == 1


@pytest.mark.feature("signals.fix-without-validation")
@pytest.mark.feature("signals.fix-validation-latency")
@pytest.mark.parametrize(("looks", "unchecked"), [(3, 0), (4, 1)])
def test_a_check_that_comes_late_is_none(looks, unchecked):
    session = view().edit("a.py")
    for _ in range(looks):
        session.shell("ls")
    session.shell("pytest", text=GREEN)
    assert take(validation.trajectory_fix_without_validation_count, session).value == unchecked
    assert take(validation.trajectory_fix_validation_latency_steps, session).value == looks + 1


@pytest.mark.feature("signals.premature-finish")
def test_the_last_change_decides_over_all_threads():
    session = view().edit("a.py").on("agent-1").shell("pytest", text=GREEN)
    assert take(validation.trajectory_premature_finish_without_validation, session).value is False
    assert take(validation.trajectory_premature_finish_without_validation, session.on("main").edit("b.py")).value is True


@pytest.mark.feature("session.person-ran")
@pytest.mark.parametrize(("ran", "printed", "checked"), [("pytest -q", GREEN, True), ("pytest -q", RED, True), ("ls", "a.py", False)])
def test_a_check_that_the_person_ran_in_the_prompt_checks_what_was_changed_before_it(ran, printed, checked):
    said = (f"<bash-input> {ran}</bash-input>", f"<bash-stdout>{printed}</bash-stdout><bash-stderr></bash-stderr>")
    behind = view().edit("a.py").injected(said[0], "bash-input").injected(said[1], "bash-stdout")
    assert take(validation.trajectory_premature_finish_without_validation, behind).value is not checked
    assert take(validation.trajectory_validation_presence, behind).value is checked
    before = view().injected(said[0], "bash-input").injected(said[1], "bash-stdout").edit("a.py")
    assert take(validation.trajectory_premature_finish_without_validation, before).value is True


@pytest.mark.feature("signals.test-fix-loops")
@pytest.mark.feature("signals.time-to-validate")
def test_a_round_is_a_change_between_two_runs_of_the_same_check():
    session = (
        view()
        .shell("pytest", exit=1, text=RED)
        .shell("pytest", exit=1, text=RED)
        .edit("a.py")
        .shell("ls")
        .shell("pytest -x | tail", text=RED)
    )
    session.edit("a.py").shell("ruff check .", exit=1, text="Found 1 error.").shell("pytest", text=GREEN)
    assert take(validation.trajectory_test_fix_loop_count, session).value == 1
    assert take(validation.trajectory_test_fix_loop_count, session).evidence == ("s1.e1", "s1.e9")
    assert take(validation.steps_to_green, session).value == 7


@pytest.mark.feature("signals.edit-churn")
def test_lines_changed_twice_are_churn_and_lines_of_context_are_not():
    session = view().edit("a.py").edit("a.py").edit("b.py")
    for place, span in enumerate(("10-25", "20-35", "20-35")):
        session.calls[place] = session.calls[place]._replace(ranges=[span])
    found = take(validation.edit_churn_ratio, session)
    assert (found.value, found.evidence, found.metadata) == (0.0, (), {"changed": 30, "again": 0})
    session.calls[1] = session.calls[1]._replace(ranges=["15-30"])
    assert take(validation.edit_churn_ratio, session).metadata == {"changed": 30, "again": 5}


@pytest.mark.feature("signals.edit-churn")
def test_a_file_changed_again_after_a_check_is_reworked():
    session = view().edit("a.py").edit("a.py").edit("b.py").shell("pytest", exit=1, text=RED).edit("a.py").edit("c.py", failed=True)
    found = take(validation.reworked_file_count, session)
    assert (found.value, found.metadata) == (1, {"files": ["a.py"]})


@pytest.mark.feature("signals.failure-ignored")
@pytest.mark.parametrize(
    ("then", "ignored"),
    [
        (lambda s: s.answer("All good, moving on.").shell("git status"), 0),
        (lambda s: s.answer("All good, moving on.").tool("TodoWrite", action="plan"), 1),
        (lambda s: s.answer("That failed; the binary is missing.").tool("TodoWrite", action="plan"), 0),
        (lambda s: s.tool("TodoWrite", action="plan").shell("gh release list"), 0),
        (lambda s: s.shell("pip install release-tools"), 0),
        (lambda s: s.shell("git commit -m 'v1.2.3 notes'"), 0),
        (lambda s: s.shell("git commit -m wip").answer("Done."), 1),
        (lambda s: s.answer("Done."), 1),
        (lambda s: s, 0),
        (lambda s: s.prompt("stop").answer("Done."), 0),
    ],
)
def test_a_failure_is_ignored_when_nothing_reacts_to_it(then, ignored):
    session = then(view().prompt("release it").shell("gh release view v1.2.3", exit=1, text="release v1.2.3 not found"))
    found = take(recovery.trajectory_failure_ignored_count, session)
    assert (found.value, found.evidence) == (ignored, ("s1.e2",) if ignored else ())


@pytest.mark.feature("signals.failure-ignored")
def test_a_search_without_a_hit_and_a_refusal_are_no_failures_to_react_to():
    session = view().shell("rg todo", exit=1).answer("Done.").tool("Edit", action="edit", refused="").answer("ok")
    assert take(recovery.trajectory_failure_ignored_count, session).value == 0
    assert take(recovery.trajectory_error_to_search_or_edit_ratio, session).reason == "no step failed"


@pytest.mark.feature("signals.recovery-steps")
def test_steps_until_something_else_is_tried_and_until_it_works():
    session = view().shell("make x", exit=2).shell("make x", exit=2).shell("cat Makefile").shell("make x")
    assert take(recovery.trajectory_failed_result_recovery_steps, session).value == 1.5
    assert take(recovery.steps_to_recovery, session).value == 3


@pytest.mark.feature("signals.error-to-search")
def test_what_follows_a_failure_is_a_look_a_change_or_something_else():
    session = (
        view().shell("make", exit=2).shell("cat Makefile").shell("make", exit=2).edit("Makefile").shell("make", exit=2).shell("git push")
    )
    assert take(recovery.trajectory_error_to_search_or_edit_ratio, session).value == pytest.approx(2 / 3)


@pytest.mark.feature("signals.result-reuse")
def test_names_of_a_result_that_the_next_step_takes_up():
    session = (
        view()
        .shell("rg load", text="src/load_all.py:3: raise KeyError\nsrc/other_file.py:1: x")
        .answer("KeyError comes from load_all.py")
        .shell("cat src/load_all.py")
    )
    found = take(recovery.trajectory_result_token_reuse_ratio, session)
    assert found.value == pytest.approx(2 / 3, abs=0.001)
