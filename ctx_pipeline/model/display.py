"""Text and sizes as people read them."""

from __future__ import annotations

import re


def truncate(text: str, width: int) -> str:
    """Return a text of at most ``width`` characters, its last one an ellipsis where something is missing."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


_LINK = re.compile(r"!?\[([^\]\n]{1,200})\]\([^)\s]*\)?")
_OPEN_LINK = re.compile(r"!?\[(?=\S+$)|https?://(?:www\.)?")
_SIGNS = re.compile(r"^[#>*\-\s]+|[*_`]{2,}|`")


def title_text(title: str) -> str:
    """Return a title as one line: Markdown links by their text, without signs of emphasis, headings and code."""
    return " ".join(_SIGNS.sub("", _OPEN_LINK.sub("", _LINK.sub(r"\1", title))).split()) or " ".join(title.split())


def size(octets: int) -> str:
    """Return bytes with a unit of a thousand: 512 B, 4.0 kB, 1.2 MB."""
    value = float(octets)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
