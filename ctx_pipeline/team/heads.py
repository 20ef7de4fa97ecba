"""What machines say that they sent last: one small object each, which anybody with a member's rights may have filled with anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec

from ctx_pipeline.team.membership import HEADS, is_name

if TYPE_CHECKING:
    from ctx_pipeline.storage.team_tables.bucket import Bucket

_MOST_MONTHS, _MOST_HEAD = 1_200, 1 << 20
"""Months that a machine can say it sent, and bytes of the object that says so: each month is work for the hub."""

_MOST_TABLES = 100
_MOST_VERSION = 40
"""Characters of what a machine says is its version."""

_Month = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-(?:0[1-9]|1[0-2])\Z")]
_Part = Annotated[str, msgspec.Meta(pattern=r"^(?:all|[0-9]{4}-(?:0[1-9]|1[0-2]))\Z")]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


@dataclass
class Head:
    """What a machine says that it sent last, and when the server got it."""

    member: str
    machine: str
    number: int
    months: dict[str, str]
    lessons: str
    published_at: str
    received_at: str
    package: str
    skew_seconds: float
    erased: int = 0
    """how often the machine removed rows for good"""
    raw: tuple[int, str] = (0, "")
    """number of its last bundle of exact transcripts, and a digest of those that it wants forgotten"""
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    """month -> table -> rows that it sent; of months of which an earlier version did not say it nothing"""


class _SaidRaw(msgspec.Struct):
    number: _Count = 0
    revoked: str = ""


class _Said(msgspec.Struct):
    """A head as its machine writes it."""

    months: Annotated[dict[_Month, str], msgspec.Meta(max_length=_MOST_MONTHS)]
    number: _Count = 0
    lessons: str = ""
    published_at: str = ""
    package: str = ""
    erased: _Count = 0
    raw: _SaidRaw = msgspec.field(default_factory=_SaidRaw)
    rows: Annotated[
        dict[_Part, Annotated[dict[str, _Count], msgspec.Meta(max_length=_MOST_TABLES)]], msgspec.Meta(max_length=_MOST_MONTHS)
    ] = {}


def _head(member: str, machine: str, body: bytes, received: float) -> Head | None:
    try:
        said = msgspec.json.decode(body, type=_Said)
    except (msgspec.DecodeError, RecursionError):
        return None
    try:
        skew = datetime.fromisoformat(said.published_at).timestamp() - received
    except (ValueError, OverflowError):
        skew = 0.0
    at = datetime.fromtimestamp(received, UTC).isoformat(timespec="seconds")
    raw = (said.raw.number, said.raw.revoked)
    package = said.package[:_MOST_VERSION]
    return Head(
        member,
        machine,
        said.number,
        said.months,
        said.lessons,
        said.published_at,
        at,
        package,
        skew,
        said.erased,
        raw,
        said.rows,
    )


class Heads:
    """The heads of a team's machines."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._known: dict[str, tuple[str, Head | None]] = {}
        self.unreadable: dict[tuple[str, str], datetime] = {}
        """member and machine whose head could not be read last time -> when the server got it"""
        self.last: list[Head] = []
        """what :meth:`read` returned last"""

    def read(self) -> list[Head]:
        """Return the last word of every machine; one listing, and a read for each that is new.

        A head that cannot be read, or that says more than any machine sends, is left out and noted as unreadable.
        """
        found = []
        self.unreadable = {}
        for entry in self._bucket.entries(HEADS):
            parts = entry.path.split("/")
            if len(parts) != 3 or not parts[2].endswith(".json"):
                continue
            member, machine = parts[1], parts[2].removesuffix(".json")
            if not (is_name(member) and is_name(machine)):
                continue
            known = self._known.get(entry.path)
            if known is None or known[0] != entry.tag:
                body = self._bucket.read(entry.path) if entry.size <= _MOST_HEAD else b""
                if body is None:  # its machine has just left
                    continue
                known = self._known[entry.path] = (entry.tag, _head(member, machine, body, entry.modified.timestamp()))
            if known[1] is not None:
                found.append(known[1])
            else:
                self.unreadable[member, machine] = entry.modified
        self.last = found
        return found
