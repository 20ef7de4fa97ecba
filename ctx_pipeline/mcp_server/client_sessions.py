"""Sessions of clients over HTTP: an id that a client keeps, by which it is known what it was given.

Requests stand for themselves, so that a server that was started anew answers all the same: an
id tells clients apart and gives no right to anything.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ctx_pipeline.compression.code_reading import Reads

MOST_CLIENTS = 32
"""Sessions whose reads are remembered; the one that asked longest ago goes."""

MOST_ENDED = 1_000
"""Sessions with an id of ours that are known to have been ended by their client."""

SECONDS = 4 * 3_600.0
"""A session that asked nothing for so long is forgotten."""

CHARS = 4_000_000
"""Characters of files that are remembered of one session."""

_HEADER, _VERSION = b"mcp-session-id", b"mcp-protocol-version"
_ID = re.compile(rb"[\x21-\x7e]{1,200}")
_OURS = re.compile(r"[0-9a-f]{32}")
_client: ContextVar[str | None] = ContextVar("client", default=None)


class Remembered:
    """What each client was given; of one that names no session nothing is remembered."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, Reads]] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def current_reads(self) -> Reads:
        """Return what the client was given whose request is being answered."""
        from ctx_pipeline.compression.code_reading import Reads

        client = _client.get()
        if client is None:
            return Reads()
        now = self._clock()
        with self._lock:
            _, reads = self._kept.pop(client, (now, Reads(CHARS)))
            self._kept[client] = now, reads
            while len(self._kept) > MOST_CLIENTS or now - next(iter(self._kept.values()))[0] > SECONDS:
                self._kept.popitem(last=False)
        return reads

    def end_current(self) -> None:
        """Forget the client whose request is being answered; an id that we gave is not taken again."""
        client = _client.get() or ""
        with self._lock:
            self._kept.pop(client, None)
            if _OURS.fullmatch(client):
                self._ended[client] = None
            if len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)

    def current_ended(self) -> bool:
        """Tell whether the client whose request is being answered has ended its session."""
        with self._lock:
            return _client.get() in self._ended


class ClientSessions:
    """An ASGI application that gives a client that begins a session an id, and tells by it who asks."""

    def __init__(self, app: ASGIApp, remembered: Remembered) -> None:
        self._app = app
        self._remembered = remembered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; a client that ends its session is answered here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = {name.lower(): value for name, value in scope["headers"]}
        client = sent.get(_HEADER, b"")
        token = _client.set(client.decode() if _ID.fullmatch(client) else None)
        try:
            if self._remembered.current_ended():
                await _answer(send, 404)
            elif scope["method"] == "DELETE" and _client.get() is not None:
                self._remembered.end_current()
                await _answer(send, 204)
            else:
                # a version that the client names was agreed on before: only what begins a session has neither
                begins = scope["method"] == "POST" and not client and _VERSION not in sent
                await self._app(scope, receive, _with_id(send) if begins else send)
        finally:
            _client.reset(token)


async def _answer(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def _with_id(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 300:
            message = {**message, "headers": [*message.get("headers", ()), (_HEADER, secrets.token_hex(16).encode())]}
        await send(message)

    return sending
