"""Messages that are too large: refused in words over either transport, in bounded memory, and the next one is answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp.shared.exceptions import MCPError

from ctx_pipeline.mcp_server.bounded_stdio import LARGEST_MESSAGE, MessageReader, Refused, TooLarge, parsed, request_id
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.mcp_server.conftest import over_http, over_stdio, run, served

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline_tests.mcp_server.conftest import Home

pytestmark = pytest.mark.feature("mcp.message-limit")
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of another process is read in /proc")

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.mark.parametrize(
    ("head", "tail", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"bbb', b'bbb"}}', 7),
        (b' { "id" : "a-1" , "params" : {"id": 9, "a":"bbb', b'bbb"}}', "a-1"),
        (b'{"method":"x","params":{"id":1,"a":"bbb', b'bbb"},"jsonrpc":"2.0","id":8}\r', 8),
        (b'{"method":"x","params":{"id":1,"a":"bbb', b'bbb"}, "id": "last", "jsonrpc": "2.0"}', "last"),
        (b'{"method":"x","params":{"id":1,"a":"bbb', b'bbb","id":1}}', None),
        (b'{"method":"x","params":{"a":"bbb', rb'bbb,\"id\":1}"}}', None),
        (b'{"id":12345', b'6789,"a":1}}', None),
        (b'{"id":null,"a":"', b'"}', None),
        (b'{"jsonrpc":"2.0","id":7,"result":{"a":"bbb', b'bbb"}}', None),
        (b'{"jsonrpc":"2.0","result":{"a":"bbb', b'bbb"},"id":7}', None),
        (b'{"id":7,"method":"x","result":1,"params":{"a":"bbb', b'bbb"}}', 7),
        (b'{[1]:2,"id":7,"a":"', b'"}', None),
        (b'{"id":true,"a":"', b'"}', None),
        (b"[1, 2", b"3]", None),
        (b"\xff\xfe{", b'\xff,"id":"\xff"}', "�"),
        (b"x" * 100, b"y" * 100, None),
    ],
)
def test_the_id_of_a_message_is_read_at_either_end_of_it_and_nowhere_inside(head, tail, found):
    assert request_id(head, tail) == found


def messages(pieces: Iterable[bytes]) -> list[bytearray | TooLarge]:
    """Return what is read of a pipe into which this is written."""
    begin, end = os.pipe()

    def write() -> None:
        with os.fdopen(end, "wb", buffering=0) as pipe:
            for piece in pieces:
                pipe.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    reader = MessageReader(begin)
    found = list(iter(reader.next_message, None))
    assert reader.next_message() is None
    writer.join()
    os.close(begin)
    return found


def test_lines_come_as_they_were_written_and_of_a_large_one_come_its_ends():
    assert messages([b'{"a":', b"1}\n\n", b'{"b":2}\r\n{"c":"\xc3\xa4"}\n{"d":"\xff"}\nhalf']) == [
        b'{"a":1}',
        b'{"b":2}\r',
        '{"c":"ä"}'.encode(),
        b'{"d":"\xff"}',
        b"half",
    ]
    largest = b"a" * LARGEST_MESSAGE
    whole, large, after = messages([largest, b"\n{", largest, b"}\nnext\n"])
    assert whole == largest
    assert (large.size, large.head[:2], large.tail[-2:]) == (LARGEST_MESSAGE + 2, b"{a", b"a}")
    assert len(large.head) + len(large.tail) < 10_000
    assert after == b"next"


class Pipes:
    """A server whose lines a test writes itself."""

    def __init__(self, home: Home) -> None:
        self.process = processes.start(
            [sys.executable, "-m", "ctx_pipeline", "mcp", "--tools", "read"],
            env={**os.environ, **home.environ},
            cwd=home.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.ask(json.dumps(INITIALIZE).encode())["id"] == 0
        self.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def say(self, *pieces: bytes) -> None:
        for piece in (*pieces, b"\n"):
            self.process.stdin.write(piece)
        self.process.stdin.flush()

    def ask(self, *pieces: bytes) -> dict[str, Any]:
        self.say(*pieces)
        return json.loads(self.process.stdout.readline())

    def peak(self) -> int:
        """The most kilobytes that the server held at a time."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

    def left(self) -> int:
        """End the server as a client that leaves does, and return its status."""
        self.process.stdin.close()
        return self.process.wait(60)


@needs_proc
def test_a_message_of_200_mb_is_refused_with_its_id_in_bounded_memory_and_the_next_one_is_answered(home):
    server = Pipes(home)
    before = server.peak()
    call = b'{"method":"tools/call","params":{"name":"ctx_shell","arguments":{"command":"make","output":"'
    refused = server.ask(call, *[b"working on it \\n" * 62_500] * 200, b'"}},"jsonrpc":"2.0","id":"large"}')
    after = server.peak()
    answered = server.ask(call, b'all is well"}},"jsonrpc":"2.0","id":2}')

    assert refused["id"] == "large"
    assert refused["error"]["code"] == -32600
    assert refused["error"]["message"].startswith("refused: the message has 200,000,125 bytes, more than the 33,554,432 ")
    assert answered["result"]["content"][0]["text"] == "all is well"
    assert server.left() == 0
    assert after - before < 100_000, "kilobytes of one message that is too large"


