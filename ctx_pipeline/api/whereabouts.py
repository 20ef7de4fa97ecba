"""Usage by where the work was done: on which git branch of which repository, and in which home of a host."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_module
from ctx_pipeline.api.tally import moment, tally
from ctx_pipeline.api.usage import Filters, Usage, calls, chosen_filters, has_store, total
from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.api.live import Counted
    from ctx_pipeline.settings import Settings

NONE = {"branch": "(no branch)", "home": "(no home)"}
"""grouping -> name of the sessions of which nothing of the kind is known"""

Names = dict[tuple[str, str], str]
"""(host, session) -> its branch or home"""


def usage_where(
    by: str,
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
    cost_mode: str | None = None,
    stored: bool = False,
    settings: Settings | None = None,
) -> Usage:
    """Return usage by branch or home, each call counted once; a session stands where it began.

    Rows of a branch carry ``repository`` last, for many have a branch of that name. A
    session that lies in two homes stands in the one that comes first by name. Takes the
    same filters and sources as :func:`ctx_pipeline.api.usage.usage`. Raises UsageError
    for an unknown grouping.
    """
    if by not in NONE:
        raise UsageError(f"usage by {by!r} is not known", hint=f"use one of {', '.join(NONE)}")
    chosen = settings or settings_module.load()
    filters = chosen_filters(
        chosen, since=since, until=until, timezone=timezone, host=host, project=project, model=model, cost_mode=cost_mode
    )
    fresh: Names = {}
    clean = _cleaner(chosen)

    def seen(counted: Counted) -> None:
        if counted.parsed is not None and counted.parsed.facts.branch:
            fresh[counted.host, counted.session_id] = clean(counted.parsed.facts.branch)

    found = calls(chosen, host=host, stored=stored, seen=seen if by == "branch" else None)
    names = _homes(chosen, host, stored=stored) if by == "home" else _branches(chosen, fresh, stored=found.source != "homes")
    told = [(c, held) for c, held in found.owned if project in {None, c.project, c.repository}]
    rows = _tally(told, names, by, filters)
    lost = [(c, held) for c, held in told if (c.host, c.session_id) in found.gone]
    gone = total(_tally(lost, names, by, filters)) if lost else None
    unread = sum(c.unread for c, _ in found.owned)
    return Usage(by, filters.timezone or "local time", rows, total(rows), gone, found.source, filters.cost_mode, unread)


def _tally(told: Iterable[tuple[Counted, list[tuple]]], names: Names, by: str, filters: Filters) -> list[dict[str, Any]]:
    def placed(counted: Counted) -> Counted:
        name = names.get((counted.host, counted.session_id)) or NONE[by]
        return replace(counted, project=name, repository=counted.repository if by == "branch" else "")

    rows = tally(
        ((placed(c), held) for c, held in told),
        "project",
        since=moment(filters.since, filters.timezone),
        until=moment(filters.until, filters.timezone, after=True),
        zone=filters.timezone,
        model=filters.model,
        cost_mode=filters.cost_mode,
    )
    for row in rows:
        if by != "branch":
            del row["repository"]
    return [{by: row.pop("project"), **row} for row in rows]


def _branches(settings: Settings, fresh: Names, *, stored: bool) -> Names:
    """Return the branch of every session, of those that were read live as their files say."""
    if not stored:
        return fresh
    from ctx_pipeline.api.reader import reading
    from ctx_pipeline.storage.usage_sql import BRANCHES_SQL

    with reading(settings) as (store, _), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        return {(host, session): branch for host, session, branch in connection.execute(BRANCHES_SQL).fetchall()} | fresh


def _homes(settings: Settings, host: str | None, *, stored: bool) -> Names:
    """Return the root of every session: of captured ones as the ledger knows it, of others as they lie now."""
    from ctx_pipeline.api import live

    found: Names = {}

    def add(key: tuple[str, str], root: str) -> None:
        found[key] = min(found.get(key, root), root)

    if not stored:
        for session in live.sessions(live.sources(settings, host=host), settings):
            for source, _ in session.sources:
                add((session.host, session.session_id), source.root)
    if stored or has_store(settings):
        from ctx_pipeline.api.reader import reading

        with reading(settings) as (store, _):
            for captured in store.ledger.sources().values():
                if captured.session_id:
                    add((captured.host, captured.session_id), captured.root)
    return found


def _cleaner(settings: Settings) -> Any:
    from ctx_pipeline.redaction import Redactor

    return Redactor(settings.patterns).redact
