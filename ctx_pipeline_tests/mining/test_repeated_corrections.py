"""Rules that the person types again and again."""

from __future__ import annotations

import pytest

from ctx_pipeline.mining.repeated_corrections import combine, extract
from ctx_pipeline.model.memories import store_candidate
from ctx_pipeline_tests.factories.views import view


def mined(*sessions):
    rows = []
    for session in sessions:
        built = session.build()
        rows += [store_candidate(c, session=built.session, method="repeated_corrections", version=1) for c in extract(built)]
    return rows


@pytest.mark.feature("mining.repeated-corrections")
def test_a_rule_said_in_two_sessions_is_kept_with_its_quotes():
    rows = mined(
        view("a").prompt("Add a parser. Please use uv instead of pip!"),
        view("b").prompt("no, use uv instead of pip").prompt("thanks"),
        view("c").prompt("never commit to main directly"),
    )
    kept = list(combine(rows))
    assert {c.session_id for c in kept} == {"a", "b"}
    assert {tuple(c.body["quotes"]) for c in kept} == {("Please use uv instead of pip!", "no, use uv instead of pip")}
    assert {c.scope for c in kept} == {"repo"}


@pytest.mark.feature("mining.repeated-corrections")
def test_a_rule_heard_in_two_repositories_is_the_persons():
    kept = list(
        combine(
            mined(
                view("a", cwd="/w/x").prompt("always run the linter before you commit"),
                view("b", cwd="/w/y").prompt("always run the linter before you commit"),
            )
        )
    )
    assert {c.scope for c in kept} == {"user"}


@pytest.mark.feature("mining.repeated-corrections")
def test_the_opposite_is_not_the_same_rule():
    assert (
        list(combine(mined(view("a").prompt("always use tabs in makefiles here"), view("b").prompt("never use tabs in makefiles here"))))
        == []
    )


@pytest.mark.feature("mining.own-words")
@pytest.mark.parametrize(
    "session",
    [
        view().injected("never commit to main directly"),
        view().answer("never commit to main directly"),
        view().prompt("```\nnever commit to main directly\n```"),
        view().prompt("> never commit to main directly"),
        view().prompt("<ctx-memories>\nnever commit to main directly\n</ctx-memories>"),
        view().prompt("should we never commit to main directly?"),
        view().prompt("don't worry about the tests for now"),
        view().prompt("don't"),
    ],
    ids=["injected", "answer", "code", "quote", "woven", "question", "about-now", "too-short"],
)
def test_only_the_persons_own_rules_are_read(session):
    assert list(extract(session.build())) == []
