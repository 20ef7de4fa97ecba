"""What the readings of all sessions add up to, as records and as Markdown."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.dashboard.figures import reading
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.display import table_text, visible
from ctx_pipeline.model.readings import Month, trend
from ctx_pipeline.storage.warehouse.signal_sql import COPIES, DIMENSIONS, MONTH_OF_HOST, QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Rows = Callable[[str], list[dict[str, Any]]]

AGGREGATES = "signals/aggregates.json"
"""Where the records are kept when a warehouse was built."""

TABLES = ("readings", "sessions", "model_calls")
"""Tables that records are made of."""
MEASURED = TABLES[:1]
"""What records that were kept are of: a session that was captured since is measured, and counted, by the next run."""

_LABELS = 5
_BARS = " ▁▂▃▄▅▆▇█"


def halves(describe: str) -> tuple[str, str]:
    """Return what a signal is and how to read it, in plain words: the first paragraph of its text and the rest."""
    first, _, rest = describe.replace("``", "").partition("\n\n")
    return " ".join(first.split()), " ".join(rest.split())


def made_of(relations: Sequence[str]) -> str:
    """Return the hash of what records are made of: the live rows of :data:`MEASURED` as SELECTs over their parts, signals, queries."""
    declared = [(s.name, s.version, s.family, s.group, s.kind, s.unit, s.better) for s in discovery.signals().values()]
    return digest(list(relations), sorted(map(str, declared)), sorted(QUERIES.items()), COPIES)


def kept_records(data: bytes, relations: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the records of a file of :data:`AGGREGATES`; None where they are of other readings or other signals."""
    import msgspec

    try:
        kept = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    return list(kept["signals"]) if isinstance(kept, dict) and kept.get("made_of") == made_of(relations) else None


def summaries(rows: Rows) -> list[dict[str, Any]]:
    """Return one record for each signal, by group and name; ``rows`` gives those of an aggregate table.

    Keys: signal, family, group, kind, unit, better, count, missing, reasons (reason ->
    sessions); min, max, mean, median, p90, sum and histogram (bins of [from, to,
    sessions]) of numbers; true and false of booleans; labels of categories; trend, of the
    months of the host with most readings, since hosts differ by what they record; months
    (those of its rows: month, sessions measured, mean and standard deviation); and ``by``:
    dimension -> bucket -> count, missing, mean, median, p90, min, max, sum, true,
    labels. Readings of a signal that is no longer there are left out.
    """
    declared = discovery.signals()
    labels: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for r in rows("signal_label_by"):
        labels[r["signal"], r["dimension"], r["bucket"]][r["label"]] = r["sessions"]
    reasons: dict[str, dict[str, int]] = defaultdict(dict)
    for r in rows("signal_reasons"):
        reasons[r["signal"]][r["reason"]] = r["sessions"]
    bins: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for r in rows("signal_histogram"):
        bins[r["signal"]].append((r["from_value"], r["to_value"], r["sessions"]))
    found: dict[str, dict[str, Any]] = {}
    months: dict[str, dict[str, list[Month]]] = defaultdict(lambda: defaultdict(list))
    for r in rows("signal_by"):
        known = declared.get(r["signal"])
        if known is None or r["kind"] != known.kind:
            continue
        figures = _figures(r, labels.get((r["signal"], r["dimension"], r["bucket"]), {}))
        if r["dimension"] == MONTH_OF_HOST:
            host, _, month = r["bucket"].rpartition(" ")
            months[known.name][host].append(Month(month, figures["count"], _level(figures), r["deviation"]))
        elif r["dimension"] == "all":
            facts = {n: getattr(known, n) for n in ("family", "group", "kind", "unit", "better")}
            more = {"reasons": reasons.get(known.name, {}), "histogram": bins.get(known.name, [])}
            found[known.name] = {
                "signal": known.name,
                **facts,
                **figures,
                **more,
                "trend": None,
                "by": found.get(known.name, {}).get("by", {}),
            }
        else:
            by = found.setdefault(known.name, {"by": {}})["by"]
            by.setdefault(r["dimension"], {})[r["bucket"]] = figures
    for record in found.values():
        by_host = months[record["signal"]]
        host = max(by_host, key=lambda one: (sum(m.measured for m in by_host[one]), one), default="")
        record["months"] = by_host[host]
        seen = trend(by_host[host], record["better"])
        record["trend"] = {**asdict(seen), "host": host} if seen else None
    return sorted(found.values(), key=lambda record: (record["group"], record["signal"]))


