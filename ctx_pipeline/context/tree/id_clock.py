"""Where the times and the ids of new nodes come from."""

from __future__ import annotations

import time
from uuid import uuid4


class Births:
    """The clock and chance."""

    def now_ns(self) -> int:
        """Return the time of a birth in nanoseconds since 1970."""
        return time.time_ns()

    def new_id(self) -> str:
        """Return an id that no other node has."""
        return uuid4().hex[:16]


class ReplayedBirths(Births):
    """The recorded time and a number, so that playing the same record again gives the same tree."""

    def __init__(self) -> None:
        self.at_ns = 0
        self._made = 0

    def now_ns(self) -> int:
        """Return the time of the event that is played."""
        return self.at_ns

    def new_id(self) -> str:
        """Return ``turn-`` and a number; turns and their containers are all that a replay makes."""
        self._made += 1
        return f"turn-{self._made}"


LIVE = Births()
