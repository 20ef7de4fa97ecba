"""Writes what is said of sessions, for the commands and for agents alike: one way for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.cli.output import saying_why_it_waits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


def act(action: str, *, by: str = "person", **more: Any) -> dict[str, Any]:
    """Note a task, finding, decision or mark, or do one of the other actions; return what was kept or done.

    ``by`` says who does it: person or agent. ``name`` is the session that is meant, if any.
    """
    from ctx_pipeline.cli.homes import for_notes

    settings = for_notes()
    does: Callable[..., dict[str, Any]] = _ACTIONS.get(action, _note)
    with saying_why_it_waits():
        return does(action, settings, by=by, **more)


def _note(
    what: str, settings: Settings, *, by: str, text: str, name: str | None = None, cwd: str | None = None, **more: Any
) -> dict[str, Any]:
    from ctx_pipeline.pipeline.session_notes import note
    from ctx_pipeline.sessions.session_choice import meant

    choice = meant(settings, name, cwd=cwd)
    with _opened(settings) as store:
        return note(store, settings, what, choice[:2], text, by=by, **more)


def _keep(_: str, settings: Settings, *, by: str, kind: str, host: str, session_id: str, content: str, **more: Any) -> dict[str, Any]:
    from ctx_pipeline.pipeline.session_notes import keep
    from ctx_pipeline.storage.store_marker import begun

    with _opened(settings) as store:
        if not begun(settings.home):
            store.ledger.sessions()  # makes it: what was imported can be read before anything was captured
        made = keep(store, settings, kind, (host, session_id), content, by=by, **more)
        return {"artifact_id": made.artifact_id, "at": made.at, "file": str(store.files.local(made.rel)), "bytes": made.bytes}


def _save(_: str, settings: Settings, *, by: str, at_once: bool = False) -> dict[str, Any]:  # noqa: ARG001 - as the others
    """Capture what is new; with ``at_once`` what another process writes is not waited for, and nothing is captured."""
    from ctx_pipeline.pipeline.sync import sync, sync_at_once

    with _opened(settings) as store:
        reports = sync_at_once(store, settings) if at_once else sync(store, settings)
    if reports is None:
        return {"sessions_parsed": 0, "held": {}, "left_out": "another process writes the store"}
    held = {key: error for r in reports for key, error in r.failed_partitions.items()}
    return {"sessions_parsed": sum(r.totals.get("sessions_parsed", 0) for r in reports), "held": held}


def _cleanup(_: str, settings: Settings, *, by: str, days: int, really: bool) -> dict[str, Any]:
    from ctx_pipeline.pipeline.session_notes import clean

    with _opened(settings) as store:
        found = clean(store, days=days, really=really, by=by)
    rows = [{"artifact_id": m.artifact_id, "kind": m.kind, "at": m.at, "host": m.host, "session_id": m.session_id} for m in found.artifacts]
    return {"artifacts": rows, "orphans": len(found.orphans), "removed": found.removed}


def _baseline(_: str, settings: Settings, *, by: str) -> dict[str, Any]:
    from ctx_pipeline.sessions.reports.gain import BASELINE, last_baseline

    with _opened(settings) as store:
        store.journal.append(BASELINE, {}, actor=by)
        return {"at": last_baseline(store)}


def _verified(_: str, settings: Settings, *, by: str, figures: dict[str, Any]) -> dict[str, Any]:
    from ctx_pipeline.maintenance.verify import VERIFIED

    with _opened(settings) as store:
        store.journal.append(VERIFIED, figures, actor=by)
    return figures


def _documents(_: str, settings: Settings, *, by: str, paths: list[str]) -> dict[str, Any]:
    from ctx_pipeline.sessions.artifacts import DOCUMENT

    with _opened(settings) as store:
        store.journal.append_all(DOCUMENT, [{"path": path} for path in paths], actor=by)
    return {"documents": len(paths)}


def _remove(_: str, settings: Settings, *, by: str, artifact_id: str, rel: str | None, path: str | None) -> dict[str, Any]:
    from ctx_pipeline.sessions.artifacts import DOCUMENT, indexed
    from ctx_pipeline.storage import session_notes

    with _opened(settings) as store:
        if rel is not None:
            session_notes.remove(store, [rel], by)
        else:
            store.journal.append(DOCUMENT, {"path": path, "removed": True}, actor=by)
    indexed(settings=settings)
    return {"artifact_id": artifact_id}


def _opened(settings: Settings) -> Store:
    from ctx_pipeline.storage import open_store

    return open_store(settings)


def _profile(_: str, settings: Settings, *, by: str, profile: str) -> dict[str, Any]:
    from ctx_pipeline.model.hook_kinds import CHOSEN

    with _opened(settings) as store:
        store.journal.append(CHOSEN, {"name": profile}, actor=by)
    return {"active": profile}


_ACTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "keep": _keep,
    "save": _save,
    "cleanup": _cleanup,
    "baseline": _baseline,
    "verified": _verified,
    "documents": _documents,
    "remove": _remove,
    "profile": _profile,
}
