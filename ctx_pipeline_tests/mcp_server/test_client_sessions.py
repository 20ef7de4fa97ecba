"""What a client over HTTP was given is remembered for it alone, for a time."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from ctx_pipeline.mcp_server import client_sessions
from ctx_pipeline.mcp_server.client_sessions import MOST_CLIENTS, SECONDS, ClientSessions, Remembered
from ctx_pipeline_tests.mcp_server.conftest import SECONDS as PATIENCE
from ctx_pipeline_tests.mcp_server.conftest import Served, over_http, run, served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def keeping_its_session(server: Served, **chosen: str) -> AsyncIterator[Client]:
    """A client of the protocol's versions that have sessions; one of the newest, which has none, where it has headers of its own."""
    with anyio.fail_after(PATIENCE):
        async with (
            create_mcp_http_client(headers={"Authorization": f"Bearer {server.token}", **chosen}) as http,
            Client(streamable_http_client(server.url, http_client=http), mode="auto" if chosen else "legacy") as client,
        ):
            yield client


async def said(client: Client, **arguments: object) -> str:
    result = await client.call_tool("ctx_read", {"path": "kept.py", **arguments})
    return result.content[0].text


@pytest.mark.feature("mcp.http-sessions")
def test_a_client_that_keeps_its_session_is_told_what_changed_since_it_read_and_another_one_is_not(home):
    file = home.folder / "kept.py"
    file.write_text("".join(f"a_{n} = {n}\n" for n in range(100)))

    async def talk():
        async with keeping_its_session(server) as one, keeping_its_session(server) as other, over_http(server) as without:
            assert "a_99 = 99" in await said(one)
            assert "unchanged" in await said(one)
            file.write_text(file.read_text().replace("a_50 = 50", "a_50 = 51"))
            changed = await said(one, mode="diff")
            assert "+a_50 = 51" in changed
            assert "a_99 = 99" not in changed
            assert "a_99 = 99" in await said(other)
            for _ in range(2):
                assert "a_99 = 99" in await said(without)

    with served(home) as server:
        run(talk)


@pytest.mark.feature("mcp.http-sessions")
def test_a_client_of_the_newest_protocol_may_choose_its_id_itself(home):
    (home.folder / "kept.py").write_text("".join(f"a_{n} = {n}\n" for n in range(100)))

    async def talk():
        for name in ("one", "other"):
            async with keeping_its_session(server, **{"Mcp-Session-Id": name}) as client:
                assert client.protocol_version == "2026-07-28"
                assert "a_99 = 99" in await said(client)
                assert "unchanged" in await said(client)

    with served(home) as server:
        run(talk)


def asked(server: Served, method: str, **headers: str) -> tuple[int, str | None]:
    """Return status and session id of the answer to the beginning of a session, or to its end."""
    client = {"name": "t", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode() if method == "POST" else None
    shared = {
        "Authorization": f"Bearer {server.token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    request = urllib.request.Request(server.url, data=body, headers={**shared, **headers}, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return answer.status, answer.headers.get("mcp-session-id")


@pytest.mark.feature("mcp.http-sessions")
def test_each_session_that_begins_gets_an_id_of_its_own_and_may_be_ended(home):
    with served(home) as server:
        status, first = asked(server, "POST")
        _, second = asked(server, "POST")
        again, none = asked(server, "POST", **{"Mcp-Session-Id": first})
        ended, _ = asked(server, "DELETE", **{"Mcp-Session-Id": first})
        for method in ("POST", "DELETE"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                asked(server, method, **{"Mcp-Session-Id": first})
        other, _ = asked(server, "POST", **{"Mcp-Session-Id": second})
        chosen = [asked(server, method, **{"Mcp-Session-Id": "mine"})[0] for method in ("DELETE", "POST")]

    assert (status, again, ended, other, chosen) == (200, 200, 204, 200, [204, 200])
    assert first != second
    assert (len(first), none) == (32, None)


def asking(remembered: Remembered, client: str | None):
    """Return what is remembered of a client."""
    token = client_sessions._client.set(client)
    try:
        return remembered.current_reads()
    finally:
        client_sessions._client.reset(token)


@pytest.mark.feature("mcp.http-sessions")
def test_sessions_are_forgotten_when_they_are_too_many_too_old_or_ended():
    now = [0.0]
    remembered = Remembered(clock=lambda: now[0])
    first = asking(remembered, "first")
    assert asking(remembered, "first") is first
    assert asking(remembered, None) is not asking(remembered, None)

    now[0] = SECONDS + 1
    second = asking(remembered, "second")
    assert asking(remembered, "first") is not first
    assert asking(remembered, "second") is second

    for n in range(MOST_CLIENTS - 1):
        asking(remembered, f"c{n}")
    assert asking(remembered, "second") is second
    for n in range(MOST_CLIENTS):
        asking(remembered, f"d{n}")
    assert asking(remembered, "second") is not second


@pytest.mark.feature("mcp.http-sessions")
@pytest.mark.parametrize("sent", [b"", b"x" * 201, b"a b", "ä".encode()])
def test_what_is_no_id_names_no_session(sent):
    remembered = Remembered()
    seen = []

    async def application(scope, receive, send):
        seen.append(remembered.current_reads())

    async def ask():
        for _ in range(2):
            scope = {"type": "http", "method": "POST", "headers": [(b"mcp-session-id", sent), (b"mcp-protocol-version", b"2025-06-18")]}
            await ClientSessions(application, remembered)(scope, None, None)

    anyio.run(ask)
    assert seen[0] is not seen[1]
