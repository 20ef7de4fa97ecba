"""The ledger from raw alone: every object says where it came from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import RawLocked, StoreDamaged, StoreError
from ctx_pipeline.model.raw import Origin
from ctx_pipeline.storage.ledger import owners
from ctx_pipeline.storage.ledger.connection import json_list
from ctx_pipeline.storage.ledger.links import identify, read_hints
from ctx_pipeline.storage.ledger.rows import RAW_LOST, Hint, NormalizedSession, Segment, Source
from ctx_pipeline.storage.ledger.sessions import Sessions
from ctx_pipeline.storage.raw import segments as raw
from ctx_pipeline.storage.raw.home_files import EDGE, HEAD, edge_hash, is_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.storage.files import Files

_BATCH = 1_000
_LOST = "raw lost"
"""Stands for the fingerprint and the decoder of a session that cannot be decoded again."""


class Rebuilt(NamedTuple):
    """What a rebuild found in raw."""

    sources: int
    segments: int
    sessions: int
    damaged: list[tuple[str, str]]
    """(object, why it could not be used)"""
    contradicting: list[str]
    """of these the objects that can be read and are not what they say: no second look will help"""
    spare: list[str]
    """objects that another one holds already: left from a capture that died"""


class Kept(NamedTuple):
    """A session whose raw is lost and whose rows are kept."""

    host: str
    session_id: str
    month: str
    needs: list[tuple[str, int, int]]
    """(stream, generation, bytes) that raw must hold before it is decoded again"""
    content_hash: str
    counts: Mapping[str, Any]
    calls: list[tuple[str, int | None]]
    parent_session: str | None


class Rebuilding(Sessions):
    """The part of the ledger that can be lost without loss."""

    def rebuild(self, files: Files, *, hosts: Mapping[str, Host] | None = None, redact: Callable[[str], str] = str) -> Rebuilt:
        """Restore sources, segments, sessions and hints from the raw objects, into an empty ledger.

        Sources count as vanished until the next scan sees their files again. The values of
        hints go through ``redact``.
        """
        from ctx_pipeline import discovery

        known = discovery.hosts() if hosts is None else hosts
        chains, damaged, contradicting, spare = _chains(files)
        done = 0
        rows: list[Source] = []
        pieces: list[Segment] = []
        hints: list[Hint] = []
        for generations in chains.values():
            try:
                source, said, trouble = _source(files, generations, known, redact)
            except StoreDamaged as error:
                damaged.append((str(error.fields.get("path", "")), error.message))
                continue
            rows.append(source)
            own = [segment for chain in generations.values() for _, segment in chain]
            hints += said
            damaged += [(own[-1].path, trouble)] if trouble else []
            pieces += own
            done += 1
            if len(rows) >= _BATCH:
                self.commit_capture(rows, pieces, hints)
                rows, pieces, hints = [], [], []
        self.commit_capture(rows, pieces, hints)
        return Rebuilt(done, len(self.segments()), len(self.sessions()), damaged, contradicting, spare)

    def keep_lost(self, kept: Iterable[Kept]) -> None:
        """Make sessions whose raw is lost known by what was made of them before: a later run neither decodes nor drops them.

        What raw still holds of them belongs to them, wherever it would be placed by itself.
        As soon as raw holds all of a session again it is decoded like any other.
        """
        for one in kept:
            streams = json_list(sorted({stream for stream, _, _ in one.needs}))
            with self.transaction() as connection:
                connection.execute(
                    "INSERT INTO sessions (host, session_id, month, captured_fp) VALUES (?, ?, ?, ?)"
                    " ON CONFLICT(host, session_id) DO UPDATE SET month = excluded.month",
                    (one.host, one.session_id, one.month, _LOST),
                )
                connection.execute(
                    "UPDATE sources SET session_id = ?, month = ? WHERE host = ? AND stream IN (SELECT value FROM json_each(?))",
                    (one.session_id, one.month, one.host, streams),
                )
                counts = {**one.counts, RAW_LOST: [list(need) for need in one.needs]}
                row = NormalizedSession(
                    one.host, one.session_id, _LOST, one.content_hash, counts, calls=one.calls, parent_session=one.parent_session
                )
                owners.record(connection, [row], _LOST)
                connection.execute(
                    "UPDATE sessions SET captured_fp = ?, normalized_fp = ?, code_version = ? WHERE host = ? AND session_id = ?",
                    (_LOST, _LOST, _LOST, one.host, one.session_id),
                )
        with self.transaction() as connection:
            emptied = connection.execute(
                "SELECT host, session_id FROM sessions n WHERE captured_fp <> ? AND NOT EXISTS"
                " (SELECT 1 FROM sources s WHERE s.host = n.host AND s.session_id = n.session_id)",
                (_LOST,),
            ).fetchall()
            owners.drop_sessions(connection, emptied)

    def forget_rows(self, sessions: Iterable[tuple[str, str]]) -> None:
        """Let go of sessions whose raw is lost and whose rows are now lost as well."""
        with self.transaction() as connection:
            owners.drop_sessions(connection, list(sessions))

    def needs(self) -> dict[tuple[str, str], dict[tuple[str, int], int]]:
        """Return session -> (stream, generation) -> bytes that raw must hold for it."""
        found: dict[tuple[str, str], dict[tuple[str, int], int]] = {}
        for host, session, stream, generation, end in self.query(
            'SELECT s.host, s.session_id, g.stream, g.generation, max(g."end") FROM segments g JOIN sources s ON s.stream = g.stream'
            " WHERE s.session_id IS NOT NULL GROUP BY 1, 2, 3, 4"
        ):
            found.setdefault((host, session), {})[stream, generation] = end
        return found

    def stored_bytes(self) -> dict[tuple[str, int], int]:
        """Return (stream, generation) -> how many bytes of it raw holds without a gap."""
        rows = self.query('SELECT stream, generation, max("end") FROM segments GROUP BY 1, 2')
        return {(stream, generation): end for stream, generation, end in rows}


_Chain = list[tuple[Origin, Segment]]


def _chains(files: Files) -> tuple[dict[str, dict[int, _Chain]], list[tuple[str, str]], list[str], list[str]]:
    """Return stream -> generation -> objects that join without gap or overlap, the damaged, which of them contradict, and the spare."""
    found: dict[str, dict[int, _Chain]] = {}
    damaged: list[tuple[str, str]] = []
    contradicting: list[str] = []
    spare: list[str] = []
    for rel in files.walk("raw"):
        if rel.endswith(raw.ASIDE):
            continue
        try:
            origins = raw.read_checked(files, rel)
        except RawLocked:
            raise  # nothing can be said of it, least of all that it is damaged
        except StoreError as error:
            damaged.append((rel, error.message))
            if isinstance(error, StoreDamaged):
                contradicting.append(rel)
            continue
        for origin, segment in zip(origins, raw.rows_of(origins, rel, files.size(rel)), strict=True):
            found.setdefault(origin.stream, {}).setdefault(origin.generation, []).append((origin, segment))
    for stream in sorted(found):
        for generation in sorted(found[stream]):
            chain, left = _chain(found[stream][generation])
            found[stream][generation] = chain
            spare += left
        found[stream] = {generation: chain for generation, chain in sorted(found[stream].items()) if chain}
    return {stream: generations for stream, generations in sorted(found.items()) if generations}, damaged, contradicting, spare


def _chain(objects: _Chain) -> tuple[_Chain, list[str]]:
    """Return the objects that cover the most bytes from byte 0 on without overlap, and the names of the others."""
    starts: dict[int, _Chain] = {}
    for pair in objects:
        starts.setdefault(pair[1].start, []).append(pair)
    best: dict[int, _Chain] = {}
    for start in sorted(starts, reverse=True):
        options = [[pair, *best.get(pair[1].end, [])] if pair[1].end > start else [pair] for pair in starts[start]]
        best[start] = max(options, key=lambda chain: (chain[-1][1].end, len(chain)))
    chain = best.get(0, [])
    used = {segment.path for _, segment in chain}
    return chain, sorted({segment.path for _, segment in objects} - used)


def _source(
    files: Files, generations: dict[int, _Chain], hosts: Mapping[str, Host], redact: Callable[[str], str]
) -> tuple[Source, list[Hint], str]:
    """Return the source that these generations of one stream are of, what it says of threads, and what its host made of it in vain."""
    generation, chain = max(generations.items())
    origin, last = max((pair for pair in chain), key=lambda pair: pair[1].end)
    host = hosts.get(origin.host)
    database = host is not None and origin.kind in host.files.databases
    data = raw.read_stream(files, [segment for _, segment in chain]) if _whole(origin, database=database) or _hinting(host, origin) else b""
    captured = last.end
    lines = not _whole(origin, database=database)
    first = data or _bytes(files, chain[0][1])
    source = Source(
        stream=origin.stream,
        host=origin.host,
        root=origin.root,
        rel=origin.rel,
        kind=origin.kind,
        size=captured,
        mtime_ns=last.mtime_ns,
        inode=0,
        generation=generation,
        captured=captured,
        head_hash=edge_hash(_first(files, chain, first, EDGE)[: min(EDGE, captured)]),
        tail_hash=edge_hash(_last(files, chain)) if lines else hashlib.sha256(data).hexdigest(),
        marker="rebuilt" if database else "",
        state="vanished",
    )
    if host is None:
        return source, [], ""
    if origin.kind not in host.files.session_kinds:
        return source, *read_hints(host, origin.kind, origin.rel, data, stream=origin.stream, redact=redact)
    trouble = ""
    for _, pieces in sorted(generations.items(), reverse=True):
        newest = max(pieces, key=lambda pair: pair[1].end)[0]
        identity, wrong = identify(host, newest.kind, newest.rel, _first(files, pieces, b"", HEAD))
        trouble = trouble or wrong
        if identity is not None:
            return source._replace(**identity._asdict()), [], trouble
    return source, [], trouble


def _whole(origin: Origin, *, database: bool) -> bool:
    return database or not is_lines(origin.rel)


def _hinting(host: Host | None, origin: Origin) -> bool:
    return host is not None and origin.kind not in host.files.session_kinds


def _first(files: Files, chain: _Chain, known: bytes, size: int) -> bytes:
    data = known
    for _, segment in chain if len(known) < size else ():
        if segment.end > len(data):
            data = data[: segment.start] + _bytes(files, segment)
        if len(data) >= size:
            break
    return data[:size]


def _last(files: Files, chain: Iterable[tuple[Origin, Segment]]) -> bytes:
    data = b""
    for _, segment in sorted(chain, key=lambda pair: -pair[1].start):
        data = _bytes(files, segment) + data
        if len(data) >= EDGE:
            break
    return data[-EDGE:]


def _bytes(files: Files, segment: Segment) -> bytes:
    return next(raw.read_pieces(files, [segment]))
