"""Titles of sessions: what a reader of a host keeps of a text, and the one line that is stored and shown of it."""

from __future__ import annotations

from ctx_pipeline.model.lazy_pattern import lazy_pattern

KEPT = 800
"""Characters of a title that are kept: more than is shown, since secrets are found in it first."""
_READ = 16 * KEPT
_BLANKS = lazy_pattern(r"([^\S\n])[^\S\n]+")
_EMPTY_LINES = lazy_pattern(r"\n(?:[^\S\n]?\n){2,}")
_LAST_WORD = lazy_pattern(r"[!-~]+\Z")


def title_in_lines(text: str) -> str:
    """Return the beginning of a text with its lines and tabs, as redaction needs them, of several blanks the first.

    A word that the cut would part is left out: of a secret that is cut, the rest would not be known as one.
    """
    begun = text.lstrip()
    head = _EMPTY_LINES.sub("\n\n", _BLANKS.sub(r"\1", begun[:_READ]))
    if len(begun) <= _READ and len(head) <= KEPT:
        return head.rstrip()
    kept = head[:KEPT]
    return _LAST_WORD.sub("", kept).rstrip() or kept


def title_line(text: str | None, longest: int) -> str | None:
    """Return a redacted title as one line, None when nothing is left of it."""
    return " ".join(text.split(None, longest)[:longest])[:longest] or None if text else None
