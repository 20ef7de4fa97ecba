"""What signals ask outside the tables: asked once, kept in the journal, replayed on every rebuild."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.declared import Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.model.declared import Outside, Signal
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store

JUDGED = "judge:"
"""Beginning of the name of a judge's answer in ``view.seen``, before the signal's name."""


def observed(
    store: Store, missing: Mapping[str, Sequence[Signal]], rows: Mapping[str, Any], *, refresh: bool = False
) -> dict[str, dict[str, Any]]:
    """Return session id -> name -> what was seen, for the signals that each session lacks.

    What nobody has looked at yet is asked now, a whole cell at once; ``refresh`` asks
    again, and an answer that only says why there is none (``reason``) does not replace
    one that was seen. A judge is never asked here: only what it has answered is replayed.
    """
    outside: dict[str, Outside] = {}
    asked: dict[str, list[str]] = {}
    judged: dict[str, tuple[str, str]] = {}
    for session, signals in missing.items():
        for name, found in {s.outside.name: s.outside for s in signals if s.outside}.items():
            outside[name] = found
            asked.setdefault(name, []).append(session)
        judged |= {judge_key(s, rows[session]): (session, s.name) for s in signals if s.judge}
    seen: dict[str, dict[str, Any]] = {}
    for name, what in outside.items():
        sessions = {what.key(rows[session]): rows[session] for session in asked[name]}
        before = store.journal.observed(sessions) if refresh else {}
        answers = store.journal.observe_all(sessions, partial(_ask, what, before), refresh=refresh)
        for key, row in sessions.items():
            seen.setdefault(row.session_id, {})[name] = answers[key]
    for key, answer in store.journal.observed(judged).items():
        session, signal = judged[key]
        seen.setdefault(session, {})[f"{JUDGED}{signal}"] = answer
    return seen


def _ask(what: Outside, before: Mapping[str, Mapping[str, Any]], sessions: Sequence[Any]) -> Iterable[Mapping[str, Any]]:
    """Yield an answer for each session; one that is now out of sight keeps what was seen of it ``before``."""
    for session, answer in zip(sessions, what.ask(sessions), strict=True):
        known = before.get(what.key(session))
        yield known if known and answer.get("reason") and not known.get("reason") else answer


def judge_key(signal: Signal, session: Any) -> str:
    """Return the key of a judge's answer: another version of the question, or more events, are another question."""
    return f"{JUDGED}{signal.name}:{digest(signal.version, session.host, session.session_id, session.content_hash)}"


def by_query(store: Store, cell: Cell, signals: Iterable[Signal]) -> dict[str, dict[str, Reading] | Reading]:
    """Return signal name -> session id -> reading of the signals that are SQL; one reading for all where the query failed."""
    from ctx_pipeline.errors import ContractError
    from ctx_pipeline.storage.lake.signal_queries import readings_of

    found: dict[str, dict[str, Reading] | Reading] = {}
    for s in signals:
        if s.sql:
            try:
                rows = readings_of(store.lake, cell, s.sql, s.reads)
            except ContractError as error:
                found[s.name] = Reading(None, reason=error.message, confidence=0.0)
            else:
                found[s.name] = {session: _reading(s, row) for session, row in rows.items()}
    return found


def _reading(signal: Signal, row: Mapping[str, Any]) -> Reading:
    value, evidence = row["value"], row.get("evidence") or ()
    if value is not None and signal.kind in {"numeric", "boolean"}:
        try:
            value = float(value)
        except (TypeError, ValueError):
            return Reading(None, reason="the query gives no number", confidence=0.0)
    return Reading(
        value if value is None or isinstance(value, float) else str(value),
        (str(evidence),) if isinstance(evidence, str) else tuple(str(e) for e in evidence if e is not None),
        None if row.get("reason") is None else str(row["reason"]),
        1.0 if row.get("confidence") is None else float(row["confidence"]),
    )
