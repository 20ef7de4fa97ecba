"""What a session taught: learned from what happened, confirmed by what happened later, and retired."""

from __future__ import annotations

import pytest

from ctx_pipeline.mcp_server.session_tools import SessionTools
from ctx_pipeline.sessions.states.playbook import TURNS, playbook, shown_lines
from ctx_pipeline_tests.factories.claude import ClaudeHome
from ctx_pipeline_tests.factories.codex import THREAD
from ctx_pipeline_tests.factories.views import view
from ctx_pipeline_tests.sessions.conftest import LATER, WORK, Shop

MISSING = "bash: pytest: command not found"
PASSED = "5 passed in 0.1s"


def failing_call():
    """A session in which a program is missing, and the call that works is found."""
    session = view(cwd="/w").prompt("Fix the sum of the cart in shop/cart.py")
    return session.shell("pytest", exit=127, text=MISSING).shell("uv run pytest", exit=0, text=PASSED)


@pytest.mark.feature("session.playbook")
def test_a_call_that_works_is_confirmed_each_time_it_works_again():
    session = failing_call().shell("uv run pytest", exit=0, text=PASSED).shell("uv run pytest", exit=0, text=PASSED)
    pitfall, check = sorted(playbook(session.build()), key=lambda e: e.kind, reverse=True)

    assert (pitfall.kind, pitfall.confirmed, pitfall.contradicted, pitfall.retired) == ("pitfall", 2, 0, "")
    assert pitfall.text == "`pytest` fails with “bash: pytest: command not found”; `uv run pytest` works."
    assert (check.kind, check.text, check.confirmed) == ("check", "`uv run pytest` runs the tests", 2)
    assert {e[:3] for e in pitfall.events} == {"s1."}


@pytest.mark.feature("session.playbook")
def test_a_cure_is_confirmed_only_where_it_ended_the_failure_again():
    missing = "E   ModuleNotFoundError: No module named 'yaml'"
    begun = view(cwd="/code/shop").prompt("Fix the sum of the cart in shop/cart.py")
    begun = begun.shell("pytest", exit=2, text=missing).shell("pip install pyyaml", exit=0, text="ok").shell("pytest", exit=0, text=PASSED)

    def told(session):
        (entry,) = [e for e in playbook(session.build()) if e.kind == "pitfall"]
        assert entry.text.endswith("until `pip install pyyaml` has run.")
        return entry.confirmed, entry.contradicted

    only_passes = begun.shell("pytest", exit=0, text=PASSED).shell("pytest", exit=0, text=PASSED)
    assert told(only_passes) == (0, 0)
    without_cure = only_passes.shell("pytest", exit=2, text=missing).shell("pytest", exit=0, text=PASSED)
    assert told(without_cure) == (0, 0)
    cured = without_cure.shell("pytest", exit=2, text=missing).shell("pip install pyyaml", exit=0, text="ok")
    assert told(cured.shell("pytest", exit=0, text=PASSED)) == (1, 0)


@pytest.mark.feature("session.playbook")
def test_a_long_cure_is_known_again():
    missing = "E   ModuleNotFoundError: No module named 'yaml'"
    session = view(cwd="/code/shop").prompt("Fix the sum of the cart in shop/cart.py")
    for _ in range(2):
        session = session.shell("pytest", exit=2, text=missing)
        session = session.shell(f"pip install pyyaml --index-url https://pypi.example.com/{'mirror/' * 25}", exit=0, text="ok")
        session = session.shell("pytest", exit=0, text=PASSED)
    (entry,) = [e for e in playbook(session.build()) if e.kind == "pitfall"]

    assert (entry.confirmed, entry.contradicted) == (1, 0)


@pytest.mark.feature("session.playbook")
def test_a_pitfall_of_which_no_call_is_kept_is_neither_confirmed_nor_retired_by_later_calls():
    session = view(cwd="/code/shop").prompt("Look at the release of the shop")
    session = session.shell("helm status a 5 --debug", exit=1, text="accepts 1 arg(s), received 2").shell("helm status a", text="fine")
    session = session.shell("helm status b", exit=0, text="fine").shell("pytest", exit=0, text=PASSED)
    (entry,) = [e for e in playbook(session.build()) if e.kind == "pitfall"]

    assert entry.text.startswith("`helm status` takes 1 argument")
    assert (entry.confirmed, entry.contradicted, entry.retired) == (0, 0, "")


