"""Raw objects that are missing or damaged: restored byte for byte from their sources, else named as lost for good."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.errors import RawLocked, SourceError, StoreDamaged, StoreError, refused
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.raw import Origin
from ctx_pipeline.pipeline import capture
from ctx_pipeline.pipeline.capture.read_source import opened
from ctx_pipeline.pipeline.repair.missing_outputs import noted_of, save_notes
from ctx_pipeline.storage.raw import segments as raw

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import Segment
    from ctx_pipeline.storage.ledger.rows import Source
    from ctx_pipeline.storage.verified import VerifiedFiles

FACT = "raw_lost"
"""Kind of the journal's fact that says which bytes are gone for good."""

MARK = "raw_checked.txt"
"""Says when the sizes of all raw objects were last compared with the ledger."""

RAW = "raw"
_AGAIN = 86_400.0
"""Seconds after which a run compares them again."""


class LostRange(NamedTuple):
    """Bytes of a source that nobody has any more."""

    path: str
    """the raw object that held them"""
    host: str
    stream: str
    source: str
    """name of the file in the home, without its folders"""
    session_id: str
    generation: int
    start: int
    end: int
    sha256: str

    def __str__(self) -> str:
        """Return it as a sentence."""
        whose = f" of {self.host} {self.session_id}" if self.session_id else ""
        return f"lost for good: bytes {self.start:,} to {self.end:,} of {self.source}{whose} ({self.path})"


class RawRepair(NamedTuple):
    """What became of damaged raw objects."""

    restored: list[str]
    lost: list[LostRange]

    def lines(self) -> list[str]:
        """Return it as sentences."""
        return [f"{path} was damaged: restored from its source" for path in self.restored] + [str(one) for one in self.lost]


def damaged(store: Store, *, deep: VerifiedFiles | None = None) -> list[tuple[str, str]]:
    """Return (object, what is wrong) of the raw objects that the ledger names; ``deep`` unpacks those that it does not know."""
    found = []
    for path, pieces in _by_path(store.ledger.segments()).items():
        try:
            status = os.stat(store.files.local(path))  # noqa: PTH116 - thousands of them
        except OSError as error:
            refused(error)
            found.append((path, "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"))
            continue
        if stat.S_ISDIR(status.st_mode):
            found.append((path, "is a folder"))
            continue
        size, stored = status.st_size, sum(piece.stored_bytes for piece in pieces)
        if deep is None:
            wrong = f"has {size} bytes, not {stored}" if size != stored else ""
        else:
            wrong = deep.wrong_with(path, partial(_contradicts, store, path, pieces), digest(sorted(map(_range_of, pieces)), size=16))
        if wrong:
            found.append((path, wrong))
    return found


def _contradicts(store: Store, path: str, pieces: list[Segment]) -> str:
    """Return what is wrong with an object, which is unpacked, or with what the ledger says of it."""
    try:
        origins = raw.read_checked(store.files, path)
    except RawLocked:
        raise
    except StoreError as error:
        return error.message.removeprefix(f"{path} ")
    return "" if set(map(_range_of, pieces)) <= set(map(_range_of, origins)) else "is not what the ledger says of it"


def _range_of(one: Segment | Origin) -> tuple[str, int, int, int, str]:
    return one.stream, one.generation, one.start, one.end, one.sha256


def note(store: Store, paths: Collection[str]) -> None:
    """Remember damaged raw objects: the next run restores them."""
    if sorted(paths) != noted_of(store).get(RAW, []):
        save_notes(store, {**noted_of(store), RAW: sorted(paths)})


def repair_noted(store: Store, settings: Settings) -> list[str]:
    """Repair the raw objects that were found damaged, and once a day all that are missing or of another size; return sentences."""
    noted = noted_of(store).get(RAW) or []
    paths = [path for path in noted if isinstance(path, str)]
    if _due(store):
        paths += [path for path, _ in damaged(store)]
        store.files.write(MARK, b"")
    if not paths:
        return []
    found = repair(store, settings, sorted({*paths}))
    note(store, ())
    return found.lines()


