"""What a number is made of: the calls behind a day, session, project, model or single call, and where each was read."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from ctx_pipeline.errors import AmbiguousName, CtxError, NothingFound, StoreError, UsageError, nearest
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import UNDATED, UNNAMED, cost_of
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage.own_sessions import ShownSessions
from ctx_pipeline.usage.engine import calls_for, has_store, parse_filters, usage
from ctx_pipeline.usage.groupings import GROUPINGS, SHARED, Days, names_of, parts
from ctx_pipeline.usage.homes import live_usage as live
from ctx_pipeline.usage.homes.usage_delta import About
from ctx_pipeline.usage.missing_output import missing_of_calls
from ctx_pipeline.usage.periods import day, is_period, monday_of
from ctx_pipeline.usage.provenance.cost_streams import BEFORE, cost_streams, usual
from ctx_pipeline.usage.provenance.long_prompts import long_prompts
from ctx_pipeline.usage.repositories import project_names
from ctx_pipeline.usage.rollup import Call, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ctx_pipeline.model.host_records import RivalEntry
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.engine import Calls
    from ctx_pipeline.usage.groupings import Grouping, Uses
    from ctx_pipeline.usage.provenance.cost_streams import Stream, Usual


# The model calls behind one row of a usage table.


_ID_LENGTH = 36
_LEAST_ID = 4
"""Characters of an id and of the shortest beginning of one that is taken for a session."""
_LEAST_GUESSED = 6
"""The same where nobody said that a session is meant and none with calls is: a shorter word may be a name that nothing has."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MONTH = re.compile(r"\d{4}-\d\d")


def calls_of_row(what: str, by: str | None, found: Calls, zone: str | None, settings: Settings, *, uses: Uses) -> tuple[str, list[Call]]:
    """Return what kind of thing ``what`` is and the calls that it is made of.

    ``by`` is the table whose row it is (``weekly``, ``tool`` ...); None finds out by
    itself for days, months, calls, sessions, threads, models and projects. Raises UsageError for
    an unknown table and for the beginning of several session ids.
    """
    if by is None and (monday := _monday(what)):
        return calls_of_row(monday, "weekly", found, zone, settings, uses=uses)
    if by is None:
        return _found_out(what, found, Days(zone))
    if by == "blocks":
        return "window", _window(what, found, zone, settings)
    if by not in GROUPINGS:
        raise UsageError(f"there is no table {by!r}", hint=f"use one of {', '.join(GROUPINGS)}, blocks")
    grouping = GROUPINGS[by]
    kind, pairs = grouping.unit or by, _pairs(found)
    if grouping.names is not None:
        return kind, _uses(what, grouping, found, uses)
    if by == "session":
        return _found_out(what, found, Days(zone), only="session")
    if by == "project":
        return kind, [p for p in pairs if what in project_names(p.counted.project, p.counted.repository)]
    if by == "model":
        return kind, [p for p in pairs if _model(p.row) == what]
    key = grouping.key(zone)
    wanted = None if what == UNDATED else f"{what}-01" if by == "monthly" and _MONTH.fullmatch(what) else what
    return kind, [p for p in pairs if key(p.row[_C["ts"]], p.counted, p.row[_C["thread_id"]] == p.row[_C["session_id"]]) == wanted]


def _pairs(found: Calls) -> list[Call]:
    return [Call(c, row) for c, rows in found.owned for row in rows]


def _model(row: tuple) -> str:
    return row[_C["model"]] or UNNAMED


