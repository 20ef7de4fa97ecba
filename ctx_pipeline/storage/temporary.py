"""Temporary files of the store: one spelling of their names, which says whose they are, and the sweep of those whose owner is gone."""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = ".tmp-"
"""Every name of a file or folder that was being written begins so."""

FOREIGN_SECONDS = 86_400.0
"""Age from which on the file of another machine or container is taken for left behind."""

_OLD_SECONDS = 3_600.0
"""The same for a file that an earlier version named, without its owner."""

_MARK = "swept.txt"
"""Lies in a store that was walked once for what earlier versions left anywhere in it."""

_WALKED = 1
_NAME = lazy_pattern(r"\.tmp-([0-9a-f]{8}\.[0-9a-f]{8}\.[0-9]{1,10}\.[0-9a-f]{8})-[0-9a-f]{8}(?:-(site))?(?:[.-].*)?", re.DOTALL)
_OLD_SITE = lazy_pattern(r"\.site\.[0-9]+\.old")
_ANYWHERE = lazy_pattern(r"\.tmp-.+", re.DOTALL)
_OLD = {
    "": lazy_pattern(
        r"\.(?:memory|cases)\.db\.[0-9]+|search\.db\.building-[0-9]+(?:-wal|-shm|-journal)?|ledger\.new\.db(?:-wal|-shm)?"
        r"|\.site\.[0-9]+\.(?:new|old)"
    ),
    "serving": lazy_pattern(r"\.ctx\.duckdb\.[0-9]+\.tmp(?:\.wal|\.tmp)?|ctx\.duckdb\.tmp"),
    "tmp": lazy_pattern(r"duckdb"),
    "dagster": lazy_pattern(r"\.dagster\.yaml\.[0-9]+"),
}
"""folder -> how earlier versions named what they were writing there"""


class Temporary(NamedTuple):
    """A file or folder that was being written when it was found."""

    rel: str
    bytes: int
    age: float
    """seconds since it last changed"""
    ended: bool | None
    """whether its process has ended; None where that cannot be known: of another machine, or named by an earlier version"""
    named: bool
    """whether its name says whose it is"""

    @property
    def left(self) -> bool:
        """Whether nobody is writing it any more."""
        return self.ended is True or (self.ended is None and self.age > (FOREIGN_SECONDS if self.named else _OLD_SECONDS))


def name(*, former: str = "") -> str:
    """Return a new name for a file or folder that its process renames or removes; it says which process that is.

    ``former`` is the name that it had: a sweep gives it back where nothing has that name.
    """
    from ctx_pipeline.model.process.process_identity import label

    return f"{PREFIX}{label(os.getpid())}-{os.urandom(4).hex()}{f'-{former}' if former else ''}"


def shared_name() -> str:
    """Return the name of a folder that all of this process uses; it is another one in a child."""
    from ctx_pipeline.model.process.process_identity import label

    return f"{PREFIX}{label(os.getpid())}-{0:08x}"


def remove_orphans(home: Path) -> int:
    """Remove what processes left that were writing into a store and have ended; return how many files and folders that was.

    Looks into few folders, where all names of this version are, and once through the whole
    store for those of earlier versions. What a living process writes stays; so does that
    of another machine or container for a day.
    """
    whole = not _walked(home)
    removed = 0
    young = False
    for found in everywhere(home) if whole else _here(home):
        if _given_back(home, found):
            continue
        if found.left:
            removed += remove(home, found)
        elif not found.named:
            young = True
    if whole and not young and (home / "ledger.db").exists():
        _note(home)
    return removed


def check_at_next_collection(home: Path) -> None:
    """Let the next sweep walk the whole store."""
    with suppress(OSError):
        (home / _MARK).unlink(missing_ok=True)


def remove(home: Path, found: Temporary) -> bool:
    """Remove a temporary file, or folder with all that is in it, and the folders that this leaves empty; tell whether it is gone."""
    path = home / found.rel
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            import shutil  # few commands meet a folder

            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        return False
    except OSError:
        return False
    for folder in path.parents:
        if folder in {home, home.parent}:
            break
        try:
            folder.rmdir()
        except OSError:
            break
    return True


def everywhere(home: Path) -> Iterator[Temporary]:
    """Yield every temporary file and folder of a store, wherever it is, whoever writes it."""
    for top, folders, names in os.walk(home):
        inside = top[len(str(home)) + 1 :]
        for each in sorted((*folders, *names)):
            found = _temporary(home, inside, each)
            if found is not None:
                yield found
        folders[:] = sorted(f for f in folders if not f.startswith(PREFIX))


def _given_back(home: Path, found: Temporary) -> bool:
    """Give a folder that was about to be replaced its name again; tell whether that was needed."""
    mine = _NAME.fullmatch(found.rel)
    former = mine[2] if mine else "site" if _OLD_SITE.fullmatch(found.rel) else None
    if not former or found.ended is False or (home / former).exists():
        return False
    with suppress(OSError):
        (home / found.rel).rename(home / former)
        return True
    return False


def _here(home: Path) -> Iterator[Temporary]:
    """Yield the temporary files that lie where this version puts them."""
    device = home.stat().st_dev
    folders = [("", home)]
    with os.scandir(home) as entries:
        for entry in entries:
            # raw, for one, may be a link to another disk: nothing can be renamed from one to the other
            with suppress(OSError):
                if entry.name == "serving" or (entry.is_dir() and entry.stat().st_dev != device):
                    folders.append((entry.name, Path(entry.path)))
    for inside, folder in folders:
        with suppress(OSError):
            for each in os.listdir(folder):  # noqa: PTH208 - names are enough
                if each.startswith(PREFIX) and (found := _temporary(home, inside, each)) is not None:
                    yield found


def _temporary(home: Path, inside: str, each: str) -> Temporary | None:
    mine = _NAME.fullmatch(each)
    if mine is None and not _ANYWHERE.fullmatch(each) and not (inside in _OLD and _OLD[inside].fullmatch(each)):
        return None
    path = home / inside / each
    try:
        status = path.lstat()
    except OSError:
        return None
    size, changed = status.st_size, status.st_mtime
    if stat.S_ISDIR(status.st_mode):
        for below in path.rglob("*"):
            with suppress(OSError):
                held = below.lstat()
                size, changed = size + held.st_size, max(changed, held.st_mtime)
    gone = None
    if mine:
        # few commands meet one
        from ctx_pipeline.model.process.process_identity import ended

        gone = ended(mine[1])
    return Temporary(f"{inside}/{each}" if inside else each, size, time.time() - changed, gone, mine is not None)


def _walked(home: Path) -> bool:
    try:
        return int((home / _MARK).read_bytes()) >= _WALKED
    except (OSError, ValueError):
        return False


def _note(home: Path) -> None:
    fresh = home / name()
    try:
        fresh.write_text(f"{_WALKED}\n", "ascii")
        fresh.chmod(0o600)
        fresh.replace(home / _MARK)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
