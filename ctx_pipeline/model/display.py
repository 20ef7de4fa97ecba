"""Text and sizes as people read them."""

from __future__ import annotations


def truncate(text: str, width: int) -> str:
    """Return a text of at most ``width`` characters, its last one an ellipsis where something is missing."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def cut(text: str, longest: int) -> str:
    """Return a text on one line, cut with an ellipsis."""
    return truncate(" ".join(text.split()), longest)


def size(octets: int) -> str:
    """Return bytes with a unit of a thousand: 512 B, 4.0 kB, 1.2 MB."""
    value = float(octets)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
