"""A small server on loopback that speaks the chat-completions protocol, by a script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answer = Callable[[list[dict[str, Any]]], Any]
"""messages -> the text of the answer, or a dict that replaces fields of the message, or an int: the HTTP status of a failure"""


class _Listening(ThreadingHTTPServer):
    request_queue_size = 128


class Server:
    """Answers on a free port of loopback and remembers every request, with the usage it reported."""

    def __init__(self, answer: Answer, *, usage: dict[str, Any] | None = None, delay: float = 0.0) -> None:
        self.asked: list[dict[str, Any]] = []
        self.said: list[tuple[str, int, int]] = []
        """(text, prompt tokens, completion tokens) of every answer"""
        lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if delay:
                    time.sleep(delay)
                found = answer(body["messages"])
                with lock:
                    owner.asked.append(body)
                    number = len(owner.asked)
                if isinstance(found, int):
                    self._send(found, {"error": {"message": "the server is out of order", "type": "server_error"}})
                    return
                message = {"role": "assistant", "content": found} if isinstance(found, str) else {"role": "assistant", **found}
                text = message.get("content") or ""
                told = usage or {"prompt_tokens": 1000 + number, "completion_tokens": len(text)}
                told = {"total_tokens": told["prompt_tokens"] + told["completion_tokens"], **told}
                with lock:
                    owner.said.append((text, told["prompt_tokens"], told["completion_tokens"]))
                if body.get("stream"):
                    self._stream(text, body["model"], told)
                    return
                choices = [{"index": i, "message": message, "finish_reason": "stop"} for i in range(body.get("n") or 1)]
                self._send(
                    200, {"id": "x", "object": "chat.completion", "created": 1, "model": body["model"], "choices": choices, "usage": told}
                )

            def _send(self, status: int, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(data)

            def _stream(self, text: str, model: str, told: dict[str, Any]) -> None:
                head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": model}
                parts = [text[i : i + 7] for i in range(0, len(text), 7)]
                chunks: list[dict[str, Any]] = [
                    {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": p}, "finish_reason": None}]} for p in parts
                ]
                chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
                chunks.append({**head, "choices": [], "usage": told})
                data = b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks) + b"data: [DONE]\n\n"
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._http = _Listening(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
