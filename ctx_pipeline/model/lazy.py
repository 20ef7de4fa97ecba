"""A function that is imported when it is first called: what a host declares costs nothing until it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Deferred:
    """Stands for the function at ``module:name``."""

    __slots__ = ("_function", "_place")

    def __init__(self, place: str) -> None:
        self._place = place
        self._function: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        if self._function is None:
            module, _, name = self._place.partition(":")
            self._function = getattr(importlib.import_module(module), name)
        return self._function(*arguments, **named)

    def __repr__(self) -> str:
        """Name the function."""
        return f"Deferred({self._place!r})"
