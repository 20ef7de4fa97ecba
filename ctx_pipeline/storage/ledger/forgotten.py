"""What ``ctx forget`` removed, known again by hashes: a thread by its id, a copy of its transcript by its bytes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ctx_pipeline.storage.ledger.sessions import thread_hash
from ctx_pipeline.storage.raw.home_files import EDGE, edge_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctx_pipeline.storage.ledger.rows import Tombstone

CONTENT = "content"
"""Kind of the tombstones that know a transcript by its bytes."""


def content_hash(data: bytes) -> str:
    """Return the tombstone's name of a transcript: its length, and the hashes of its first bytes and of all of them."""
    return f"{len(data)}.{edge_hash(data[:EDGE])}.{hashlib.sha256(data).hexdigest()}"


class Forgotten:
    """Tombstones to ask whether something may be captured."""

    def __init__(self, stones: Iterable[Tombstone]) -> None:
        """Take the tombstones of the ledger."""
        self._threads: set[tuple[str, str]] = set()
        self._contents: dict[str, dict[tuple[int, str], set[str]]] = {}
        for stone in stones:
            if stone.kind == "thread":
                self._threads.add((stone.host, stone.hash))
            elif stone.kind == CONTENT:
                length, head, whole = stone.hash.split(".")
                self._contents.setdefault(stone.host, {}).setdefault((int(length), head), set()).add(whole)

    def __bool__(self) -> bool:
        """Tell whether anything was forgotten."""
        return bool(self._threads or self._contents)

    def thread(self, host: str, thread_id: str) -> bool:
        """Tell whether a thread was forgotten."""
        return (host, thread_hash(host, thread_id)) in self._threads

    def content(self, host: str, data: bytes) -> bool:
        """Tell whether a file's bytes begin with a whole transcript that was forgotten."""
        return self._begins(host, len(data), lambda count: data[:count])

    def file(self, host: str, path: str, size: int) -> bool:
        """Tell so of a file of ``size`` bytes; one that cannot be read holds nothing."""
        if not self._contents.get(host):
            return False
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - a thousand small reads

                def first(count: int) -> bytes:
                    file.seek(0)
                    return file.read(count)

                return self._begins(host, size, first)
        except OSError:
            return False

    def _begins(self, host: str, size: int, first: Callable[[int], bytes]) -> bool:
        wanted = {key: sums for key, sums in self._contents.get(host, {}).items() if key[0] <= size}
        head = first(EDGE) if wanted else b""
        return any(
            edge_hash(head[:length]) == edge and hashlib.sha256(first(length)).hexdigest() in sums
            for (length, edge), sums in wanted.items()
        )
