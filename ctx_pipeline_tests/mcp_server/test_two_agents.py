"""Two agents of one repository that ask at the same time: each is told of its own session, its own reads, and what either kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ctx_pipeline_tests import preloaded, processes
from ctx_pipeline_tests.factories.shipped import copied
from ctx_pipeline_tests.mcp_server.conftest import Home, over_http, over_stdio, run, served

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client.client import Client

FIRST = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"
SECOND = "019a72be-d7ad-4054-a5be-4022a0f8b2f2"
PASSES = "".join(f"tests/test_{n}.py::test_it PASSED\n" for n in range(80)) + "80 passed in 1s\n"


@pytest.fixture
def own(tmp_path: Path) -> Home:
    """A store that no other test reads: notes are written into it."""
    made = Home(tmp_path, copied(tmp_path))
    assert processes.run([*preloaded.CTX, "sync"], env=made.environ, cwd=tmp_path).returncode == 0
    return made


async def said(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.content[0].text


@pytest.mark.feature("mcp.two-agents")
def test_two_agents_that_ask_at_once_are_told_of_their_own_session_and_reads(own):
    file = own.folder / "both.py"
    file.write_text("".join(f"a_{n} = {n}\n" for n in range(100)))

    async def work(client: Client, session: str, other: str) -> None:
        await said(client, "ctx_session", action="finding", value=f"both.py:1 - seen by {session}")
        status = await said(client, "ctx_session", action="status")
        assert session in status
        assert f"seen by {session}" in status
        assert f"seen by {other}" not in status
        assert "a_99 = 99" in await said(client, "ctx_read", path="both.py")
        assert "unchanged" in await said(client, "ctx_read", path="both.py")
        assert other not in await said(client, "ctx_session", action="load"), "it is no session of this folder"

    async def shorten(client: Client, output: str, handles: list[str]) -> None:
        text = await said(client, "ctx_shell", command="pytest -v", output=output)
        handles.append(text.rpartition("ctx_recall ")[2].partition(":")[0])

    async def talk() -> None:
        env = ({"CLAUDE_CODE_SESSION_ID": FIRST}, {"CODEX_THREAD_ID": SECOND})
        shown = ("--tools", "all")
        async with over_stdio(own, *shown, **env[0]) as one, over_stdio(own, *shown, **env[1]) as other:
            async with anyio.create_task_group() as both:
                both.start_soon(work, one, FIRST, SECOND)
                both.start_soon(work, other, SECOND, FIRST)
            file.write_text(file.read_text().replace("a_50 = 50", "a_50 = 51"))
            assert "+a_50 = 51" in await said(other, "ctx_read", path="both.py", mode="diff")
            file.write_text(file.read_text().replace("a_7 = 7", "a_7 = 8"))
            since = await said(one, "ctx_read", path="both.py", mode="diff")
            assert "+a_50 = 51" in since
            assert "+a_7 = 8" in since
            handles: list[str] = []
            async with anyio.create_task_group() as both:
                both.start_soon(shorten, one, f"one\n{PASSES}", handles)
                both.start_soon(shorten, other, f"other\n{PASSES}", handles)
            assert len(set(handles)) == 2
            for handle in handles:
                texts = {await said(client, "ctx_recall", handle=handle) for client in (one, other)}
                assert len(texts) == 1, "what one agent kept is the same text to the other"

    run(talk)


@pytest.mark.feature("mcp.two-agents")
def test_the_agent_that_starts_a_server_for_several_does_not_speak_for_the_others(own):
    async def status(server: Any) -> str:
        async with over_http(server) as client:
            await said(client, "ctx_session", action="decision", value="use sqlite", session_id=SECOND)
            hidden = await client.call_tool("search_history", {"query": "pytest discounts", "limit": 25})
            assert FIRST in {hit["session_id"] for hit in hidden.structured_content["hits"]}
            return await said(client, "ctx_session", action="status", session_id=SECOND)

    async def talk() -> None:
        assert "use sqlite" in await status(server)
        async with over_http(server) as client:
            told = await client.call_tool("ctx_session", {"action": "status"})
            assert "asking" not in str(told.structured_content or told.content)

    begun_by = replace(own, environ={**own.environ, "CLAUDE_CODE_SESSION_ID": FIRST})
    with served(begun_by) as server:
        run(talk)
