"""From candidates of many sessions to memories: like ones in one cluster, newer ones over older ones, people's word over all."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.links import links_of, resolve
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.memory.scope import identity
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.memories import KINDS, RISKS, SCOPES, Memory, StoredCandidate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Credentials = Callable[[str], Iterable[str]]

ALIKE = 88
"""rapidfuzz token-sort ratio from which two lessons about one subject are the same lesson."""

RATE = 0.2
"""Share of the way that utility moves towards a reward."""

_SHOWN = 16
_JUDGED = {"memory.accepted": "accepted", "memory.rejected": "rejected", "memory.retired": "retired"}
REWARDED = "memory.rewarded"
AUTHORED = "memory.authored"


class Fact(NamedTuple):
    """What a person or tool said of a memory: kind as in the journal, and its payload."""

    kind: str
    payload: Mapping[str, Any]


@dataclass
class _Cluster:
    members: list[StoredCandidate] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)

    def add(self, candidate: StoredCandidate, form: str) -> None:
        self.members.append(candidate)
        if form not in self.forms:
            self.forms.append(form)


def consolidate(candidates: Iterable[StoredCandidate], facts: Sequence[Fact] = (), credentials: Credentials | None = None) -> list[Memory]:
    """Return the memories of all candidates and of what people wrote, sorted by id.

    The same candidates in any order and the same facts in order give the same memories.
    An id is made of the oldest member of a cluster; a fact that names a younger member's
    id still reaches it.
    """
    memories: dict[str, Memory] = {}
    alias: dict[str, str] = {}
    for cluster in _clusters(candidates):
        memory = _memory(cluster, credentials)
        memories[memory.memory_id] = memory
        for form in cluster.forms:
            alias[_id_of(cluster.members[0], form)] = memory.memory_id
    _supersede(memories)
    for fact in facts:
        _apply(memories, alias, fact, credentials)
    resolve(memories)
    return [memories[key] for key in sorted(memories)]


def _place(candidate: StoredCandidate) -> str:
    return identity(candidate.repository) if candidate.scope in ("repo", "task") and candidate.repository else ""


def _form(candidate: StoredCandidate) -> str:
    """Return what is compared: the method's own signature of the lesson, else its text."""
    body = candidate.body
    if "signature" in body:
        # two cures of one error are two lessons, of which the newer may supersede the older
        cure = body.get("did") if body.get("resolution") != "edit" else ()
        return f"{body['signature']} {' '.join(cure or ())}".strip().lower()
    return " ".join(candidate.text.lower().split())


def _id_of(candidate: StoredCandidate, form: str) -> str:
    subject = candidate.subject if candidate.subject != candidate.text else ""
    return f"mem-{digest(candidate.kind, candidate.scope, _place(candidate), subject, form, size=12)}"


def _clusters(candidates: Iterable[StoredCandidate]) -> list[_Cluster]:
    from rapidfuzz import fuzz, process

    groups: dict[tuple, list[StoredCandidate]] = {}
    for c in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        subject = c.subject if c.subject != c.text else ""
        fuzzy = c.kind == "user_preference" or not subject
        groups.setdefault((c.kind, c.scope, _place(c), "" if fuzzy else subject), []).append(c)
    found: list[_Cluster] = []
    for members in groups.values():
        clusters: list[_Cluster] = []
        owner: dict[str, _Cluster] = {}
        for candidate in members:
            form = _form(candidate)
            cluster = owner.get(form)
            if cluster is None and owner:
                near = process.extractOne(form, owner.keys(), scorer=fuzz.token_sort_ratio, score_cutoff=ALIKE)
                cluster = owner[near[0]] if near else None
            if cluster is None:
                cluster = _Cluster()
                clusters.append(cluster)
            cluster.add(candidate, form)
            owner[form] = cluster
        found += clusters
    return found


