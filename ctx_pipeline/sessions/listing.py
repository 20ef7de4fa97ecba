"""Sessions of every agent, each with its task, calls, tokens and cost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.context.session_state.state import from_json
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.tables import EVENTS, TOOL_CALLS
from ctx_pipeline.sessions.session_choice import here as working_folder
from ctx_pipeline.sessions.session_choice import imported, imported_in_place, in_place, lines
from ctx_pipeline.sessions.states.state_fold import current_task_of
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.resuming import resuming
from ctx_pipeline.storage.session_notes import noted, notes_of
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.session_figures import Figure, figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.session_state.state import SessionState
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.sessions.session_choice import Line
    from ctx_pipeline.settings import Settings


def listed(
    *,
    host: str | None = None,
    project: str | None = None,
    here: bool = False,
    limit: int = 10,
    for_model: bool = False,
    settings: Settings,
) -> tuple[list[dict[str, Any]], int]:
    """Return captured and imported sessions, the last active first, and how many there are.

    ``task`` is what somebody said last, else the session's own (as :func:`session_state`
    tells it); ``notes`` counts what was said;
    ``tokens`` are all that its model calls billed (``cost_nano`` nano-dollars; None where
    no call has a price). ``for_model`` leaves out tasks that read like an order to an agent.
    """
    key = discovery.host(host).key if host else None
    wanted = (project or "").lower()
    with reading(settings) as (store, _):
        known = {(r.host, r.session_id): r for r in store.ledger.sessions(host=key)}
        placed = in_place(store, working_folder()) if here else lines(store, key)
        placed = [p for p in placed if (p.host, p.session_id) in known]
        if wanted:
            placed = [p for p in placed if wanted in f"{known[p.host, p.session_id].rows.get('project')}\n{p.cwd}\n{p.repository}".lower()]
        brought = {(line.host, line.session_id): state for line, _, state in imported(store)}
        there = imported_in_place(store, working_folder()) if here else [line for line, _, _ in imported(store)]
        placed += [
            p
            for p in there
            if key in (None, p.host) and wanted in f"{p.project}\n{brought[p.host, p.session_id].get('repository')}".lower()
        ]
        placed.sort(key=lambda p: (-p.last, p.host, p.session_id))
        known_notes = noted(store)
        chosen = placed[:limit]
        asked = {(p.host, p.session_id) for p in chosen}
        tasks = {key: values[0] for key, values in figures(store, settings, TASK, only=asked.__contains__)}
        cwds = {place: known[place].rows.get("cwd") for place in asked if place in known}
        commands = {place: resuming(store, *place, cwd) for place, cwd in cwds.items()}
        notes = {(p.host, p.session_id): notes_of(store, p.host, p.session_id) for p in chosen if known_notes.has(p.host, p.session_id)}
    totals = usage("session", host=key, stored=True, settings=settings).by_session()
    rows = []
    for p in chosen:
        if not p.captured:
            rows.append(_brought(p, from_json(brought[p.host, p.session_id]), notes.get((p.host, p.session_id), []), for_model=for_model))
            continue
        facts = known[p.host, p.session_id].rows
        spent = totals.get((p.host, p.session_id), Counter())
        said = notes.get((p.host, p.session_id), [])
        by_person = next((n.text for n in reversed(said) if n.what == "task"), None)
        own = tasks.get((p.host, p.session_id))
        told = by_person or own
        rows.append(
            {
                "host": p.host,
                "session_id": p.session_id,
                "project": facts.get("project"),
                "task": None if for_model and scan([told]) else told,
                "said": by_person is not None,
                "last": iso(p.last) if p.last else None,
                "tool_calls": int(facts.get("tool_calls") or 0),
                "model_calls": spent["calls"],
                "tokens": spent["tokens"],
                "cost_nano": None if spent["calls"] and spent["unpriced_calls"] == spent["calls"] else spent["cost_nano"],
                "notes": len(said),
                "resume": commands[p.host, p.session_id],
                "imported": False,
            }
        )
    return rows, len(placed)


def _brought(line: Line, state: SessionState, notes: Sequence[Any], *, for_model: bool) -> dict[str, Any]:
    """Return the row of a session of which an imported bundle alone tells: of its cost nothing is known."""
    by_person = next((n.text for n in reversed(notes) if n.what == "task"), None)
    own = state.current_task
    told = by_person or (own.text if own else None)
    return {
        "host": line.host,
        "session_id": line.session_id,
        "project": state.project,
        "task": None if for_model and scan([told]) else told,
        "said": by_person is not None,
        "last": state.as_of,
        "tool_calls": state.stats.get("tool_calls", 0),
        "model_calls": state.stats.get("model_calls", 0),
        "tokens": state.stats.get("prompt_tokens", 0) + state.stats.get("output_tokens", 0),
        "cost_nano": None,
        "notes": len(notes),
        "resume": "",
        "imported": True,
    }


def _task(view: SessionView, _settings: Settings) -> dict[int | None, str | None]:
    """Return the task that a session is at."""
    found = current_task_of(view) if view.events else None
    return {None: found.text if found else None}


TASK = Figure(
    "task", 5, _task, lambda values: next(iter(values), None), {"events": EVENTS.names, "tool_calls": TOOL_CALLS.names}, timeless=True
)
