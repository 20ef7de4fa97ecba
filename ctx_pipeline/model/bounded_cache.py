"""How a dict that a process keeps answers in stays small."""

from __future__ import annotations

from typing import Any


def drop_older_half(kept: dict[Any, Any]) -> None:
    """Drop the half of the entries that was added first; other threads may read and change the dict meanwhile."""
    for key in list(kept)[: len(kept) // 2]:
        kept.pop(key, None)