def _memory(cluster: _Cluster, credentials: Credentials | None) -> Memory:
    oldest = cluster.members[0]
    best = max(cluster.members, key=lambda c: (c.confidence, c.ts or 0, c.candidate_id))
    # a forked or resumed session repeats its parent's events with their times: one occurrence, one support
    originals = {(c.ts, c.text) if c.ts is not None else (c.candidate_id, ""): c.candidate_id for c in reversed(cluster.members)}
    first = set(originals.values())
    counted = [c for c in cluster.members if c.candidate_id in first]
    sessions = list(dict.fromkeys(f"{c.host}/{c.session_id}" for c in counted))
    doubt = 1.0
    by_session: dict[str, float] = {}
    for c in counted:
        key = f"{c.host}/{c.session_id}"
        by_session[key] = max(by_session.get(key, 0.0), c.confidence)
    if "sessions" in best.body or best.kind == "user_preference":  # the method has counted the sessions itself
        doubt = 1.0 - best.confidence
    else:
        for rank, value in enumerate(sorted(by_session.values(), reverse=True)):
            doubt *= 1.0 - value / (1 + rank)
    evidence = list(dict.fromkeys(e for c in (best, *cluster.members) for e in c.evidence))
    times = [c.ts for c in cluster.members if c.ts is not None]
    memory = Memory(
        memory_id=_id_of(oldest, cluster.forms[0]),
        kind=best.kind,
        text=best.text,
        when_to_use=best.when_to_use,
        structured=best.structured,
        methods=sorted({c.method for c in cluster.members}),
        scope=best.scope,
        repository=best.repository if best.scope in ("repo", "task") else None,
        cwd=best.cwd if best.scope in ("repo", "task") else None,
        risk=max((c.risk for c in cluster.members), key=RISKS.index),
        confidence=round(min(0.98, 1.0 - doubt), 4),
        priority=max(c.priority for c in cluster.members),
        support=len(sessions),
        sessions=sessions[:_SHOWN],
        evidence=evidence[:_SHOWN],
        candidates=sorted(c.candidate_id for c in cluster.members),
        links=links_of(best.text, best.when_to_use),
        first_ts=min(times, default=None),
        last_ts=max(times, default=None),
    )
    return _checked(memory, credentials)


def words_hash(memory: Memory) -> str:
    """Return the hash of all that a reviewer read: a fact with ``reviewed`` carries it as ``words`` and covers no other text."""
    return digest("reviewed", *map(str, _words(memory)))


def _words(memory: Memory) -> list[Any]:
    return [memory.text, memory.when_to_use or "", *_strings(json.loads(memory.structured) if memory.structured else None), *memory.links]


