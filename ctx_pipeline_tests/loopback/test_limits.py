"""Size, time and number: what a client sends too much of, too slowly, or leaves in the middle of, against real servers."""

from __future__ import annotations

import contextlib
import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.loopback import MOST_BYTES
from ctx_pipeline_tests.loopback.conftest import JSON, SECONDS, Server
from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow


@pytest.fixture(params=["mcp", "page"])
def server(request: pytest.FixtureRequest) -> Server:
    """The two servers of our own; Dagster's stands behind the same gate."""
    found: Server = request.getfixturevalue(request.param)
    return found


def right(server: Server) -> list[tuple[str, str]]:
    headers = [("Host", server.host), ("Authorization", f"Bearer {server.token}"), ("Content-Type", JSON)]
    return [*headers, ("Accept", f"{JSON}, text/event-stream")]


def raw(server: Server, head: str, body: bytes = b"") -> socket.socket:
    """Return a connection over which exactly this was sent."""
    made = socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS)
    lines = [head, *(f"{name}: {value}" for name, value in right(server))]
    made.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return made


def answers(server: Server) -> bool:
    return server.ask(server.method, server.path, right(server), server.body)[0] == 200


@pytest.mark.feature("servers.limits")
def test_fifty_clients_at_once_are_all_answered(server):
    with ThreadPoolExecutor(50) as pool:
        assert [one.result() for one in [pool.submit(answers, server) for _ in range(50)]] == [True] * 50


@pytest.mark.feature("servers.limits")
def test_a_body_that_says_or_turns_out_to_be_too_large_is_refused(server):
    path = "/mcp" if server.name == "mcp" else "/api/search"
    with raw(server, f"POST {path} HTTP/1.1\r\nContent-Length: {MOST_BYTES + 1}") as told:
        assert told.recv(100).startswith(b"HTTP/1.1 413 ")
    chunk = b"%x\r\n" % (MOST_BYTES + 1) + b" " * (MOST_BYTES + 1) + b"\r\n"
    with raw(server, f"POST {path} HTTP/1.1\r\nTransfer-Encoding: chunked") as untold:
        with contextlib.suppress(ConnectionError):  # it may be refused before all of it was sent
            untold.sendall(chunk)
        assert untold.recv(100).startswith(b"HTTP/1.1 413 ")
    assert answers(server)


@pytest.mark.feature("servers.limits")
def test_clients_that_vanish_or_stand_still_leave_the_server_as_it_was(server, store):
    path = "/mcp" if server.name == "mcp" else "/api/search"
    said = Path(store[0]) / ("mcp.out" if server.name == "mcp" else "dashboard.out")
    before = said.read_text()
    gone: list[Callable[[], socket.socket]] = [
        lambda: raw(server, f"POST {path} HTTP/1.1\r\nContent-Length: 400", b'{"query": "half'),
        lambda: raw(server, f"{server.method} {server.path} HTTP/1.1\r\nContent-Length: {len(server.body or b'')}", server.body or b""),
        lambda: socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS),
    ]
    for begin in gone * 10:
        begin().close()
    standing = [raw(server, f"POST {path} HTTP/1.1\r\nContent-Length: 400", b"{") for _ in range(20)]
    assert answers(server)
    for one in standing:
        one.close()
    assert eventually(lambda: answers(server))
    assert said.read_text() == before


@pytest.mark.feature("servers.limits")
def test_no_answer_lets_another_origin_read_it(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    connection.request("OPTIONS", server.path, headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
    answer = connection.getresponse()
    assert answer.status == 403
    assert not [name for name, _ in answer.getheaders() if name.lower().startswith("access-control-")]
    connection.close()
