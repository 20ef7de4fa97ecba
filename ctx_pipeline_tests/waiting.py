"""Waiting for what another thread or process does: as long as it takes, up to a bound that only a hang reaches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 100.0
"""How long a busy machine is given; less than a test may take."""


def eventually(done: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Return the first answer that is true, or the last one."""
    deadline = time.monotonic() + seconds
    while not (answer := done()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer
