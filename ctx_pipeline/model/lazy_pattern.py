"""Regular expressions that are compiled when they are first used, not when their module is imported."""

from __future__ import annotations

import re
import sys
from typing import Any, AnyStr, cast

_POSSESSIVE_GROUPS_FAIL = sys.version_info < (3, 11, 5)
"""Before 3.11.5 a possessive group with choices inside ends too early; an atomic group does not (a fault of CPython's sre)."""
_PARTS = r"(?s)\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(|\)(?:(?:[*+?]|\{\d*,?\d*\})(\+)?)?"


def atomic(pattern: AnyStr) -> AnyStr:
    """Return a pattern with an atomic group where it has a possessive one: ``(?:a|b)*+`` becomes ``(?>(?:a|b)*)``."""
    if isinstance(pattern, bytes):
        return atomic(pattern.decode("latin-1")).encode("latin-1")
    said, opened = list(pattern), list[int]()
    for part in re.finditer(_PARTS, pattern):
        if part[0] == "(":
            opened.append(part.start())
        elif part[0].startswith(")"):
            begins = opened.pop()
            if part[1]:
                said[begins], said[part.start(1)] = "(?>" + said[begins], ")"
    return "".join(said)


def compiled(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a compiled pattern that this Python reads rightly; what has possessive groups is compiled here alone."""
    return re.compile(atomic(pattern) if _POSSESSIVE_GROUPS_FAIL else pattern, flags)


class _Lazy:
    """Stand in for a compiled pattern; its methods are kept after the first one was asked for."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        pattern: re.Pattern[Any] = compiled(cast("Any", self._source), self._flags)
        found = {n: getattr(pattern, n) for n in ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")}
        self.__dict__.update(found)
        return getattr(pattern, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return lazy_pattern, (self._source, self._flags)


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use; an error in it shows there.

    For patterns of modules that a hook imports: compiling what an event does not need was a
    quarter of its time. It is no argument for functions of :mod:`re`; its methods are those of a pattern.
    """
    return cast("re.Pattern[AnyStr]", _Lazy(source, flags))
