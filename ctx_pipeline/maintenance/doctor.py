"""Is the store sound, and what could not be read? As data; the command line prints it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import CtxError, RawLocked
from ctx_pipeline.maintenance.backup import known_backups
from ctx_pipeline.memory.injection_policy import MEASURED, quiet_kinds
from ctx_pipeline.model.codec import plain
from ctx_pipeline.model.display import size
from ctx_pipeline.pipeline import capture, code_versions, session_errors
from ctx_pipeline.pipeline.capture import retention
from ctx_pipeline.pipeline.repair import checks, damaged_raw
from ctx_pipeline.pipeline.repair.rebuild import rebuild_ledger
from ctx_pipeline.storage import FORGETTING, temporary
from ctx_pipeline.storage.raw import encryption
from ctx_pipeline.storage.raw import segments as raw
from ctx_pipeline.storage.raw.segments import stream_text
from ctx_pipeline.storage.warehouse import contract_checks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.facts.expiring import HomeRetention
    from ctx_pipeline.model.declared import Formats, Host
    from ctx_pipeline.pipeline.capture import Problem, Retention
    from ctx_pipeline.pipeline.capture.retention import Gap
    from ctx_pipeline.pipeline.repair.damaged_raw import LostRange
    from ctx_pipeline.pipeline.session_errors import SessionError
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import QuarantineRow
    from ctx_pipeline.storage.temporary import Temporary

__all__ = ["Damage", "Examination", "examine", "rebuild_ledger"]


_LISTED = 20
_LARGEST = 5
"""Lines printed of a long list; ``to_json`` has all of them."""


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
    locked: str = ""
    """why raw objects were looked at by name and size alone"""
    spare: list[str] = field(default_factory=list)
    """raw objects that the ledger does not name: left by a capture that died"""
    temporaries: list[Temporary] = field(default_factory=list)
    """files and folders that are being written, or were when a process ended, wherever they lie in the store"""
    set_aside: list[str] = field(default_factory=list)
    """raw objects that were found damaged and of which no whole copy was captured since: what they held is lost"""
    raw_lost: list[tuple[str, str]] = field(default_factory=list)
    """sessions (host, id) of which raw does not hold all any more: what was made of them is kept as it is"""
    lost: list[LostRange] = field(default_factory=list)
    """bytes of sources that nobody has any more"""
    quarantined: list[QuarantineRow] = field(default_factory=list)
    session_errors: list[SessionError] = field(default_factory=list)
    """what went wrong with single sessions after they were captured"""
    unknown: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    linked: list[tuple[str, str]] = field(default_factory=list)
    """folders outside of the homes that are read because a link leads there: the link, and the folder"""
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
    backups: dict[str, str] = field(default_factory=dict)
    """folder of each known backup -> when it was made last, the latest first; empty where that is not known"""
    leases: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """the person's files of signals and methods, and plug-ins, that cannot be used, and why"""
    only_once_accepted: list[str] = field(default_factory=list)
    """kinds of lessons that hooks tell only once accepted, by the newest backtest"""

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
        found += [f"{self.locked}: looked at by name and size alone"] if self.locked else []
        found += _listed("lost, the damaged bytes are kept", self.set_aside)
        found += _listed("raw lost, kept as made before", [f"{host} {session}" for host, session in self.raw_lost])
        found += _listed("lost for good", [str(one).removeprefix("lost for good: ") for one in self.lost])
        found += [f"{_count(self.totals.get('sessions', 0), 'session')}, {_count(self.totals.get('sources', 0), 'source')} captured"]
        found += [f"retention: {home.message}" for home in self.kept]
        found += _listed("gaps", [gap.message for gap in self.gaps])
        found += _listed(
            'read through links out of a home; for one that should not be read: ignore = ["*/FOLDER"] in config.toml',
            [f"{link} -> {folder}" for link, folder in self.linked],
        )
        found += _listed("cannot be captured", [f"{p.path}: {p.reason}" for p in self.problems])
        reasons = Counter((q.host, q.session_id, q.reason) for q in self.quarantined)
        found += _listed(
            "records that could not be read, kept as they are",
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
            "records of an unknown kind, kept as they are",
            [f"{label}: {count}" for label, count in sorted(self.unknown.items(), key=lambda pair: (-pair[1], pair[0]))],
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
        found += _listed("lessons told only once accepted, by the newest backtest", self.only_once_accepted)
        found += [f"being written: {name} by {who}" for name, who in self.leases.items()]
        largest = sorted(self.sizes.items(), key=lambda pair: -pair[1])
        rest = [octets for _, octets in largest[_LARGEST:]]
        sizes = [f"{name} {size(octets)}" for name, octets in largest[:_LARGEST]]
        found.append("sizes: " + ", ".join([*sizes, *([f"{_count(len(rest), 'other')} {size(sum(rest))}"] if rest else [])]))
        return found


def examine(store: Store, settings: Settings, *, hosts: Mapping[str, Host] | None = None) -> Examination:
    """Return the state of the store and of the homes; every raw object that is new or changed since it was last looked at is unpacked.

    Nothing is written but which objects were found whole.
    """
    report = Examination(str(store.home), sizes=_by_first_name(store.files.sizes()))
    ledger = store.ledger
    report.totals = ledger.totals()
    rows = ledger.segments()
    named = dict.fromkeys(segment.path for segment in rows)
    others = [path for path in store.files.walk("raw") if path not in named]
    report.spare = [path for path in others if not path.endswith(raw.ASIDE)]
    report.set_aside = [path for path in others if path.endswith(raw.ASIDE) and path.removesuffix(raw.ASIDE) not in named]
    report.temporaries = list(temporary.everywhere(store.home))
    try:
        encryption.require(store.files)
    except RawLocked as error:
        report.locked = error.message
    report.damaged = [Damage(*one) for one in checks.everything(store, unpacked=not report.locked, again=False)]
    report.lost = damaged_raw.lost_ranges(store)
    report.raw_lost = [(row.host, row.session_id) for row in ledger.undecodable_sessions()]
    report.quarantined = ledger.quarantined()
    report.session_errors = session_errors.stored_errors(store, settings)
    report.unknown = ledger.unknowns()
    report.unfinished = store.files.exists(FORGETTING)
    report.backups = known_backups(store)
    report.leases = ledger.live_leases()
    kept = store.journal.newest(MEASURED, 1)
    report.only_once_accepted = quiet_kinds(kept[0].payload.get("moments", {})) if kept else []
    report.left_out = code_versions.versions(store.files, settings, keep=False).left_out
    scan = capture.scan(store, settings, hosts=hosts, thorough=False)
    report.problems, report.linked, report.retention = scan.problems, scan.linked, scan.retention
    report.kept = retention.retention_by_home(store, settings, scan, hosts=hosts)
    report.gaps = retention.gaps(store, scan=scan, hosts=hosts)
    report.pending, report.waiting = len(scan.pending), scan.waiting
    # a rebuilt ledger calls all of them vanished until a run has looked; what this scan saw is there
    seen = {s.stream for s in scan.touched} | {p.stream for p in scan.pending} | {m.source.stream for m in scan.moved}
    vanished = {source.stream for source in ledger.sources().values() if source.state == "vanished"}
    report.vanished = len({*vanished, *scan.vanished} - seen)
    return report


def _by_first_name(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return bytes by the first folder or file name of their files."""
    found: Counter[str] = Counter()
    for rel, octets in sizes.items():
        found[rel.partition("/")[0].removesuffix("-wal").removesuffix("-shm")] += octets
    return dict(sorted(found.items()))


def _listed(title: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    more = [f"  and {len(rows) - _LISTED} more (--json has all)"] if len(rows) > _LISTED else []
    return [f"{title}:", *(f"  {row}" for row in rows[:_LISTED]), *more]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# What was redacted, by detector, by project and by session; values are told nowhere.


def redactions(*, settings: settings_module.Settings | None = None) -> dict[str, Any]:
    """Return ``detectors``, ``projects`` and ``sessions``, each the most redacted first, as of the last run.

    ``live`` has, by detector, the different secrets among them that may open something:
    no examples, test values, ids or names of variables.

    Raises StoreError where nothing was run yet.
    """
    from ctx_pipeline.storage.ledger.rows import live_secrets
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.warehouse.contract_checks import counts

    with reading(settings or settings_module.load()) as (store, _):
        rows = counts(store.warehouse_path)
        live = live_secrets(store.ledger.sessions())
    by_detector: Counter[str] = Counter()
    by_project: Counter[str] = Counter()
    sessions: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        by_detector[row.detector] += row.found
        by_project[row.project] += row.found
        sessions.setdefault(row.detector, set()).add((row.host, row.session_id))
    return {
        "detectors": [{"detector": name, "found": found, "sessions": len(sessions[name])} for name, found in _ranked(by_detector)],
        "projects": [{"project": name, "found": found} for name, found in _ranked(by_project)],
        "sessions": [row._asdict() for row in sorted(rows, key=lambda row: (-row.found, row))],
        "live": dict(_ranked(live)),
    }


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


# How much of what each version of a host writes is understood: records, types and fields. As data; ctx doctor
# --formats prints it.


_anything = msgspec.json.Decoder()


@dataclass(slots=True)
class Understood:
    """What was understood of one version of a host."""

    host: str
    version: str
    """as the client wrote it; empty where it did not"""
    sessions: int = 0
    records: int = 0
    unreadable: int = 0
    unknown_records: int = 0
    types: int = 0
    fields: int = 0
    """distinct names of fields, each at its place in a record"""
    unknown_types: dict[str, int] = field(default_factory=dict)
    unknown_fields: dict[str, int] = field(default_factory=dict)

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of records, types and fields that are understood."""
        bad = min(self.records, self.unreadable + self.unknown_records)
        return _share(bad, self.records), _share(len(self.unknown_types), self.types), _share(len(self.unknown_fields), self.fields)

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the shares and what is unknown."""
        records, types, fields = (round(share, 6) for share in self.shares)
        return {**plain(self), "records_share": records, "types_share": types, "fields_share": fields}


def _share(bad: int, of: int) -> float:
    return 1 - bad / of if of else 1.0


def understood(store: Store, *, hosts: Mapping[str, Host] | None = None) -> list[Understood]:
    """Return every version of every host, from the tables and, for the fields, from raw; writes nothing."""
    known = discovery.hosts() if hosts is None else hosts
    found = {(v.host, v.version): Understood(*v) for v in contract_checks.versions(store)}
    for host, version, label, is_known, times in contract_checks.types(store):
        one = found[host, version]
        one.types += 1
        if not is_known:
            one.unknown_types[label] = one.unknown_types.get(label, 0) + times
    fields: dict[tuple[str, str], Counter[str]] = {}
    strange: dict[tuple[str, str], Counter[str]] = {}
    for key, formats, text in _streams(store, known):
        seen, odd = fields.setdefault(key, Counter()), strange.setdefault(key, Counter())
        for line in text.splitlines():
            try:
                record = _anything.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            _look(record, "", formats, seen, odd)
    for key, one in found.items():
        one.fields = len(fields.get(key, ()))
        one.unknown_fields = dict(strange.get(key, Counter()).most_common())
    return sorted(found.values(), key=lambda one: (one.host, _order(one.version)))


def _streams(store: Store, known: Mapping[str, Host]) -> Iterator[tuple[tuple[str, str], Formats, bytes]]:
    """Yield (host, version), what is known of its fields, and the text of each JSONL stream of a session."""
    versions = contract_checks.version_of(store)
    rows = [s for s in store.ledger.sources().values() if s.session_id and s.host in known and known[s.host].records.formats is not None]
    segments = store.ledger.segments_of(s.stream for s in rows)
    for row in rows:
        declared = known[row.host].records.formats
        if declared is None or not row.rel.endswith((".jsonl", ".jsonl.zst")):
            continue
        formats = declared()
        generations: dict[int, list[Any]] = {}
        for segment in segments.get(row.stream, ()):
            generations.setdefault(segment.generation, []).append(segment)
        for pieces in generations.values():
            try:
                text = stream_text(store.files, pieces, row.rel)
            except (CtxError, OSError):
                continue
            yield (row.host, versions.get((row.host, row.session_id or ""), "")), formats, text


def _look(value: Any, place: str, formats: Formats, seen: Counter[str], odd: Counter[str]) -> None:
    """Count the fields of an object and of the objects in it whose fields are known."""
    known = formats.fields.get(place)
    if known is None or not isinstance(value, dict):
        return
    for name, inner in value.items():
        full = f"{place}.{name}" if place else name
        seen[full] += 1
        if name not in known:
            odd[full[:200]] += 1
        elif isinstance(inner, dict):
            _look(inner, full, formats, seen, odd)


def _order(version: str) -> tuple[tuple[int, str], ...]:
    """Return a key that puts 0.9 before 0.10."""
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in version.replace("-", ".").split("."))
