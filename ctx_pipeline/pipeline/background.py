"""The stages in processes of their own, while this one imports Dagster and records what they did."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ctx_pipeline.errors import CtxError, StoreDamaged, StoreError
from ctx_pipeline.model.declared import Deferred
from ctx_pipeline.pipeline import StageReport
from ctx_pipeline.pipeline.derived_partitions import run_cells
from ctx_pipeline.pipeline.facts import plan as making
from ctx_pipeline.pipeline.measure import plan as measuring
from ctx_pipeline.pipeline.mine import plan as mining
from ctx_pipeline.pipeline.reports import UNCHANGED, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from types import TracebackType

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline.capture import Scan
    from ctx_pipeline.pipeline.derived_partitions import Also
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

    Progress = Callable[[str, int, int], None]


INGEST = "ingest"
DERIVE = "derive"
TAIL = "tail"
"""Parts of the work, in their order; each ends with its reports."""

PARTS = (INGEST, DERIVE, TAIL)
_TABLES = "tables"
_PAGE = "page"
"""Two parts of the last one: all that the page is drawn from, and the page."""

_OBJECTS = 500_000
"""New objects after which the collector of cycles looks in a process for little work: it finds none, in a twentieth of the time."""

_HEAVY = ("pyarrow", "numpy", "duckdb", "dagster")
_END = "end"


class Ahead:
    """Stages that may be under way elsewhere; :meth:`wait` gives the reports of a part of them.

    What a process fails to make is left undone: whoever records it finds it stale, makes
    it, and fails in its own name.
    """

    def __init__(self, settings: Settings, scan: Scan) -> None:
        self._settings = settings
        self._scan = scan
        self._process: Any = None
        self._pipe: Any = None
        self._came: dict[str, list[Any]] = {}

    def launch(self, work: Callable[[Settings, Scan, Any], None] | None = None) -> None:
        """Fork for some work, all of it where none is named, unless a library that keeps threads is loaded or the platform cannot."""
        if not _may_fork():
            return
        import multiprocessing

        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe(duplex=False)
        # not a daemon: it starts processes of its own
        self._process = context.Process(target=work or _work, args=(self._settings, self._scan, theirs), daemon=False)
        self._process.start()
        theirs.close()

    def wait(self, part: str, progress: Progress | None = None) -> list[StageReport]:
        """Return the reports of a part; raises what the ingest raised.

        Where there is no other process the ingest is done here, and the other parts are left to the caller.
        """
        if self._process is None:
            if part == INGEST and part not in self._came:
                self._came[part] = _ingest(self._settings, self._scan, progress)
            return self._came.get(part, [])
        while part not in self._came and _END not in self._came:
            try:
                kind, *rest = self._pipe.recv()
            except (EOFError, ConnectionResetError):
                self._came[_END] = []
                if INGEST not in self._came:
                    raise _ended_early(self._process) from None
                break
            if kind == "progress":
                if progress:
                    progress(*rest)
            elif kind == "error":
                raise rest[0]
            else:
                self._came[kind] = rest[0]
        return self._came.get(part, [])

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Let go of the other process: it ends with the stage it is in."""
        if self._process is not None:
            self._pipe.close()
            self._process.join(timeout=30)


def _ended_early(process: Any) -> StoreError:
    process.join()
    return StoreError(f"the ingest process ended early (status {process.exitcode})", hint="run again: it goes on where it stopped")


class WarmProcess(Ahead):
    """One process for many runs, which keeps what it imported: two thirds of what a run with one new session costs.

    Begin it before a library is loaded that keeps threads, as those do not survive the fork.
    """

    def __init__(self) -> None:
        import multiprocessing

        context = multiprocessing.get_context("fork")
        self._came = {}
        self._pipe, theirs = context.Pipe()
        self._process: Any = context.Process(target=_serve, args=(theirs, self._pipe), daemon=False)
        self._process.start()
        theirs.close()
        self.bytes = 0
        """resident memory after the last run"""

    def works(self) -> bool:
        """Tell whether it is there still."""
        return bool(self._process.is_alive())

    @contextlib.contextmanager
    def begun(self, settings: Settings, scan: Scan, *parts: str) -> Iterator[Self]:
        """Let it do the parts of a run, all of them where none is named; at the end it is ready for the next."""
        self._came = {}
        try:
            self._pipe.send((settings, scan, parts or PARTS))
        except (BrokenPipeError, ConnectionResetError):
            raise _ended_early(self._process) from None
        try:
            yield self
        except Exception:
            self._drain()
            raise
        self._drain()

    def _drain(self) -> None:
        """Take what is left of a run, so that nothing of it is taken for a part of the next."""
        while _END not in self._came:
            with contextlib.suppress(CtxError):
                self.wait(_END)
        self.bytes = next(iter(self._came[_END]), 0)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=30)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