def _due(store: Store) -> bool:
    try:
        return time.time() - store.files.local(MARK).stat().st_mtime >= _AGAIN
    except FileNotFoundError:
        return True


def repair(store: Store, settings: Settings, paths: Collection[str]) -> RawRepair:
    """Restore raw objects from the files that they were read from, where these still hold the same bytes.

    What cannot be restored is written into the journal as lost, and the ledger is made anew
    from what is left: rows that were made of lost bytes stay as they are.
    """
    named = _by_path(store.ledger.segments())
    sources = store.ledger.sources_of({piece.stream for path in paths for piece in named.get(path, ())})
    restored, lost = [], []
    with store.ledger.lease(capture.LEASE):
        for path in sorted(paths):
            pieces = named.get(path, [])
            if not pieces:
                continue
            if not _contradicts(store, path, pieces):  # whole, but written again by a process that was killed before it said so
                store.ledger.repack(raw.rows_of(raw.read_origins(store.files, path), path, store.files.size(path)))
                continue
            source = sources.get(pieces[0].stream)
            if source is not None and _restore(store, path, pieces, source):
                restored.append(path)
            else:
                lost += [_lost(piece, source) for piece in pieces]
    if lost:
        from ctx_pipeline.pipeline.repair.rebuild import rebuild_ledger

        known = {tuple(fact.payload.values()) for fact in store.journal.facts(FACT)}
        store.journal.append_all(FACT, [one._asdict() for one in lost if tuple(one) not in known])
        rebuild_ledger(store, settings)
    return RawRepair(restored, lost)


def lost_ranges(store: Store) -> list[LostRange]:
    """Return the bytes that were lost and that raw does not hold again."""
    found = [LostRange(**fact.payload) for fact in store.journal.facts(FACT)]
    held = {(s.stream, s.sha256) for pieces in store.ledger.segments_of({one.stream for one in found}).values() for s in pieces}
    return [one for one in found if (one.stream, one.sha256) not in held]


def _restore(store: Store, path: str, pieces: list[Segment], source: Source) -> bool:
    """Write an object again if its source still holds exactly its bytes; the damaged one goes only then."""
    read = []
    try:
        with opened(source.path) as handle:
            for piece in pieces:
                data = os.pread(handle, piece.end - piece.start, piece.start)
                if source.marker or hashlib.sha256(data).hexdigest() != piece.sha256:
                    return False
                read.append((_origin(piece, source), data))
    except SourceError:
        return False
    aside = store.files.exists(path)
    if aside:
        raw.set_aside(store.files, path)
    rows = [raw.write_segment(store.files, *read[0])] if len(read) == 1 else raw.write_pack(store.files, read)
    if [row.path for row in rows] != [path] * len(rows):
        raise StoreDamaged(f"{path} is not named after its bytes", hint="ctx doctor --rebuild-ledger", path=path)
    store.ledger.repack(rows)
    if aside:
        store.files.remove(path + raw.ASIDE)
    return True


def _origin(piece: Segment, source: Source) -> Origin:
    return Origin(
        source.host,
        source.root,
        source.rel,
        source.kind,
        piece.stream,
        piece.generation,
        piece.start,
        piece.end,
        piece.sha256,
        piece.recorded_at,
        piece.mtime_ns,
    )


def _lost(piece: Segment, source: Source | None) -> LostRange:
    host, rel, session = (source.host, source.rel.rpartition("/")[2], source.session_id or "") if source is not None else ("", "", "")
    return LostRange(piece.path, host, piece.stream, rel, session, piece.generation, piece.start, piece.end, piece.sha256)


def _by_path(segments: Collection[Segment]) -> dict[str, list[Segment]]:
    found: dict[str, list[Segment]] = defaultdict(list)
    for segment in sorted(segments, key=_place):
        found[segment.path].append(segment)
    return found


def _place(segment: Segment) -> tuple[str, int, int]:
    return segment.path, segment.generation, segment.start
