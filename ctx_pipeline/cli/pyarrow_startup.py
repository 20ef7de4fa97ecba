"""Keeps a short command from loading what it does not need."""

from __future__ import annotations

import sys
from typing import Any


def without_numpy() -> None:
    """Let pyarrow start without numpy, which it loads when it is there and which takes a third of a search and a fifth of a sync.

    Only for processes of our own: whoever else shares the interpreter may want arrays.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("numpy", None)
