"""What changed since the last time goes to the team's tables, by the policy of its project; nothing goes without one."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline import __version__
from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import FACTS_ASSET, TABLES
from ctx_pipeline.redaction.redactor import Redactor
from ctx_pipeline.storage.team_tables.bucket import NotATable, at_once
from ctx_pipeline.storage.team_tables.delta import TeamTable, fenced
from ctx_pipeline.storage.team_tables.local_rows import LocalSession, SentSession, local_sessions, published_rows
from ctx_pipeline.team.lessons_out import lesson_rows, lessons_table
from ctx_pipeline.team.membership import (
    CARD,
    FOLDER,
    PROTOCOL,
    RAW,
    SHARD,
    agreement,
    card_path,
    demand,
    demand_agreement,
    depart,
    head_path,
)
from ctx_pipeline.team.published_tables import LESSONS, LESSONS_MONTH, PARTITIONS, PUBLISHED, PublishedTable, fits, tables_of
from ctx_pipeline.team.raw_out import RawRecord, RawSender, folder_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import pyarrow as pa

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.lake.queries import LakeConnection
    from ctx_pipeline.team.membership import Membership

RECORD = f"{FOLDER}/published.json"
LEASE = "team/publish"
_BATCH = 2_000
"""Sessions of one commit; rows of a table among which an example is chosen."""

_PRUNED = 25
"""Versions of a table after which its small files are merged."""

_UNSURE = "unsure"
"""In place of the digest of lessons, where the team may hold some that this machine has no more."""

_NUMBERS = 1_000_000
"""Commits that one token is enough for."""


class TableLost(StoreError):
    """A table that this machine wrote is gone, or another one is in its place."""


class Sent(msgspec.Struct):
    """What the team holds of one session of this machine."""

    month: str
    project: str
    policies: list[str]
    digest: str


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
    erased: int = 0
    """how often rows were removed for good, so that a hub does the same"""
    raw: RawRecord = msgspec.field(default_factory=RawRecord)

    def send_all(self, *, transcripts: bool) -> None:
        """Have all rows, and perhaps exact transcripts, sent once more: what the team has of them is not known."""
        self.cells, self.lessons, self.tables = {}, self.lessons and _UNSURE, {}
        self.unsure, self.sessions = self.sent(), {}
        for sent in self.raw.sessions.values() if transcripts else ():
            sent.mark = ""

    def sent(self) -> dict[str, Sent]:
        """Return the sessions of which the team has rows, or may have."""
        return {**self.unsure, **self.sessions}


class Batch(NamedTuple):
    """Sessions that go in one commit, and those whose rows have to go."""

    changed: list[LocalSession]
    gone: list[tuple[str, Sent]]


@dataclass
class Published:
    """What one publication did, or with ``dry`` would do."""

    dry: bool = False
    sessions: int = 0
    removed: int = 0
    lessons: int = 0
    transcripts: int = 0
    """sessions whose exact transcripts went, encrypted"""
    transcript_bytes: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    by_project: dict[str, dict[str, Any]] = field(default_factory=dict)
    """project -> policies, sessions that go now, sessions of the machine"""
    withheld: Counter[str] = field(default_factory=Counter)
    """project -> sessions that stay on this machine, since it has no policy"""
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the report as one object."""
        return {
            "dry_run": self.dry,
            "sessions": self.sessions,
            "sessions_removed": self.removed,
            "lessons": self.lessons,
            "transcripts": self.transcripts,
            "transcript_bytes": self.transcript_bytes,
            "rows": dict(self.rows),
            "projects": self.by_project,
            "withheld": dict(self.withheld),
            "examples": self.examples,
            "seconds": round(self.seconds, 3),
        }


