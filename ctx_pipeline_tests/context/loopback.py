"""A server that answers as OpenAI does, on this machine only."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def openai_server(answers=()):
    """Serve chat completions and embeddings; yield (base url, list of request bodies). ``answers`` are messages, in turn."""
    seen: list[dict] = []
    waiting = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(asked)
            if self.path.endswith("/embeddings"):
                body = {
                    "object": "list",
                    "model": asked["model"],
                    "data": [{"object": "embedding", "index": n, "embedding": [float(len(t)), 1.0]} for n, t in enumerate(asked["input"])],
                    "usage": {"prompt_tokens": 1, "total_tokens": 1},
                }
            else:
                message = waiting.pop(0) if waiting else {"role": "assistant", "content": f"answer {len(seen)}"}
                body = {
                    "id": f"c{len(seen)}",
                    "object": "chat.completion",
                    "created": 1,
                    "model": asked["model"],
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                }
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
