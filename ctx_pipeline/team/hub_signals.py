"""Signals over what members published: the same functions as on one machine, for sessions whose policy sends what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.model.readings import store_reading
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import FACTS, READINGS, SESSIONS, TABLES
from ctx_pipeline.pipeline.measure import take
from ctx_pipeline.storage.lake.columns import arrow_table, columns_of, rows_of
from ctx_pipeline.team.published_tables import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

    from ctx_pipeline.model.declared import Signal
    from ctx_pipeline.settings import Settings

READINGS_TABLE = "readings"
_POLICY = {t.name: t.policy for t in PUBLISHED}


def measurable() -> list[str]:
    """Return the families with a signal that can be asked for over published rows."""
    return sorted(name for name, family in discovery.families().items() if any(_needs(s) is not None for s in family.signals))


def tables_read(families: Collection[str]) -> list[str]:
    """Return the published tables that signals of these families read, that of the sessions first."""
    known = discovery.families()
    asked = {table for name in families if name in known for s in known[name].signals if _needs(s) is not None for table in s.reads}
    return ["sessions", *(t.name for t in PUBLISHED if t.name in asked and t.name != "sessions")]


def family_code(name: str) -> str:
    """Return the code version of a family; readings of another one are taken anew."""
    return discovery.families()[name].code_version


def _needs(signal: Signal) -> frozenset[str] | None:
    """Return the policies that a session must be published under for a signal; None for one that looks outside or is a query.

    Columns that ``counts`` withholds are null: what reads more than tokens and turns asks for ``facts``.
    """
    if signal.sql or signal.outside is not None or signal.judge is not None:
        return None
    needed = {_POLICY[table] for table in signal.reads if table in _POLICY}
    if not needed or any(table not in _POLICY for table in signal.reads):
        return None
    return frozenset({"facts", *needed} - {"counts"})


def measured(
    settings: Settings,
    member: str,
    month: str,
    tables: Mapping[str, pa.Table | None],
    families: Collection[str],
    *,
    problems: list[str] | None = None,
) -> pa.Table:
    """Return the readings of every session of a member's month that sends what a signal of these families reads.

    Rows are what a member wrote, and may hold what no machine makes: a session that a signal fails on has no reading of it,
    and is named in ``problems``.
    """
    from ctx_pipeline.pipeline.signals.signal_inputs import analyses

    known = discovery.families()
    chosen = [(s, needed) for name in families if name in known for s in known[name].signals if (needed := _needs(s)) is not None]
    rows: list[tuple[Any, ...]] = []
    machines: list[str] = []
    figures = analyses(settings)
    for machine, shared, view in _views(tables):
        view.analyses = figures
        for signal, needed in chosen:
            if not needed <= shared:
                continue
            try:
                rows.append(_row(signal, view))
            except Exception as error:  # noqa: BLE001 - of whatever a member wrote, and of that session alone
                if problems is not None:
                    problems.append(f"{member}|{month} {view.session_id}: {signal.name} cannot be measured ({type(error).__name__})")
                continue
            machines.append(machine)
    return _arrow(member, month, machines, rows)


def _row(signal: Signal, view: SessionView) -> tuple[Any, ...]:
    found = take(signal, view)
    return tuple(store_reading(signal, found, host=view.host, session_id=view.session_id, made_of=signal.code_version))


def _views(tables: Mapping[str, pa.Table | None]) -> list[tuple[str, frozenset[str], SessionView]]:
    """Return (machine, policies, view) of each published session, by machine and id."""
    found: dict[tuple[str, str, str], tuple[frozenset[str], SessionView]] = {}
    sessions = tables.get("sessions")
    if sessions is None:
        return []
    for row, machine, shared in zip(
        rows_of(SESSIONS, sessions), sessions.column("machine").to_pylist(), sessions.column("shared").to_pylist(), strict=True
    ):
        policies = frozenset((shared or "").split(","))
        facts: dict[str, list[Any]] = {name: [] for name in FACTS} if "facts" in policies else {}
        found[machine, row.host, row.session_id] = (policies, SessionView(row, facts=facts))
    for name, rows in tables.items():
        if rows is None or name == "sessions":
            continue
        for row, machine in zip(rows_of(TABLES[name], rows), rows.column("machine").to_pylist(), strict=True):
            known = found.get((machine, row.host, row.session_id))
            if known is None or (name in FACTS and "facts" not in known[0]):
                continue
            (known[1].facts[name] if name in FACTS else getattr(known[1], name)).append(row)
    for _, view in found.values():
        for members in (view.events, view.tool_calls, *view.facts.values()):
            members.sort(key=_order)
    return [(machine, policies, view) for (machine, _, _), (policies, view) in sorted(found.items())]


def _order(row: Any) -> tuple[bool, str, int, int]:
    number = getattr(row, "seq", getattr(row, "number", 0))
    return row.thread_id != row.session_id, row.thread_id or "", number or 0, getattr(row, "place", 0) or 0


def _arrow(member: str, month: str, machines: list[str], rows: list[tuple[Any, ...]]) -> pa.Table:
    import pyarrow as pa

    from ctx_pipeline.storage.team_tables.delta import utc

    plain = utc(arrow_table(READINGS, columns_of(READINGS, rows)))
    place = {"member": [member] * len(rows), "machine": machines, "month": [month] * len(rows), "shared": ["facts"] * len(rows)}
    return pa.table({**{k: pa.array(v, pa.string()) for k, v in place.items()}, **{n: plain.column(n) for n in plain.column_names}})