def resident_bytes(of: str = "/proc/self/statm") -> int:
    """Return the memory that this process holds now; 0 where neither the system's file of it nor ``ps`` says so."""
    with contextlib.suppress(OSError):
        return int(Path(of).read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import subprocess

    with contextlib.suppress(OSError, ValueError):
        asked = ["ps", "-o", "rss=", "-p", str(os.getpid())]
        return int(subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10).stdout) * 1024  # noqa: S603 - no word of anybody
    return 0


def _serve(pipe: Any, other_end: Any) -> None:
    """Do what is asked for until nobody is there to ask; an end that stays open here would hide that."""
    other_end.close()
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            settings, scan, parts = pipe.recv()
            _run_parts(settings, scan, pipe, parts)
            pipe.send((_END, [resident_bytes()]))


def _may_fork() -> bool:
    return hasattr(os, "fork") and not any(name in sys.modules for name in _HEAVY)


def start(settings: Settings, scan: Scan) -> Ahead:
    """Begin to ingest what a scan found and to derive from it, in another process where possible."""
    ahead = Ahead(settings, scan)
    ahead.launch()
    return ahead


class _Second:
    """A further process for a share of the cells, forked before any library that keeps threads is loaded."""

    def __init__(self, settings: Settings, others: Sequence[Any]) -> None:
        import multiprocessing

        context = multiprocessing.get_context("fork")
        self._line, theirs = context.Pipe()
        self._process: Any = context.Process(target=_assist, args=(settings, theirs, (self._line, *others)), daemon=False)
        self._process.start()
        theirs.close()

    def begin(self, cells: Sequence[Cell]) -> None:
        """Let it derive some cells."""
        self._line.send(list(cells))

    def reports(self) -> list[StageReport]:
        """Return its reports; none when it failed."""
        try:
            found: list[StageReport] = self._line.recv()
        except EOFError:
            return []
        return found

    def close(self) -> None:
        """End it."""
        self._line.close()
        self._process.join(timeout=30)


def _assist(settings: Settings, line: Any, others: Sequence[Any]) -> None:
    """Derive the cells that are sent until the line is closed."""
    # an end that stays open here would keep the others from seeing that the first process has gone
    for other in others:
        other.close()
    # what fails here is made by whoever records it, and fails in its name
    with contextlib.suppress(Exception, KeyboardInterrupt):
        while True:
            line.send(_derived(settings, line.recv(), None))


def _ingest(settings: Settings, scan: Scan, progress: Progress | None) -> list[StageReport]:
    from ctx_pipeline.pipeline.forget.sessions import keep_forgotten_out
    from ctx_pipeline.pipeline.ingest import ingest
    from ctx_pipeline.storage import open_store

    with open_store(settings) as store, keep_forgotten_out(store, settings):
        return ingest(store, settings, scan=scan, progress=progress)


def _derived(settings: Settings, cells: Sequence[Cell] | None, progress: Progress | None) -> list[StageReport]:
    from ctx_pipeline.storage import open_store

    with open_store(settings) as store:
        return derive(store, settings, cells=cells, progress=progress)


def _derive(settings: Settings, second: _Second | None, progress: Progress | None) -> list[StageReport]:
    """Measure and mine every cell that needs it; two processes share them where there is more than one."""
    from ctx_pipeline.storage import open_store

    with open_store(settings) as store:
        waiting = due(store)
    share: dict[bool, list[Cell]] = {True: [], False: []}
    weight = {True: 0, False: 0}
    for size, cell in sorted(((size, cell) for cell, size in waiting.items()), reverse=True):
        other = second is not None and weight[True] < weight[False]
        share[other].append(cell)
        weight[other] += size
    if second and share[True]:
        second.begin(share[True])
    reports = _derived(settings, share[False], progress)
    theirs = second.reports() if second and share[True] else []
    if second:
        second.close()  # what it holds is of no use to the stages that follow
    return [merged(*pair) for pair in zip(reports, theirs, strict=True)] if theirs else reports


def _unpartitioned(settings: Settings, progress: Progress, part: str = TAIL) -> list[StageReport]:
    from ctx_pipeline.pipeline.run import TAIL_STEPS, step
    from ctx_pipeline.storage import open_store

    reports: list[StageReport] = []
    with open_store(settings) as store, contextlib.suppress(Exception):
        for number, name in enumerate(TAIL_STEPS):
            if part == TAIL or (part == _PAGE) == (name == TAIL_STEPS[-1]):
                progress("page", number, len(TAIL_STEPS))
                # the page need not look whether the warehouse is current that was brought up to date here a moment ago
                options = {"refresh": False} if part == TAIL and name == TAIL_STEPS[-1] else {}
                reports += step(name, store, settings, **options)
    return reports


def _work(settings: Settings, scan: Scan, pipe: Any) -> None:
    """Do all parts of a run in a process that is of no use after it."""
    _run_parts(settings, scan, pipe, PARTS)
    pipe.close()


