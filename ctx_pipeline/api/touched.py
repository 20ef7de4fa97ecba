"""Which files a tool call touched, and how: by the host's own tools, by a patch, or by the words of a shell command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.commands import command_text
from ctx_pipeline.model.shell_files import below, files_changed
from ctx_pipeline.model.shell_lines import pieces
from ctx_pipeline.model.shell_reads import reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

READ, EDIT, WRITE, SEARCH = "read", "edit", "write", "search"
CHANGES = frozenset({EDIT, WRITE})
_NO_FILE = re.compile(r"^/(?:dev|proc|sys)/|^/(?:private/)?tmp/|^/var/(?:tmp|folders)/|^(?:\.|/|~)?$")
"""Devices and scratch files."""


_FILE = re.compile(r"(?!-)(?:[\w@.+~-]{0,80}/){0,16}[\w@+-][\w@.+-]{0,100}\.[A-Za-z]\w{0,9}")
"""A word that looks like a file: it has an ending."""

_PATCH_MOVE = re.compile(r"^\*\*\* Update File: (.{1,1000})\n\*\*\* Move to: (.{1,1000})$", re.MULTILINE)


class Touched(NamedTuple):
    """One file, by one call."""

    path: str
    """below the working directory where the call names it so"""
    did: str
    """read, edit, write or search"""
    lines: str
    """``first-last``, several joined by commas; empty: all, or not told"""
    through: str
    """tool, or shell"""


def touched(call: Any, cwd: str | None) -> Iterator[Touched]:
    """Yield what a call touched; a failed one touched nothing.

    Reads ``action``, ``paths``, ``ranges``, ``argv`` and ``is_error`` of the row alone. A
    search touches the folder or file that it names, unless that is the working directory.
    """
    if call.is_error:
        return
    if call.action == "shell":
        command = command_text(call.argv) if call.argv else ""
        changed = files_changed(command, cwd) if command else ()
        for name, lines, _ in reads(command, cwd) if command else ():
            if name not in changed and _counts(name, cwd):
                yield Touched(name, READ, lines, "shell")
        for name in changed:
            if _counts(name, cwd):
                yield Touched(name, WRITE, "", "shell")
    elif call.action in (READ, EDIT, WRITE, SEARCH):
        for place, name in enumerate(call.paths):
            whole = below(cwd or "", name)
            if _counts(whole, cwd) and whole.rstrip("/") != (cwd or "").rstrip("/"):
                yield Touched(whole, call.action, call.ranges[place] if place < len(call.ranges) else "", "tool")


def moved(call: Any, cwd: str | None, text: str = "") -> Iterator[tuple[str, str]]:
    """Yield (old path, new path) of files that a call renamed: ``mv`` and ``git mv`` of one file, and patches, whose ``text`` is needed."""
    if call.is_error:
        return
    if call.action == "shell":
        command = command_text(call.argv) if call.argv else ""
        base = cwd or ""
        for piece in pieces(command) if "mv" in command else ():
            words = piece.words
            if words[:1] == ("cd",) and len(words) > 1:
                base = below(base, words[1])
            rest = words[1:] if words[:1] == ("mv",) else words[2:] if words[:2] == ("git", "mv") else ()
            plain = [w for w in rest if not w.startswith("-")]
            if len(plain) == 2 and not any(set(w) & set("*?[$") for w in plain):
                old, new = (below(base, w) for w in plain)
                yield old, f"{new}/{old.rpartition('/')[2]}" if plain[1].endswith("/") else new
    elif call.action in CHANGES:
        for found in _PATCH_MOVE.finditer(text):
            yield below(cwd or "", found[1].strip()), below(cwd or "", found[2].strip())


def mentioned(call: Any, cwd: str | None, touches: Iterable[Touched] = ()) -> Iterator[str]:
    """Yield files that a shell command names without reading or writing them: ``pytest tests/test_a.py``, ``git add a.py``.

    ``touches`` is what the call touched, where somebody has looked already.
    """
    if call.is_error and call.exit is None:
        return
    command = command_text(call.argv) if call.action == "shell" and call.argv else ""
    if not command:
        return
    known = {t.path for t in touches or touched(call._replace(is_error=False), cwd)}
    base = cwd or ""
    for piece in pieces(command):
        if piece.words[:1] == ("cd",) and len(piece.words) > 1:
            base = below(base, piece.words[1])
            continue
        for word in piece.words[1:]:
            name = word.partition("::")[0]
            if _FILE.fullmatch(name):
                path = below(base, name)
                if path not in known and _counts(path, cwd):
                    known.add(path)
                    yield path


def _counts(path: str, cwd: str | None) -> bool:
    """Tell whether a path is somebody's work: whatever lies in the working directory, and elsewhere no device and no scratch file."""
    folder = (cwd or "").rstrip("/")
    if folder and path.startswith(f"{folder}/"):
        return True
    return bool(path) and not _NO_FILE.search(path)


def last_line(lines: str) -> int:
    """Return the last line of ranges written as ``first-last``; 0 where they do not tell."""
    numbers = [int(n) for n in re.findall(r"\d{1,9}", lines)]
    return max(numbers, default=0)
