"""Serves the page on loopback, to whoever knows the address that is printed."""

from __future__ import annotations

import secrets
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, cast

from ctx_pipeline.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

HOST = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    """Gives files of one folder under a secret first part of the path; other users of the machine and other sites get nothing."""

    def __init__(self, *args: Any, token: str, **options: Any) -> None:
        self._token = token
        super().__init__(*args, **options)

    def send_head(self) -> Any:
        """Refuse what comes under another name or without the token, and never list a folder."""
        port = cast("ThreadingHTTPServer", self.server).server_port
        if self.headers.get("Host", "").lower() not in {f"{HOST}:{port}", f"localhost:{port}"}:
            self.send_error(421)
            return None
        first, _, rest = self.path.lstrip("/").partition("/")
        if not secrets.compare_digest(first.encode(), self._token.encode()):
            self.send_error(404)
            return None
        self.path = f"/{rest}"
        return super().send_head()

    def list_directory(self, path: Any) -> None:  # noqa: ARG002 - the name of the base class
        """List nothing."""
        self.send_error(404)

    def end_headers(self) -> None:
        """Keep what was served out of caches and out of other pages."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        super().end_headers()

    def log_message(self, *words: Any) -> None:
        """Print nothing: a page loads dozens of files."""


def server(site: Path, port: int) -> tuple[ThreadingHTTPServer, str]:
    """Return a server of a folder and the address of its page; raises StoreError for a port that is taken."""
    token = secrets.token_urlsafe(16)
    try:
        made = ThreadingHTTPServer((HOST, port), partial(_Handler, directory=str(site), token=token))
    except OSError as error:
        raise StoreError(
            f"port {port} cannot be used: {error.strerror}", hint="choose another one: --port 8766, or --port 0 for any"
        ) from error
    return made, f"http://{HOST}:{made.server_port}/{token}/index.html"
