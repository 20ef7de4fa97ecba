"""Programs that every system has, each in one of several makes with other options."""

from __future__ import annotations

import sys

OF_SYSTEM = frozenset(
    {"awk", "base64", "cat", "column", "comm", "cp", "cut", "date", "dd", "df", "du", "egrep", "expr", "find", "grep", "head", "install"}
    | {"join", "ln", "ls", "md5", "mkdir", "mktemp", "mv", "netstat", "nl", "od", "paste", "ping", "ps", "readlink", "realpath", "rm"}
    | {"script", "sed", "seq", "sort", "split", "stat", "tac", "tail", "tar", "tee", "top", "touch", "tr", "uniq", "wc", "which", "xargs"}
)
BSD, GNU = "macOS and BSD", "GNU"

_FOLDERS = frozenset({"/bin", "/usr/bin", "/sbin", "/usr/sbin"})


def has_make(program: str, make: str) -> bool:
    """Tell whether a program is of a make here: the one that this system came with, under its own name."""
    from os.path import realpath, split
    from shutil import which

    folder, name = split(realpath(which(program) or ""))
    return folder in _FOLDERS and name == program and make == _make_of(sys.platform)


def _make_of(platform: str) -> str:
    if platform == "darwin" or "bsd" in platform:
        return BSD
    return GNU if platform == "linux" else ""
