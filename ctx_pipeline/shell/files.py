"""Files that a shell command reads or changes, as far as its words tell."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.shell.commands import Step, steps
from ctx_pipeline.shell.parsing import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator


READERS = frozenset({"cat", "nl", "bat", "head", "tail", "less", "more", "sed", "tac"})
CHANGES_FOLDER = frozenset({"cd", "pushd"})
_VALUED = {
    "head": ("-n", "-c", "--lines", "--bytes"),
    "tail": ("-n", "-c", "--lines", "--bytes"),
    "nl": ("-w", "-s", "-v"),
    "bat": ("-r", "--line-range", "-l"),
    "sed": ("-e", "-f"),
}
"""Options whose value is the next word."""
_NO_FILE = lazy_pattern(r"[*?$`{}()<>|]|^[+-]?\d*$|^https?://|^-|^/dev/")
_WINDOWS = lazy_pattern(r"[A-Za-z]:[/\\]|\\\\\w")
_ABSOLUTE = lazy_pattern(r"[/~]|[A-Za-z]:[/\\]|\\\\\w")
_AT_REVISION = lazy_pattern(r"^(?!-)[^:\s]{1,200}:(?=[^:/])")
_SED_RANGE = lazy_pattern(r"^(\d{1,9})(?:,(?:\d{1,9}|\$))?p$")


def files_read(step: Step) -> tuple[str, ...]:
    """Return the files that a step prints, as typed; none for a program that is no reader, or that changes them.

    ``git show main:src/a.py`` prints a file as it was: a name from the root of the repository, taken as one of the folder.
    """
    program = step.subject.partition(" ")[0]
    if step.subject == "git show":
        return tuple(
            name for w in step.words[1:] if (name := _AT_REVISION.sub("", w)) != w and not _NO_FILE.search(name) and name[-1] != "/"
        )
    if program not in READERS:
        return ()
    words = step.words[1:]
    if program == "sed":
        if any(w.startswith(("-i", "--in-place")) for w in words):
            return ()
        named = _plain(program, words)[0 if "-e" in words or "-f" in words else 1 :]
    else:
        named = _plain(program, words)
    return tuple(w for w in named if not _NO_FILE.search(w))


def first_line(step: Step) -> int | None:
    """Return the first line that ``sed -n 'a,bp'`` prints, None for everything else."""
    if step.subject != "sed":
        return None
    found = [match for w in step.words[1:] if (match := _SED_RANGE.match(w))]
    return int(found[0][1]) if found else None


def _plain(program: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments that are no options and no values of options."""
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            skip = word in _VALUED.get(program, ())
        else:
            found.append(word)
    return tuple(found)


class ShellChange(NamedTuple):
    """What a command line does to one file."""

    path: str
    did: str
    """write (made or replaced), edit, delete, move or folder (made, removed or filled)"""
    old: str | None = None
    """name before a move"""


@lru_cache(maxsize=4096)
def shell_changes(command: str, cwd: str | None = None) -> tuple[ShellChange, ...]:
    """Return what a command line writes, moves or deletes, below ``cwd`` or the folder it changes to; of each path the last.

    Redirections, ``tee``, ``sed -i``, ``perl -i``, ``cp``, ``mv``, ``install``, ``ln``,
    ``rsync``, ``touch``, ``truncate``, ``mkdir``, ``rm``, ``git mv`` and ``git rm`` are
    known. Names with patterns and variables are left out; without ``cwd`` relative names
    stay relative.
    """
    base: str | None = cwd or ""
    found: dict[str, ShellChange] = {}
    for piece in pieces(command):
        words = piece.words
        if words[:1] and words[0] in CHANGES_FOLDER:
            base = entered(words, base)
            continue
        for name, what, old in (*((name, "write", None) for name in piece.writes), *_changes(words)):
            did = what
            if name and not _NO_FILE.search(name) and is_known(name, base):
                path = below(base or "", name)
                source = below(base or "", old) if old and not _NO_FILE.search(old) and is_known(old, base) else None
                if name.endswith("/") and did in ("write", "move"):
                    path, did = (f"{path}/{source.rpartition('/')[2]}", did) if source else (path, "folder")
                found[path] = ShellChange(path, did, source if did == "move" else None)
    return tuple(found.values())


