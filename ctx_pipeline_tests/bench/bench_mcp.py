"""How long an agent waits for the MCP server: until it is there, and for each tool over a home, asked by the official client."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import ctx_pipeline
from ctx_pipeline_tests.bench.bench_ingest import add_session
from ctx_pipeline_tests.bench.rows import Row, copied, many

if TYPE_CHECKING:
    from collections.abc import Mapping

STARTS, CALLS = 8, 20

_QUESTIONS = ("timeout in tests", "how was the cart fixed", "database connection refused", "npm install fails", "login form", "lint errors")
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "search_history": ("search_history", {"query": "?"}),
    "list_sessions": ("list_sessions", {}),
    "read_session": ("read_session", {"host": "?", "session_id": "?"}),
    "retrieve_memories": ("retrieve_memories", {"query": "?"}),
    **{
        f"ctx_session {action}": ("ctx_session", {"action": action, "session_id": "?"})
        for action in ("status", "load", "resume", "snapshot", "checkpoints", "playbook")
    },
    "ctx_session list": ("ctx_session", {"action": "list"}),
    "ctx_session profile": ("ctx_session", {"action": "profile"}),
    "ctx_read": ("ctx_read", {"path": "listing.py"}),
    "ctx_read signatures": ("ctx_read", {"path": "states/state.py", "mode": "signatures"}),
    "ctx_search": ("ctx_search", {"pattern": "def listed"}),
    "ctx_tree": ("ctx_tree", {}),
    "ctx_shell": ("ctx_shell", {"command": "pytest -v", "output": "tests/test_a.py::test_b PASSED\n" * 1000}),
    "get_usage daily": ("get_usage", {"by": "daily"}),
    "get_usage tool": ("get_usage", {"by": "tool"}),
    "get_signals of all": ("get_signals", {}),
    "get_signals of one": ("get_signals", {"host": "?", "session_id": "?"}),
    "get_findings": ("get_findings", {}),
    "ctx_analyze": ("ctx_analyze", {"path": "listing.py"}),
    "ctx_wrapped": ("ctx_wrapped", {}),
    "ctx_gain week": ("ctx_gain", {"period": "week"}),
    "ctx_heatmap": ("ctx_heatmap", {"cwd": "/home/dev/src/web-shop"}),
    "ctx_heatmap json": ("ctx_heatmap", {"action": "json", "cwd": "/home/dev/src/web-shop"}),
    "ctx_verify": ("ctx_verify", {}),
    "ctx_session diff": ("ctx_session", {"action": "diff", "session_id": "?"}),
    "ctx_session restore": ("ctx_session", {"action": "restore", "session_id": "?"}),
    "ctx_session cleanup": ("ctx_session", {"action": "cleanup"}),
    "ctx_session save": ("ctx_session", {"action": "save"}),
    "ctx_cache": ("ctx_cache", {"session_id": "?"}),
    "ctx_metrics": ("ctx_metrics", {"session_id": "?"}),
    "ctx_gain live": ("ctx_gain", {"action": "live", "session_id": "?"}),
    "ctx_artifacts search": ("ctx_artifacts", {"action": "search", "query": "cart"}),
    "ctx_compress of a file": ("ctx_compress", {"paths": ["listing.py"]}),
    "ctx_compress of a window": ("ctx_compress", {"session_id": "?"}),
}
"""Row -> tool and arguments; where they say ``?`` each call asks of another session or with another question."""

NOT_ASKED = {
    "accept_memory": "it writes what a person says",
    "update_memory_utility": "it writes what an agent says",
    "show_memory": "a memory by its id, which retrieve_memories reads too",
    "ctx_recall": "a part of one file",
    "ctx_benchmark": "it measures: every form of a file is made",
}
"""Tool -> why no row measures it."""


WHOLE = (
    *("list_sessions", "get_usage daily", "get_usage tool", "get_signals of all", "get_findings", "ctx_session list"),
    *("ctx_wrapped", "ctx_gain week", "ctx_heatmap", "ctx_verify"),
)
"""Rows of answers over all sessions; each is asked for the first time after one more session was captured."""

AFTER_SYNC = 5


def mcp_rows(home: Path) -> list[Row]:
    """Return seconds to a listing of tools, and for each tool milliseconds of the first answer and of later ones."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(home, Path(folder) / "home")
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": folder,
            "CTX_HOME": str(Path(folder) / "store"),
            "CLAUDE_CONFIG_DIR": str(copy / ".claude"),
            "CODEX_HOME": str(copy / ".codex"),
        }
        subprocess.run([sys.executable, "-m", "ctx_pipeline", "run", "--json"], env=environ, check=True, stdout=subprocess.DEVNULL)
        # code to read and search, outside of any repository
        project = shutil.copytree(Path(ctx_pipeline.__file__).parent / "sessions", Path(folder) / "project")
        return anyio.run(_measured, environ, str(project))


