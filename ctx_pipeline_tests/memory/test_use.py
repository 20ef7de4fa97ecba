"""What became of a memory in the session that was told it, by signs that name the events which show them."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.memory.session_facts import CHANGED, FAILED, RAN, RULED, About, Said, SessionFact, Timeline, about, judge
from ctx_pipeline.model.memories import Memory

TOLD = 100
LESSON = {
    "signature": "bash pytest command not found",
    "error": "bash: pytest: command not found",
    "resolution": "command",
    "did": ["uv run pytest"],
    "subject": "pytest",
}
TEXT = "`pytest` fails with “bash: pytest: command not found”; `uv run pytest` works."


def memory(body=LESSON, *, kind="tool_lesson", text=TEXT):
    return Memory("mem-1", kind, text, structured=json.dumps(body))


def story(*deeds, prompts=(), answers=((200, "done"),), objections=()):
    made = Timeline("claude", "s", "/w/app", "/w/app", 0, 1000, deeds=list(deeds))
    made.prompts = [Said(f"p{at}", at, text) for at, text in prompts]
    made.answers = [Said(f"a{at}", at, text) for at, text in answers]
    made.objections = [p for p in made.prompts if p.at in objections]
    return made


def ran(command, at, *, passed=True, subject="pytest"):
    return SessionFact(RAN, (command,), at, (f"c{at}", f"r{at}"), passed, subject)


def failed(signature, at):
    return SessionFact(FAILED, (signature,), at, (f"c{at}", f"r{at}"), passed=False, subject="pytest")


def changed(path, at):
    return SessionFact(CHANGED, (path,), at, (f"c{at}",))


@pytest.mark.feature("memory.used-detection", "memory.rewards-from-signals")
@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (story(ran("uv run pytest", 150)), ("avoided", 1.0, {"avoided": ["c150", "r150"], "followed": ["c150", "r150"]})),
        (
            story(ran("uv run pytest", 150), failed(LESSON["signature"], 120)),
            ("followed", 0.9, {"followed": ["c150", "r150"], "recurred": ["c120", "r120"]}),
        ),
        (story(ran("uv run pytest", 150, passed=False, subject="uv")), ("harmful", 0.0, {"harmful": ["c150", "r150"]})),
        (story(failed(LESSON["signature"], 120)), ("recurred", 0.1, {"recurred": ["c120", "r120"]})),
        (story(answers=[(160, "As mem-1 says, uv is needed.")]), ("quoted", 0.7, {"quoted": ["a160"]})),
        (
            story(answers=[(160, "I know that pytest fails with bash: pytest: command not found, so")]),
            ("quoted", 0.7, {"quoted": ["a160"]}),
        ),
        (story(), ("ignored", 0.4, {})),
    ],
    ids=["avoided", "followed after it came again", "harmful", "recurred", "its id", "its words", "ignored"],
)
def test_each_outcome_has_its_reward_and_its_evidence(told, expected):
    assert judge(memory(), told, TOLD) == expected


@pytest.mark.feature("memory.used-detection")
def test_what_happened_before_it_was_told_is_no_use_of_it():
    before = story(ran("uv run pytest", 50), prompts=[(10, TEXT)], answers=[(60, "mem-1"), (200, f"You said: {TEXT}")])
    again = story(ran("uv run pytest", 50), ran("uv run pytest", 150, subject="uv"))

    assert judge(memory(), before, TOLD).outcome == "ignored"
    assert judge(memory(), again, TOLD).outcome == "ignored"


@pytest.mark.feature("memory.used-detection")
def test_a_session_that_has_not_gone_on_is_not_judged():
    assert judge(memory(), story(ran("pytest", 50), answers=[(60, "x")], prompts=[(150, "next?")]), TOLD) is None


@pytest.mark.feature("memory.used-detection")
def test_a_file_that_it_names_counts_when_it_is_changed_for_the_first_time():
    skill = memory({"files": ["src/a.py", "src/b.py"], "steps": ["change `src/a.py`", "run `make test`"]}, kind="skill", text="a and b")

    assert judge(skill, story(changed("src/b.py", 150)), TOLD) == ("touched", 0.7, {"touched": ["c150"]})
    assert judge(skill, story(changed("src/b.py", 50), changed("src/b.py", 150)), TOLD).outcome == "ignored"
    assert judge(skill, story(changed("src/c.py", 150)), TOLD).outcome == "ignored"


@pytest.mark.feature("memory.used-detection")
def test_a_rule_that_had_to_be_typed_again_was_of_no_use():
    rule = memory({"subject": "pip uv", "quotes": ["use uv, not pip"]}, kind="user_preference", text="use uv, not pip")

    assert judge(rule, story(SessionFact(RULED, ("pip uv",), 150, ("p150",))), TOLD) == ("recurred", 0.1, {"recurred": ["p150"]})
    assert judge(rule, story(SessionFact(RULED, ("tabs spaces",), 150, ("p150",))), TOLD).outcome == "ignored"


@pytest.mark.feature("memory.rewards-from-signals")
def test_a_use_that_the_person_objected_to_is_worth_half():
    told = story(ran("uv run pytest", 150), prompts=[(90, "go"), (300, "no, that is wrong")], objections=[300])
    later = story(ran("uv run pytest", 150), prompts=[(90, "go"), (300, "thanks"), (400, "no, that is wrong")], objections=[400])

    assert judge(memory(), told, TOLD)[:2] == ("avoided", 0.5)
    assert judge(memory(), told, TOLD).evidence["objected"] == ["p300"]
    assert judge(memory(), later, TOLD)[:2] == ("avoided", 1.0)


MAKE, BOTH = frozenset({"make"}), frozenset({"a.py", "b.py"})
CHANGED_A, CHANGED_B = (CHANGED, "a.py"), (CHANGED, "b.py")
TESTS = frozenset({"make test", "make one"})


@pytest.mark.feature("backtest.held-out", "memory.used-detection")
@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("tool_lesson", LESSON, About(frozenset({(FAILED, LESSON["signature"])}), 1, frozenset({"uv run pytest"}), subject="pytest")),
        ("user_preference", {"subject": "pip uv"}, About(frozenset({(RULED, "pip uv")}))),
        ("repo_convention", {"commands": ["make test"], "narrowed": "make one"}, About(frozenset((RAN, t) for t in TESTS), 1, TESTS)),
        ("user_preference", {"subject": "pip uv", "signature": "never use pip"}, About(frozenset({(RULED, "pip uv")}))),
        (
            "repo_convention",
            {"commands": ["make test"], "narrowed": "make one", "signature": "how the project is checked"},
            About(frozenset((RAN, t) for t in TESTS), 1, TESTS),
        ),
        (
            "skill",
            {"files": ["a.py", "b.py"], "steps": ["change `a.py`", "run `make`"], "signature": "a.py"},
            About(frozenset({CHANGED_A}), 1, MAKE, BOTH),
        ),
        ("skill", {"files": ["a.py", "b.py"], "steps": ["change `a.py`", "run `make`"]}, About(frozenset({CHANGED_A}), 1, MAKE, BOTH)),
        (
            "procedure",
            {"files": ["a.py", "b.py"], "steps": ["edit `a.py`", "run `make`"]},
            About(frozenset({CHANGED_A, CHANGED_B}), 2, MAKE, BOTH),
        ),
        ("risk_rule", {"refused": "`rm -r x`"}, About(frozenset({(RAN, "rm -r x")}))),
        ("risk_rule", {"refused": "a change of `a.py`"}, About(frozenset({CHANGED_A}))),
        ("case", None, About()),
    ],
)
def test_what_a_memory_is_about_follows_from_its_body(kind, body, expected):
    assert about(memory(body, kind=kind)) == expected


def test_a_procedure_is_about_two_of_its_files():
    procedure = about(memory({"files": ["a.py", "b.py", "c.py"]}, kind="procedure"))

    assert not procedure.fits({(CHANGED, "a.py"), (CHANGED, "x.py")})
    assert procedure.fits({(CHANGED, "a.py"), (CHANGED, "c.py")})


def test_an_id_counts_as_a_quotation_only_where_it_stands_as_one():
    def outcome(memory_id, said):
        return judge(memory()._replace(memory_id=memory_id), story(answers=((200, said),)), 100).outcome

    assert outcome("mem-0123456789ab", "as mem-0123456789ab says") == "quoted"
    assert outcome("prefer-uv", "as `prefer-uv` says") == "quoted"
    assert outcome("prefer-uv", "see prefer-uv-2 and not-prefer-uv") == "ignored"
    assert outcome("deploy", "I deploy it now") == "ignored"