def entered(words: tuple[str, ...], folder: str | None) -> str | None:
    """Return the folder that ``cd`` or ``pushd`` leads to from another; None where the words do not tell."""
    to = next((word for word in words[1:] if word not in ("-L", "-P", "-e", "--")), "-")
    if to == "-" or "$" in to or "`" in to:
        return None
    return below(folder or "", to) if is_known(to, folder) else None


def works_in(words: tuple[str, ...], folder: str | None) -> str | None:
    """Return the folder in which a program of a folder works: another one for ``git -C``; None where the words do not tell."""
    return entered(words[1:], folder) if words[:2] == ("git", "-C") else folder


def is_known(name: str, folder: str | None) -> bool:
    """Tell whether a name stands for one file: absolute, or below a folder that is known."""
    return folder is not None or _ABSOLUTE.match(name) is not None


def files_changed(command: str, cwd: str | None = None) -> tuple[str, ...]:
    """Return the files and folders that a command line writes, moves to or deletes; see :func:`shell_changes`."""
    return tuple(change.path for change in shell_changes(command, cwd))


_DELETES = frozenset({"rm", "unlink"})
_COPIES = frozenset({"cp", "mv", "install", "ln", "rsync"})
_IN_PLACE = ("-i", "--in-place", "-pi", "-ni")


def _changes(words: tuple[str, ...]) -> Iterator[tuple[str, str, str | None]]:
    """Yield (name, what is done to it, the one file that it is made of) of one program's words."""
    step = steps(" ".join(words)) if words[:1] and words[0] in ("sudo", "env", "command", "doas") else ()
    core = step[0].words if step else words
    if core[:1] == ("git",) and core[1:2] in (("mv",), ("rm",)):
        core = core[1:]
    if not core:
        return
    program = core[0].rpartition("/")[2]
    plain = tuple(w for w in core[1:] if w and not w.startswith("-"))
    if program in _DELETES:
        yield from ((name, "delete", None) for name in plain)
    elif program in ("mkdir", "rmdir"):
        yield from ((name, "folder", None) for name in plain)
    elif program in ("tee", "touch", "truncate"):
        yield from ((name, "write", None) for name in plain)
    elif program in _COPIES and len(plain) > 1:
        yield plain[-1], "move" if program == "mv" else "write", plain[0] if len(plain) == 2 else None
    elif program in ("sed", "perl") and any(w.startswith(_IN_PLACE) for w in core[1:]):
        yield from ((name, "edit", None) for name in plain[1:])


def below(base: str, name: str) -> str:
    """Return a name below a folder, without ``.`` and ``..``; ``~`` and absolute names, those of Windows too, stand for themselves."""
    if _WINDOWS.match(name):
        return name
    if name.startswith(("/", "~", f"{base.rstrip('/')}/")) or not base:  # a base that is not absolute may stand in the name already
        return posixpath.normpath(name) if name else name
    return posixpath.normpath(posixpath.join(base, name))


# Which lines of which files a shell command prints, as far as its words tell.


_SED = lazy_pattern(r"(\d{1,9})(?:,(\d{1,9}|\$))?p")
_QUIET = lazy_pattern(r"-[A-Za-z]*n[A-Za-z]*|--quiet|--silent")
_COUNT = lazy_pattern(r"(\+?)(\d{1,9})")
_BAT = lazy_pattern(r"(\d{0,9}):(\d{0,9})")
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
    for piece, following in zip_longest(every, every[1:]):
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
        at = works_in(piece.words, base)
        for step in () if following is not None and following.behind == "||" else members:
            for name in files_read(step) if at is not None else filter(posixpath.isabs, files_read(step)):
                last.append(len(found))
                lines = _lines(step)
                found.append(ShellRead(below(at or "", name), lines or "", lines is not None and not elsewhere))
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
        return None if program == "git" else ""
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
