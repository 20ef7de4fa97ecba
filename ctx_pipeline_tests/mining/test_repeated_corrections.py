"""Rules that the person types again and again."""

from __future__ import annotations

import pytest

from ctx_pipeline.learning.memories import repeated_since, sayings
from ctx_pipeline.memory.consolidation import Fact, consolidate, store_candidate
from ctx_pipeline.mining.repeated_corrections import combine, extract
from ctx_pipeline_tests.factories.views import SECOND, START, view


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
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("never open prs against release!!!", True),
        ("no, always run the linter before you commit", True),
        ("always show the name of the user", False),
        ("never commit that file", False),
        ("don't push to main", False),
        ("use uv instead of pip in the Dockerfile too, I said that before", True),
        ("I told you to use uv instead of pip", True),
        ("use uv instead of pip", False),
        ("use this instead of that, I said it before", False),
    ],
    ids=["never", "always", "of-the-program", "of-now", "weaker", "said-before", "told-before", "first-time", "of-now-before"],
)
def test_a_rule_laid_down_amid_the_work_is_proposed_at_once(said, kept):
    bare = said.removesuffix("!!!").removesuffix(", I said that before").removeprefix("I told you to ")
    begun = view("a").shell("git push origin HEAD:main", text="ok").prompt(said)
    assert [c.text for c in combine(mined(begun))] == ([bare] if kept else [])
    at_first = mined(view("a").prompt(said).shell("ls", text="a.py"))
    assert bool(list(combine(at_first))) is (kept and "I " in said)
    for c in combine(mined(begun)):
        assert (c.confidence, c.priority, c.body["quotes"]) == (0.5, 4, [said])
    (again,) = consolidate(combine(mined(begun, day("b", 1).prompt(said)))) if kept else (None,)
    assert again is None or (again.priority, again.memory_id) == (5, consolidate(combine(mined(begun)))[0].memory_id)


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


RULE = "please use uv instead of pip"
DAY = 86_400 * SECOND


def day(name, number, **place):
    return view(name, start=START + number * DAY, **place)


@pytest.mark.feature("memory.rule-proposal")
def test_a_rule_is_proposed_as_one_line_and_counted_when_it_is_said_again():
    twice = [day("a", 1).prompt(RULE), day("b", 2).prompt("no, use uv instead of pip")]
    (once, _) = [c.body for c in combine(mined(*twice))]
    assert (once["line"], once["proposed_ts"], once["again"]) == ("- Use uv instead of pip.", START + 2 * DAY, 0)
    later = [day("c", 3).prompt("Please, use uv instead of pip!"), day("d", 4).prompt("thanks")]
    body = next(iter(combine(mined(*twice, *later)))).body
    assert (body["times"], body["again"]) == (3, 1)
    assert body["said"] == [{"ts": START + 3 * DAY, "session": "claude/c", "quote": "Please, use uv instead of pip!"}]
    forked = next(iter(combine(mined(*twice, *later, day("fork", 3).prompt("Please, use uv instead of pip!"))))).body
    assert (forked["times"], forked["again"]) == (3, 1)


@pytest.mark.feature("memory.rule-proposal")
@pytest.mark.parametrize("how", ["injected", "read", "written"])
def test_a_rule_that_stood_in_a_rules_file_and_was_said_again_is_told_although_one_session_said_it(how):
    text = "# AGENTS.md instructions for /w/app\n- Use uv instead of pip for everything.\n- Tests live in tests/."
    before = day("a", 1).prompt("hello")
    if how == "injected":
        before.injected(text)
    elif how == "read":
        before.tool("Read", action="read", paths=("/w/app/CLAUDE.md",), text=text)
    else:
        before.edit("/w/app/AGENTS.md")
        before.events[-2] = before.events[-2]._replace(text=text)
    (found,) = combine(mined(before, day("b", 2).prompt(RULE)))
    file = "CLAUDE.md" if how == "read" else "AGENTS.md"
    assert (found.body["written_in"], found.body["written_ts"] < found.ts, found.body["again_since_written"]) == (file, True, 1)
    for other in (day("b", 2, cwd="/w/other").prompt(RULE), day("b", 0).prompt(RULE), day("b", 2).prompt("never use uv instead of pip")):
        assert list(combine(mined(before, other))) == []


@pytest.mark.feature("memory.rule-proposal")
def test_what_was_said_after_a_rule_was_accepted_is_counted_from_then_on():
    sessions = [day(name, number).prompt(RULE) for number, name in enumerate("abcd", 1)]
    candidates = list(combine(mined(*sessions)))
    (memory,) = consolidate(candidates)
    accepted = Fact("memory.accepted", {"memory_id": memory.memory_id}, "2026-01-04T12:00:00.000Z")
    (followed,) = consolidate(candidates, [accepted])
    assert (memory.body["again"], followed.body["again_since_accepted"]) == (2, 1)
    assert repeated_since(followed) == [
        "said again 2 times since it was proposed (2026-01-03)",
        "said again 1 time since it was accepted (2026-01-04)",
    ]
    assert [s["session"] for s in sayings(followed)] == ["claude/c", "claude/d"]


@pytest.mark.feature("mining.rule-occasion")
@pytest.mark.parametrize(
    ("said", "when"),
    [
        ("never open prs against release!!!", "you are about to open prs against release"),
        ("please use uv instead of pip!", "pip is about to be used"),
        ("prefer pathlib over os.path", "os.path is about to be used"),
        ("Avoid committing to main", "you are about to be committing to main"),
        ("no, always run the linter before you commit", "before you commit"),
        ("always squash commits", "work is about squash, commits"),
        ("I said we use pnpm rather than npm", "npm is about to be used"),
        ("always do so, like I asked before", None),
    ],
)
def test_a_rule_says_when_it_is_to_be_thought_of(said, when):
    (found,) = consolidate(combine(mined(view("a").prompt(said), day("b", 1).prompt(said))))
    assert found.when_to_use == when


@pytest.mark.feature("mining.rule-occasion")
@pytest.mark.parametrize(
    ("behind", "text"),
    [
        ("Because it breaks the release train.", "never open prs against release: “Because it breaks the release train”"),
        ("Take main instead!", "never open prs against release: “Take main instead”"),
        ("Now fix the parser.", "never open prs against release"),
    ],
)
def test_the_reason_that_the_person_gave_behind_a_rule_is_told_with_it_and_the_rule_stays_the_same_memory(behind, text):
    def memory(said):
        (found,) = consolidate(combine(mined(view("a").shell("ls", text="a.py").prompt(said))))
        return found

    alone = memory("never open prs against release.")
    assert memory(f"never open prs against release. {behind}").text == text
    assert memory(f"never open prs against release. {behind}").memory_id == alone.memory_id
