"""The gate of every server on loopback: who may ask, and how.

A web page that a person opens can send requests to any port of this machine, and a name
that an attacker resolves to 127.0.0.1 makes such a page the server's own origin. So a
request passes only when it comes under one of the server's names, from no other origin,
in a form that a page cannot send unasked, with the server's token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from ctx_pipeline.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import uvicorn
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"

PARAMETER = "token"
"""The query parameter of the first address."""

MOST_BYTES = 1 << 20
"""Bytes of a request's body, where a server names no other number; more is refused before it is read."""

BODY_SECONDS = 20.0
"""Seconds in which a body must have come."""

HEAD_SECONDS = 10.0
"""Seconds in which a request's line and headers must have come, once a client is connected."""

MOST_HEAD_BYTES = 1 << 16
"""Bytes of a request's line and headers, about; more is refused."""

MOST_CLIENTS = 256
"""Connections at a time; a further one is answered 503."""

TOO_LARGE = 413
"""Status of the refusal of a body that is too large."""

_READING = frozenset({"GET", "HEAD"})

_ADDED = {
    b"cache-control": b"no-store",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"SAMEORIGIN",
}
"""Headers of every answer that the application did not set itself: no other site may frame, embed or learn of it."""


class Answer(NamedTuple):
    """What the gate answers instead of the application."""

    status: int
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Form(NamedTuple):
    """A refusal as a client reads it."""

    content_type: bytes
    body: bytes


def as_plain_text(answer: Answer) -> Form:
    """Return an answer as a line for a person."""
    return Form(b"text/plain; charset=utf-8", f"{answer.text}\n".encode())


class Gate:
    """An ASGI application that passes on what comes with the token, under its own names and from its own pages.

    The token comes in the first address (``?token=``, answered with a cookie and a redirect
    to the same address without it), then in that cookie (``HttpOnly``, ``SameSite=Strict``),
    or as ``Authorization: Bearer``. Refused are another or an unclear Host (421), another
    Origin and a fetch for another site (403), POST of anything but JSON, which a form can
    send (415), GET with a query at an address of ``post_only`` (405), and what has no token
    (401). WebSockets are read alike and closed before they open.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        port: int,
        post_only: Collection[str] = (),
        largest: int = MOST_BYTES,
        form: Callable[[Answer], Form] = as_plain_text,
    ) -> None:
        names = [HOST, "localhost"]
        hosts = [f"{name}:{port}" for name in names] + (names if port == 80 else [])
        self._app = app
        self._token = token.encode()
        self._post_only = frozenset(post_only)
        self._largest = largest
        self._form = form
        self._hosts = frozenset(host.encode() for host in hosts)
        self._origins = frozenset(f"http://{host}".encode() for host in hosts)
        # cookies are told apart by host and name only, and every server on this host gets them: they do not hold the token
        self._cookie_name = f"ctx-{port}".encode()
        self._cookie_value = hmac.digest(self._token, b"cookie", hashlib.sha256).hex().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        answer = self._answer(scope)
        if answer is None and scope["type"] == "http" and scope["method"] not in _READING:
            found = await _body(scope, receive, self._largest)
            if found is None:
                return
            answer = found if isinstance(found, Answer) else _unreadable(found) if scope["method"] == "POST" else None
            receive = _replayed(found, receive) if isinstance(found, bytes) else receive
        if answer is None:
            await self._app(scope, receive, send if scope["type"] == "websocket" else _guarded(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": answer.text})
        else:
            guarded, told = _guarded(send), self._form(answer)
            body = b"" if scope["method"] == "HEAD" else told.body
            headers = [(b"content-type", told.content_type), (b"content-length", b"%d" % len(told.body)), *answer.headers]
            await guarded({"type": "http.response.start", "status": answer.status, "headers": headers})
            await guarded({"type": "http.response.body", "body": body, "more_body": True})
            # who waits for leave to send sends nothing behind a refusal
            if answer.status == TOO_LARGE and b"expect" not in _by_name(scope["headers"]):
                await _left_unread(receive)
            await guarded({"type": "http.response.body", "body": b""})

    def _answer(self, scope: Scope) -> Answer | None:
        """Return the answer to a request that may not pass, None for one that may."""
        headers = _by_name(scope["headers"])
        host = headers.get(b"host", [])
        if len(host) != 1 or host[0].lower() not in self._hosts:
            return Answer(421, "refused: this server answers under its own names only")
        if len(origins := headers.get(b"origin", [])) > 1 or any(origin.lower() not in self._origins for origin in origins):
            return Answer(403, "refused: the request comes from a page of another origin")
        if any(site not in {b"same-origin", b"none"} for site in headers.get(b"sec-fetch-site", ())):
            return Answer(403, "refused: the request comes from another site")
        method = scope.get("method", "GET")
        if method == "POST" and [kind.partition(b";")[0].strip().lower() for kind in headers.get(b"content-type", ())] != [
            b"application/json"
        ]:
            return Answer(415, "refused: only JSON is taken")
        if method in _READING and scope["type"] == "http":
            if scope["path"] in self._post_only and scope["query_string"]:
                return Answer(405, "refused: ask by POST", ((b"allow", b"POST"),))
            if first := self._first_address(scope, host[0]):
                return first
        return None if self._knows_token(headers) else _unknown()

    def _first_address(self, scope: Scope, host: bytes) -> Answer | None:
        """Return the cookie and the address without the token for a right one, a refusal for a wrong one, None for none."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        sent = [value for name, value in query if name == PARAMETER]
        if not sent:
            return None
        if len(sent) != 1 or not hmac.compare_digest(sent[0].encode(), self._token):
            return _unknown()
        rest = urlencode([pair for pair in query if pair[0] != PARAMETER]).encode()
        path = scope.get("raw_path") or b"/"
        # with its origin, so that a path of two slashes names no other server
        target = b"http://" + host + (path if path.startswith(b"/") else b"/") + (b"?" + rest if rest else b"")
        cookie = self._cookie_name + b"=" + self._cookie_value + b"; Path=/; HttpOnly; SameSite=Strict"
        return Answer(303, "the address without its token", ((b"location", target), (b"set-cookie", cookie)))

    def _knows_token(self, headers: dict[bytes, list[bytes]]) -> bool:
        """Tell whether a request carries the cookie, or the token itself in one header."""
        for line in headers.get(b"cookie", ()):
            for pair in line.split(b";"):
                name, _, value = pair.strip().partition(b"=")
                if name == self._cookie_name and hmac.compare_digest(value, self._cookie_value):
                    return True
        sent = headers.get(b"authorization", [])
        return len(sent) == 1 and hmac.compare_digest(sent[0], b"Bearer " + self._token)


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(32)


