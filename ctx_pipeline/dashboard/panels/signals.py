"""Panel: how the signals read over all sessions, by group, with their trends."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.dashboard.signal_records import halves
from ctx_pipeline.model.declared import panel
from ctx_pipeline.model.readings import FIRST_SIGNALS, LEAST_SESSIONS, first_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.dashboard.data import HostLine, PageData

MOST_BUCKETS = 8
MOST_REASONS = 4
MONTHS = 12

_FIGURES = ("median", "p90", "mean", "min", "max", "true")


def records(data: PageData) -> dict[str, Any]:
    """Return what the script draws: every signal with its figures, months, buckets and the sessions that read highest.

    ``months`` are [month, sessions, level] and buckets [name, sessions, level], where the
    level is the mean of numbers and the share of true, None for words; the months are the
    last MONTHS of the trend's host, the buckets those with most sessions. ``hosts`` are
    [title, sessions, figures by name]: hosts differ by what they record, so that figures
    of several stand side by side.
    """
    keys = {(s.host, s.session_id): s.key for s in data.sessions}
    tops: dict[str, list[list[Any]]] = defaultdict(list)
    for top in data.tops:
        if (top.host, top.session_id) in keys:
            tops[top.signal].append([keys[top.host, top.session_id], top.value])
    known = discovery.signals()
    return {
        "signals": [
            _record(r, known[r["signal"]].describe if r["signal"] in known else "", tops[r["signal"]], data.host_titles)
            for r in data.aggregates
        ]
    }


def _record(record: Mapping[str, Any], describe: str, tops: list[list[Any]], titles: Mapping[str, HostLine]) -> dict[str, Any]:
    what, how = halves(describe)
    place = first_place(record["signal"])
    hosts = [(titles[host].title if host in titles else host, figures) for host, figures in _ranked(record["by"].get("host", {}))]
    by = record["by"]
    seen = record["trend"]
    return {
        **{name: record[name] for name in ("signal", "group", "kind", "unit", "better", "count", "missing")},
        **{name: record[name] for name in _FIGURES if record.get(name) is not None},
        "first": place if place < len(FIRST_SIGNALS) else None,
        "what": what,
        "how": how,
        "histogram": record["histogram"],
        "labels": list(record.get("labels", {}).items())[:MOST_BUCKETS],
        "reasons": sorted(record["reasons"].items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_REASONS],
        "trend": seen
        and {name: seen[name] for name in ("month", "mean", "before", "change", "direction", "verdict")}
        | {"host": titles[seen["host"]].title if seen["host"] in titles else seen["host"]},
        "months": [tuple(one[:3]) for one in sorted(record.get("months", ()))[-MONTHS:]],
        "hosts": [[title, figures["count"], {n: figures[n] for n in _FIGURES if figures.get(n) is not None}] for title, figures in hosts],
        "by": {name: _most(by.get(name, {})) for name in ("project", "model")},
        "tops": tops,
    }


def _most(buckets: Mapping[str, Mapping[str, Any]]) -> list[list[Any]]:
    """Return the buckets with most sessions."""
    return [_bucket(name, figures) for name, figures in _ranked(buckets)[:MOST_BUCKETS]]


def _ranked(buckets: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    measured = [(name, figures) for name, figures in buckets.items() if figures["count"]]
    return sorted(measured, key=lambda pair: (-pair[1]["count"], pair[0]))


def _bucket(name: str, figures: Mapping[str, Any]) -> list[Any]:
    if "true" in figures:
        return [name, figures["count"], figures["true"] / figures["count"] if figures["count"] else None]
    return [name, figures["count"], figures.get("mean")]


@panel(title="Signals", order=60, data=records, page="Signals")
def build(data: PageData) -> str:
    """One reading a session. Choose a signal to see how to read it, where it reads high and the sessions behind it."""
    return template("signals.html", total=len(data.aggregates), least=LEAST_SESSIONS)
