"""Size, time and number: what a client sends too much of, too slowly, or leaves in the middle of, against real servers."""

from __future__ import annotations

import contextlib
import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.loopback import HEAD_SECONDS, MOST_BYTES, MOST_CLIENTS, MOST_HEAD_BYTES
from ctx_pipeline.mcp_server.bounded_stdio import LARGEST_MESSAGE
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
    path, largest = ("/mcp", LARGEST_MESSAGE) if server.name == "mcp" else ("/api/search", MOST_BYTES)
    with raw(server, f"POST {path} HTTP/1.1\r\nContent-Length: {largest + 1}") as told:
        assert told.recv(100).startswith(b"HTTP/1.1 413 ")
    with raw(server, f"POST {path} HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {largest + 1}") as waiting:
        waiting.settimeout(10)  # half of what a body may take
        told = b"".join(iter(lambda: waiting.recv(4_096), b""))
        assert told.startswith(b"HTTP/1.1 413 ")
        assert b"100 Continue" not in told
    chunk = b"%x\r\n" % (largest + 1) + b" " * (largest + 1) + b"\r\n"
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
    for junk in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET / HTTP/9\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as one:
            one.sendall(junk)
            assert one.recv(100).startswith(b"HTTP/1.1 400 ")
    assert answers(server)
    for one in standing:
        one.close()
    assert eventually(lambda: answers(server))
    assert said.read_text() == before


@pytest.mark.feature("servers.limits")
def test_clients_whose_requests_never_begin_are_dropped_and_the_server_answers_again(server):
    began = [socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) for _ in range(MOST_CLIENTS)]
    for number, one in enumerate(began):
        one.sendall(b"GET / HTTP/1.1\r\n" if number % 2 else b"")
    assert not answers(server)
    assert eventually(lambda: answers(server), seconds=3 * HEAD_SECONDS)
    assert [one.recv(100) for one in began] == [b""] * MOST_CLIENTS
    for one in began:
        one.close()


@pytest.mark.feature("servers.limits")
def test_a_head_that_is_too_large_is_refused(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as one, contextlib.suppress(ConnectionError):
        for _ in range(64):
            one.sendall(b"GET / HTTP/1.1\r\nX-A: " + b"a" * MOST_HEAD_BYTES)
        assert b" 431 " in one.recv(100)
    assert answers(server)


@pytest.mark.feature("servers.limits")
def test_the_body_of_a_refused_request_is_no_head_of_the_next_one(server):
    for _ in range(10):  # it is refused before, amid or behind its body
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
        connection.request("POST", "/mcp", b" " * (MOST_BYTES - 1), {"Content-Type": JSON})
        with connection.getresponse() as refused:
            assert (refused.status, bool(refused.read())) == (401, True)
        connection.request(server.method, server.path, server.body, dict(right(server)))
        with connection.getresponse() as answered:
            assert answered.status == 200
        connection.close()


@pytest.mark.feature("servers.limits")
@pytest.mark.parametrize(("name", "path", "log"), [("mcp", "/mcp", "mcp"), ("page", "/api/search", "dashboard"), ("ui", "/graphql", "ui")])
def test_a_body_that_is_no_json_object_is_refused_without_a_word_in_the_log(request, store, name, path, log):
    server = request.getfixturevalue(name)
    said = Path(store[0]) / f"{log}.out"
    before = said.read_text()
    for body in (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b'{"query":' + b"9" * 5_000 + b"}"):
        assert server.ask("POST", path, right(server), body)[0] == 400
    assert said.read_text() == before


@pytest.mark.feature("servers.limits")
def test_no_answer_lets_another_origin_read_it(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    connection.request("OPTIONS", server.path, headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
    answer = connection.getresponse()
    assert answer.status == 403
    assert not [name for name, _ in answer.getheaders() if name.lower().startswith("access-control-")]
    connection.close()
