"""Lessons that the team accepted come to this machine as notes of the journal, checked once more; a member may refuse each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.errors import StoreError
from ctx_pipeline.memory.consolidation import AUTHORED
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.model.memories import KINDS, TEAM, TEAM_ID, Memory
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.redaction.redactor import Redactor
from ctx_pipeline.shell.command_risk import reason
from ctx_pipeline.team.membership import PROTOCOL, demand, demand_agreement
from ctx_pipeline.team.published_tables import TEAM_LESSONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

ACTOR = "team"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MEMBER = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?:/[A-Za-z0-9._~+-]+){1,8}")
_LONGEST = 2_000
_REJECTED = "rejected on this machine"
_MOST = 10_000
"""Lessons that are read of a team; a list that is longer was written by somebody else."""


@dataclass
class Pulled:
    """What one pull did."""

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    """ids that the team no longer accepts"""
    refused: dict[str, str] = field(default_factory=dict)
    """id -> what a check of this machine found, or that the person refused it"""
    held: int = 0
    """lessons of the team that this machine has now"""

    @property
    def changes(self) -> int:
        """Facts that the journal got."""
        return len(self.new) + len(self.changed) + len(self.retired)


def pull(store: Store, settings: Settings) -> Pulled:
    """Write a note for each lesson of the team that is new or changed, retire those that it took back, and return what was done.

    A lesson is a text that an agent may be told, never a command that is run. Each is
    checked here as if the hub had not: its form, injected orders, secrets, dangerous
    commands. What the person rejected stays rejected, and is told to the team with the
    next publish. Raises UsageError without a team, StoreError where the bucket cannot be read.
    """
    member = demand(settings)
    bucket = member.bucket()
    demand_agreement(bucket)
    done = Pulled()
    before = {str(f.payload["memory_id"]): f.payload for f in store.journal.facts(AUTHORED) if f.actor == ACTOR}
    memories = [Memory._make(row) for row in store.lake.read_rows("memories", WHOLE, "memory/consolidated")]
    judged = {m.memory_id: m.status for m in memories}
    unwanted = {(m.text, m.repository) for m in memories if m.status == "rejected"}
    redactor = Redactor(settings.patterns)
    facts: list[dict[str, Any]] = []
    seen = set()
    told: set[tuple[Any, Any]] = set()
    for row in _listed(bucket.read(TEAM_LESSONS) if member.pull else b""):
        memory_id = f"{TEAM_ID}{row.get('memory_id')}"
        if not _ID.fullmatch(memory_id) or memory_id in seen:
            continue
        seen.add(memory_id)
        payload, why = _checked(row, memory_id, redactor)
        words = (payload.get("text"), payload.get("repository"))
        if not why and words in unwanted:
            why = _REJECTED
        if not why and words in told:
            why = "says what another lesson of the team says"
        if judged.get(memory_id.removeprefix(TEAM_ID)) in {"rejected", "retired"}:  # the same lesson, drawn here
            why = _REJECTED
        if judged.get(memory_id) == "rejected":
            done.refused[memory_id] = _REJECTED
            continue
        if why:
            done.refused[memory_id] = why
            seen.discard(memory_id)
            continue
        told.add(words)
        done.held += 1
        known = before.get(memory_id)
        back = known is not None and known.get("status") == "retired"
        if back:
            payload["status"] = "accepted"
        elif known is not None and {k: v for k, v in known.items() if k != "status"} == payload:
            continue
        (done.new if known is None or back else done.changed).append(memory_id)
        facts.append(payload)
    for memory_id, held in before.items():
        if memory_id not in seen and held.get("status") != "retired" and judged.get(memory_id) != "rejected":
            done.retired.append(memory_id)
            facts.append({**held, "status": "retired"})
    store.journal.append_all(AUTHORED, facts, actor=ACTOR)
    return done


def _listed(body: bytes | None) -> Iterator[Mapping[str, Any]]:
    if not body:
        return
    try:
        found = msgspec.json.decode(body)
        lessons = found["lessons"]
        protocol = found["protocol"]
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError) as error:
        raise StoreError("the lessons of the team cannot be read", hint="the hub writes them anew: ctx hub refresh") from error
    if not isinstance(protocol, int) or protocol > PROTOCOL:
        raise StoreError("the lessons of the team were written by a newer version", hint="pip install --upgrade 'ctx-pipeline[team]'")
    yield from (row for row in lessons[:_MOST] if isinstance(row, dict))


def _checked(row: Mapping[str, Any], memory_id: str, redactor: Redactor) -> tuple[dict[str, Any], str]:
    """Return the note of a lesson, and why it is not taken, empty where it is."""
    text, when, where = row.get("text"), row.get("when_to_use"), row.get("repository")
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST or not (when is None or isinstance(when, str)):
        return {}, "has no text that can be told"
    if row.get("kind") not in KINDS:
        return {}, "is an unknown kind"
    placed = row.get("scope") in {"repo", "task"}
    if placed != isinstance(where, str) or (placed and not _REPOSITORY.fullmatch(str(where))):
        return {}, "names no repository that members share"
    found = scan([text, when], lambda words: {name for name, _, _ in redactor.find(words)})
    if found:
        return {}, ", ".join(found)
    if danger := next((told for words in (text, when) if words and (told := reason(str(row["kind"]), words, {}))), ""):
        return {}, danger
    names = row.get("by")
    by = sorted(name for name in names if isinstance(name, str) and _MEMBER.fullmatch(name)) if isinstance(names, list) else []
    payload = {
        "memory_id": memory_id,
        "text": text,
        "when_to_use": when,
        "kind": row["kind"],
        "scope": row.get("scope") if placed else "user",
        "repository": where,
        "risk": row.get("risk"),
        "confidence": row.get("confidence"),
        "priority": row.get("priority"),
        TEAM: by or ["the team"],
    }
    return {name: value for name, value in payload.items() if value is not None}, ""