def _run_parts(settings: Settings, scan: Scan, pipe: Any, parts: Sequence[str]) -> None:
    """Do parts of a run and send the reports of each; of a large history each in a process that ends with it.

    What a part of a large one leaves of its memory in pieces goes back to the system.
    """
    from ctx_pipeline.pipeline.ingest.pool import POOL_ABOVE, give_back

    large = sum(one.size for one in scan.pending) > POOL_ABOVE and _may_fork()
    if not large:
        gc.set_threshold(_OBJECTS)
    second = _Second(settings, [pipe]) if _may_fork() and not large else None

    def reports(part: str) -> list[StageReport]:
        if not large:
            return _done(part, settings, scan, second, lambda *step: pipe.send(("progress", *step)))
        if part == TAIL:
            return [*reports(_TABLES), *reports(_PAGE)]
        with Ahead(settings, scan) as ahead:
            ahead.launch(functools.partial(_alone, part))
            return ahead.wait(part, lambda *step: pipe.send(("progress", *step)))

    with _passing_errors(pipe):
        try:
            pipe.send((INGEST, reports(INGEST)))
            give_back()
            with contextlib.suppress(Exception):
                for part in parts[1:]:
                    pipe.send((part, reports(part)))
                    give_back()
        finally:
            if second:
                second.close()


def _alone(part: str, settings: Settings, scan: Scan, pipe: Any) -> None:
    """Do one part and send its reports."""
    second = _Second(settings, [pipe]) if part == DERIVE and _may_fork() else None
    with _passing_errors(pipe):
        pipe.send((part, _done(part, settings, scan, second, lambda *step: pipe.send(("progress", *step)))))
    pipe.close()


def _done(part: str, settings: Settings, scan: Scan, second: _Second | None, progress: Progress) -> list[StageReport]:
    if part == INGEST:
        return _ingest(settings, scan, progress)
    return _derive(settings, second, progress) if part == DERIVE else _unpartitioned(settings, progress, part)


@contextlib.contextmanager
def _passing_errors(pipe: Any) -> Iterator[None]:
    """Send what goes wrong to whoever waits at the other end, without the text of an error that is not ours."""
    try:
        yield
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    except Exception as error:  # noqa: BLE001 - it is raised again in the parent
        ours = error if isinstance(error, CtxError) else StoreError(f"ingest failed: {reason(error)}", hint="ctx doctor tells more")
        pipe.send(("error", ours))


# Facts, readings and candidates of each cell in one read: a session is decoded once, and its facts are worked out
# once.


def derive(
    store: Store,
    settings: Settings,
    *,
    cells: Collection[Cell] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[StageReport]:
    """Bring facts, readings and candidates up to date and return the reports of the facts, of measuring and of mining.

    The same as one stage after the other. What is stale of them in a cell is made in one
    read: each session's facts first, then its readings, then its candidates; of many
    sessions also the figures that reports add up.
    """
    stages = {"facts": making(store), "measure": measuring(store, settings), "mine": mining(store)}
    return run_cells(store, stages, cells, progress=progress, also=_figures_of_many(store, settings))


_MANY = 5
"""Sessions in one read from which on their figures are made as well; those of fewer the warehouse makes."""

_figures_ahead: Callable[..., Any] = Deferred("ctx_pipeline.sessions.reports.kept_figures:ahead")


def _figures_of_many(store: Store, settings: Settings) -> Also:
    """Return what begins the figures of the sessions of a cell that are about to be read, where they are many."""
    begin = functools.cache(lambda: _figures_ahead(store, settings))

    def also(cell: Cell, sessions: Collection[str]) -> Any:
        if len(sessions) >= _MANY:
            with contextlib.suppress(StoreDamaged):  # of any month: the warehouse, which needs them all, says so
                return begin()(cell, sessions)
        return None

    return also


def due(store: Store) -> dict[Cell, int]:
    """Return the cells that lack facts or have something to measure or to mine, with the bytes of their events."""
    stages = (making(store)[0], measuring(store)[0], mining(store)[0])
    found = {}
    for cell in {*store.ledger.cells(), *(cell for stage in stages for asset in stage.versions for cell in store.lake.cells(asset))}:
        if any(stage.stale(cell) for stage in stages):
            manifest = store.lake.manifest("normalized", cell)
            found[cell] = sum(part.bytes for part in manifest.of_table("events")) if manifest else 0
    return found


def merged(first: StageReport, second: StageReport) -> StageReport:
    """Return the report of two halves of one stage; of a cell that both looked at, the half that says more."""
    cells = dict(second.cells)
    for key, cell in first.cells.items():
        if key not in cells or cells[key].status == UNCHANGED:
            cells[key] = cell
    totals = {name: first.totals.get(name, 0) + second.totals.get(name, 0) for name in first.totals | second.totals}
    return StageReport(first.stage, cells, totals, max(first.seconds, second.seconds))
