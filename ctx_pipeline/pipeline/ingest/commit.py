"""After decoding: ownership, whole cells, and the commit of what kept the contract.

Nothing is committed before all changed sessions of the pass are decoded, so a cell is
a function of its sessions and not of their order.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import ContractError
from ctx_pipeline.model.codec import digest, rows_hash
from ctx_pipeline.model.tables import MODEL_CALLS, NORMALIZED, SESSIONS
from ctx_pipeline.pipeline.reports import DONE, CellReport, table_version
from ctx_pipeline.storage.lake import COMPACT_ABOVE, Manifest, Part
from ctx_pipeline.storage.lake.columns import arrow_table, columns_of, of_used_values, rows_of, runs_of
from ctx_pipeline.storage.ledger import NormalizedSession
from ctx_pipeline.storage.ledger.rows import LIVE_SECRETS, REPEATED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline.ingest.pool import Pool
    from ctx_pipeline.pipeline.ingest.worker import SessionDone
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import SessionRow


def parted(store: Store, old: Manifest, kept: Collection[str], as_they_are: Collection[str]) -> tuple[pa.Table | None, list[Any]]:
    """Return the calls of sessions that stay as they are, and the rows of the other kept ones.

    A session with a copy is never left as it is: its call may have lost its other holder.
    """
    import pyarrow as pa

    tables = [store.lake.read_arrow(part) for part in old.of_table("model_calls")]
    if not tables:
        return None, []
    calls = pa.concat_tables(tables)
    owners = calls.column("owner").to_pylist()
    runs = list(runs_of(calls.column("session_id")))
    copied = {session for session, first, end in runs if not all(owners[first:end])}
    same = set(as_they_are) - copied
    # slices, since a filter imports pyarrow.compute, which takes a tenth of a sync
    stay = [calls.slice(first, end - first) for session, first, end in runs if session in same]
    others = [calls.slice(first, end - first) for session, first, end in runs if session in kept and session not in same]
    return _joined(calls, stay), list(rows_of(MODEL_CALLS, _joined(calls, others)))


def _joined(calls: pa.Table, pieces: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(pieces) if pieces else calls.slice(0, 0)


def written(store: Store, cell: Cell, same: pa.Table, rows: Sequence[tuple]) -> Part | ContractError:
    """Write the calls that stay and the rows as one part; return why not when a row breaks the table."""
    import pyarrow as pa

    try:
        fresh = arrow_table(MODEL_CALLS, columns_of(MODEL_CALLS, rows))
        return store.lake.write_part("normalized", cell, "model_calls", of_used_values(pa.concat_tables([same, fresh])))
    except ContractError as error:
        return error


LARGE = ("events", "tool_calls")
ASSET = "normalized"
RAW = "raw/segments"

_S = {name: place for place, name in enumerate(SESSIONS.names)}
_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_THREAD_SESSION = 2
_COPY = " | copy: "
"""Stands in ``rule`` between what the parser said of a row and why another session owns its call."""


@dataclass(slots=True)
class Decoded:
    """What a pass decoded in one cell."""

    sessions: dict[str, SessionDone] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0


class Place(NamedTuple):
    """What the ledger says of a cell."""

    fingerprint: str
    sessions: tuple[SessionRow, ...]

    @property
    def raw_hash(self) -> str:
        """Content hash of what raw holds of the cell."""
        return digest([(s.session_id, s.captured_fp) for s in self.sessions])


@dataclass(slots=True)
class Ready:
    """A cell whose rows are made and not yet committed."""

    partition: Cell
    place: Place
    old: Manifest | None
    changed: frozenset[str]
    parts: list[Part]
    """what is on disk of it"""
    rows: dict[str, list[tuple]]
    """sessions and threads; nothing any more once they are written"""
    same_calls: pa.Table | None
    """model calls of unchanged sessions, as they are on disk"""
    calls: dict[str, Iterable[tuple]]
    """session -> its model calls; without those that are written"""
    copies: Mapping[tuple[str, str], Any]
    hashes: dict[str, str]
    """session -> hash of its model calls"""
    content: dict[str, str]
    """table -> hash of its rows, and under "" that of them all"""
    counts: dict[str, int]
    """table -> number of its rows"""

    def pieces(self, most: int | None = None) -> Iterator[list[tuple]]:
        """Yield the model calls of whole sessions, in order and with their owners, about so many or all at a time."""
        rows: list[tuple] = []
        for session in sorted(self.calls):
            mine = _owned(sorted(self.calls.pop(session), key=itemgetter(_C["call_key"])), self.copies)
            if mine:
                self.hashes[session] = rows_hash(mine)
            rows += mine
            if most is not None and len(rows) >= most:
                yield rows
                rows = []
        if rows:
            yield rows


def priced_otherwise(store: Store, prices: str) -> set[Cell]:
    """Return the cells whose calls were not priced by this version of the prices."""
    return {cell for cell, m in store.lake.manifests(ASSET, sound=True).items() if m.code_version.rpartition("+")[2] != prices}


def record(store: Store, decoded: Mapping[Cell, Decoded], decoders: Mapping[str, str]) -> set[Cell]:
    """Record the decoded sessions of the cells that are not held; return the cells whose calls changed owner or sessions title.

    A session whose streams are not those that the ledger gives it now stays dirty: the next pass decodes it.
    """
    fingerprints = {(s.host, s.session_id): s for s in store.ledger.sessions(cells=decoded)}
    wanted = [done for group in decoded.values() if not group.error for done in group.sessions.values()]
    streams = store.ledger.streams_of((d.host, d.session_id) for d in wanted)
    results: dict[str, list[NormalizedSession]] = {}
    for cell, group in decoded.items():
        for session_id, done in list(group.sessions.items()):
            row = fingerprints.get((done.host, session_id))
            now = {s.stream for s in streams.get((done.host, session_id), ()) if s.captured or s.generation}
            if row is None or row.partition != cell or now != done.streams:
                del group.sessions[session_id]
            elif not group.error:
                results.setdefault(done.host, []).append(_normalized(done, row.captured_fp))
    changed: set[Cell] = set()
    for host, members in results.items():
        changed |= store.ledger.record_normalized(members, code_version=decoders[host])
    return changed


def prepare(store: Store, cell: Cell, group: Decoded, place: Place, prices: PriceBook | None) -> Ready:
    """Return all rows of a cell: those of unchanged sessions from its manifest, the others as decoded.

    With ``prices`` the calls of unchanged sessions are priced anew.
    """
    old = store.lake.manifest(ASSET, cell, sound=True)
    present = {s.session_id for s in place.sessions}
    new = {session: done for session, done in group.sessions.items() if session in present}
    before = {s for p in old.of_table("sessions") for s in p.live} if old else set()
    kept = (before & present) - new.keys()
    rows: dict[str, list[tuple]] = {"sessions": [], "threads": []}
    copies = store.ledger.copies(cell)
    same, hashes = None, {}
    calls: dict[str, Iterable[tuple]] = {}
    if kept and old:
        rows["sessions"] = [tuple(r) for r in store.lake.read_rows("sessions", cell, ASSET, sound=True) if r[_S["session_id"]] in kept]
        rows["threads"] = [tuple(r) for r in store.lake.read_rows("threads", cell, ASSET, sound=True) if r[_THREAD_SESSION] in kept]
        shared = {session for session, _ in copies}
        as_they_are = set() if prices else {s for s in kept & old.hashes.keys() if s not in shared}
        same, others = parted(store, old, kept, as_they_are)
        others = [tuple(r) for r in others]
        if prices is not None:
            costs = prices.cost_rows(others)
            at = _C["cost"]
            others = [(*r[:at], *cost, *r[at + 2 :]) for r, cost in zip(others, costs, strict=True)]
        calls = {session: list(group) for session, group in groupby(others, key=itemgetter(_C["session_id"]))}
        hashes = {s: h for s, h in old.hashes.items() if s in as_they_are - calls.keys()}
    for done in new.values():
        rows["sessions"].append(done.session)
        rows["threads"] += done.threads
        calls[done.session_id] = done.model_calls
    rows["sessions"] = _titled(rows["sessions"], place.sessions)
    rows["sessions"].sort(key=itemgetter(_S["session_id"]))
    rows["threads"].sort(key=itemgetter(_THREAD_SESSION, 0))
    gone = {s for p in (old.parts if old else ()) for s in p.sessions} - kept
    large = [*(old.without(gone, LARGE) if old else ()), *_alive(group.parts, new)]
    bodies = digest([(row[_S["session_id"]], row[_S["content_hash"]]) for row in rows["sessions"]], size=64)
    content = {"events": bodies, "tool_calls": bodies} | {name: rows_hash(rows[name]) for name in rows}
    counts = {name: sum(row[_S[name]] for row in rows["sessions"]) for name in (*LARGE, "model_calls")}
    counts |= {name: len(rows[name]) for name in rows}
    return Ready(cell, place, old, frozenset(new), large, rows, same, calls, copies, hashes, content, counts)


_CALLS_AT_ONCE = 100_000
"""Model calls whose rows are in memory before they are written: some seventy megabytes of them."""


def write(store: Store, pool: Pool, ready: Iterable[Ready]) -> tuple[list[Ready], dict[Cell, str]]:
    """Write the small tables of the cells; return those that kept the contract, and why the others did not.

    A part of the model calls is written before the next ones are unpacked, however many a cell has.
    """
    good: list[Ready] = []
    bad: dict[Cell, str] = {}
    batch: list[tuple[Ready, str, list[tuple]]] = []
    size = 0

    def add(one: Ready, part: Part | ContractError) -> None:
        if isinstance(part, ContractError):
            bad.setdefault(one.partition, part.message)
        else:
            one.parts.append(part)

    def flush() -> None:
        parts = pool.write([(one.partition, name, rows) for one, name, rows in batch])
        for (one, _, _), part in zip(batch, parts, strict=True):
            add(one, part)
        batch.clear()

    for one in ready:
        batch += [(one, name, rows) for name, rows in one.rows.items() if rows]
        one.rows = {}
        if one.same_calls is not None:
            add(one, written(store, one.partition, one.same_calls, next(one.pieces(), [])))
            one.same_calls = None
        for rows in one.pieces(_CALLS_AT_ONCE):
            batch.append((one, "model_calls", rows))
            size += len(rows)
            if size >= _CALLS_AT_ONCE:
                flush()
                size = 0
        one.content["model_calls"] = digest(sorted(one.hashes.items()), size=64)
        one.content[""] = digest(sorted(one.content.items()), size=64)
        good.append(one)
    flush()
    return [one for one in good if one.partition not in bad], bad


def compact(store: Store, one: Ready) -> None:
    """Merge the parts of a large table of a cell when they are many; the search follows its rows."""
    for table in LARGE:
        if sum(p.table == table for p in one.parts) > COMPACT_ABOVE:
            merged, moves = store.lake.compact(ASSET, one.partition, one.parts, table)
            one.parts = list(merged)
            if table == "events":
                store.search.move(moves)
                for path in {move.new for move in moves}:
                    store.search.note_pages(path, store.lake.pages(path))


def tombstone(store: Store, good: Sequence[Ready], held: Mapping[Cell, Decoded]) -> None:
    """Make the search forget replaced and vanished sessions of committed cells, and the new rows of held ones."""
    for one in good:
        paths: dict[str, set[str]] = {}
        for part in one.parts:
            for session in part.live if part.table == "events" else ():
                paths.setdefault(session, set()).add(part.path)
        for session in one.changed:
            store.search.tombstone(one.partition.host, [session], keep=paths.get(session, ()))
        before = one.old.of_table("events") if one.old else ()
        gone = {s for p in before for s in p.live} - paths.keys()
        store.search.tombstone(one.partition.host, gone, only={p.path for p in before})
        for part in one.parts:
            store.search.tombstone(one.partition.host, part.dead, only={part.path})
    for cell, group in held.items():
        manifest = store.lake.manifest(ASSET, cell, sound=True)
        kept = {p.path for p in manifest.parts} if manifest else set()
        store.search.tombstone(cell.host, {s for p in group.parts for s in p.sessions}, only={p.path for p in group.parts} - kept)


def commit(store: Store, one: Ready, decoder: str, prices: str) -> CellReport:
    """Make the cell's parts its rows and record its five assets; a cell without sessions is dropped.

    Where a session's rows are still those of another decoder, the cell is of none: it is stale for every one.
    """
    began = time.perf_counter()
    cell = one.partition
    made_by = decoder if all(s.session_id in one.changed or s.code_version == decoder or s.raw_lost for s in one.place.sessions) else ""
    content, counts = one.content, one.counts
    if counts["sessions"]:
        manifest = Manifest.of(
            ASSET,
            cell,
            one.parts,
            code_version=table_version(f"{ASSET}/model_calls", made_by, prices),
            input_fp=one.place.fingerprint,
            content_hash=content[""],
            rows=counts,
            hashes=one.hashes,
        )
        store.lake.commit(ASSET, cell, manifest)
    else:
        store.lake.drop(ASSET, cell)
    tables = NORMALIZED[::-1]  # events last: the ledger asks them whether a cell is finished
    if one.place.sessions:
        for name in tables:
            asset = f"{ASSET}/{name}"
            version = table_version(asset, made_by, prices)
            made = one.changed if name == tables[-1] else ()
            store.ledger.record_asset(asset, cell, one.place.fingerprint, version, content[name], counts[name], decoded=made)
    else:
        for asset in (RAW, *(f"{ASSET}/{name}" for name in tables)):
            store.ledger.forget_asset(asset, [cell])
    again = {f"{ASSET}/{name}": {"new or changed session": len(one.changed)} for name in tables}
    return CellReport(DONE, {**counts, "parsed": len(one.changed)}, content[""], time.perf_counter() - began, recomputed=again)


def _owned(rows: Iterable[tuple], copies: Mapping[tuple[str, str], Any]) -> list[tuple]:
    """Return the calls with owner, copy_of and rule as the ledger decides; rows that a parser marked as copies stay."""
    at = _C["owner"]
    settled = []
    for row in rows:
        rule, mark, _ = row[at + 2].partition(_COPY)
        if not row[at] and not mark:
            settled.append(row)
            continue
        owner = copies.get((row[_C["session_id"]], row[_C["call_key"]]))
        if owner is None:
            settled.append(row if row[at] else (*row[:at], True, None, rule, *row[at + 3 :]))
        else:
            settled.append((*row[:at], False, owner[0], f"{rule}{_COPY}{owner[1]}", *row[at + 3 :]))
    return settled


def _titled(rows: Iterable[tuple], sessions: Iterable[SessionRow]) -> list[tuple]:
    """Return the sessions with the titles that the ledger has: their own, or one that another session's file gives them."""
    at = _S["title"]
    shown = {s.session_id: (s.rows["title"], s.rows["title_source"]) for s in sessions if "title_source" in s.rows}
    return [(*row[:at], *shown.get(row[_S["session_id"]], row[at : at + 2]), *row[at + 2 :]) for row in rows]