def _figures(row: Mapping[str, Any], labels: Mapping[str, int]) -> dict[str, Any]:
    figures: dict[str, Any] = {"count": row["measured"], "missing": row["missing"]}
    if row["kind"] == "numeric":
        names = {"min": "lowest", "max": "highest", "mean": "mean", "median": "median", "p90": "p90", "sum": "total"}
        figures |= {name: row[column] for name, column in names.items()}
    elif row["kind"] == "boolean":
        figures |= {"true": row["true_count"], "false": row["measured"] - row["true_count"]}
    elif row["kind"] == "categorical":
        figures["labels"] = dict(sorted(labels.items(), key=lambda pair: (-pair[1], pair[0])))
    return figures


def _level(figures: Mapping[str, Any]) -> float | None:
    """Return what a trend compares: the mean of numbers, the share of true."""
    if "true" in figures:
        return figures["true"] / figures["count"] if figures["count"] else None
    level: float | None = figures.get("mean")
    return level


def buckets(records: Sequence[Mapping[str, Any]], dimension: str) -> list[dict[str, Any]]:
    """Return one row for each signal and bucket of a dimension. Raises UnknownName for one that is none."""
    if dimension not in DIMENSIONS[1:]:
        raise UnknownName("dimension", dimension, DIMENSIONS[1:])
    return [
        {"signal": record["signal"], dimension: bucket, "unit": record["unit"], **figures}
        for record in records
        for bucket, figures in sorted(record["by"].get(dimension, {}).items())
    ]


def markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the aggregates as Markdown, a table for each group; text of sessions is not in it, but for labels."""
    lines = [
        "# Signals",
        "",
        "What each measures and how to read it: `ctx signal list`. By project, host, model and month: `ctx signal summary --by`.",
    ]
    group = None
    for record in records:
        if record["group"] != group:
            group = record["group"]
            lines += ["", f"## {str(group).capitalize()}", ""]
            lines += [
                "| signal | measured | median | p90 | mean | highest | unit | spread | trend |",
                "|---|--:|--:|--:|--:|--:|---|---|---|",
            ]
        lines.append(f"| `{record['signal']}` | {' | '.join(table_text(visible(text)) for text in _cells(record))} |")
    missing = [r for r in records if r["missing"]]
    if missing:
        lines += ["", "## Without a value", "", "| signal | sessions | why |", "|---|--:|---|"]
        for r in missing:
            why = "; ".join(f"{reason} ({count:,})" for reason, count in sorted(r["reasons"].items(), key=lambda p: (-p[1], p[0]))[:4])
            lines.append(f"| `{r['signal']}` | {r['missing']:,} | {table_text(visible(why))} |")
    return "\n".join(lines) + "\n"


def _cells(record: Mapping[str, Any]) -> list[str]:
    measured = f"{record['count']:,} of {record['count'] + record['missing']:,}"
    seen = record["trend"]
    way = "" if seen is None else seen["direction"] + (f" ({seen['verdict']})" if seen["verdict"] else "")
    if record["kind"] == "numeric":
        figures = [number(record[name], record["unit"]) for name in ("median", "p90", "mean", "max")]
        return [measured, *figures, record["unit"], spread(record["histogram"]), way]
    if record["kind"] == "boolean":
        share = f"true in {record['true']:,}" if record["count"] else ""
        return [measured, share, "", "", "", "", "", way]
    shown = ", ".join(f"{label} {count:,}" for label, count in list(record.get("labels", {}).items())[:_LABELS])
    return [measured, shown, "", "", "", record["unit"], "", way]


def number(value: float | None, unit: str = "") -> str:
    """Return a figure with as many decimals as it needs; dollars with their sign."""
    if value is None:
        return ""
    if unit == "dollars":
        return reading(value, unit)
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.3g}"


def spread(histogram: Sequence[tuple[float, float, int]]) -> str:
    """Return the ten bins of a histogram as bars."""
    if len(histogram) < 2:
        return ""
    low, high = histogram[0][0], histogram[-1][1]
    most = max(count for _, _, count in histogram)
    width = (histogram[0][1] - low) or (high - low) / 10
    heights = [0] * 10
    for start, _, count in histogram:
        heights[min(9, round((start - low) / width))] = max(1, round(count / most * (len(_BARS) - 1)))
    return "".join(_BARS[h] for h in heights)