def _checked(memory: Memory, credentials: Credentials | None) -> Memory:
    """Return the memory with what the safety scan found in any of its texts; a finding holds it back for review."""
    flags = scan(_words(memory), credentials)
    return memory._replace(flags=flags, status="needs_review" if flags else memory.status, links=list(memory.links))


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield str(key)
            yield from _strings(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _strings(member)


def _supersede(memories: dict[str, Memory]) -> None:
    """Mark the older of two cures of one error in one repository, and a command advised against by a newer lesson."""
    cures: dict[tuple, list[Memory]] = {}
    for memory in memories.values():
        body = json.loads(memory.structured) if memory.structured else {}
        if memory.kind == "tool_lesson" and body.get("resolution") in ("command", "setup"):
            cures.setdefault((memory.repository, body.get("subject"), body.get("signature")), []).append(memory)
    for rivals in cures.values():
        newest = max(rivals, key=lambda m: (m.last_ts or 0, m.memory_id))
        for memory in rivals:
            if memory is not newest:
                memories[memory.memory_id] = memory._replace(superseded_by=newest.memory_id)
    advice = {(m.repository, _body(m).get("passed")): m for m in memories.values() if _body(m).get("resolution") == "command"}
    for memory in list(memories.values()):
        body = _body(memory)
        if body.get("resolution") == "command":
            older = advice.get((memory.repository, body.get("failed")))
            if older is not None and (older.last_ts or 0) < (memory.first_ts or 0) and _body(older).get("failed") == body.get("passed"):
                memories[older.memory_id] = memories[older.memory_id]._replace(superseded_by=memory.memory_id)


def _body(memory: Memory) -> dict[str, Any]:
    found = json.loads(memory.structured) if memory.structured else {}
    return found if isinstance(found, dict) else {}


def _apply(memories: dict[str, Memory], alias: Mapping[str, str], fact: Fact, credentials: Credentials | None) -> None:
    """Apply one fact; a fact about a memory that no longer exists is kept in the journal and changes nothing."""
    if fact.kind == AUTHORED:
        memory = authored(fact.payload)
        if memory is not None:
            before = memories.get(memory.memory_id)
            if before is not None:
                memory = memory._replace(utility=before.utility, uses=before.uses)
                if before.status in ("rejected", "retired") and "status" not in fact.payload:
                    memory = memory._replace(status=before.status)
            checked = _checked(memory, credentials)
            memories[memory.memory_id] = checked if memory.status not in ("rejected", "retired") else checked._replace(status=memory.status)
        return
    named = str(fact.payload.get("memory_id", ""))
    found = memories.get(alias.get(named, named))
    if found is None:
        return
    if fact.kind in _JUDGED:
        status = _JUDGED[fact.kind]
        if status == "accepted" and found.flags and not (fact.payload.get("reviewed") and fact.payload.get("words") == words_hash(found)):
            status = "needs_review"
        memories[found.memory_id] = found._replace(status=status, flags=[] if status == "accepted" else found.flags)
    elif fact.kind == REWARDED:
        memories[found.memory_id] = found._replace(utility=rewarded(found.utility, fact.payload.get("reward")), uses=found.uses + 1)


def rewarded(utility: float, reward: Any) -> float:
    """Return the utility after a reward, which is clamped to 0..1: utility + 0.2 * (reward - utility)."""
    try:
        value = float(reward)
    except (TypeError, ValueError):
        return utility
    return round(utility + RATE * (min(1.0, max(0.0, value)) - utility), 6) if math.isfinite(value) else utility


def authored(payload: Mapping[str, Any]) -> Memory | None:
    """Return the memory that a person wrote down, None without an id or text. What is not said has the documented default."""
    memory_id, text = str(payload.get("memory_id") or "").strip(), str(payload.get("text") or "").strip()
    if not memory_id or not text:
        return None
    when = payload.get("when_to_use")
    return Memory(
        memory_id=memory_id,
        kind=_one_of(payload.get("kind"), KINDS, "case"),
        text=text,
        when_to_use=str(when) if when else None,
        status=_one_of(payload.get("status"), ("candidate", "accepted", "retired"), "accepted"),
        source="authored",
        scope=_one_of(payload.get("scope"), SCOPES, "user"),
        repository=str(payload["repository"]) if payload.get("repository") else None,
        risk=_one_of(payload.get("risk"), RISKS, "medium"),
        confidence=_number(payload.get("confidence"), 0.8, 0.0, 1.0),
        priority=int(_number(payload.get("priority"), 3, 1, 5)),
        support=0,
        structured=_beside(payload),
        links=links_of(text, str(when) if when else None),
        last_ts=payload["ts"] if isinstance(payload.get("ts"), int) else None,
    )


def _beside(payload: Mapping[str, Any]) -> str | None:
    """Return what a note says beside its text: the names that links may use, its tags and where it lies."""
    lists = {k: [str(v) for v in payload[k]] for k in ("names", "tags") if isinstance(payload.get(k), list) and payload[k]}
    body = lists | {k: str(payload[k]) for k in ("note", "folder") if payload.get(k)}
    return json.dumps(body, ensure_ascii=False, sort_keys=True) if body else None


def _one_of(value: Any, known: Sequence[str], otherwise: str) -> str:
    return str(value) if value in known else otherwise


def _number(value: Any, otherwise: float, least: float, most: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return otherwise
    return min(most, max(least, number)) if math.isfinite(number) else otherwise