@pytest.mark.feature("mcp.no-message")
def test_a_line_that_is_no_json_or_no_message_is_answered_with_an_error_and_the_next_one_as_ever(home):
    server = Pipes(home)
    ping = b'{"jsonrpc":"2.0","id":8,"method":"ping"}'
    for line in (b"hello", b"{", b"\xff\xfe", ping[:-1], b"[" * 300, b"{" + ping):
        assert (error := server.ask(line))["id"] is None
        assert error["error"]["code"] == -32700, line[:40]
    assert server.ask(b'{"jsonrpc":"2.0","id":5}')["id"] == 5, "who waits for an answer is told by the id where it is known"
    deep = b'"method":"ping","params":{"a":%s1%s}' % (b"[" * 300, b"]" * 300)
    for line, asked in (
        (b'{"jsonrpc":"2.0","id":6,%s}' % deep, 6),
        (b'{"jsonrpc":"2.0",%s,"id":"six"}' % deep, "six"),
        (b'{"jsonrpc":"2.0",%s,"id":6,"more":1}' % deep, 6),
        (b"[" * 100_000, None),
    ):
        error = server.ask(line)
        assert (error["id"], error["error"]["code"]) == (asked, -32600)
        assert error["error"]["message"] == "refused: its lists and objects are nested too deep; this server reads 200 levels"
    for line in (b"1", b"null", b"[]", b"[%s]" % ping, b'{"a":1}', ping.replace(b"8", b"[8]"), ping.replace(b"8", b"8.5")):
        assert (error := server.ask(line))["id"] is None
        assert error["error"]["code"] == -32600, line
    server.say(b"\n\r\n  ")
    half = (
        b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"ctx_shell","arguments":{"command":"x","output":"cut \\ud83d"}}}'
    )
    assert server.ask(half)["result"]["content"][0]["text"] == "cut ?"
    assert server.ask(ping) == {"jsonrpc": "2.0", "id": 8, "result": {}}
    assert server.left() == 0


@pytest.mark.feature("mcp.no-message")
def test_an_integer_of_more_digits_than_python_reads_is_refused_so_and_by_its_id():
    long = b'"method":"ping","params":{"n":%s,"of":"\xff"}' % (b"9" * 5_000)
    for line, asked in (
        (b'{"jsonrpc":"2.0","id":6,%s}' % long, 6),
        (b'{"jsonrpc":"2.0",%s,"id":"six"}' % long, "six"),
        (b'{"jsonrpc":"2.0",%s,"id":6,"more":1}' % long.replace(b"\xff", b""), 6),
        (b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % (b"9" * 5_000), None),
    ):
        refused = parsed(bytearray(line))
        assert isinstance(refused, Refused)
        assert (refused.answered, refused.error.code) == (asked, -32600)
        assert refused.error.message == "refused: an integer in it has too many digits; this server reads 4,300"


@pytest.mark.feature("mcp.no-message")
def test_a_response_of_the_client_that_is_none_is_not_answered_with_an_id_of_the_server():
    deep = b"[" * 300 + b"]" * 300
    for line in (
        b'{"jsonrpc":"2.0","id":7,"error":{}}',
        b'{"jsonrpc":"2.0","id":7,"result":3}',
        b'{"jsonrpc":"2.0","id":7,"result":%s}' % deep,
    ):
        refused = parsed(bytearray(line))
        assert isinstance(refused, Refused)
        assert refused.answered is None, line[:50]
    for line in (b'{"jsonrpc":"2.0","id":7,"result":{}}', b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}'):
        assert parsed(bytearray(line)).id == 7


@needs_proc
@pytest.mark.feature("mcp.small-server")
def test_an_output_of_19_mb_takes_a_few_times_its_size_and_the_next_one_no_more(home):
    server = Pipes(home)
    call = b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ctx_shell","arguments":{"command":"pytest","output":"'
    end = b'"}}}'
    server.ask(call, b"1 passed", end)
    before = server.peak()
    passes = b"".join(b"tests/test_%d.py::test_case_%d PASSED [ %d%%]\\n" % (n % 400, n, n % 100) for n in range(420_000))
    first = server.ask(call, passes[:19_000_000], end)
    once = server.peak()
    server.ask(call, passes[:19_000_000], end)
    again = server.peak()
    assert "lines of passes]" in first["result"]["content"][0]["text"]
    assert server.left() == 0
    # 300,000 and 370,000 when each step held a copy of its own
    assert once - before < 130_000, "kilobytes of one output"
    assert again - before < 160_000, "kilobytes of two, one after the other"


@pytest.mark.slow
def test_a_client_is_told_the_reason_over_either_transport_and_goes_on(home):
    output = "x" * (LARGEST_MESSAGE + 1)

    async def told(client):
        with pytest.raises(MCPError, match=r"refused: the message has .*more than the 33,554,432 that this server takes at once"):
            await client.call_tool("ctx_shell", {"command": "make", "output": output})
        # what was too large for the server over HTTP alone is answered
        assert (await client.call_tool("ctx_shell", {"command": "make", "output": "ok\n" * 700_000})).is_error is False

    async def over_pipes():
        async with over_stdio(home) as client:
            await told(client)

    run(over_pipes)
    with served(home) as server:

        async def over_loopback():
            async with over_http(server) as client:
                await told(client)

        run(over_loopback)


@pytest.mark.feature("mcp.limits")
def test_a_prompt_that_is_not_there_is_an_error_of_its_arguments(home):
    async def asking():
        async with over_stdio(home) as client:
            assert (await client.list_prompts()).prompts == []
            with pytest.raises(MCPError, match="there is no prompt called 'review'") as refused:
                await client.get_prompt("review")
            assert refused.value.code == -32602

    run(asking)
