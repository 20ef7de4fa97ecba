"""The lake: immutable Parquet parts of whole sessions, and one manifest a cell as the commit point."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.errors import StoreDamaged
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import FACTS, FACTS_ASSET, NORMALIZED, TABLES
from ctx_pipeline.storage.lake.manifests import (
    FOLDER,
    Damage,
    Manifest,
    Part,
    Soundness,
    asset_name,
    assets_of,
    damaged,
    decode_once,
    encode,
    manifest_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.storage.files import Files
    from ctx_pipeline.storage.lake.parquet_text import PageReader
    from ctx_pipeline.storage.lake.queries import LakeConnection
    from ctx_pipeline.storage.lake.reading import PartReader
    from ctx_pipeline.storage.verified import VerifiedFiles

__all__ = ["COMPACT_ABOVE", "Damage", "Lake", "LakeSnapshot", "Manifest", "Move", "Part"]

_NORMALIZED = "normalized"

ROW_GROUP = 2_000
PAGE_BYTES = 128 * 1024
PAGE_ROWS = 128
"""Pages are short, since a search unpacks one for each of its hits (docs/performance-log.md)."""
_LEVEL = 3
"""Of zstd: texts take a twentieth less than at the first one, for a tenth of a second over 80 MB of them."""

COMPACT_ABOVE = 100
"""Parts of one table in a cell above which they are merged."""

SWEEP_AFTER = 3600.0
"""Seconds for which a part that no manifest names is kept for its readers and writers."""


class Move(msgspec.Struct, frozen=True):
    """Rows that compaction moved: ``rows`` of them from one part's row to another's."""

    old: str
    old_row: int
    rows: int
    new: str
    new_row: int


class Lake:
    """Tables below ``lake/`` of a store."""

    def __init__(
        self,
        files: Files,
        *,
        recorded: Callable[[], set[Cell]] | None = None,
        derived: Callable[[], Iterable[tuple[str, Cell]]] | None = None,
        fence: Callable[[], None] | None = None,
    ) -> None:
        self._fence = fence
        """what raises where this process has lost the right to commit"""
        self._files = files
        self._soundness = Soundness(files)
        self._recorded = recorded
        """the cells that must have normalized tables"""
        self._derived = derived
        """for readers: the assets and cells that something was made of"""
        self._decoded: dict[str, tuple[tuple[int, int, int], Manifest]] = {}
        self._reader: PartReader | None = None
        self._page_reader: PageReader | None = None

    # writing

    def write_part(self, asset: str, cell: Cell, table: str, data: Sequence[Sequence[Any]] | pa.Table) -> Part:
        """Write columns (in table order) or an Arrow table as one content-named part and return it.

        Nothing reads it until a manifest names it. Raises ContractError for values that break the table.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        from ctx_pipeline.storage.lake.columns import arrow_table, runs_of

        declared = TABLES[table]
        arrow = data if isinstance(data, pa.Table) else arrow_table(declared, data)
        repeated = [c.name for c in declared.columns if c.repeated]
        others = [f"{c.name}.list.element" if c.type == "list" else c.name for c in declared.columns if not c.repeated]
        sink = pa.BufferOutputStream()
        pq.write_table(
            arrow,
            sink,
            # numbers of a dictionary are short as they are, and each start of the compressor costs as much as its work on them
            compression=dict.fromkeys(repeated, "none") | dict.fromkeys(others, "zstd"),
            compression_level=dict.fromkeys(others, _LEVEL),
            row_group_size=ROW_GROUP,
            use_dictionary=repeated,
            data_page_size=PAGE_BYTES,
            write_batch_size=PAGE_ROWS,
            write_statistics=[c.name for c in declared.columns if c.type in {"time", "int"}],
        )
        body = memoryview(sink.getvalue())
        manifest_path(asset, cell)
        path = f"lake/{table}/host={cell.host}/month={cell.month}/part-{hashlib.sha256(body).hexdigest()[:24]}.parquet"
        self._files.write(path, body)
        sessions = (
            tuple(dict.fromkeys(value for value, _, _ in runs_of(arrow.column("session_id")))) if "session_id" in declared.names else ()
        )
        return Part(table, path, arrow.num_rows, len(body), sessions, version=declared.version)

    def write_rows(self, asset: str, cell: Cell, table: str, rows: Sequence[tuple]) -> Part:
        """Write rows (tuples in table order) as one part."""
        from ctx_pipeline.storage.lake.columns import columns_of

        return self.write_part(asset, cell, table, columns_of(TABLES[table], rows))

    def commit(self, asset: str, cell: Cell, manifest: Manifest) -> None:
        """Make the manifest's parts the rows of its cell, at once and whole."""
        if self._fence is not None:
            self._fence()
        self._files.write(manifest_path(asset, cell), encode(self._soundness.noted(manifest)))

    def replace(
        self,
        asset: str,
        cell: Cell,
        rows: Mapping[str, Sequence[tuple]],
        *,
        code_version: str,
        input_fp: str,
        content_hash: str,
    ) -> Manifest:
        """Write whole tables of a cell anew, one part each, commit them and return the manifest."""
        parts = [self.write_rows(asset, cell, table, members) for table, members in rows.items() if members]
        manifest = Manifest.of(asset, cell, parts, code_version=code_version, input_fp=input_fp, content_hash=content_hash)
        self.commit(asset, cell, manifest)
        return manifest

    def drop(self, asset: str, cell: Cell) -> None:
        """Forget a cell of an asset; its parts go with the next sweep."""
        self._files.remove(manifest_path(asset, cell))

    def compact(self, asset: str, cell: Cell, parts: Sequence[Part], table: str) -> tuple[tuple[Part, ...], list[Move]]:
        """Return the parts with those of one table merged into one without dead rows, and where its rows went.

        Nothing is committed.
        """
        import pyarrow as pa

        from ctx_pipeline.storage.lake.columns import newest, of_used_values, plain, values_of
        from ctx_pipeline.storage.lake.reading import open_part

        session = next(c for c in TABLES[table].columns if c.name == "session_id")
        pieces: list[pa.Table] = []
        runs: list[tuple[str, int, int]] = []
        for part in (p for p in parts if p.table == table):
            dead = set(part.dead)
            with open_part(self._trusted(part.path)) as file:
                arrow = plain(TABLES[table], newest(TABLES[table], file.read(use_threads=False), TABLES[table].names))
            for start, end in _live_runs(values_of(session, arrow.column("session_id")), dead):
                pieces.append(arrow.slice(start, end - start))
                runs.append((part.path, start, end - start))
        merged = self.write_part(asset, cell, table, of_used_values(pa.concat_tables(pieces)))
        moves = []
        at = 0
        for path, start, count in runs:
            moves.append(Move(path, start, count, merged.path, at))
            at += count
        return (*(p for p in parts if p.table != table), merged), moves

    def collect_garbage(
        self,
        cells: Iterable[Cell] | None = None,
        *,
        older_than: float = SWEEP_AFTER,
        since: float = 0.0,
        keep: Collection[str] = (),
    ) -> int:
        """Remove the parts, of all cells or these, that no manifest names and return how many.

        Those of the last ``older_than`` seconds stay, those written before the time ``since``, and the paths to ``keep``.
        """
        if cells is None:
            folders = ["lake"]
            manifests = [m for name in self._assets() for m in self._stored(name)]
        else:
            wanted = sorted(set(cells))
            folders = [f"lake/{table}/host={cell.host}/month={cell.month}" for table in TABLES for cell in wanted]
            manifests = [m for name in self._assets() for cell in wanted if (m := self._load(manifest_path(name, cell))) is not None]
        named = {p.path for m in manifests for p in m.parts}.union(keep)
        limit = time.time() - older_than
        removed = 0
        for rel in [name for folder in folders for name in self._files.walk(folder)]:
            if rel.startswith(FOLDER) or rel in named:
                continue
            try:
                stale = since < self._files.local(rel).stat().st_mtime <= limit
            except FileNotFoundError:
                continue
            if stale:
                self._files.remove(rel)
                removed += 1
        return removed

    # reading

    def manifest(self, asset: str, cell: Cell, *, sound: bool = False) -> Manifest | None:
        """Return the committed manifest of a cell, None when there is none; raises StoreDamaged for one that is lost or cannot be read.

        With ``sound`` there is none where it cannot be read, and of one that can be the
        parts that can be trusted: what a stage goes on from that makes the cell anew.
        """
        rel = manifest_path(asset, cell)
        if sound:
            return self._sound(rel)
        found = self._load(rel)
        if found is None and asset_name(asset) == _NORMALIZED:
            self._demand({cell})
        return found

    def manifests(self, asset: str, *, sound: bool = False) -> dict[Cell, Manifest]:
        """Return every committed manifest of an asset by cell, in order; ``sound`` as for :meth:`manifest`."""
        name = asset_name(asset)
        if sound:
            found = [m for rel in self._names(name) if (m := self._sound(rel)) is not None]
        else:
            found = self._stored(name)
            if name == _NORMALIZED:
                self._demand(None)
        return {m.partition: m for m in found}

    def damages(self, asset: str | None = None, *, deep: VerifiedFiles | None = None) -> list[Damage]:
        """Return the manifests and parts, of one asset or all, that are damaged or missing; ``deep`` reads those it knows not."""
        found: list[Damage] = []
        for name in self._assets() if asset is None else [asset_name(asset)]:
            for rel in self._names(name):
                try:
                    manifest = self._load(rel)
                except StoreDamaged as error:
                    found.append(Damage(rel, error.message.removeprefix(f"{rel} "), rel))
                    continue
                parts = manifest.parts if manifest is not None else ()
                found += [Damage(p.path, what, rel, p) for p in parts if (what := self._soundness.what_is_wrong(p, deep=deep))]
        return found

    def renote(self) -> None:
        """Note the times of parts that are what they were and lie in another file now: a copy of the store was put back."""
        for name in self._assets():
            for rel in self._names(name):
                manifest = self._load(rel)
                if manifest is not None and (noted := self._soundness.renoted(manifest)) is not manifest:
                    self._files.write(rel, encode(noted))

    def cells(self, asset: str) -> set[Cell]:
        """Return the cells of which an asset has a manifest, without reading one."""
        names = _entries(self._files.place(f"{FOLDER}/{asset_name(asset)}"))
        return {Cell(*name.removesuffix(".json").split("=")) for name in names if name.endswith(".json")}

    def parts(self, table: str, cells: Iterable[Cell] | None = None) -> list[Part]:
        """Return the committed parts of a table, of all assets that write it; raises StoreDamaged where one cannot be trusted."""
        wanted = None if cells is None else set(cells)
        if table in NORMALIZED:
            self._demand(wanted)
        elif self._derived is not None:
            self._demand_derived(table, wanted)
        found = [part for name in assets_of(table, self._assets()) for m in self._stored(name, wanted) for part in m.of_table(table)]
        for part in found:
            self._soundness.demand(part.path, part)
        return found

    def demand(self, table: str) -> None:
        """Raise StoreDamaged where a committed part of a table cannot be trusted."""
        self.parts(table)

    def relation_sql(self, table: str, cells: Iterable[Cell] | None = None, *, sessions: Collection[str] | None = None) -> str:
        """Return a DuckDB SELECT over exactly the live rows of a table, typed even when there is none.

        With ``sessions`` parts that hold no live row of one of them are left out.
        """
        return self.relation_of(table, self.parts(table, cells), sessions=sessions)

    def relation_of(self, table: str, parts: Iterable[Part], *, sessions: Collection[str] | None = None) -> str:
        """Return what :meth:`relation_sql` does, over these parts of a table."""
        from ctx_pipeline.storage.lake.queries import relation

        if sessions is not None:
            wanted = set(sessions)
            # what lives in a part is worked out for the few that hold one of them at all
            parts = [p for p in parts if not wanted.isdisjoint(p.sessions) and not wanted.isdisjoint(p.live)]
        return relation(TABLES[table], [(self._files.place(p.path), p) for p in parts])

    def snapshot(self) -> LakeSnapshot:
        """Return the tables of the lake as each is when it is first asked for."""
        return LakeSnapshot(self)

    def connect(self) -> LakeConnection:
        """Return a DuckDB connection in memory: 2 threads, files below the store only, no extensions."""
        from ctx_pipeline.storage.lake.queries import connect

        return connect(self._files.root)

    def views(
        self,
        connection: LakeConnection,
        tables: Iterable[str] = TABLES,
        *,
        cells: Iterable[Cell] | None = None,
        sessions: Collection[str] | None = None,
    ) -> None:
        """Register one view for each of these tables over what is committed now.

        With ``cells`` they hold the rows of these partitions alone; with ``sessions`` they may lack the rows of all others.

        A table that cannot be trusted raises StoreDamaged when it is asked. Naming the
        tables that a query needs saves reading the manifests of the others.
        """
        from ctx_pipeline.storage.lake.queries import refusal

        for name in tables:
            try:
                sql = self.relation_sql(name, cells, sessions=sessions)
            except StoreDamaged as error:
                sql = refusal(TABLES[name], error)
            connection.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS {sql}')

    def read_sessions(
        self,
        cell: Cell,
        session_ids: Collection[str] | None = None,
        tables: Collection[str] = ("events", "tool_calls"),
        columns: Mapping[str, Sequence[str]] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[SessionView]:
        """Yield the sessions of a cell as views; only the tables and columns asked for are read.

        ``columns`` maps a table to column names; the others are None in its rows. With
        ``kinds`` only events of these kinds are in the views. A fact table that was not
        made of a session's present rows is left out of its view, which then holds what
        the facts are worked out from.
        """
        from ctx_pipeline.storage.lake.reading import sessions_of

        manifest = self.manifest("normalized", cell)
        if manifest is not None:
            facts = self._whole(manifest_path(FACTS_ASSET, cell)) if FACTS.keys() & set(tables) else None
            yield from sessions_of(
                manifest, self._trusted, session_ids=session_ids, tables=tables, columns=columns or {}, kinds=kinds, facts=facts
            )

    def read_rows(
        self,
        table: str,
        cell: Cell,
        asset: str | None = None,
        *,
        sound: bool = False,
        sessions: Collection[str] | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Any]:
        """Return the live rows of a table of one cell as named tuples (of one asset, or of all that write it).

        With ``sessions`` only theirs, with ``names`` only these columns; the others are None. ``sound`` as for :meth:`manifest`.
        """
        from ctx_pipeline.storage.lake.columns import rows_of
        from ctx_pipeline.storage.lake.reading import read_part

        manifest = self.manifest(asset, cell, sound=sound) if asset else None
        parts = self.parts(table, [cell]) if asset is None else manifest.of_table(table) if manifest else ()
        if sessions is not None:
            parts = [p for p in parts if not sessions.isdisjoint(p.live)] if (sessions := set(sessions)) else []
        declared = TABLES[table]
        return [row for p in parts for row in rows_of(declared, read_part(self._trusted(p.path), p, names or declared.names, sessions))]

    def read_arrow(self, part: Part, names: Sequence[str] | None = None) -> pa.Table:
        """Return the live rows of a part as an Arrow table, all columns or some."""
        from ctx_pipeline.storage.lake.reading import read_part

        return read_part(self._trusted(part.path), part, names or TABLES[part.table].names)

    def scan(self, path: str, table: str, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the named columns of every row of a part, dead rows too, in the order of the table."""
        from ctx_pipeline.storage.lake.columns import newest, values_of
        from ctx_pipeline.storage.lake.reading import open_part, reading

        with reading(path), open_part(self._trusted(path)) as file:
            arrow = newest(TABLES[table], file.read(columns=list(names), use_threads=False), names)
        yield from zip(*(values_of(c, arrow.column(c.name)) for c in TABLES[table].columns if c.name in names), strict=True)

    @property
    def reader(self) -> PartReader:
        """Reader of single rows, with open files kept."""
        from ctx_pipeline.storage.lake.reading import PartReader

        if self._reader is None:
            self._reader = PartReader(self._trusted_or_gone)
        return self._reader

    @property
    def page_reader(self) -> PageReader:
        """Reader of single events that does without Arrow."""
        from ctx_pipeline.storage.lake.parquet_text import PageReader

        if self._page_reader is None:
            self._page_reader = PageReader(self._files.local)
        return self._page_reader

    def local(self, path: str) -> Path:
        """Return where a part lies on disk."""
        return self._files.local(path)

    def pages(self, path: str) -> bytes:
        """Return where the pages of a part of events lie, for :class:`PageReader`; empty where they are of another make."""
        from ctx_pipeline.storage.lake.parquet_text import noted

        return noted(self._files.local(path))

    def _assets(self) -> list[str]:
        return sorted(_entries(self._files.place(FOLDER), folders=True))

    def _names(self, name: str) -> list[str]:
        folder = f"{FOLDER}/{name}"
        return sorted(f"{folder}/{file}" for file in _entries(self._files.place(folder)) if file.endswith(".json"))

    def _stored(self, name: str, cells: Collection[Cell] | None = None) -> list[Manifest]:
        names = self._names(name) if cells is None else [manifest_path(name, cell) for cell in sorted(cells)]
        return [m for m in map(self._load, names) if m is not None]

    def _demand(self, cells: Collection[Cell] | None) -> None:
        """Raise StoreDamaged where a cell (of these) has tables, as the ledger says, and no manifest."""
        if self._recorded is None or (cells is not None and not cells):
            return
        lost = self._recorded() - self.cells(_NORMALIZED)
        for cell in sorted(lost if cells is None else lost & set(cells)):
            raise damaged(manifest_path(_NORMALIZED, cell), "is missing")

    def _demand_derived(self, table: str, cells: Collection[Cell] | None) -> None:
        """Raise StoreDamaged where an asset that writes a table was made, as the ledger says, and has no manifest."""
        there: dict[str, set[Cell]] = {}
        for asset, cell in self._derived() if self._derived is not None else ():
            if (cells is None or cell in cells) and assets_of(table, [asset_name(asset)]):
                if asset not in there:
                    there[asset] = self.cells(asset)
                if cell not in there[asset]:
                    raise damaged(manifest_path(asset, cell), "is missing")

    def _trusted(self, path: str) -> Path:
        """Return where a part lies on disk; raises StoreDamaged where it is missing or not what its manifest or its name says."""
        self._soundness.demand(path)
        return self._files.local(path)

    def _trusted_or_gone(self, path: str) -> Path | None:
        """Return where a part lies on disk; None for one that is gone, as the search names parts that were merged meanwhile."""
        return self._trusted(path) if self._files.exists(path) else None

    def _sound(self, rel: str) -> Manifest | None:
        try:
            found = self._load(rel)
        except StoreDamaged:
            return None
        if found is None:
            return None
        parts = tuple(part for part in found.parts if not self._soundness.what_is_wrong(part))
        return found if len(parts) == len(found.parts) else msgspec.structs.replace(found, parts=parts)

    def _whole(self, rel: str) -> Manifest | None:
        """Return a manifest that can be trusted with all its parts, None for any other."""
        found = self._sound(rel)
        return found if found is not None and found is self._load(rel) else None

    def _load(self, rel: str) -> Manifest | None:
        try:
            status = os.stat(self._files.place(rel))  # noqa: PTH116 - thousands of times a run
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(status.st_mode):  # the file is missing, and is written again
            return None
        stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
        known = self._decoded.get(rel)
        if known is None or known[0] != stamp:
            known = self._decoded[rel] = (stamp, decode_once(self._files, rel, stamp))
            self._soundness.know(known[1])
        return known[1]


class LakeSnapshot:
    """The tables of a lake, each as it was at the first look, whatever is committed meanwhile: its parts are looked at once."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._parts: dict[str, list[Part]] = {}

    def parts(self, table: str) -> list[Part]:
        """Return the committed parts of a table; raises StoreDamaged where one cannot be trusted."""
        if table not in self._parts:
            self._parts[table] = self._lake.parts(table)
        return self._parts[table]

    def relation_sql(self, table: str, *, sessions: Collection[str] | None = None) -> str:
        """Return what :meth:`Lake.relation_sql` does."""
        return self._lake.relation_of(table, self.parts(table), sessions=sessions)


def _entries(folder: str, *, folders: bool = False) -> list[str]:
    """Return the names of the files in a folder, of its ``folders`` if asked; none where it is none."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir() is folders]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _live_runs(sessions: Sequence[str], dead: set[str]) -> Iterator[tuple[int, int]]:
    """Yield the row ranges whose sessions are alive."""
    start = None
    for row, session in enumerate(sessions):
        if session in dead:
            if start is not None:
                yield start, row
                start = None
        elif start is None:
            start = row
    if start is not None:
        yield start, len(sessions)
