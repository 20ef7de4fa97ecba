"""What the protocol asks of every server, as bytes over both transports: what the official suite checks without tools of its own."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from ctx_pipeline_tests.mcp_server.conftest import SECONDS, Served, served
from ctx_pipeline_tests.mcp_server.test_bounded_stdio import Pipes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Ask = Callable[[str, dict[str, Any] | None], dict[str, Any]]

pytestmark = pytest.mark.feature("mcp.conformance")

VERSION = "2025-06-18"


def message(method: str, params: dict[str, Any] | None, number: object = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, **({} if params is None else {"params": params})}).encode()


def posted(server: Served, body: bytes | None, method: str = "POST", **headers: str | None) -> tuple[int, dict[str, str], Any]:
    """Return status, headers and the JSON of an answer; a header of None is not sent."""
    _, _, host, _ = server.url.split("/")
    sent = {
        "Authorization": f"Bearer {server.token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        **headers,
    }
    connection = http.client.HTTPConnection(host, timeout=SECONDS)
    try:
        connection.request(method, "/mcp", body, {name: value for name, value in sent.items() if value is not None})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, json.loads(text) if text else None
    finally:
        connection.close()


@pytest.fixture
def server(home) -> Iterator[Served]:
    with served(home) as one:
        yield one


@pytest.fixture(params=["stdio", "http"])
def ask(request: pytest.FixtureRequest, home: Any) -> Iterator[Ask]:
    """Ask a method of a server that shook hands, over one transport."""
    if request.param == "http":
        server = request.getfixturevalue("server")
        yield lambda method, params=None: posted(server, message(method, params))[2]
        return
    pipes = Pipes(home)
    yield lambda method, params=None: pipes.ask(message(method, params))
    assert pipes.left() == 0


def test_a_known_version_is_agreed_on_and_to_an_unknown_one_the_newest_is_answered(server: Served):
    known = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
    # the newest version has no handshake: who begins with one is told the newest that does
    agreed = {**{version: version for version in known}, **dict.fromkeys(("2026-07-28", "1999-01-01", ""), known[-1])}
    for asked, version in agreed.items():
        begin = message("initialize", {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
        status, _, answer = posted(server, begin, **{"MCP-Protocol-Version": None})
        assert (status, answer["result"]["protocolVersion"], answer["result"]["serverInfo"]["name"]) == (200, version, "ctx")


def test_what_the_capabilities_offer_is_answered_and_what_they_do_not_is_no_method(server: Served, ask: Ask):
    begin = message("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
    capabilities = posted(server, begin)[2]["result"]["capabilities"]

    assert set(capabilities) == {"tools", "resources", "prompts"}
    assert not any(value for offered in capabilities.values() for value in offered.values()), "nothing changes or is subscribed to"
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        assert "result" in ask(method)
    prompt = {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}
    asked = {
        "logging/setLevel": {"level": "debug"},
        "completion/complete": prompt,
        "resources/subscribe": {"uri": "ctx://sessions"},
        "resources/unsubscribe": {"uri": "ctx://sessions"},
        "nosuch/method": {},
    }
    assert [ask(method, params)["error"]["code"] for method, params in asked.items()] == [-32601] * 5
    assert ask("ping")["result"] == {}


def test_every_schema_of_a_tool_is_valid_and_its_name_one_that_clients_take(ask: Ask):
    tools = ask("tools/list")["result"]["tools"]
    assert len({tool["name"] for tool in tools}) == len(tools) > 5
    for tool in tools:
        assert tool["name"].replace("_", "").isalnum()
        assert tool["description"]
        for schema in filter(None, (tool["inputSchema"], tool.get("outputSchema"))):
            assert schema["type"] == "object"
            Draft202012Validator.check_schema(schema)


def test_a_cursor_that_no_list_gave_is_refused(ask: Ask):
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        assert "nextCursor" not in ask(method)["result"]
        assert ask(method, {"cursor": None})["result"]
        error = ask(method, {"cursor": "bogus"})["error"]
        assert (error["code"], error["message"]) == (-32602, "unknown cursor: the list is one page, ask for it without")


def test_names_that_are_not_there_and_calls_without_one_are_errors_of_their_arguments(ask: Ask):
    for method, params in (
        ("resources/read", {"uri": "ctx://sessions/claude/none"}),
        ("resources/read", {"uri": "nothing"}),
        ("resources/read", {}),
        ("prompts/get", {"name": "none"}),
        ("tools/call", {"arguments": {}}),
    ):
        assert ask(method, params)["error"]["code"] == -32602, method
    unknown = ask("tools/call", {"name": "none", "arguments": {}})["result"]
    assert unknown["isError"] is True
    assert unknown["content"][0]["text"].startswith("UnknownName: there is no tool called 'none'")


def test_progress_tokens_and_cancelling_what_is_over_change_nothing(home, server: Served):
    call = {"name": "list_sessions", "arguments": {"limit": 1}, "_meta": {"progressToken": "p"}}
    gone = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77, "reason": "late"}}).encode()
    pipes = Pipes(home)
    assert pipes.ask(message("tools/call", call))["result"]["content"]
    pipes.say(gone)
    assert pipes.ask(message("ping", None, "after")) == {"jsonrpc": "2.0", "id": "after", "result": {}}
    assert pipes.left() == 0
    assert posted(server, message("tools/call", call))[2]["result"]["content"]
    assert posted(server, gone)[0] == 202


def test_headers_and_methods_of_http_are_checked_as_the_transport_says(server: Served):
    ping = message("ping", None)
    for headers, status in (
        ({}, 200),
        ({"MCP-Protocol-Version": None}, 200),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400),
        ({"Accept": "application/json"}, 200),
        ({"Accept": "text/html"}, 406),
        ({"Content-Type": "text/plain"}, 415),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Authorization": None}, 401),
        ({"Mcp-Session-Id": "of-a-server-before"}, 200),
    ):
        assert posted(server, ping, **headers)[0] == status, headers
    assert posted(server, None, "PUT")[0] == 405
    assert posted(server, None, "DELETE")[0] == 405, "no session is named"
    assert posted(server, None, "DELETE", **{"Mcp-Session-Id": "x"})[0] == 204
