"""The MCP inspector as a client; without it (``npm install -g @modelcontextprotocol/inspector``) its tests are skipped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from ctx_pipeline_tests.mcp_server.conftest import served

INSPECTOR = shutil.which("mcp-inspector")

pytestmark = [
    pytest.mark.feature("mcp.inspector"),
    pytest.mark.skipif(INSPECTOR is None, reason="the MCP inspector is not installed"),
    pytest.mark.timeout(200),
]


@pytest.fixture
def inspect(home):
    def asked(*words: str) -> dict:
        given = [f"-e={name}={value}" for name, value in home.environ.items()]
        command = [INSPECTOR, "--cli", *given, sys.executable, "-m", "ctx_pipeline", "mcp", *words]
        environ = {**os.environ, **home.environ}
        done = subprocess.run(command, env=environ, cwd=home.folder, capture_output=True, check=False, timeout=190)
        assert done.returncode == 0, done.stderr.decode()[-2_000:]
        return json.loads(done.stdout)

    return asked


def test_it_lists_tools_resources_and_templates_and_calls_a_tool(inspect):
    tools = inspect("--method", "tools/list")["tools"]
    assert {tool["name"] for tool in tools} >= {"search_history", "ctx_session"}
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools)
    assert [r["uri"] for r in inspect("--method", "resources/list")["resources"]] == ["ctx://sessions"]
    (template,) = inspect("--method", "resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == "ctx://sessions/{host}/{session_id}"
    called = inspect("--method", "tools/call", "--tool-name", "search_history", "--tool-arg", "query=pytest discounts")
    assert not called.get("isError")
    assert called["content"][0]["type"] == "text"
    read = inspect("--method", "resources/read", "--uri", "ctx://sessions")
    assert json.loads(read["contents"][0]["text"])["total"] == 6
    assert inspect("--method", "prompts/list")["prompts"] == []


def test_what_goes_wrong_is_an_answer_to_it_too(inspect):
    wrong = inspect("--method", "tools/call", "--tool-name", "read_session", "--tool-arg", "host=claude", "--tool-arg", "session_id=none")
    assert wrong["isError"] is True
    assert wrong["content"][0]["text"].startswith("UnknownName")


def test_over_http_it_lists_and_calls_with_the_token(home):
    with served(home) as server:

        def asked(*words: str) -> dict:
            command = [INSPECTOR, "--cli", server.url, "--transport", "http", "--header", f"Authorization: Bearer {server.token}", *words]
            done = subprocess.run(command, cwd=home.folder, capture_output=True, check=False, timeout=190)
            if b"cannot be passed to a URL-based" in done.stderr:
                pytest.skip("this MCP inspector sends no headers")
            assert done.returncode == 0, done.stderr.decode()[-2_000:]
            return json.loads(done.stdout)

        assert {tool["name"] for tool in asked("--method", "tools/list")["tools"]} >= {"search_history", "ctx_session"}
        called = asked("--method", "tools/call", "--tool-name", "search_history", "--tool-arg", "query=pytest discounts")
        assert called["content"][0]["type"] == "text"
        assert asked("--method", "tools/call", "--tool-name", "no_tool")["isError"] is True