def publish(store: Store, settings: Settings, *, dry_run: bool = False, whole: bool = False, token: int = 0) -> Published:
    """Send what changed to the team's tables and return what went; with ``dry_run`` nothing is sent.

    Each table of a commit takes the rows of the commit's sessions in place of what it held
    of them, under a number that rises: the same upload twice, or one that was cut off,
    gives the same rows. ``whole`` sends every session again, and so does a publication that finds one of its tables gone or
    replaced; with it a table that cannot be read or written is made anew. ``token`` is the right to a
    member's shard: numbers begin with it, so that whoever held an earlier one is fenced off. Raises UsageError without
    a team, StoreError where the bucket cannot be written, Fenced where another machine
    publishes under this machine's name.
    """
    member = demand(settings)
    with store.ledger.lease(LEASE):
        try:
            return _publish(store, settings, member, dry_run=dry_run, whole=whole, token=token)
        except TableLost:
            return _publish(store, settings, member, dry_run=False, whole=True, token=token, transcripts=whole)


def _publish(
    store: Store, settings: Settings, member: Membership, *, dry_run: bool, whole: bool, token: int, transcripts: bool = True
) -> Published:
    began = time.perf_counter()
    done = Published(dry=dry_run)
    record = read_record(store, member)
    if whole:
        record.send_all(transcripts=transcripts)
    gates = _gates(store, member)
    due = {cell for cell, gate in gates.items() if record.cells.get(cell.key) != gate}
    sessions = local_sessions(store, due, {t.name: t.columns for t in PUBLISHED}) if due else []
    looked = {cell.key for cell in due} | (record.cells.keys() - {cell.key for cell in gates})
    batches = list(_batches(_compare(record, member, sessions, looked, done)))
    sender = Sender(store, member, record, token, whole=whole)
    due_raw = sender.raw.compare(sessions, looked)
    done.transcripts = len(due_raw.changed)
    lessons = lesson_rows(store, member, Redactor(settings.patterns))
    lessons_digest = digest([list(row.values()) for row in lessons], member.share)
    lessons_due = lessons_digest != record.lessons and bool(lessons or record.lessons)
    done.lessons = len(lessons) if lessons_due else 0
    if dry_run:
        done.transcript_bytes = sender.raw.size_of(due_raw)
        _describe(store, member, batches, lessons if lessons_due else [], done)
    else:
        anything = bool(batches or lessons_due or due_raw.changed or due_raw.back)
        if anything:  # a machine with nothing new asks nothing of the network
            sender.demand()
        again = sender.raw.revoke(due_raw.back)
        done.transcript_bytes = sender.raw.send(due_raw)
        for batch in batches:
            sender.send(batch, done)
        sender.erase()
        if lessons_due:
            sender.send_lessons(lessons, lessons_digest)
            done.rows[LESSONS] += len(lessons)
        if anything:
            sender.write_head()
            sender.prune()
        if due or record.cells.keys() - {cell.key for cell in gates}:
            record.cells = {cell.key: gate for cell, gate in gates.items() if cell.key not in again}
            sender.save()
    done.seconds = time.perf_counter() - began
    return done


def withdraw(store: Store, settings: Settings, sessions: Iterable[tuple[str, str]]) -> int:
    """Remove the rows of sessions (host, id) from the team's tables for good and return how many sessions the team held.

    Their earlier versions go too; a hub does the same with its copies at its next refresh.
    Raises as :func:`publish` does.
    """
    member = demand(settings)
    with store.ledger.lease(LEASE):
        record = read_record(store, member)
        keys = {f"{host}/{name}" for host, name in sessions}
        there = record.sent()
        gone = [(key, there[key]) for key in sorted(keys & there.keys())]
        held = keys & (there.keys() | record.raw.sessions.keys())
        if held:
            sender = Sender(store, member, record)
            sender.demand()
            for cell in sender.raw.revoke(keys):
                record.cells.pop(cell, None)
            if gone:
                sender.send(Batch([], gone), Published())
                sender.erase()
            sender.write_head()
            sender.save()
        return len(held)


