"""Memories that sessions were told: judged by what these sessions show, rewarded in the journal, once."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.learning.injection import injections, log_injected, shares
from ctx_pipeline.memory.consolidation import REWARDED, Fact, last_measured
from ctx_pipeline.model.memories import Memory, Scored
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.index import index_memory
from ctx_pipeline.pipeline.lessons.lesson_outcomes import rules_of, score_lesson_use, tellings
from ctx_pipeline.pipeline.mine import mine
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import SECOND, view

WHOLE = Cell("", "")
FAILURE = "bash: pytest: command not found"
OTHER = CELL._replace(month="2026-02")


@pytest.fixture
def lesson(store, chosen):
    """A lesson of an earlier session, as the index holds it."""
    normalized(store, view("taught").shell("pytest", exit=127, text=FAILURE).shell("uv run pytest", text="3 passed"))
    mine(store, chosen, cells=[CELL])
    consolidate(store, chosen)
    index_memory(store, chosen)
    (memory,) = [m for m in store.memories.memories() if m.kind == "tool_lesson"]
    return memory.memory_id


def tell(store, memory_id, session, **more):
    """Log an injection now, and return the moment in microseconds."""
    payload = {"host": "claude", "session_id": session, "event": "UserPromptSubmit", "memories": [{"memory_id": memory_id, "score": 0.7}]}
    store.journal.append(
        "hook.injected", {**payload, "tokens": 60, "withheld": False, "holdout": 0.0, "threshold": 0.4, **more}, actor="hook"
    )
    host = more.get("host", "claude") or "claude"
    return tellings(store).get((host, session), {memory_id: None})[memory_id]


def after(told, name):
    """Begin a session that was told something one second ago."""
    return view(name, start=told.at + SECOND)


def rewards(store):
    return [dict(f.payload) for f in store.journal.facts(REWARDED)]


def utility(store, chosen, memory_id):
    consolidate(store, chosen)
    (row,) = [m for m in store.lake.read_rows("memories", WHOLE, "memory/consolidated") if m.memory_id == memory_id]
    return row.utility, row.uses


@pytest.mark.feature("memory.used-detection", "memory.rewards-from-signals")
def test_a_lesson_that_was_followed_is_rewarded_with_the_events_that_show_it(store, chosen, lesson):
    told = tell(store, lesson, "used")
    normalized(store, after(told, "used").shell("uv run pytest", text="3 passed").answer("done"), cell=OTHER)

    report = score_lesson_use(store, chosen)

    assert report.totals == {"sessions": 1, "rewards": 1}
    assert rewards(store) == [
        {
            "memory_id": lesson,
            "host": "claude",
            "session_id": "used",
            "reward": 1.0,
            "outcome": "avoided",
            "evidence": {"avoided": ["used.e0", "used.e1"], "followed": ["used.e0", "used.e1"]},
            "source": "measured",
        }
    ]
    assert utility(store, chosen, lesson) == (pytest.approx(0.5 + 0.2 * (1.0 - 0.5)), 1)


@pytest.mark.feature("memory.used-detection", "memory.rewards-from-signals")
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s: s.shell("pytest", exit=127, text=FAILURE), ("recurred", 0.1)),
        (lambda s: s.shell("uv run pytest", exit=2, text="error: no such option --pool"), ("harmful", 0.0)),
        (lambda s: s.answer("Nothing of that is needed here."), ("ignored", 0.4)),
    ],
    ids=["recurred", "harmful", "ignored"],
)
def test_a_lesson_that_did_not_help_moves_the_other_way(store, chosen, lesson, build, expected):
    told = tell(store, lesson, "s")
    normalized(store, build(after(told, "s")), cell=OTHER)

    score_lesson_use(store, chosen)

    assert [(r["outcome"], r["reward"]) for r in rewards(store)] == [expected]
    assert utility(store, chosen, lesson)[0] == pytest.approx(0.5 + 0.2 * (expected[1] - 0.5))


@pytest.mark.feature("memory.rewards-from-signals")
def test_judging_again_adds_nothing_and_a_session_that_grew_is_not_rewarded_twice(store, chosen, lesson):
    told = tell(store, lesson, "s")
    normalized(store, after(told, "s").answer("I look around."), cell=OTHER)
    score_lesson_use(store, chosen)
    assert score_lesson_use(store, chosen).cells[""].status == "unchanged"
    assert score_lesson_use(store, chosen, force=True).totals == {"sessions": 1, "rewards": 0}
    assert utility(store, chosen, lesson)[0] == pytest.approx(0.48)

    normalized(store, after(told, "s").answer("I look around.").shell("uv run pytest", text="3 passed"), cell=OTHER)
    assert score_lesson_use(store, chosen).totals == {"sessions": 1, "rewards": 1}
    assert [r["outcome"] for r in rewards(store)] == ["ignored", "avoided"]
    assert utility(store, chosen, lesson) == (pytest.approx(0.6), 1)

    normalized(store, after(told, "s").answer("I look around.").shell("uv run pytest", text="3 passed").prompt("thanks"), cell=OTHER)
    assert score_lesson_use(store, chosen).totals == {"sessions": 1, "rewards": 0}
    store.files.remove("uses.json")
    assert score_lesson_use(store, chosen, force=True).totals == {"sessions": 1, "rewards": 0}
    assert utility(store, chosen, lesson) == (pytest.approx(0.6), 1)


@pytest.mark.feature("memory.rewards-from-signals")
def test_of_measured_rewards_the_last_of_a_session_counts_and_a_persons_all():
    def reward(value, session="s", **more):
        return Fact(REWARDED, {"memory_id": "m", "host": "claude", "session_id": session, "reward": value, **more})

    measured = [
        reward(0.1, source="measured"),
        reward(0.2),
        reward(0.9, source="measured"),
        reward(0.3),
        reward(0.4, "t", source="measured"),
    ]

    assert [f.payload["reward"] for f in last_measured(measured)] == [0.2, 0.9, 0.3, 0.4]


@pytest.mark.feature("memory.used-detection", "hooks.holdout")
def test_what_was_withheld_or_is_gone_or_not_captured_yet_is_not_judged(store, chosen, lesson):
    withheld = tell(store, lesson, "withheld", withheld=True, holdout=0.2)
    tell(store, "mem-gone", "gone")
    tell(store, lesson, "not-captured")
    normalized(
        store,
        after(withheld, "withheld").shell("uv run pytest", text="3 passed"),
        after(withheld, "gone").shell("uv run pytest", text="3 passed"),
        cell=OTHER,
    )

    score_lesson_use(store, chosen)

    assert rewards(store) == []


@pytest.mark.feature("memory.used-detection")
def test_without_a_log_nothing_is_read_and_nothing_written(store, chosen, lesson, monkeypatch):
    monkeypatch.setattr(type(store.lake), "read_sessions", lambda *_, **__: pytest.fail("a session was read"))

    report = score_lesson_use(store, chosen)

    assert (report.cells[""].status, report.totals) == ("done", {})
    assert score_lesson_use(store, chosen).cells[""].status == "unchanged"
    assert rewards(store) == []


@pytest.mark.feature("memory.used-detection")
def test_a_reward_makes_the_memories_stale_and_the_log_alone_does_not(store, chosen, lesson):
    score_lesson_use(store, chosen)
    consolidate(store, chosen)
    told = tell(store, lesson, "s")
    assert consolidate(store, chosen).cells[""].status == "unchanged"

    normalized(store, after(told, "s").shell("uv run pytest", text="3 passed"), cell=OTHER)
    score_lesson_use(store, chosen)

    assert consolidate(store, chosen).cells[""].status == "done"


@pytest.mark.feature("hooks.status")
def test_the_log_says_what_became_of_what_was_told_and_by_which_evidence(store, chosen, lesson):
    told = tell(store, lesson, "used", holdout=0.2)
    tell(store, lesson, "withheld", withheld=True, holdout=0.2)
    tell(store, lesson, "waiting")
    normalized(store, after(told, "used").shell("uv run pytest", text="3 passed"), cell=OTHER)
    score_lesson_use(store, chosen)

    waiting, withheld, used = injections(settings=chosen)

    assert used["memories"] == [
        {
            "memory_id": lesson,
            "score": 0.7,
            "outcome": "avoided",
            "reward": 1.0,
            "evidence": {"avoided": ["used.e0", "used.e1"], "followed": ["used.e0", "used.e1"]},
        }
    ]
    assert [m["outcome"] for i in (waiting, withheld) for m in i["memories"]] == [None, None]
    assert shares(settings=chosen) == {
        "sessions_told": 2,
        "sessions_withheld": 1,
        "withheld_share": 0.3333,
        "memories_told": 2,
        "memories_judged": 1,
        "outcomes": {"avoided": 1},
    }


@pytest.mark.feature("memory.used-detection")
def test_what_a_session_asked_for_itself_is_judged_too_even_when_it_told_its_id_alone(store, chosen, lesson):
    log_injected([Scored(Memory(lesson, "tool_lesson", "x"), 0.7, {})], host="", session_id="asking", event="retrieve", settings=chosen)
    log_injected([], host="claude", session_id="none", event="retrieve", settings=chosen)
    log_injected([Scored(Memory(lesson, "tool_lesson", "x"), 0.7, {})], host="claude", session_id="", event="retrieve", settings=chosen)
    (fact,) = store.journal.facts("hook.injected")
    normalized(store, view("asking", start=2 * 10**15).shell("uv run pytest", text="3 passed"), cell=OTHER)

    score_lesson_use(store, chosen)

    assert (fact.payload["event"], fact.payload["withheld"]) == ("retrieve", False)
    assert [(r["host"], r["session_id"], r["outcome"]) for r in rewards(store)] == [("claude", "asking", "avoided")]
    assert injections(settings=chosen)[0]["memories"][0]["outcome"] == "avoided"
    assert shares(settings=chosen)["sessions_told"] == 0


@pytest.mark.feature("memory.used-detection")
def test_a_damaged_cache_or_log_is_no_obstacle(store, chosen, lesson):
    told = tell(store, lesson, "s")
    store.journal.append("hook.injected", {"host": "claude", "session_id": "t", "memories": "none"})
    store.journal.append("hook.injected", {"memories": [5, {"memory_id": ""}]})
    normalized(store, after(told, "s").shell("uv run pytest", text="3 passed"), cell=OTHER)
    store.files.write("uses.json", b"{broken")

    assert score_lesson_use(store, chosen).totals == {"sessions": 1, "rewards": 1}


@pytest.mark.feature("memory.used-detection", "hooks.holdout")
def test_a_withheld_memory_that_the_agent_looked_up_itself_is_judged_from_then_on(store, chosen, lesson):
    first = tell(store, lesson, "s", withheld=True, holdout=0.2)
    looked_up = tell(store, lesson, "s", event="retrieve")
    normalized(store, view("s", start=looked_up.reached + SECOND).shell("uv run pytest", text="3 passed"), cell=OTHER)

    score_lesson_use(store, chosen)

    assert (looked_up.at, looked_up.withheld, first.reached) == (first.at, True, None)
    assert looked_up.reached >= first.at
    assert [r["outcome"] for r in rewards(store)] == ["avoided"]


@pytest.mark.feature("memory.used-detection")
def test_a_session_is_judged_once_the_index_holds_the_memory_again(store, chosen, lesson):
    told = tell(store, lesson, "s")
    store.memories.rebuild([])
    normalized(store, after(told, "s").shell("uv run pytest", text="3 passed"), cell=OTHER)
    score_lesson_use(store, chosen)
    assert rewards(store) == []

    index_memory(store, chosen, force=True)
    normalized(store, view("another").answer("hello"), after(told, "s").shell("uv run pytest", text="3 passed"), cell=OTHER)
    score_lesson_use(store, chosen)

    assert [r["outcome"] for r in rewards(store)] == ["avoided"]


@pytest.mark.feature("memory.used-detection")
def test_a_rule_that_is_mined_after_its_session_was_judged_still_shows_that_it_had_to_be_said_again(store, chosen):
    rule = "Never use print for logging, always use the logger."
    normalized(store, view("taught").prompt("make it quieter").answer("done").prompt(rule))
    mine(store, chosen, cells=[CELL])
    subject = rules_of(store, CELL, {"taught"})["taught"][0].subject
    store.memories.rebuild([Memory("mem-rule", "user_preference", rule, structured=json.dumps({"subject": subject}))])
    told = tell(store, "mem-rule", "s")
    normalized(store, after(told, "s").prompt("make it quieter").answer("done").prompt(rule), cell=OTHER)
    score_lesson_use(store, chosen)
    before = [r["outcome"] for r in rewards(store)]

    mine(store, chosen, cells=[OTHER])
    score_lesson_use(store, chosen)

    assert before == ["ignored"]
    assert [r["outcome"] for r in rewards(store)] == ["ignored", "recurred"]
