"""How much of what each version of a host writes is understood: records, types and fields. As data; ``ctx doctor --formats`` prints it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline import discovery
from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.plain import plain
from ctx_pipeline.storage.raw.segments import stream_text
from ctx_pipeline.storage.warehouse import format_shares

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.model.declared import Formats, Host
    from ctx_pipeline.storage import Store

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
    found = {(v.host, v.version): Understood(*v) for v in format_shares.versions(store)}
    for host, version, label, is_known, times in format_shares.types(store):
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
    versions = format_shares.version_of(store)
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
