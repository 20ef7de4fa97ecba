"""Tells when something below the homes was written, as the operating system says: the scan stays the truth."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

POLL_SECONDS = 5.0
"""How often one looks where the system tells nothing: it can watch no more folders, or there is none."""

_GATHERED_MS, _STEP_MS, _GLANCE_MS = 1_000, 100, 2_000
"""How long changes are gathered, how long nothing must follow the last of them, and how often ``over`` is asked."""


class Changes:
    """Changes below folders, links in them not followed; those that come between two questions are kept."""

    def __init__(self, folders: Iterable[Path], *, over: Callable[[], bool] = lambda: False) -> None:
        self._over = over
        self.folders = _identified(folders)
        self._watched = _watched([path for path, _, _ in self.folders])

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Watch no longer."""
        if self._watched is not None:
            self._watched.close()

    def watches(self, folders: Iterable[Path]) -> bool:
        """Tell whether these folders are those that are watched: none came, went, or was made anew under its name."""
        return _identified(folders) == self.folders

    def wait(self, seconds: float) -> bool:
        """Wait until something changed, at most so long or until ``over``; return whether it did, or may have."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._over():
            if self._watched is None:
                time.sleep(min(left, POLL_SECONDS))
                return True
            told = self._watched.watch(_GATHERED_MS, _STEP_MS, max(1, min(_GLANCE_MS, int(left * 1_000))), None)
            if told == "signal":
                raise KeyboardInterrupt
            if not isinstance(told, str):
                return True
        return False


def _identified(folders: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Return path, device and inode of the folders that are there."""
    return sorted((str(path), status.st_dev, status.st_ino) for path in folders if path.exists() and (status := path.stat()))


def _watched(paths: list[str]) -> Any:
    """Return what the system tells of changes below paths, None where it cannot."""
    from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

    try:
        return RustNotify(paths, False, False, 0, True, True) if paths else None
    except (OSError, WatchfilesRustInternalError):  # a limit of the system, or a folder that went meanwhile
        return None
