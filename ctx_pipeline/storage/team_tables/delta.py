"""Delta tables below a bucket's URL, written by delta-rs: appended, replaced by key, erased, compacted.

Each writer names itself and a rising number in the table's log (an application transaction). Of two
writers that hold the same state and the same name only one can commit, so a worker that was thought dead fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreLocked
from ctx_pipeline.storage.team_tables.transactions import Numbers, numbers_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pyarrow as pa
    from deltalake import DeltaTable

    from ctx_pipeline.storage.team_tables.bucket import Bucket

_ATTEMPTS = 6
_CHECKPOINT = "10"
"""Commits after which a table's log is summed up: who opens it reads so many entries at most, each an object."""

_LISTED = 20
"""Values of one list in a predicate: by a longer one files are not told apart, so that commits to other partitions conflict.

Lists that are joined by OR become one; those with a range before them do not.
"""

_GONE = "delta.deletedFileRetentionDuration"
_SETTINGS = {"delta.checkpointInterval": _CHECKPOINT, _GONE: "interval 0 hours"}
"""Of a new table; a file that is gone is named in no summed-up log, since its path names the member. Vacuums look at all files instead."""

VACUUM_HOURS = 168
"""Hours for which files that no version needs are kept for readers, where nothing has to be erased at once."""


class Fenced(StoreLocked):
    """Another writer of the same name committed first: what this one made is not in the table."""


class _Overtaken(StoreLocked):
    """A commit of another writer came between, to rows that cannot be told from those of this one: it is tried again."""


def utc(arrow: pa.Table) -> pa.Table:
    """Return a table whose times say that they are UTC and whose dictionaries are plain, as every engine reads them."""
    import pyarrow as pa

    for place, column in enumerate(arrow.schema):
        kind = column.type
        if pa.types.is_timestamp(kind):
            arrow = arrow.set_column(place, column.name, arrow.column(place).cast(pa.timestamp("us", "UTC")))
        elif pa.types.is_dictionary(kind):
            arrow = arrow.set_column(place, column.name, arrow.column(place).cast(kind.value_type))
    return arrow


def without_zone(arrow: pa.Table) -> pa.Table:
    """Return a table whose times are UTC without saying so, as they are in a store."""
    import pyarrow as pa

    for place, column in enumerate(arrow.schema):
        if pa.types.is_timestamp(column.type):
            arrow = arrow.set_column(place, column.name, arrow.column(place).cast(pa.timestamp("us")))
    return arrow


