"""What an agent says of a memory is a fact in the journal and counts at once; what was measured and used can be asked."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.index import index_memory
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.pipeline.mine import mine
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.mcp_server.conftest import Home, over_stdio, run
from ctx_pipeline_tests.mcp_server.test_tools import SESSION, asked


@pytest.fixture
def mined(home, tmp_path):
    """A store of its own with memories that were mined from the sample sessions, and two families of readings."""
    folder = tmp_path / "mined"
    # what other tests looked up with the shared store is not this one's
    shutil.copytree(home.folder, folder, ignore=shutil.ignore_patterns("journal.db*"))
    made = Home(folder, environment(folder))
    with closing(Journal(made.store / "journal.db", anew=True)) as journal:
        journal.restore([])
    settings = settings_module.load(made.environ)
    with open_store(settings) as store:
        measure(store, settings, families=["outcomes", "cost"])
        mine(store, settings)
        consolidate(store, settings)
        index_memory(store, settings)
    return made


@pytest.mark.feature("mcp.tools")
def test_accepting_and_rewarding_a_memory_is_written_and_seen_by_the_next_call(mined):
    with open_store(settings_module.load(mined.environ), read_only=True) as store:
        chosen = next(m for m in store.memories.memories() if m.status == "candidate")

    async def conversation():
        async with over_stdio(mined, CLAUDE_CODE_SESSION_ID="s-now") as client:
            assert (await asked(client, "accept_memory", memory_id=chosen.memory_id))["status"] == "accepted"
            rewarded = await asked(client, "update_memory_utility", memory_id=chosen.memory_id, reward=1.0, reason="saved a search")
            assert rewarded["utility"] == pytest.approx(chosen.utility + 0.2 * (1 - chosen.utility))
            shown = await asked(client, "show_memory", memory_id=chosen.memory_id)
            assert (shown["status"], shown["utility"]) == ("accepted", rewarded["utility"])

    run(conversation)
    with closing(Journal(mined.store / "journal.db", read_only=True)) as journal:
        facts = [(f.kind, f.payload) for f in journal.facts() if f.kind.startswith("memory.")]
    assert [kind for kind, _ in facts] == ["memory.accepted", "memory.rewarded"]
    assert facts[1][1]["session_id"] == "s-now"
    assert facts[1][1]["reason"] == "saved a search"


@pytest.mark.feature("mcp.limits", "mcp.stable-ids")
def test_memories_come_a_page_at_a_time(mined):
    store = MemoryIndex(mined.store / "memory.db")
    store.rebuild([Memory(f"m-{n}", "tool_lesson", f"the baker burns loaf number {n}", scope="user") for n in range(7)])
    store.close()

    async def conversation():
        async with over_stdio(mined) as client:
            pages, cursor = [], None
            while not pages or cursor:
                page = await asked(client, "retrieve_memories", query="who burns a loaf", limit=3, **({"cursor": cursor} if cursor else {}))
                pages.append([m["memory_id"] for m in page["memories"]])
                cursor = page["next_cursor"]
            assert [len(p) for p in pages] == [3, 3, 1]
            assert sorted(m for page in pages for m in page) == [f"m-{n}" for n in range(7)]
            assert (await client.call_tool("retrieve_memories", {"query": "another", "cursor": "3-0123456789"})).is_error

    run(conversation)


@pytest.mark.feature("mcp.tools", "mcp.limits")
def test_usage_and_signals_are_told_within_limits(mined):
    async def conversation():
        async with over_stdio(mined) as client:
            days = await asked(client, "get_usage", by="daily", until="2026-09-22")
            assert [(r["date"], r["calls"]) for r in days["rows"]] == [("2026-09-14", 9), ("2026-09-22", 11)]
            last = await asked(client, "get_usage", by="daily", until="2026-09-22", limit=1)
            assert ([r["date"] for r in last["rows"]], last["rows_in_all"], last["totals"]["calls"]) == (["2026-09-22"], 2, 20)
            assert last["totals"]["cost_usd"] == pytest.approx(0.1273518 + 0.27996675)
            before = await asked(client, "get_usage", by="daily", until="2026-09-22", limit=1, cursor=last["next_cursor"])
            assert ([r["date"] for r in before["rows"]], before["next_cursor"]) == (["2026-09-14"], None)
            assert days["next_cursor"] is None
            wrong = await client.call_tool("get_usage", {"by": "weekly", "cursor": last["next_cursor"]})
            assert wrong.is_error

            one = await asked(client, "get_signals", host="claude", session_id=SESSION[:8])
            assert one["session_id"] == SESSION
            assert {r["family"] for r in one["readings"]} == {"outcomes", "cost"}
            assert all(len(r["evidence"]) <= 3 for r in one["readings"])
            assert any(r["evidence"] for r in one["readings"])
            together = await asked(client, "get_signals")
            assert together["session_id"] is None
            assert {r["count"] + r["missing"] for r in together["readings"]} == {6}

    run(conversation)


@pytest.mark.feature("memory.used-detection", "hooks.status")
def test_what_an_agent_looked_up_is_logged_for_its_session_and_never_the_question(mined):
    with open_store(settings_module.load(mined.environ), read_only=True) as store:
        chosen = next(m for m in store.memories.memories() if m.status == "candidate")

    async def conversation():
        async with over_stdio(mined, CLAUDE_CODE_SESSION_ID="s-now") as client:
            found = await asked(client, "retrieve_memories", query=chosen.text)
            assert chosen.memory_id in {m["memory_id"] for m in found["memories"]}
            await asked(client, "retrieve_memories", query="how do I knead sourdough")
            await asked(client, "retrieve_memories", query=chosen.text, own_session="another")
        async with over_stdio(mined) as client:
            await asked(client, "retrieve_memories", query=chosen.text)

    run(conversation)
    with closing(Journal(mined.store / "journal.db", read_only=True)) as journal:
        facts = [f.payload for f in journal.facts("hook.injected")]
    assert [(f["host"], f["session_id"], f["event"]) for f in facts] == [("claude", "s-now", "retrieve"), ("", "another", "retrieve")]
    assert chosen.memory_id in {m["memory_id"] for m in facts[0]["memories"]}
    assert chosen.text not in repr(facts)


@pytest.mark.feature("memory.here-by-default", "mcp.tools")
def test_without_a_folder_the_servers_own_repository_is_asked(mined, tmp_path, monkeypatch):
    from ctx_pipeline.mcp_server.memory_tools import MemoryTools

    settings = settings_module.load(mined.environ)
    with open_store(settings, read_only=True) as store:
        chosen = next(m for m in store.memories.memories() if m.status == "candidate" and m.scope == "repo")
    tools = MemoryTools(settings, lambda verb, memory_id, **payload: {})

    def found() -> set[str]:
        return {m.memory_id for m in tools.retrieve_memories(chosen.text).memories}

    monkeypatch.chdir(tmp_path)
    assert chosen.memory_id in found()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/nobody/else.git\n', "utf-8")
    assert found() == set()


@pytest.mark.feature("mcp.tools")
@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -0.1])
def test_a_reward_that_is_no_share_is_refused_before_anything_is_written(mined, monkeypatch, reward):
    from ctx_pipeline.cli.memory.commands import _judge
    from ctx_pipeline.errors import UsageError

    for name, value in mined.environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="is not a reward"):
        _judge("memory.rewarded", "mem-any", reward=reward)


@pytest.mark.feature("mcp.text-answers")
def test_signals_of_all_sessions_are_told_without_their_months_and_before_a_run_the_command_that_measures(home, mined):
    async def before():
        async with over_stdio(home, "--tools", "all") as client:
            for asked_for in ({}, {"host": "claude", "session_id": SESSION}):
                answer = await client.call_tool("get_signals", asked_for)
                assert not answer.is_error
                assert answer.content[0].text == (
                    "nothing yet: no signal was measured\nctx run measures what was captured; a sync alone does not"
                )

    async def after():
        async with over_stdio(mined) as client:
            readings = (await asked(client, "get_signals"))["readings"]
            assert any(r["count"] for r in readings)
            assert not any("months" in r for r in readings)
            assert (await client.call_tool("get_signals", {"host": "claude", "session_id": SESSION, "group": "no-such"})).is_error

    run(before)
    run(after)


@pytest.mark.feature("mcp.text-answers")
def test_a_save_says_in_words_what_it_read(home):
    async def conversation():
        async with over_stdio(home, "--tools", "all") as client:
            answer = await client.call_tool("ctx_session", {"action": "save"})
            assert answer.content[0].text == "nothing is newer than what was captured"

    run(conversation)
