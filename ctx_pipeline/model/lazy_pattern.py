"""Regular expressions that are compiled when they are first used, not when their module is imported."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Lazy:
    """Stand in for a compiled pattern; its methods are kept after the first one was asked for."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        found = {n: getattr(compiled, n) for n in ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")}
        self.__dict__.update(found)
        return getattr(compiled, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return lazy_pattern, (self._source, self._flags)


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use; an error in it shows there.

    For patterns of modules that a hook imports: compiling what an event does not need was a
    quarter of its time. It is no argument for functions of :mod:`re`; its methods are those of a pattern.
    """
    return cast("re.Pattern[AnyStr]", _Lazy(source, flags))
