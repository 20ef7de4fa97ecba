"""Is the store sound, and what could not be read? As data; the command line prints it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.model.display import size
from ctx_pipeline.model.plain import plain
from ctx_pipeline.pipeline import capture, code_versions, session_errors
from ctx_pipeline.pipeline.capture import retention
from ctx_pipeline.pipeline.repair import damaged_outputs
from ctx_pipeline.pipeline.repair.new_journal import whole
from ctx_pipeline.pipeline.repair.rebuild import rebuild_ledger
from ctx_pipeline.storage import FORGETTING, temporary
from ctx_pipeline.storage.raw import segments as raw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.facts.expiring import HomeRetention
    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.pipeline.capture import Problem, Retention
    from ctx_pipeline.pipeline.capture.retention import Gap
    from ctx_pipeline.pipeline.session_errors import SessionError
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import QuarantineRow
    from ctx_pipeline.storage.temporary import Temporary

__all__ = ["Damage", "Examination", "examine", "rebuild_ledger", "sizes"]

_LISTED = 20
"""Lines printed of a long list; ``to_json`` has all of them."""

_DAGSTER = "dagster"


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
    set_aside: list[str] = field(default_factory=list)
    """raw objects that were found damaged and of which no whole copy was captured since: what they held is lost"""
    raw_lost: list[tuple[str, str]] = field(default_factory=list)
    """sessions (host, id) of which raw does not hold all any more: what was made of them is kept as it is"""
    quarantined: list[QuarantineRow] = field(default_factory=list)
    session_errors: list[SessionError] = field(default_factory=list)
    """what went wrong with single sessions after they were captured"""
    unknown: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    retention: list[Retention] = field(default_factory=list)
    kept: list[HomeRetention] = field(default_factory=list)
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
        explained = {name: plain(getattr(self, name), "message") for name in ("retention", "kept", "gaps")}
        return {**plain(self, "sound"), **explained}

    def lines(self) -> list[str]:
        """Return the report as lines of text, the worst first."""
        found = [
            f"store {self.home}: {size(sum(self.sizes.values()))}, "
            + ("sound" if self.sound else f"{len(self.damaged)} damaged objects")
            + (f"; {_count(len(self.set_aside), 'raw object')} lost" if self.set_aside else "")
            + (f"; the raw of {_count(len(self.raw_lost), 'session')} is lost" if self.raw_lost else "")
        ]
        found += _listed("damaged", [f"{d.path}: {d.reason}" for d in self.damaged])
        found += _listed("lost, the damaged bytes are kept", self.set_aside)
        found += _listed("raw lost, kept as made before", [f"{host} {session}" for host, session in self.raw_lost])
        found += [f"  {name}: {size(octets)}" for name, octets in sorted(self.sizes.items(), key=lambda pair: -pair[1])]
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
            "not worked out completely",
            [f"{e.host} {e.session_id} ({e.asset}): {e.reason}{f' ({e.times} times)' if e.times > 1 else ''}" for e in self.session_errors],
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
            found.append(f"{_count(len(self.spare), 'raw object')} left over from an interrupted capture")
        if self.temporaries:
            total = size(sum(t.bytes for t in self.temporaries))
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
    others = [path for path in store.files.walk("raw") if path not in named]
    report.spare = [path for path in others if not path.endswith(raw.ASIDE)]
    report.set_aside = [path for path in others if path.endswith(raw.ASIDE) and path.removesuffix(raw.ASIDE) not in named]
    report.temporaries = list(temporary.everywhere(store.home))
    report.damaged += _databases(store)
    report.damaged += [Damage(*one) for one in damaged_outputs.damaged(store, deep=True)]
    report.raw_lost = [(row.host, row.session_id) for row in ledger.undecodable_sessions()]
    report.quarantined = ledger.quarantined()
    report.session_errors = session_errors.stored_errors(store)
    report.unknown = ledger.unknowns()
    report.unfinished = store.files.exists(FORGETTING)
    report.leases = ledger.held_leases()
    report.left_out = code_versions.versions(store.files, settings, keep=False).left_out
    scan = capture.scan(store, settings, hosts=hosts)
    report.problems, report.retention = scan.problems, scan.retention
    report.kept = retention.retention_by_home(store, settings, scan, hosts=hosts)
    report.gaps = retention.gaps(store, scan=scan, hosts=hosts)
    report.pending, report.waiting = len(scan.pending), scan.waiting
    # a rebuilt ledger calls all of them vanished until a run has looked; what this scan saw is there
    seen = {s.stream for s in scan.touched} | {p.stream for p in scan.pending} | {m.source.stream for m in scan.moved}
    vanished = {source.stream for source in ledger.sources().values() if source.state == "vanished"}
    report.vanished = len({*vanished, *scan.vanished} - seen)
    return report


def sizes(store: Store) -> dict[str, int]:
    """Return bytes on disk by the first folder or file name below the store."""
    found: Counter[str] = Counter()
    for rel in store.files.walk():
        first = rel.partition("/")[0]
        found[first.removesuffix("-wal").removesuffix("-shm")] += store.files.size(rel)
    return dict(sorted(found.items()))


def _databases(store: Store) -> list[Damage]:
    """Ask SQLite whether the files are whole that no run makes again, or no run of the stages."""
    found = []
    try:
        store.journal.demand()
    except StoreDamaged as error:
        found.append(Damage("journal.db", f"{error.message}; {error.hint}"))
    history = [f"{_DAGSTER}/{path.relative_to(store.home / _DAGSTER).as_posix()}" for path in sorted((store.home / _DAGSTER).rglob("*.db"))]
    hints = {
        "ledger.db": "ctx doctor --rebuild-ledger",
        "journal.db": "ctx doctor --new-journal",
        "contexts.db": "put a backup in its place",
    }
    for name in (*hints, *history):
        path = store.home / name
        known = any(damage.path == name for damage in found)
        if path.exists() and not known and not (whole(path) and (path.stat().st_size or name == "contexts.db")):
            found.append(
                Damage(name, f"is damaged; {hints.get(name, 'the next ctx run sets it aside and begins the history of runs anew')}")
            )
    return found


def _listed(title: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    more = [f"  and {len(rows) - _LISTED} more (--json has all)"] if len(rows) > _LISTED else []
    return [f"{title}:", *(f"  {row}" for row in rows[:_LISTED]), *more]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
