"""Which tables and columns each policy sends; everything else stays on the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.tables import MEMORIES, TABLES, Column

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from deltalake import DeltaTable

PLACE = (
    Column("member", "str", "member of the team who published the row"),
    Column("machine", "str", "machine of that member"),
    Column("month", "str", "month of the session's first event (UTC)"),
    Column("shared", "str", "policies under which the session was published, joined by commas"),
)
"""Columns in front of every published row; member and machine belong to the key of every published table."""

PARTITIONS = ("member", "machine", "month")
LESSONS = "lessons"
LESSONS_MONTH = "all"
"""Lessons are of no month: the set of a machine is replaced whole."""

TEAM_LESSONS = "team/lessons.json"
"""Object with the lessons that the team accepted, for members to pull."""


class PublishedTable(NamedTuple):
    """A table as it leaves a machine under a policy."""

    name: str
    policy: str
    withheld: Mapping[str, str] = {}
    """column -> the policy without which it is null: texts, paths, and places in the files of the machine"""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are sent, without those of the place."""
        return tuple(c for c in TABLES[self.name].names if c != "month")


_FILES = dict.fromkeys(("stream", "generation", "start", "end", "line"), "facts")

PUBLISHED: tuple[PublishedTable, ...] = (
    PublishedTable(
        "sessions", "counts", {"title": "texts", "title_source": "texts", "cwd": "facts", "branch": "facts", "last_branch": "facts"}
    ),
    PublishedTable("model_calls", "counts", _FILES),
    PublishedTable("turns", "counts"),
    PublishedTable("check_runs", "counts", {"program": "facts", "line": "facts"}),
    PublishedTable("threads", "facts", {"title": "texts"}),
    PublishedTable("tool_calls", "facts"),
    PublishedTable("command_runs", "facts"),
    PublishedTable("file_accesses", "facts"),
    PublishedTable("events", "texts"),
)

LESSON_COLUMNS = (
    *("memory_id", "kind", "text", "when_to_use", "status", "scope", "repository", "risk", "confidence", "priority"),
    *("support", "sessions", "evidence", "utility", "uses", "first_ts", "last_ts"),
)
"""Columns of the table ``lessons``, from ``memories``."""


_TYPES = {
    "str": {"string"},
    "int": {"long", "integer", "short", "byte"},
    "float": {"double", "float"},
    "bool": {"boolean"},
    "time": {"timestamp", "timestamp_ntz"},
    "list": {"array"},
}
"""Type of a column -> names that the schema of a Delta table has for it."""


def fits(table: DeltaTable, name: str) -> bool:
    """Tell whether rows of a published table can be written to a table that is there: its partitions, and types of columns they share."""
    declared = {c.name: c.type for c in (*PLACE, *(MEMORIES if name == LESSONS else TABLES[name]).columns)}
    there = {field.name: getattr(field.type, "type", "") for field in table.schema().fields}
    alike = all(there[column] in _TYPES[kind] for column, kind in declared.items() if column in there)
    return alike and tuple(table.metadata().partition_columns) == PARTITIONS


def tables_of(policies: Collection[str]) -> tuple[str, ...]:
    """Return the tables that a session has under its policies."""
    return tuple(t.name for t in PUBLISHED if t.policy in policies)
