"""What a number is made of: the calls behind a day, session, project, model or single call, and where each was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import CtxError, UsageError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.labels import UNDATED, UNNAMED
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.usage import live_usage as live
from ctx_pipeline.usage.engine import calls_for, has_store, parse_filters, total
from ctx_pipeline.usage.groupings import GROUPINGS, Days
from ctx_pipeline.usage.missing_output import missing_of_calls
from ctx_pipeline.usage.selection import calls_of_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctx_pipeline.model.ccusage_rules import RivalEntry
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.settings import Settings

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_TOKENS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning")
_IDS = (b'"id":', b'"requestId":', b'"uuid":')
"""What stands before the id of a response or, where it has none, of its record."""
_LOOKED_INTO = 20
"""Calls whose files are searched for further lines of the same response."""


class Spot(NamedTuple):
    """Where a record stands: file, bytes ``start`` to ``end``, line from 0."""

    file: str
    start: int
    end: int
    line: int


@dataclass(slots=True)
class Made:
    """One call that counts."""

    row: tuple
    project: str
    spot: Spot
    price: dict[str, Any] | None
    lines: list[Spot] = field(default_factory=list)
    """all records of the file that carry the call's id; the fields of a call are the largest of them"""
    copies: list[dict[str, Any]] = field(default_factory=list)
    """records of other sessions that are copies of it, and by which rule they were dropped"""
    share: int = 1
    """what is counted of it as a call: 0 where a call of several uses is counted for another"""
    uses: int = 0
    missing_output: int = 0
    """output tokens that the record lacks, estimated from the text; no total holds them"""
    of: int = 0
    """how many of the uses that the call asked for are meant; the row holds that share of its tokens and cost"""

    def to_json(self) -> dict[str, Any]:
        """Return the call with its place, its price and its copies."""
        row = self.row
        cost, recorded = row[_C["cost"]], row[_C["recorded_cost"]]
        return {
            "call": row[_C["call_key"]],
            "host": row[_C["host"]],
            "session_id": row[_C["session_id"]],
            "thread_id": row[_C["thread_id"]],
            "project": self.project,
            "time": iso(row[_C["ts"]]),
            "model": row[_C["model"]],
            "model_guessed": row[_C["model_guessed"]],
            **{f"{name}_tokens": row[_C[name]] for name in _TOKENS},
            "estimated_missing_output": self.missing_output,
            "calculated_usd": None if cost is None else cost / 1e9,
            "recorded_usd": None if recorded is None else recorded / 1e9,
            "price": self.price,
            "uses": self.uses,
            "uses_of": self.of,
            "rule": row[_C["rule"]],
            "source": self.spot._asdict(),
            "lines": [spot._asdict() for spot in self.lines],
            "copies": self.copies,
        }


