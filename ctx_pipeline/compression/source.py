"""A text with its name and language: what is shortened."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures.drawing import outline
from ctx_pipeline.compression.signatures.symbols import language_of

if TYPE_CHECKING:
    from ctx_pipeline.compression.signatures.symbols import Outline


_ENDS = re.compile(r"\r\n|\n|\r")
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def _line_ends(text: str) -> str:
    names = {"\r\n": "CRLF", "\n": "LF", "\r": "CR"}
    found = set(_ENDS.findall(text))
    return ", ".join(name for end, name in names.items() if end in found)


class Source:
    """One file: its text with plain line ends, its language, and what it declares; ``encoding`` says it where that is not UTF-8."""

    def __init__(self, name: str, text: str, language: str | None = None, *, fragment: bool = False, encoding: str = "") -> None:
        self.name = _BREAKS.sub(" ", name)
        """a line of its own: a transcript may name any path"""
        self.fragment = fragment
        """some of its lines are missing"""
        self.text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        self.odd = (
            (f" (line ends: {_line_ends(text)})" if "\r" in text else "")
            + (" (begins with a byte order mark)" if text.startswith("\ufeff") else "")
            + encoding
        )
        """what an edit must know of it; empty for plain text"""
        self.written = hash((text, encoding))
        """another number in this process where anything is written in another way, line ends too"""
        self.language = language or language_of(name, self.text)

    @cached_property
    def outline(self) -> Outline:
        """What it declares; of Markdown its headings."""
        from ctx_pipeline.compression.reductions import headings

        found = headings(self.text) if self.language == "markdown" else outline(self.text, self.language)
        if not self.fragment:
            return found
        # an indented assignment at the top of a fragment stands in a function whose head is missing
        lines = self.text.split("\n")
        shown = [s for s in found.symbols if s.level or s.kind != "value" or not lines[s.first - 1][:1].isspace()]
        return found._replace(symbols=tuple(shown))

    @cached_property
    def bare(self) -> str:
        """Its text without comments and blank lines, where its language is known."""
        from ctx_pipeline.compression.reductions import stripped

        return stripped(self.text, self.language, outline(self.text, self.language) if self.fragment else self.outline)

    @property
    def lines(self) -> int:
        """Lines of the text, the last one without a line end counted too."""
        return self.text.count("\n") + (not self.text.endswith("\n") and bool(self.text))


# What it costs to say that a file is in the context already.


NOTICE_TOKENS = 20
"""Tokens of a notice in place of a file that is in the context, unchanged: the one figure for it, in analyses, benchmarks and replays.

A notice names the file and how many of its lines stand above; with a path of four folders
it has at most so many tokens of o200k_base.
"""


def notice(path: str, lines: int) -> str:
    """Return the notice of a file, with the last four parts of its path."""
    short = "/".join(path.replace("\\", "/").split("/")[-4:])
    return f"[{short}: unchanged, {lines} line{'s' * (lines != 1)} above]"
