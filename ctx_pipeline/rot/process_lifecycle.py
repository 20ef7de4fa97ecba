"""What becomes of the writers of a program when it forks or ends."""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Protocol

from ctx_pipeline.rot import database

if TYPE_CHECKING:
    from pathlib import Path

FORK_SECONDS = 1.0
"""How long a fork waits for the writers to come to rest."""

_POOLS = ("multiprocessing.util", "billiard.util")

_ended_by: list[int] = []


class Follower(Protocol):
    """Something that writes from a thread of its own."""

    def park(self) -> None:
        """Ask the thread to let go of SQLite and rest."""

    def rest(self, deadline: float) -> None:
        """Wait until it rests, at most until a time of the monotonic clock."""

    def resume(self) -> None:
        """Let it go on."""

    def begin_in_child(self, held: set[Path]) -> None:
        """Begin anew in a forked child; ``held`` are the stores that were open in the parent."""

    def close(self) -> None:
        """Flush and end."""


_followers: weakref.WeakSet[Follower] = weakref.WeakSet()


def follow(follower: Follower) -> None:
    """Tell a writer of every fork, and close it when the process ends."""
    _followers.add(follower)


def at_process_end() -> None:
    """See to it that a process of multiprocessing, or of Celery's pool, flushes at its end; they run no atexit functions."""
    if _ended_by == [os.getpid()]:
        return
    for name in _POOLS:
        util = sys.modules.get(name)
        if util is not None:
            _ended_by[:] = [os.getpid()]
            util.Finalize(None, close_all, exitpriority=100)


def close_all() -> None:
    """Flush and close every writer of this process."""
    for follower in list(_followers):
        follower.close()


def _before() -> None:
    followers = list(_followers)
    for follower in followers:
        follower.park()
    deadline = time.monotonic() + FORK_SECONDS
    for follower in followers:
        follower.rest(deadline)


def _in_parent() -> None:
    for follower in list(_followers):
        follower.resume()


def _in_child() -> None:
    held = database.connected_stores()
    for follower in list(_followers):
        follower.begin_in_child(held)


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
