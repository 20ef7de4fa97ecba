"""A question as a sentence, without the words that say nothing of what is looked for: "which session fixed the ImportError"."""

from __future__ import annotations

import re

_ASKS_TEXT = "which what when where how why who find show did do does has have is was"
_SAYS_NOTHING_TEXT = """
    a again about agent an and are been bug by chat chats ever error errors exception fix fixed fixes for get got had hit i in it last me
    met my of on once our problem repaired resolved saw session sessions solve solved that the them there these this time to us we were
    with you your
"""
_ASKS = frozenset(_ASKS_TEXT.split())
_SAYS_NOTHING = _ASKS | frozenset(_SAYS_NOTHING_TEXT.split())


def without_question(query: str) -> str:
    """Return a question without the words that it begins with and that say nothing; as it is where it is none, or nothing else is in it."""
    words = query.split()
    if not words or _bare(words[0]) not in _ASKS:
        return query
    begin = next((place for place, word in enumerate(words) if _bare(word) not in _SAYS_NOTHING), None)
    return query if begin is None else " ".join(words[begin:]).rstrip("? ")


def _bare(word: str) -> str:
    return re.sub(r"^\W+|\W+$", "", word.lower())
