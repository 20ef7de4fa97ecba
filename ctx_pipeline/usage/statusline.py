"""One line for an agent's status bar: this session, today, and the open window."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.usage.blocks import blocks
from ctx_pipeline.usage.engine import calls, total
from ctx_pipeline.usage.groupings import GROUPINGS, Days
from ctx_pipeline.usage.rollup import Filters, Rollup

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

_TS = MODEL_CALLS.names.index("ts")
_DAYS = 2
"""Files that were not written to for so many days hold nothing of today's."""


def statusline(told: str = "", *, settings: Settings | None = None, now: int | None = None) -> str:
    """Return the line. ``told`` is the JSON that an agent gives its status command (session id, model, cost), or nothing.

    Only files of the last two days are read, and no store is needed; a session that is
    older than they are is read with all that was written since it began.
    """
    from ctx_pipeline import settings as settings_module

    chosen = settings or settings_module.load()
    at = int(time.time() * 1e6) if now is None else now
    given = _object(told)
    since_ns = at * 1000 - _DAYS * 86_400 * 10**9
    session = given.get("session_id")
    owned = _owned(chosen, since_ns, session) if any(_roots(chosen)) else []
    days = Days(chosen.timezone)
    today = days.day(at)
    parts = []
    model = given.get("model")
    name = model.get("display_name") if isinstance(model, dict) else None
    if isinstance(name, str):
        parts.append(name[:40])
    if isinstance(session, str):
        parts.append(f"{_cost([(c, rows) for c, rows in owned if c.session_id == session], chosen)} session")
    mine = [(c, [r for r in rows if r[_TS] is not None and days.day(r[_TS]) == today]) for c, rows in owned]
    parts.append(f"{_cost(mine, chosen)} today")
    for block in blocks(settings=chosen, now=at, owned=owned) if owned else ():
        if block.active:
            left = max(0, (block.end - at) // 60_000_000)
            text = f"{block.host} window {_dollars(block.cost)}, {left // 60} h {left % 60:02d} min left"
            burn = block.burn()
            text += f", ${burn['usd_per_hour']:,.2f}/h" if burn else ""
            limit = block.limits.get("primary")
            parts.append(text + (f", {limit['used_percent']:.0f}% of the limit" if limit else ""))
    return " | ".join("".join(ch for ch in part if ch.isprintable()) for part in parts)


def _owned(settings: Settings, since_ns: int, session: object) -> list[Any]:
    """Return the calls of files written to since a time, and of all since the session began: they may be copies of older ones."""
    owned = calls(settings, since_ns=since_ns).owned
    times = [r[_TS] for c, rows in owned if c.session_id == session for r in (*rows, *c.calls) if r[_TS] is not None]
    began_ns = min(times) * 1000 if times else since_ns
    return calls(settings, since_ns=max(1, began_ns)).owned if began_ns < since_ns else owned


def _cost(owned: list[Any], settings: Settings) -> str:
    rollup = Rollup(GROUPINGS["model"], Filters(cost_mode=settings.cost_mode))
    rollup.add_calls(owned)
    sums = total(rollup.rows())
    known = sums["unpriced_calls"] < sums["calls"] or not sums["calls"]
    return _dollars(sums["cost_nano"] if known else None)


def _dollars(nano: int | None) -> str:
    return "unpriced" if nano is None else f"${nano / 1e9:,.2f}"


def _roots(settings: Settings) -> list[Any]:
    from ctx_pipeline import discovery

    return [root for host in discovery.hosts().values() for root in settings.roots_of(host)]


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