class TeamTable:
    """One Delta table of a team."""

    def __init__(self, bucket: Bucket, path: str) -> None:
        self.bucket, self.path = bucket, path
        self._table: DeltaTable | None = None
        self._numbers: Numbers | None = None

    def opened(self, *, anew: bool = False) -> DeltaTable | None:
        """Return the table as it was when it was opened, with ``anew`` as it is now; None where there is none."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        if self._table is not None and anew:
            # a tenth of what it costs to open it
            try:
                self._table.update_incremental()
            except Exception:  # noqa: BLE001 - it is gone, or another one is there: opening it says so
                self._table = None
        if self._table is None:
            with self.bucket.explained(self.path):
                try:
                    self._table = DeltaTable(self.bucket.table_uri(self.path))
                except TableNotFoundError:
                    self._table = None
        return self._table

    def last_number(self, writer: str) -> int:
        """Return the number of a writer's last commit; 0 where it made none."""
        table = self.opened()
        if table is None:
            return 0
        version = table.version()
        if self._numbers is None or self._numbers.version != version:
            found = numbers_at(self.bucket, self.path, version, self._numbers)
            if found is None:
                with self.bucket.explained(self.path):
                    return int(table.transaction_version(writer) or 0)
            self._numbers = found
        return self._numbers.of.get(writer, 0)

    def last_numbers(self, writers: Iterable[str]) -> dict[str, int]:
        """Return the number of each writer's last commit, 0 where it made none; a table that is not there is looked for once."""
        there = self.opened() is not None
        return {writer: self.last_number(writer) if there else 0 for writer in writers}

    @property
    def position(self) -> tuple[str, int]:
        """Id and version of the table as it was opened."""
        table = self.opened()
        return (str(table.metadata().id), table.version()) if table is not None else ("", -1)

    def recall(self, position: tuple[str, int], numbers: Mapping[str, int]) -> None:
        """Take the numbers of the only writers that will be asked for from a note of an earlier process, if it is of this table."""
        own, version = self.position
        if position[0] == own and position[1] <= version:
            self._numbers = Numbers(position[1], dict(numbers))

    def put(self, rows: pa.Table, *, writer: str, number: int, keys: Mapping[str, Collection[str]] | None = None, by: Iterable[str]) -> int:
        """Commit rows as a writer's ``number`` and return the table's version; with ``keys`` in place of all rows that have these values.

        Raises as :meth:`put_all` does.
        """
        return self.put_all(rows, numbers={writer: number}, keys=None if keys is None else [keys], by=by)

    def put_all(
        self, rows: pa.Table, *, numbers: Mapping[str, int], keys: Sequence[Mapping[str, Collection[str]]] | None = None, by: Iterable[str]
    ) -> int:
        """Commit rows of several writers at once, each under its number, and return the table's version.

        With ``keys`` they take the place of all rows that have the values of one of them.
        Raises Fenced where one of the writers has committed its number or a later one, or
        another process commits under its name now. Columns
        that the table lacks are added; rows without a column that it has hold nulls there.
        """
        for left in reversed(range(_ATTEMPTS)):
            try:
                return self._put_once(rows, numbers=numbers, keys=keys, by=by)
            except _Overtaken:
                if not left:
                    raise
                self.opened(anew=True)
        raise AssertionError

    def _put_once(
        self, rows: pa.Table, *, numbers: Mapping[str, int], keys: Sequence[Mapping[str, Collection[str]]] | None, by: Iterable[str]
    ) -> int:
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction, write_deltalake

        table = self.opened()
        last = self.last_numbers(numbers)
        for writer, number in numbers.items():
            if last[writer] >= number:
                raise fenced(self.path, writer)
        before = table.version() if table is not None else -1
        if not rows.num_rows and (table is None or keys is None):
            return max(before, 0)
        # old entries of the log go when it is summed up; looking for them costs a listing of all
        after = PostCommitHookProperties(cleanup_expired_logs=None if (before + 1) % int(_CHECKPOINT) == 0 else False)
        commit = CommitProperties(
            max_commit_retries=_ATTEMPTS, app_transactions=[Transaction(writer, number) for writer, number in numbers.items()]
        )
        with self.bucket.explained(self.path):
            try:
                if table is not None and not rows.num_rows:
                    table.delete(condition(*keys or ()), commit_properties=commit, post_commithook_properties=after)
                else:
                    replacing: dict[str, Any] = {"mode": "append"}
                    if keys is not None and table is not None:
                        replacing = {"mode": "overwrite", "predicate": condition(*keys)}
                    write_deltalake(
                        table if table is not None else self._uri(),
                        utc(rows),
                        schema_mode="merge",
                        partition_by=list(by) if table is None else None,
                        configuration=_SETTINGS if table is None else None,
                        commit_properties=commit,
                        post_commithook_properties=after,
                        **replacing,
                    )
            except Exception as error:
                raise self._conflict(error, numbers) from error
        made = self.opened()  # one that was there is what the commit made of it
        version = made.version() if made is not None else 0
        if version == before + 1 and (self._numbers is None or self._numbers.version == before):
            self._numbers = Numbers(version, {**(self._numbers.of if self._numbers else {}), **numbers})
        return version

    def _uri(self) -> str:
        if self.bucket.is_folder:
            from pathlib import Path

            Path(self.bucket.table_uri(self.path)).mkdir(parents=True, exist_ok=True)
        return self.bucket.table_uri(self.path)

    def _conflict(self, error: Exception, writers: Iterable[str]) -> Exception:
        said = str(error).lower()
        if "concurrent transaction failed" in said:
            return fenced(self.path, ", ".join(sorted(writers)[:3]))
        if "concurrent transaction" in said or "metadata changed since last commit" in said:
            return _Overtaken(f"other writers commit to {self.path} all the time", hint="run the command again", path=self.path)
        return error

    def rows(self, columns: Collection[str] | None = None, **partition: str) -> pa.Table | None:
        """Return the rows of some partitions, times without a zone; None where there is no table."""
        return self.rows_of([{name: [value] for name, value in partition.items()}] if partition else None, columns)

    def rows_of(self, keys: Sequence[Mapping[str, Collection[str]]] | None, columns: Collection[str] | None = None) -> pa.Table | None:
        """Return the rows whose partitions have the values of one of the keys, or all; as :meth:`rows` does."""
        import pyarrow.dataset as ds

        table = self.opened()
        if table is None:
            return None
        with self.bucket.explained(self.path):
            # without it each file of all partitions becomes an object, for every part that is read
            data = table.to_pyarrow_dataset(file_pruning_predicate=condition(*keys) if keys else None)
            wanted = None
            for one in keys or ():
                met = None
                for name, values in one.items():
                    equal = ds.field(name).isin(sorted(values)) if len(values) != 1 else ds.field(name) == next(iter(values))
                    met = equal if met is None else met & equal
                wanted = met if wanted is None else wanted | met
            names = [name for name in data.schema.names if columns is None or name in columns]
            found = data.to_table(columns=names, filter=wanted)
        return without_zone(found)

    def compact(self, **partition: str) -> int:
        """Merge small files of each partition, or of some, and return how many files went."""
        table = self.opened()
        if table is None:
            return 0
        filters = [(name, "=", value) for name, value in partition.items()] or None
        with self.bucket.explained(self.path):
            return int(table.optimize.compact(partition_filters=filters)["numFilesRemoved"])

    def vacuum(self, hours: int = VACUUM_HOURS) -> int:
        """Remove files that no version of the last ``hours`` needs and return how many; 0 hours erases what was replaced for good."""
        table = self.opened(anew=True)
        if table is None:
            return 0
        with self.bucket.explained(self.path):
            gone = len(table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True))
            if hours == 0:
                if _GONE not in table.metadata().configuration:  # a table of an earlier version
                    table.alter.set_table_properties({_GONE: _SETTINGS[_GONE]})
                # statistics of earlier versions hold the first and last values of their columns
                table.create_checkpoint()
                self._forget_log(table.version())
        return gone

    def _forget_log(self, version: int) -> None:
        """Remove the log entries before the checkpoint of a version."""
        folder = f"{self.path}/_delta_log"
        old = []
        for entry in self.bucket.entries(folder):
            name = entry.path.rpartition("/")[2]
            number = name.partition(".")[0]
            if number.isdigit() and int(number) < version:
                old.append(entry.path)
        self.bucket.remove(old)

    def files(self) -> dict[tuple[str, ...], list[int]]:
        """Return partition -> the bytes of each of its live files."""
        found: dict[tuple[str, ...], list[int]] = {}
        for row in self._live_files():
            found.setdefault(tuple(str(row[name]) for name in row if name.startswith("partition.")), []).append(int(row["size_bytes"]))
        return found

    def row_counts(self, *by: str) -> dict[tuple[str, ...], int | None]:
        """Return values of partitions -> rows, as the log says; None where one of its files came without."""
        found: dict[tuple[str, ...], int | None] = {}
        for row in self._live_files():
            place = tuple(str(row.get(f"partition.{name}")) for name in by)
            before, count = found.get(place, 0), row.get("num_records")
            found[place] = None if before is None or count is None else before + count
        return found

    def _live_files(self) -> list[dict[str, Any]]:
        """Return bytes, rows and partition of each file of the newest version, from the log alone."""
        table = self.opened()
        if table is None:
            return []
        with self.bucket.explained(self.path):
            import pyarrow as pa

            actions = pa.table(table.get_add_actions(flatten=True))
        names = [name for name in actions.column_names if name in {"size_bytes", "num_records"} or name.startswith("partition.")]
        rows: list[dict[str, Any]] = actions.select(names).to_pylist()
        return rows


def fenced(path: str, writer: str) -> Fenced:
    """Return the error of a writer that another one of its name overtook."""
    return Fenced(
        f"another process published to {path} under the name {writer}",
        hint="two machines must not share a name or a store: ctx team join URL --machine NAME",
        path=path,
        writer=writer,
    )


def condition(*keys: Mapping[str, Collection[str]]) -> str:
    """Return the predicate of rows whose columns have one of these values each, by any of the keys."""
    found = []
    for one in keys:
        parts = []
        for name, values in one.items():
            listed = ["'" + value.replace("'", "''") + "'" for value in sorted(values)]
            lists = [listed[start : start + _LISTED] for start in range(0, len(listed), _LISTED)]
            if len(lists) > 1:
                ranges = [f"({name} BETWEEN {some[0]} AND {some[-1]} AND {name} IN ({', '.join(some)}))" for some in lists]
                parts.append(f"({' OR '.join(ranges)})")
            else:
                parts.append(f"{name} IN ({', '.join(listed)})" if len(listed) != 1 else f"{name} = {listed[0]}")
        found.append(" AND ".join(parts))
    return " OR ".join(f"({one})" for one in found) if len(found) != 1 else found[0]
