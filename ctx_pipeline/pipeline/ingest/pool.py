"""Who does the tasks: this process alone, or with others that hand back small results and documents."""

from __future__ import annotations

import contextlib
import errno
import gc
import marshal
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any, Protocol

from ctx_pipeline.errors import ContractError, CtxError, StoreError, StoreFull
from ctx_pipeline.pipeline.ingest.worker import TaskDone, Tools, work
from ctx_pipeline.pipeline.reports import reason
from ctx_pipeline.storage import temporary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline.ingest.tasks import Task
    from ctx_pipeline.storage.lake import Part


# A file without a name through which one process hands megabytes to another, which reads when it has time.


def open_spool(folder: Path) -> int:
    """Return the handle of a new file that ends with the last process that holds it."""
    with tempfile.TemporaryFile(dir=folder, prefix=f"{temporary.name()}-", buffering=0) as file:
        return os.dup(file.fileno())


def write_spool(handle: int, at: int, pieces: Iterable[bytes]) -> None:
    """Write pieces one after the other from an offset on; raises StoreFull."""
    for piece in pieces:
        view = memoryview(piece)
        while view:
            try:
                count = os.pwrite(handle, view, at)
            except OSError as error:
                if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                    raise
                raise StoreFull("no room left for what a process hands over", hint="free some disk space and run again") from error
            view, at = view[count:], at + count


def read_spool(handle: int, at: int, size: int) -> bytes:
    """Return exactly so many bytes; raises EOFError when there are fewer."""
    parts = []
    while size:
        part = os.pread(handle, size, at)
        if not part:
            raise EOFError
        parts.append(part)
        at, size = at + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_NEVER = 1 << 30


def tune_malloc() -> None:
    """Let the C library keep what is freed for the next block, where it can be told so (glibc), and Arrow ask it for its own blocks."""
    import ctypes

    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _NEVER)
        mallopt(_MMAP_THRESHOLD, _NEVER)


