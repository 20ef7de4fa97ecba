"""Is the store sound, and what could not be read? As data; the command line prints it."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.stages import capture, code_versions, forgotten_shared, retention
from ctx_pipeline.stages.forget import remembered
from ctx_pipeline.stages.ingest import LEASE
from ctx_pipeline.storage import FORGETTING, temporary
from ctx_pipeline.storage import segments as raw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.stages.capture import Problem, Retention
    from ctx_pipeline.stages.retention import Gap, Kept
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.lake import Manifest
    from ctx_pipeline.storage.ledger import Ledger, QuarantineRow
    from ctx_pipeline.storage.ledger.rebuilding import Rebuilt
    from ctx_pipeline.storage.temporary import Temporary

_LISTED = 20
"""Lines printed of a long list; ``to_json`` has all of them."""

_WAIT = 30.0
"""Seconds: a person waits for another writer."""

_MEND = "it is made again by: ctx doctor --rebuild-ledger, then ctx run"


class Damage(NamedTuple):
    """An object of the store that cannot be trusted."""

    path: str
    reason: str


@dataclass(slots=True)
class Examination:
    """What ``ctx doctor`` found."""

    home: str
    totals: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """bytes on disk by the first folder or file name"""
    damaged: list[Damage] = field(default_factory=list)
    spare: list[str] = field(default_factory=list)
    """raw objects that the ledger does not name: left by a capture that died"""
    temporaries: list[Temporary] = field(default_factory=list)
    """files and folders that are being written, or were when a process ended, wherever they lie in the store"""
    quarantined: list[QuarantineRow] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    retention: list[Retention] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    """how long each home keeps transcripts, and what is about to go"""
    gaps: list[Gap] = field(default_factory=list)
    """what hosts deleted before it was captured"""
    pending: int = 0
    waiting: int = 0
    vanished: int = 0
    """sources that the store still holds and the homes no longer do"""
    unfinished: bool = False
    """whether a forgetting was interrupted"""
    leases: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """the person's files of signals and methods, and plug-ins, that cannot be used, and why"""

    @property
    def sound(self) -> bool:
        """Whether every object of the store is what it says it is."""
        return not self.damaged

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        values = asdict(self)
        for name in ("damaged", "temporaries", "quarantined", "problems"):
            values[name] = [row._asdict() for row in getattr(self, name)]
        for name in ("retention", "kept", "gaps"):
            values[name] = [{**row._asdict(), "message": row.message} for row in getattr(self, name)]
        return {**values, "sound": self.sound}

    def lines(self) -> list[str]:
        """Return the report as lines of text, the worst first."""
        found = [
            f"store {self.home}: {_size(sum(self.sizes.values()))}, {'sound' if self.sound else f'{len(self.damaged)} damaged objects'}"
        ]
        found += _listed("damaged", [f"{d.path}: {d.reason}" for d in self.damaged])
        found += [f"  {name}: {_size(size)}" for name, size in sorted(self.sizes.items(), key=lambda pair: -pair[1])]
        found += [f"{_count(self.totals.get('sessions', 0), 'session')}, {_count(self.totals.get('sources', 0), 'source')} captured"]
        found += [f"retention: {home.message}" for home in self.kept]
        found += _listed("gaps", [gap.message for gap in self.gaps])
        found += _listed("cannot be captured", [f"{p.path}: {p.reason}" for p in self.problems])
        reasons = Counter((q.host, q.session_id, q.reason) for q in self.quarantined)
        found += _listed(
            "quarantined",
            [
                f"{host} {session}: {reason}{f' ({count} times)' if count > 1 else ''}"
                for (host, session, reason), count in sorted(reasons.items())
            ],
        )
        found += _listed(
            "unknown types", [f"{label}: {count}" for label, count in sorted(self.unknown.items(), key=lambda pair: (-pair[1], pair[0]))]
        )
        waiting = [
            (self.pending, "source has", "sources have", "new bytes: ctx run"),
            (self.waiting, "file ends", "files end", "in a half-written line"),
        ]
        found += [f"{number} {one if number == 1 else many} {what}" for number, one, many, what in waiting if number]
        if self.vanished:
            found.append(f"{_count(self.vanished, 'source')} kept here and gone from the homes")
        if self.spare:
            found.append(f"{_count(len(self.spare), 'raw object')} left over from an interrupted capture; nothing is missing")
        if self.temporaries:
            total = _size(sum(t.bytes for t in self.temporaries))
            left = sum(t.left for t in self.temporaries)
            many = _count(len(self.temporaries), "temporary file")
            found.append(f"{many} ({total}), {left} of them left behind by processes that ended; ctx run removes those")
        if self.unfinished:
            found.append("sessions are being forgotten, or that was interrupted: any command ends it, or ctx forget --finish")
        found += _listed("left out", [why if place in why else f"{place}: {why}" for place, why in self.left_out.items()])
        found += [f"being written: {name} by {who}" for name, who in self.leases.items()]
        return found


