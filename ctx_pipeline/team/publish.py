"""What changed since the last time goes to the team's tables, by the policy of its project; nothing goes without one."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import FACTS_ASSET, TABLES
from ctx_pipeline.redaction.redactor import Redactor
from ctx_pipeline.storage.team_tables.local_rows import LocalSession, local_sessions
from ctx_pipeline.team.lessons_out import lessons_that_leave
from ctx_pipeline.team.membership import PROTOCOL, RAW, demand
from ctx_pipeline.team.published_tables import LESSONS, PUBLISHED, tables_of
from ctx_pipeline.team.sent_record import LEASE, Record, read_record
from ctx_pipeline.team.table_sender import Batch, Sender, TableLost, rows_of, rows_sent, session_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import pyarrow as pa

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.team.membership import Membership

_BATCH = 2_000
"""Sessions of one commit; rows of a table among which an example is chosen."""


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
    lessons_withheld: Counter[str] = field(default_factory=Counter)
    """why -> accepted lessons that stay on this machine"""
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
            "lessons_withheld": dict(self.lessons_withheld),
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
    lessons, done.lessons_withheld = lessons_that_leave(store, member, Redactor(settings.patterns))
    lessons_digest = digest([list(row.values()) for row in lessons], member.share)
    lessons_due = lessons_digest != record.lessons and bool(lessons or record.lessons)
    done.lessons = len(lessons) if lessons_due else 0
    if dry_run:
        done.transcript_bytes = sender.raw.size_of(due_raw)
        _describe(store, member, batches, lessons if lessons_due else [], done)
    else:
        anything = bool(batches or lessons_due or due_raw.changed or due_raw.back or record.untold or record.erasing)
        if anything:  # a machine with nothing new asks nothing of the network
            sender.demand()
            record.untold = True
        again = sender.raw.revoke(due_raw.back)
        done.transcript_bytes = sender.raw.send(due_raw)
        for batch in batches:
            done.rows.update(sender.send(batch))
            done.sessions += len(batch.changed)
            done.removed += len(batch.gone)
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
        now = session_digest(s, policies)
        if before is not None and (before.digest, before.month) == (now, s.month):
            before.rows = rows_sent(s, policies)
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
                rows = rows_of(store, member, table, batch.changed, connection)
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
