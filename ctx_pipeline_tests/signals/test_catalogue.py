"""The documented signals are all there, and what hand-made sessions make of those that no other test has."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.signals import cost, spending, trajectory
from ctx_pipeline_tests.factories.views import SECOND, view

SIGNALS = discovery.signals()

DOCUMENTED = {
    "activity": "command_count file_edit_count unique_files_edited unique_files_read web_search_count"
    " user_message_count assistant_message_count",
    "cost": "session_duration_seconds time_to_first_edit_seconds user_correction_count",
    "outcome": "failed_command_count failed_command_ratio user_satisfaction_lexical interrupted_signal",
    "risk": "secret_exposure_count secret_exposure_signal unknown_event_count events_without_timestamps capture_gap_signal",
}
TRAJECTORY = (
    "step_count unknown_action_ratio phase_coverage validation_presence action_redundancy consecutive_repetition_count max_repetition_run"
    " 4gram_repetition_ratio 4gram_top sequence_entropy phase_transition_count repeated_action_without_progress"
    " fix_without_validation_count fix_validation_latency_steps premature_finish_without_validation test_fix_loop_count"
    " failed_result_recovery_steps failure_ignored_count result_token_reuse_ratio error_to_search_or_edit_ratio"
    " exploration_ratio exploitation_ratio balance_score"
)


@pytest.mark.feature("signals.base-catalogue")
def test_every_documented_signal_is_there_under_its_name_and_group():
    for group, names in DOCUMENTED.items():
        for name in names.split():
            assert SIGNALS[name].group == group, name
    for name in TRAJECTORY.split():
        assert f"trajectory_{name}" in SIGNALS
    for category in (*trajectory.CORE, "permission", "error", "other"):
        assert {f"trajectory_action_count_{category}", f"trajectory_action_ratio_{category}"} <= SIGNALS.keys()


def take(signal, session):
    return signal.function(session.build())


@pytest.mark.feature("signals.web-searches")
def test_the_word_search_is_no_search_on_the_web():
    session = (
        view().shell("cat src/web_search.py").tool("Grep", action="search").tool("WebSearch", action="web").tool("WebFetch", action="web")
    )
    assert take(SIGNALS["web_search_count"], session).evidence == ("s1.e4", "s1.e6")


@pytest.mark.feature("signals.idle")
@pytest.mark.feature("signals.duration")
def test_time_before_a_prompt_and_long_silence_are_idle_and_the_rest_is_work():
    session = view().prompt("go").shell("pytest").prompt("go on").shell("make")
    session.events[3] = session.events[3]._replace(ts=session.start + 1000 * SECOND)
    for place, at in ((4, 1010), (5, 4010)):
        session.events[place] = session.events[place]._replace(ts=session.start + at * SECOND)
    session.calls[1] = session.calls[1]._replace(started=session.start + 1010 * SECOND, ended=session.start + 4010 * SECOND)
    assert take(cost.session_duration_seconds, session).value == 4010
    assert take(cost.idle_seconds, session).value == (1000 - 2) + 3000
    assert take(cost.active_seconds, session).value == 2 + 10
    assert take(cost.idle_seconds, session).evidence == ("s1.e5", "s1.e3")


@pytest.mark.feature("signals.first-edit")
def test_only_a_change_that_succeeded_ends_the_search_for_the_place():
    session = view().prompt("go").edit("a.py", failed=True).prompt("try b").edit("b.py")
    assert take(cost.time_to_first_edit_seconds, session).value == 5
    assert take(cost.prompts_to_first_edit, session).value == 2
    assert take(cost.time_to_first_edit_seconds, view().prompt("go")).reason == "no file was changed"


@pytest.mark.feature("signals.trajectory-unknown")
@pytest.mark.feature("signals.trajectory-coverage")
@pytest.mark.feature("signals.trajectory-transitions")
@pytest.mark.feature("signals.trajectory-entropy")
@pytest.mark.feature("signals.exploration-share")
@pytest.mark.feature("signals.repetition-run")
@pytest.mark.feature("signals.repetition-fourgrams")
def test_the_shape_of_five_steps():
    session = view().shell("ls").shell("pwd").edit("a.py").shell("ls src").shell("git push")
    assert take(trajectory.trajectory_unknown_action_ratio, session).value == 0.2
    assert take(trajectory.trajectory_phase_coverage, session).value == 0.25
    assert take(trajectory.trajectory_phase_transition_count, session).value == 3
    assert take(trajectory.trajectory_sequence_entropy, session).value == 1.371
    assert take(trajectory.trajectory_exploration_ratio, session).value == 0.6
    assert take(trajectory.trajectory_exploitation_ratio, session).value == 0.2
    assert take(trajectory.trajectory_balance_score, session).value == pytest.approx(0.6)
    assert take(trajectory.trajectory_max_repetition_run, session).metadata == {"kind": "explore"}
    assert take(trajectory.trajectory_consecutive_repetition_count, session).evidence == ("s1.e2",)
    assert take(trajectory.trajectory_4gram_repetition_ratio, session).value == 0


@pytest.mark.feature("signals.retry-without-progress")
def test_the_same_call_is_no_progress_unless_something_changed_or_the_answer_did():
    def found(session):
        return take(trajectory.trajectory_repeated_action_without_progress, session).value

    assert found(view().shell("git status", text="clean").shell("ls").shell("git status", text="clean")) == 1
    assert found(view().shell("git status", text="clean").shell("git status", text="M a.py")) == 0
    assert found(view().shell("pytest", exit=1, text="1 failed in 0.1s").shell("pytest", exit=1, text="1 failed in 0.2s")) == 1
    assert found(view().shell("pytest", exit=1, text="x").edit("a.py").shell("pytest", exit=1, text="x")) == 0
    assert found(view().shell("ls", text="a").shell("pwd").shell("date").shell("wc x").shell("ls", text="a")) == 0


@pytest.mark.feature("signals.tokens-per-step")
@pytest.mark.feature("signals.subagents")
def test_tokens_are_shared_out_over_steps_changes_and_subagents():
    session = (
        view().model(900, 100).edit("a.py").edit("b.py").shell("pytest", exit=1).subagent("agent-1").model(3000, 0, cost=10**9).shell("ls")
    )
    assert take(spending.tokens_per_step, session).value == 1000
    assert take(spending.tokens_per_edit, session).value == 2000
    failed = view().model(900, 100).edit("a.py").shell("sed -i s/a/b/ b.py", exit=1)
    assert take(spending.tokens_per_edit, failed).value == 1000
    assert take(spending.tokens_per_passing_check, session).reason == "no check passed"
    checked = view().model(900, 100).shell("ruff check . && pytest -q", text="All checks passed!\n3 passed in 0.1s").shell("pytest --co")
    assert take(spending.tokens_per_passing_check, checked).metadata == {"count": 2}
    found = take(spending.subagent_token_ratio, session)
    assert (found.value, found.metadata) == (0.75, {"dollars": 1.0})
    assert take(spending.subagent_count, session).metadata == {"agents": {"Explore": 1}}
    assert take(spending.failed_delegation_count, view().prompt("x")).reason == "nothing was delegated"
