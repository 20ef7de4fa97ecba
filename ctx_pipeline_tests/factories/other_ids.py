"""A transcript in which every id is another one: what a person copies by hand, or a host that draws ids anew."""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:msg|req|toolu|call|resp)_[A-Za-z0-9]+")


def with_other_ids(text: str, salt: str = "") -> str:
    """Return a text with each id of a session, a line, a message or a call replaced, equal ones by equal ones."""

    def other(match: re.Match[str]) -> str:
        drawn = hashlib.sha256((salt + match[0]).encode()).hexdigest()
        return str(UUID(drawn[:32])) if "-" in match[0] else f"{match[0].partition('_')[0]}_{drawn[:24]}"

    return ID.sub(other, text)