def _found_out(what: str, found: Calls, days: Days, only: str | None = None) -> tuple[str, list[Call]]:
    pairs = _pairs(found)
    if only is None and (_DAY.fullmatch(what) or _MONTH.fullmatch(what)):
        kind = "day" if _DAY.fullmatch(what) else "month"
        _real(what, kind)
        dated = (p for p in pairs if p.row[_C["ts"]] is not None)
        return kind, [p for p in dated if days.day(p.row[_C["ts"]]).isoformat()[: len(what)] == what]
    if only is None and what == UNDATED:
        return "day", [p for p in pairs if p.row[_C["ts"]] is None]
    for kind, test in (
        ("call", lambda p: p.row[_C["call_key"]] == what),
        ("session", lambda p: p.counted.session_id == what),
        ("thread", lambda p: p.row[_C["thread_id"]] == what),
        ("model", lambda p: _model(p.row) == what),
        ("project", lambda p: what in project_names(p.counted.project, p.counted.repository)),
    ):
        if only in {None, kind} and (hits := [p for p in pairs if test(p)]):
            return kind, hits
    near = {c.session_id for c, _ in found.owned if len(what) >= 4 and c.session_id.startswith(what)}
    if len(near) > 1:
        raise AmbiguousName("session", what, near)
    return "session", [p for p in pairs if p.counted.session_id in near]


def _monday(what: str) -> str | None:
    """Return the Monday of a week that is named as 2026-W29; None for other names. Raises UsageError for a week that no year has."""
    try:
        monday = monday_of(what)
    except ValueError:
        raise UsageError(f"{what} is not a week of the calendar", hint="ctx usage weekly") from None
    return monday.isoformat() if monday else None


def _real(what: str, kind: str) -> None:
    """Raise UsageError for a day or a month that no calendar has."""
    try:
        date.fromisoformat(what if kind == "day" else f"{what}-01")
    except ValueError:
        raise UsageError(f"{what} is not a {kind} of the calendar", hint="ctx usage daily") from None


def _uses(what: str, grouping: Grouping, found: Calls, uses: Uses) -> list[Call]:
    """Return this tool's (server's, skill's, command's) part of every call that asked for it."""
    picked = []
    for counted, rows in found.owned:
        for row in rows:
            names = names_of(row, uses, grouping)
            times = Counter(names)[what]
            if times:
                amounts = [sum(column) for column in zip(*(p for name, p in parts(row, names) if name == what), strict=True)]
                picked.append(Call(counted, _with(row, amounts), int(names[0] == what), times, len(names)))
            elif not names and what == grouping.none:
                picked.append(Call(counted, row))
    return picked


def _with(row: tuple, amounts: Iterable[int]) -> tuple:
    """Return a row with these tokens and costs, in the order of ``SHARED``; what is unknown stays so."""
    changed = list(row)
    for place, amount in zip(SHARED, amounts, strict=True):
        if changed[place] is not None:
            changed[place] = amount
    return tuple(changed)


def _moment(text: str, zone: str | None) -> int | None:
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=ZoneInfo(zone)) if zone else when.astimezone()
        return int(when.timestamp()) * 1_000_000
    except (ValueError, OverflowError, OSError):
        return None


