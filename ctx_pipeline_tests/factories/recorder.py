"""A model whose answers are files: a server on loopback that writes down what it is asked.

``python -m ctx_pipeline_tests.factories.recorder FOLDER`` prints its address and serves
until it is interrupted. A person or an assistant reads ``FOLDER/requests``, writes the
answers, and the command is run again.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctx_pipeline_tests.factories.openai_server import Server

_UNANSWERED = 404
"""Status of a request without an answer: a client does not try it again."""

Messages = list[dict[str, Any]]


def digest_of(messages: Messages) -> str:
    """Return the name of a request by what it asks."""
    return hashlib.sha256(as_text(messages).encode()).hexdigest()[:16]


def as_text(messages: Messages) -> str:
    """Return the messages of a request as one text."""
    return "\n\n".join(f"### {message['role']}\n{message['content']}" for message in messages)


def recorder(folder: Path, *, name: Callable[[Messages], str] = digest_of, requests: Path | None = None) -> Server:
    """Return a server that answers with ``folder/NAME.txt`` and writes each request to ``requests/NAME.txt`` where that is a folder."""

    def answer(messages: Messages) -> str | int:
        named = f"{name(messages)}.txt"
        if requests is not None:
            requests.mkdir(parents=True, exist_ok=True)
            (requests / named).write_text(as_text(messages), "utf-8")
        found = folder / named
        return found.read_text("utf-8") if found.is_file() else _UNANSWERED

    return Server(answer)


def _main() -> None:
    folder = Path(sys.argv[1])
    with recorder(folder, requests=folder / "requests") as server:
        print(server.url, flush=True)  # noqa: T201
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    _main()
