"""A store of the sample homes with a few memories, and a real client of the server over either transport."""

from __future__ import annotations

import select
import subprocess
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from ctx_pipeline.model.memories import Memory
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests import preloaded, processes
from ctx_pipeline_tests.factories.shipped import copied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

SECONDS = 200


@dataclass(frozen=True)
class Home:
    """A store after one run, and the environment of programs that use it."""

    folder: Path
    environ: dict[str, str]

    @property
    def store(self) -> Path:
        return Path(self.environ["CTX_HOME"])


def remembered() -> list[Memory]:
    return [
        Memory("m-uv", "tool_lesson", "pytest fails until uv sync has run", scope="global", support=2, sessions=["claude/a", "claude/b"]),
        Memory("m-live", "tool_lesson", "pytest fails while the database container is down", scope="global", sessions=["claude/live"]),
    ]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("mcp")
    made = Home(folder, copied(folder))
    # a sync alone takes a tenth of a run, and the tools need no more
    assert processes.run([*preloaded.CTX, "sync"], env=made.environ, cwd=folder).returncode == 0
    MemoryIndex(made.store / "memory.db").rebuild(remembered())
    return made


@asynccontextmanager
async def over_stdio(home: Home, *words: str, **environ: str) -> AsyncIterator[Client]:
    """A client of the server as programs use it; with words of its own as these say."""
    env = {**home.environ, **environ}
    program, *args = preloaded.command("mcp", *(words or ("--tools", "all", "--structured")), env=env, cwd=home.folder)
    with anyio.fail_after(SECONDS):
        async with Client(stdio_client(StdioServerParameters(command=program, args=args, env=env, cwd=home.folder))) as client:
            yield client


def run(conversation: Callable[[], Coroutine[Any, Any, None]]) -> None:
    anyio.run(conversation)


@dataclass(frozen=True)
class Served:
    """A server over HTTP: its address and its token."""

    url: str
    token: str


@contextmanager
def served(home: Home) -> Iterator[Served]:
    process = processes.start(
        preloaded.command("mcp", "--http", "--tools", "all", "--structured", env=home.environ, cwd=home.folder),
        env=home.environ,
        cwd=home.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        assert ready, "the server did not say its address"
        url = process.stdout.readline().strip()
        yield Served(url, (home.store / "mcp-token").read_text().strip())
    finally:
        processes.end(process)


@asynccontextmanager
async def over_http(server: Served) -> AsyncIterator[Client]:
    with anyio.fail_after(SECONDS):
        async with (
            create_mcp_http_client(headers={"Authorization": f"Bearer {server.token}"}) as http,
            Client(streamable_http_client(server.url, http_client=http)) as client,
        ):
            yield client
