"""A history by hand, replayed: what was learned before a day is asked with what came after, and nothing later leaks in."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.integrations import agent_config
from ctx_pipeline.learning.backtest import backtest as replay
from ctx_pipeline.learning.backtest import past_sessions
from ctx_pipeline.learning.backtest.backtest import backtest, keep, stored_results
from ctx_pipeline.learning.backtest.evaluation import measure_effect
from ctx_pipeline.learning.backtest.past_sessions import load
from ctx_pipeline.learning.injection import shares
from ctx_pipeline.memory.injection_policy import MEASURED, quiet_kinds, spoken_by_default
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.lessons.lesson_outcomes import score_lesson_use, tellings
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.pipeline.mine import mine
from ctx_pipeline.storage.text_index import PastText
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import SECOND, START, view

WHOLE = Cell("", "")
DAY = 86_400 * SECOND
DAY_2 = START + 2 * DAY


def session(name, day, *, cwd="/w/app"):
    return view(name, cwd=cwd, start=START + day * DAY)


def missing(made, tool):
    return made.shell(tool, exit=127, text=f"bash: {tool}: command not found")


def cured(name, tool, day, *, cwd="/w/app"):
    return missing(session(name, day, cwd=cwd), tool).shell(f"uv run {tool}", text="3 passed")


def again(name, tool, day, *, cwd="/w/app"):
    return missing(session(name, day, cwd=cwd).prompt(f"{tool}: command not found, what now?"), tool)


def replayed(store, chosen, *sessions, **options):
    normalized(store, *sessions)
    mine(store, chosen, cells=[CELL])
    consolidate(store, chosen)
    return backtest(store, chosen, **{"before": DAY_2, **options})


def rows(report):
    return {r["kind"]: r for r in report["recall"]}


def lessons(store):
    return {m.text.split("`")[1]: m.memory_id for m in store.lake.read_rows("memories", WHOLE, "memory/consolidated")}


@pytest.mark.feature("backtest.held-out", "backtest.controls")
def test_what_was_learnt_before_the_day_answers_the_error_that_came_after_it(store, chosen):
    report = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), again("c", "pytest", 3))

    assert report["reason"] is None
    assert report["splits"] == [
        {"before": "2026-01-03", "sessions_before": 2, "memories": 2, "sessions_after": 1, "prompts": 1, "questions": 3}
    ]
    error = rows(report)["error"]
    assert (error["questions"], error["learned"]) == (1, 1)
    assert [error[name]["value"] for name in ("hit_at_1", "hit_at_5", "raw_at_1", "injected")] == [1.0, 1.0, 1.0, 1.0]
    assert (error["chance_at_1"]["value"], error["chance_at_5"]["value"]) == (0.5, 1.0)
    assert rows(report)["failed"]["hit_at_1"]["value"] == 1.0
    assert (rows(report)["ran"]["learned"], rows(report)["ran"]["hit_at_5"]["value"]) == (0, 0.0)


@pytest.mark.feature("backtest.warned")
def test_the_memory_that_would_have_warned_is_named_with_the_failure_and_how_long_before(store, chosen):
    report = replayed(
        store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), again("c", "pytest", 3), missing(session("d", 4), "mypy")
    )

    (warned,) = report["warned"]
    assert warned["memory_id"] == lessons(store)["pytest"]
    assert (warned["host"], warned["session_id"], warned["event_id"]) == ("claude", "c", "c.e2")
    assert warned["error"] == "bash pytest command not found"
    assert (warned["told_at"][:19], warned["failed_at"][:19]) == ("2026-01-04T00:00:00", "2026-01-04T00:00:02")
    assert warned["seconds_before"] == 2.0
    assert report["recurred"] == 2
    assert report["warned_share"]["value"] == 0.5


@pytest.mark.feature("backtest.held-out")
def test_a_session_that_goes_on_after_the_day_teaches_nothing_before_it(store, chosen):
    whole = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), again("c", "pytest", 3))
    late = cured("a", "pytest", 0)
    late.start += 5 * DAY
    straddling = replayed(store, chosen, late.answer("and that is all"), cured("b", "mypy", 1), again("c", "pytest", 3))

    assert whole["splits"][0]["memories"] == 2
    assert (straddling["splits"][0]["sessions_before"], straddling["splits"][0]["memories"]) == (1, 1)
    assert straddling["recall"] == []
    assert straddling["warned"] == []


@pytest.mark.feature("backtest.held-out")
def test_what_was_said_of_a_memory_after_the_day_changes_nothing_before_it(store, chosen):
    sessions = (cured("a", "pytest", 0), cured("b", "mypy", 1), again("c", "pytest", 3))
    before = replayed(store, chosen, *sessions)
    store.journal.append("memory.rejected", {"memory_id": lessons(store)["pytest"]}, actor="person")
    store.journal.append("memory.authored", {"memory_id": "note", "text": "pytest: command not found is solved by uv", "scope": "user"})

    after = replayed(store, chosen, *sessions)

    assert {k: v for k, v in after.items() if k != "seconds"} == {k: v for k, v in before.items() if k != "seconds"}


@pytest.mark.feature("backtest.held-out", "backtest.controls")
def test_another_repository_neither_asks_nor_answers(store, chosen):
    report = replayed(
        store,
        chosen,
        cured("a", "pytest", 0),
        cured("b", "mypy", 1, cwd="/w/other"),
        again("c", "mypy", 3),
        again("d", "pytest", 4, cwd="/w/other"),
    )

    assert report["recall"] == []
    assert (report["recurred"], report["warned"]) == (0, [])
    own, other = (report["controls"][name] for name in ("own_repository", "other_repository"))
    assert (own["of"], own["value"]) == (2, 0.0)
    # each prompt is asked in the place of the other project, which has the very lesson: the control can fail
    assert (other["of"], other["value"]) == (2, 1.0)
    assert (report["controls"]["everyday"]["of"], report["controls"]["everyday"]["value"]) == (20, 0.0)
    usual = next(r for r in report["thresholds"] if r["threshold"] == 0.4)
    assert usual["told"] == 0


@pytest.mark.feature("backtest.precision")
def test_what_hooks_would_have_told_is_right_or_wrong_by_what_followed(store, chosen):
    wrong = session("d", 4).prompt("mypy: command not found, what now?").shell("git commit -m done")
    report = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), again("c", "pytest", 3), wrong)

    usual = next(r for r in report["thresholds"] if r["threshold"] == 0.4)
    assert (usual["told"], usual["injection_precision"]["value"], usual["search_precision"]["value"]) == (2, 0.5, 0.5)
    nothing = {"injection": None, "search": None, "start": None}
    assert report["recommended"] == {"wanted": 0.5, "in_use": 0.4, "start_in_use": "accepted"} | nothing


@pytest.mark.feature("backtest.precision")
def test_it_replays_the_hooks_that_the_person_entered(store, chosen):
    sessions = (cured("a", "pytest", 0), cured("b", "mypy", 1), again("c", "pytest", 3))
    without = replayed(store, chosen, *sessions)
    claude = discovery.host("claude")
    home = agent_config.homes(chosen, claude)[0]
    agent_config.install_hooks(chosen, claude, home, instructions=False, options=["--threshold=0.45", "--accepted-only"])

    entered = replayed(store, chosen, *sessions)

    assert (without["recommended"]["in_use"], entered["recommended"]["in_use"]) == (0.4, 0.45)
    assert [r["threshold"] for r in entered["thresholds"]] == [0.34, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8]
    assert (len(without["warned"]), len(entered["warned"])) == (1, 0)
    assert without["versions"]["retrieval"] != entered["versions"]["retrieval"]


@pytest.mark.feature("backtest.held-out")
def test_after_all_sessions_the_replay_knows_the_very_memories_of_a_run(store, chosen):
    rule = "Never use print for logging, always use the logger."
    taught = [session(f"r{n}", n).prompt("make it quieter").answer("done").prompt(rule) for n in range(3)]
    normalized(store, cured("a", "pytest", 0), cured("b", "pytest", 1), *taught)
    mine(store, chosen, cells=[CELL])
    consolidate(store, chosen)
    for memory in store.lake.read_rows("memories", WHOLE, "memory/consolidated"):
        store.journal.append("memory.accepted", {"memory_id": memory.memory_id}, actor="person")
    consolidate(store, chosen)

    with PastText() as past_text:
        replay = load(store, chosen, past_text).memories(10**17)

    assert any("accepted_ts" in (m.structured or "") for m in replay)
    assert replay == [Memory._make(m) for m in store.lake.read_rows("memories", WHOLE, "memory/consolidated")]


@pytest.mark.feature("backtest.held-out")
def test_a_repository_that_another_agent_recorded_of_the_folder_hides_no_lesson_from_it(store, chosen):
    recorded = view("codex", cwd="/w/app", repository="git@github.com:acme/app.git", start=START + DAY).answer("hello")

    report = replayed(store, chosen, cured("a", "pytest", 0), recorded, again("c", "pytest", 3))

    error = rows(report)["error"]
    assert (error["questions"], error["learned"], error["hit_at_1"]["value"]) == (1, 1, 1.0)


@pytest.mark.feature("backtest.held-out")
def test_a_fork_asks_nothing_that_its_parent_asked(store, chosen):
    once = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), again("c", "pytest", 3))
    twice = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), again("c", "pytest", 3), again("fork", "pytest", 3))

    assert once["splits"][0]["questions"] == twice["splits"][0]["questions"] == 3
    assert twice["splits"][0]["prompts"] == 1


def rolling():
    return [cured(f"s{n}", "pytest", n) for n in range(8)] + [again(f"t{n}", "pytest", 8 + n) for n in range(4)]


@pytest.mark.feature("backtest.held-out")
def test_several_days_follow_each_other_and_each_prompt_is_asked_once(store, chosen):
    report = replayed(store, chosen, *rolling(), before=None)

    days = [s["before"] for s in report["splits"]]
    assert days == sorted(set(days))
    assert len(days) > 3
    assert [s["sessions_before"] for s in report["splits"]] == [int(day[-2:]) - 1 for day in days]
    assert sum(s["prompts"] for s in report["splits"]) == 4
    error = rows(report)["error"]
    assert error["questions"] == sum(int(day) >= 5 for day in range(1, 13))
    assert error["hit_at_1"]["value"] == 1.0


@pytest.mark.feature("backtest.held-out")
def test_too_little_history_is_said_and_no_figure_is_made_up(store, chosen):
    few = replayed(store, chosen, cured("a", "pytest", 0), again("b", "pytest", 1), before=None)
    early = replayed(store, chosen, cured("a", "pytest", 3), before=START)
    nothing = replayed(store, chosen, cured("a", "pytest", 0), before=DAY_2)

    assert few["reason"].startswith("too little history: 2 sessions")
    assert early["reason"] == "none of 1 sessions ended before that day"
    assert nothing["reason"] == "nothing was asked after the day"
    for report in (few, early, nothing):
        assert (report["recall"], report["warned"], report["proposals"]) == ([], [], [])


@pytest.mark.feature("memory.promotion")
def test_a_memory_that_is_right_again_and_again_is_proposed_as_accepted(store, chosen):
    asked = [again(f"t{n}", "pytest", 3 + n) for n in range(3)]
    report = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), *asked)

    (proposed,) = report["proposals"]
    assert (proposed["memory_id"], proposed["propose"]) == (lessons(store)["pytest"], "accept")
    assert (proposed["replayed"], proposed["right"], proposed["command"]) == (3, 3, f"ctx memory accept {proposed['memory_id']}")


@pytest.mark.feature("backtest.daily-gate")
def test_figures_are_kept_once_and_one_that_got_worse_shows(store, chosen):
    report = replayed(store, chosen, *rolling(), before=None)
    head = store.journal.head()

    assert keep(store, report) == []
    assert keep(store, report) == []
    (fact,) = stored_results(store)
    assert fact["figures"]["error.hit_at_1"]["value"] == 1.0
    assert "mined/error_resolutions" in fact["versions"]
    assert store.journal.head() == head

    for row in report["recall"]:
        row["hit_at_1"] = {**row["hit_at_1"], "value": 0.0}
    report["versions"] = {**report["versions"], "mined/reme": "another"}
    lost = {w["figure"]: w["versions_changed"] for w in keep(store, report)}
    assert [new for _, new in lost["error.hit_at_1"].values()] == ["another"]
    assert len(stored_results(store)) == 2


@pytest.mark.feature("backtest.daily-gate", "dagster.effect")
def test_the_stage_keeps_figures_and_finds_nothing_to_do_until_something_changes(store, chosen):
    replayed(store, chosen, *rolling(), before=None)

    first = measure_effect(store, chosen)

    assert first.cells[""].status == "done"
    assert first.totals["questions"] > 8
    assert first.cells[""].figures["error_hit_at_5"] == 1.0
    assert measure_effect(store, chosen).cells[""].status == "unchanged"
    again_ = measure_effect(store, chosen, force=True)
    assert again_.cells[""].content_hash == first.cells[""].content_hash
    assert len(store.journal.facts(MEASURED)) == 1
    assert b"pytest" not in store.files.read("effect.json")


def told(store, memory_id, name, *, withheld=False, holdout=0.0, event="UserPromptSubmit"):
    payload = {"host": "claude", "session_id": name, "event": event, "memories": [{"memory_id": memory_id, "score": 0.7}]}
    store.journal.append(
        "hook.injected", {**payload, "tokens": 1, "withheld": withheld, "holdout": holdout, "threshold": 0.4}, actor="hook"
    )
    return tellings(store)["claude", name][memory_id].at + SECOND


@pytest.mark.feature("backtest.effect")
def test_sessions_with_a_memory_stand_against_those_without_and_a_holdout_makes_it_an_experiment(store, chosen):
    normalized(store, cured("a", "pytest", 0))
    mine(store, chosen, cells=[CELL])
    consolidate(store, chosen)
    lesson = lessons(store)["pytest"]
    with_it = told(store, lesson, "with")
    now = [
        view("with", cwd="/w/app", start=with_it).prompt("run it").shell("uv run pytest", text="3 passed"),
        missing(missing(view("without", cwd="/w/app", start=with_it).prompt("run it"), "pytest"), "pytest").prompt("no, that is wrong"),
        missing(missing(view("elsewhere", cwd="/w/far", start=with_it).prompt("run it"), "pytest"), "pytest"),
    ]
    normalized(store, cured("a", "pytest", 0), *now)
    measure(store, chosen, families=["outcomes", "spending"], cells=[CELL])
    watched = backtest(store, chosen, before=DAY_2)["effect"]

    assert (watched["kind"], watched["sessions_told"], watched["sessions_not_told"]) == ("observational", 1, 1)
    assert watched["differences"]["retries"] == {"told": 0.0, "not_told": 1.0, "value": -1.0, "low": None, "high": None, "of": 2}
    assert (watched["differences"]["corrections"]["told"], watched["differences"]["corrections"]["not_told"]) == (0.0, 1.0)

    told(store, lesson, "without", withheld=True, holdout=0.5)
    told(store, "mem-other", "without", event="retrieve")
    told(store, lesson, "elsewhere", holdout=0.5)
    tried = backtest(store, chosen, before=DAY_2)["effect"]
    assert (tried["kind"], tried["sessions_told"], tried["sessions_not_told"]) == ("experiment", 1, 1)
    assert tried["differences"]["retries"]["value"] == 0.0


@pytest.mark.feature("backtest.effect")
def test_of_told_memories_it_says_how_many_were_used_and_followed(store, chosen):
    normalized(store, cured("a", "pytest", 0))
    mine(store, chosen, cells=[CELL])
    consolidate(store, chosen)
    store.memories.rebuild([])
    lesson = lessons(store)["pytest"]
    from ctx_pipeline.pipeline.index import index_memory

    index_memory(store, chosen, force=True)
    begun = told(store, lesson, "s")
    normalized(store, cured("a", "pytest", 0), view("s", cwd="/w/app", start=begun).shell("uv run pytest", text="3 passed"))
    score_lesson_use(store, chosen, force=True)

    effect = backtest(store, chosen, before=DAY_2)["effect"]

    assert (effect["memories_judged"], effect["outcomes"]) == (1, {"avoided": 1})
    assert (effect["used"]["value"], effect["followed"]["value"]) == (1.0, 0.0)
    assert effect["memories"] == [{"memory_id": lesson, "outcomes": {"avoided": 1}}]
    assert effect["logged"] == {"sessions_told": 1, "memories_told": 1}


@pytest.mark.feature("backtest.effect")
def test_told_sessions_and_memories_are_counted_as_the_status_of_hooks_counts_them(store, chosen):
    for name in ("nobody-captured-it", "nor-this"):
        told(store, "m-seed", name)
        told(store, "m-other", name, event="retrieve")
    told(store, "m-seed", "withheld", withheld=True, holdout=0.2)

    effect = backtest(store, chosen)["effect"]
    counted = shares(settings=chosen)

    assert effect["logged"] == {"sessions_told": 2, "memories_told": 4}
    assert effect["logged"] == {name: counted[name] for name in ("sessions_told", "memories_told")}
    assert effect["memories_judged"] == counted["memories_judged"] == 0


@pytest.mark.feature("backtest.moments")
def test_a_cure_is_right_where_it_is_told_after_the_failure_and_what_it_advises_passes_then(store, chosen):
    others = [session(f"o{n}", n, cwd="/w/other").prompt("use pnpm, not npm") for n in range(2)]
    mended = again("c", "pytest", 3).shell("uv run pytest", text="3 passed")
    report = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), *others, mended)

    after = report["moments"]["after a failure"]
    assert (after["moments"], after["told"], after["right"], after["plain"], after["elsewhere"]) == (1, 0, 0, 1, 0)
    before = report["moments"]["before a command"]
    # both lessons have words of the prompt, which pastes the error: the one with most of them is told, and by no hook again
    prompt = report["moments"]["prompt"]
    assert (prompt["moments"], prompt["told"], prompt["right"]) == (1, 1, 1)
    assert (before["moments"], before["told"]) == (2, 0)
    # what was told at the prompt is known when the command fails: a search at the failure finds no more than that
    assert (after["knew"], after["answerable"], after["against_search"]["value"]) == (1, 1, 0.0)
    assert before["against_search"]["value"] is None


@pytest.mark.feature("backtest.moments")
def test_where_nothing_that_came_had_been_there_before_no_way_of_telling_can_be_right(store, chosen):
    new = missing(session("c", 3).prompt("please go on"), "ruff").shell("make lint", text="ok")
    after = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), new)["moments"]["after a failure"]
    assert (after["moments"], after["answerable"], after["knew"], after["plain"]) == (1, 0, 0, 0)


@pytest.mark.feature("backtest.moments")
def test_a_failure_that_was_met_before_could_have_been_answered_and_a_file_that_was_changed_before_teaches_nothing(store, chosen):
    def mended(name, day, tool):
        failed = missing(session(name, day).prompt("please go on"), tool)
        return failed.tool("Edit", action="edit", paths=("/w/app/a.py",), text="ok").shell(tool, text="3 passed")

    def after(*sessions):
        return replayed(store, chosen, *sessions)["moments"]["after a failure"]

    new = after(mended("a", 0, "pytest"), mended("b", 1, "mypy"), mended("c", 3, "ruff"))
    assert (new["moments"], new["answerable"]) == (1, 0)
    met = after(mended("a", 0, "pytest"), mended("b", 1, "mypy"), mended("c", 3, "mypy"))
    assert (met["moments"], met["answerable"]) == (1, 1)


@pytest.mark.feature("backtest.moments")
def test_commands_know_what_sessions_taught_that_ended_since_the_day_and_before_their_own_began(store, chosen):
    since = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 3), cured("c", "mypy", 4))["moments"]
    before = since["before a command"]
    assert (before["told"], before["knew"], since["after a failure"]["answerable"]) == (1, 1, 1)
    late = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 4), cured("c", "mypy", 4))["moments"]
    assert (late["before a command"]["told"], late["after a failure"]["answerable"]) == (0, 0)


@pytest.mark.feature("backtest.moments")
def test_lessons_are_merged_anew_at_a_bounded_number_of_moments(store, chosen, monkeypatch):
    merged = []
    real = past_sessions.History.memories
    monkeypatch.setattr(past_sessions.History, "memories", lambda self, day: merged.append(day) or real(self, day))
    monkeypatch.setattr(replay, "_LOOKS", 3)

    since = replayed(store, chosen, cured("a", "pytest", 0), *(cured(f"s{n}", "mypy", n) for n in range(3, 13)))["moments"]

    assert 3 <= len(merged) <= 3 + 2
    assert since["before a command"]["told"] > 0


@pytest.mark.feature("backtest.moments")
def test_the_four_moments_count_what_was_told_and_what_search_and_the_newest_turn_show(store, chosen):
    quiet = missing(session("c", 3).prompt("please go on"), "pytest").shell("uv run pytest", text="3 passed")
    wrong = missing(session("d", 4).prompt("please go on"), "mypy").shell("make types", text="ok")
    report = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), quiet, wrong)

    assert list(report["moments"]) == ["start", "prompt", "before a command", "after a failure"]
    told = [report["moments"][name] for name in ("before a command", "after a failure")]
    assert [row["moments"] for row in told] == [4, 2]
    kinds = [kind for row in told for kind in row["kinds"]]
    assert set(kinds) == {"cure"}
    # each lesson is told once a session: before the call of a program that is missing, as its hook would do
    assert sum(row["told"] for row in told) == 2
    assert sum(row["right"] for row in told) == 2


@pytest.mark.feature("backtest.moments")
def test_a_rule_of_a_program_is_right_where_that_program_passed_after_the_other_one(store, chosen):
    def installed(name, day, *commands):
        made = session(name, day).prompt("Add the page. We use pnpm here, not npm.")
        for command in commands:
            made = made.shell(command, text="ok")
        return made

    told = session("c", 3).prompt("please go on").shell("npm install", exit=1, text="npm error ERESOLVE").shell("pnpm install", text="ok")
    broken = session("d", 4).prompt("please go on").shell("npm install", text="ok")
    rows = replayed(store, chosen, installed("a", 0, "pnpm install"), installed("b", 1), told, broken)["moments"]

    rule = rows["before a command"]["kinds"]["rule"]
    assert (rule["told"], rule["right"]) == (2, 1)


LOST = {"against_search": {"value": -0.2, "low": -0.3, "high": -0.1}, "answerable": 10}
FEW = {"against_search": {"value": -0.2, "low": -0.3, "high": -0.1}, "answerable": 9}


def counted(told, right, plain, **row):
    return {"kinds": {"rule": {"told": told, "right": right, "plain": plain, "newest": 0}} if told else {}, **row}


@pytest.mark.feature("backtest.told-by-default")
@pytest.mark.parametrize(
    ("row", "told"),
    [
        (counted(10, 5, 5), False),
        (counted(10, 6, 5), True),
        (counted(40, 0, 0), False),
        (counted(10, 3, 8), False),
        (counted(12, 9, 2, **LOST), True),
        (counted(9, 0, 9), True),
        (counted(9, 0, 0), True),
        (counted(3, 1, 2), True),
        (counted(3, 0, 0, **LOST), False),
        (counted(1, 1, 1), True),
        (counted(4, 2, 2, **LOST), False),
        (counted(4, 3, 2, **LOST), True),
        (counted(4, 2, 2, **FEW), True),
        (counted(0, 0, 0), True),
        (counted(0, 0, 0, **LOST), False),
        (counted(0, 0, 0, against_search={"value": None, "low": None, "high": None}, answerable=0), True),
    ],
)
def test_a_kind_is_told_unasked_where_it_beats_a_search_and_few_tellings_silence_none(row, told):
    judged = spoken_by_default(row, "rule")
    assert judged.told is told
    assert ("unproven" in judged.why) is (0 < (row["kinds"].get("rule") or {"told": 0})["told"] < 10)
    assert any(line.startswith("prompt: rule") for line in quiet_kinds({"prompt": row})) is not told


@pytest.mark.feature("backtest.told-by-default")
def test_the_counts_of_the_moments_are_kept_with_the_figures(store, chosen):
    report = replayed(store, chosen, cured("a", "pytest", 0), cured("b", "mypy", 1), again("c", "pytest", 3))
    assert keep(store, report) == []
    (fact,) = store.journal.facts(MEASURED)
    assert fact.payload["moments"] == report["moments"]