def listen(port: int) -> socket.socket:
    """Return a socket that takes connections on a port of loopback, 0 for any free one; raises StoreError for a taken one."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise StoreError(
            f"port {port} cannot be used: {error.strerror}", hint="choose another one with --port, or --port 0 for any"
        ) from error
    return made


def address(listener: socket.socket, path: str, token: str = "") -> str:
    """Return the address of a path of a server; with a token it is the first address, which lets a browser in."""
    query = f"?{urlencode({PARAMETER: token})}" if token else ""
    return f"http://{HOST}:{listener.getsockname()[1]}{path}{query}"


def server(
    app: ASGIApp,
    listener: socket.socket,
    token: str,
    *,
    post_only: Collection[str] = (),
    largest: int = MOST_BYTES,
    form: Callable[[Answer], Form] = as_plain_text,
) -> uvicorn.Server:
    """Return a server of an application behind the gate; ``run(sockets=[listener])`` serves until it is interrupted.

    A body has at most ``largest`` bytes, and refusals are answered in a ``form``.
    """
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    gate = Gate(app, token=token, port=listener.getsockname()[1], post_only=post_only, largest=largest, form=form)
    # whoever is asked by no proxy believes no proxy's headers; a page that stays open must not hold the end up
    return uvicorn.Server(
        uvicorn.Config(
            gate,
            http=_with_bounded_heads(AutoHTTPProtocol),
            log_level="error",  # every user of the machine can connect, and would write into this person's terminal
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=5,
            limit_concurrency=MOST_CLIENTS,
        )
    )


def _with_bounded_heads(protocol: Any) -> Any:
    """Return uvicorn's reader of a connection with limits of size and time for a request's head, for whose end it would wait for ever."""

    class Bounded(protocol):  # type: ignore[misc]
        _late: asyncio.TimerHandle | None = None
        _head = 0
        _whole = hasattr(protocol, "on_message_complete")
        """whether all of the last request's body has come, before which it may be refused; h11 never says so, and bounds heads itself"""

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            before, whole = self.cycle, self._whole
            super().data_received(data)
            if self.cycle is not before:
                self._arrived()
            elif self.cycle is None or self.cycle.response_complete:
                self._head += len(data) if whole else 0
                self._wait()
                if self._head > MOST_HEAD_BYTES and not self.transport.is_closing():
                    self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n")
                    self.transport.close()

        def on_headers_complete(self) -> None:
            self._whole = False
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._whole = True
            super().on_message_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._arrived()
            super().connection_lost(exc)

        def _wait(self) -> None:
            if self._late is None:
                self._late = self.loop.call_later(HEAD_SECONDS, self._end)

        def _end(self) -> None:
            if self.transport.get_protocol() is self:  # no WebSocket reads it now
                self.transport.close()

        def _arrived(self) -> None:
            self._head = 0
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Bounded


async def _left_unread(receive: Receive) -> None:
    """Take the rest of a body and drop it: a client whose sending breaks off may never read the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BODY_SECONDS):
            while (await receive()).get("more_body", False):
                pass


async def _body(scope: Scope, receive: Receive, largest: int) -> bytes | Answer | None:
    """Return the whole body of a request, the refusal of one that is too large or too slow, None where the client has gone."""
    large = Answer(TOO_LARGE, f"refused: more than {largest:,} bytes", ((b"connection", b"close"),))
    told = _by_name(scope["headers"]).get(b"content-length", [])
    if any(not length.isdigit() or int(length) > largest for length in told):
        return large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > largest:
                    return large
                more = message.get("more_body", False)
    except TimeoutError:
        return Answer(408, f"refused: the request took more than {BODY_SECONDS:.0f} seconds", ((b"connection", b"close"),))
    return b"".join(parts)


def _unreadable(body: bytes) -> Answer | None:
    """Return the refusal of a body that is no JSON object, at which the application may fail; None for one that is."""
    try:
        if isinstance(json.loads(body), dict):
            return None
    except (ValueError, RecursionError):
        pass
    return Answer(400, "refused: the body is no JSON object that can be read")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return what receives a body that was read already, and then what comes after it."""
    waiting = [body]

    async def receiving() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receiving


def _unknown() -> Answer:
    text = "refused: open the address, with its token, that the command printed when it started"
    return Answer(401, text, ((b"www-authenticate", b"Bearer"),))


def _by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    return found


def _guarded(send: Send) -> Send:
    """Return what sends an answer with the headers that keep it from other sites."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message.get("headers", ())}
            message = {**message, "headers": [*message.get("headers", ()), *(pair for pair in _ADDED.items() if pair[0] not in there)]}
        await send(message)

    return sending
