"""What holds for every mining method that discovery finds."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.row_contracts import CandidateRow
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import EVENT_KINDS, TABLES
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline_tests.factories.views import view

METHODS = discovery.methods()


def cured():
    """A session with a failure that was cured."""
    return view().shell("pytest", exit=1, text="E   KeyError: 'a'").edit("/w/app/a.py").shell("pytest", text="3 passed")


def ruled():
    """A session in which the person lays down a rule."""
    return view().prompt("please use uv instead of pip")


def refused():
    """A session in which the person refuses a command and says what to use."""
    return view().prompt("install what is missing").shell("npm install", refused="use pnpm")


def solved():
    """A session of two turns that changed files, the second with a check that passed."""
    return (
        view()
        .prompt("add a flag to the export command that skips hidden files")
        .edit("/w/app/export.py")
        .shell("pytest", exit=1, text="E   KeyError: 'hidden'")
        .prompt("make the flag work with empty folders too please")
        .edit("/w/app/export.py", "/w/app/tests/test_export.py")
        .shell("uv run pytest -q", text="4 passed")
    )


def idle():
    """A session without anything to learn."""
    return view().prompt("what does this project do").answer("It copies logs.")


class Answered:
    """A session about which somebody was asked, with the answer."""

    def __init__(self, name, *lessons):
        self.name, self.lessons = name, list(lessons)

    def build(self):
        """Return the view with the answer in it."""
        built = cured().build()
        built.seen[self.name] = {"lessons": self.lessons}
        return built


def told(name):
    """Return two examples of a method that asks: a lesson that names what is there, and one that names what is not."""
    lesson = {"kind": "tool_lesson", "text": "run `pytest`", "evidence": ["e4"]}
    return (
        (lambda: Answered(name, lesson), ["run `pytest`"]),
        (lambda: Answered(name, {**lesson, "evidence": ["e40"]}), []),
    )


EXAMPLES = {
    **{name: told(name) for name in ("claude_headless", "codex_headless", "dspy")},
    "action_patterns": (
        (
            solved,
            [
                "2 requests: add a flag to the export command that skips hidden files → make the flag work with empty folders too please",
                "3 actions in 2 turns: a change → a change → `uv run pytest`",
            ],
        ),
        (refused, []),
    ),
    "error_resolutions": ((cured, ["`pytest` failed with “KeyError: 'a'”; it passed after changes in `a.py`."]), (idle, [])),
    "memp_procedural": (
        (
            solved,
            [
                (
                    "“add a flag to the export command that skips hidden files”, then “make the flag work with empty folders too please”: "
                    "`export.py`, `tests/test_export.py`; `uv run pytest -q` passed; on the way `pytest`: KeyError: 'hidden'"
                )
            ],
        ),
        (cured, []),
    ),
    "project_conventions": ((solved, ["tests: `uv run pytest`"]), (idle, [])),
    "reme": (
        (refused, ["the person refused `npm install`: “use pnpm”; run `pnpm install` instead"]),
        (cured, ["the first `pytest` failed", "`pytest` failed with “KeyError: 'a'”", "ran `pytest`"]),
    ),
    "skill_pro": (
        (
            solved,
            [
                "“make the flag work with empty folders too please”: edit `export.py`, edit `tests/test_export.py`, run `uv run pytest -q`",
            ],
        ),
        (cured, []),
    ),
    "repeated_corrections": ((ruled, ["please use uv instead of pip"]), (idle, [])),
}
"""method -> two sessions made by hand with the texts that a person would draw from them"""


@pytest.mark.feature("mining.contract")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_method_hold(name):
    assert len(EXAMPLES[name]) >= 2
    for make, texts in EXAMPLES[name]:
        drawn, raised = draw(METHODS[name], make().build())
        assert not raised
        assert [c.text for c in drawn] == texts


@pytest.mark.feature("mining.contract")
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_method_is_documented_and_reads_what_exists(method):
    first, _, second = method.describe.partition("\n\n")
    assert first.endswith(".")
    assert len(second) > 40
    assert set(method.reads) <= set(TABLES)
    assert set(method.kinds) <= set(EVENT_KINDS)
    assert set(method.families) <= set(discovery.families())


@pytest.mark.feature("mining.contract")
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_candidates_are_deterministic_valid_and_rest_on_events_of_the_session(method):
    for make in (cured, ruled, refused, solved, idle):
        built = make().build()
        first, _ = draw(method, built)
        assert first == draw(method, make().build())[0]
        for candidate in first:
            CandidateRow(**candidate._asdict())
            assert set(candidate.evidence) <= set(built.by_event)
        narrow = SessionView(
            built.session,
            [e for e in built.events if "events" in method.reads and (not method.kinds or e.kind in method.kinds)],
            built.tool_calls if "tool_calls" in method.reads else [],
        )
        assert draw(method, narrow)[0] == first
