"""Standard input of a server, read in pieces: a message that is too large is refused in words and the next one is answered."""

from __future__ import annotations

import json
import os
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import anyio.to_thread
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, ErrorData, JSONRPCError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.shared._stream_protocols import ReadStream, WriteStream

LARGEST_MESSAGE = 32 << 20
"""Bytes of a message over any transport."""

_PIECE = 1 << 16
_EDGE = 4_096
"""Bytes at either end of a message that is too large, in which its id is looked for."""

_JSON = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r]*")
_LAST_ID = re.compile(rb',\s*"id"\s*:\s*(-?\d{1,18}|"(?:[^"\\]|\\.){0,200}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


class TooLarge(NamedTuple):
    """What is kept of a message that is too large."""

    size: int
    head: bytes
    tail: bytes


def refusal(size: int | None = None) -> str:
    """Return what a client is told of a message that is too large."""
    measured = f"{size:,} bytes, more than " if size else "more than "
    return (
        f"refused: the message has {measured}the {LARGEST_MESSAGE:,} that this server takes at once. "
        "Send the part that matters, or let `ctx run-command -- COMMAND` run the command, which shortens output of any size"
    )


def request_id(head: bytes, tail: bytes) -> int | str | None:
    """Return the id of a message of which these are the first and the last bytes; None where it stands in neither."""
    found = _first_id(head.decode("utf-8", "replace"))
    if found is None and (last := _LAST_ID.search(tail)):
        found = _JSON.decode(last[1].decode("utf-8", "replace"))
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def _first_id(text: str) -> Any:
    """Return the value of ``id`` among the members of an object that begins here, as far as it goes."""

    def after_space(place: int) -> int:
        match = _SPACE.match(text, place)
        return match.end() if match else place

    place = after_space(0)
    try:
        while text[place] in "{,":
            name, place = _JSON.raw_decode(text, after_space(place + 1))
            value, end = _JSON.raw_decode(text, after_space(after_space(place) + 1))
            place = after_space(end)
            if name == "id":
                return value if text[place] in ",}" else None
    except (ValueError, IndexError, RecursionError):
        return None
    return None


class MessageReader:
    """The messages on a descriptor, each a line; of a line that is too large the ends are kept."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ahead = b""

    def next_message(self) -> bytes | TooLarge | None:
        """Return the next line that is not empty, waiting for it; None at the end."""
        line, size, head, ended = bytearray(), 0, b"", False
        while not ended:
            piece = self._ahead or os.read(self._descriptor, _PIECE)
            part, newline, self._ahead = piece.partition(b"\n")
            line += part
            size += len(part)
            if size > LARGEST_MESSAGE:
                head = head or bytes(line[:_EDGE])
                del line[:-_EDGE]
            if not piece and not size:
                return None
            ended = not piece or bool(newline and size)
        return TooLarge(size, head, bytes(line)) if head else _readable(line)


def _readable(line: bytearray) -> bytes:
    """Return a line as UTF-8, whatever it holds."""
    if not line.isascii():
        try:
            line.decode()
        except UnicodeDecodeError:
            return line.decode("utf-8", "replace").encode()
    return bytes(line)


class _Incoming:
    """What the SDK's server reads its messages from."""

    def __init__(self, reader: MessageReader) -> None:
        self._reader = reader
        self.answers: WriteStream[SessionMessage] | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await anyio.to_thread.run_sync(self._reader.next_message)) is not None:
            if isinstance(message, bytes):
                yield message
            elif self.answers is not None:
                error = ErrorData(code=INVALID_REQUEST, message=refusal(message.size))
                answer = JSONRPCError(jsonrpc="2.0", id=request_id(message.head, message.tail), error=error)
                await self.answers.send(SessionMessage(answer))


@asynccontextmanager
async def bounded_stdio() -> AsyncIterator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]]:
    """Give the streams of a server on standard input and output; while it serves, programs that it starts read nothing of its input."""
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    incoming = _Incoming(MessageReader(wire))
    try:
        async with stdio_server(stdin=cast("Any", incoming)) as (read, write):
            incoming.answers = write
            yield read, write
    finally:
        os.dup2(wire, 0)
        os.close(wire)
