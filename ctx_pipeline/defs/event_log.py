"""Dagster's event log in SQLite, with connections kept instead of an engine made for every statement."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as db
from dagster._core.storage.event_log import ConsolidatedSqliteEventLogStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMEOUT_SECONDS = 60


class KeptConnectionEventLog(ConsolidatedSqliteEventLogStorage):
    """The stock consolidated storage, the same file and schema, with a pool of connections in each process.

    The stock class makes a SQLAlchemy engine for every statement, about four for an
    event, which costs more than the statement itself (measured in ``docs/performance-log.md``).
    """

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        with _engine(self._conn_string, os.getpid()).begin() as connection:
            yield connection


@lru_cache(maxsize=8)
def _engine(address: str, process: int) -> Any:  # noqa: ARG001 - a forked child must not use its parent's connection
    engine = db.create_engine(address, max_overflow=-1, connect_args={"timeout": _TIMEOUT_SECONDS, "check_same_thread": False})

    @db.event.listens_for(engine, "connect")
    def tune(connection: Any, _: Any) -> None:
        # in WAL mode this can lose the last events at a power cut, never the file
        connection.execute("PRAGMA synchronous = NORMAL")

    return engine
