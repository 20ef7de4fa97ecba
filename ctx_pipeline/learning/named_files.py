"""Files and folders that a rule names, and whether a command line changes one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Collection

_NAMED = lazy_pattern(r"(?<![\w/.:@-])(?!(?:e\.g|i\.e)\b)((?:[\w.-]+/)*[\w.-]*\w\.[A-Za-z]\w{0,7}|(?:[\w.-]+/)+)(?![\w/-]|\.\w)")
"""A name with an ending, or a folder with a slash behind it."""

CHANGING = frozenset({"touch", "edit", "change", "modify", "alter", "overwrite", "delete", "remove", "rename", "move", "rewrite"})
"""What a rule forbids that is done to a file."""


def files_named(text: str) -> frozenset[str]:
    """Return the files and folders that a text names."""
    return frozenset(name.removeprefix("./") for name in _NAMED.findall(text))


def changed_by(command: str, names: Collection[str], cwd: str | None) -> bool:
    """Tell whether a command line writes, moves or deletes one of these files, or something in one of these folders."""
    from ctx_pipeline.shell.files import shell_changes

    return any(_is(path, name) for change in shell_changes(command, cwd) for path in (change.path, change.old or "") for name in names)


def spoken_of(command: str, names: Collection[str]) -> bool:
    """Tell whether a command line has one of these names as a word, or at the end of a path."""
    words = [word.strip("'\"`") for word in command.split()]
    return any(_is(word, name) for word in words for name in names)


def _is(path: str, name: str) -> bool:
    return f"/{path.rstrip('/')}/".find(f"/{name.rstrip('/')}/") >= 0 if name.endswith("/") else f"/{path}".endswith(f"/{name}")
