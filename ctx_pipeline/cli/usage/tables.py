"""How ``ctx usage`` prints its rows: what to show first, under which names, and what the cost is made of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.cli.output import (
    counted,
    dollars,
    first_counts,
    local_time,
    more_rows,
    paragraph,
    plain,
    say,
    shares,
    table,
    terminal_width,
    tokens,
    zone_name,
)
from ctx_pipeline.cli.session_names import short_names
from ctx_pipeline.model.display import amount, percent, session_title
from ctx_pipeline.model.usage_rules import UNDATED, UNNAMED
from ctx_pipeline.usage.rollup import SUMS, TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.own_sessions import Shown
    from ctx_pipeline.usage.engine import Usage

SORTS = ("date", "cost", "tokens", "calls", "rebuilds", "name")
_COUNTS = {
    "calls": "calls",
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_write_tokens": "cache write",
    "cache_read_tokens": "cache read",
    "reasoning_tokens": "reasoning",
    "cost": "cost",
    "share": "share",
}
_SESSIONS = 20
"""Sessions on a terminal unless a limit is given, and those not captured yet that are read for their titles."""
_EXACT = 130
"""Cells of a terminal from which token counts are printed in full."""
_TITLE = 20
"""Cells of a title that no figure takes away."""
_NAME = 40
"""Cells of the longest name of a model that is never cut."""
_DROP = ("reasoning_tokens", "host", "share", "cache_write_tokens", "input_tokens", "models", "model", "cache_read_tokens", "output_tokens")
_DROP_SESSION = (
    "reasoning_tokens",
    "cache_write_tokens",
    "input_tokens",
    "cache_read_tokens",
    "output_tokens",
    "host",
    "share",
    "calls",
    "model",
    "project",
    "began",
)


def show(
    report: Usage,
    key: str,
    settings: Settings,
    *,
    breakdown: bool = False,
    sort: str | None = None,
    limit: int | None = None,
    meant: Mapping[str, Any] | None = None,
) -> None:
    """Print a report as a table, one row a key, or a row for each host and model of it.

    ``meant`` are the filters of the report but for its days: an empty one says which day of them is the newest.
    """
    if not report.rows:
        from ctx_pipeline.usage.engine import usage

        newest = max((row["date"] for row in usage("daily", settings=settings, **(meant or {})).rows if row["date"]), default="")
        say(f"no model calls in this range{f'; the newest is from {newest}' if newest else ''}")
        for text in notes(report) if report.unread else _billed(report):
            paragraph(text)
        return
    sessions = session_labels(settings) if key == "session_id" else {}
    rows = (
        _merged(report, key)
        if not breakdown and key != "model"
        else [{**row, "hosts": [row["host"]], "models": [row["model"]]} for row in report.rows]
    )
    if key == "session_id":
        add_new(sessions, rows, settings)
    rows = in_order(rows, key, sort, sessions)
    names = short_names([row[key] for row in rows], settings) if key == "session_id" and terminal_width() is not None else {}
    whole = int(report.totals["cost_nano"])
    left = len(rows)
    if limit is None and key == "session_id" and terminal_width() is not None:
        limit = _SESSIONS
    rows = limited(rows, limit, newest_last=key == "date" and sort is None)
    if key == "session_id":
        add_new(sessions, rows, settings)
    shown = [
        {
            **_figures(row),
            key: _label(report.by, key, row, names),
            "host": ", ".join(row["hosts"]),
            "model": _few([name or UNNAMED for name in row["models"]], whole=breakdown or key == "model"),
            "share": share,
            **(_session(row, sessions, report) if key == "session_id" else {}),
        }
        for row, share in zip(rows, shares(rows, "cost_nano", whole), strict=True)
    ]
    columns = _columns(report, key, shown)
    total = {**_figures(report.totals), key: "total"}
    drop = _DROP_SESSION if key == "session_id" else tuple(name for name in _DROP if name != key)
    # cut, the names of models are all alike
    keep = ("model",) if "model" in columns and max(len(str(row["model"])) for row in shown) <= _NAME else ()
    table(shown, columns, total=total, drop=drop, keep=keep, room_for={"title": _TITLE})
    more_rows(left, len(rows))
    if report.gone:
        say(
            f"from sessions whose files are gone: {counted(int(report.gone['calls']), 'call')},"
            f" {tokens(sum(int(report.gone[n]) for n in TOKENS))} tokens, {dollars(cost_of_row(report.gone))}"
        )
    for text in notes(report):
        paragraph(text)


def add_new(sessions: dict[tuple[str, str], Shown], rows: Iterable[Mapping[str, Any]], settings: Settings) -> None:
    """Add what the homes say of the sessions of these rows that are not captured, where they are few."""
    unknown = {(host, row["session_id"]) for row in rows for host in row["hosts"]} - sessions.keys()
    if 0 < len(unknown) <= _SESSIONS:
        from ctx_pipeline.usage.homes import live_usage

        sessions |= live_usage.shown(settings, unknown)


def in_order(
    rows: list[dict[str, Any]], key: str, sort: str | None, sessions: dict[tuple[str, str], Shown] | None = None
) -> list[dict[str, Any]]:
    """Return rows by days, weekdays and hours in their order, sessions newest first, others with most cost first; or as ``sort`` says."""
    how = sort or {"date": "", "hour": "", "weekday": "", "session_id": "date" if sessions else "cost"}.get(key, "cost")
    if not how:
        return rows
    if how == "name" or (how == "date" and key not in {"date", "session_id"}):
        return sorted(rows, key=lambda row: str(row[key] or ""))
    if how == "date" and key == "date":
        return sorted(rows, key=lambda row: str(row[key] or ""), reverse=True)
    if how == "date":
        known = sessions or {}
        return sorted(
            rows,
            key=lambda row: max((known[place].began or 0 for h in row["hosts"] if (place := (h, row[key])) in known), default=0),
            reverse=True,
        )
    names = {"cost": ("cost_nano",), "calls": ("calls",), "rebuilds": ("cache_rebuilds",)}.get(how, TOKENS)
    return sorted(rows, key=lambda row: sum(int(row[name]) for name in names), reverse=True)


def session_labels(settings: Settings) -> dict[tuple[str, str], Shown]:
    """Return (host, id) -> title, project and begin of every captured session; nothing where there is no store."""
    from ctx_pipeline.errors import CtxError
    from ctx_pipeline.storage.own_sessions import ShownSessions

    known = ShownSessions(settings.home / "ledger.db")
    try:
        return known.of()
    except CtxError:
        return {}
    finally:
        known.close()


def notes(report: Usage) -> Iterator[str]:
    """Yield what the cost is made of, what has none, and whose days are shown."""
    calls, unpriced, recorded = (int(report.totals[name]) for name in ("calls", "unpriced_calls", "recorded_calls"))
    display = report.cost_mode == "display"
    if unpriced and display:
        yield f"{unpriced:,} of {calls:,} calls have no recorded cost"
    elif unpriced:
        models = sorted({plain(r["model"] or UNNAMED) for r in report.rows if r["unpriced_calls"]})
        yield f"{counted(unpriced, 'call has', 'calls have')} no known price: {', '.join(models)}"
    if undated := sum(int(row["calls"]) for row in report.rows if not row.get("date", True)):
        yield f"{UNDATED}: {counted(undated, 'call is', 'calls are')} recorded without one; --since and --until leave them out"
    if any(int(row.get("uses") or 0) > int(row["calls"]) for row in report.rows):
        yield "a call that used several is split between them and counted once, with the first"
    if any("uses" in row for row in report.rows):
        yield "uses are what counted model calls asked for; every tool call on record, those of copied history too: ctx work"
    missing = report.estimated_missing_output
    if missing and missing.tokens:
        yield first_counts(missing.calls, missing.tokens)
    if report.unread:
        yield f"{counted(report.unread, 'file')} could not be read, their calls are missing; more: ctx doctor"
    made = "list prices on the day of the call"
    if display:
        made = "cost is what the host wrote down"
    elif recorded and report.cost_mode == "auto":
        sums = f"{dollars(int(report.totals['recorded_nano']))} recorded, {dollars(int(report.totals['calculated_nano']))} at list prices"
        made = f"cost is what the host wrote down for {counted(recorded, 'call')}, {made} for the others ({sums})"
    for host, plan in sorted(report.plans.items()):
        yield f"{host} is used on a flat plan ({plain(plan)}): its cost is what these calls would cost at list prices, not what was paid"
    yield from _billed(report)
    yield f"{made}; days in {zone_name(report.filters.timezone)}"


def _billed(report: Usage) -> Iterator[str]:
    """Yield what each host billed in units of its own."""
    by_host: dict[str, list[str]] = {}
    for one in report.other_units or ():
        by_host.setdefault(one.host, []).append(f"{amount(one.amount)} {one.label} in {counted(one.sessions, 'session')}")
    for host, amounts in by_host.items():
        yield f"{host} also billed {', '.join(amounts)}; these are no dollars and not in the cost"


def cost_of_row(row: dict[str, Any]) -> int | None:
    """Return the cost of a row in nano-dollars; None where no call has a price."""
    return None if row["unpriced_calls"] and row["unpriced_calls"] == row["calls"] else int(row["cost_nano"] or 0)


def _merged(report: Usage, key: str) -> list[dict[str, Any]]:
    if key != "project":
        return report.by_key()
    from ctx_pipeline.usage.engine import with_names
    from ctx_pipeline.usage.repositories import by_repository

    return with_names(by_repository(report.by_key_and_model(), (*SUMS, "cache_rebuilds", "cache_saved_nano")))


def limited(rows: list[Any], limit: int | None, *, newest_last: bool) -> list[Any]:
    """Return at most so many rows: the newest, which stand last where time goes down the table."""
    if limit is None:
        return rows
    return rows[-limit:] if newest_last else rows[:limit]


def _label(by: str, key: str, row: dict[str, Any], names: dict[str, str]) -> str:
    if row[key] is None:
        return UNDATED
    if key == "date" and by == "monthly":
        return str(row[key])[:7]
    name = str(row[key])
    return names.get(name, name)


def _session(row: dict[str, Any], sessions: dict[tuple[str, str], Shown], report: Usage) -> dict[str, Any]:
    found = next((sessions[place] for host in row["hosts"] if (place := (host, row["session_id"])) in sessions), None)
    if found is None:
        return {"began": "", "project": "", "title": ""}
    return {
        "began": local_time(found.began, report.filters.timezone),
        "project": found.project or "",
        "title": session_title(found.title),
    }


def _columns(report: Usage, key: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    columns = {
        key: {"date": "month" if report.by == "monthly" else "week of" if report.by == "weekly" else "date"}.get(
            key, key.replace("_id", "")
        )
    }
    if key == "session_id":
        columns |= {"began": "first call", "project": "project", "title": "title"}
    if any("uses" in row for row in report.rows):
        columns["uses"] = "uses"
    if len({row["host"] for row in rows}) > 1 or terminal_width() is None:
        columns["host"] = "host"
    columns |= {name: heading for name, heading in {"model": "model", **_COUNTS}.items() if name != key}
    if not report.totals.get("reasoning_tokens"):
        columns.pop("reasoning_tokens", None)
    if key == "date":
        columns.pop("share")
    if "cache_hit_share" in report.totals:
        columns |= {"hits": "cache hits", "cache_rebuilds": "rebuilds", "saved": "cache saved"}
    if key != "project" and len({(row[key], row.get("repository")) for row in rows}) > len({row[key] for row in rows}):
        columns["repository"] = "repository"
    return columns


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    width = terminal_width()
    made = {**row, "cache_write_tokens": int(row.get("cache_write_5m_tokens") or 0) + int(row.get("cache_write_1h_tokens") or 0)}
    if width is not None and width < _EXACT:
        made |= {name: tokens(int(made[name] or 0)) for name in _COUNTS if name.endswith("_tokens") and name in made}
    made["cost"] = dollars(cost_of_row(row))
    return made | (_cached(row) if "cache_saved_nano" in row else {})


def _cached(row: dict[str, Any]) -> dict[str, str]:
    from ctx_pipeline.usage.cache_efficiency import hit_share

    share = hit_share(row)
    return {"hits": "" if share is None else percent(share), "saved": dollars(int(row["cache_saved_nano"]))}


_DATED = re.compile(r"-20\d{6}$")
"""The day of a model's version at the end of its name."""


def _few(names: list[str], *, whole: bool = False) -> str:
    both = len(names) == 2 and terminal_width() is None  # a terminal may have no room for the second
    if terminal_width() is not None and not whole:
        names = list(dict.fromkeys(_DATED.sub("", name) for name in names))
    return ", ".join(names) if both or len(names) < 2 else f"{names[0]} and {len(names) - 1} more"
