"""Judges what became of memories in the sessions that were told them, and writes the rewards into the journal."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import CtxError
from ctx_pipeline.memory.consolidation import REWARDED
from ctx_pipeline.memory.session_facts import MEASURED, judge
from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline.plan import RULES, USED, WHOLE, input_of
from ctx_pipeline.pipeline.reports import DONE, UNCHANGED, CellReport, StageReport
from ctx_pipeline.pipeline.session_errors import SessionErrors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ctx_pipeline.model.memories import Memory, StoredCandidate
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.journal import Journal

CODE_VERSION = "1"
ASSET = USED.key
INJECTED = "hook.injected"
SEEN = "uses.json"
"""What each session was judged by; without it all is judged anew, to the same end."""

Session = tuple[str, str]


class Injected(NamedTuple):
    """A memory that reached a session, or was withheld from it: the first time, in microseconds, and how."""

    at: int
    event: str
    withheld: bool
    holdout: float
    reached: int | None
    """when it first was in the session's window; None where it was withheld every time"""


def score_lesson_use(store: Store, settings: Settings, *, force: bool = False) -> StageReport:
    """Reward the memories that sessions were told, by what these sessions show since; nothing is read where none was told.

    A session that did not change is not judged again, and one that grew gets a new reward
    only where the outcome or its evidence is another: of a memory's rewards in one session
    the last counts. Totals: sessions judged, and rewards written.
    """
    began = time.perf_counter()
    counts: dict[str, int] = {}
    with store.ledger.lease(ASSET):
        made_of, version = input_of(store, settings, ASSET), code_versions.of_stage(ASSET)
        row = store.ledger.asset_cell(ASSET, WHOLE)
        if not force and row is not None and row.input_fp == made_of and row.code_version == version:
            status, content = UNCHANGED, row.content_hash
        else:
            told = {key: known for key, all_ in tellings(store).items() if (known := _reached(all_))}
            seen = {} if force or (row is not None and row.code_version != version) else _seen(store)
            errors = SessionErrors()
            counts = _judge(store, told, seen, errors) if told else {}
            errors.keep(store, ASSET)
            store.files.write(SEEN, json.dumps(seen, sort_keys=True).encode())
            rewards = measured(store.journal) if told else {}
            content = digest(sorted((*key, str(payload.get("outcome"))) for key, payload in rewards.items()))
            store.ledger.record_asset(ASSET, WHOLE, input_fp=made_of, code_version=version, content_hash=content, rows=len(rewards))
            status = DONE
    seconds = time.perf_counter() - began
    return StageReport("score_lesson_use", {"": CellReport(status, counts, content, seconds)}, counts, seconds)


def tellings(store: Store) -> dict[Session, dict[str, Injected]]:
    """Return (host, session) -> memory -> when it was first told or withheld; where no host was told it is the one with that session.

    A memory that was withheld and then looked up by the agent itself reached the session all the same.
    """
    found: dict[Session, dict[str, Injected]] = {}
    for fact in store.journal.facts(INJECTED) if store.journal.is_there() else ():
        payload = fact.payload
        memories = payload.get("memories")
        key = (str(payload.get("host")), str(payload.get("session_id")))
        if not isinstance(memories, list):
            continue
        at, withheld = _moment(fact.at), bool(payload.get("withheld"))
        how = Injected(at, str(payload.get("event")), withheld, float(payload.get("holdout") or 0.0), None if withheld else at)
        for memory in memories:
            if isinstance(memory, dict) and memory.get("memory_id"):
                _add(found.setdefault(key, {}), str(memory["memory_id"]), how)
    nameless = {session for host, session in found if not host}
    for cell, manifest in store.lake.manifests("normalized").items() if nameless else ():
        for session in nameless & {s for part in manifest.of_table("sessions") for s in part.live}:
            for memory_id, how in found.get(("", session), {}).items():
                _add(found.setdefault((cell.host, session), {}), memory_id, how)
    return {key: known for key, known in found.items() if key[0]}


def _add(known: dict[str, Injected], memory_id: str, how: Injected) -> None:
    before = known.setdefault(memory_id, how)
    if before.reached is None:
        known[memory_id] = before._replace(reached=how.reached)


def measured(journal: Journal) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """Return (host, session, memory) -> the last measured reward."""
    return {
        (str(f.payload.get("host")), str(f.payload.get("session_id")), str(f.payload.get("memory_id"))): f.payload
        for f in (journal.facts(REWARDED) if journal.is_there() else ())
        if f.payload.get("source") == MEASURED
    }


