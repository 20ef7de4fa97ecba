"""Dagster's event log and runs in SQLite, with connections kept instead of an engine made for every statement."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as db
from dagster._core.storage.event_log import ConsolidatedSqliteEventLogStorage
from dagster._core.storage.runs import SqliteRunStorage

from ctx_pipeline.errors import scarce

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dagster._core.events.log import EventLogEntry
    from dagster._serdes import ConfigurableClassData

_TIMEOUT_SECONDS = 60
_KNOWN_SECONDS = 10.0
"""How long a partition that was seen counts as known: another process may remove it."""

_LISTED = "ctx_pipeline.partitions"
"""Names what a connection listed last: name of a set of partitions -> number of changes by other connections, and the partitions."""


class KeptConnectionEventLog(ConsolidatedSqliteEventLogStorage):
    """The stock consolidated storage, the same file and schema, with a pool of connections in each process.

    The stock class makes a SQLAlchemy engine for every statement, about four for an
    event, which costs more than the statement itself (measured in ``docs/performance-log.md``).
    """

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._tables: set[str] = set()
        self._columns: set[str] = set()
        self._partitions: dict[tuple[str, str], float] = {}
        self._begun = threading.local()
        super().__init__(base_dir, inst_data)  # makes a new database with what is above

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        begun = getattr(self._begun, "connection", None)
        with _begun(self._conn_string) if begun is None else nullcontext(begun) as connection:
            yield connection

    @contextmanager
    def _one_transaction(self) -> Iterator[Any]:
        """Give this thread one connection, in one transaction, for all statements within it in place of one for each."""
        outer = getattr(self._begun, "connection", None)
        with self._connect() as connection:
            self._begun.connection = connection
            try:
                yield connection
            finally:
                self._begun.connection = outer

    def store_event(self, event: EventLogEntry) -> None:
        """Store an event, what it says of its asset, and its tags."""
        with self._one_transaction():
            super().store_event(event)

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events, all of them or none."""
        with self._one_transaction():
            super().store_event_batch(events)

    def dispose(self) -> None:
        """Close what is kept, so that the file holds all that its log beside it says."""
        super().dispose()  # type: ignore[no-untyped-call]
        _engine(self._conn_string, os.getpid()).dispose()

    def has_table(self, table_name: str) -> bool:
        """Tell whether a table is there; one that was seen is not asked for again, as the stock class does for every event."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def _has_asset_key_col_on_connection(self, conn: Any, column_name: str) -> bool:
        """Tell whether the table of assets has a column; the stock class reads the whole schema for every event of an asset."""
        if column_name not in self._columns and super()._has_asset_key_col_on_connection(conn, column_name):
            self._columns.add(column_name)
        return column_name in self._columns

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        """Return the partitions; a connection reads them again when another one wrote the file, and after it changed them itself."""
        with self._one_transaction() as connection:
            version = connection.exec_driver_sql("PRAGMA data_version").scalar()
            known = connection.info.setdefault(_LISTED, {})
            if known.get(partitions_def_name, ("",))[0] != version:
                known[partitions_def_name] = (version, tuple(super().get_dynamic_partitions(partitions_def_name)))
            listed: Sequence[str] = known[partitions_def_name][1]
            return listed

    @contextmanager
    def _changing_partitions(self) -> Iterator[None]:
        with self._one_transaction() as connection:
            yield
            connection.info.pop(_LISTED, None)
        self._partitions.clear()

    def add_dynamic_partitions(self, partitions_def_name: str, partition_keys: Sequence[str]) -> None:
        """Add partitions."""
        with self._changing_partitions():
            super().add_dynamic_partitions(partitions_def_name, partition_keys)

    def wipe(self) -> None:
        """Remove all events and partitions."""
        with self._changing_partitions():
            super().wipe()

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Tell whether a partition is known; Dagster asks it of the same one for every event of a run."""
        named, now = (partitions_def_name, partition_key), time.monotonic()
        if now - self._partitions.get(named, -_KNOWN_SECONDS) < _KNOWN_SECONDS:
            return True
        if known := super().has_dynamic_partition(*named):
            self._partitions[named] = now
        return known

    def delete_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> None:
        """Forget a partition."""
        with self._changing_partitions():
            super().delete_dynamic_partition(partitions_def_name, partition_key)


class KeptConnectionRuns(SqliteRunStorage):
    """The stock storage of runs, the same file and schema, with a pool of connections in each process."""

    _has_statistics = False

    def has_run_stats_index_cols(self) -> bool:
        """Tell whether the table of runs has its newer columns; the stock class reads the whole schema for every run that is asked for."""
        self._has_statistics = self._has_statistics or super().has_run_stats_index_cols()
        return self._has_statistics

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> KeptConnectionRuns:
        """Return the storage in a folder."""
        return cls.from_local(inst_data=inst_data, **config_value)

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Give a connection in a transaction."""
        with _begun(self._conn_string) as connection:
            yield connection

    def dispose(self) -> None:
        """Close what is kept, so that the file holds all that its log beside it says."""
        super().dispose()
        _engine(self._conn_string, os.getpid()).dispose()


@contextmanager
def _begun(address: str) -> Iterator[Any]:
    """Give a connection in a transaction; raises OutOfResources where the disk has no room, which Dagster prints."""
    try:
        with _engine(address, os.getpid()).begin() as connection:
            yield connection
    except db.exc.OperationalError as error:
        if (refused := scarce(error)) is None:
            raise
        raise refused from None


@lru_cache(maxsize=8)
def _engine(address: str, process: int) -> Any:  # noqa: ARG001 - a forked child must not use its parent's connection
    engine = db.create_engine(address, max_overflow=-1, connect_args={"timeout": _TIMEOUT_SECONDS, "check_same_thread": False})

    @db.event.listens_for(engine, "connect")
    def tune(connection: Any, _: Any) -> None:
        # in WAL mode this can lose the last events at a power cut, never the file
        connection.execute("PRAGMA synchronous = NORMAL")

    return engine
