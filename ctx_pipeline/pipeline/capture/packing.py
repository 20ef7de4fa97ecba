"""Quiet generations are packed: many small raw objects become few.

A session that grew for hours leaves an object for every look at it. When nothing was
added for a week, the objects of a generation are joined; the segments stay what they
were, with their hashes and origins, so nothing is decoded again. The order makes a crash
harmless: the pack is durable, then the ledger names it, then the old objects go.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreError
from ctx_pipeline.storage.raw import segments as raw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import Segment

QUIET_DAYS = 7
"""Days without a new byte after which a generation is packed."""

MANY = 8
"""Objects of a generation from which on packing it is worth the work."""

PACK_BYTES = 32 << 20
"""Most bytes of a pack, unpacked: reading one piece of it reads all."""

MARK = "packed.txt"
"""Says when the store was last looked through."""

_MOST_PIECES = 1_000
_AGAIN = 86_400.0


def pack(store: Store, *, now: datetime | None = None, again: float = _AGAIN) -> int:
    """Join the raw objects of quiet generations and return how many fewer there are.

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
    store.files.write(MARK, f"{clock.isoformat()}\n".encode())
    return fewer


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
