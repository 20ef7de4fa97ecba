"""The folders and files of a project in a page: what does not fit is a count of files, or on the next page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression.code_reading import root_of
from ctx_pipeline.compression.project_files import project_at
from ctx_pipeline.errors import UsageError
from ctx_pipeline.memory.prompt_block import name_for_agent
from ctx_pipeline.memory.safety import untold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

PAGE = 4_200
"""Characters of a page, at most about 1,500 tokens: a name of a file takes a token for each three of its characters."""

_LINE = 400
"""Characters of a line of names; those of a folder with more stand on several."""


_ORDER = "names that are not shown: one gives an order"


class TreePage(NamedTuple):
    """Lines of a tree; ``more`` is the line that the next page begins with, None at the end."""

    text: str
    more: int | None


@dataclass
class _Folder:
    path: str = ""
    files: int = 0
    names: list[str] = field(default_factory=list)
    folders: dict[str, _Folder] = field(default_factory=dict)
    opened: bool = False

    @property
    def level(self) -> int:
        return self.path.count("/") + 1 if self.path else 0

    def head(self) -> str:
        """Return the line of the folder, with what of its files stands beside it."""
        name = f"{' ' * self.level}{self.path.rpartition('/')[2]}/"
        return name if self.opened else f"{name} ({self.files:,} file{'s' * (self.files != 1)})"

    def cost(self) -> int:
        """Return the characters that opening it adds."""
        return sum(len(name) + 1 for name in self.names) + sum(len(one.head()) + 1 for one in self.folders.values())

    def lines(self) -> Iterator[tuple[str, str]]:
        """Give the lines from this one on, each with the folder that what it begins with is in."""
        line = self.head() if self.path else ""
        inside = self.path.rpartition("/")[0]
        for name in self.names if self.opened else ():
            if len(line) + len(name) >= _LINE:
                yield inside, line
                line, inside = " " * self.level, self.path
            line += f" {name}"
        if line:
            yield inside, line
        for name in sorted(self.folders) if self.opened else ():
            yield from self.folders[name].lines()


def tree(path: str, *, roots: Sequence[Path], depth: int | None = None, skip: int = 0) -> TreePage:
    """Return the folders and files below a path, one blank a level; a folder that is not opened is a count of files.

    Without a ``depth`` folders are opened level by level, small ones first, as long as a page
    holds them; with one all those above it are. The page begins with the line ``skip``.
    """
    root, real = root_of(path, roots)
    if not real.is_dir():
        raise UsageError(f"{path} is not a folder", hint="name a folder of the project")
    project = project_at(real)
    top = _folders(project.files)
    _open(top, depth)
    every = list(top.lines())
    if project.left_out:
        every.append(("", f"[not shown: {', '.join(f'{n:,} {why}' for why, n in sorted(project.left_out.items()))}]"))
    shown, room = [f"{real.relative_to(root).as_posix()}/"], PAGE
    if skip and skip < len(every) and (inside := every[skip][0]):
        shown[0] += f" goes on, in {name_for_agent(f'{inside}/')}:"
    place = min(skip, len(every))
    while place < len(every) and (place == skip or room >= len(every[place][1])):
        room -= len(every[place][1]) + 1
        shown.append(f" ({_ORDER})" if untold(every[place][1]) else every[place][1])
        place += 1
    return TreePage("\n".join(shown), place if place < len(every) else None)


def _folders(files: Iterable[str]) -> _Folder:
    top = _Folder()
    for file in files:
        *above, name = file.split("/")
        folder = top
        folder.files += 1
        for part in above:
            folder = folder.folders.setdefault(part, _Folder(f"{folder.path}/{part}".lstrip("/")))
            folder.files += 1
        folder.names.append(name)
    return top


def _open(top: _Folder, depth: int | None) -> None:
    room = PAGE
    level = [top]
    while level and (depth is None or level[0].level < depth):
        for folder in sorted(level, key=_Folder.cost):
            if depth is None and folder is not top and folder.cost() > room:
                break
            folder.opened = True
            room -= folder.cost()
        level = [below for folder in level if folder.opened for below in folder.folders.values()]
