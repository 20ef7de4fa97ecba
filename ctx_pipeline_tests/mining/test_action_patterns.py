"""Sequences that a project runs together, and actions that tell good turns from those that were sent back."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline_tests.factories.views import SECOND, START, view

ASK = "add a flag that skips hidden files please"


def drawn(*sessions):
    method = discovery.methods()["action_patterns"]
    return method, [c for s in sessions for c in draw(method, s.build())[0]]


def lessons(*sessions):
    """Return the patterns of actions; that these sessions ask the same is another lesson."""
    method, found = drawn(*sessions)
    return [m for m in consolidate(method.combine(found)) if not m.body["subject"].startswith("requests")]


def day(name, number, **place):
    return view(name, start=START + number * 86_400 * SECOND, **place)


def released(name, number, **place):
    """A change, the database migrated, the code linted, and other work."""
    return (
        day(name, number, **place)
        .prompt(ASK)
        .edit("/w/app/a.py")
        .shell("rails db:migrate", text="ok")
        .shell("npm run lint", text="ok")
        .prompt("what is left to do here?")
        .shell("cargo test", text="ok")
    )


@pytest.mark.feature("mining.action-patterns")
def test_a_sequence_of_two_sessions_is_told_once_as_the_longest_with_its_figures():
    (found,) = lessons(released("a", 1), released("b", 2))
    assert found.text == "after a change, then `rails db:migrate`, run `npm run lint`: done 2 of 2 times, in 2 sessions"
    body = json.loads(found.structured)
    assert body["steps"] == ["a change", "`rails db:migrate`", "`npm run lint`"]
    assert (body["confidence"], body["lift"], found.support, found.repository) == (1.0, 2.0, 2, "/w/app")
    assert found.confidence == 0.75
    assert set(found.evidence) >= {"a.e3", "b.e3"}


@pytest.mark.feature("mining.action-patterns")
@pytest.mark.parametrize(
    "sessions",
    [
        (released("a", 1),),
        (released("a", 1), released("fork", 1)),
        (released("a", 1), released("b", 2, cwd="/w/other")),
        (
            released("a", 1),
            day("b", 2).prompt(ASK).shell("rails db:migrate").shell("cargo test").shell("rails db:migrate").shell("npm run build"),
        ),
        (day("a", 1).prompt(ASK).shell("git add .").shell("git commit"), day("b", 2).prompt(ASK).shell("git add .").shell("git commit")),
        (day("a", 1).prompt(ASK).shell("make x", exit=1).shell("make y", exit=1), day("b", 2).prompt(ASK).shell("make x", exit=1)),
    ],
    ids=["one session", "a fork", "two projects", "seldom followed", "git alone", "what failed"],
)
def test_what_proves_nothing_is_no_pattern(sessions):
    assert lessons(*sessions) == []


@pytest.mark.feature("mining.action-patterns")
def test_an_action_without_which_turns_are_sent_back_is_told():
    def turn(name, number, *, checked, back):
        built = day(name, number).prompt(ASK).edit("/w/app/a.py")
        built = built.shell("make e2e", text="ok") if checked else built
        return built.prompt("no, that is still broken" if back else "thanks, now tell me about the loader")

    sessions = [turn(f"c{n}", n, checked=True, back=False) for n in range(3)]
    sessions += [turn(f"u{n}", 10 + n, checked=False, back=n < 2) for n in range(3)]
    (found,) = lessons(*sessions)
    assert found.kind == "procedure"
    assert found.text == ("changes with `make e2e` in the same turn were sent back 0 of 3 times, changes without it 2 of 3 times")
    assert found.support == 3
    assert lessons(*sessions[:4], sessions[5]) == []


@pytest.mark.feature("mining.action-patterns")
def test_patterns_do_not_depend_on_the_order_of_candidates():
    method, found = drawn(*(released(f"s{n}", n) for n in range(12)))
    told = list(method.combine(found))
    assert told == list(method.combine(found[::-1]))
    assert [c.kind for c in told].count("repo_convention") == 12


@pytest.mark.feature("mining.action-patterns")
def test_a_sequence_of_checks_or_of_checks_and_git_is_left_to_the_conventions():
    def checked(name, number, *last):
        built = day(name, number).prompt(ASK).edit("/w/app/a.py").shell("make fmt").shell("make lint")
        for command in last:
            built = built.shell(command, text="ok")
        return built.prompt("now tell me what is left").shell("cargo tree")

    assert lessons(checked("a", 1), checked("b", 2)) == []
    assert lessons(*(checked(n, i, "git add .", "git commit -m x", "git push") for i, n in enumerate("ab"))) == []
    assert len(lessons(*(checked(n, i, "rails db:migrate") for i, n in enumerate("ab")))) == 1


@pytest.mark.feature("mining.returning-requests")
def test_a_request_is_quoted_with_an_ellipsis_where_an_address_stood_in_it():
    sessions = [day(n, i).prompt(f"why is https://ci/runs/{i} failing?").shell("gh run view 7", text="x") for i, n in enumerate("abc")]
    method, found = drawn(*(s.prompt("make a pr").shell("git switch main", text="ok") for s in sessions))
    (told,) = [m for m in consolidate(method.combine(found)) if m.body["subject"].startswith("requests")]
    assert told.text.startswith("in 3 sessions the person asked “why is … failing?”")
