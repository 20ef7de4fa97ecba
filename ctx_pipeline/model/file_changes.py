"""What an edit made of a file: its text before and after, where recorded, and the difference."""

from __future__ import annotations

import difflib
import hashlib
from typing import NamedTuple

_LONGEST = 20_000
"""Lines of a text above which no difference is worked out: it takes time that grows with their square."""


class FileChange(NamedTuple):
    """One file that one tool call changed."""

    call_id: str
    path: str
    before: str | None
    """whole text before; None where it was not recorded, or there was no file"""
    after: str | None
    """whole text after; None where it was not recorded, or the file was removed"""
    diff: str
    """unified difference without its file headers; empty where it is not known"""

    @property
    def before_sha(self) -> str | None:
        """SHA-256 of the text before."""
        return _sha(self.before)

    @property
    def after_sha(self) -> str | None:
        """SHA-256 of the text after."""
        return _sha(self.after)


def _sha(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def difference(before: str, after: str) -> str:
    """Return the unified difference of two texts without file headers; empty for equal and for very long ones."""
    old, new = before.splitlines(), after.splitlines()
    if before == after or max(len(old), len(new)) > _LONGEST:
        return ""
    return "\n".join(list(difflib.unified_diff(old, new, lineterm="", n=3))[2:])


def counted(diff: str) -> tuple[int, int]:
    """Return how many lines a difference adds and removes."""
    lines = diff.splitlines()
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
