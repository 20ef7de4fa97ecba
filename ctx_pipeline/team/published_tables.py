"""Which tables and columns each policy sends; everything else stays on the machine."""

from __future__ import annotations

from typing import NamedTuple

from ctx_pipeline.model.tables import TABLES, Column

PLACE = (
    Column("member", "str", "member of the team who published the row"),
    Column("machine", "str", "machine of that member"),
    Column("month", "str", "month of the session's first event (UTC)"),
)
"""Columns in front of every published row; member and machine belong to the key of every published table."""

PARTITIONS = ("member", "machine", "month")
LESSONS = "lessons"
LESSONS_MONTH = "all"
"""Lessons are of no month: the set of a machine is replaced whole."""


class PublishedTable(NamedTuple):
    """A table as it leaves a machine under a policy."""

    name: str
    policy: str
    leaves_out: frozenset[str] = frozenset()
    """columns that stay: texts, paths and places in the files of this machine"""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are sent, without those of the place."""
        return tuple(c for c in TABLES[self.name].names if c not in self.leaves_out and c != "month")

    @property
    def key(self) -> tuple[str, ...]:
        """What names a row over all machines."""
        return ("member", "machine", *TABLES[self.name].key)


_FILES = frozenset({"stream", "generation", "start", "end", "line"})

PUBLISHED: tuple[PublishedTable, ...] = (
    PublishedTable("sessions", "counts", frozenset({"title", "title_source", "cwd", "branch"})),
    PublishedTable("model_calls", "counts", _FILES),
    PublishedTable("turns", "counts"),
    PublishedTable("check_runs", "counts", frozenset({"program", "line"})),
    PublishedTable("threads", "facts"),
    PublishedTable("tool_calls", "facts", frozenset({"argv"})),
    PublishedTable("command_runs", "facts", frozenset({"line"})),
    PublishedTable("file_accesses", "facts"),
    PublishedTable("events", "texts"),
)
"""In the order in which they are sent: sessions last of all would be seen without their calls, so they go last of their commit."""

LESSON_COLUMNS = (
    *("memory_id", "kind", "text", "when_to_use", "status", "scope", "repository", "risk", "confidence", "priority"),
    *("support", "sessions", "evidence", "utility", "uses", "first_ts", "last_ts"),
)
"""Columns of the table ``lessons``, from ``memories``."""
