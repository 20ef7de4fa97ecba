"""Sessions and single rows out of the parts, reading only the columns that are asked for."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from contextlib import contextmanager
from functools import cache
from itertools import accumulate, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreDamaged, StoreError, scarce
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import FACTS, TABLES
from ctx_pipeline.storage.lake.columns import newest, rows_of, runs_of
from ctx_pipeline.storage.lake.manifests import SOURCE_COLUMNS, damaged, source_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.parquet as pq

    from ctx_pipeline.model.tables import Table
    from ctx_pipeline.storage.lake.manifests import Manifest, Part

_LARGE = ("events", "tool_calls")
_FILES_OPEN = 64
_GROUPS_KEPT = 24
_by_session = attrgetter("session_id")


def open_part(path: Path, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Return an open part, whose footer is not read again where it is known; raises StoreDamaged when it is missing or no Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, memory_map=True, metadata=metadata)
    except (OSError, ValueError, RuntimeError, pa.ArrowException) as error:
        raise scarce(error) or damaged(path.name, f"cannot be read: {_first_line(error)}") from error


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what the Parquet reader raises over bytes that it cannot read into StoreDamaged."""
    try:
        yield
    except StoreError:
        raise
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        raise scarce(error) or damaged(name.rpartition("/")[2], f"cannot be read: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]


def read_part(path: Path, part: Part, names: Sequence[str], wanted: Collection[str] | None = None) -> pa.Table:
    """Return the live rows of a part; with ``wanted`` only these sessions' rows, from their row groups alone."""
    import pyarrow as pa

    table = TABLES[part.table]
    with reading(path.name):
        live = part.live if wanted is None else [s for s in part.live if s in wanted]
        if len(live) == len(part.sessions):
            with open_part(path) as file:
                return newest(table, file.read(columns=list(names), use_threads=False), names)
        layout = _layout(path)
        runs = sorted(run for session in live for run in layout.runs.get(session, ()))
        groups = sorted({group for first, end in runs for group in layout.groups(first, end)})
        with open_part(path, layout.metadata) as file:
            rows = file.read_row_groups(groups, columns=list(names), use_threads=False)
        if runs:
            rows = pa.concat_tables(rows.slice(layout.place(groups, first), end - first) for first, end in runs)
        return newest(table, rows, names)


class _Layout(NamedTuple):
    """What the footer of a part says, and where the rows of each session lie in it."""

    metadata: pq.FileMetaData
    rows: list[int]
    """how many rows each row group has"""
    starts: list[int]
    """the first row of each row group"""
    runs: dict[str, list[tuple[int, int]]]
    """session -> its rows, each run from the first one to the one behind the last"""

    def groups(self, first: int, end: int) -> range:
        """Return the row groups that hold a run."""
        return range(bisect_right(self.starts, first) - 1, bisect_left(self.starts, end))

    def place(self, groups: Sequence[int], row: int) -> int:
        """Return where a row lies when these row groups alone are read."""
        own = bisect_right(self.starts, row) - 1
        return row - self.starts[own] + sum(self.rows[group] for group in groups if group < own)


_LAYOUTS_KEPT = 256
_layouts: OrderedDict[tuple[Path, int, int, int], _Layout] = OrderedDict()
"""Of the parts that were last read in part: they never change, and a server is asked for one session after the other."""
_layouts_lock = threading.Lock()


def _layout(path: Path) -> _Layout:
    """Return where sessions lie in a part. Raises OSError where it is missing, and StoreDamaged for what is no Parquet file."""
    status = path.stat()
    seen = (path, status.st_mtime_ns, status.st_size, status.st_ino)
    with _layouts_lock:
        if seen in _layouts:
            _layouts.move_to_end(seen)
            return _layouts[seen]
    with open_part(path) as file:
        found = _read_layout(file)
    with _layouts_lock:
        _layouts[seen] = found
        while len(_layouts) > _LAYOUTS_KEPT:
            _layouts.popitem(last=False)
    return found


def _read_layout(file: pq.ParquetFile) -> _Layout:
    counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    runs: dict[str, list[tuple[int, int]]] = {}
    for session, first, end in runs_of(file.read(columns=["session_id"], use_threads=False).column(0)):
        runs.setdefault(session, []).append((first, end))
    return _Layout(file.metadata, counts, list(accumulate(counts, initial=0))[:-1], runs)


def of_kinds(events: pa.Table, kinds: Collection[str]) -> pa.Table:
    """Return the events of some kinds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return events.filter(pc.is_in(events.column("kind").cast(pa.string()), value_set=pa.array(sorted(kinds), pa.string())))


def sessions_of(
    manifest: Manifest,
    local: Callable[[str], Path],
    *,
    session_ids: Collection[str] | None,
    tables: Collection[str],
    columns: Mapping[str, Sequence[str]],
    kinds: Collection[str] | None = None,
    facts: Manifest | None = None,
) -> Iterator[SessionView]:
    """Yield the sessions of a cell, part by part, so that one part's rows are held at a time.

    ``facts`` is the manifest of the fact tables; their rows are read where they were made of the session's present rows.
    """
    wanted = None if session_ids is None else set(session_ids)

    def rows(table: Table, part: Part) -> dict[str, list[Any]]:
        if wanted is not None and wanted.isdisjoint(part.live):
            return {}
        names = columns.get(table.name) or table.names
        needed = [n for n in table.names if n in names or n == "session_id" or (n == "kind" and kinds)]
        found: dict[str, list[Any]] = {}
        arrow = read_part(local(part.path), part, needed, wanted)
        if kinds and table.name == "events":
            arrow = of_kinds(arrow, kinds)
        for session, members in groupby(rows_of(table, arrow), _by_session):
            found.setdefault(session, []).extend(members)
        return found

    @cache
    def small(name: str) -> dict[str, list[Any]]:
        merged: dict[str, list[Any]] = {}
        for part in manifest.of_table(name):
            merged.update(rows(TABLES[name], part))
        return merged

    wants_facts = facts is not None and any(name in FACTS for name in tables)
    columns = _widened(columns, [SOURCE_COLUMNS]) if wants_facts else columns
    sessions = {sid: found[0] for sid, found in small("sessions").items()}
    sources = _sources(manifest, sessions.values(), small("threads")) if wants_facts else {}
    made = {name: _made(TABLES[name], facts, sources) for name in tables if name in FACTS}
    outdated = [TABLES[name] for name, current in made.items() if len(current) < len(sessions)]
    tables = list(dict.fromkeys([*(n for n in tables if n not in FACTS), *(source for t in outdated for source in t.made_of)]))
    columns = _widened(columns, [t.made_of for t in outdated])
    if kinds is not None:
        kinds = None if any("events" in t.made_of and not t.kinds for t in outdated) else {*kinds, *(k for t in outdated for k in t.kinds)}
    fact_pools = {name: _Pool(TABLES[name], facts.of_table(name), rows, wanted) for name, current in made.items() if current and facts}
    filled = {name: small(name) for name in tables if name not in {*_LARGE, "sessions"}}
    pools = {name: _Pool(TABLES[name], manifest.of_table(name), rows, wanted) for name in _LARGE if name in tables}
    order = [s for name in _LARGE[:1] for part in manifest.of_table(name) for s in part.live if s in sessions]
    for session_id in dict.fromkeys([*order, *sessions]):
        view = SessionView(sessions[session_id])
        for name in tables:
            if name in pools:
                setattr(view, name, pools[name].take(session_id))
            elif name != "sessions":
                setattr(view, name, filled[name].get(session_id, []))
        view.facts = {name: pool.take(session_id) for name, pool in fact_pools.items() if session_id in made[name]}
        yield view


def _sources(manifest: Manifest, sessions: Iterable[Any], threads: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return session -> what identifies its rows that facts are made of."""
    return {s.session_id: source_hash(manifest, s, threads.get(s.session_id, ())) for s in sessions}


def _made(table: Table, facts: Manifest | None, sources: Mapping[str, str]) -> set[str]:
    """Return the sessions whose rows of a fact table were made of their present rows."""
    if facts is None or f"{table.name}.{table.version}" not in facts.code_version.split():
        return set()
    return {session for session, source in sources.items() if facts.hashes.get(session, "").partition(" ")[0] == source}


def _widened(columns: Mapping[str, Sequence[str]], sources: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, Sequence[str]]:
    """Return the columns to read, with those that facts are made of; all of a table that is not named."""
    found = dict(columns)
    for made_of in sources:
        for source, names in made_of.items():
            if source in found:
                found[source] = [*found[source], *names]
    return found


class _Pool:
    """Rows of a large table by session; a part is read when its first session is asked for."""

    def __init__(
        self,
        table: Table,
        parts: Sequence[Part],
        rows: Callable[[Table, Part], dict[str, list[Any]]],
        wanted: set[str] | None,
    ) -> None:
        self._table = table
        self._rows = rows
        self._part_of = {s: part for part in parts for s in part.live if wanted is None or s in wanted}
        self._held: dict[str, list[Any]] = {}
        self._read: set[str] = set()

    def take(self, session_id: str) -> list[Any]:
        """Return the session's rows and let go of them."""
        part = self._part_of.get(session_id)
        if part and part.path not in self._read:
            self._read.add(part.path)
            self._held.update(self._rows(self._table, part))
        return self._held.pop(session_id, [])


def _by_two(work: Callable[[str], None], items: Iterable[str]) -> None:
    """Do some work for each item, two at a time; raises what the work raised. An executor would take longer to import than to use."""
    waiting = deque(items)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            while not failed:
                try:
                    item = waiting.popleft()
                except IndexError:
                    break
                work(item)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    other = threading.Thread(target=run, name="ctx-rows")
    other.start()
    run()
    other.join()
    if failed:
        raise failed[0]


class PartReader:
    """Single rows by (part, row number); keeps the last files and row groups open."""

    def __init__(self, local: Callable[[str], Path | None]) -> None:
        """``local`` gives the place of a part, None for one that is gone."""
        self._local = local
        self._files: OrderedDict[str, pq.ParquetFile] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int, tuple[str, ...]], pa.Table] = OrderedDict()

    def row(self, table: Table, path: str, row: int, names: tuple[str, ...]) -> Any:
        """Return one row as a named tuple; columns not named are None. Raises StoreDamaged past the end."""
        found = self.rows(table, [(path, row)], names)[0]
        if found is None:
            raise StoreDamaged(f"{path} has no row {row}", hint="run `ctx doctor`", path=path, row=row)
        return found

    def rows(self, table: Table, places: Sequence[tuple[str, int]], names: tuple[str, ...]) -> list[Any]:
        """Return the row of each (part, row number), None where the part is gone or shorter; two parts are read at a time."""
        by_part: dict[str, list[int]] = {}
        for number, (path, _) in enumerate(places):
            by_part.setdefault(path, []).append(number)
        found: list[Any] = [None] * len(places)

        def fetch(path: str) -> None:
            file = self._file(path)
            with reading(path):
                for number in by_part[path] if file else ():
                    found[number] = self._row(file, table, *places[number], names)

        for path in by_part:
            self._file(path)
        if len(by_part) == 1:
            fetch(path)
        else:
            _by_two(fetch, by_part)
        while len(self._groups) > _GROUPS_KEPT:
            self._groups.popitem(last=False)
        while len(self._files) > _FILES_OPEN:
            self._files.popitem(last=False)[1].close()
        return found

    def close(self) -> None:
        """Close every file."""
        self._groups.clear()
        while self._files:
            self._files.popitem()[1].close()

    def _row(self, file: pq.ParquetFile, table: Table, path: str, row: int, names: tuple[str, ...]) -> Any:
        start = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if row < start + count:
                key = (path, group, names)
                if key not in self._groups:
                    self._groups[key] = newest(table, file.read_row_group(group, columns=list(names), use_threads=False), names)
                return next(rows_of(table, self._groups[key].slice(row - start, 1)))
            start += count
        return None

    def _file(self, path: str) -> pq.ParquetFile | None:
        if path not in self._files:
            local = self._local(path)
            if local is None:
                return None
            self._files[path] = open_part(local)
        return self._files[path]
