"""Numbers that the tools before us got wrong, each as a session in which ours is right.

Those of usage carry the same mark where usage is tested: the largest output of a
streamed response, repeated totals, models without a price, one embedded cost beside
list prices, and calls of one session on two days. Commits are in ``test_git_outcome``.
"""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.pipeline.measure import take
from ctx_pipeline_tests.factories.views import view

SIGNALS = discovery.signals()


def value(name, session):
    return take(SIGNALS[name], session.build()).value


@pytest.mark.feature("signals.wrong-numbers")
def test_a_call_and_its_result_are_one():
    session = view().shell("ls").shell("pytest").edit("a.py").tool("WebSearch", action="web").tool("Read", action="read", paths=("a.py",))
    assert value("command_count", session) == 2
    assert value("file_edit_count", session) == 1
    assert value("web_search_count", session) == 1
    assert value("tool_call_count", session) == 5
    assert value("trajectory_step_count", session) == 5


@pytest.mark.feature("signals.wrong-numbers")
def test_failed_commands_and_their_share_count_the_same_commands():
    session = view().shell("pytest", exit=1).shell("ls").edit("a.py", failed=True).tool("Read", action="read", failed=True)
    assert value("failed_command_count", session) == 1
    assert value("failed_command_ratio", session) == 0.5


@pytest.mark.feature("signals.wrong-numbers")
def test_a_failure_without_a_recorded_status_is_a_failure():
    session = view().shell("pytest", exit=None, failed=True, text="=== 1 failed in 0.10s ===").shell("ls")
    assert value("failed_command_count", session) == 1
    assert value("failed_test_run_count", session) == 1


@pytest.mark.feature("signals.wrong-numbers")
def test_copies_are_not_counted_and_subagents_are():
    session = view().model(1000, 100).subagent("agent-1").model(99_000, 5_000)
    session.on("main").model(1000, 100)
    session.model_calls[-1] = session.model_calls[-1]._replace(owner=False, copy_of="s0.m0")
    assert value("session_tokens", session) == 1100 + 104_000


@pytest.mark.feature("signals.wrong-numbers")
def test_a_model_without_a_price_costs_null_and_not_nothing():
    assert value("session_cost", view().model(1000, 100)) is None
    mixed = view().model(1000, 0, cost=3_000_000_000).model(1000, 0)
    found = take(SIGNALS["session_cost"], mixed.build())
    assert (found.value, found.confidence, found.metadata) == (3.0, 0.5, {"without_price": ["claude-sonnet-4-5"]})


@pytest.mark.feature("signals.wrong-numbers")
def test_an_edit_about_exceptions_is_an_edit_and_results_are_read():
    session = (
        view()
        .prompt("fix it")
        .shell("pytest", exit=1, text="E  ValueError: failed")
        .edit("src/exception_failed_error.py")
        .shell("pytest", exit=1, text="1 failed in 0.1s")
        .edit("src/exception_failed_error.py")
        .shell("pytest", text="3 passed in 0.1s")
    )
    assert value("trajectory_action_count_generate_fix", session) == 2
    assert value("trajectory_action_count_error", session) == 0
    assert value("trajectory_validation_presence", session) is True
    assert value("trajectory_test_fix_loop_count", session) == 1
    assert value("trajectory_failed_result_recovery_steps", session) == 1
    assert value("trajectory_error_to_search_or_edit_ratio", session) == 1


@pytest.mark.feature("signals.wrong-numbers")
def test_searches_and_delegations_are_not_other():
    session = view().tool("Grep", action="search").tool("Glob", action="search").tool("Task", action="task")
    session.shell(["bash", "-lc", "rg -n todo"])
    assert value("trajectory_action_ratio_other", session) == 0
    assert value("code_search_count", session) == 3


@pytest.mark.feature("signals.wrong-numbers")
@pytest.mark.feature("signals.unique-files-read")
def test_files_read_through_the_shell_are_files_read():
    session = view().shell("sed -n '1,80p' src/a.py").shell("cat src/a.py src/b.py | head").shell("rg -n x src/c.py")
    session.shell("cat missing.py", exit=1).tool("Read", action="read", paths=("src/d.py",))
    assert value("unique_files_read", session) == 3


@pytest.mark.feature("signals.wrong-numbers")
def test_words_about_limits_and_interrupts_are_neither():
    session = view().prompt("implement a rate limit middleware that answers 429").answer("The interrupt is handled; rate limit exceeded.")
    session.shell("pytest", text="429 Too Many Requests")
    assert value("rate_limit_hit_count", session) == 0
    assert value("interrupted_signal", session) is False
    assert value("interruption_count", session) == 0


@pytest.mark.feature("signals.wrong-numbers")
@pytest.mark.feature("signals.messages")
def test_messages_are_what_was_typed():
    session = view().prompt("do it").injected("<command-name>/clear</command-name>", "command-name").injected("Caveat: ...", "meta")
    session.injected("[Request interrupted by user]", "interrupt").injected("This session is being continued", "compact-summary").answer(
        "ok"
    )
    assert value("user_message_count", session) == 1
    assert value("assistant_message_count", session) == 1


@pytest.mark.feature("signals.wrong-numbers")
def test_files_touched_are_files():
    session = view().prompt("/clear").shell("echo /not/a/file").tool("Skill", action="other", argv=["/w/app"]).edit("/w/app/a.py")
    assert value("unique_files_edited", session) == 1
    assert value("unique_files_read", session) == 0


@pytest.mark.feature("signals.wrong-numbers")
@pytest.mark.feature("signals.null-reason")
def test_a_share_of_nothing_is_null_with_a_reason():
    empty = view().prompt("hello").answer("hi").build()
    for name, found in SIGNALS.items():
        if name.startswith("trajectory_") and found.unit == "ratio":
            reading = take(found, empty)
            assert reading.value is None, name
            assert reading.reason


@pytest.mark.feature("signals.wrong-numbers")
@pytest.mark.feature("signals.first-edit")
def test_a_clock_that_ran_backwards_gives_no_negative_time():
    session = view().prompt("go").edit("a.py")
    session.calls[0] = session.calls[0]._replace(started=session.start - 10, ended=session.start - 5)
    found = take(SIGNALS["time_to_first_edit_seconds"], session.build())
    assert (found.value, found.reason) == (None, "every change has an earlier time than the first prompt")


@pytest.mark.feature("signals.wrong-numbers")
@pytest.mark.feature("signals.secrets")
def test_two_secrets_are_two_wherever_they_are_repeated_and_no_value_is_told():
    both = "export AWS_KEY=[REDACTED:aws-access-key] ANTHROPIC_API_KEY=[REDACTED:anthropic-key]"
    session = view().prompt(both).shell(both, text=both).answer("password = getpass.getpass()")
    found = take(SIGNALS["secret_exposure_count"], session.build())
    assert (found.value, found.metadata) == (2, {"detectors": {"anthropic-key": 1, "aws-access-key": 1}})
    assert take(SIGNALS["secret_exposure_signal"], session.build()).value is True


@pytest.mark.feature("signals.secrets")
def test_secrets_of_one_kind_in_one_text_are_several():
    session = view().shell("cat keys", text="[REDACTED:aws-access-key]\n[REDACTED:aws-access-key]").answer("[REDACTED:aws-access-key]")
    assert value("secret_exposure_count", session) == 2
