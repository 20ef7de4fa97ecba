"""Sequences that a project runs together, and actions that tell good turns from those that were sent back."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.stages.mine import draw
from ctx_pipeline_tests.factories.views import SECOND, START, view

ASK = "add a flag that skips hidden files please"


def drawn(*sessions):
    method = discovery.methods()["action_patterns"]
    return method, [c for s in sessions for c in draw(method, s.build())[0]]


def lessons(*sessions):
    method, found = drawn(*sessions)
    return consolidate(method.combine(found))


def day(name, number, **place):
    return view(name, start=START + number * 86_400 * SECOND, **place)


def released(name, number, **place):
    """A change, the docs built, the changelog checked, and other work."""
    return (
        day(name, number, **place)
        .prompt(ASK)
        .edit("/w/app/a.py")
        .shell("make docs", text="ok")
        .shell("npm run lint", text="ok")
        .prompt("what is left to do here?")
        .shell("cargo test", text="ok")
    )


@pytest.mark.feature("mining.action-patterns")
def test_a_sequence_of_two_sessions_is_told_once_as_the_longest_with_its_figures():
    (found,) = lessons(released("a", 1), released("b", 2))
    assert found.text == ("after a change → `make docs` run `npm run lint`: so it was 2 of 2 times in 2 sessions, and in 50% of all turns")
    body = json.loads(found.structured)
    assert body["steps"] == ["a change", "`make docs`", "`npm run lint`"]
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
        (released("a", 1), day("b", 2).prompt(ASK).shell("make docs").shell("cargo test").shell("make docs").shell("npm run build")),
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
    assert len(told) == 12


@pytest.mark.feature("mining.action-patterns", "memory.supersession")
def test_of_two_methods_that_tell_the_same_steps_the_one_with_less_support_is_marked():
    def checked(name, number):
        built = day(name, number).prompt(ASK).edit("/w/app/a.py").shell("make fmt").shell("make lint")
        return built.prompt("now tell me what is left").shell("cargo tree")

    sessions = [checked("a", 1), checked("b", 2)]
    methods = [discovery.methods()[name] for name in ("action_patterns", "project_conventions")]
    rows = [row for m in methods for row in m.combine([c for s in sessions for c in draw(m, s.build())[0]])]
    pattern, order = sorted((m for m in consolidate(rows) if "steps" in json.loads(m.structured)), key=lambda m: m.methods)
    assert (pattern.methods, order.methods) == (["action_patterns"], ["project_conventions"])
    assert [m.superseded_by for m in (pattern, order)].count(None) == 1
    assert {pattern.superseded_by, order.superseded_by} <= {None, pattern.memory_id, order.memory_id}
