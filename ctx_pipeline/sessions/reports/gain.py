"""What was spent, what of it was avoidable, and what the cache saved: for a session or a period, from the billed calls alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.compression.hook_output import SHORTENED
from ctx_pipeline.errors import NothingFound, UsageError
from ctx_pipeline.learning.injection import INJECTED
from ctx_pipeline.model.codec import micros as from_iso
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.sessions.reports.session_gain import (
    CHARACTERS_A_TOKEN,
    COLUMNS,
    GAIN,
    KINDS,
    MECHANISMS,
    OWN,
    TABLES,
    HookTokens,
    SessionGain,
    in_time,
    joined,
    prices_of,
    session_gain,
    summed,
)
from ctx_pipeline.sessions.session_choice import select_session
from ctx_pipeline.sessions.states.handoff import RESUMED
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.served_tools import ServedTools, note, served
from ctx_pipeline.usage.cache_efficiency import STREAMS
from ctx_pipeline.usage.periods import Period, before, period
from ctx_pipeline.usage.repositories import project_names
from ctx_pipeline.usage.rollup import moment
from ctx_pipeline.usage.session_figures import figures, on_border
from ctx_pipeline.usage.usage_figures import places_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


SCHEMA = 1
"""Version of the JSON shape."""

BASELINE = "session.baseline"
"""Kind of the facts that mark where counting begins anew."""


@dataclass(frozen=True)
class Gain:
    """The figures of one period, and of the one before it."""

    period: Period
    total: SessionGain
    sessions: int
    model: str | None
    """at whose prices everything is told; None: those of the calls"""
    previous: SessionGain | None
    since_baseline: str | None
    tools: ServedTools | None = None
    """the tools whose schemas were counted; None where no server showed any yet"""

    @property
    def avoidable(self) -> tuple[int, int, int]:
        """Nano-dollars: surely, likely, at most; none above what was billed."""
        found = list(self.total.mechanisms.values())
        return sum(b.certain for b in found), sum(b.likely for b in found), sum(b.upper for b in found)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        t = self.total
        certain, likely, upper = self.avoidable
        return {
            "schema": SCHEMA,
            "period": self.period.name,
            "since": self.period.since and self.period.since.isoformat(),
            "until": self.period.until and self.period.until.isoformat(),
            "host": t.host or None,
            "session_id": t.session_id or None,
            "sessions": self.sessions,
            "calls": t.calls,
            "unpriced_calls": t.unpriced,
            "spent_nano": t.spent,
            "streams": [{"stream": n, "tokens": t.tokens[n], "nano": t.nano[n]} for n in STREAMS],
            "saved_by_cache_nano": t.saved_by_cache,
            "avoidable_nano": {"certain": certain, "likely": likely, "upper": upper},
            "mechanisms": [
                {
                    "mechanism": n,
                    "certain_nano": b.certain,
                    "likely_nano": b.likely,
                    "upper_nano": b.upper,
                    "tokens": b.tokens,
                    "why": MECHANISMS[n],
                }
                for n, b in t.mechanisms.items()
            ],
            "own": [{"what": n, "tokens": t.own_tokens[n], "nano": t.own_nano[n]} for n in OWN],
            "tools": self.tools._asdict() if self.tools else None,
            "shortened_tokens": t.shortened,
            "net_tokens": t.shortened - sum(t.own_tokens.values()),
            "score": score(t),
            "parts": parts(t),
            "previous_score": score(self.previous) if self.previous else None,
            "trend": self.trend,
            "estimate": self.model is not None,
            "model": self.model,
            "since_baseline": self.since_baseline,
        }

    @property
    def trend(self) -> str | None:
        """Up, down or level against the period before: three points or less are level; None where one has no score."""
        now, then = score(self.total), score(self.previous) if self.previous else None
        if now is None or then is None:
            return None
        return "level" if abs(now - then) <= 3 else "up" if now > then else "down"


def parts(total: SessionGain) -> dict[str, float | None]:
    """Return the two parts of the score, 0 to 1; None without data.

    ``kept`` is the share of the bill that was not likely avoidable, ``cached`` the share of
    prompt tokens that came from the cache.
    """
    likely = sum(b.likely for b in total.mechanisms.values())
    prompt = sum(total.tokens[n] for n in STREAMS if n != "output")
    return {
        "kept": round(1 - likely / total.spent, 4) if total.spent else None,
        "cached": round(total.tokens["cache_read"] / prompt, 4) if prompt else None,
    }


def score(total: SessionGain) -> int | None:
    """Return the gain score, 0 to 100: 60 points for ``kept`` and 40 for ``cached``; None where nothing was billed."""
    found = parts(total)
    if found["kept"] is None or found["cached"] is None:
        return None
    return round(60 * found["kept"] + 40 * found["cached"])


def gain(
    name: str = "session",
    *,
    session: str | None = None,
    model: str | None = None,
    host: str | None = None,
    project: str | None = None,
    timezone: str | None = None,
    baseline: bool = False,
    today: date | None = None,
    cwd: str | None = None,
    settings: Settings,
) -> Gain:
    """Return the gain of a session (the last here that did something), or of all sessions in a day, week or month of the zone, or ever.

    ``model`` tells everything at that model's list prices. With ``baseline`` only what
    came after the last mark counts. ``host`` and ``project`` go with a period.
    Raises UsageError and UnknownName.
    """
    zone = timezone or settings.timezone
    one = period(name, zone=zone, today=today)
    if one.name != "session" and session:
        raise UsageError("--session and a period exclude each other", hint="leave one of them out")
    if one.name == "session" and (host or project):
        raise UsageError("--host and --project choose among the sessions of a period", hint="add --period week, or name a --session")
    rate_of, cost_of = prices_of(settings, model)
    key = discovery.host(host).key if host else None
    with reading(settings) as (store, _):
        mark = last_baseline(store) if baseline else None
        if baseline and mark is None:
            raise NothingFound("no baseline was marked", hint="ctx gain reset marks one")
        if one.name == "session":
            choice = select_session(store, settings, session, cwd=cwd)
            row = store.ledger.session(choice.host, choice.session_id)
            views = list(store.lake.read_sessions(row.partition, {choice.session_id}, TABLES, COLUMNS, set(KINDS))) if row else []
            of_session = _hook_tokens(store)
            found = [
                session_gain(v, rate_of, cost_of, within=(from_iso(mark), None), hooks=of_session(v.host, v.session_id)) for v in views
            ]
            total = found[0] if found else SessionGain(choice.host, choice.session_id)
            return Gain(one, total, len(found), model, None, mark, served(store.home))
        told = [_within(one, zone)]
        earlier = before(one)
        if earlier is not None and mark is None:
            told.append(_within(earlier, zone))
        if mark is not None:
            start = from_iso(mark) or 0
            told[0] = (max(start, told[0][0] or 0), told[0][1])
        of_session = _hook_tokens(store)
        if model is None and all(map(on_border, told)):
            gains = [list(_gains(store, settings, within, host=key, project=project, hooks=of_session)) for within in told]
        else:
            gains = [[] for _ in told]
            for view in _views(store, key, project, told):
                for members, within in zip(gains, told, strict=True):
                    made = session_gain(view, rate_of, cost_of, within=within, hooks=of_session(view.host, view.session_id))
                    if made.calls:
                        members.append(made)
    previous = summed(gains[1]) if len(gains) > 1 and gains[1] else None
    return Gain(one, summed(gains[0]), len(gains[0]), model, previous, mark, served(store.home))


def _gains(
    store: Store,
    settings: Settings,
    within: tuple[int | None, int | None],
    *,
    host: str | None,
    project: str | None,
    hooks: Callable[[str, str], HookTokens],
) -> Iterator[SessionGain]:
    """Yield the gain of each session with a call in a time, from what is kept of sessions."""
    places = places_of(store, settings) if project is not None else {}

    def only(key: tuple[str, str]) -> bool:
        return host in {None, key[0]} and (project is None or (key in places and project in project_names(*places[key][:2])))

    for key, values in figures(store, settings, GAIN, bounds=within, only=only):
        lines = [line for value in values for line in value["lines"] if in_time(line[1][0], within)]
        made = joined(*key, values, [line for _, line in sorted(lines, key=lambda one: one[0])], hooks(*key))
        if made.calls:
            yield made


def note_tools(profile: str, schemas: list[dict[str, Any]], count: Callable[[str], int], settings: Settings) -> None:
    """Keep what the schemas of the tools take that a server shows now, for the reports to come."""
    note(settings.home, profile, schemas, count)


def _hook_tokens(store: Store) -> Callable[[str, str], HookTokens]:
    """Return what gives for a session what hooks told it and took out of its outputs."""
    blocks: Counter[tuple[str, str]] = Counter()
    shortened: Counter[tuple[str, str]] = Counter()
    for kind in (INJECTED, RESUMED, SHORTENED):
        for fact in store.journal.facts(kind):
            p = fact.payload
            key = (str(p.get("host")), str(p.get("session_id")))
            if kind == SHORTENED:
                # an earlier version counted characters alone
                guessed = (p["characters_before"] - p["characters_after"]) // CHARACTERS_A_TOKEN
                shortened[key] += p["tokens_before"] - p["tokens_after"] if "tokens_before" in p else guessed
            elif not p.get("withheld") and p.get("event") not in ("retrieve", "weave"):
                blocks[key] += int(p.get("tokens") or 0)
    shown = served(store.home)
    schemas = {"schemas": shown.tokens} if shown else {}
    return lambda host, session: HookTokens(blocks[host, session], shortened[host, session], **schemas)


def last_baseline(store: Store) -> str | None:
    """Return when counting was begun anew last; None where it never was."""
    found = store.journal.newest(BASELINE, 1)
    return found[0].at if found else None


def _within(one: Period, zone: str | None) -> tuple[int | None, int | None]:
    return moment(one.since, zone), moment(one.until, zone, after=True)


def _views(store: Store, host: str | None, project: str | None, told: list[tuple[int | None, int | None]]) -> Iterator[Any]:
    """Yield the sessions that were at work in one of the times."""
    for cell in store.lake.manifests("normalized"):
        if host not in {None, cell.host}:
            continue
        rows = store.lake.read_rows("sessions", cell, "normalized")
        wanted = {
            r.session_id
            for r in rows
            if (project is None or project in project_names(r.project, r.repository))
            and any(_overlaps(micros(r.first_ts), micros(r.last_ts), within) for within in told)
        }
        if wanted:
            yield from store.lake.read_sessions(cell, wanted, TABLES, COLUMNS, set(KINDS))


def _overlaps(first: int | None, last: int | None, within: tuple[int | None, int | None]) -> bool:
    start, end = within
    if first is None or last is None:
        return start is None and end is None
    return (start is None or last >= start) and (end is None or first < end)
