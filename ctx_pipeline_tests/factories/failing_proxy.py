"""A way to a server that is slow, loses requests and answers, and cuts uploads in half, as drawn from a seed."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 1 << 16


class FailingProxy:
    """Passes bytes on between clients and a server on loopback; what it did to them is counted."""

    def __init__(self, server: str, seed: int, *, fails: float, slow: float) -> None:
        host, _, port = server.removeprefix("http://").partition(":")
        self._server = (host, int(port))
        self._drawn, self._lock = random.Random(seed), threading.Lock()
        self.fails, self.slow = fails, slow
        """shares of what is sent, either way, that is lost, and that is delayed"""
        self.done: Counter[str] = Counter()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True, name="test-proxy").start()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                with suppress(OSError):
                    server = socket.create_connection(self._server)
                    for where, to, name in ((client, server, "request"), (server, client, "answer")):
                        threading.Thread(target=self._pass_on, args=(where, to, name), daemon=True, name="test-proxy").start()

    def _pass_on(self, where: socket.socket, to: socket.socket, name: str) -> None:
        with suppress(OSError):
            while piece := where.recv(_PIECE):
                with self._lock:
                    fails, slow, part = self._drawn.random() < self.fails, self._drawn.random() < self.slow, self._drawn.random()
                if slow:
                    self.done[f"{name} delayed"] += 1
                    time.sleep(part / 5)
                if fails:
                    self.done[f"{name} lost"] += 1
                    if name == "request":
                        to.sendall(piece[: int(len(piece) * part)])
                    break
                self.done[f"{name} passed on"] += 1
                to.sendall(piece)
        for one in (where, to):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextmanager
def failing(server: str, seed: int, *, fails: float, slow: float) -> Iterator[FailingProxy]:
    """Give a way to a server that fails and is slow."""
    made = FailingProxy(server, seed, fails=fails, slow=slow)
    try:
        yield made
    finally:
        made.close()
