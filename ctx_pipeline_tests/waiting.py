"""Waiting for what another thread or process does: as long as it takes, up to a bound that only a hang reaches."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS = 100.0
"""How long a busy machine is given; less than a test may take."""


def eventually(done: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Return the first answer that is true, or the last one."""
    deadline = time.monotonic() + seconds
    while not (answer := done()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def remove(folder: Path) -> None:
    """Remove a folder of a store, of whose files a process or a connection that ends may remove some meanwhile."""
    while folder.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
