"""Reports over all sessions, asked of a server that stays up while sessions are captured: each answer speaks of the store as it is."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories.claude import ClaudeHome, tool_use
from ctx_pipeline_tests.factories.shipped import copied
from ctx_pipeline_tests.mcp_server.conftest import SECONDS, Home, over_stdio, run

NEW = "33333333-3333-4333-8333-333333333333"


def ctx(home: Home, *words: str) -> None:
    preloaded.run(words, env=home.environ, cwd=Path.cwd(), stdin=None, seconds=SECONDS).check_returncode()


async def told(client) -> dict:
    """Return what the reports say, each asked once."""
    asked = {
        "session": ("get_usage", {"by": "session", "limit": 60}),
        "tool": ("get_usage", {"by": "tool", "limit": 60}),
        "gain": ("ctx_gain", {"period": "all"}),
        "wrapped": ("ctx_wrapped", {"period": "all"}),
        "list": ("ctx_session", {"action": "list"}),
        "verify": ("ctx_verify", {}),
    }
    found = {}
    for name, (tool, arguments) in asked.items():
        answer = await client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        found[name] = answer.structured_content.get("value", answer.structured_content)
    return found


@pytest.mark.feature("mcp.first-answers")
@pytest.mark.feature("session.verify")
def test_answers_over_all_sessions_follow_what_is_captured(tmp_path: Path):
    home = Home(tmp_path, copied(tmp_path))
    ctx(home, "run")
    assert (home.store / "serving" / "sessions.db").is_file()

    async def asked() -> None:
        async with over_stdio(home) as client:
            await client.list_tools()
            before = await told(client)
            made = ClaudeHome(tmp_path / "claude").session(NEW, mark="n").prompt("list the files")
            made.answer(tool_use("t1", "Bash", command="ls -la"), message_id="msg_new1").result("t1", "a b c").save()
            ctx(home, "sync")
            after = await told(client)

            calls = [one["session"]["totals"]["calls"] for one in (before, after)]
            assert calls[1] == calls[0] + 1
            assert [one["tool"]["totals"]["calls"] for one in (before, after)] == calls
            assert [one["gain"]["calls"] for one in (before, after)] == calls
            assert [one["wrapped"]["calls"] for one in (before, after)] == calls
            assert after["list"]["total"] == before["list"]["total"] + 1
            assert NEW not in str(before)
            new = next(row for row in after["list"]["sessions"] if row["session_id"] == NEW)
            assert (new["task"], new["model_calls"]) == ("list the files", 1)
            assert [one["verify"]["counts"]["fail"] for one in (before, after)] == [0, 0]
            checked = {check["name"]: check["checked"] for check in after["verify"]["checks"]}
            assert checked["captured sessions are in the tables"] == after["list"]["total"]
            again = await client.call_tool("ctx_verify", {"action": "recount"})
            assert again.structured_content["value"]["counts"]["fail"] == 0
            assert "snapshots name what they left out" in str(again.structured_content)
            wrong = await client.call_tool("ctx_verify", {"action": "everything"})
            assert wrong.is_error
            assert "recount" in str(wrong.content)

    run(asked)


@pytest.mark.feature("mcp.first-answers")
def test_a_client_that_leaves_while_the_server_reads_ahead_is_no_abort(tmp_path: Path):
    home = Home(tmp_path, copied(tmp_path))
    ctx(home, "run")
    code = (
        "import os, runpy, sys, time\n"
        "import ctx_pipeline.sessions.reports.kept_figures as ahead\n"
        "def slow(settings):\n    time.sleep(1)\n    os.write(2, b'read ahead')\n"
        "ahead.warm = slow\n"
        "sys.argv = ['ctx', 'mcp']\nrunpy.run_module('ctx_pipeline', run_name='__main__')\n"
    )
    asked = [
        {
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    with subprocess.Popen(
        [sys.executable, "-c", code], env=home.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        server.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in asked))
        server.stdin.flush()
        server.stdout.readline(), server.stdout.readline()
        time.sleep(0.4)  # by then it has begun
        server.stdin.close()
        assert (server.wait(SECONDS), server.stderr.read()) == (0, b"read ahead")