@pytest.mark.feature("session.playbook")
def test_a_failed_test_that_passes_when_called_in_another_way_is_no_pitfall():
    session = view(cwd="/code/shop").prompt("Fix the sum of the cart in shop/cart.py")
    session = session.shell("pytest", exit=1, text="FAILED tests/test_cart.py::test_sum - AssertionError: 1 != 2\n1 failed in 0.1s")
    session = session.shell("pytest -q", exit=0, text=PASSED).shell("pytest -q", exit=0, text=PASSED)

    assert [e.kind for e in playbook(session.build())] == ["check"]


@pytest.mark.feature("session.playbook")
def test_a_call_that_works_later_as_it_was_retires_its_entry():
    session = failing_call().shell("pytest", exit=0, text=PASSED)
    (entry,) = [e for e in playbook(session.build()) if e.kind == "pitfall"]

    assert entry.retired == "`pytest` worked later as it was"
    assert shown_lines([entry]) == []


@pytest.mark.feature("session.playbook")
def test_a_rule_retires_when_the_person_says_the_opposite_and_is_confirmed_when_they_repeat_it():
    begun = view(cwd="/w").prompt("Add the release notes to docs/release.md").edit("/w/docs/release.md").answer("Done.")
    begun = begun.prompt("always squash the commits before you push").answer("Done.")
    kept = playbook(begun.build())
    assert [(e.kind, e.text, e.confirmed) for e in kept] == [("rule", "always squash the commits before you push", 0)]
    again = playbook(begun.prompt("I said: always squash the commits before you push").answer("Done.").build())
    assert [(e.confirmed, e.retired) for e in again if e.kind == "rule"] == [(1, "")]
    against = playbook(begun.prompt("never squash the commits before you push").answer("Done.").build())
    first = next(e for e in against if e.text.startswith("always"))
    assert first.retired == "the person said later: never squash the commits before you push"
    assert shown_lines(against) == ["never squash the commits before you push"]


@pytest.mark.feature("session.playbook")
def test_what_nothing_confirmed_for_fifty_prompts_retires():
    session = failing_call()
    for n in range(TURNS):
        session.prompt(f"Say what line {n} of the cart means").answer("It adds up.")
    assert [e.retired for e in playbook(session.build()) if e.kind == "pitfall"] == [""]
    session.prompt("And the last line?").answer("It returns.")
    assert [e.retired for e in playbook(session.build()) if e.kind == "pitfall"] == [f"nothing confirmed it for {TURNS + 1} prompts"]


@pytest.mark.feature("session.playbook")
def test_a_playbook_is_shown_by_a_command_with_the_status_and_by_the_tool(own: Shop, monkeypatch):
    made = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    made.prompt("Fix the prices in shop/prices.py")
    made.call("t1", "Bash", f"Exit code 127\n{MISSING}", command="pytest", is_error=True)
    for n in (2, 3):
        made.call(f"t{n}", "Bash", PASSED, command="uv run pytest", structured={"stdout": PASSED, "stderr": "", "interrupted": False})
    made.prompt("never push to the branch main")
    made.save()
    assert own.ctx(monkeypatch, "session", "save").exit_code == 0

    pitfall = "`pytest` fails with “bash: pytest: command not found”; `uv run pytest` works."
    entries = own.json(monkeypatch, "session", "playbook", "--session", LATER)["entries"]
    assert [(e["kind"], e["text"], e["confirmed"]) for e in entries] == [
        ("pitfall", pitfall, 1),
        ("check", "`uv run pytest` runs the tests", 1),
        ("rule", "never push to the branch main", 0),
    ]
    assert pitfall in own.ctx(monkeypatch, "session", "playbook", "--session", LATER).stdout
    status = own.ctx(monkeypatch, "session", "status", "--session", LATER).stdout.splitlines()
    assert status[status.index("Playbook (3):") + 1] == f"  {pitfall} (confirmed 1x)"
    answer = SessionTools(own.settings, lambda *_, **__: {}).ctx_session("playbook", session_id=LATER)
    assert answer.text.splitlines()[0] == f"{pitfall} (confirmed 1x)"
    assert "`pytest -q` runs the tests" in own.ctx(monkeypatch, "session", "playbook", "--session", WORK).stdout
    assert "nothing was learned" in own.ctx(monkeypatch, "session", "playbook", "--session", THREAD).stdout
