"""Keeps a short command from loading and doing what it does not need."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def without_numpy() -> None:
    """Let pyarrow start without numpy, which it loads when it is there and which takes a third of a search and a fifth of a sync.

    Only for processes of our own: whoever else shares the interpreter may want arrays.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("numpy", None)


@contextmanager
def without_collector() -> Iterator[None]:
    """Hold the collector of cycles back: modules and rows that live as long as the command cost it a tenth of a report."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
