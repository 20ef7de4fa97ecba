"""Panel: what was recorded by an agent and is not here, or not understood, and why."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.dashboard.figures import day, plural
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.dashboard.data import HostLine, Missing, PageData, SessionLine

MOST = 60


class Line(NamedTuple):
    """One row: whose, where, what and why; ``session`` is the key of a session to open."""

    host: HostLine | None
    host_key: str
    project: str
    session: str
    label: str
    what: str
    reason: str


def lines(data: PageData) -> Iterator[Line]:
    """Yield what is missing, what cannot be got back first."""
    sessions = {(s.host, s.session_id): s for s in data.sessions}
    unread: dict[tuple[str, str], list[Missing]] = {}
    for m in sorted(data.missing, key=lambda m: (m.first, m.host, m.session_id, m.reason)):
        if m.kind == "gap":
            yield _line(data, m.host, f"{plural(m.number, 'session')}, {_span(m.first, m.last)}", m.reason)
        else:
            unread.setdefault((m.host, m.session_id), []).append(m)
    for (host, session_id), found in unread.items():
        reasons = "; ".join(dict.fromkeys(_plainly(m.reason) for m in found))
        records = plural(sum(m.number for m in found), "record")
        yield _line(data, host, records, reasons, session=sessions.get((host, session_id)), session_id=session_id)
    for e in data.expiring:
        reason = f"the agent deletes them after {e.retention_days} days; what is captured stays"
        yield _line(data, e.host, plural(e.files, "transcript"), reason)
    for s in data.sessions:
        if s.unknown:
            yield _line(data, s.host, plural(s.unknown, "record"), "of an unknown kind; kept with their payload", session=s)


def _line(data: PageData, host: str, what: str, reason: str, *, session: SessionLine | None = None, session_id: str = "") -> Line:
    project, key, label = (session.project, session.key, session.label) if session else ("", "", session_id)
    return Line(data.host_titles.get(host), host, project, key, label, what, reason)


_PLAINLY = {
    "not JSON": "no JSON: a line that was cut off, or that something else wrote into",
    "expected an object": "JSON, but not a record",
    "only NUL bytes": "only zero bytes, as a crash leaves them",
}
"""How a reason of the reader begins -> what a person calls it; its own words are in the ledger, and doctor shows them."""


def _plainly(reason: str) -> str:
    return next((plain for begins, plain in _PLAINLY.items() if reason.startswith(begins)), reason)


def _span(first: str, last: str) -> str:
    try:
        since, until = (day(datetime.fromisoformat(text)) for text in (first, last))
    except ValueError:  # a host said no day
        since, until = first, last
    return since if since == until else f"{since} to {until}"


@panel(title="Missing", order=90, page="Missing records")
def build(data: PageData) -> str:
    """What agents deleted before it was captured, what could not be read, and what is about to go."""
    found = list(lines(data))
    return template("missing.html", lines=found[:MOST], more=len(found) - MOST)