def examine(store: Store, settings: Settings, *, hosts: Mapping[str, Host] | None = None) -> Examination:
    """Return the state of the store and of the homes; reads and unpacks every raw object, writes nothing."""
    report = Examination(str(store.home), sizes=sizes(store))
    ledger = store.ledger
    report.totals = ledger.totals()
    rows = ledger.segments()
    named = dict.fromkeys(segment.path for segment in rows)
    for path in named:
        try:
            raw.read_segment(store.files, path)
        except StoreError as error:
            report.damaged.append(Damage(path, error.message))
    for path in store.files.walk("raw"):
        if path not in named:
            report.spare.append(path)
    report.temporaries = list(temporary.everywhere(store.home))
    report.damaged += _databases(store)
    report.damaged += _incomplete(store)
    report.quarantined = ledger.quarantined()
    report.unknown = ledger.unknowns()
    report.unfinished = store.files.exists(FORGETTING)
    report.leases = ledger.held_leases()
    report.left_out = code_versions.versions(store.files, settings, keep=False).left_out
    scan = capture.scan(store, settings, hosts=hosts)
    report.problems, report.retention = scan.problems, scan.retention
    report.kept = retention.kept(store, settings, scan, hosts=hosts)
    report.gaps = retention.gaps(store, scan=scan, hosts=hosts)
    report.pending, report.waiting = len(scan.pending), scan.waiting
    # a rebuilt ledger calls all of them vanished until a run has looked; what this scan saw is there
    seen = {s.stream for s in scan.touched} | {p.stream for p in scan.pending} | {m.source.stream for m in scan.moved}
    vanished = {source.stream for source in ledger.sources().values() if source.state == "vanished"}
    report.vanished = len({*vanished, *scan.vanished} - seen)
    return report


def rebuild_ledger(store: Store, settings: Settings, *, hosts: Mapping[str, Host] | None = None) -> Rebuilt:
    """Replace the ledger by one made of raw alone; what was derived is made again by the next run.

    The tombstones of the old ledger, if it can be read, and of the journal stay. The
    new file takes the old one's place in one rename. Manifests that name a missing part
    are dropped.
    """
    from ctx_pipeline.storage.ledger import Ledger

    known = discovery.hosts() if hosts is None else hosts
    path = store.home / "ledger.db"
    fresh = store.home / temporary.name()
    with _alone(store):
        stones = {*_stones(store), *remembered(store)}
        made = Ledger(fresh, first_month=settings.first_month)
        if stones:
            made.remember_forgotten(stones)
        result = made.rebuild(store.files, hosts=known, redact=capture.redactor_of(settings).redact)
        forgotten_shared.recognize(store, made, known)
        made.compact()
        made.close()
        store.close()
        store.__dict__.pop("ledger", None)
        _drop(path, keep=True)
        os.replace(fresh, path)  # noqa: PTH105 - atomic, as everywhere in the store
        _drop(fresh)
        _drop_incomplete(store)
    return result


def sizes(store: Store) -> dict[str, int]:
    """Return bytes on disk by the first folder or file name below the store."""
    found: Counter[str] = Counter()
    for rel in store.files.walk():
        first = rel.partition("/")[0]
        found[first.removesuffix("-wal").removesuffix("-shm")] += store.files.size(rel)
    return dict(sorted(found.items()))


def _incomplete(store: Store) -> list[Damage]:
    """Return the manifests that cannot be read or name a part that is not there, and what to do about it."""
    found = []
    for asset, manifest, name in _manifests(store):
        if manifest is None:
            found.append(Damage(name, f"cannot be read; {_MEND}"))
            continue
        missing = [part.path for part in manifest.parts if not store.files.exists(part.path)]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            found.append(Damage(name, f"the part {missing[0]}{more} of {asset} is missing; {_MEND}"))
    return found


def _manifests(store: Store) -> Iterator[tuple[str, Manifest | None, str]]:
    """Yield (asset, manifest, its file) of every manifest; None where it cannot be read."""
    from ctx_pipeline.storage.lake.manifests import FOLDER, decode

    for rel in store.files.walk(FOLDER):
        try:
            manifest = decode(store.files.read(rel), rel)
        except StoreError:
            yield "", None, rel
            continue
        yield manifest.asset, manifest, rel


def _drop_incomplete(store: Store) -> None:
    """Drop the manifests that cannot be kept: with a ledger made anew, the next run makes their cells again."""
    for damage in _incomplete(store):
        store.files.remove(damage.path)


def _databases(store: Store) -> list[Damage]:
    """Ask SQLite whether its files are whole."""
    import sqlite3

    found = []
    for name in ("ledger.db", "journal.db", "search.db", "memory.db", "cases.db"):
        path = store.home / name
        if not path.exists():
            continue
        try:
            connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
            try:
                answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            finally:
                connection.close()
        except sqlite3.Error as error:
            found.append(Damage(name, str(error)))
            continue
        if answer != "ok":
            found.append(Damage(name, str(answer)))
    return found


def _stones(store: Store) -> list[Any]:
    try:
        ledger: Ledger = store.ledger
        return list(ledger.tombstones())
    except StoreDamaged:
        return []


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Keep every writer of raw and of the tables out; a damaged ledger lets nobody in anyway."""
    with ExitStack() as leases:
        try:
            for name in (capture.LEASE, LEASE):
                leases.enter_context(store.ledger.lease(name, wait=_WAIT))
        except StoreDamaged:
            pass
        yield


def _drop(path: Any, *, keep: bool = False) -> None:
    for suffix in ("-wal", "-shm") if keep else ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _listed(title: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    more = [f"  and {len(rows) - _LISTED} more (--json has all)"] if len(rows) > _LISTED else []
    return [f"{title}:", *(f"  {row}" for row in rows[:_LISTED]), *more]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _size(number: int) -> str:
    value = float(number)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
