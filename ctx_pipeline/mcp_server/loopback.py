"""Who may talk to a server on loopback: whoever knows the token and asks under the server's own name."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send


class TokenGate:
    """An ASGI application that lets through what comes with the token, under one of the places, from no other site.

    A page of another site that got its name to mean 127.0.0.1 sends its own name as Host
    (421), any other page its Origin (403), and neither has the token (401).
    """

    def __init__(self, app: ASGIApp, token: str, places: Sequence[str]) -> None:
        self._app = app
        self._bearer = f"Bearer {token}".encode()
        self._hosts = frozenset(place.encode() for place in places)
        self._origins = frozenset(f"http://{place}".encode() for place in places)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        status = self._refused(scope)
        if scope["type"] != "http" or status:
            if scope["type"] == "http":
                headers = [(b"content-type", b"text/plain"), *([(b"www-authenticate", b"Bearer")] if status == 401 else [])]
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": b"refused\n"})
            return
        await self._app(scope, receive, send)

    def _refused(self, scope: Scope) -> int:
        """Return the status of a refusal, 0 for a request that may pass."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope.get("headers", ()):
            headers.setdefault(name.lower(), []).append(value)
        if len(headers.get(b"host", ())) != 1 or headers[b"host"][0].lower() not in self._hosts:
            return 421
        if any(origin.lower() not in self._origins for origin in headers.get(b"origin", ())):
            return 403
        sent = headers.get(b"authorization", ())
        return 0 if len(sent) == 1 and hmac.compare_digest(sent[0], self._bearer) else 401
