"""Sentences in which people correct coding agents, written down from general knowledge, against those of a moment."""

from __future__ import annotations

import csv
import json
import re
import time
from pathlib import Path

import pytest

from ctx_pipeline.memory.consolidation import store_candidate
from ctx_pipeline.mining.lessons.rules import rule_languages
from ctx_pipeline.mining.lessons.rules.said_rules import rule
from ctx_pipeline.mining.repeated_corrections import combine, extract
from ctx_pipeline_tests.factories.views import view

SENTENCES = Path(__file__).with_name("rule_sentences.tsv")
LEAST = 0.88
"""Share of the rules that are told of one session that says them."""

LEAST_UNSEEN = 0.5
"""The same of rules that were written when the forms were done, for which nobody tunes."""


def sentences(kind):
    with SENTENCES.open(encoding="utf-8", newline="") as file:
        return [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["kind"] == kind]


def told(*prompts):
    session = view("a").shell("git status", text="clean")
    for said in prompts:
        session = session.prompt(said).shell("ls", text="a.py")
    built = session.build()
    rows = [store_candidate(c, session=built.session, method="repeated_corrections", version=1) for c in extract(built)]
    return list(combine(rows))


@pytest.mark.feature("mining.said-rules", "mining.rules-in-languages")
def test_most_rules_are_heard_in_the_words_of_people_and_no_request_of_a_moment_is_one():
    rules = sentences("rule")
    missed = [said for said in rules if not told(said)]
    assert len(missed) <= (1 - LEAST) * len(rules), missed
    assert [said for said in sentences("moment") if told(said)] == []
    unseen = sentences("unseen")
    assert sum(bool(told(said)) for said in unseen) >= LEAST_UNSEEN * len(unseen)


@pytest.mark.feature("mining.said-rules")
@pytest.mark.parametrize(
    "said",
    [
        "i hate it when you add comments everywhere",
        "use snake_case for all python files",
        "avoid any in typescript",
        "please stop adding docstrings to tests",
        "can you stop adding comments to everything",
        "dont write readme files unless i ask for it",
        "mach keine neuen dateien ohne zu fragen",
        "commit messages immer auf englisch",
    ],
)
def test_a_rule_about_the_agents_work_is_heard_of_one_session(said):
    assert [c.text for c in told(said)] == [said]


@pytest.mark.feature("mining.said-rules")
@pytest.mark.parametrize(
    "said",
    [
        "in this project the login button must be blue",
        "i always want to see the total at the bottom of the cart",
        "python 3.9 only",
        "use 3 workers instead of 5",
        "never send a push notification at night",
        "only admins can delete branches in our app",
        "the guide tells people to use yarn instead of npm",
        "yeah great, never test anything, works every time",
    ],
)
def test_what_a_product_is_to_do_an_amount_and_what_others_say_are_no_rules(said):
    assert told(said) == []


@pytest.mark.feature("mining.rules-in-languages")
@pytest.mark.parametrize(
    "said",
    [
        "Bitte immer pnpm statt npm benutzen.",
        "N'utilise pas npm, utilise pnpm.",
        "Usa siempre pnpm en lugar de npm.",
        "Não use npm, use pnpm.",
        "Usa sempre pnpm invece di npm.",
        "Gebruik pnpm in plaats van npm.",
        "npm 대신 pnpm 사용해 주세요",
        "我们用 pnpm,不用 npm",
        "npmではなくpnpmを使ってください",
        "stop using npm, it's pnpm",
        "You keep using npm, use pnpm!",
    ],
)
def test_the_program_that_is_wanted_and_the_one_that_is_not_are_told_apart(said):
    found = rule(said)
    assert found is not None
    assert (found.form, set(found.want), set(found.avoid)) == ("pair", {"pnpm"}, {"npm"})


@pytest.mark.feature("mining.said-rules")
def test_programs_of_another_sentence_are_looked_for_with_the_patterns_that_are_there(monkeypatch: pytest.MonkeyPatch):
    assert rule("wir benutzen uv, nicht pip") is not None
    made = []
    monkeypatch.setattr(rule_languages, "lazy_pattern", lambda source, *_: made.append(source) or re.compile(source))
    assert rule("bitte uv benutzen, nicht pip") is not None
    assert made == []


@pytest.mark.feature("mining.rules-said-again")
def test_a_rule_that_had_to_be_said_again_is_laid_down_and_one_that_was_sent_twice_is_not():
    said = "use pnpm, not npm"
    assert [(c.confidence, c.body["quotes"]) for c in told(said, said)] == [(0.35, [said])]
    (again,) = told(said, "no, we use pnpm here")
    assert (again.confidence, again.body["quotes"], len(again.evidence)) == (0.5, [said, "no, we use pnpm here"], 2)


@pytest.mark.feature("mining.rules-said-again")
def test_an_answer_to_a_question_of_the_agent_can_be_a_rule():
    question = 'User has answered: "Which package manager?"="always use pnpm here"'
    built = view("a").prompt("add a page").tool("Ask", action="ask", text=question).build()
    (found,) = extract(built)
    assert (found.text, found.evidence_refs) == ("always use pnpm here", (built.tool_calls[0].result_event,))
    printed = view("a").prompt("add a page").shell("cat notes", text=question).build()
    assert list(extract(printed)) == []


@pytest.mark.feature("mining.said-rules")
@pytest.mark.parametrize("said", ["keep going", "I prefer option B", "I prefer the second approach"])
def test_a_request_of_a_moment_is_no_rule_though_it_comes_again(said):
    assert rule(said) is None


@pytest.mark.feature("mining.said-rules")
@pytest.mark.parametrize("piece", ["-", "- ", "a/", "no,", ". ", "please,"])
@pytest.mark.parametrize("begins", ["don't ", "before commit ", "use ", ""])
def test_what_is_pasted_is_not_read_as_a_sentence(begins, piece):
    pasted = f"{begins}{piece * (200_000 // len(piece))}!"
    began = time.process_time()
    built = view("a").prompt(pasted).tool("Ask", action="ask", text=json.dumps({"answers": {"q": {"answers": [pasted]}}}))
    built = built.build()
    list(extract(built))
    rule(pasted)
    assert time.process_time() - began < 1.5
