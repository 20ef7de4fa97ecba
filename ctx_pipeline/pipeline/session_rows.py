"""Rows of one asset in one cell, kept session by session: what stays keeps its part, what changed gets a new one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import digest, rows_hash
from ctx_pipeline.storage.lake import Manifest
from ctx_pipeline.storage.lake.manifests import source_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.lake import Part

NEW, CHANGED, FORCED, OTHER_CODE = "new session", "changed session", "forced", "new code version"
"""Why the rows of a session are made."""

MOST_PARTS = 8
"""Parts of one table in a cell from which on the small ones are merged."""


ROWS_AT_ONCE = 30_000
"""Rows of an asset that wait in memory; what they are more is written as a part."""


class SessionRows:
    """The rows of an asset in a cell, by session.

    A session's rows stay while the ``key`` of what they are made of stays; the manifest
    keeps it beside a hash of the rows of each table and their number. A session without
    rows is kept as well. What is neither kept nor put is no part of the next commit.
    """

    def __init__(self, store: Store, asset: str, cell: Cell, tables: Sequence[str]) -> None:
        self._store, self.asset, self._cell, self._tables = store, asset, cell, tuple(tables)
        self.old = store.lake.manifest(asset, cell, sound=True)
        """the cell as it was, without the parts that cannot be trusted"""
        held = {(p.table, s) for p in self.old.parts for s in p.live} if self.old else set()
        self._before = {s: noted for s, noted in self.old.hashes.items() if self._whole(s, noted, held)} if self.old else {}
        self._now: dict[str, str] = {}
        self._made: dict[str, dict[str, Sequence[tuple]]] = {}
        """rows that wait to be written"""
        self._waiting = 0
        self._renewed: set[str] = set()
        """sessions whose rows are others than before"""
        self._parts: list[Part] = []
        """what is written of them"""
        self._why: dict[str, str] = {}
        self.recomputed: dict[str, int] = {}
        """why -> sessions whose rows were made, once they are written"""

    def _whole(self, session_id: str, noted: str, held: Collection[tuple[str, str]]) -> bool:
        """Tell whether a session is noted as this class notes it, and every table has its rows."""
        known = noted.count(" ") == 1 + len(self._tables)
        return known and all((t, session_id) in held for t, count in zip(self._tables, _counts(noted), strict=True) if count)

    def keep(self, session_id: str, key: str | None = None) -> bool:
        """Keep the rows of a session as they are where they were made of ``key``, without one in any case; tell whether there are such."""
        noted = self._before.get(session_id)
        if noted is None or (key is not None and noted.partition(" ")[0] != key):
            return False
        self._now[session_id] = noted
        return True

    def put(self, session_id: str, key: str, rows: Mapping[str, Sequence[tuple]]) -> None:
        """Make rows (table -> rows) those of a session; rows that are the same as before stay where they are."""
        members = [rows.get(table, ()) for table in self._tables]
        noted = " ".join([key, *(rows_hash(own)[:32] for own in members), ".".join(str(len(own)) for own in members)])
        before = self._before.get(session_id, "")
        self._why[session_id] = NEW if not before else FORCED if before.partition(" ")[0] == key else CHANGED
        self._now[session_id] = noted
        if before.partition(" ")[2] != noted.partition(" ")[2]:
            self._renewed.add(session_id)
            self._made[session_id] = {table: own for table, own in zip(self._tables, members, strict=True) if own}
            self._waiting += sum(map(len, members))
            if self._waiting > ROWS_AT_ONCE:
                self._flush()

    def noted(self, session_id: str) -> list[str]:
        """Return the key of a session and the hash of its rows in each table; none where it is neither kept nor put."""
        return self._now.get(session_id, "").split()[:-1]

    def rows(self, sessions: Collection[str], table: str) -> list[Any]:
        """Return the rows that sessions had before."""
        return self._store.lake.read_rows(table, self._cell, self.asset, sound=True, sessions=sessions) if sessions else []

    def write(self, *, code_version: str, input_fp: str) -> Manifest:
        """Write what did not stay and still waits as new parts, and the manifest of the cell."""
        lake = self._store.lake
        renewed = self.old is not None and self.old.code_version != code_version
        self.recomputed = dict(Counter(OTHER_CODE if renewed and why == CHANGED else why for why in self._why.values()))
        gone = {s for p in self.old.parts for s in p.live if s in self._renewed or s not in self._now} if self.old else set()
        parts = self._merged(self.old.without(gone, self._tables)) if self.old else []
        self._flush()
        parts += self._parts
        manifest = Manifest.of(
            self.asset,
            self._cell,
            parts,
            code_version=code_version,
            input_fp=input_fp,
            content_hash=digest(sorted((s, noted.partition(" ")[2]) for s, noted in self._now.items()), size=64),
            rows={table: n for at, table in enumerate(self._tables) if (n := sum(_counts(noted)[at] for noted in self._now.values()))},
            hashes=self._now,
        )
        lake.commit(self.asset, self._cell, manifest)
        return manifest

    def _flush(self) -> None:
        """Write the waiting rows as one part a table; nothing reads it before a manifest names it."""
        for table in self._tables:
            rows = [row for session in sorted(self._made) for row in self._made[session].get(table, ())]
            if rows:
                self._parts.append(self._store.lake.write_rows(self.asset, self._cell, table, rows))
        self._made, self._waiting = {}, 0

    def _merged(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts with those of a table that are mostly dead, and the small ones of too many, merged into one."""
        live = {p.path: sum(_counts(self._now[s])[self._tables.index(p.table)] for s in p.live) for p in parts}
        kept = list(parts)
        for table in self._tables:
            mine = sorted((p for p in parts if p.table == table), key=lambda p: (live[p.path], p.path))
            chosen = [p for p in mine if 2 * live[p.path] < p.rows]
            total = 0
            for part in mine if len(mine) >= MOST_PARTS else ():
                # sizes that double from part to part: each row is written again a few times, not with every run
                if total and live[part.path] > 2 * total:
                    break
                total += live[part.path]
                if part not in chosen:
                    chosen.append(part)
            if chosen:
                merged, _ = self._store.lake.compact(self.asset, self._cell, chosen, table)
                kept = [*(p for p in kept if p not in chosen), *merged]
        return kept