def _alive(parts: Iterable[Part], sessions: Collection[str]) -> tuple[Part, ...]:
    """Return the new parts, with sessions that do not belong to the cell any more as dead."""
    from msgspec.structs import replace

    found = []
    for part in parts:
        dead = tuple(s for s in part.sessions if s not in sessions)
        if len(dead) < len(part.sessions):
            found.append(replace(part, dead=dead) if dead else part)
    return tuple(found)


def _own_calls(rows: Iterable[tuple]) -> Iterator[tuple[str, int | None]]:
    """Yield key and time of the calls that a session may own; a session's rows are unpacked when they are asked for."""
    owner, ts, key = _C["owner"], _C["ts"], _C["call_key"]
    yield from ((row[key], row[ts]) for row in rows if row[owner])


def _normalized(done: SessionDone, fingerprint: str) -> NormalizedSession:
    counts: dict[str, Any] = {name: done.session[_S[name]] for name in REPEATED}
    if done.live_secrets:
        counts[LIVE_SECRETS] = list(done.live_secrets)
    return NormalizedSession(
        host=done.host,
        session_id=done.session_id,
        fingerprint=fingerprint,
        content_hash=done.content_hash,
        counts=counts,
        quarantine=done.quarantined,
        unknowns=done.unknown,
        calls=_own_calls(done.model_calls),
        parent_session=done.parent_session,
        line_ids=done.line_ids,
        branch_titles=done.branch_titles,
    )
