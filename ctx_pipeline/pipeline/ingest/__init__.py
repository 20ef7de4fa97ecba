"""Ingest: capture, normalize and index for search in one pass over the bytes.

One ingest or normalize runs at a time in a store (ownership of calls is decided over
all cells); a second one waits for its lease and then finds the work done.
"""

from __future__ import annotations

import gc
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ctx_pipeline.pipeline import capture as capturing
from ctx_pipeline.pipeline.ingest import commit
from ctx_pipeline.pipeline.ingest.pool import start
from ctx_pipeline.pipeline.ingest.tasks import SessionJob, Task, grouped, jobs_of, split
from ctx_pipeline.pipeline.ingest.worker import Tools
from ctx_pipeline.pipeline.repair.missing_outputs import collect_garbage, unnote_search
from ctx_pipeline.pipeline.reports import DONE, HELD, CellReport, StageReport, decoders, placed
from ctx_pipeline.storage.ledger.connection import WAIT
from ctx_pipeline.storage.raw import encryption

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Cell, Identity
    from ctx_pipeline.pipeline.capture import Pending, Scan
    from ctx_pipeline.pipeline.ingest.commit import Decoded, Ready
    from ctx_pipeline.pipeline.ingest.pool import Pool
    from ctx_pipeline.pipeline.ingest.worker import TaskDone
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import SessionRow


LEASE = "normalized"
_PASSES = 3


def ingest(
    store: Store,
    settings: Settings,
    *,
    scan: Scan | None = None,
    cells: Collection[Cell] | None = None,
    sessions: Collection[str | tuple[str, str]] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    capture: bool = True,
    hosts: Mapping[str, Host] | None = None,
    wait: float = WAIT,
) -> list[StageReport]:
    """Bring raw, the normalized tables and the search index up to date; return their three reports.

    With ``cells`` or ``sessions`` only these are captured and decoded. With
    ``capture=False`` only what raw holds already is looked at. ``progress`` gets
    ("ingest", bytes done, bytes in all). ``hosts`` replaces the discovered ones.
    Raises StoreLocked where another process captures or ingests for more than ``wait`` seconds.
    """
    store.journal.demand()
    encryption.require(store.files)
    with ExitStack() as stack:
        if capture:
            stack.enter_context(store.ledger.lease(capturing.LEASE, wait=wait, forks=True))
        stack.enter_context(store.ledger.lease(LEASE, wait=wait, forks=True))
        run = _Ingest(store, Tools(settings, store.files, hosts), cells, sessions, progress)
        collecting = gc.isenabled()
        gc.disable()  # millions of short-lived tuples without a circle
        try:
            run.place()
            if capture:
                run.capture(scan)
            run.passes()
        finally:
            if collecting:
                gc.enable()
        if run.committed:
            unnote_search(store)
        collect_garbage(store, run.committed)
        if capture:
            run.captured.totals["packed"] = capturing.pack(store)
    from ctx_pipeline.pipeline.index import index_search

    return [run.captured, run.normalized, index_search(store, settings, force=store.search.damaged())]


