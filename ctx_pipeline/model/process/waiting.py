"""Who waits for another process says so, to whoever listens: the command line prints it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

listeners: list[Callable[[str], None]] = []
"""What is called, once, with a sentence about a wait that takes long."""

_LONG = 1.5
"""Seconds after which a person wonders."""


class Wait:
    """One wait that began at a moment of the monotonic clock."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._told = False

    def tell(self, sentence: Callable[[], str]) -> None:
        """Tell the listeners for whom one waits, once, when it takes long."""
        if not self._told and time.monotonic() - self._began > _LONG:
            self._told = True
            for listener in listeners:
                listener(sentence())