async def _measured(environ: dict[str, str], project: str) -> list[Row]:
    args = ["-P", "-m", "ctx_pipeline", "mcp", "--tools", "all"]
    command = StdioServerParameters(command=sys.executable, args=args, env=environ, cwd=project)
    started = []
    for _ in range(many(STARTS)):
        began = time.perf_counter()
        async with Client(stdio_client(command)) as client:
            await client.list_tools()
            started.append(time.perf_counter() - began)
    rows = [Row("mcp: start until the tools are listed, least", min(started)), Row("mcp: start, median", statistics.median(started))]
    sessions = _sessions(environ)
    async with Client(stdio_client(command)) as client:
        for name, (tool, asked) in ASKED.items():
            times = []
            for number in range(many(CALLS) + 1):
                given = _filled(asked, number, sessions)
                began = time.perf_counter()
                answer = await client.call_tool(tool, given)
                times.append((time.perf_counter() - began) * 1000)
                if answer.is_error:
                    raise RuntimeError(f"{name}: {answer.content}")
            later = sorted(times[1:])
            rows += [
                Row(f"mcp: {name}, first", times[0], "ms"),
                Row(f"mcp: {name}, median", statistics.median(later), "ms"),
                Row(f"mcp: {name}, 95th percentile", later[int(len(later) * 0.95)], "ms"),
            ]
    return [*rows, *await _first_answers(command, environ)] if sys.platform == "linux" else rows


async def _first_answers(command: StdioServerParameters, environ: dict[str, str]) -> list[Row]:
    """Return the processor's milliseconds of the server for the first answer of each report after a ``ctx sync``, the least of several."""
    before = _children()
    found: dict[str, list[float]] = {name: [] for name in WHOLE}
    async with Client(stdio_client(command)) as client:
        await client.list_tools()
        (server,) = _children() - before
        # every tool once: what a first call imports is another matter
        for name in WHOLE:
            await client.call_tool(*ASKED[name])
        for _ in range(many(AFTER_SYNC)):
            for number, name in enumerate(WHOLE):
                if number < many(len(WHOLE)):  # in a trial one session is captured for all of them
                    add_session(Path(environ["CLAUDE_CONFIG_DIR"]) / "projects")
                    await anyio.run_process([sys.executable, "-m", "ctx_pipeline", "sync", "--figures"], env=environ)
                began = _processor(server)
                answer = await client.call_tool(*ASKED[name])
                found[name].append((_processor(server) - began) * 1000)
                if answer.is_error:
                    raise RuntimeError(f"{name}: {answer.content}")
    return [Row(f"mcp: {name}, first after a sync, processor, least", min(times), "ms") for name, times in found.items()]


def _children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text("ascii").split()}


def _processor(pid: int) -> float:
    """Return the seconds of processor that another process has used: Linux has a clock for each."""
    return time.clock_gettime((~pid << 3) | 2)


def _sessions(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.sessions import pages

    lines, _ = pages.newest(limit=10_000, settings=settings_module.load(environ, home=Path(environ["CTX_HOME"])))
    return random.Random(0).sample([(line.host, line.session_id) for line in lines], min(len(lines), CALLS + 1))


def _filled(asked: Mapping[str, Any], number: int, sessions: list[tuple[str, str]]) -> dict[str, Any]:
    host, session_id = sessions[number % len(sessions)]
    named = session_id if "host" in asked else f"{host}:{session_id}"
    told = {"host": host, "session_id": named, "query": _QUESTIONS[number % len(_QUESTIONS)]}
    return {name: told[name] if value == "?" else value for name, value in asked.items()}
