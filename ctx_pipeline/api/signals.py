"""Readings of the signals: of one session, and added up over sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.api.reader import reading
from ctx_pipeline.api.sessions import resolve

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings


def catalogue(group: str | None = None) -> list[dict[str, Any]]:
    """Return every signal: name, family, group, kind, unit, better, method, version, what it is and how to read it."""
    rows = []
    for s in discovery.signals().values():
        if group and s.group != group:
            continue
        what, _, how = s.describe.partition("\n\n")
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
                "what": " ".join(what.split()),
                "how_to_read": " ".join(how.split()),
            }
        )
    return rows


def show(host: str, session_id: str, *, settings: Settings | None = None) -> dict[str, Any]:
    """Return the readings of one session with the events they rest on, quoted (400 characters each).

    Raises UnknownName for a session that is not in the store.
    """
    from ctx_pipeline.storage.details import session_readings

    with reading(settings) as (store, _):
        key, full = resolve(store, host, session_id)
        readings, quoted = session_readings(store.lake, key, full)
    for r in readings:
        r["evidence"] = [{"event_id": event, "text": quoted.get(event, "")} for event in r["evidence"]]
    return {"host": key, "session_id": full, "readings": readings}
