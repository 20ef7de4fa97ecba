"""Files and folders that a rule names, and whether a command line, or a tool that edits, changes one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ctx_pipeline.shell.files import ShellChange

_NAMED = lazy_pattern(r"(?<![\w/.:@-])(?!(?:e\.g|i\.e)\b)((?:[\w.-]+/)*[\w.-]*\w\.[A-Za-z]\w{0,7}|(?:[\w.-]+/)+)(?![\w/-]|\.\w)")
"""A name with an ending, or a folder with a slash behind it."""

CHANGING = frozenset({"touch", "edit", "change", "modify", "alter", "overwrite", "delete", "remove", "rename", "move", "rewrite"})
"""What a rule forbids that is done to a file."""


def files_named(text: str) -> frozenset[str]:
    """Return the files and folders that a text names."""
    return frozenset(name.removeprefix("./") for name in _NAMED.findall(text))


def without_files(text: str) -> str:
    """Return a text without the files and folders that it names."""
    return _NAMED.sub(" ", text)


_LISTED = lazy_pattern(r"[`'\"]?(?:\s*,\s*|\s*,?\s+(?P<joined>or|and|nor)\s+)(?:(?:in|from|the)\s+){0,2}[`'\"]?")
"""Between two members of a list of files."""

_ALL_BUT = lazy_pattern(r"(?i)\b(?:but|outside|other\s+than|except)\b")


def files_of_verb(text: str, begin: int) -> frozenset[str]:
    """Return the first file or folder that a text names behind a verb, and those that it lists with it: no others are meant."""
    found: list[str] = []
    end, joined = begin, False
    for match in _NAMED.finditer(text, begin):
        between = text[end : match.start()]
        listed = _LISTED.fullmatch(between)
        if (found and listed is None) or (not found and _ALL_BUT.search(between)):
            break
        joined = joined or bool(found and listed and listed["joined"])
        found.append(match[1].removeprefix("./"))
        end = match.end()
    return frozenset(found if joined else found[:1])


def changed_by(command: str, names: Collection[str], cwd: str | None, verb: str = "change", roots: Sequence[str] = ()) -> Iterator[str]:
    """Yield each path with which a command line does to one of these files, or in one of these folders, what a verb says.

    Paths are yielded as rules name them, from the root that holds them. Where roots are
    known, a path outside of all of them is none of these files.
    """
    from ctx_pipeline.shell.files import shell_changes

    for change in shell_changes(command, cwd):
        based = [(path, base_of(path, roots, cwd)) for path in _paths(change, verb)]
        paths = (from_base(path, base) for path, base in based if base or not (roots and path.startswith("/")))
        yield from (path for path in paths if is_one_of(path, names))


def is_one_of(path: str, names: Collection[str]) -> bool:
    """Tell whether a path is one of these files or lies in one of these folders."""
    return any(_is(path, name) for name in names)


def base_of(path: str, roots: Sequence[str], cwd: str | None) -> str:
    """Return the folder from which a rule names a path: the innermost root that holds it, else ``cwd``; empty where neither does."""
    holding = [root for root in roots if _holds(root, path)]
    return max(holding, key=len) if holding else cwd if cwd and _holds(cwd, path) else ""


def from_base(path: str, base: str) -> str:
    """Return a path as it stands below a folder: what that folder itself lies in is no part of it."""
    return path.removeprefix(f"{base.rstrip('/')}/") if base else path


def _holds(folder: str, path: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _paths(change: ShellChange, verb: str) -> tuple[str, ...]:
    """Return the paths of a change to which a verb applies: what is only moved is not deleted."""
    if verb in ("delete", "remove"):
        return (change.path,) if change.did == "delete" else ()
    old = (change.old,) if change.old else ()
    return old if verb in ("rename", "move") else (change.path, *old)


def spoken_of(command: str, names: Collection[str]) -> bool:
    """Tell whether a command line has one of these names as a word, or at the end of a path."""
    words = [word.strip("'\"`") for word in command.split()]
    return any(_is(word, name) for word in words for name in names)


def _is(path: str, name: str) -> bool:
    return f"/{path.rstrip('/')}/".find(f"/{name.rstrip('/')}/") >= 0 if name.endswith("/") else f"/{path}".endswith(f"/{name}")