def leave(store: Store, settings: Settings, *, erase: bool = False) -> int:
    """Take this machine out of its team and return how many sessions were erased there.

    Without ``erase`` what was published stays, and this machine alone can take its names again.

    What a person erases is gone from the machine's tables with all earlier versions, and from the hub at its next refresh.
    """
    member = demand(settings)
    erased = 0
    with store.ledger.lease(LEASE):
        record = read_record(store, member)
        if erase:
            erased = len(record.sent().keys() | record.raw.sessions.keys())
            sender = Sender(store, member, record)
            agreement(member.bucket())  # where it says nothing, rows may lie there all the same
            sender.erase_all()
        store.files.remove(RECORD)
        depart(settings, member, erased=erase)
    return erased


def read_record(store: Store, member: Membership) -> Record:
    """Return what was sent under this membership; an empty record where that is not known."""
    if not store.files.exists(RECORD):
        return Record(machine_id=member.machine_id)
    try:
        found = msgspec.json.decode(store.files.read(RECORD), type=Record)
    except msgspec.MsgspecError:
        return Record(machine_id=member.machine_id)
    return found if found.machine_id == member.machine_id else Record(machine_id=member.machine_id)


def _gates(store: Store, member: Membership) -> dict[Cell, str]:
    """Return cell -> digest of its committed tables and of all that decides what of them goes."""
    facts = store.lake.manifests(FACTS_ASSET)
    rules = [(t.name, TABLES[t.name].version, t.columns, sorted(t.withheld.items())) for t in PUBLISHED]
    return {
        cell: digest(m.content_hash, facts[cell].content_hash if cell in facts else "", sorted(member.share.items()), rules, PROTOCOL)
        for cell, m in store.lake.manifests("normalized").items()
    }


def _compare(record: Record, member: Membership, sessions: Iterable[LocalSession], looked: Collection[str], done: Published) -> Batch:
    """Return what has to go of the sessions of the cells that were looked at, and what the team holds of them that has to leave."""
    changed, gone, present = [], [], set()
    for s in sessions:
        key = f"{s.host}/{s.session_id}"
        policies = member.policy_of(s.project, s.repository)
        if not tables_of(policies) and RAW not in policies:
            done.withheld[s.project] += 1
            continue
        counts = done.by_project.setdefault(s.project, {"policies": list(policies), "sessions": 0, "of": 0})
        counts["of"] += 1
        if not tables_of(policies):
            continue
        present.add(key)
        before = record.sessions.get(key)
        now = _digest(s, policies)
        if before is not None and (before.digest, before.month) == (now, s.month):
            continue
        counts["sessions"] += 1
        changed.append(s)
        if before is not None and before.month != s.month:
            gone.append((key, before))
    for key, sent in record.sent().items():
        if key not in present and f"{key.partition('/')[0]}|{sent.month}" in looked:
            gone.append((key, sent))
    return Batch(changed, gone)


def _batches(all_of_it: Batch) -> Iterator[Batch]:
    changed = sorted(all_of_it.changed, key=lambda s: (s.month, s.host, s.session_id))
    for start in range(0, max(len(changed), 1), _BATCH):
        batch = Batch(changed[start : start + _BATCH], all_of_it.gone if start == 0 else [])
        if batch.changed or batch.gone:
            yield batch


def _describe(store: Store, member: Membership, batches: Iterable[Batch], lessons: list[dict[str, Any]], done: Published) -> None:
    """Note what would go: rows by table and the first row of each."""
    for batch in batches:
        done.sessions += len(batch.changed)
        done.removed += len(batch.gone)
        with closing(store.lake.connect()) as connection:
            for table in PUBLISHED:
                rows = _rows_of(store, member, table, batch.changed, connection)
                if rows is not None and rows.num_rows:
                    done.rows[table.name] += rows.num_rows
                    done.examples.setdefault(table.name, _fullest(rows))
    if lessons:
        done.rows[LESSONS] += len(lessons)
        done.examples[LESSONS] = lessons[0]


