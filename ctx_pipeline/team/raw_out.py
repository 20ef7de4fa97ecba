"""Exact transcripts of projects whose policy is ``raw``: sealed bundles that wait in the bucket for a worker with the team's key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage.raw.segments import read_stream
from ctx_pipeline.team.bundles import MOST_BYTES, BundleFile, sealed
from ctx_pipeline.team.membership import RAW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger.rows import Source
    from ctx_pipeline.storage.team_tables.bucket import Bucket
    from ctx_pipeline.storage.team_tables.local_rows import LocalSession
    from ctx_pipeline.team.membership import Membership

REVOKED = "revoked.json"
"""Object that lists the sessions which a machine sent and wants forgotten: ``HOST/ID``."""


def folder_of(member: str, machine: str) -> str:
    """Return the folder of a machine's bundles."""
    return f"members/{member}/{machine}/raw"


def bundle_path(member: str, machine: str, number: int) -> str:
    """Return the object of a bundle."""
    return f"{folder_of(member, machine)}/{number:012}.age"


class SentRaw(msgspec.Struct):
    """The bundle in which a session went last, and what it held of it."""

    month: str
    mark: str
    bundle: int


class RawRecord(msgspec.Struct):
    """What this machine sent of exact transcripts."""

    number: int = 0
    """of the last bundle"""
    sessions: dict[str, SentRaw] = {}
    revoked: list[str] = []


class DueRaw(NamedTuple):
    """Sessions whose transcripts have to go, and those of which the team has to give them back."""

    changed: list[tuple[LocalSession, str]]
    """with the mark of what would go"""
    back: list[str]


class RawSender:
    """Sends bundles of this machine and takes sessions back."""

    def __init__(self, store: Store, member: Membership, record: RawRecord, bucket: Bucket, save: Callable[[], None]) -> None:
        self._store, self._member, self._record, self._bucket, self._save = store, member, record, bucket, save

    def compare(self, sessions: Iterable[LocalSession], looked: Collection[str]) -> DueRaw:
        """Return what has to go of the sessions of the cells that were looked at."""
        wanted = [s for s in sessions if RAW in self._member.policy_of(s.project, s.repository)]
        streams = self._streams(wanted)
        changed, present = [], set()
        for s in sorted(wanted, key=lambda s: (s.month, s.host, s.session_id)):
            own = streams[s.host, s.session_id]
            key, mark = f"{s.host}/{s.session_id}", digest([(one.stream, one.generation, one.captured) for one in own])
            present.add(key)
            before = self._record.sessions.get(key)
            if own and (before is None or before.mark != mark):
                changed.append((s, mark))
        back = [
            key for key, sent in self._record.sessions.items() if key not in present and f"{key.partition('/')[0]}|{sent.month}" in looked
        ]
        return DueRaw(changed, back)

    def size_of(self, due: DueRaw) -> int:
        """Return the bytes of the transcripts that would go."""
        streams = self._streams(s for s, _ in due.changed)
        return sum(source.captured for own in streams.values() for source in own)

    def send(self, due: DueRaw) -> int:
        """Send the transcripts of the changed sessions, in bundles, and return how many bytes they have.

        A bundle that was cut off is sent again under its number.
        """
        sent = 0
        for pieces in self._bundles(due):
            number = self._record.number + 1
            files = [file for _, _, own in pieces for file in own]
            path = bundle_path(self._member.member, self._member.machine, number)
            self._bucket.write(path, sealed(files, self._member.key))
            self._record.number = number
            for s, mark, _ in pieces:
                self._record.sessions[f"{s.host}/{s.session_id}"] = SentRaw(s.month, mark, number)
            self._save()
            sent += sum(len(file.data) for file in files)
        return sent

    def revoke(self, keys: Collection[str]) -> set[str]:
        """Have sessions forgotten by the workers, remove the bundles that wait with them, and return the partitions to look at again.

        Other sessions of these bundles go once more with the next publish.
        """
        gone = {key: self._record.sessions[key] for key in keys if key in self._record.sessions}
        if not gone:
            return set()
        self._record.revoked = sorted({*self._record.revoked, *gone})
        own = folder_of(self._member.member, self._member.machine)
        self._bucket.write(f"{own}/{REVOKED}", json.dumps(self._record.revoked).encode())
        there = {entry.path for entry in self._bucket.entries(own)}
        paths = {sent.bundle: bundle_path(self._member.member, self._member.machine, sent.bundle) for sent in gone.values()}
        waiting = {number: path for number, path in paths.items() if path in there}
        self._bucket.remove(waiting.values())
        again = {key: sent for key, sent in self._record.sessions.items() if sent.bundle in waiting}
        for key in gone | again:
            del self._record.sessions[key]
        self._save()
        return {f"{key.partition('/')[0]}|{sent.month}" for key, sent in again.items()}

    def head(self) -> dict[str, Any]:
        """Return what the head of this machine says of its transcripts."""
        return {"number": self._record.number, "revoked": digest(self._record.revoked) if self._record.revoked else ""}

    def _bundles(self, due: DueRaw) -> Iterator[list[tuple[LocalSession, str, list[BundleFile]]]]:
        waiting: list[tuple[LocalSession, str, list[BundleFile]]] = []
        held = 0
        for s, mark in due.changed:
            own = [file for source in self._streams([s])[s.host, s.session_id] if (file := self._file(source)) is not None]
            size = sum(len(file.data) for file in own)
            if waiting and held + size > MOST_BYTES:
                yield waiting
                waiting, held = [], 0
            waiting.append((s, mark, own))
            held += size
        if waiting:
            yield waiting

    def _file(self, source: Source) -> BundleFile | None:
        """Return a transcript as raw holds it; None for one of which raw holds nothing."""
        segments = [s for s in self._store.ledger.segments_of([source.stream]).get(source.stream, []) if s.generation == source.generation]
        if not segments:
            return None
        return BundleFile(source.host, source.rel, source.mtime_ns, read_stream(self._store.files, segments))

    def _streams(self, sessions: Iterable[LocalSession]) -> Mapping[tuple[str, str], list[Source]]:
        """Return (host, session) -> its files; streams of databases of a host are no files and stay."""
        found = self._store.ledger.streams_of((s.host, s.session_id) for s in sessions)
        return {key: [source for source in own if not source.marker] for key, own in found.items()}
