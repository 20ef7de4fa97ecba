"""Readings of the signals: of one session, and added up over sessions."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.dashboard.signal_records import halves
from ctx_pipeline.errors import NothingFound, UnknownName, UsageError, nearest
from ctx_pipeline.model.declared import group_of
from ctx_pipeline.model.readings import FIRST_SIGNALS, first_place
from ctx_pipeline.sessions.session_details import resolve
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


def catalogue(group: str | None = None, *, settings: Settings | None = None) -> list[dict[str, Any]]:
    """Return every signal: name, family, group, kind, unit, better, method, version, what it is and how to read it.

    Raises UnknownName for a group that no signal is in.
    """
    discovery.look_in((settings or settings_module.load()).home / "config")
    group = group and group_of(group)
    _check_group(group)
    rows = []
    for s in discovery.signals().values():
        if group and s.group != group:
            continue
        what, how = halves(s.describe)
        rows.append(
            {
                "signal": s.name,
                "family": s.family,
                "group": s.group,
                "kind": s.kind,
                "unit": s.unit,
                "better": s.better,
                "method": s.method,
                "version": s.version,
                "what": what,
                "how_to_read": how,
            }
        )
    return rows


def show(host: str, session_id: str, *, group: str | None = None, settings: Settings | None = None) -> dict[str, Any]:
    """Return the readings of one session, of one group if given, with the events they rest on, quoted (400 characters each).

    Raises UnknownName for a session that is not in the store and a group that no signal is in.
    """
    from ctx_pipeline.storage.warehouse.session_queries import session_readings

    known, group = discovery.signals(), group and group_of(group)
    _check_group(group)
    with reading(settings) as (store, _):
        key, full = resolve(store, host, session_id)
        row = store.ledger.session(key, full)
        readings, quoted = session_readings(store.lake, row.partition, full) if row is not None else ([], {})
    readings = [r for r in readings if group is None or (r["signal"] in known and known[r["signal"]].group == group)]
    for r in readings:
        r["evidence"] = [{"event_id": event, "text": quoted.get(event, "")} for event in r["evidence"]]
    return {"host": key, "session_id": full, "readings": readings}


def evidence(
    name: str,
    *,
    host: str | None = None,
    project: str | None = None,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    settings: Settings | None = None,
) -> list[dict[str, Any]]:
    """Return every event that a reading of a signal rests on, the newest first, with its session and its text (4,000 characters).

    Raises UnknownName for a signal or a host that is none, UsageError for a day that is none.
    """
    from ctx_pipeline.storage.warehouse.session_queries import signal_events
    from ctx_pipeline.usage.engine import parse_filters
    from ctx_pipeline.usage.rollup import moment

    with reading(settings) as (store, chosen):
        discovery.look_in(chosen.home / "config")
        known = discovery.signals()
        if name not in known:
            raise UnknownName("signal", name, known)
        bounds = parse_filters(chosen, since=since, until=until, timezone=timezone)
        return signal_events(
            store.lake,
            name,
            host=discovery.host(host).key if host else None,
            project=project,
            since=moment(bounds.since, bounds.timezone),
            until=moment(bounds.until, bounds.timezone, after=True),
        )


def measured_in(store: Store, settings: Settings, said: str, *, at_least: float | None = None) -> dict[tuple[str, str], float | str]:
    """Return (host, session id) -> reading, of the sessions that a signal says something of.

    ``NAME`` selects readings above 0, true or with a text, ``NAME=TEXT`` those of a text, and
    ``at_least`` those of a number. Raises UnknownName for a signal that is none, NothingFound
    for a text that it reads in no session and does not speak of, UsageError for a number that is asked of words or words of numbers.
    """
    from ctx_pipeline.storage.warehouse.session_queries import values_of

    name, _, text = said.partition("=")
    discovery.look_in(settings.home / "config")
    known = discovery.signals()
    if name not in known:
        raise UnknownName("signal", name, known)
    worded = known[name].kind in {"text", "categorical"}
    if (at_least is not None and worded) or (text and not worded):
        raise UsageError(f"{name} reads {'words' if worded else 'numbers'}", hint=f"ctx list --signal {name}")
    found: dict[tuple[str, str], float | str] = {}
    values = values_of(store.lake, store.warehouse_path, name)
    labels = Counter(label for _, label in values.values() if label)
    if text and labels and text not in labels and not re.search(rf"\b{re.escape(text)}\b", known[name].describe):
        raise _no_such_text(name, text, labels)
    for place, (value, label) in values.items():
        if worded and label and text in {"", label}:
            found[place] = label
        elif not worded and value is not None and (value > 0 if at_least is None else value >= at_least):
            found[place] = value
    return found


def without_passing_tests(store: Store) -> dict[tuple[str, str], str]:
    """Return (host, session id) -> how tests ended, of sessions that ran tests or edited files and whose last test run did not pass.

    What is not known is told as unknown.
    """
    from ctx_pipeline.storage.warehouse.session_queries import values_of

    outcome, failing, runs, edits = (
        values_of(store.lake, store.warehouse_path, name)
        for name in ("last_test_outcome", "tests_failing_at_end", "test_run_count", "file_edit_count")
    )
    found: dict[tuple[str, str], str] = {}
    for place in sorted(runs.keys() | edits.keys()):
        ended, ran = outcome.get(place, (None, None))[1], runs.get(place, (0, None))[0]
        if ended == "failed":
            count = failing.get(place, (None, None))[0]
            found[place] = f"{count:,.0f} failed" if count else "failed"
        elif ended == "none":
            found[place] = "unknown: the last run found no test"
        elif ended is None and ran:
            found[place] = "unknown: how the last run ended"
        elif ended is None and edits.get(place, (0, None))[0]:
            found[place] = NEVER_TESTED
    return found


NEVER_TESTED = "never tested"
"""How tests ended in a session that edited files and ran none."""


def outcome_of(reading: str) -> str:
    """Return which kind of end a text of :func:`without_passing_tests` tells: one of :data:`OUTCOMES`."""
    return NEVER_TESTED if reading == NEVER_TESTED else "unknown" if reading.startswith("unknown") else "failed"


OUTCOMES = ("failed", NEVER_TESTED, "unknown")
"""Ends of sessions without passing tests, what is surest first."""


def _no_such_text(name: str, text: str, labels: Counter[str]) -> NothingFound:
    """Return the error for a text that a signal reads nowhere: the nearest ones, and what it reads most."""
    read = "; ".join(f"{label} ({count:,})" for label, count in labels.most_common(_TEXTS))
    more = f" and {len(labels) - _TEXTS:,} more" if len(labels) > _TEXTS else ""
    near = nearest(text, labels)
    meant = f"did you mean {', '.join(near)}? " if near else ""
    return NothingFound(f"{name} is {text!r} in no session", hint=f"{meant}its values, with their sessions: {read}{more}")


_TEXTS = 8
"""Texts of a signal that are named where one that was asked for is none of them."""


def measured_count(name: str, *, settings: Settings | None = None) -> int:
    """Return in how many sessions a signal could be measured, whatever it reads there."""
    from ctx_pipeline.storage.warehouse.session_queries import values_of

    with reading(settings) as (store, _):
        return len(values_of(store.lake, store.warehouse_path, name))


def summary(signals: list[str] | None = None, *, group: str | None = None, settings: Settings | None = None) -> list[dict[str, Any]]:
    """Return what the readings of all sessions add up to, of all signals or of these.

    The records are those of :func:`ctx_pipeline.dashboard.signal_records.summaries`, of
    what is in the tables now. Raises UnknownName for a signal or group that is none.
    """
    with reading(settings) as (store, _):
        known, group = discovery.signals(), group and group_of(group)
        for name in signals or ():
            if name not in known:
                raise UnknownName("signal", name, known)
        _check_group(group)
        records = _records_of_last_build(store) or _added_up(store)
    return [r for r in records if (not signals or r["signal"] in signals) and (group is None or r["group"] == group)]


def _check_group(group: str | None) -> None:
    groups = {s.group for s in discovery.signals().values()}
    if group and group not in groups:
        raise UnknownName("group", group, groups)


def _records_of_last_build(store: Store) -> list[dict[str, Any]] | None:
    """Return the records that the last build of the warehouse wrote; None where they are of other readings or other signals."""
    from ctx_pipeline.dashboard.signal_records import AGGREGATES, MEASURED, kept_records

    if not store.files.exists(AGGREGATES):
        return None
    return kept_records(store.files.read(AGGREGATES), [store.lake.relation_sql(name) for name in MEASURED])


def _added_up(store: Store) -> list[dict[str, Any]]:
    from ctx_pipeline.dashboard.signal_records import TABLES, summaries
    from ctx_pipeline.storage.warehouse import signal_sql

    with closing(store.lake.connect()) as connection:
        store.lake.views(connection, TABLES)
        return summaries(lambda name: signal_sql.rows(connection, name))


# The few readings that say something of one session.


NOTABLE = (
    *("session_grade", "interruption_count", "cache_hit_share"),
    *("context_peak_share", "compaction_count", "context_rot_verdict", "active_seconds"),
)
"""Signals that are shown of every session where they have a value other than 0, behind those that every view shows first."""

OTHERS_AT_LEAST = 19
"""So many other sessions must be measured before one is called unusual."""
_UNUSUAL, _MOST = 0.9, 8


def rank(reading: Mapping[str, Any]) -> float | None:
    """Return the share of the host's other sessions that are better by this signal, 0 to 1.

    None without a better side, or with few others.
    """
    signal = discovery.signals().get(reading["signal"])
    if signal is None or signal.better not in {"lower", "higher"} or reading.get("others", 0) < OTHERS_AT_LEAST:
        return None
    return float(reading["lower" if signal.better == "lower" else "higher"] / reading["others"])


def notable(readings: Iterable[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any], float | None]]:
    """Return (group, reading, rank) of the readings to show: ``FIRST_SIGNALS``, the unusual ones, the worst first, then ``NOTABLE``.

    The first ones are shown with a value of 0 too. A reading is unusual where nine tenths of the other
    sessions are better; at most eight are, one where several rest on the same events.
    """
    known = discovery.signals()
    measured = [r for r in readings if r["signal"] in known and (r["value"] is not None if r["label"] is None else r["label"])]
    ranked = [(known[r["signal"]].group, r, rank(r)) for r in measured]
    first = sorted((one for one in ranked if one[1]["signal"] in FIRST_SIGNALS), key=lambda one: first_place(one[1]["signal"]))
    others = [one for one in ranked if one[1]["signal"] not in FIRST_SIGNALS and (one[1]["value"] or one[1]["label"])]
    unusual = sorted(
        (one for one in others if one[2] is not None and one[2] >= _UNUSUAL), key=lambda one: (-(one[2] or 0), one[1]["signal"])
    )
    seen = {tuple(one[1]["evidence"]) for one in first if one[1]["evidence"] and one[1]["value"]}
    chosen: list[tuple[str, Mapping[str, Any], float | None]] = []
    for one in unusual:
        evidence = tuple(one[1]["evidence"] or (one[1]["signal"],))
        if evidence not in seen and len(chosen) < _MOST:
            chosen.append(one)
        seen.add(evidence)
    shown = {one[1]["signal"] for one in chosen}
    place = {name: number for number, name in enumerate(NOTABLE)}
    rest = sorted(
        (one for one in others if one[1]["signal"] in place and one[1]["signal"] not in shown), key=lambda one: place[one[1]["signal"]]
    )
    return [*first, *chosen, *rest]