def _fullest(rows: pa.Table) -> dict[str, Any]:
    """Return the row with most in it, so that an example shows what a policy lets out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    some = rows.slice(0, _BATCH)
    filled = [pc.cast(pc.is_valid(column), pa.int64()) for column in some.columns]
    total = filled[0]
    for one in filled[1:]:
        total = pc.add(total, one)
    found: dict[str, Any] = some.slice(pc.index(total, pc.max(total)).as_py(), 1).to_pylist()[0]
    return found


def _rows_of(
    store: Store, member: Membership, table: PublishedTable, sessions: Collection[LocalSession], connection: LakeConnection
) -> pa.Table | None:
    chosen = [
        SentSession(s.host, s.session_id, s.month, ",".join(shares))
        for s in sessions
        if table.policy in (shares := member.policy_of(s.project, s.repository))
    ]
    if not chosen:
        return None
    place = (member.member, member.machine)
    return published_rows(store, table.name, table.columns, table.withheld, chosen, place=place, connection=connection)


def _digest(s: LocalSession, policies: Collection[str]) -> str:
    return digest([s.hashes.get(name, "") for name in tables_of(policies)], sorted(policies))


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
        self._erasing: set[str] = set()
        """tables from which rows went that the team must not find again"""
        self._whole = whole
        self._lost = False
        """whether the team holds rows of this machine of which it does not know any more"""
        self.number = record.number

    def demand(self) -> None:
        """Raise StoreError where no team is there, or one that asks for a newer version."""
        demand_agreement(self._bucket)
        if self._whole:
            at_once(self._usable, list(self._tables))

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

    def send(self, batch: Batch, done: Published) -> None:
        """Commit one batch to every table that it concerns."""
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
                rows = _rows_of(self._store, member, published, batch.changed, connection)
                if rows is not None or published.policy in before:
                    due[published.name] = rows if rows is not None else _nothing()
        self._record.unsure |= {
            key: Sent(s.month, s.project, list(now[key]), "") for s in batch.changed if (key := f"{s.host}/{s.session_id}")
        }
        number = self._begin(due)
        if self._lost:
            due = {**{published.name: _nothing() for published in PUBLISHED}, **due}
        if narrower:
            self._erasing |= due.keys()
        keys = {"machine": {member.machine}} if self._lost else {"machine": {member.machine}, "month": months, "session_id": ids}
        # rows of sessions that the team never had take the place of none, and no file is read for it
        replacing = bool(self._lost or self._again or held)

        def put(name: str) -> None:
            table = self._tables[name]
            # a table that another writer made of this one's files names no commit of this machine
            there = self._lost or table.last_number(member.writer) > 0
            table.put(due[name], writer=member.writer, number=number, keys=keys if replacing and there else None, by=PARTITIONS)

        at_once(put, list(due))
        done.rows.update({name: rows.num_rows for name, rows in due.items()})
        self._lost = False
        done.sessions += len(batch.changed)
        done.removed += len(batch.gone)
        for key, _ in batch.gone:
            self._record.sessions.pop(key, None)
            self._record.unsure.pop(key, None)
        for s in batch.changed:
            key = f"{s.host}/{s.session_id}"
            self._record.sessions[key] = Sent(s.month, s.project, list(now[key]), _digest(s, now[key]))
            self._record.unsure.pop(key, None)
        self._end(due)

    def send_lessons(self, lessons: list[dict[str, Any]], made_of: str) -> None:
        """Put the lessons of this machine in the place of those that it sent before."""
        number = self._begin([LESSONS])
        keys = {"machine": {self._member.machine}, "month": {LESSONS_MONTH}}
        self._tables[LESSONS].put(lessons_table(lessons), writer=self._member.writer, number=number, keys=keys, by=PARTITIONS)
        self._record.lessons = made_of
        self._end([LESSONS])

    def erase(self) -> None:
        """Remove the earlier versions of the tables from which rows went that the team must not find again."""
        for name in sorted(self._erasing):
            self._tables[name].vacuum(0)
        if self._erasing:
            self._erasing.clear()
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
            "lessons": self._record.lessons,
            "erased": self._record.erased,
            "raw": self.raw.head(),
        }
        self._bucket.write(head_path(self._member.member, self._member.machine), json.dumps(head).encode())

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
