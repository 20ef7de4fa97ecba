"""Regular expressions of selectors: RE2's, which go back for no text, and within seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import InvalidSelector

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 1_000
"""Characters of a pattern."""

SECONDS = 10.0
"""How long one condition may look; checked between texts."""

_AT_ONCE, _CHARACTERS = 1_000, 100_000
"""Texts, and their characters, that are looked at between two looks at the clock."""


class Expression:
    """A pattern in a selector; knows its place there for what it has to say."""

    def __init__(self, pattern: str, selector: str, position: int) -> None:
        self.pattern = pattern
        self._selector, self._position = selector, position
        if len(pattern) > LONGEST:
            raise self._refused(f"a pattern of {len(pattern)} characters", f"at most {LONGEST:,} are taken")
        self._matching([""])

    def matching(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether the pattern is found in it. Raises InvalidSelector when the time is over."""
        found: list[bool] = []
        deadline = time.monotonic() + SECONDS
        while len(found) < len(texts):
            if found and time.monotonic() > deadline:
                said = f"the pattern took more than {SECONDS:g} s for {len(found):,} of {len(texts):,} texts"
                raise self._refused(said, "choose fewer nodes before it, or write a simpler pattern")
            end, size = len(found), 0
            while end < len(texts) and end - len(found) < _AT_ONCE and (size := size + len(texts[end])) <= _CHARACTERS:
                end += 1
            found += self._matching(texts[len(found) : max(end, len(found) + 1)])
        return found

    def _matching(self, texts: Sequence[str]) -> list[bool]:
        import pyarrow as pa
        from pyarrow import compute

        column = pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())
        try:
            matched: list[Any] = compute.match_substring_regex(column, pattern=self.pattern).to_pylist()
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            said = str(error).removeprefix("Invalid regular expression: ")
            raise self._refused(f"{self.pattern!r} is no regular expression: {said}", "the syntax is RE2's: name~='pattern'") from None
        return matched

    def _refused(self, problem: str, hint: str) -> InvalidSelector:
        return InvalidSelector(self._selector, self._position, problem, hint)
