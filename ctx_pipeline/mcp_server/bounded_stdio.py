"""Standard input of a server, read in pieces: a message that is too large or is none is refused in words and the next one is answered."""

from __future__ import annotations

import json
import os
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import anyio.to_thread
from anyio import EndOfStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType
    from typing import Self

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
        """Return the next line that is not blank, waiting for it; None at the end."""
        while (message := self._next_line()) is not None:
            if isinstance(message, TooLarge) or not message.isspace():
                return message
        return None

    def _next_line(self) -> bytes | TooLarge | None:
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
                await self.answers.send(_error(error, request_id(message.head, message.tail)))


def _error(error: ErrorData, answered: int | str | None = None) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answered, error=error))


def _unreadable(error: Exception) -> ErrorData:
    """Return what a client is told of a line that holds no message."""
    if isinstance(error, ValidationError) and error.errors(include_input=False, include_url=False)[0]["type"] != "json_invalid":
        return ErrorData(code=INVALID_REQUEST, message="not a message of JSON-RPC 2.0: one object a line, with jsonrpc, method and params")
    return ErrorData(code=PARSE_ERROR, message="not JSON: each message is one line of JSON in UTF-8")


class _Messages:
    """The messages of a client; a line that holds none is answered with an error, where the SDK's server drops it."""

    def __init__(self, lines: ReadStream[SessionMessage | Exception], answers: WriteStream[SessionMessage]) -> None:
        self._lines = lines
        self._answers = answers

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent, which the SDK asks for."""
        return getattr(self._lines, "last_context", None)

    async def receive(self) -> SessionMessage:
        while isinstance(message := await self._lines.receive(), Exception):
            await self._answers.send(_error(_unreadable(message)))
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._lines.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()


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
            yield _Messages(read, write), write
    finally:
        os.dup2(wire, 0)
        os.close(wire)