class _Ingest:
    """State of one ingest."""

    def __init__(
        self,
        store: Store,
        tools: Tools,
        cells: Collection[Cell] | None,
        sessions: Collection[str | tuple[str, str]] | None,
        progress: Callable[[str, int, int], None] | None,
    ) -> None:
        self.store = store
        self.tools = tools
        self.settings = tools.settings
        self.placed = placed(capturing.CODE_VERSION, self.settings)
        self.decoders = decoders(tools.hosts, tools.redactor, tools.settings.whole_file_bytes)
        self.cells = None if cells is None else set(cells)
        self.sessions = None if sessions is None else set(sessions)
        self.progress = progress
        self.captured = StageReport("capture")
        self.normalized = StageReport("normalize")
        self.pending: list[tuple[Pending, Identity]] = []
        self.problems: list[capturing.Problem] = []
        self.committed: set[Cell] = set()

    def place(self) -> None:
        """Give the sessions their cells anew where they were placed under another first month."""
        ledger = self.store.ledger
        old = {cell: row for cell, row in ledger.asset_cells(commit.RAW).items() if row.code_version != self.placed}
        if old:
            ledger.reassign_partitions()
        for cell, row in old.items():
            ledger.record_asset(commit.RAW, cell, row.input_fp, self.placed, row.content_hash, row.rows)

    def capture(self, scan: Scan | None) -> None:
        """Settle what the scan learned without bytes, and capture the sources that are not a session's."""
        began = time.perf_counter()
        store, hosts = self.store, self.tools.hosts
        found = scan if scan is not None and capturing.still_true(store, scan) else capturing.scan(store, self.settings, hosts=hosts)
        chosen = capturing.select(store, found, hosts, cells=self.cells, sessions=self.sessions)
        dirty = capturing.commit_without_bytes(store, found, hosts)
        redact = self.tools.redactor.redact
        self.pending, others = split(store, chosen, hosts)
        alone = [taken for p in others if (taken := capturing.attempt(store.files, p, hosts[p.host], found.problems, redact)) is not None]
        dirty |= capturing.commit(store, alone, self.captured)
        for cell in dirty:
            self.captured.cells.setdefault(cell.key, CellReport(DONE))
        self.problems += found.problems
        self.captured.totals |= {"vanished": len(found.vanished), "moved": len(found.moved), "waiting": found.waiting}
        self.captured.seconds += time.perf_counter() - began

    def passes(self) -> None:
        """Decode and commit; again while a session changed its streams meanwhile."""
        began = time.perf_counter()
        tried: set[tuple[str, str, str]] = set()
        for _ in range(_PASSES):
            pending, self.pending = self.pending, []
            jobs = jobs_of(self.store, self.settings, pending, self._dirty(pending, tried), hosts=self.tools.hosts)
            if not jobs and not self._behind(set()):
                break
            self._pass(jobs)
        totals = self.normalized.totals
        for name in ("sessions_parsed", "events", "bytes"):
            totals.setdefault(name, 0)
        self.captured.totals["problems"] = len(self.problems)
        self.normalized.seconds = time.perf_counter() - began

    def _dirty(self, pending: Sequence[tuple[Pending, Identity]], tried: set[tuple[str, str, str]]) -> list[SessionRow]:
        """Return the sessions to decode from raw: all dirty ones of the cells that are asked for, each state of them once."""
        dirty = self.store.ledger.dirty_sessions(self.cells, versions=self.decoders)
        if self.sessions is not None:
            threads = {i.thread_id for _, i in pending} | {i.root_session_id for _, i in pending}
            near = {
                s.partition
                for s in dirty
                if s.session_id in threads or not {s.session_id, (s.host, s.session_id)}.isdisjoint(self.sessions)
            }
            dirty = [s for s in dirty if s.partition in near]
        fresh = [s for s in dirty if (s.host, s.session_id, s.captured_fp) not in tried]
        tried |= {(s.host, s.session_id, s.captured_fp) for s in fresh}
        return fresh

    def _behind(self, decoded: set[tuple[str, str]]) -> set[Cell]:
        """Return the cells that were not made of what the ledger and the prices say, though none of their sessions waits to be decoded."""
        waiting = {s.partition for s in self.store.ledger.dirty_sessions(versions=self.decoders) if (s.host, s.session_id) not in decoded}
        emptied = self.store.lake.cells(commit.ASSET) - set(self.store.ledger.cells())
        return (self.store.ledger.unfinished_cells(versions=self.decoders) | emptied | self._repriced()) - waiting

    def _repriced(self) -> set[Cell]:
        """Return the cells whose calls have other prices than those of now."""
        return commit.priced_otherwise(self.store, self.tools.prices.version)

    def _pass(self, jobs: list[SessionJob]) -> None:
        tasks = grouped(jobs)
        pool = start(self.tools, tasks)
        search = self.store.search
        try:
            search.begin_bulk(self.store.lake)
            decoded = self._decode(pool.run(), tasks)
            with _beside(search.flush):
                changed = commit.record(self.store, decoded, self.decoders)
                good, held = self._write(pool, decoded, changed)
            for one in good:
                commit.compact(self.store, one)
            commit.tombstone(self.store, good, {cell: decoded[cell] for cell in held if cell in decoded})
            search.finish()
        except BaseException as broken:
            search.abandon(broken)
            raise
        finally:
            pool.close()
        for one in good:
            self._commit(one, decoded)
        search.mark_committed()
        for cell, why in held.items():
            self.normalized.cells[cell.key] = CellReport(HELD, error=why)

    def _commit(self, one: Ready, decoded: Mapping[Cell, Decoded]) -> None:
        self.committed.add(one.partition)
        report = commit.commit(self.store, one, self.decoders.get(one.partition.host, ""), self.tools.prices.version)
        if one.partition in decoded:
            report.seconds += decoded[one.partition].seconds
        self.normalized.cells[one.partition.key] = report
        totals = self.normalized.totals
        totals["sessions_parsed"] = totals.get("sessions_parsed", 0) + report.counts["parsed"]
        totals["events"] = totals.get("events", 0) + report.counts["events"]
        place = one.place
        if place.sessions:
            self.store.ledger.record_asset(commit.RAW, one.partition, place.fingerprint, self.placed, place.raw_hash, len(place.sessions))

    def _decode(self, results: Iterator[TaskDone], tasks: list[Task]) -> dict[Cell, Decoded]:
        decoded: dict[Cell, Decoded] = {task.partition: commit.Decoded() for task in tasks}
        total, so_far = sum(t.bytes for t in tasks), 0
        for done in results:
            cell = tasks[done.number].partition
            group = decoded[cell]
            self._record_capture(done)
            if done.error:
                group.error = group.error or done.error
            elif done.events is not None:
                part = done.events
                self.store.search.add_part(cell, part.path, part.rows, done.documents, done.spans, marks=done.marks, pages=done.pages)
            group.parts += [p for p in (done.events, done.tool_calls) if p is not None]
            group.sessions |= {s.session_id: s for s in done.sessions}
            group.seconds += done.seconds
            so_far += done.bytes
            if self.progress:
                self.progress("ingest", so_far, total)
        return decoded

    def _record_capture(self, done: TaskDone) -> None:
        self.problems += done.problems
        if not done.captured:
            return
        dirty = capturing.commit(self.store, done.captured, self.captured)
        for cell in dirty:
            self.captured.cells.setdefault(cell.key, CellReport(DONE))

    def _write(self, pool: Pool, decoded: Mapping[Cell, Decoded], changed: set[Cell]) -> tuple[list[Ready], dict[Cell, str]]:
        """Write the small tables of the touched cells; return the cells to commit, and why others are held."""
        held = {cell: group.error for cell, group in decoded.items() if group.error}
        done = {(cell.host, session) for cell, group in decoded.items() if not group.error for session in group.sessions}
        repriced = self._repriced()
        touched = {cell for cell, group in decoded.items() if group.sessions} | changed | self._behind(done)
        fingerprints = self.store.ledger.cell_fingerprints(touched)
        rows: dict[Cell, list[SessionRow]] = {cell: [] for cell in touched}
        for row in self.store.ledger.sessions(cells=touched):
            rows[row.partition].append(row)

        def ready() -> Iterator[Ready]:
            for cell in sorted(touched - held.keys()):
                group = decoded.get(cell, commit.Decoded())
                place = commit.Place(fingerprints[cell], tuple(rows[cell]))
                yield commit.prepare(self.store, cell, group, place, self.tools.prices if cell in repriced else None)
                group.sessions.clear()

        good, bad = commit.write(self.store, pool, ready())
        return good, held | bad


@contextmanager
def _beside(work: Callable[[], None]) -> Iterator[None]:
    """Do some work in a thread while the block runs; what it raises is raised after the block."""
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    thread = threading.Thread(target=attempt, name="ctx-beside")
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]


# The normalize stage: what raw holds becomes events, sessions, threads, model calls and tool calls.


def normalize(
    store: Store,
    settings: Settings,
    *,
    cells: Collection[Cell] | None = None,
    sessions: Collection[str | tuple[str, str]] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> StageReport:
    """Decode every session whose raw bytes or decoder changed and commit its cell; return the cells with their counts.

    A cell with a session that cannot be decoded, or whose rows break the contract, is
    held and keeps what it had; the others are committed.
    """
    reports = ingest(store, settings, cells=cells, sessions=sessions, progress=progress, capture=False)
    return next(r for r in reports if r.stage == "normalize")
