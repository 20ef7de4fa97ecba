"""What a session was shown of outputs already, so that it is not shown the same lines again."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ctx_pipeline.compression.kept_outputs import FOLDER
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.settings import Settings

RUN, CHARACTERS = 5, 160
"""Lines and characters of a run that stood there before from which on a note stands for it."""

_TOGETHER = 3
"""Lines in a row by which a place is known again: one line alone stands in many."""

_DIGEST = 6
_MOST = 200_000


class ShownLines:
    """Lines in the order in which a session was shown them, until its window is emptied."""

    def __init__(self, known: bytes = b"") -> None:
        self._known = {known[n : n + _DIGEST] for n in range(0, len(known), _DIGEST)}

    def add(self, lines: Sequence[str]) -> None:
        """Note lines that are shown."""
        self._known.update(_places(lines))
        if len(self._known) > _MOST:
            self._known.clear()

    def holds(self, lines: Sequence[str]) -> bool:
        """Tell whether every line was shown before, in the same order; fewer than three are never known."""
        places = _places(lines)
        return bool(places) and all(place in self._known for place in places)

    def forget(self, lines: Sequence[str]) -> None:
        """Forget lines: they are shown whole next time."""
        self._known.difference_update(_places(lines))

    def without(self, lines: Sequence[str]) -> list[str]:
        """Return the lines with a note in place of every long run that was shown before, in the same order."""
        before = [False] * len(lines)
        for n, place in enumerate(_places(lines)):
            if place in self._known:
                before[n : n + _TOGETHER] = [True] * _TOGETHER
        found: list[str] = []
        at = 0
        while at < len(lines):
            end = at
            while end < len(lines) and before[end] == before[at]:
                end += 1
            run = lines[at:end]
            if before[at] and len(run) >= RUN and sum(map(len, run)) >= CHARACTERS:
                found.append(f"[{len(run)} lines as shown before]")
            else:
                found.extend(run)
            at = end
        return found

    def to_bytes(self) -> bytes:
        """Return all of it as bytes."""
        return b"".join(self._known)


def _places(lines: Sequence[str]) -> list[bytes]:
    """Return a digest of every few lines in a row, by their first line."""
    return [
        hashlib.blake2b("\n".join(lines[n : n + _TOGETHER]).encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
        for n in range(len(lines) - _TOGETHER + 1)
    ]


def window_of(payload: Mapping[str, Any], host: str) -> str:
    """Return the name of the window that a payload comes from: a subagent has one of its own."""
    return "/".join([host, *(str(payload.get(name) or "") for name in ("session_id", "agent_id"))])


def shown_to(window: str, settings: Settings) -> ShownLines:
    """Return what a window was shown, as it was kept last; ``window`` names a session or a thread of it."""
    files = Files(settings.home)
    return ShownLines(files.read(_file(window)) if files.exists(_file(window)) else b"")


def keep_shown(window: str, shown: ShownLines, settings: Settings) -> None:
    """Keep what a window was shown (0600), as digests alone."""
    Files(settings.home).write(_file(window), shown.to_bytes())


def forget_shown(window: str, settings: Settings) -> None:
    """Forget what a window was shown: it was emptied."""
    with suppress(FileNotFoundError):
        (settings.home / _file(window)).unlink()


def _file(window: str) -> str:
    return f"{FOLDER}/{hashlib.sha256(window.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}.shown"
