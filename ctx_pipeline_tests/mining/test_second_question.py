"""One more question for each repository: which of a model's lessons say the same, and which contradict each other."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from ctx_pipeline import discovery, settings
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import SettingsError
from ctx_pipeline.memory.consolidation import words_hash
from ctx_pipeline.mining.lessons.asked_models.compared_lessons import believed
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.models import model_judge, model_mining
from ctx_pipeline.pipeline.models.second_question import ask_across
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import agents
from ctx_pipeline_tests.factories.openai_server import Server
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.story import Story, said
from ctx_pipeline_tests.factories.views import SECOND, START, view

TOLD = {
    "first": ("tool_lesson", "Run the tests with `uv run pytest`."),
    "second": ("repo_convention", "All tests here are started by `uv run pytest`, never by plain pytest."),
    "third": ("tool_lesson", "The tests are run with `make check`, and no more with `uv run pytest`."),
    "elsewhere": ("tool_lesson", "Start the tests with `uv run pytest -q` in this place."),
}
"""What the model says about each session; the sessions follow each other by a day."""


def lessons(kind, text):
    lesson = {"kind": kind, "text": text, "when_to_use": "tests are run", "steps": [], "evidence": ["e1"]}
    return [lesson | {"confidence": 0.6, "priority": 4, "risk": "low"}]


def form(**fields):
    return "\n\n".join(f"[[ ## {name} ## ]]\n{json.dumps(value)}" for name, value in {**fields, "completed": ""}.items())


def spoken(groups):
    """Return a model that tells a lesson of each session, and of lessons the groups that ``groups`` makes of their ids by text."""

    def answer(messages):
        asked = messages[-1]["content"]
        if "contradict" not in json.dumps(messages):
            (name,) = (n for n in TOLD if f"work on the {n} thing" in asked)
            return form(lessons=lessons(*TOLD[name]))
        rows = [json.loads(line) for line in asked.splitlines() if re.match(r"\{\"id\": \"l\d", line)]
        return groups({row["lesson"]: row["id"] for row in rows})

    return answer


def both(ids):
    first, second, third = (ids.get(TOLD[name][1]) for name in ("first", "second", "third"))
    return form(same=[[first, second]], contrary=[[third, second]])


@pytest.fixture
def store(environ, monkeypatch):
    monkeypatch.setenv("KEY", "k")
    with open_store(settings.load(environ)) as opened:
        sessions = [
            view(
                name, start=START + n * 86_400 * SECOND, cwd="/Users/samantha/other" if name == "elsewhere" else "/Users/samantha/app"
            ).prompt(f"work on the {name} thing: the tests are run with uv run pytest or with make check, started here")
            for n, name in enumerate(TOLD)
        ]
        normalized(opened, *sessions)
        yield opened


def of(environ, server):
    table = {"model": "openai/lessons-1", "api_base": server.url, "api_key_env": "KEY"}
    return settings.Settings(home=settings.load(environ).home, environ=environ, config={"mine": table})


def asked_twice(store, environ, groups):
    """Ask about the sessions and then across them; return what came of it and the memories by text."""
    with Server(spoken(groups)) as server:
        chosen = of(environ, server)
        model_mining.ask(store, chosen, discovery.methods()["dspy"], cells=[CELL])
        before = len(server.asked)
        done = ask_across(store, chosen, discovery.methods()["dspy"])
        again = ask_across(store, chosen, discovery.methods()["dspy"])
        assert again["asked"] == (0 if not done["failed"] else 1)
    return done, server.asked[before:], {m.text: m for m in memories(store)}


def memories(store):
    return [Memory._make(row) for row in store.lake.read_rows("memories", WHOLE, "memory/consolidated")]


@pytest.mark.feature("mining.llm-across")
def test_a_lesson_said_again_and_one_that_a_later_one_overrules_give_way_to_it(store, environ):
    done, asked, found = asked_twice(store, environ, both)
    assert (done["asked"], done["same"], done["contrary"], done["refused"]) == (1, 1, 1, {})
    first, second, third = (found[TOLD[name][1]] for name in ("first", "second", "third"))
    assert (first.superseded_by, second.superseded_by, third.superseded_by) == (second.memory_id, third.memory_id, None)
    assert (second.support, sorted(second.sessions), third.support) == (2, ["claude/first", "claude/second"], 1)
    assert second.confidence > first.confidence
    assert found[TOLD["elsewhere"][1]].superseded_by is None
    (body,) = asked
    text = json.dumps(body["messages"])
    assert TOLD["elsewhere"][1] not in text
    assert "samantha" not in text
    spent = model_judge.spent(store.journal)["dspy"]
    assert (spent["answers"], spent["failed"]) == (5, 0)


@pytest.mark.feature("mining.llm-across")
def test_a_person_who_accepted_a_lesson_keeps_it(store, environ):
    with Server(spoken(both)) as server:
        chosen = of(environ, server)
        model_mining.ask(store, chosen, discovery.methods()["dspy"], cells=[CELL])
        consolidate(store, chosen)
        (first,) = (m for m in memories(store) if m.text == TOLD["first"][1])
        store.journal.append("memory.accepted", {"memory_id": first.memory_id, "reviewed": True, "words": words_hash(first)})
        ask_across(store, chosen, discovery.methods()["dspy"])
    (first,) = (m for m in memories(store) if m.text == TOLD["first"][1])
    assert (first.status, first.superseded_by) == ("accepted", None)


@pytest.mark.feature("mining.llm-across")
@pytest.mark.parametrize("answer", [500, "I had rather not.", form(same="l1", contrary=[])])
def test_what_is_no_answer_joins_nothing_and_is_asked_again(store, environ, answer):
    done, _, found = asked_twice(store, environ, lambda _: answer)
    assert (done["asked"], done["failed"], done["same"], done["contrary"]) == (1, 1, 0, 0)
    assert all(m.superseded_by is None for m in found.values())


def lesson(name, text, day):
    return Memory(name, "tool_lesson", text, last_ts=day * 86_400_000_000)


@pytest.mark.feature("mining.llm-across")
def test_dates_decide_who_gives_way_and_strangers_are_not_joined():
    old, new = lesson("old", "Run the tests with uv run pytest.", 1), lesson("new", "Run the tests with make check.", 2)
    other, twin = lesson("other", "The invoice printer needs paper.", 3), lesson("twin", "Run tests by uv run pytest here.", 2)
    asked = {"l1": old, "l2": new, "l3": other, "l4": twin}

    def joined(**answer):
        found = believed(asked, {"same": [], "contrary": [], **answer})
        return [tuple(p) for p in found.pairs], dict(found.refused)

    assert joined(contrary=[["l1", "l2"]]) == joined(contrary=[["l2", "l1"]]) == ([("old", "new", "contrary")], {})
    assert joined(same=[["l1", "l3"]]) == ([], {"nothing in common": 1})
    assert joined(contrary=[["l2", "l4"]]) == ([], {"neither is later": 1})
    assert joined(same=[["l1", "l4"]], contrary=[["l1", "l2"]]) == ([("old", "twin", "same")], {"named twice": 1})
    assert joined(same=[["l1"], ["l1", "l1"], ["l9", "l1"], "l1", [["l1"], None], [f"l{n}" for n in range(9)]]) == ([], {"no group": 6})
    assert joined(same="all", contrary=None) == ([], {})


def twins(ids):
    return form(same=[[ids[TOLD["first"][1]], ids[TOLD["second"][1]]]], contrary=[])


@pytest.mark.feature("mining.llm-across")
def test_the_command_asks_across_sessions_only_where_that_is_said(environ, tmp_path, monkeypatch):
    monkeypatch.setenv("KEY", "k")
    (tmp_path / "shop").mkdir()
    story = Story(environ, tmp_path / "shop")
    for name in ("first", "second"):
        story.day(said(f"work on the {name} thing: all tests are run with uv run pytest, started here"))
    story.learn()
    with Server(spoken(twins)) as server:
        home = settings.load(environ).home
        home.joinpath("config.toml").write_text(f'[mine]\nmodel = "openai/lessons-1"\napi_base = "{server.url}"\napi_key_env = "KEY"\n')

        def run(*words):
            return CliRunner().invoke(cli, ["mine", *words], env=dict(environ))

        run("--method", "dspy")
        assert len(server.asked) == 2
        with open_store(settings.load(environ)) as store:
            consolidate(store, settings.load(environ))
        shown = run("--method", "dspy", "--across", "--dry-run")
        assert TOLD["second"][1] in shown.output
        assert len(server.asked) == 2
        told = run("--method", "dspy", "--across")
        assert "across sessions 1 time, 1 lesson said again, 0 overruled by later ones" in told.output
        assert len(server.asked) == 3
        assert json.loads(run("--method", "dspy", "--across", "--json").output)["across"]["dspy"]["asked"] == 0
        assert "all sessions" in str(run("claude", "--method", "dspy", "--across").exception)
        assert "ask a model" in str(run("--across").exception)


@pytest.mark.feature("mining.llm-across")
def test_an_agent_is_asked_across_sessions_too(store, environ, tmp_path):
    with Server(spoken(both)) as server:
        model_mining.ask(store, of(environ, server), discovery.methods()["dspy"], cells=[CELL])
    folder = tmp_path / "bin"
    agents.install(folder, "claude", agents.claude_stream('It is {"same": [["l1", "l2"]], "contrary": []}.'))
    chosen = settings.Settings(home=settings.load(environ).home, environ={**environ, "PATH": agents.path_of(folder)}, config={})
    done = ask_across(store, chosen, discovery.methods()["claude_headless"])
    assert (done["asked"], done["failed"], done["same"]) == (1, 0, 1)
    assert TOLD["second"][1] in agents.seen(folder)["question"]


@pytest.mark.feature("mining.llm-across")
def test_nothing_is_asked_without_a_configured_model(store, environ):
    with pytest.raises(SettingsError, match="no model is configured"):
        ask_across(store, settings.load(environ), discovery.methods()["dspy"])