def commit(store: Store, made: Iterable[tuple[SessionRows, str, str]]) -> list[Manifest]:
    """Commit the cells of assets, each with its code version and the fingerprint of its input: manifests first, then the ledger."""
    # one wait for the disk instead of two for each of the assets
    with store.files.together():
        manifests = [rows.write(code_version=version, input_fp=made_of) for rows, version, made_of in made]
    for m in manifests:
        store.ledger.record_asset(
            m.asset, m.partition, input_fp=m.input_fp, code_version=m.code_version, content_hash=m.content_hash, rows=sum(m.rows.values())
        )
    return manifests


def _counts(noted: str) -> list[int]:
    """Return the number of rows in each table, as it is noted of a session."""
    return [int(n) for n in noted.rpartition(" ")[2].split(".")]


class SessionInputs:
    """The sessions of a cell, and hashes of the normalized rows of each."""

    def __init__(self, store: Store, cell: Cell) -> None:
        self._manifest = store.lake.manifest("normalized", cell)
        found = store.lake.read_rows("sessions", cell, "normalized") if self._manifest else []
        self.present = {row.session_id: row for row in found}
        """session -> its row in the table sessions"""
        self._threads: dict[str, list[Any]] = {}
        for row in store.lake.read_rows("threads", cell, "normalized") if self._manifest else []:
            self._threads.setdefault(row.session_id, []).append(row)

    def source(self, session_id: str) -> str:
        """Return what identifies the rows that a session's facts are made of."""
        threads = self._threads.get(session_id, ())
        return source_hash(self._manifest, self.present[session_id], threads) if self._manifest else ""

    def of(self, session_id: str, tables: Collection[str]) -> list[str]:
        """Return what identifies the rows of a session in some normalized tables."""
        row = self.present[session_id]
        found = [rows_hash([row]) if "sessions" in tables else row.content_hash]
        if "threads" in tables:
            found.append(rows_hash(sorted(self._threads.get(session_id, ()))))
        if "model_calls" in tables and self._manifest:
            found.append(self._manifest.hashes.get(session_id, ""))
        return found