@dataclass(slots=True)
class Explained:
    """A number and its calls, oldest first."""

    what: str
    kind: str
    calls: list[Made]
    totals: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return kind, totals and calls."""
        return {"what": self.what, "kind": self.kind, "totals": self.totals, "calls": [c.to_json() for c in self.calls]}


def explain(
    what: str,
    *,
    host: str | None = None,
    model: str | None = None,
    project: str | None = None,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    by: str | None = None,
    stored: bool = False,
    settings: Settings | None = None,
) -> Explained:
    """Return the calls that a day (2026-10-01), month (2026-10), session id (or its beginning), model, project or call key is made of.

    ``by`` names the table whose row is meant (``weekly``, ``tool``, ``blocks`` ...) where
    the name alone does not tell. The filters narrow it to one cell. Raises UsageError when
    nothing of that name holds a model call.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.pricing import PriceBook

    chosen = settings or settings_module.load()
    filters = parse_filters(chosen, since=since, until=until, timezone=timezone, project=project, model=model)
    zone = filters.timezone
    found, uses = calls_for(GROUPINGS.get(by or "", GROUPINGS["model"]), chosen, host=host, stored=stored)
    kind, picked = calls_of_row(what, by, found, zone, chosen, uses=uses)
    keep = filters.keeps()
    picked = [p for p in picked if keep is None or keep(p.counted, p.row[_C["model"]], p.row[_C["ts"]])]
    if not picked:
        _only_copies(what, found.owned)
        said = "day, session, model, project or call" if by is None else kind
        hint = "ctx usage session" if by is not None else "ctx usage session; for a week, tool, server, skill, command or window: --by"
        near = _near(what, by, found.source == "stored", chosen)
        raise UsageError(f"nothing matches the {said} {what!r}", hint=f"did you mean {', '.join(near)}? {hint}" if near else hint)
    wanted = {(p.counted.host, p.counted.session_id) for p in picked}
    shared = {(p.counted.host, p.row[_C["call_key"]]) for p in picked}
    copies: dict[tuple[str, str], list[tuple[live.Counted, tuple]]] = {}
    for counted, owned in found.owned:
        mine = {row[_C["call_key"]] for row in owned}
        for row in counted.calls:
            key = (counted.host, _origin_key(row))
            if row[_C["call_key"]] not in mine and key in shared:
                copies.setdefault(key, []).append((counted, row))
                wanted.add((counted.host, counted.session_id))
    files, places = files_of(chosen), _places(chosen, wanted)
    made = []
    book = PriceBook.of(chosen)
    missing, _ = missing_of_calls(chosen)
    for counted, row, share, times, of in sorted(picked, key=lambda p: (p.row[_C["ts"]] or 0, p.row[_C["call_key"]])):
        key = (counted.host, row[_C["call_key"]])
        one = Made(row, counted.project, _spot(row, files, places), _price(row, book), share=share, uses=times, of=of)
        one.missing_output = missing.get((counted.host, counted.session_id, row[_C["call_key"]]), 0)
        one.copies = [
            {"session_id": c.session_id, "rule": _rule(c, r), "source": _spot(r, files, places)._asdict()} for c, r in copies.get(key, [])
        ]
        made.append(one)
    for one in made[:_LOOKED_INTO]:
        one.lines = _lines(one)
    return Explained(what, kind, made, _totals(made))


def _near(what: str, by: str | None, stored: bool, settings: Settings) -> list[str]:
    """Return the names of rows that are most like what was asked for; of projects and models where no table was named."""
    from difflib import get_close_matches

    from ctx_pipeline.usage.engine import usage

    tables = [by] if by in GROUPINGS else ["project", "model"] if by is None else []
    names = {str(row[GROUPINGS[name].column]) for name in tables for row in usage(name, stored=stored, settings=settings).rows}
    return get_close_matches(what, sorted(names), n=3, cutoff=0.6)


def _only_copies(what: str, owned: list[Any]) -> None:
    """Raise UsageError for a session all of whose calls are counted for others."""
    copied = [c for c, _ in owned if c.session_id.startswith(what) and c.calls] if len(what) >= 4 else []
    if not copied:
        return
    keys = {(c.host, _origin_key(row)) for c in copied for row in c.calls}
    holders = sorted({c.session_id for c, rows in owned for row in rows if (c.host, row[_C["call_key"]]) in keys})
    said = "1 call is a copy and counts" if len(keys) == 1 else f"{len(keys):,} calls are copies and count"
    raise UsageError(
        f"session {copied[0].session_id} made no call of its own: its {said} for {', '.join(holders)}",
        hint=f"ctx explain {holders[0] if holders else what}",
    )


def picks(
    found: Explained, days: Days, session_of: Mapping[str, str], *, model: str | None = None, project: str | None = None
) -> Callable[[RivalEntry], bool]:
    """Return what tells whether a record of a file (stream -> session in ``session_of``) belongs to what was explained."""
    what, kind = found.what, found.kind
    sessions = {m.row[_C["session_id"]] for m in found.calls} if kind in {"session", "project"} or project else None

    def meant(entry: RivalEntry) -> bool:
        if model not in {None, entry.model} or (sessions is not None and session_of.get(entry.stream) not in sessions):
            return False
        if kind in {"day", "week", "month"}:
            day = None if entry.ts is None else days.day(entry.ts)
            if day is None or kind == "week":
                return (UNDATED if day is None else (day - timedelta(days=day.weekday())).isoformat()) == what
            return day.isoformat()[:7] == what[:7] if kind == "month" else day.isoformat() == what
        return kind in {"session", "project"} or what == (entry.call if kind == "call" else entry.model or UNNAMED)

    return meant


def _origin_key(row: tuple) -> str:
    """Return the key of the original: copies inside one session carry their thread behind an @."""
    key: str = row[_C["call_key"]]
    return key.partition("@")[0] if not row[_C["owner"]] else key