def _window(what: str, found: Calls, zone: str | None, settings: Settings) -> list[Call]:
    """Return the calls of the five-hour windows that begin at a minute on the clock of a zone; one that names its own is read so."""
    from ctx_pipeline.usage.blocks import blocks

    start = _moment(what.strip(), zone)
    if start is None:
        raise UsageError(f"{what!r} is not the start of a window", hint="write it as in ctx usage blocks: '2026-04-10 20:00'")
    minute = 60_000_000
    windows = [b for b in blocks(settings=settings, owned=found.owned) if b.start // minute == start // minute]
    return [
        p
        for p in _pairs(found)
        if p.row[_C["ts"]] is not None and any(b.host == p.counted.host and b.first <= p.row[_C["ts"]] <= b.last for b in windows)
    ]


_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_TOKENS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning")
_IDS = (b'"id":', b'"requestId":', b'"uuid":')
"""What stands before the id of a response or, where it has none, of its record."""
_MONTHS = 12
"""The newest months with calls that are named, where one has none."""
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
    cost: int | None = None
    """nano-dollars that the tables of usage count for it: by the cost mode, recorded or at list price"""

    @property
    def session(self) -> tuple[str, str]:
        """Host and session of the call."""
        return self.row[_C["host"]], self.row[_C["session_id"]]

    @property
    def ts(self) -> int | None:
        """When it was made, in microseconds since 1970."""
        return self.row[_C["ts"]]  # type: ignore[no-any-return]

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
            "cost_usd": None if self.cost is None else self.cost / 1e9,
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
    cost_mode: str = "auto"
    """which cost is *the* cost, as in the tables of usage"""
    repositories: dict[str, int] = field(default_factory=dict)
    """repository -> calls, most first, where the table has a row of this name for each; empty for other tables"""
    streams: dict[str, Stream] = field(default_factory=dict)
    """input, cache_write, cache_read and output -> tokens and cost"""
    usual: Usual | None = None
    """of a week or month: the mean of those before it"""

    def to_json(self) -> dict[str, Any]:
        """Return kind, cost mode, totals, streams, the usual week or month, repositories where the table has a row for each, and calls."""
        told: dict[str, Any] = {"what": self.what, "kind": self.kind, "cost_mode": self.cost_mode, "totals": self.totals}
        told |= {"repositories": self.repositories} if self.repositories else {}
        told["streams"] = {name: stream.to_json() for name, stream in self.streams.items()}
        if self.kind in BEFORE:
            told["usual"] = self.usual and self.usual.to_json()
        return {**told, "calls": [c.to_json() for c in self.calls]}


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
    """Return the calls of a day (2026-10-01), week (2026-W40), month, session id (or its beginning), thread, model, project or call key.

    ``by`` names the table whose row is meant (``weekly``, ``tool``, ``blocks`` ...) where
    the name alone does not tell. The filters narrow it to one cell. Raises UsageError when
    nothing of that name holds a model call.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.pricing import PriceBook

    chosen = settings or settings_module.load()
    filters = parse_filters(chosen, since=since, until=until, timezone=timezone, project=project, model=model)
    zone = filters.timezone
    grouping = GROUPINGS.get(by or "", GROUPINGS["model"])
    found, uses = calls_for(grouping, chosen, host=host, stored=stored, about=_about(what, by, zone))
    kind, picked = calls_of_row(what, by, found, zone, chosen, uses=uses)
    keep = filters.keeps()
    picked = [p for p in picked if keep is None or keep(p.counted, p.row[_C["model"]], p.row[_C["ts"]])]
    if not picked:
        if by in {None, "session"}:
            _only_copies(what, found.owned)
            _without_calls(what, host, found.owned, chosen, least=_LEAST_GUESSED if by is None else _LEAST_ID)
        raise _nothing(what, by, kind, host=host, stored=found.source == "stored", settings=chosen)
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
    rows = [(p.counted, p.row) for p in picked] + [held for some in copies.values() for held in some]
    files = files_of(chosen, {row[_C["stream"]] for _, row in rows})
    places = _places(chosen, {(c.host, c.session_id) for c, row in rows if row[_C["end"]] == 0})
    made, book = [], PriceBook.of(chosen)
    price = cache(partial(_price, book=book))
    missing, _ = missing_of_calls(chosen, sessions={session for _, session in wanted})
    for counted, row, share, times, of in sorted(picked, key=lambda p: (p.row[_C["ts"]] or 0, p.row[_C["call_key"]])):
        key = (counted.host, row[_C["call_key"]])
        one = Made(row, counted.project, _spot(row, files, places), price(row[_C["price"]]), share=share, uses=times, of=of)
        one.cost = cost_of(filters.cost_mode, row[_C["recorded_cost"]], row[_C["cost"]])
        one.missing_output = missing.get((counted.host, counted.session_id, row[_C["call_key"]]), 0)
        one.copies = [
            {"session_id": c.session_id, "rule": _rule(c, r), "source": _spot(r, files, places)._asdict()} for c, r in copies.get(key, [])
        ]
        made.append(one)
    for one in made[:_LOOKED_INTO]:
        one.lines = _lines(one)
    apart = Counter(p.counted.repository or "" for p in picked) if grouping.with_repository and kind != "project" else Counter()
    totals = _totals(made) | {"long_prompts": long_prompts((m.row for m in made), book)}
    streams = cost_streams(((m.row, m.cost) for m in made), chosen)
    asked = {"host": host, "model": model, "project": project, "timezone": timezone, "stored": stored}
    before = usual(kind, what, chosen, **asked) if kind in BEFORE and is_period(what) and not (since or until) else None
    return Explained(what, kind, made, totals, filters.cost_mode, dict(apart.most_common()), streams, before)


def _about(what: str, by: str | None, zone: str | None) -> About | None:
    """Return the time or the session that is asked for, None where the name may be of something else."""
    if by is None and (_DAY.fullmatch(what) or _MONTH.fullmatch(what)):
        try:
            return About(bounds=(moment(day(what, "--since"), zone), moment(day(what, "--until"), zone, after=True)))
        except UsageError:
            return None
    return About(what) if by == "session" or (by is None and len(what) == _ID_LENGTH) else None


def _nothing(what: str, by: str | None, kind: str, *, host: str | None, stored: bool, settings: Settings) -> NothingFound:
    """Return the error of a name that no model call has, with the nearest that have some."""
    if kind == "month" and _MONTH.fullmatch(what):
        months = sorted({row["date"][:7] for row in usage("monthly", host=host, stored=stored, settings=settings).rows if row["date"]})
        if what in months:
            return NothingFound(f"no model call of {what} fits", hint=f"without the filters: ctx explain {what}")
        more = f" and {len(months) - _MONTHS} earlier: ctx usage monthly" if len(months) > _MONTHS else ""
        hint = f"months with calls: {', '.join(months[-_MONTHS:])}{more}" if months else "ctx run"
        return NothingFound(f"no model call was recorded in {what}", hint=hint)
    if by is None and kind == "day" and _DAY.fullmatch(what):
        asked = date.fromisoformat(what)
        days = [date.fromisoformat(row["date"]) for row in usage("daily", host=host, stored=stored, settings=settings).rows if row["date"]]
        near = sorted(sorted(set(days), key=lambda one: abs(one - asked))[:2])
        hint = f"nearest days with calls: {' and '.join(map(str, near))}; all of them: ctx usage daily" if near else "ctx run"
        weeks = {one - timedelta(days=one.weekday()) for one in days}
        week = f"the week that begins then: ctx explain {what} --by weekly; " if asked in weeks else ""
        return NothingFound(f"no model call on {what}", hint=week + hint)
    if by is None and kind == "week":
        return NothingFound(f"no model call in the week {what}", hint="weeks with calls: ctx usage weekly")
    said = "day, session, thread, model, project or call" if by is None else kind
    hint = f"ctx usage {by}" if by is not None else "ctx usage session; for a week, tool, server, skill, command or window: --by"
    names = _near(what, by, stored, settings)
    return NothingFound(f"nothing matches the {said} {what!r}", hint=f"did you mean {', '.join(names)}? {hint}" if names else hint)


def _near(what: str, by: str | None, stored: bool, settings: Settings) -> list[str]:
    """Return the names of rows that are most like what was asked for; of projects and models where no table was named."""
    tables = [by] if by in GROUPINGS else ["project", "model"] if by is None else []
    names = {str(row[GROUPINGS[name].column]) for name in tables for row in usage(name, stored=stored, settings=settings).rows}
    return nearest(what, names - {what})


def _only_copies(what: str, owned: list[Any]) -> None:
    """Raise UsageError for a session all of whose calls are counted for others."""
    copied = [c for c, rows in owned if c.session_id.startswith(what) and c.calls and not rows] if len(what) >= _LEAST_ID else []
    if not copied:
        return
    # of a session that was copied under another id the time and the totals are those of the call that counts
    keys = {(c.host, one) for c in copied for row in c.calls for one in (_origin_key(row), _when_and_totals(row))}
    named = ((c, (row[_C["call_key"]], _when_and_totals(row))) for c, rows in owned for row in rows)
    holders = sorted({c.session_id for c, names in named if any((c.host, one) in keys for one in names)})
    count = len({row[_C["call_key"]] for c in copied for row in c.calls})
    said = "1 call is a copy and counts" if count == 1 else f"{count:,} calls are copies and count"
    raise NothingFound(
        f"session {copied[0].session_id} made no call of its own: its {said} for {', '.join(holders)}",
        hint=f"ctx explain {holders[0] if holders else what}",
    )


def _without_calls(what: str, host: str | None, owned: list[Any], settings: Settings, *, least: int) -> None:
    """Raise NothingFound for a captured session that has no model call, or none that the filters keep."""
    kind, _, named = what.rpartition("/")
    chosen = kind or host
    counted = {(c.host, c.session_id) for c, rows in owned if rows}
    begun = [place for place in _captured(settings) if place[1].startswith(named) and chosen in (None, place[0])]
    fitting = [place for place in begun if place[1] == named] or (begun if len(named) >= least else [])
    if len(fitting) != 1:
        return
    (place,) = fitting
    fits = " that fits" if place in counted else ""
    raise NothingFound(f"the session {place[1]} has no model call{fits}", hint=f"what is recorded of it: ctx show {place[1]}")


def _captured(settings: Settings) -> set[tuple[str, str]]:
    """Return host and id of every captured session; none where nothing was captured."""
    shown = ShownSessions(settings.home / "ledger.db")
    try:
        return set(shown.of())
    except StoreError:
        return set()
    finally:
        shown.close()


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


def _when_and_totals(row: tuple) -> tuple[Any, str]:
    """Return when a call was recorded, and the running totals of its key."""
    return row[_C["ts"]], row[_C["call_key"]].partition(":")[2]


def _rule(counted: live.Counted, row: tuple) -> str:
    rule: str = row[_C["rule"]]
    if not row[_C["owner"]]:
        return rule
    return "the same call in a session that goes before: declared parent, earliest own record, then session id" + (
        f" (forked from {counted.parent})" if counted.parent else ""
    )


def _totals(made: list[Made]) -> dict[str, Any]:
    def summed(column: str) -> int:
        place = _C[column]
        return sum(m.row[place] or 0 for m in made)

    recorded = _C["recorded_cost"]
    calls, unpriced = sum(m.share for m in made), sum(m.share for m in made if m.cost is None)
    return {
        **{f"{name}_tokens": summed(name) for name in _TOKENS},
        "calls": calls,
        "recorded_calls": sum(m.share for m in made if m.row[recorded] is not None),
        "unpriced_calls": unpriced,
        "cost_usd": None if unpriced == calls != 0 else sum(m.cost or 0 for m in made) / 1e9,
        "calculated_usd": summed("cost") / 1e9,
        "recorded_usd": summed("recorded_cost") / 1e9,
        "estimated_missing_output": {
            "tokens": sum(m.missing_output for m in made),
            "calls": sum(m.missing_output > 0 for m in made),
        },
        "copies_dropped": sum(len(m.copies) for m in made),
    }


def _price(price_id: str | None, book: PriceBook) -> dict[str, Any] | None:
    """Return whose price was used, since when it holds, under which terms and from where."""
    return {"id": price_id, **book.describe(price_id)._asdict()} if price_id else None


def files_of(settings: Settings, streams: Collection[str] | None = None) -> dict[str, str]:
    """Return stream -> path (of these, or of all), as the store remembers them, and the homes; a file in two places has one stream.

    A secret in the name of a folder or a file is replaced: the path is for people to read.
    """
    found = {}
    if has_store(settings):
        from ctx_pipeline.storage.reader import reading

        with reading(settings) as (store, _):
            found = {s.stream: s.path for s in store.ledger.sources().values()}
    if streams is None or not found.keys() >= set(streams):
        found |= {s.stream: s.path for s in live.sources(settings) if s.stream not in found}
    if streams is not None:
        found = {stream: found[stream] for stream in streams if stream in found}
    redactor = Redactor(settings.patterns)
    paths = list(found.values())
    secret = {paths[n]: redactor.redact(paths[n]) for n in redactor.suspects(paths)}
    return {stream: secret.get(path, path) for stream, path in found.items()}


def _places(settings: Settings, wanted: set[tuple[str, str]]) -> dict[tuple[str, str, str], tuple]:
    """Return (host, session, call key) -> the row as the full parser places it, for sessions whose files are there."""
    sessions = [s for s in live.sessions(live.sources(settings), settings) if (s.host, s.session_id) in wanted] if wanted else []
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
