"""Text of others inside Markdown: it keeps its headings, lists and code and brings no HTML, no image and no link but to the web."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPENS = re.compile(r"[ \t]*(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_SIGN = re.compile(r"\\[!-/:-@\[-`{-~]|(?P<run>`+)")
_RUNS = re.compile(r"`+")
_BREAK = re.compile(r"\r\n?|\n")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_LINK = re.compile(r"\](?=\((?!https?://[^\s<>()]+\))|\[|:)")
_IMAGE = re.compile(r"!\[")


def fenced(text: str, language: str = "") -> list[str]:
    """Return code in a fence that nothing in the text closes: the fence, the text, the fence."""
    fence = "`" * max(3, *(len(run) + 1 for run in _RUNS.findall(text)), 3)
    return [f"{fence}{language}", text.rstrip("\n"), fence]


def prose(text: str) -> str:
    """Return Markdown of others, inert: what stands in its fences is as it was, and a fence that it leaves open is closed.

    A fence begins at the margin, since one in a list ends with the list, whatever its text says.
    """
    told = _BREAK.split(text.rstrip("\r\n"))
    later = Counter(map(len, _RUNS.findall(text)))
    lines: list[str] = []
    fence = ""
    for line in told:
        later.subtract(map(len, _RUNS.findall(line)))
        if fence:
            ended = re.fullmatch(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*", line)
            lines.append(line)
            fence = "" if ended else fence
        elif opened := _OPENS.fullmatch(line):
            fence = opened["fence"]
            lines.append(fence + opened["info"])
        else:
            lines.append(_inert(line, later))
    return "\n".join([*lines, fence] if fence else lines)


def inline(text: object) -> str:
    """Return text of others on one line of Markdown, inert."""
    return _inert(" ".join(str(text).split()))


def table_text(text: object) -> str:
    """Return text of others as a cell of a table, inert and without code."""
    return _dead(" ".join(str(text).split()).replace("\\", "\\\\").replace("`", "'")).replace("|", "\\|")


def _inert(line: str, later: Mapping[int, int] | None = None) -> str:
    """Return a line without HTML and links outside its code; ``later`` counts the runs of backticks in the lines behind it by length.

    A run without a partner would find one behind its line and is taken literally. A stroke
    in code parts the cells of a table, so that a line with one is taken to have no code.
    """
    parts: list[str] = []
    at = plain = 0
    while (found := _SIGN.search(line, at)) is not None:
        at, run = found.end(), found["run"]
        if run is None:
            continue
        closed = re.compile(rf"(?<!`){run}(?!`)").search(line, at)
        if closed is None and later is not None and not later[len(run)]:
            continue
        parts.append(_dead(line[plain : found.start()]))
        if closed is None:
            parts.append("\\`" * len(run))
        else:
            code, at = line[found.start() : closed.end()], closed.end()
            parts.append(_dead(code) if "|" in line else code)
        plain = at
    return "".join([*parts, _dead(line[plain:])])


def _dead(text: str) -> str:
    return _LINK.sub(r"]\\", _IMAGE.sub(r"!\\[", _TAG.sub("&lt;", text)))
