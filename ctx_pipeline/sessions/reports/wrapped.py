"""A week, a month or everything as one card: what was spent and done, in calendar days, without a made-up percentile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.session_state.snapshot import element
from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.display import money, percent, truncate
from ctx_pipeline.sessions.reports.gain import gain, score
from ctx_pipeline.sessions.reports.work import most_used
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.periods import Period, period
from ctx_pipeline.usage.rollup import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.settings import Settings


SCHEMA = 1
"""Version of the JSON shape."""

_TOP = 3
_MOST_DAYS = 3_660


@dataclass(frozen=True)
class Wrapped:
    """The figures of a card; every one is of the days of its period alone."""

    period: Period
    timezone: str
    tokens: int
    cost_nano: int | None
    """None where no call has a price"""
    saved_by_cache_nano: int
    avoidable_nano: tuple[int, int, int]
    sessions: int
    calls: int
    active_days: int
    longest_streak: int
    busiest: tuple[str, int] | None
    """day, tokens"""
    longest: tuple[str, str, int] | None
    """host, session, tokens of the session with the most"""
    commands: list[tuple[str, int]]
    tools: list[tuple[str, int]]
    models: list[tuple[str, int | None]]
    """model, nano-dollars (None where no call of it has a price)"""
    cached: float | None
    score: int | None
    daily: list[tuple[str, int]]
    """day, tokens; days without any are 0"""

    @property
    def title(self) -> str:
        """The period in words."""
        if self.period.since and self.period.until:
            return f"{self.period.since.isoformat()} to {self.period.until.isoformat()}"
        return f"{self.daily[0][0]} to {self.daily[-1][0]}" if self.daily else "everything"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "schema": SCHEMA,
            "period": self.period.name,
            "since": self.period.since and self.period.since.isoformat(),
            "until": self.period.until and self.period.until.isoformat(),
            "timezone": self.timezone,
            "tokens": self.tokens,
            "cost_nano": self.cost_nano,
            "saved_by_cache_nano": self.saved_by_cache_nano,
            "avoidable_nano": dict(zip(("certain", "likely", "upper"), self.avoidable_nano, strict=True)),
            "sessions": self.sessions,
            "calls": self.calls,
            "active_days": self.active_days,
            "longest_streak": self.longest_streak,
            "busiest_day": self.busiest and {"day": self.busiest[0], "tokens": self.busiest[1]},
            "longest_session": self.longest and {"host": self.longest[0], "session_id": self.longest[1], "tokens": self.longest[2]},
            "commands": [{"command": n, "uses": c} for n, c in self.commands],
            "tools": [{"tool": n, "uses": c} for n, c in self.tools],
            "models": [{"model": n, "cost_nano": c} for n, c in self.models],
            "cached_share": self.cached,
            "score": self.score,
            "daily": [{"day": d, "tokens": n} for d, n in self.daily],
        }


def wrapped(name: str = "week", *, timezone: str | None = None, today: date | None = None, settings: Settings) -> Wrapped:
    """Return the card of the week or month that today lies in, or of everything.

    Where these days have no call, the latest week or month before them that has one. Raises
    UsageError for another period.
    """
    if name not in ("week", "month", "all"):
        raise UsageError(f"there is no card of a {name!r}", hint="week, month or all")
    zone = timezone or settings.timezone
    one = period(name, zone=zone, today=today)
    if one.since is not None and (latest := _latest(one, timezone, settings)):
        today = latest
        one = period(name, zone=zone, today=today)
    days: dict[str, Any] = {"since": one.since and one.since.isoformat(), "until": one.until and one.until.isoformat()}
    common: dict[str, Any] = {**days, "timezone": timezone, "stored": True, "settings": settings}
    daily = usage("daily", **common)
    by_session = {key: one["tokens"] for key, one in usage("session", **common).by_session().items()}
    told = gain(name, timezone=timezone, today=today, settings=settings)
    programs, tools = most_used((moment(one.since, zone), moment(one.until, zone, after=True)), settings=settings)
    by_day: dict[str, int] = {}
    for row in daily.rows:
        if row["date"]:
            by_day[row["date"]] = by_day.get(row["date"], 0) + _tokens(row)
    longest = max(by_session.items(), key=lambda pair: (pair[1], pair[0]), default=None)
    total = daily.totals
    prompt = _tokens(total) - int(total["output_tokens"])
    return Wrapped(
        one,
        daily.timezone,
        _tokens(total),
        _cost(total),
        told.total.saved_by_cache,
        told.avoidable,
        len(by_session),
        int(total["calls"]),
        len(by_day),
        streak(list(by_day)),
        max(by_day.items(), key=lambda pair: (pair[1], pair[0]), default=None),
        (*longest[0], longest[1]) if longest else None,
        _top(programs),
        _top(tools),
        sorted(((r["model"], _cost(r)) for r in usage("model", **common).rows), key=lambda m: (-(m[1] or 0), m[0]))[:_TOP],
        round(int(total["cache_read_tokens"]) / prompt, 4) if prompt else None,
        score(told.total),
        _every_day(by_day, one),
    )


def _cost(row: Mapping[str, Any]) -> int | None:
    """Return the nano-dollars of calls; None where none of them has a price."""
    return None if row["calls"] and row["unpriced_calls"] == row["calls"] else int(row["cost_nano"] or 0)


def _latest(one: Period, timezone: str | None, settings: Settings) -> date | None:
    """Return the last day with a call where the period has none and one lies before it."""
    dated = [
        row["date"] for row in usage("daily", until=str(one.until), timezone=timezone, stored=True, settings=settings).rows if row["date"]
    ]
    last = date.fromisoformat(max(dated)) if dated else None
    return last if last and one.since and last < one.since else None


def _tokens(row: dict[str, Any]) -> int:
    return sum(
        int(row[n] or 0) for n in ("input_tokens", "output_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")
    )


def _top(uses: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(uses.items(), key=lambda pair: (-pair[1], pair[0]))[:_TOP]


def streak(days: list[str]) -> int:
    """Return the longest run of days one after the other."""
    best = run = 0
    last: date | None = None
    for day in sorted(map(date.fromisoformat, days)):
        run = run + 1 if last is not None and day - last == timedelta(days=1) else 1
        best, last = max(best, run), day
    return best


def _every_day(by_day: dict[str, int], one: Period) -> list[tuple[str, int]]:
    """Return each day of the period, or from the first to the last day with calls; over ten years those with calls alone."""
    known = sorted(map(date.fromisoformat, by_day))
    first, last = one.since or (known[0] if known else None), one.until or (known[-1] if known else None)
    if first is None or last is None:
        return []
    span = (last - first).days + 1
    days = [first + timedelta(days=n) for n in range(span)] if span <= _MOST_DAYS else known
    return [(d.isoformat(), by_day.get(d.isoformat(), 0)) for d in days]


# A card drawn: for a terminal, as one line, as a picture (SVG) and as a page.


_WIDE = 52
_LONGEST = 200
_LEVELS = "▁▂▃▄▅▆▇█"
_BAR = 12
_BARS = 31
"""At most; of a longer time each bar is several days."""


def text_card(card: Wrapped) -> str:
    """Return the card for a terminal, 50 columns wide."""
    lines = [f"WRAPPED {card.title}".center(_WIDE), ""]
    lines += [_two(told[n], told[n + 1] if n + 1 < len(told) else "") for told in (_facts(card),) for n in range(0, len(told), 2)]
    if len(card.daily) > 1 and any(n for _, n in card.daily):
        lines += ["", spark(card)]
    if card.commands:
        lines += ["", "Top commands:"]
        most = card.commands[0][1]
        lines += [f"  {truncate(name, 20):<20} {'▓' * max(1, round(_BAR * n / most)):<{_BAR}} {n:>6,}" for name, n in card.commands]
    lines += ["", *_notes(card)]
    rule = "═" * (_WIDE + 2)
    return "\n".join([f"╔{rule}╗", *(f"║ {truncate(line, _WIDE):<{_WIDE}} ║" for line in lines), f"╚{rule}╝"])


def plain_card(card: Wrapped) -> str:
    """Return the card as a few lines without a frame and bars, as a model reads it."""
    commands = [f"Top commands: {', '.join(f'{name} {n:,}x' for name, n in card.commands)}"] if card.commands else []
    return "\n".join([f"{card.title}: {', '.join(_facts(card))}", *commands, *_notes(card)])


def line_card(card: Wrapped) -> str:
    """Return the card as one line to share."""
    cached = f", {percent(card.cached)} cached" if card.cached is not None else ""
    spent = f"{count(card.tokens)} tokens, {'unpriced' if card.cost_nano is None else money(card.cost_nano)}"
    return f"{card.title}: {spent}, {_many(card.sessions, 'session')}, {_many(card.active_days, 'active day')}{cached}"


def svg_card(card: Wrapped) -> str:
    """Return the card as a picture: SVG without scripts or anything from elsewhere."""
    rows = [f"Wrapped {card.title}", *_facts(card), *(f"{name}: {n:,}" for name, n in card.commands), *_notes(card)]
    height = 110 + 24 * len(rows)
    most = max((n for _, n in card.daily), default=0)
    step = 520 / max(1, len(card.daily))
    wide = max(1.0, step - 2)
    tall = [(i, 40 * n / most) for i, (_, n) in enumerate(card.daily) if most and n]
    bars = [
        f'<rect x="{40 + step * i:.1f}" y="{height - 30 - high:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="#4a9"/>'
        for i, high in tall
    ]
    told = [
        f'<text x="40" y="{50 + 24 * n}" font-size="{15 if n else 22}" fill="{"#ccd" if n else "#fff"}">{element(row, _LONGEST)}</text>'
        for n, row in enumerate(rows)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="{height}" viewBox="0 0 600 {height}" font-family="monospace">',
            f"<title>{element(line_card(card), _LONGEST)}</title>",
            f'<rect width="600" height="{height}" rx="14" fill="#1b2030"/>',
            *told,
            *bars,
            "</svg>\n",
        ]
    )


def html_card(card: Wrapped) -> str:
    """Return the card as a page of its own that loads nothing."""
    picture = svg_card(card)
    title = element(f"Wrapped {card.title}", _LONGEST)
    style = "margin:0;background:#10131c;display:grid;place-items:center;min-height:100vh"
    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>'
    return f'{head}\n<body style="{style}">\n{picture}</body></html>\n'


def spark(card: Wrapped) -> str:
    """Return the tokens of all days as a line of bars, and how many days a bar is."""
    days = [n for _, n in card.daily]
    step = -(-len(days) // _BARS)
    sums = [sum(days[at : at + step]) for at in range(0, len(days), step)]
    most = max(sums) or 1
    bars = "".join(" " if not n else _LEVELS[min(7, n * 8 // most)] for n in sums)
    return f"{bars}  a day" if step == 1 else f"{bars}  {step} days each"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _facts(card: Wrapped) -> list[str]:
    """Return the figures of the card; money that was saved or lost is left out where no call has a price."""
    saved = [f"cache saved {money(card.saved_by_cache_nano)}", f"likely avoidable {money(card.avoidable_nano[1])}"]
    return [
        f"{count(card.tokens)} tokens",
        "unpriced" if card.cost_nano is None else f"{money(card.cost_nano)} spent",
        _many(card.sessions, "session"),
        _many(card.calls, "model call"),
        _many(card.active_days, "active day"),
        f"{card.longest_streak} in a row",
        *([] if card.cost_nano is None else saved),
    ]


def _notes(card: Wrapped) -> list[str]:
    notes = [f"Cache hit rate: {percent(card.cached)}" if card.cached is not None else "Cache hit rate: no data"]
    notes += [f"Busiest day: {card.busiest[0]} ({count(card.busiest[1])} tokens)"] if card.busiest else []
    notes += [f"Most used: {', '.join(f'{name} {n:,}x' for name, n in card.tools)}"] if card.tools else []
    return [*notes, "Gain score: no data" if card.score is None else f"Gain score: {card.score} of 100"]


def _two(left: str, right: str) -> str:
    return f"{left:<26}{right}".rstrip()


def count(number: int) -> str:
    """Return a count with a unit: 950, 12.3 k, 4.1 M, 1.2 G."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return str(number)
