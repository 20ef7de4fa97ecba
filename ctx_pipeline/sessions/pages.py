"""Sessions a page at a time: the newest ones, and the events of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownName, UsageError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.sessions.session_details import resolve
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.resuming import resuming

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ctx_pipeline.settings import Settings

KINDS = ("prompt", "answer", "reasoning", "tool_call", "tool_result", "error", "todo", "compaction", "injected", "title")
"""Event kinds that hold a text."""

READ = frozenset({"prompt", "answer", "tool_call", "tool_result", "error", "todo", "compaction"})
"""Kinds that are read when none is named."""


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One captured session in a list."""

    host: str
    session_id: str
    title: str | None
    project: str | None
    began: str | None
    events: int
    resume: str


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event of a session; ``cut`` is how many characters of its text were left out."""

    event_id: str
    thread_id: str
    ts: str | None
    kind: str
    tool: str | None
    text: str
    cut: int


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some events of a session in order; ``after`` of the last one continues, None at the end."""

    host: str
    session_id: str
    title: str | None
    project: str | None
    events: list[EventLine]
    after: str | None
    total: int
    """events of the kinds that were asked for, in the whole session"""


def newest(
    *, host: str | None = None, project: str | None = None, limit: int = 20, offset: int = 0, settings: Settings | None = None
) -> tuple[list[SessionLine], int]:
    """Return captured sessions, the newest first, and how many there are; ``project`` is part of a project's name or path.

    Raises UnknownName for an unknown host, StoreError when nothing was captured yet.
    """
    key = discovery.host(host).key if host else None
    with reading(settings) as (store, _):
        wanted = (project or "").lower()
        rows = [r for r in store.ledger.sessions(host=key) if wanted in str(r.rows.get("project") or "").lower()]
        rows.sort(key=lambda r: (r.first_own_ts or 0, r.session_id), reverse=True)
        lines = [
            SessionLine(
                r.host,
                r.session_id,
                r.rows.get("title"),
                r.rows.get("project"),
                iso(r.first_own_ts),
                int(r.rows.get("events") or 0),
                resuming(store, r.host, r.session_id, r.rows.get("cwd")),
            )
            for r in rows[offset : offset + limit]
        ]
    return lines, len(rows)


def events(
    host: str,
    session_id: str,
    *,
    after: str | None = None,
    kinds: Collection[str] | None = None,
    limit: int = 50,
    longest: int = 4_000,
    budget: int = 20_000,
    settings: Settings | None = None,
) -> SessionPage:
    """Return the events of a session that follow the event ``after``, at most ``limit`` and about ``budget`` characters of text.

    A text is cut at ``longest`` characters. Event ids stay the same when the session
    grows, so a reader can go on later. Raises UnknownName for a session that is not there
    and UsageError for an ``after`` that is no event of it.
    """
    wanted = READ if not kinds else frozenset(kinds)
    unknown = wanted.difference(KINDS)
    if unknown:
        raise UsageError(f"{', '.join(sorted(unknown))}: no such kind of event", hint=f"use some of {', '.join(KINDS)}")
    with reading(settings) as (store, _):
        key, full = resolve(store, host, session_id)
        row = store.ledger.session(key, full)
        views = list(store.lake.read_sessions(row.partition, [full], ("events", "tool_calls"))) if row is not None else []
    if not views:
        raise UnknownName(f"{key} session", full, ())
    view = views[0]
    tools = {t.call_event: t.tool for t in view.tool_calls}
    left = view.events if after is None else _following(view.events, after)
    chosen = [e for e in left if e.kind in wanted and (e.text or "").strip()]
    page: list[EventLine] = []
    used = 0
    for event in chosen[:limit]:
        text = event.text[:longest]
        if page and used + len(text) > budget:
            break
        used += len(text)
        page.append(
            EventLine(
                event.event_id, event.thread_id, iso(event.ts), event.kind, tools.get(event.event_id), text, len(event.text) - len(text)
            )
        )
    total = sum(e.kind in wanted and bool((e.text or "").strip()) for e in view.events)
    more = len(page) < len(chosen)
    return SessionPage(key, full, view.session.title, view.session.project, page, page[-1].event_id if more else None, total)


def _following(events: Iterable[Any], after: str) -> list[Any]:
    listed = list(events)
    for number, event in enumerate(listed):
        if event.event_id == after:
            return listed[number + 1 :]
    raise UsageError(f"{after!r} is not an event of this session", hint="use the cursor of the page before, or none to begin at the start")
