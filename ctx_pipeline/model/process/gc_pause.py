"""Work without the collector of cycles, which walks rows and modules that live as long as the work."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_collector() -> Iterator[None]:
    """Hold the collector back: rows are tuples without a circle, and walking them costs up to a tenth of a report."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def importing(library: str) -> Iterator[None]:
    """Hold the collector back while a large library is imported for the first time, and let it never walk what that leaves."""
    if library in sys.modules:
        yield
        return
    with without_collector():
        yield
        gc.freeze()