def cells_of(store: Store, sessions: Collection[Session]) -> dict[Cell, set[str]]:
    """Return cell -> ids of those of the sessions that lie in it."""
    found: dict[Cell, set[str]] = {}
    for cell, manifest in store.lake.manifests("normalized").items():
        here = {s for part in manifest.of_table("sessions") for s in part.live if (cell.host, s) in sessions}
        if here:
            found[cell] = here
    return found


def rules_of(store: Store, cell: Cell, sessions: Collection[str]) -> dict[str, list[StoredCandidate]]:
    """Return session -> the rules that the person typed in it."""
    from ctx_pipeline.model.memories import StoredCandidate

    found: dict[str, list[StoredCandidate]] = {}
    for row in store.lake.read_rows("candidates", cell, RULES):
        if row.session_id in sessions:
            found.setdefault(row.session_id, []).append(StoredCandidate._make(row))
    return found


def _reached(known: Mapping[str, Injected]) -> dict[str, int]:
    return {memory: told.reached for memory, told in known.items() if told.reached is not None}


def _judge(store: Store, told: Mapping[Session, Mapping[str, int]], seen: dict[str, str], errors: SessionErrors) -> dict[str, int]:
    from ctx_pipeline.pipeline.lessons.session_timeline import timeline

    before = measured(store.journal)
    rewards: list[dict[str, Any]] = []
    judged = 0
    for view, rules, memories in _changed(store, told, seen):
        judged += 1
        key = (view.host, view.session_id)
        state = seen.pop(_named(*key))
        uses: dict[str, Any] = {}
        with errors.of(*key):
            lived = timeline(view, rules)
            uses = {memory_id: judge(memories[memory_id], lived, at) for memory_id, at in told[key].items() if memory_id in memories}
            seen[_named(*key)] = state  # one that raised is judged again
        for memory_id, use in uses.items():
            if use is None:
                continue
            payload = {
                "memory_id": memory_id,
                "host": key[0],
                "session_id": key[1],
                "reward": use.reward,
                "outcome": use.outcome,
                "evidence": use.evidence,
                "source": MEASURED,
            }
            if before.get((*key, memory_id)) != payload:
                rewards.append(payload)
    rewards.sort(key=lambda r: (r["host"], r["session_id"], r["memory_id"]))
    store.journal.append_all(REWARDED, rewards)
    return {"sessions": judged, "rewards": len(rewards)}


def _changed(
    store: Store, told: Mapping[Session, Mapping[str, int]], seen: dict[str, str]
) -> Iterator[tuple[SessionView, Sequence[StoredCandidate], dict[str, Memory]]]:
    """Yield the sessions that are not as they were judged, with rules and the told memories that the index holds; note them as seen."""
    from ctx_pipeline.pipeline.lessons.session_timeline import views

    for cell, sessions in cells_of(store, told.keys()).items():
        rules = rules_of(store, cell, sessions)
        known = {m.memory_id: m for m in store.memories.get(sorted({m for s in sessions for m in told[cell.host, s]}))}
        states = {
            v.session_id: digest(
                v.session.content_hash, sorted(told[cell.host, v.session_id].keys() & known.keys()), _rules_with_times(rules, v.session_id)
            )
            for v in store.lake.read_sessions(cell, sessions, ())
        }
        due = {s for s, state in states.items() if seen.get(_named(cell.host, s)) != state}
        seen |= {_named(cell.host, s): states[s] for s in due}
        for view in views(store, cell, due) if known and due else ():
            yield view, rules.get(view.session_id, ()), known


def _rules_with_times(rules: Mapping[str, Sequence[StoredCandidate]], session_id: str) -> list[tuple[str, int]]:
    return sorted((rule.subject, rule.ts or 0) for rule in rules.get(session_id, ()))


def _named(host: str, session_id: str) -> str:
    """Return the name of a session in the cache, which outlives a session that is forgotten."""
    return digest("judged", host, session_id)


def _seen(store: Store) -> dict[str, str]:
    try:
        kept = json.loads(store.files.read(SEEN))
    except (OSError, ValueError, CtxError):
        return {}
    return {str(k): str(v) for k, v in kept.items()} if isinstance(kept, dict) else {}


def _moment(at: str) -> int:
    """Return a time of the journal in microseconds since 1970."""
    return int(datetime.fromisoformat(at).timestamp() * 1_000_000)
