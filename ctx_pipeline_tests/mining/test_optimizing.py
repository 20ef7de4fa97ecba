"""The instructions of a model are improved on judged lessons, offline, and kept only when a person takes them."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from ctx_pipeline import discovery, settings
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import SettingsError, UsageError
from ctx_pipeline.mining.lessons.asked_models.model_lessons import INSTRUCTIONS
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.models import lesson_program, model_mining
from ctx_pipeline.pipeline.models.lesson_program import Judged, worth
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.openai_server import Server
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import SECOND, START, view

BETTER = "Draw lessons that name a command of this project. MARK-OF-BETTER"
LESSON = {
    "kind": "tool_lesson",
    "text": "Run the tests with uv run pytest in this project.",
    "when_to_use": "tests are run",
    "steps": ["uv run pytest"],
    "evidence": ["e2"],
    "confidence": 0.9,
    "priority": 4,
    "risk": "low",
}
CHATTER = {**LESSON, "kind": "user_preference", "text": "The person wants to run make lint with care.", "steps": [], "evidence": ["e1"]}


def spoken(*lessons):
    return f"[[ ## lessons ## ]]\n{json.dumps(list(lessons))}\n\n[[ ## completed ## ]]"


def recorded(messages):
    """A model that draws what was rejected unless it is asked in better words, and offers those when it is asked for them."""
    text = json.dumps(messages)
    if "new_instruction" in text:
        return json.dumps({"new_instruction": BETTER})
    return spoken(LESSON) if "MARK-OF-BETTER" in text else spoken(LESSON, CHATTER)


@pytest.fixture
def judged(environ, monkeypatch):
    """Return settings of a store in which two sessions taught two lessons each: one accepted, one rejected."""
    monkeypatch.setenv("KEY", "k")
    with Server(recorded) as server:
        home = settings.load(environ).home
        home.mkdir(parents=True)
        home.joinpath("config.toml").write_text(f'[mine]\nmodel = "openai/lessons-1"\napi_base = "{server.url}"\napi_key_env = "KEY"\n')
        chosen = settings.load(environ)
        with open_store(chosen) as store:
            sessions = [
                view(name, start=START + n * 86_400 * SECOND, cwd=f"/w/{name}")
                .prompt("run make lint with care, then the tests")
                .shell("uv run pytest", text="3 passed")
                for n, name in enumerate("ab")
            ]
            normalized(store, *sessions)
            model_mining.ask(store, chosen, discovery.methods()["dspy"], cells=[CELL])
            consolidate(store, chosen)
            for row in store.lake.read_rows("memories", store_whole(), "memory/consolidated"):
                kind = "memory.accepted" if "uv run" in row.text else "memory.rejected"
                store.journal.append(kind, {"memory_id": row.memory_id, **reviewed(row)})
            consolidate(store, chosen)
        yield chosen, server


def store_whole():
    from ctx_pipeline.pipeline.plan import WHOLE

    return WHOLE


def reviewed(row):
    from ctx_pipeline.memory.consolidation import words_hash
    from ctx_pipeline.model.memories import Memory

    return {"reviewed": True, "words": words_hash(Memory._make(row))}


@pytest.mark.feature("mining.optimize")
def test_the_metric_wants_what_was_accepted_and_nothing_that_was_rejected():
    one = Judged("", ("Run the tests with uv run pytest.",), ("The person wants short answers.",))
    assert worth(["run tests with `uv run pytest` here"], one)[0] == 1.0
    assert worth(["run tests with `uv run pytest` here", "short answers are wanted by the person"], one)[0] == 0.75
    score, why = worth([], one)
    assert (score, why) == (0.5, "A lesson that the person accepted is missing: Run the tests with uv run pytest.")
    assert worth([], Judged("", (), ("x y",)))[0] == 1.0


@pytest.mark.feature("mining.optimize")
def test_better_instructions_are_found_on_judged_lessons_and_used_once_a_person_takes_them(judged, environ):
    chosen, server = judged
    with open_store(chosen) as store:
        assert [(len(s.accepted), len(s.rejected)) for s in lesson_program.judged_sessions(store, chosen)] == [(1, 1), (1, 1)]
        asked = len(server.asked)
        made = lesson_program.optimize(store, chosen, calls=12)
        assert (made.before, made.after) == (0.75, 1.0)
        assert made.calls == len(server.asked) - asked == 9
        with pytest.raises(UsageError, match="8 calls are too few: one try over 2 sessions makes 9"):
            lesson_program.plan(store, chosen, calls=8)
        assert made.tokens_in == sum(n for _, n, _ in server.said[-made.calls :])
        assert "MARK-OF-BETTER" in made.instructions
        assert lesson_program.instructions(store.journal) == INSTRUCTIONS
        lesson_program.take(store.journal, made)
        asked = len(server.asked)
        model_mining.ask(store, chosen, discovery.methods()["dspy"], cells=[CELL], again=True)
        assert all("MARK-OF-BETTER" in json.dumps(body["messages"]) for body in server.asked[asked:])


def never_better(messages):
    """A model that draws what was rejected whatever it is asked in."""
    text = json.dumps(messages)
    return json.dumps({"new_instruction": f"Try {len(text)}."}) if "new_instruction" in text else spoken(LESSON, CHATTER)


def out_of_form(messages):
    """A model whose answers have no form, so that another form of asking would be tried."""
    return json.dumps({"new_instruction": "Try."}) if "new_instruction" in json.dumps(messages) else "I had rather not."


@pytest.mark.feature("mining.optimize")
@pytest.mark.parametrize("answer", [never_better, out_of_form])
@pytest.mark.parametrize("calls", [9, 15, 23])
def test_no_more_requests_are_made_than_were_said(judged, answer, calls):
    chosen, _ = judged
    with Server(answer) as server, open_store(chosen) as store:
        chosen.config["mine"]["api_base"] = server.url
        said = lesson_program.plan(store, chosen, calls=calls)
        made = lesson_program.optimize(store, chosen, calls=calls)
        assert (made.before, made.calls) == (made.after, len(server.asked))
        assert 0 < len(server.asked) <= calls == said.calls


@pytest.mark.feature("mining.optimize")
def test_a_server_that_answers_nothing_is_asked_once_for_each_session(judged):
    chosen, _ = judged
    with Server(lambda _: 500) as server, open_store(chosen) as store:
        chosen.config["mine"]["api_base"] = server.url
        with pytest.raises(SettingsError, match="gave no answer to 2 requests"):
            lesson_program.optimize(store, chosen, calls=23)
        assert len(server.asked) == 2


@pytest.mark.feature("mining.optimize")
def test_the_price_of_an_optimization_is_said_before_and_after(judged, environ):
    chosen, _ = judged
    home = chosen.home / "config.toml"
    home.write_text(home.read_text() + '[prices."openai/lessons-1"]\ninput = 100.0\noutput = 200.0\n')
    with open_store(settings.load(environ)) as store:
        said = lesson_program.plan(store, settings.load(environ), calls=12)
    told = CliRunner().invoke(cli, ["learn", "--optimize", "12", "--yes"], env=dict(environ), catch_exceptions=False)
    assert "INFO dspy" not in told.output
    assert said.cost == pytest.approx(said.tokens * 0.0001 + 12 * 4_000 * 0.0002)
    assert f"about {said.tokens:,} tokens, ${said.cost:.2f} with the longest answers" in told.output
    sent, answered, paid = (
        float(n.replace(",", "")) for n in re.search(r"([\d,]+) tokens sent, ([\d,]+) answered, \$([\d.]+)", told.output).groups()
    )
    assert paid == pytest.approx(sent * 0.0001 + answered * 0.0002, abs=1e-4)


@pytest.mark.feature("mining.optimize")
def test_the_tokens_of_records_in_scripts_with_a_token_a_sign_are_not_taken_for_a_quarter(judged, monkeypatch):
    chosen, _ = judged
    with open_store(chosen) as store:
        monkeypatch.setattr(lesson_program, "judged_sessions", lambda *_: [Judged("测试要先运行然后再提交" * 2_000, ("a",) * 4, ())])
        assert lesson_program.plan(store, chosen, calls=12).tokens > 12 * 12_000


@pytest.mark.feature("mining.optimize")
def test_the_command_says_what_it_sends_and_too_few_judged_lessons_are_refused(judged, environ):
    chosen, server = judged
    asked = len(server.asked)
    told = CliRunner().invoke(cli, ["learn", "--optimize", "12"], input="n\n", env=dict(environ), catch_exceptions=False)
    assert "at most 12 requests to openai/lessons-1 over 2 sessions with judged lessons" in told.output
    assert "its price is not known" in told.output
    assert len(server.asked) == asked
    told = CliRunner().invoke(cli, ["learn", "--optimize", "12", "--yes"], env=dict(environ), catch_exceptions=False)
    assert "score 0.75 before, 1.00 after; 9 of 12 requests" in told.output
    with open_store(chosen) as store:
        assert "MARK-OF-BETTER" in lesson_program.instructions(store.journal)
        store.journal.append(
            "memory.retired", {"memory_id": store.lake.read_rows("memories", store_whole(), "memory/consolidated")[0].memory_id}
        )
        consolidate(store, chosen)
        with pytest.raises(UsageError, match="too few"):
            lesson_program.optimize(store, chosen, calls=12)
