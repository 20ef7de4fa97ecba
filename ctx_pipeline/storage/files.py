"""All file access of the store: written whole or not at all, private, and never outside its folder."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreError, StoreFull, scarce
from ctx_pipeline.storage import blocked, temporary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_MOST_WAITING = 64
"""Written objects that wait for their fsync at a time: each holds a file handle."""

_FEW = 4
"""Objects that are not worth a thread."""


class _Waiting(NamedTuple):
    handle: int
    temporary: str
    path: str


class Files:
    """Objects below one root by relative name (``a/b/c``); files are 0600, folders 0700."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).absolute()
        self._root = str(self.root)
        self._mine = threading.local()
        self._folders: dict[str, str] = {}
        """first folder of a name -> where its files are written before they are renamed"""

    def __reduce__(self) -> tuple[type[Files], tuple[Path]]:
        return Files, (self.root,)

    def local(self, rel: str) -> Path:
        """Return the path of an object; raises StoreError for a name that leaves the root."""
        return Path(self.place(rel))

    def place(self, rel: str) -> str:
        """Return the path of an object as text, which takes a tenth of the time: a look at all parts asks thousands of times."""
        around = f"/{rel}/"
        if not rel or "\0" in rel or "\\" in rel or "//" in around or "/./" in around or "/../" in around:
            raise StoreError(f"{rel!r} is not a name inside the store", hint="this is a defect of ctx_pipeline: please report it", rel=rel)
        return f"{self._root}/{rel}"

    def write(self, rel: str, *pieces: bytes | memoryview) -> None:
        """Write an object, one piece after the other, through a temporary name, fsync and rename; raises StoreFull."""
        waiting = self._waiting
        path = self.local(rel)
        self.folder(path.parent)
        written = self._written(path, self._beside(rel.partition("/")[0]), pieces)
        if waiting is None:
            _commit([written], {})
        else:
            waiting.add(written)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let what this thread writes in the block wait for its fsync until many wait or the block ends.

        Where they are more than a few, another thread syncs them meanwhile. An object has
        its name only after its fsync; when the block raises, those that wait are dropped.
        """
        if self._waiting is not None:
            yield
            return
        waiting = self._mine.waiting = _Batch()
        try:
            yield
            waiting.commit()
        finally:
            self._mine.waiting = None
            waiting.drop()

    @property
    def _waiting(self) -> _Batch | None:
        found: _Batch | None = getattr(self._mine, "waiting", None)
        return found

    def _beside(self, first: str) -> str:
        """Return the folder for temporary files of what lies below a first folder: the root, unless that is another file system."""
        found = self._folders.get(first)
        if found is None:
            folder = self.root / first
            apart = folder.is_dir() and folder.stat().st_dev != self.root.stat().st_dev
            found = self._folders[first] = str(folder if apart else self.root)
        return found

    def _written(self, path: Path, beside: str, pieces: Iterable[bytes | memoryview]) -> _Waiting:
        fresh = f"{beside}/{temporary.name()}"
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise translated(error, path) from error
        written = _Waiting(handle, fresh, str(path))
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[os.write(handle, view) :]
        except OSError as error:
            _drop([written])
            raise translated(error, path) from error
        return written

    def read(self, rel: str) -> bytes:
        """Return the bytes of an object; raises StoreError when it is missing or unreadable."""
        path = self.local(rel)
        try:
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}", hint="ctx doctor", path=str(path)) from error

    def head(self, rel: str, size: int) -> bytes:
        """Return the first bytes of an object."""
        path = self.local(rel)
        try:
            with path.open("rb") as file:
                return file.read(size)
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}", hint="ctx doctor", path=str(path)) from error

    def exists(self, rel: str) -> bool:
        """Tell whether the object is there."""
        return self.local(rel).is_file()

    def size(self, rel: str) -> int:
        """Return the bytes on disk; 0 when it is missing."""
        try:
            status = self.local(rel).stat()
        except FileNotFoundError:
            return 0
        return 0 if stat.S_ISDIR(status.st_mode) else status.st_size

    def modified(self, rel: str) -> int:
        """Return when an object was written (nanoseconds since 1970), one that waits for its fsync too; 0 when it is missing."""
        path = self.place(rel)
        waiting = self._waiting
        handle = waiting.handle_of(path) if waiting is not None else None
        try:
            status = os.fstat(handle) if handle is not None else os.stat(path)  # noqa: PTH116 - one of thousands
        except FileNotFoundError:
            return 0
        return 0 if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns

    def remove(self, rel: str) -> None:
        """Remove an object and the folders that it leaves empty; a missing one is fine."""
        path = self.local(rel)
        if not blocked.make_way(path):
            path.unlink(missing_ok=True)
        folder = path.parent
        while folder != self.root:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    def walk(self, prefix: str = "") -> Iterator[str]:
        """Yield the names below a folder in order; half-written objects are left out."""
        for folder, folders, names in os.walk(self.place(prefix) if prefix else self._root):
            folders[:] = sorted(f for f in folders if not f.startswith(temporary.PREFIX))
            inside = folder[len(self._root) + 1 :]
            for name in sorted(names):
                if not name.startswith(temporary.PREFIX):
                    yield f"{inside}/{name}" if inside else name

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk of every object by its name; half-written objects, and what lies behind a link, are left out."""
        found: dict[str, int] = {}
        folders = [""]
        while folders:
            inside = folders.pop()
            with suppress(OSError), os.scandir(f"{self._root}/{inside}") as entries:
                for entry in entries:
                    if entry.name.startswith(temporary.PREFIX):
                        continue
                    with suppress(OSError):  # of one entry: the others are there
                        if not entry.is_dir():
                            found[f"{inside}{entry.name}"] = entry.stat().st_size
                        elif not entry.is_symlink():
                            folders.append(f"{inside}{entry.name}/")
        return found

    def folder(self, path: Path) -> None:
        """Make a folder of the store and its parents, 0700 each."""
        if path.is_dir():
            return
        missing = [path]
        while not missing[-1].parent.exists():
            missing.append(missing[-1].parent)
        for each in reversed(missing):
            try:
                each.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise translated(error, each) from error


