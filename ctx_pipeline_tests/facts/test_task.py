"""What a session was asked to do."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.prompts import is_request, requests, task
from ctx_pipeline_tests.factories.views import view


@pytest.mark.feature("facts.task")
@pytest.mark.parametrize("text", ["push", "1", "</heartbeat>", "yes, go on", "Thank you!", "ok do that", "/review", "...", "y"])
def test_a_prompt_that_only_steers_is_no_request(text):
    assert not is_request(text)


@pytest.mark.feature("facts.task")
@pytest.mark.parametrize(
    "text", ["fix it", "add the logo", "why does push fail?", "run the tests again", "Ändere die Farbe", "<div> is broken"]
)
def test_what_asks_for_something_is_a_request(text):
    assert is_request(text)


@pytest.mark.feature("facts.task")
def test_the_first_and_the_last_request_are_known_and_steering_is_neither():
    session = view().prompt("1").prompt("Fix the sum of the cart in shop/cart.py").answer("done")
    session.prompt("Add a test for discounts to tests/test_cart.py").answer("done").prompt("push")
    found = task(session.build())
    assert found.first is not None
    assert found.now is not None
    assert (found.first.text, found.first.event_id) == ("Fix the sum of the cart in shop/cart.py", "s1.e1")
    assert (found.now.text, found.now.by) == ("Add a test for discounts to tests/test_cart.py", "prompt")


@pytest.mark.feature("facts.task")
def test_a_word_that_answers_the_agents_question_is_no_request_and_any_other_word_is_one():
    session = view().prompt("Write down how the header looks").answer("It is written. Keep it local, or commit it?").prompt("local")
    assert task(session.build()).last.text == "Write down how the header looks"
    session = (
        view().prompt("Write down how the header looks").answer("It is written.").prompt("commit the plan").answer("Done.").prompt("lint")
    )
    assert task(session.build()).last.text == "lint"


@pytest.mark.feature("facts.task")
def test_where_nothing_else_was_typed_a_steering_prompt_is_told():
    assert requests(["push", " "]) == ["push"]
    found = task(view().prompt("push").build())
    assert (found.now.text, found.told) == ("push", False)
    assert task(view().build()) == (None, None, False, None)
