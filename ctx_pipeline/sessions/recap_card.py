"""A card drawn: for a terminal, as one line, as a picture (SVG) and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.context.session_state.snapshot import element
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from ctx_pipeline.sessions.wrapped import Wrapped

_WIDE = 52
_LONGEST = 200
_LEVELS = "▁▂▃▄▅▆▇█"
_BAR = 12
_SHOWN_DAYS = 31


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


def line_card(card: Wrapped) -> str:
    """Return the card as one line to share."""
    cached = f", {card.cached:.0%} cached" if card.cached is not None else ""
    spent = f"{count(card.tokens)} tokens, {money(card.cost_nano)}"
    return f"{card.title}: {spent}, {card.sessions} sessions, {card.active_days} active days{cached}"


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
    """Return the days as a line of bars, the last month of them at most."""
    days = card.daily[-_SHOWN_DAYS:]
    most = max(n for _, n in days) or 1
    return "".join(" " if not n else _LEVELS[min(7, n * 8 // most)] for _, n in days)


def _facts(card: Wrapped) -> list[str]:
    return [
        f"{count(card.tokens)} tokens",
        f"{money(card.cost_nano)} spent",
        f"{card.sessions:,} sessions",
        f"{card.calls:,} model calls",
        f"{card.active_days} active days",
        f"{card.longest_streak} in a row",
        f"cache saved {money(card.saved_by_cache_nano)}",
        f"likely avoidable {money(card.avoidable_nano[1])}",
    ]


def _notes(card: Wrapped) -> list[str]:
    notes = [f"Cache hit rate: {card.cached:.1%}" if card.cached is not None else "Cache hit rate: no data"]
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


def money(nano: int) -> str:
    """Return nano-dollars as dollars and cents."""
    return f"-${-nano / 1e9:,.2f}" if nano < 0 else f"${nano / 1e9:,.2f}"