def _rule(counted: live.Counted, row: tuple) -> str:
    rule: str = row[_C["rule"]]
    if not row[_C["owner"]]:
        return rule
    return "the same call in a session that goes before: declared parent, earliest own record, then session id" + (
        f" (forked from {counted.parent})" if counted.parent else ""
    )


def _totals(made: list[Made]) -> dict[str, Any]:
    rows = [
        {
            **{f"{name}_tokens": m.row[_C[name]] for name in _TOKENS},
            "calls": m.share,
            "calculated_nano": m.row[_C["cost"]],
            "recorded_nano": m.row[_C["recorded_cost"]],
            "unpriced_calls": m.share * (m.row[_C["cost"]] is None),
        }
        for m in made
    ]
    sums = total(rows)
    kept = {k: v for k, v in sums.items() if k.endswith(("_tokens", "_calls")) or k == "calls"}
    return {
        **kept,
        "calculated_usd": sums["calculated_nano"] / 1e9,
        "recorded_usd": sums["recorded_nano"] / 1e9,
        "estimated_missing_output": {
            "tokens": sum(m.missing_output for m in made),
            "calls": sum(m.missing_output > 0 for m in made),
        },
        "copies_dropped": sum(len(m.copies) for m in made),
    }


def _price(row: tuple, book: PriceBook) -> dict[str, Any] | None:
    """Return whose price was used, since when it holds, under which terms and from where."""
    price_id = row[_C["price"]]
    if not price_id:
        return None
    return {"id": price_id, **book.describe(price_id)._asdict()}


def files_of(settings: Settings) -> dict[str, str]:
    """Return stream -> path, of the homes as they are and of what the store remembers; a file that lies in two places has one stream.

    A secret in the name of a folder or a file is replaced: the path is for people to read.
    """
    found = {}
    if has_store(settings):
        from ctx_pipeline.storage.reader import reading

        with reading(settings) as (store, _):
            found = {s.stream: s.path for s in store.ledger.sources().values()}
    found |= {s.stream: s.path for s in live.sources(settings) if s.stream not in found}
    redactor = Redactor(settings.patterns)
    paths = list(found.values())
    secret = {paths[n]: redactor.redact(paths[n]) for n in redactor.suspects(paths)}
    return {stream: secret.get(path, path) for stream, path in found.items()}


def _places(settings: Settings, wanted: set[tuple[str, str]]) -> dict[tuple[str, str, str], tuple]:
    """Return (host, session, call key) -> the row as the full parser places it, for sessions whose files are there."""
    sessions = [s for s in live.sessions(live.sources(settings), settings) if (s.host, s.session_id) in wanted]
    found: dict[tuple[str, str, str], tuple] = {}
    for session in sessions:
        # one session at a time: all rows of a month's sessions would be gigabytes
        for one in live.read([session], whole=True):
            found |= {(one.host, one.session_id, row[_C["call_key"]]): row for row in one.calls}
    return found


def _spot(row: tuple, files: Mapping[str, str], places: Mapping[tuple[str, str, str], tuple]) -> Spot:
    if row[_C["end"]] == 0:
        row = places.get((row[_C["host"]], row[_C["session_id"]], row[_C["call_key"]]), row)
    return Spot(files.get(row[_C["stream"]], row[_C["stream"]]), row[_C["start"]], row[_C["end"]], row[_C["line"]])


def _lines(made: Made) -> list[Spot]:
    """Return every line of the call's file that has the call's id; that another record answers it does not count."""
    key = str(made.row[_C["call_key"]]).encode()
    if len(key) < 4 or not made.spot.file.endswith(".jsonl"):
        return []
    try:
        with open(made.spot.file, "rb") as file:  # noqa: PTH123
            data = file.read()
    except (OSError, CtxError):
        return []
    found, line, before = [], 0, 0
    at = data.find(b'"' + key + b'"')
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at) + 1 or len(data)
        line += data.count(b"\n", before, start)
        before = start
        if data[max(start, at - 16) : at].rstrip().endswith(_IDS):
            found.append(Spot(made.spot.file, start, end, line))
            at = end - 1
        at = data.find(b'"' + key + b'"', at + 1)
    return found
