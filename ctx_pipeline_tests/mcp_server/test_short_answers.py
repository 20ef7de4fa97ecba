"""Answers that an agent pays for say what it can use: some of the evidence, which run is missing, that nothing was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.model.memories import Memory
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.factories.shipped import copied
from ctx_pipeline_tests.mcp_server.conftest import Home, over_stdio, run

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = ("--tools", "memory")


@pytest.fixture
def fresh(tmp_path: Path) -> Home:
    """A store in which nothing was captured yet."""
    made = Home(tmp_path, copied(tmp_path))
    made.store.mkdir(parents=True, exist_ok=True)
    return made


async def answer(client, tool: str, **arguments) -> str:
    result = await client.call_tool(tool, arguments)
    return result.content[0].text


@pytest.mark.feature("mcp.short-memories")
def test_a_memory_names_two_of_its_events_and_sessions_and_counts_all(fresh):
    events = [f"claude/s{n}#4{n}" for n in range(8)]
    sessions = [f"claude/whole-{n}" for n in range(4)]
    lessons = [
        Memory("m-uv", "tool_lesson", "pytest fails until uv sync has run", scope="global", evidence=events, support=4, sessions=sessions),
        Memory("m-db", "tool_lesson", "pytest fails while no database runs", scope="global", evidence=events[:1]),
    ]
    MemoryIndex(fresh.store / "memory.db").rebuild(lessons)

    async def conversation():
        async with over_stdio(fresh, *SHOWN) as client:
            told = await answer(client, "retrieve_memories", query="pytest fails")
            assert [name for name in events if name in told] == events[:2]
            assert [name for name in sessions if name in told] == sessions[:2], "support says of how many"
            assert "evidence_in_all" in told
            assert " 8" in told
            assert events[7] in await answer(client, "show_memory", memory_id="m-uv")

    run(conversation)


@pytest.mark.feature("mcp.short-memories")
def test_where_no_run_looked_for_lessons_the_run_is_named_and_after_it_nothing_is_known(fresh):
    async def asked() -> str:
        async with over_stdio(fresh, *SHOWN) as client:
            return await answer(client, "retrieve_memories", query="pytest fails")

    async def before():
        assert await asked() == "nothing yet: a sync alone draws no lessons\nctx run"

    async def after():
        assert await asked() == "no memories"

    run(before)
    MemoryIndex(fresh.store / "memory.db").rebuild([])
    run(after)


@pytest.mark.feature("mcp.not-noted")
@pytest.mark.parametrize("action", ["task", "finding", "decision"])
def test_what_belongs_to_no_session_is_said_not_to_be_noted_and_why(home, fresh, tmp_path, action):
    elsewhere = Home(tmp_path, home.environ)

    async def conversation():
        for store, why in ((fresh, "nothing was captured yet"), (elsewhere, "no session of this folder's repository was captured")):
            async with over_stdio(store, *SHOWN) as client:
                told = await answer(client, "ctx_session", action=action, value="use uv")
                assert f"the {action} was not noted: {why}" in told

    run(conversation)
