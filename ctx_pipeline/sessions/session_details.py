"""What the store knows of one session."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.sessions.naming import find_session
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.resuming import resuming

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


def load_settings() -> Settings:
    """Return the settings in force: environment, then ``$CTX_HOME/config.toml``."""
    return settings_module.load()


def resolve(store: Store, host: str | None, session_id: str, *, projects: bool = True) -> tuple[str, str]:
    """Return the host key and the full id of the session of a name (:func:`.naming.find_session`); no host or ``*`` is any."""
    return find_session(store, session_id, None if host in {None, "", "*"} else host, projects=projects)


def view_of(store: Store, host: str, session_id: str, tables: tuple[str, ...]) -> Any:
    """Return the rows of a session. Raises UnknownName for one without any event, such as one that was captured and not read yet."""
    row = store.ledger.session(host, session_id)
    views = list(store.lake.read_sessions(row.partition, {session_id}, tables)) if row is not None else []
    if not views or ("events" in tables and not views[0].events):
        raise UnknownName(f"event of {host} session", session_id, ())
    return views[0]


def show(host: str, session_id: str, *, settings: Settings | None = None) -> dict[str, Any]:
    """Return everything the tables say of one session, as plain values.

    Keys: session, threads, kinds (event kind -> count), usage (tokens, calls, cost in
    nano-dollars, owner rows only), restamped (first and last time of fifty events and more that
    carry the same one, and how many; else None), readings, unknown (label -> count), quarantined,
    resume, unrecorded_subagents (agents that were started and of which no thread is there, and the
    tokens that their answers tell), counted_elsewhere (calls that are copies, and the sessions that they
    count for). Raises UnknownName.
    """
    from ctx_pipeline.facts.started_agents import AGENTS, Unrecorded, unrecorded_agents
    from ctx_pipeline.storage.warehouse.session_queries import session_detail

    with reading(settings) as (store, chosen):
        key, full = resolve(store, host, session_id)
        detail = session_detail(store.lake, key, full, cost_mode=chosen.cost_mode)
        if detail is None:
            raise UnknownName(f"{key} session", full, ())
        alone = detail["session"]["tool_calls"] and not any(thread["kind"] in AGENTS for thread in detail["threads"])
        agents = unrecorded_agents(view_of(store, key, full, ("events", "tool_calls", "threads"))) if alone else Unrecorded(0)
        unknown = store.ledger.unknowns(key, full)
        quarantined = [r._asdict() for r in store.ledger.quarantined(key, full)]
        row = store.ledger.session(key, full)
        session = detail["session"]
        resume = resuming(store, key, full, session.get("cwd"))
        copies = [owner.session_id for (of, _), owner in store.ledger.copies(row.partition).items() if of == full] if row else []
    for row in (session, *detail["threads"], *filter(None, [detail["restamped"]])):
        _times(row)
    for row in detail["readings"] if agents.agents else ():
        if row["signal"].startswith("subagent_") and not row["value"]:
            row["reason"] = "no record of a subagent is in the history"
    elsewhere = {"calls": len(copies), "sessions": sorted(set(copies))}
    told = {"unrecorded_subagents": agents._asdict(), "counted_elsewhere": elsewhere}
    return {**detail, "unknown": unknown, "quarantined": quarantined, "resume": resume, **told}


def turns(host: str, session_id: str, *, settings: Settings | None = None) -> list[dict[str, Any]]:
    """Return how each turn of a session ended, as plain values, in the order of its threads.

    Keys: thread_id, prompt and answer (event_id, ts, text, a command as it was typed,
    and whether it is one; answer is None for a turn without a final one), ended
    (answered, interrupted, failed or open), interruption and compactions (event ids),
    tool_calls, tools (tool -> its calls), changed (files, by their paths below the
    session's folder), checks (the last run of each that the turn ended with: program, result).
    Raises UnknownName.
    """
    from ctx_pipeline.facts.check_runs import check_runs
    from ctx_pipeline.facts.file_accesses import changes_of, inside
    from ctx_pipeline.facts.prompts import command_in, plan_in
    from ctx_pipeline.facts.turns import turns as turns_of
    from ctx_pipeline.mining.lessons.commands import shown
    from ctx_pipeline.model.codec import iso

    def event_summary(event: Any) -> dict[str, Any] | None:
        if event is None:
            return None
        command = command_in(event) or plan_in(event)
        return {"event_id": event.event_id, "ts": iso(event.ts), "text": command or event.text or "", "command": bool(command)}

    with reading(settings) as (store, _):
        view = view_of(store, *resolve(store, host, session_id), ("events", "tool_calls", "threads"))
    changed: dict[str, list[str]] = {}
    for access in changes_of(view):
        changed.setdefault(access.call_event, []).append(inside(access.path, view.session.cwd))
    checked: dict[str, list[Any]] = {}
    for check in check_runs(view):
        checked.setdefault(check.call_event, []).append(check)

    def work_of(turn: Any) -> dict[str, Any]:
        calls = [call.call_event for call in turn.calls]
        last: dict[str, str] = {}
        for check in (check for event in calls for check in checked.get(event, ())):
            if check.program and check.ran is not False:
                program = shown(check.program, view.session.cwd)
                last.pop(program, None)  # the last run tells, and stands where it ran
                last[program] = check.result
        return {
            "tools": dict(Counter(call.tool for call in turn.calls).most_common()),
            "changed": list(dict.fromkeys(path for event in calls for path in changed.get(event, ()))),
            "checks": [{"program": program, "result": result} for program, result in last.items()],
        }

    return [
        {
            "thread_id": turn.thread_id,
            "ended": turn.ended,
            "tool_calls": turn.tool_calls,
            **work_of(turn),
            "prompt": event_summary(turn.prompt),
            "answer": event_summary(turn.answer),
            "interruption": None if turn.interruption is None else turn.interruption.event_id,
            "compactions": [e.event_id for e in turn.compactions],
        }
        for turn in view.once(turns_of)
        if turn.prompt is not None
    ]


def _times(row: dict[str, Any]) -> None:
    """Turn a row's times into ISO 8601 text."""
    for name in ("first_ts", "last_ts"):
        value = row.get(name)
        if value is not None:
            row[name] = value.isoformat(timespec="milliseconds") + "Z"
