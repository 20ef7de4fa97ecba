"""What is freed stays with the process: bringing fresh pages in costs more than what is done with them."""

from __future__ import annotations

import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_NEVER = 1 << 30


def keep_freed() -> None:
    """Let the C library keep what is freed for the next block, where it can be told so (glibc), and Arrow ask it for its own blocks."""
    import ctypes

    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _NEVER)
        mallopt(_MMAP_THRESHOLD, _NEVER)