class _Batch:
    """Objects without their names, which a thread makes durable while more are written."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._synced: dict[_Waiting, OSError | None] = {}

    def add(self, written: _Waiting) -> None:
        """Take one more; when many wait they get their names."""
        self._waiting.append(written)
        self._queue.put(written)
        if self._thread is None and len(self._waiting) > _FEW:
            self._thread = threading.Thread(target=self._sync, name="ctx-fsync", daemon=True)
            self._thread.start()
        if len(self._waiting) >= _MOST_WAITING:
            self.commit()

    def handle_of(self, path: str) -> int | None:
        """Return the handle of an object that has no name yet, the last one of this path."""
        return next((written.handle for written in reversed(self._waiting) if written.path == path), None)

    def commit(self) -> None:
        """Make all durable and give them their names."""
        self._join()
        _commit(self._waiting, self._synced)

    def drop(self) -> None:
        """Remove those that have no name yet."""
        self._join()
        _drop(self._waiting)

    def _join(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self._queue = SimpleQueue()

    def _sync(self) -> None:
        while (written := self._queue.get()) is not None:
            # kept, since the system tells an error of a file once
            try:
                os.fsync(written.handle)
            except OSError as error:
                self._synced[written] = error
            else:
                self._synced[written] = None


def _commit(waiting: list[_Waiting], synced: dict[_Waiting, OSError | None]) -> None:
    """Make objects durable and give them their names; both are empty afterwards. What fails is dropped with those after it.

    ``synced`` are those that are durable already, or cannot be.
    """
    for written in waiting:
        try:
            if written not in synced:
                os.fsync(written.handle)
            elif error := synced[written]:
                raise error
        except OSError as error:
            _drop(waiting)
            raise translated(error, Path(written.path)) from error
    synced.clear()
    while waiting:
        written = waiting[0]
        try:
            _replace(written.temporary, written.path)
        except OSError as error:
            _drop(waiting)
            raise translated(error, Path(written.path)) from error
        os.close(waiting.pop(0).handle)


def _replace(fresh: str, path: str) -> None:
    """Give a file its name, also where a folder has it."""
    try:
        os.replace(fresh, path)  # noqa: PTH105 - one of thousands
    except IsADirectoryError:
        blocked.make_way(Path(path))
        os.replace(fresh, path)  # noqa: PTH105


def _drop(waiting: list[_Waiting]) -> None:
    """Remove objects that have no name yet."""
    while waiting:
        written = waiting.pop()
        os.close(written.handle)
        with suppress(OSError):
            os.unlink(written.temporary)  # noqa: PTH108 - as above


def translated(error: OSError, path: Path) -> StoreError:
    """Return the error that says what cannot be written, and why."""
    if error.errno == errno.EFBIG and (refused := scarce(error)) is not None:
        return StoreFull(refused.message, hint=refused.hint, path=str(path))
    if error.errno in _FULL:
        return StoreFull(f"no room left for {path}", hint="free some disk space and run again", path=str(path))
    return StoreError(f"{path} cannot be written: {error.strerror}", hint="check CTX_HOME and its permissions", path=str(path))


# What a made file is: of which input, by which code, with which content. The file carries it, and the ledger's record
# follows the file.


class Made(NamedTuple):
    """The identity of one made file."""

    input_fp: str
    code_version: str
    content_hash: str
    rows: int


# Files outside the store that hold what sessions said: written whole, readable by their owner alone.


class PrivateFolder:
    """Writes files below one folder, each whole and for the owner alone (0600, folders 0700).

    A link is replaced, and what it leads to stays. Into a pipe or a terminal, and what ``/dev/stdout``
    leads to, the content is written; nothing takes their place.
    Raises StoreError for a file that cannot be written; nothing of it is left then.
    """

    def __init__(self, target: Path) -> None:
        self._target = target

    def folder(self, path: Path) -> None:
        """Make a folder where there is none."""
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def bytes(self, rel: str, data: bytes) -> None:
        """Write a file; ``rel`` uses slashes."""
        path = self._target.joinpath(*rel.split("/"))
        if is_stream(path):
            try:
                with path.open("ab") as stream:
                    stream.write(data)
            except OSError as error:
                raise unwritable(path, error) from error
            return
        partial = path.with_name(f".{path.name[:50]}.{os.getpid()}")
        try:
            self.folder(path.parent)
            try:
                with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
                    file.write(data)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(path, error) from error

    def text(self, rel: str, text: str) -> None:
        """Write a text as UTF-8; what cannot be encoded becomes a question mark."""
        self.bytes(rel, text.encode("utf-8", "replace"))

    def json(self, rel: str, value: Any) -> None:
        """Write a value as JSON for people."""
        self.text(rel, json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")

    def lines(self, rel: str, rows: Iterable[Any]) -> None:
        """Write one JSON value a line."""
        self.text(rel, "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows))


def is_stream(path: Path) -> bool:
    """Tell whether a path is, or leads to, what cannot be replaced by a file; raises StoreError for a disk and the like."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or path.parts[1:2] in {("dev",), ("proc",)}:
        return True
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise StoreError(f"{path} is no file", hint="name another file", path=str(path))
    return False


def unwritable(target: Path, error: OSError) -> StoreError:
    """Return the error that names what cannot be written, and why."""
    return StoreError(f"{target} cannot be written: {error.strerror or error}", hint="name another folder", path=str(target))
