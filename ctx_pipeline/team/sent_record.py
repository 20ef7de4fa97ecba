"""What this machine sent to its team: noted here, so that the next time only what changed goes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from ctx_pipeline.team.membership import RECORD
from ctx_pipeline.team.published_tables import LESSONS, LESSONS_MONTH
from ctx_pipeline.team.raw_out import RawRecord

if TYPE_CHECKING:
    from ctx_pipeline.storage import Store
    from ctx_pipeline.team.membership import Membership

LEASE = "team/publish"

_UNSURE = "unsure"
"""In place of the digest of lessons, where the team may hold some that this machine has no more."""


class Sent(msgspec.Struct):
    """What the team holds of one session of this machine."""

    month: str
    project: str
    policies: list[str]
    digest: str
    rows: dict[str, int] | None = None
    """table -> its rows; None where an earlier version sent them"""


class Known(msgspec.Struct):
    """A table as this machine left it, so that only what came to its log since is read."""

    table: str
    version: int
    number: int
    pruned: int = 0
    """version when its small files were merged last"""


class Record(msgspec.Struct):
    """What this machine sent, so that the next time only what changed goes. Losing it costs sending all once more, never a double row."""

    machine_id: str = ""
    number: int = 0
    """of the last commit of this machine"""
    pending: int = 0
    """number whose commits may have begun; 0 while none has"""
    cells: dict[str, str] = {}
    """cell -> digest of its committed tables and of the policies, when all its sessions were looked at"""
    sessions: dict[str, Sent] = {}
    unsure: dict[str, Sent] = {}
    """sessions of commits that may have begun: the team may hold rows of them in some tables"""
    tables: dict[str, Known] = {}
    lessons: str = ""
    lesson_rows: int | None = None
    erased: int = 0
    """how often rows were removed for good, so that a hub does the same"""
    untold: bool = False
    """whether the head does not say yet what went"""
    erasing: set[str] = set()
    """tables from which rows went that the team must not find again: their earlier versions are there still"""
    raw: RawRecord = msgspec.field(default_factory=RawRecord)

    def send_all(self, *, transcripts: bool) -> None:
        """Have all rows, and perhaps exact transcripts, sent once more: what the team has of them is not known."""
        self.cells, self.lessons, self.tables = {}, self.lessons and _UNSURE, {}
        self.unsure, self.sessions = self.sent(), {}
        for sent in self.raw.sessions.values() if transcripts else ():
            sent.mark = ""

    def rows(self) -> dict[str, dict[str, int]]:
        """Return month -> table -> rows that the team has of this machine, of the months where that is known."""
        found: dict[str, Counter[str]] = {}
        for sent in self.sessions.values():
            found.setdefault(sent.month, Counter()).update(sent.rows or {})
        for sent in self.sessions.values():
            if sent.rows is None:
                found.pop(sent.month, None)
        told = {month: dict(rows) for month, rows in sorted(found.items())}
        return told | ({LESSONS_MONTH: {LESSONS: self.lesson_rows}} if self.lesson_rows else {})

    def sent(self) -> dict[str, Sent]:
        """Return the sessions of which the team has rows, or may have."""
        return {**self.unsure, **self.sessions}


def read_record(store: Store, member: Membership) -> Record:
    """Return what was sent under this membership; an empty record where that is not known."""
    if not store.files.exists(RECORD):
        return Record(machine_id=member.machine_id)
    try:
        found = msgspec.json.decode(store.files.read(RECORD), type=Record)
    except msgspec.MsgspecError:
        return Record(machine_id=member.machine_id)
    return found if found.machine_id == member.machine_id else Record(machine_id=member.machine_id)
