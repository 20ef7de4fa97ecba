"""Commits of this machine to its team's tables: one table a kind, each commit under a number that rises, then the head."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline import __version__
from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage.team_tables.bucket import NotATable, at_once, json_object
from ctx_pipeline.storage.team_tables.delta import TeamTable, fenced
from ctx_pipeline.storage.team_tables.local_rows import LocalSession, SentSession, published_rows
from ctx_pipeline.team.lessons_out import lessons_table
from ctx_pipeline.team.membership import CARD, PROTOCOL, RECORD, SHARD, NoAgreement, card_path, demand_agreement, head_path
from ctx_pipeline.team.published_tables import LESSONS, LESSONS_MONTH, PARTITIONS, PUBLISHED, PublishedTable, fits, tables_of
from ctx_pipeline.team.raw_out import RawSender, folder_of
from ctx_pipeline.team.sent_record import Known, Sent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import pyarrow as pa

    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.lake.queries import LakeConnection
    from ctx_pipeline.team.membership import Membership
    from ctx_pipeline.team.sent_record import Record

_PRUNED = 25
"""Versions of a table after which its small files are merged."""

_NUMBERS = 1_000_000
"""Commits that one token is enough for."""


class TableLost(StoreError):
    """A table that this machine wrote is gone, or another one is in its place."""


class Batch(NamedTuple):
    """Sessions that go in one commit, and those whose rows have to go."""

    changed: list[LocalSession]
    gone: list[tuple[str, Sent]]


def rows_of(
    store: Store, member: Membership, table: PublishedTable, sessions: Collection[LocalSession], connection: LakeConnection
) -> pa.Table | None:
    """Return the rows of a table that go of some sessions by the policies of their projects; None where none of them shares it."""
    chosen = [
        SentSession(s.host, s.session_id, s.month, ",".join(shares))
        for s in sessions
        if table.policy in (shares := member.policy_of(s.project, s.repository))
    ]
    if not chosen:
        return None
    place = (member.member, member.machine)
    return published_rows(store, table.name, table.columns, table.withheld, chosen, place=place, connection=connection)


def session_digest(s: LocalSession, policies: Collection[str]) -> str:
    """Return a digest of the rows that go of a session under its policies."""
    return digest([s.hashes.get(name, "") for name in tables_of(policies)], sorted(policies))


def rows_sent(s: LocalSession, policies: Collection[str]) -> dict[str, int]:
    """Return how many rows of a session go to each table under its policies."""
    return {name: s.rows.get(name, 0) for name in tables_of(policies)}


class Sender:
    """Commits of this machine, each under the next number; those of the holder of a shard under numbers of its token."""

    def __init__(self, store: Store, member: Membership, record: Record, token: int = 0, *, whole: bool = False) -> None:
        self._store, self._member, self._record = store, member, record
        self._least = token * _NUMBERS
        self._bucket = member.bucket()
        self.raw = RawSender(store, member, record.raw, self._bucket, self.save)
        self._tables = {name: TeamTable(self._bucket, f"{member.prefix}/{name}") for name in (*(t.name for t in PUBLISHED), LESSONS)}
        self._highest = -1
        self._again = False
        """whether commits of an earlier process may have begun"""
        self._whole = whole
        self._lost = False
        """whether the team holds rows of this machine of which it does not know any more"""
        self.number = record.number

    def demand(self) -> None:
        """Raise StoreError where no team is there, or one that asks for a newer version."""
        demand_agreement(self._bucket)
        if self._whole:
            at_once(self._usable, list(self._tables))

    def demand_own_place(self) -> None:
        """Raise StoreError as :meth:`demand` does, but not where ``team.json`` alone is lost: what is this machine's own can leave."""
        try:
            demand_agreement(self._bucket)
        except NoAgreement:
            card = json_object(self._bucket.read(card_path(self._member.member, self._member.machine)))
            if card.get("machine_id") != self._member.machine_id:  # a folder that is not mounted
                raise

    def _usable(self, name: str, *, by_type: bool = True) -> None:
        """Remove a table of this member that cannot be read, or whose columns have other types: it is made anew.

        Other machines of the member find another table in its place and send all of theirs again.
        """
        path = f"{self._member.prefix}/{name}"
        try:
            table = self._tables[name].opened()
            if table is None or not by_type or fits(table, name):
                return
        except NotATable:
            pass
        self._bucket.remove(entry.path for entry in self._bucket.entries(path))
        self._tables[name] = TeamTable(self._bucket, path)

    def _begin(self, names: Collection[str] = ()) -> int:
        """Return the next number for commits to some tables, or to all, noted before anything is sent.

        Raises Fenced where somebody else used this machine's name meanwhile.
        """
        known = max(self._record.number, self._record.pending)
        if self._highest < 0:
            self._again = self._record.pending > 0
        chosen = list(names) if known and names else list(self._tables)
        highest = max(at_once(self._last_number, chosen))
        if highest > max(known, self._highest) and (self._record.number or self._least) and highest >= self._least:
            raise fenced(self._member.prefix, self._member.writer)
        self._lost = (highest > 0 and not known) or self._whole
        self._whole = False
        self._highest = max(highest, self._highest)
        self.number = self._highest = max(self._highest, self._record.number, self._record.pending, self._least) + 1
        self._record.pending = self.number
        self.save()
        return self.number

    def _last_number(self, name: str) -> int:
        table = self._tables[name]
        noted = self._record.tables.get(name)
        if noted is not None and noted.table:  # one that was not there when it was noted may be another machine's by now
            if table.position[0] != noted.table:
                raise TableLost(f"{self._bucket.url}/{table.path} is not the table that this machine wrote", hint="ctx publish --all")
            table.recall((noted.table, noted.version), {self._member.writer: noted.number})
        return table.last_number(self._member.writer)

    def send(self, batch: Batch) -> dict[str, int]:
        """Commit one batch to every table that it concerns and return table -> rows."""
        member = self._member
        months = {s.month for s in batch.changed} | {sent.month for _, sent in batch.gone}
        ids = {s.session_id for s in batch.changed} | {key.partition("/")[2] for key, _ in batch.gone}
        held = {key: sent for key, sent in self._record.sent().items() if key.partition("/")[2] in ids}
        before = {policy for sent in held.values() for policy in sent.policies}
        now = {f"{s.host}/{s.session_id}": member.policy_of(s.project, s.repository) for s in batch.changed}
        narrower = any(set(sent.policies).difference(now.get(key, ())) for key, sent in held.items())
        due: dict[str, pa.Table] = {}
        with closing(self._store.lake.connect()) as connection:
            for published in PUBLISHED:
                rows = rows_of(self._store, member, published, batch.changed, connection)
                if rows is not None or published.policy in before:
                    due[published.name] = rows if rows is not None else _nothing()
        self._record.unsure |= {
            key: Sent(s.month, s.project, list(now[key]), "") for s in batch.changed if (key := f"{s.host}/{s.session_id}")
        }
        number = self._begin(due)
        if self._lost:
            due = {**{published.name: _nothing() for published in PUBLISHED}, **due}
        if narrower:
            self._record.erasing |= due.keys()
        keys = {"machine": {member.machine}} if self._lost else {"machine": {member.machine}, "month": months, "session_id": ids}
        # rows of sessions that the team never had take the place of none, and no file is read for it
        replacing = bool(self._lost or self._again or held)

        def put(name: str) -> None:
            table = self._tables[name]
            # a table that another writer made of this one's files names no commit of this machine
            there = self._lost or table.last_number(member.writer) > 0
            table.put(due[name], writer=member.writer, number=number, keys=keys if replacing and there else None, by=PARTITIONS)

        at_once(put, list(due))
        self._lost = False
        for key, _ in batch.gone:
            self._record.sessions.pop(key, None)
            self._record.unsure.pop(key, None)
        for s in batch.changed:
            key = f"{s.host}/{s.session_id}"
            self._record.sessions[key] = Sent(s.month, s.project, list(now[key]), session_digest(s, now[key]), rows_sent(s, now[key]))
            self._record.unsure.pop(key, None)
        self._end(due)
        return {name: rows.num_rows for name, rows in due.items()}

    def send_lessons(self, lessons: list[dict[str, Any]], made_of: str) -> None:
        """Put the lessons of this machine in the place of those that it sent before."""
        number = self._begin([LESSONS])
        keys = {"machine": {self._member.machine}, "month": {LESSONS_MONTH}}
        self._tables[LESSONS].put(lessons_table(lessons), writer=self._member.writer, number=number, keys=keys, by=PARTITIONS)
        self._record.lessons, self._record.lesson_rows = made_of, len(lessons)
        self._end([LESSONS])

    def erase(self) -> None:
        """Remove the earlier versions of the tables from which rows went that the team must not find again."""
        for name in sorted(self._record.erasing):
            self._tables[name].vacuum(0)
        if self._record.erasing:
            self._record.erasing = set()
            self._record.erased += 1
            self.save()

    def prune(self) -> None:
        """Merge the small files of tables that got many, and remove what no version of the last week needs; the next time does what fails.

        Each publication leaves a file in each table, and a hub reads them all. Files of other machines of the member stay as they are.
        """
        for name, known in self._record.tables.items():
            if known.version < known.pruned + _PRUNED:
                continue
            table = self._tables[name]
            with suppress(StoreError):
                table.compact(machine=self._member.machine)
                table.vacuum()
            own, version = table.position
            self._record.tables[name] = Known(own, version, known.number, pruned=version)
            self.save()

    def erase_all(self) -> None:
        """Remove every row of this machine for good, its card and its head; the member's folder where no other machine is in it."""
        at_once(lambda name: self._usable(name, by_type=False), list(self._tables))
        self._record.tables = {}
        member, number = self._member, self._begin()
        keys = {"machine": {member.machine}}
        for table in self._tables.values():
            if table.opened() is not None:
                table.put(_nothing(), writer=member.writer, number=number, keys=keys, by=PARTITIONS)
                table.vacuum(0)
        own = folder_of(member.member, member.machine)
        bundles = [entry.path for entry in self._bucket.entries(own)]
        self._bucket.remove([head_path(member.member, member.machine), card_path(member.member, member.machine), *bundles])
        left = [entry.path for entry in self._bucket.entries(member.prefix)]
        shard = card_path(member.member, SHARD)
        if not any(path.endswith(f"/{CARD}") and path != shard for path in left):
            self._bucket.remove([*left, head_path(member.member, SHARD)])

    def write_head(self) -> None:
        """Write, last of all, the small object by which a hub sees in one listing whose months changed."""
        months: dict[str, list[Any]] = {}
        for key, sent in sorted(self._record.sessions.items()):
            months.setdefault(sent.month, []).append((key, sent.digest))
        head = {
            "protocol": PROTOCOL,
            "package": __version__,
            "machine_id": self._member.machine_id,
            "number": self._record.number,
            "published_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "months": {month: digest(rows) for month, rows in months.items()},
            "rows": self._record.rows(),
            "lessons": self._record.lessons,
            "erased": self._record.erased,
            "raw": self.raw.head(),
        }
        self._bucket.write(head_path(self._member.member, self._member.machine), json.dumps(head).encode())
        self._record.untold = False
        self.save()

    def _end(self, names: Iterable[str]) -> None:
        for name in names:
            own, version = self._tables[name].position
            before = self._record.tables.get(name)
            pruned = before.pruned if before is not None and before.table == own else 0
            self._record.tables[name] = Known(own, version, self._tables[name].last_number(self._member.writer), pruned)
        self._record.number, self._record.pending = self.number, 0
        self.save()

    def save(self) -> None:
        """Note on this machine what was sent."""
        self._store.files.write(RECORD, msgspec.json.encode(self._record))


def _nothing() -> pa.Table:
    import pyarrow as pa

    return pa.table({})