def give_back() -> None:
    """Give the system back what the C library keeps for the next block, where it can be told so (glibc)."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


POOL_ABOVE = 30 * 1024 * 1024
"""Bytes to decode above which workers are started: below, their start costs more than they give."""

_HEAVY = ("pyarrow", "numpy", "duckdb", "dagster")
_NUMBER = 4
_READ = b"read"
"""Says that this process has read a result: when it has read all, its writer begins its spool anew."""

_MARSHAL = 2
"""Version without references: no text is sent twice, and looking for one costs more than all the rest."""

_SENDING = 4 / 3
"""Rows that this process writes while another one receives and writes one."""

_MOST_TASKS = 12_000
"""As many numbers as surely fit into a pipe that nobody reads yet (64 kB on Linux, 16 kB on some systems in parts)."""

Rows = tuple["Cell", str, list[tuple]]
"""Rows to write: cell, table, tuples."""


class Pool(Protocol):
    """Does tasks and writes the small tables."""

    def run(self) -> Iterator[TaskDone]:
        """Yield the finished tasks, in any order."""

    def write(self, batch: Sequence[Rows]) -> list[Part | ContractError]:
        """Return a part, or why there is none, for each."""

    def close(self) -> None:
        """End the workers."""


def start(tools: Tools, tasks: Sequence[Task]) -> Pool:
    """Return workers for much input, this process for little."""
    if (
        tools.settings.workers > 1
        and len(tasks) > 1
        and sum(t.bytes for t in tasks) > POOL_ABOVE
        and os.name == "posix"
        and len(tasks) < _MOST_TASKS
    ):
        return Workers(tools, tasks)
    return Here(tools, tasks)


class Here:
    """Does everything in this process."""

    def __init__(self, tools: Tools, tasks: Sequence[Task]) -> None:
        self._tools = tools
        self._tasks = tasks

    def run(self) -> Iterator[TaskDone]:
        """Yield the finished tasks in order."""
        for number, task in enumerate(self._tasks):
            yield work(self._tools, number, task)

    def write(self, batch: Sequence[Rows]) -> list[Part | ContractError]:
        """Return a part, or why there is none, for each."""
        return _written(self._tools, batch)

    def close(self) -> None:
        """Nothing is open."""


class Workers:
    """This process and others, as many as there are workers, which take task numbers from one pipe: nobody balances their load.

    A process more, for the caller's part alone, would take turns with the others on the
    same processors. What others have done comes first; between it this one takes a task.
    """

    def __init__(self, tools: Tools, tasks: Sequence[Task]) -> None:
        self._tools = tools
        self._tasks = tasks
        self._lines: list[Connection] = []
        self._spools: dict[Any, int] = {}
        self._children: list[int | subprocess.Popen[bytes]] = []
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        tune_malloc()
        tools.redactor.expect_much()
        self._numbers, feed = os.pipe()
        os.write(feed, b"".join(n.to_bytes(_NUMBER, "little") for n in range(len(tasks))))
        os.close(feed)
        try:
            for _ in range(min(tools.settings.workers, len(tasks)) - 1):
                self._begin(tools, tasks, self._numbers)
        except BaseException:
            self.close()
            raise

    def run(self) -> Iterator[TaskDone]:
        """Yield the finished tasks as they come; raises what a worker raised."""
        waiting, none_left = len(self._tasks), False
        while waiting:
            ready = wait(self._lines, None if none_left else 0)
            for line in ready:
                yield self._receive(line)
            waiting -= len(ready)
            if ready or none_left:
                continue
            if number := os.read(self._numbers, _NUMBER):
                n = int.from_bytes(number, "little")
                yield work(self._tools, n, self._tasks[n])
                waiting -= 1
            else:
                none_left = True

    def write(self, batch: Sequence[Rows]) -> list[Part | ContractError]:
        """Return a part, or why there is none, for each; every process writes a share, at the same time."""
        shares: list[list[int]] = [[] for _ in (*self._lines, self)]
        loads = [0.0] * len(shares)
        cost = [*(_SENDING for _ in self._lines), 1.0]
        for number in sorted(range(len(batch)), key=lambda n: -len(batch[n][2])):
            after = [load + each * len(batch[number][2]) for load, each in zip(loads, cost, strict=True)]
            lightest = after.index(min(after))
            shares[lightest].append(number)
            loads[lightest] = after[lightest]
        mine = shares.pop()
        asked = [(line, share) for line, share in zip(self._lines, shares, strict=True) if share]
        for line, share in asked:
            line.send_bytes(marshal.dumps([(tuple(batch[n][0]), *batch[n][1:]) for n in share], _MARSHAL))
        parts: dict[int, Part | ContractError] = dict(zip(mine, _written(self._tools, [batch[n] for n in mine]), strict=True))
        for line, share in asked:
            parts.update(zip(share, self._answer(line), strict=True))
        return [parts[n] for n in range(len(batch))]

    def close(self) -> None:
        """End the workers and wait for them."""
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.send_bytes(b"")
            line.close()
            os.close(self._spools.pop(line))
        if self._numbers >= 0:
            os.close(self._numbers)
        for child in self._children:
            if isinstance(child, int):
                os.waitpid(child, 0)
            else:
                child.wait()
        self._lines, self._children, self._numbers = [], [], -1

    def _begin(self, tools: Tools, tasks: Sequence[Task], numbers: int) -> None:
        ours, theirs = Pipe()
        spool = open_spool(tools.files.root)
        if _may_fork():
            child = os.fork()
            if child == 0:
                for line in (*self._lines, ours):
                    line.close()
                for handle in self._spools.values():
                    os.close(handle)
                _live(theirs, spool, numbers, tools, tasks)
            self._children.append(child)
        else:
            code = "from ctx_pipeline.pipeline.ingest.pool import main; main()"
            handles = (theirs.fileno(), spool, numbers)
            words = [sys.executable, "-c", code, *map(str, handles)]
            self._children.append(subprocess.Popen(words, pass_fds=handles))  # noqa: S603 - our own words
            ours.send_bytes(pickle.dumps((tools.settings, tools.files, list(tasks))))
        theirs.close()
        self._lines.append(ours)
        self._spools[ours] = spool

    def _receive(self, line: Any) -> TaskDone:
        at, small, large = self._answer(line)
        try:
            rest = read_spool(self._spools[line], at, small)
            texts = read_spool(self._spools[line], at + small, large)
        except EOFError:
            raise _ended() from None
        done: TaskDone = pickle.loads(rest)  # noqa: S301 - from our own worker
        done.documents = marshal.loads(texts)  # noqa: S302 - as above
        with contextlib.suppress(OSError):  # the next look at the line tells that its process has ended
            line.send_bytes(_READ)
        return done

    def _answer(self, line: Any) -> Any:
        try:
            answer = pickle.loads(line.recv_bytes())  # noqa: S301 - from our own worker
        except EOFError:
            raise _ended() from None
        if isinstance(answer, BaseException) and not isinstance(answer, ContractError):
            raise answer
        return answer


def main() -> None:
    """Be a worker that was started as a program of its own."""
    tune_malloc()
    line, spool, numbers = Connection(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    settings, files, tasks = pickle.loads(line.recv_bytes())  # noqa: S301 - from our own parent
    _live(line, spool, numbers, Tools(settings, files), tasks)


def _ended() -> StoreError:
    return StoreError("a decode worker ended early", hint="run again: it goes on where it stopped; less memory is used with workers = 1")


def _may_fork() -> bool:
    """Tell whether a fork is safe: no library that keeps threads is loaded and no thread runs."""
    return hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1 and not any(n in sys.modules for n in _HEAVY)


def _live(line: Connection, spool: int, numbers: int, tools: Tools, tasks: Sequence[Task]) -> None:
    """Work until the pipe of numbers is empty, then write what is sent until an empty message; never returns."""
    status = 1
    try:
        gc.disable()
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        at = unread = 0
        while number := os.read(numbers, _NUMBER):
            n = int.from_bytes(number, "little")
            done = work(tools, n, tasks[n])
            large, done.documents = marshal.dumps(done.documents, _MARSHAL), []
            small = pickle.dumps(done, 5)
            while unread and line.poll():
                line.recv_bytes()
                unread -= 1
            at = at if unread else 0
            write_spool(spool, at, [small, large])
            line.send_bytes(pickle.dumps((at, len(small), len(large))))
            at, unread = at + len(small) + len(large), unread + 1
        _spend_time(tools)
        from ctx_pipeline.model.raw import Cell

        while message := line.recv_bytes():
            if message == _READ:
                continue
            share = [(Cell(*cell), table, rows) for cell, table, rows in marshal.loads(message)]  # noqa: S302 - from our own parent
            line.send_bytes(pickle.dumps(_written(tools, share)))
        status = 0
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except BaseException as error:  # noqa: BLE001 - it is raised again in the parent
        sent = error if isinstance(error, CtxError) else StoreError(f"a decode worker failed: {reason(error)}")
        line.send_bytes(pickle.dumps(sent))
    finally:
        os._exit(status)


def _spend_time(tools: Tools) -> None:
    """Ask for the versions that the next command wants, while the process that owns the store settles what was decoded."""
    from ctx_pipeline.pipeline import code_versions

    with contextlib.suppress(CtxError):
        code_versions.versions(tools.files, tools.settings)


def _written(tools: Tools, batch: Sequence[Rows]) -> list[Part | ContractError]:
    """Write small tables; all that could be written is on disk when this returns."""
    parts: list[Part | ContractError] = []
    with tools.files.together():
        for cell, table, rows in batch:
            try:
                parts.append(tools.lake.write_rows("normalized", cell, table, rows))
            except ContractError as error:
                parts.append(error)
    return parts
