"""Characters that nobody sees but a terminal, a page or a model obeys: the one list of them, for all text that leaves."""

from __future__ import annotations

import re

CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
"""C0 and C1 but for tab, line feed and carriage return; as a part of a character class, as are the others."""

DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""What changes the direction of writing."""

TAGS = "\U000e0000-\U000e0fff"
"""Tag characters and variation selectors that spell a hidden text."""

UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
"""Format characters and fillers without a shape.

ZWJ and ZWNJ are among them: they hide words from a search, and without them a text in any
script can still be read. The selectors for text and emoji (U+FE0E, U+FE0F) are not, nor
are the visible number signs that Unicode counts as format characters.
"""

SEPARATORS = "\x85\u2028\u2029"
"""Line ends of Unicode that many programs take for none."""

HALVES = "\ud800-\udfff"

HIDDEN = re.compile(f"[{CONTROLS}{DIRECTIONS}{TAGS}{UNSEEN}{SEPARATORS}{HALVES}]")
"""Everything that :func:`visible` takes out or turns into a line feed."""

SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,2000}(?:\x07|\x1b\\|\x9c)")
"""What colors text, moves a cursor or names a window of a terminal."""

_ENDS = re.compile(f"\r\n?|[{SEPARATORS}]")


def visible(text: str) -> str:
    """Return a text as a reader sees it: no sequence for a terminal, no character of :data:`HIDDEN`; every line end is a line feed."""
    if "\r" not in text and HIDDEN.search(text) is None:
        return text
    return HIDDEN.sub("", _ENDS.sub("\n", SEQUENCE.sub("", text)))


def escaped(text: str) -> str:
    r"""Return JSON with every character of :data:`HIDDEN` as an escape (``\u202e``): the same value for a reader of JSON."""
    return HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))
