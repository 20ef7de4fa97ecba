"""The capture stage: pending sources become raw objects and ledger rows."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.errors import SourceError, StoreDamaged, StoreError, StoreFull, StoreLocked
from ctx_pipeline.pipeline.capture.read_source import Taken, now_text, take
from ctx_pipeline.pipeline.capture.scanning import Problem
from ctx_pipeline.pipeline.capture.scanning import scan as look
from ctx_pipeline.pipeline.capture.selecting import as_new_generations, select
from ctx_pipeline.pipeline.reports import DONE, CellReport, StageReport
from ctx_pipeline.storage.ledger.forgotten import Forgotten
from ctx_pipeline.storage.ledger.links import identify
from ctx_pipeline.storage.raw import encryption
from ctx_pipeline.storage.raw import segments as raw
from ctx_pipeline.storage.raw.home_files import HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline.capture.scanning import Pending, Scan
    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.files import Files
    from ctx_pipeline.storage.ledger import Segment


LEASE = "raw/segments"
"""Name of the lease that every writer of raw and of the ledger's sources holds."""

CODE_VERSION = "1"

_BATCH_SOURCES = 500
_BATCH_BYTES = 64 << 20


def capture(
    store: Store,
    settings: Settings,
    *,
    scan: Scan | None = None,
    cells: Collection[Cell] | None = None,
    sessions: Collection[str | tuple[str, str]] | None = None,
    force: bool = False,
    hosts: Mapping[str, Host] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> StageReport:
    """Copy what is pending into raw and record it; returns the cells that changed with counts of sources, segments and bytes.

    With ``cells`` or ``sessions`` only their sources (and those of no session) are
    taken. ``force`` records a new generation of everything chosen, changed or not. A
    source that cannot be read is appended to ``scan.problems`` and left for later.
    """
    began = time.perf_counter()
    store.journal.demand()
    encryption.require(store.files)
    known = discovery.hosts() if hosts is None else hosts
    report = StageReport("capture")
    with store.ledger.lease(LEASE):
        found = scan if scan is not None and still_true(store, scan) else look(store, settings, hosts=known)
        if scan is not None and found is not scan:
            scan.problems[:] = found.problems
        chosen = select(store, found, known, cells=cells, sessions=sessions)
        if force:
            chosen = [_renewed(p) for p in chosen] + as_new_generations(store, cells, sessions, {p.stream for p in chosen})
        dirty = commit_without_bytes(store, found, known)
        problems = found.problems if scan is None else scan.problems
        redact = redactor_of(settings).redact
        batch: list[Taken] = []
        size = 0
        for done, pending in enumerate(chosen, 1):
            taken = attempt(store.files, pending, known[pending.host], problems, redact)
            if taken is not None:
                batch.append(taken)
                size += len(taken.data)
            if size >= _BATCH_BYTES or len(batch) >= _BATCH_SOURCES:
                dirty |= commit(store, batch, report)
                batch, size = [], 0
            if progress is not None:
                progress("capture", done, len(chosen))
        dirty |= commit(store, batch, report)
    for cell in sorted(dirty):
        report.cells.setdefault(cell.key, CellReport(DONE))
    totals = report.totals
    for name in ("sources", "segments", "bytes"):
        totals.setdefault(name, 0)
    totals |= {"vanished": len(found.vanished), "moved": len(found.moved), "problems": len(problems), "waiting": found.waiting}
    report.seconds = time.perf_counter() - began
    return report


def still_true(store: Store, scan: Scan) -> bool:
    """Tell whether the ledger is as the scan saw it, for the sources that it wants to change."""
    streams = [*(p.stream for p in scan.pending), *(m.source.stream for m in scan.moved), *(t.stream for t in scan.touched)]
    rows = store.ledger.sources_of(streams) if streams else {}
    for pending in scan.pending:
        row, known = rows.get(pending.stream), pending.known
        if (row is None) != (known is None) or (row and known and (row.generation, row.captured) != (known.generation, known.captured)):
            return False
    for source in (*scan.touched, *(m.source for m in scan.moved)):
        row = rows.get(source.stream)
        if row is None or (row.generation, row.captured, row.rel) != (source.generation, source.captured, source.rel):
            return False
    return True


def commit_without_bytes(store: Store, scan: Scan, hosts: Mapping[str, Host]) -> set[Cell]:
    """Write what a scan learned without new bytes: moved, vanished, ignored and touched sources; return dirty cells."""
    ledger = store.ledger
    dirty: set[Cell] = set()
    if scan.touched:
        ledger.save_sources(scan.touched)
    if scan.vanished:
        ledger.mark_vanished(scan.vanished)
    if scan.ignored:
        ledger.mark_vanished(scan.ignored, state="ignored")
    if scan.moved:
        rows = []
        pieces = ledger.segments_of(m.source.stream for m in scan.moved)
        for moved in scan.moved:
            row = moved.source._replace(**{name: value for name, value in moved._asdict().items() if name != "source"}, state="live")
            host = hosts[row.host]
            if row.kind in host.files.session_kinds:
                own = [s for s in pieces.get(row.stream, []) if s.generation == row.generation]
                identity, _ = identify(host, row.kind, row.rel, _captured_head(store, own))
                row = row._replace(**identity._asdict()) if identity is not None else row
            rows.append(row)
        dirty |= ledger.commit_capture(rows)
    return dirty


def note_times(store: Store, scan: Scan) -> None:
    """Write the new times of sources whose bytes are the captured ones, so that no later scan reads them; a busy store is left alone."""
    if scan.touched:
        with suppress(StoreLocked), store.ledger.lease(LEASE, wait=0.0):
            if still_true(store, scan):
                store.ledger.save_sources(scan.touched)


def redactor_of(settings: Settings) -> Redactor:
    """Return the built-in detectors and the person's own."""
    from ctx_pipeline.redaction import Redactor

    return Redactor(settings.patterns)


def attempt(
    files: Files, pending: Pending, host: Host, problems: list[Problem], redact: Callable[[str], str] | None = None
) -> Taken | None:
    """Take one source; None, and a problem noted, when it cannot be read now."""
    try:
        taken = take(files, pending, host=host, redact=redact)
    except (SourceError, StoreDamaged) as error:
        problems.append(Problem(pending.path, error.message))
        return None
    if taken.trouble:
        problems.append(Problem(pending.path, taken.trouble))
    return taken


def commit(store: Store, batch: list[Taken], report: StageReport) -> set[Cell]:
    """Record taken sources in one transaction, leave out forgotten threads, and count them by cell."""
    if not batch:
        return set()
    kept = drop_forgotten(store, batch)
    dirty = store.ledger.commit_capture([t.source for t in kept], [s for t in kept for s in t.segments], [h for t in kept for h in t.hints])
    placed = store.ledger.sources_of(t.source.stream for t in kept)
    for taken in kept:
        if not taken.segments:
            continue
        cell = placed[taken.source.stream].partition
        counts = {"sources": 1, "segments": len(taken.segments), "bytes": len(taken.data)}
        for name, count in counts.items():
            report.totals[name] = report.totals.get(name, 0) + count
            if cell is not None:
                inside = report.cells.setdefault(cell.key, CellReport(DONE)).counts
                inside[name] = inside.get(name, 0) + count
    return dirty


def drop_forgotten(store: Store, batch: Iterable[Taken]) -> list[Taken]:
    """Return what may be kept: what ``ctx forget`` removed is not captured again from another file, whatever its name."""
    forgotten = Forgotten(store.ledger.tombstones())
    if not forgotten:
        return list(batch)
    kept, gone = [], []
    for taken in batch:
        source = taken.source
        if source.thread_id and (
            forgotten.thread(source.host, source.thread_id)
            or (len(taken.data) == source.captured and forgotten.content(source.host, taken.data))
        ):
            gone.append(taken)
            continue
        hints = [h for h in taken.hints if not forgotten.thread(h.host, h.thread_id)]
        kept.append(taken._replace(hints=hints))
    for taken in gone:
        for segment in taken.segments:
            store.files.remove(segment.path)
    if gone:
        from ctx_pipeline.storage.ledger import Tombstone

        store.ledger.remember_forgotten(Tombstone(t.source.host, "stream", t.source.stream, now_text()) for t in gone)
    return kept


def _renewed(pending: Pending) -> Pending:
    if pending.known is None:
        return pending
    return replace(pending, generation=pending.known.generation + 1, start=0, change="rewritten", forced=True)


def _captured_head(store: Store, own: list[Segment]) -> bytes:
    data = b""
    for piece in raw.read_pieces(store.files, own):
        data += piece
        if len(data) >= HEAD:
            break
    return data


# Quiet generations are packed: many small raw objects become few. What was recorded a while ago is compressed harder.


QUIET_DAYS = 7
"""Days without a new byte after which a generation is packed."""

MANY = 8
"""Objects of a generation from which on packing it is worth the work."""

PACK_BYTES = 32 << 20
"""Most bytes of a pack, unpacked: reading one piece of it reads all."""

SHRUNK_BYTES = 64 << 20
"""Bytes of sources whose objects are compressed harder in one look: a second of a processor, once a day."""

SMALLEST = 16 << 10
"""Bytes of a raw object below which it is not worth writing it again."""

MARK = "packed.txt"
"""Says when the store was last looked through, and how far objects were compressed harder: a time and a name."""

_MOST_PIECES = 1_000
_AGAIN = 86_400.0


def pack(store: Store, *, now: datetime | None = None, again: float = _AGAIN) -> int:
    """Join the raw objects of quiet generations and return how many fewer there are; compress some that are old harder.

    The caller holds the lease of raw. A store that was looked through in the last
    ``again`` seconds is left alone. A generation with a damaged object is left as it is.
    """
    clock = datetime.now(UTC) if now is None else now
    try:
        if time.time() - store.files.local(MARK).stat().st_mtime < again:
            return 0
    except FileNotFoundError:
        pass
    before = (clock - timedelta(days=QUIET_DAYS)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fewer = 0
    for stream, generation in store.ledger.scattered(MANY, before):
        segments = [s for s in store.ledger.segments_of([stream]).get(stream, []) if s.generation == generation]
        for run in _runs(segments):
            try:
                fewer += _joined(store, run)
            except StoreError:
                break  # the doctor names the object
    done = _marked(store)
    with suppress(StoreError):  # no room, for one
        done = _shrunk(store, done, before)
    store.files.write(MARK, f"{clock.isoformat()}\n{done[0]} {done[1]}\n".encode())
    return fewer


def _marked(store: Store) -> tuple[str, str]:
    """Return time and name of the last object that was compressed harder; before all where none was, or where the mark cannot be read."""
    try:
        told = store.files.read(MARK).decode().splitlines()[1].split(" ")
        return told[0], told[1]
    except (StoreError, UnicodeDecodeError, IndexError):
        return "", ""


def _shrunk(store: Store, last: tuple[str, str], before: str) -> tuple[str, str]:
    """Compress the next objects recorded before a time harder; return the last of them. A damaged one is left to the doctor."""
    rows: list[Segment] = []
    done = 0
    with store.files.together():
        for at, path, size in store.ledger.recorded_before(before, last, SMALLEST):
            if done and done + size > SHRUNK_BYTES:
                break
            try:
                rows += raw.shrink(store.files, path) or ()
            except StoreFull:
                break
            except StoreError:  # damaged
                pass
            last = at, path
            done += size
    store.ledger.repack(rows)
    return last


def _runs(segments: list[Segment]) -> Iterator[list[Segment]]:
    """Yield segments that follow each other without a gap and are small enough for one pack."""
    run: list[Segment] = []
    for segment in segments:
        room = run and run[-1].end == segment.start and segment.end - run[0].start <= PACK_BYTES and len(run) < _MOST_PIECES
        if run and not room:
            yield run
            run = []
        run.append(segment)
    yield run


def _joined(store: Store, run: list[Segment]) -> int:
    objects = [path for path, _ in groupby(s.path for s in run)]
    if len(objects) < 2:
        return 0
    origins = {(o.start, o.end): o for path in objects for o in raw.read_origins(store.files, path)}
    pieces = [(origins[s.start, s.end], data) for s, data in zip(run, raw.read_pieces(store.files, run), strict=True)]
    packed = raw.write_pack(store.files, pieces)
    store.ledger.repack(packed)
    for path in {*objects} - {packed[0].path}:
        store.files.remove(path)
    return len(objects) - 1
