"""Files that a shell command reads or changes, as far as its words tell."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from ctx_pipeline.model.commands import Step, steps
from ctx_pipeline.model.shell_lines import pieces

READERS = frozenset({"cat", "nl", "bat", "head", "tail", "less", "more", "sed", "tac"})
_VALUED = {
    "head": ("-n", "-c", "--lines", "--bytes"),
    "tail": ("-n", "-c", "--lines", "--bytes"),
    "nl": ("-w", "-s", "-v"),
    "bat": ("-r", "--line-range", "-l"),
    "sed": ("-e", "-f"),
}
"""Options whose value is the next word."""
_NO_FILE = re.compile(r"[*?$`{}()<>|]|^[+-]?\d*$|^https?://|^-|^/dev/")
_SED_RANGE = re.compile(r"^(\d{1,9})(?:,(?:\d{1,9}|\$))?p$")


def files_read(step: Step) -> tuple[str, ...]:
    """Return the files that a step prints, as typed; none for a program that is no reader, or that changes them."""
    program = step.subject.partition(" ")[0]
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


@lru_cache(maxsize=4096)
def files_changed(command: str, cwd: str | None = None) -> tuple[str, ...]:
    """Return the files that a command line writes, moves to or deletes, below ``cwd`` or the folder it changes to.

    Redirections, ``tee``, ``sed -i``, ``cp``, ``mv``, ``install``, ``ln``, ``touch``,
    ``mkdir``, ``rm`` and ``truncate`` are known. Names with patterns and variables are
    left out; without ``cwd`` relative names stay relative.
    """
    base = cwd or ""
    found: dict[str, None] = {}
    for piece in pieces(command):
        words = piece.words
        if words[:1] == ("cd",) and len(words) > 1 and not _NO_FILE.search(words[1]):
            base = below(base, words[1])
            continue
        named = [*piece.writes, *_targets(words)]
        for name in named:
            if name and not _NO_FILE.search(name):
                found[below(base, name)] = None
    return tuple(found)


def _targets(words: tuple[str, ...]) -> tuple[str, ...]:
    step = steps(" ".join(words)) if words[:1] and words[0] in ("sudo", "env", "command", "doas") else ()
    core = step[0].words if step else words
    if not core:
        return ()
    program = core[0].rpartition("/")[2]
    plain = tuple(w for w in core[1:] if w and not w.startswith("-"))
    if program in ("tee", "touch", "mkdir", "rm", "rmdir", "truncate", "unlink"):
        return plain
    if program in ("cp", "mv", "install", "ln", "rsync"):
        return plain[-1:] if len(plain) > 1 else ()
    if program in ("sed", "perl") and any(w.startswith(("-i", "--in-place", "-pi", "-ni")) for w in core[1:]):
        return plain[1:]
    return ()


def below(base: str, name: str) -> str:
    """Return a name below a folder, without ``.`` and ``..``; ``~`` and absolute names stand for themselves."""
    if name.startswith(("/", "~")) or not base:
        return posixpath.normpath(name) if name else name
    return posixpath.normpath(posixpath.join(base, name))
