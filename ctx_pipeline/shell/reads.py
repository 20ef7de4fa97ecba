"""Which lines of which files a shell command prints, as far as its words tell."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from typing import NamedTuple

from ctx_pipeline.shell.commands import Step, steps
from ctx_pipeline.shell.files import CHANGES_FOLDER, below, entered, files_read
from ctx_pipeline.shell.parsing import pieces

_SED = re.compile(r"(\d{1,9})(?:,(\d{1,9}|\$))?p")
_QUIET = re.compile(r"-[A-Za-z]*n[A-Za-z]*|--quiet|--silent")
_COUNT = re.compile(r"(\+?)(\d{1,9})")
_BAT = re.compile(r"(\d{0,9}):(\d{0,9})")
_HEAD_LINES = 10
"""Lines that ``head`` prints unless told otherwise (POSIX)."""
_PAGERS = frozenset({"sed", "head", "tail"})
_WHOLE = frozenset({"sed", "cat", "nl", "bat", "less", "more", "tee"})
"""Programs behind a pipe that hand every line on."""


class ShellRead(NamedTuple):
    """A file that a command printed, and which of its lines."""

    path: str
    range: str
    """``first-last``, several joined by commas, ``first-`` up to the end; empty: all of it, or lines that the words do not tell"""
    told: bool = True
    """False: a filter, a pattern, a count from the end or another file chose which of these lines were printed"""


@lru_cache(maxsize=4096)
def reads(command: str, cwd: str | None = None) -> tuple[ShellRead, ...]:
    """Return the files that a command line prints, each with its lines, below ``cwd`` or the folder it changes to.

    ``sed -n``, ``head``, ``tail -n +N`` and ``bat -r`` say which lines, also behind a
    pipe: ``nl -ba x.py | sed -n '5,9p'`` prints 5-9 of ``x.py``. Without ``cwd`` relative
    names stay relative; names with patterns and variables are left out, and so is a file
    in front of ``||``, which may not be there.
    """
    base: str | None = cwd or ""
    found: list[ShellRead] = []
    last: list[int] = []
    every = pieces(command)
    for piece, following in zip(every, (*every[1:], None), strict=True):
        if piece.words[:1] and piece.words[0] in CHANGES_FOLDER:
            base, last = entered(piece.words, base), []
            continue
        members = steps(piece.text)
        elsewhere = any(not name.startswith("/dev/") for name in piece.writes)
        if piece.piped and len(members) == 1:
            program = members[0].words[0].rpartition("/")[2]
            lines = _lines(members[0]) if program in _PAGERS | _WHOLE else None
            for place in last:
                one = found[place]
                found[place] = one._replace(range=one.range or lines or "", told=one.told and lines is not None and not elsewhere)
            last = last if program in _WHOLE and lines == "" else []
            continue
        last = []
        for step in () if following is not None and following.behind == "||" else members:
            for name in files_read(step) if base is not None else filter(posixpath.isabs, files_read(step)):
                last.append(len(found))
                lines = _lines(step)
                found.append(ShellRead(below(base or "", name), lines or "", lines is not None and not elsewhere))
    return tuple(found)


def _lines(step: Step) -> str | None:
    """Return the lines that a step prints of its file or input; empty where it prints all, None where it does not say which."""
    program, words = step.words[0].rpartition("/")[2], step.words[1:]
    if program == "sed":
        scripts = [script for word in words for script in re.split(r"[;\s]", word) if script]
        spans = ",".join(_span(m[1], m[2] or m[1]) for script in scripts if (m := _SED.fullmatch(script)))
        return spans or (None if any(_QUIET.fullmatch(word) for word in words) else "")
    if program in ("bat", "batcat"):
        asked = _BAT.fullmatch(_value(words, ("-r", "--line-range")))
        return _span(asked[1] or "1", asked[2] or "$") if asked and asked[0] != ":" else ""
    if program not in ("head", "tail"):
        return ""
    if any(w.startswith(("-c", "--bytes")) for w in words):
        return None
    short = next((w[1:] for w in words if re.fullmatch(r"-\d{1,9}", w)), "")
    value = short or _value(words, ("-n", "--lines")) or (str(_HEAD_LINES) if program == "head" else "")
    count = _COUNT.fullmatch(value)
    if count is None:
        return None
    if program == "head":
        return None if count[1] or not int(count[2]) else f"1-{int(count[2])}"
    return f"{max(1, int(count[2]))}-" if count[1] else None


def _span(first: str, last: str) -> str:
    return f"{int(first)}-{'' if last == '$' else int(last)}"


def _value(words: tuple[str, ...], names: tuple[str, str]) -> str:
    """Return the value of an option, written behind it or as one word with it."""
    for place, word in enumerate(words):
        if word in names:
            return words[place + 1] if place + 1 < len(words) else ""
        for name, joint in ((names[0], ""), (names[1], "=")):
            if word.startswith(name + joint) and len(word) > len(name + joint):
                return word[len(name + joint) :]
    return ""
