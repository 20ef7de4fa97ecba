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
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType
    from typing import Self

    from mcp.shared._stream_protocols import WriteStream
    from mcp.types import JSONRPCMessage

LARGEST_MESSAGE = 32 << 20
"""Bytes of a message over any transport."""

_PIECE = 1 << 16
_EDGE = 4_096
"""Bytes at either end of a message that is too large, in which its id is looked for."""

_DIGITS = 4_300
"""Digits of an integer that Python reads."""

_JSON = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else None)
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
    members = _members(head.decode("utf-8", "replace"))
    if members.get("id") is None and (last := _LAST_ID.search(tail)):
        members["id"] = _JSON.decode(last[1].decode("utf-8", "replace"))
    return _asked_by(members)


def _asked_by(message: Any) -> int | str | None:
    """Return the id of a request; None for one that is no id, and for a response, whose id is of a request of the server."""
    if not isinstance(message, dict) or ("method" not in message and message.keys() & {"result", "error"}):
        return None
    return message["id"] if _is_id(message.get("id")) else None


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _members(text: str) -> dict[Any, Any]:
    """Return the members of an object that begins here, as far as it goes; None as the value of one that is cut off."""
    members: dict[Any, Any] = {}

    def after_space(place: int) -> int:
        match = _SPACE.match(text, place)
        return match.end() if match else place

    place = after_space(0)
    try:
        while text[place] in "{,":
            name, place = _JSON.raw_decode(text, after_space(place + 1))
            members[name] = None
            value, end = _JSON.raw_decode(text, after_space(after_space(place) + 1))
            place = after_space(end)
            if text[place] in ",}":
                members[name] = value
    except (ValueError, IndexError, TypeError, RecursionError):
        return members
    return members


class MessageReader:
    """The messages on a descriptor, each a line; of a line that is too large the ends are kept."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ahead = b""

    def next_message(self) -> bytearray | TooLarge | None:
        """Return the next line that is not blank, waiting for it; None at the end."""
        while (message := self._next_line()) is not None:
            if isinstance(message, TooLarge) or not message.isspace():
                return message
        return None

    def _next_line(self) -> bytearray | TooLarge | None:
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
        return TooLarge(size, head, bytes(line)) if head else line


_TOO_DEEP = "refused: its lists and objects are nested too deep; this server reads 200 levels"
_TOO_MANY_DIGITS = f"refused: an integer in it has too many digits; this server reads {_DIGITS:,}"


class Refused(NamedTuple):
    """A line that is no message, and the id that it names."""

    error: ErrorData
    answered: int | str | None = None


def parsed(line: bytearray) -> JSONRPCMessage | Refused:
    """Return the message that a line holds; the line is emptied, so that a large one is not held beside its message."""
    try:
        try:
            value = from_json(line)
        except ValueError:
            value = _repaired(line)
    except json.JSONDecodeError:
        return Refused(ErrorData(code=PARSE_ERROR, message="not JSON: each message is one line of JSON in UTF-8"))
    except (RecursionError, ValueError) as error:  # JSON, but no value of Python
        why = _TOO_DEEP if isinstance(error, RecursionError) else _TOO_MANY_DIGITS
        return Refused(ErrorData(code=INVALID_REQUEST, message=why), request_id(bytes(line), bytes(line[-_EDGE:])))
    finally:
        line.clear()
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        message = None
    if message is None or not (value.get("id") is None or _is_id(value["id"])):
        said = "not a message of JSON-RPC 2.0: one object a line, with jsonrpc, method, params and an id that is a text or an integer"
        return Refused(ErrorData(code=INVALID_REQUEST, message=said), _asked_by(value))
    return message


def _repaired(line: bytearray) -> Any:
    """Return the value of JSON with bytes that are no UTF-8, or halves of letters as a client cuts them, which are replaced.

    Raises RecursionError for JSON that is nested too deep, and ValueError alone for an integer of too many digits.
    """
    value = json.loads(line.decode("utf-8", "replace"))
    try:
        return from_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except ValueError:  # what was written here is JSON, so the depth alone is left
        raise RecursionError from None


class Messages:
    """The messages of a client for the SDK's server; a line that holds none is answered with an error, where the SDK drops it."""

    def __init__(self, reader: MessageReader, answers: WriteStream[SessionMessage]) -> None:
        self._reader = reader
        self._answers = answers

    async def receive(self) -> SessionMessage:
        """Return the next message, waiting for it; raises EndOfStream when the client has left."""
        while isinstance(found := await anyio.to_thread.run_sync(self._next), Refused):
            await self._answers.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=found.answered, error=found.error)))
        if found is None:
            raise EndOfStream
        return SessionMessage(found)

    def _next(self) -> JSONRPCMessage | Refused | None:
        line = self._reader.next_message()
        if isinstance(line, TooLarge):
            return Refused(ErrorData(code=INVALID_REQUEST, message=refusal(line.size)), request_id(line.head, line.tail))
        return line if line is None else parsed(line)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Read no more; the descriptor is its owner's to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()


class _Nothing:
    """What the SDK's transport is given to read, which would hold each line beside its message until the next one comes."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        raise StopAsyncIteration


@asynccontextmanager
async def bounded_stdio() -> AsyncIterator[tuple[Messages, WriteStream[SessionMessage]]]:
    """Give the streams of a server on standard input and output; while it serves, programs that it starts read nothing of its input."""
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        async with stdio_server(stdin=cast("Any", _Nothing())) as (_, write):
            yield Messages(MessageReader(wire), write), write
    finally:
        os.dup2(wire, 0)
        os.close(wire)
