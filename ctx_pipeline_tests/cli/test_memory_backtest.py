"""``ctx memory backtest`` as it is typed, and what ``ctx hooks status`` tells of what was used."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli
from ctx_pipeline.cli.memory import upkeep
from ctx_pipeline.cli.memory.upkeep import _MOMENT_MEANS, _RECALL_MEANS, _THRESHOLD_MEANS
from ctx_pipeline.pipeline.run import step
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline_tests.factories.claude import ClaudeHome

FAILED = "bash: pytest: command not found"


def ctx(*words, code=0):
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def learn():
    """Do what a run does for memories, without the rest."""
    settings = settings_module.load()
    with open_store(settings) as store:
        for name in ("ingest", "mine", "score_lesson_use", "consolidate", "index_memory"):
            step(name, store, settings)


def wrote(folder, name, started, *commands, prompt="run the tests"):
    """Write a session that types a prompt and runs commands: (command, what it printed, failed)."""
    session = ClaudeHome(folder).session(name, started=started, mark=name[-2:], cwd="/home/sam/code/shop")
    session.prompt(prompt)
    for n, (command, printed, failed) in enumerate(commands):
        call = f"toolu_{name[-2:]}{n}"
        session.answer({"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}})
        text = f"Exit code 127\n{printed}" if failed else printed
        session.prompt([{"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}])
    session.answer({"type": "text", "text": "That is all."})
    session.save()
    return session


MISSING, PASSED = ("pytest", FAILED, True), ("uv run pytest", "3 passed", False)


def name(number):
    return f"11111111-1111-4111-8111-{number:012d}"


@pytest.fixture
def home(environ, monkeypatch):
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    return Path(environ["CLAUDE_CONFIG_DIR"])


def day(number):
    return datetime(2026, 3, 1, 10, tzinfo=UTC) + timedelta(days=number)


@pytest.fixture
def history(home):
    """Ten days in which a failure was cured, then met again."""
    for n in range(10):
        wrote(home, name(n), day(n), MISSING, PASSED)
    for n in range(10, 14):
        wrote(home, name(n), day(n), MISSING, prompt=f"pytest: command not found, what now? ({n})")
    learn()
    return home


@pytest.mark.feature("backtest.held-out", "backtest.warned", "backtest.daily-gate")
def test_the_figures_are_printed_kept_and_shown_again(history):
    report = json.loads(ctx("memory", "backtest", "--json"))
    assert report["reason"] is None
    assert {r["kind"] for r in report["recall"]} >= {"error", "failed"}
    assert report["warned"][0]["seconds_before"] > 0
    assert report["worse"] == []

    text = ctx("memory", "backtest", "--gate")
    assert "an error, as it was printed" in text
    lines = [line.strip() for line in text.splitlines()]
    for name, meaning in (*_RECALL_MEANS, *_THRESHOLD_MEANS, *_MOMENT_MEANS):
        assert f"{name}: {meaning}" in lines
    heads = next(line for line in lines if line.startswith("asked with"))
    explained = [name for names, _ in _RECALL_MEANS[:-1] for name in names.split(", ")]
    assert re.split(" {2,}", heads)[1:] == explained
    assert "hooks would have warned before" in text
    assert report["warned"][0]["memory_id"] in text
    assert "controls: the same prompts at another repository" in text

    kept = json.loads(ctx("memory", "backtest", "--history", "--json"))["kept"]
    assert len(kept) == 1
    assert "error.hit_at_1" in ctx("memory", "backtest", "--history")


@pytest.mark.feature("backtest.moments")
def test_it_says_in_words_whether_lessons_beat_a_text_search_and_where_a_history_cannot_tell(history, monkeypatch):
    said = ctx("memory", "backtest").partition("lessons against text search")[2]
    told = {line.strip().split(": ")[0]: line for line in said.splitlines()[1:4]}
    assert list(told) == ["start", "prompt", "after a failure"]
    assert "of the 10 where something that came had been there before; the first hit" in told["start"]
    assert told["start"].endswith("difference +0.00 (-0.28 to +0.28); neither is clearly better")
    assert "told by then at 6 of the 10 where something that came had been there before" in told["after a failure"]
    monkeypatch.setattr(upkeep, "LEAST_TOLD", 11)
    assert "too few to tell which is better" in ctx("memory", "backtest").partition("lessons against text search")[2]


@pytest.mark.feature("backtest.daily-gate")
def test_the_gate_fails_where_a_figure_fell_below_the_last_interval(history, environ):
    ctx("memory", "backtest")
    with closing(Journal(Path(environ["CTX_HOME"]) / "journal.db")) as journal:
        last = dict(journal.newest("measured.backtest", 1)[0].payload)
        better = {"value": 2.0, "low": 1.5, "high": 2.5, "of": 9, "better": "higher"}
        journal.append("measured.backtest", {**last, "figures": {**last["figures"], "error.hit_at_1": better}})

    assert "worse than before: error.hit_at_1" in ctx("memory", "backtest", "--gate", code=1)
    assert "worse" not in ctx("memory", "backtest", "--gate")


@pytest.mark.feature("backtest.held-out")
def test_one_day_can_be_chosen_and_is_not_kept(history):
    report = json.loads(ctx("memory", "backtest", "--before", "2026-03-12", "--json"))

    assert [s["before"] for s in report["splits"]] == ["2026-03-12"]
    assert report["splits"][0]["sessions_before"] == 11
    assert report["splits"][0]["sessions_after"] == 3
    assert json.loads(ctx("memory", "backtest", "--history", "--json"))["kept"] == []
    assert "no figures were kept yet" in ctx("memory", "backtest", "--history")
    assert "Invalid value" in ctx("memory", "backtest", "--before", "soon", code=2)


@pytest.mark.feature("backtest.held-out")
def test_too_little_history_is_an_answer(home):
    wrote(home, name(1), day(1), MISSING, PASSED)
    learn()

    assert "too little history: 1 sessions" in ctx("memory", "backtest")
    assert "no session was told a memory yet" in ctx("memory", "backtest", "--gate")


@pytest.mark.feature("backtest.effect", "hooks.status")
def test_the_backtest_and_the_status_of_hooks_count_the_same_sessions_and_memories(home, environ):
    wrote(home, name(1), day(1), MISSING, PASSED)
    learn()
    with closing(Journal(Path(environ["CTX_HOME"]) / "journal.db")) as journal:
        for session in ("s-1", "s-2"):
            memories = [{"memory_id": f"m-{n}", "score": 0.7} for n in range(3)]
            told = {"host": "claude", "session_id": session, "event": "SessionStart", "memories": memories}
            journal.append("hook.injected", {**told, "tokens": 9, "withheld": False, "holdout": 0.0, "threshold": None}, actor="hook")

    said = ctx("memory", "backtest")
    assert "hooks told 2 sessions; of 6 memories told, 0 judged" in said
    assert "none of these sessions is captured" in said
    status = ctx("hooks", "status")
    assert "hooks told 2 sessions" in status
    assert "of 6 memories told, 0 judged" in status


@pytest.mark.feature("hooks.status", "memory.used-detection", "memory.rewards-from-signals")
def test_status_says_which_session_used_what_it_was_told_and_by_what_evidence(home, environ):
    wrote(home, name(1), day(1), MISSING, PASSED)
    learn()
    lesson = next(m for m in json.loads(ctx("memory", "list", "--json"))["memories"] if m["kind"] == "tool_lesson")
    used, withheld = name(2), name(3)
    with closing(Journal(Path(environ["CTX_HOME"]) / "journal.db")) as journal:
        for session, held in ((used, False), (withheld, True)):
            payload = {"host": "claude", "session_id": session, "event": "UserPromptSubmit", "tokens": 60, "withheld": held}
            memories = [{"memory_id": lesson["memory_id"], "score": 0.7}]
            journal.append("hook.injected", {**payload, "memories": memories, "holdout": 0.5, "threshold": 0.4}, actor="hook")
    assert "not judged yet" in ctx("hooks", "status")
    later = datetime.now(UTC) + timedelta(minutes=1)
    for session in (used, withheld):
        wrote(home, session, later, PASSED)
    learn()

    told = json.loads(ctx("hooks", "status", "--json"))
    rows = {i["session_id"]: i["memories"][0] for i in told["injections"]}
    assert (rows[used]["outcome"], rows[used]["reward"]) == ("avoided", 1.0)
    assert len(rows[used]["evidence"]["avoided"]) == 2
    assert rows[withheld]["outcome"] is None
    assert told["in_all"] == {
        "sessions_told": 1,
        "sessions_withheld": 1,
        "withheld_share": 0.5,
        "memories_told": 1,
        "memories_judged": 1,
        "outcomes": {"avoided": 1},
    }
    text = ctx("hooks", "status")
    assert f"avoided {rows[used]['evidence']['avoided'][0]}" in text
    assert "withheld from 1 (50%)" in text

    shown = json.loads(ctx("memory", "show", lesson["memory_id"], "--json"))
    assert (shown["utility"], shown["uses"]) == (pytest.approx(0.6), 1)
    learn()
    assert json.loads(ctx("memory", "show", lesson["memory_id"], "--json"))["uses"] == 1


@pytest.mark.feature("memory.used-detection")
def test_an_agents_own_question_is_logged_and_a_persons_is_not(home, environ, monkeypatch):
    wrote(home, name(1), day(1), MISSING, PASSED)
    learn()
    query = ("--everywhere", "--query", FAILED)
    assert "uv run pytest" in ctx("memory", "weave", *query)
    assert "uv run pytest" in ctx("memory", "retrieve", *query)
    assert json.loads(ctx("hooks", "status", "--json"))["injections"] == []

    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", name(7))
    ctx("memory", "weave", *query)
    ctx("memory", "retrieve", *query)
    ctx("memory", "retrieve", "--everywhere", "--query", "how do I knead sourdough")

    logged = json.loads(ctx("hooks", "status", "--json"))["injections"]
    assert [(i["host"], i["session_id"], i["event"], i["withheld"]) for i in logged] == [
        ("claude", name(7), "retrieve", False),
        ("claude", name(7), "weave", False),
    ]
    assert FAILED not in json.dumps(logged)
    assert "asked" in ctx("hooks", "status")
