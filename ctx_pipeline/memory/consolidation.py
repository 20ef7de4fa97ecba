"""From candidates of many sessions to memories: like ones in one cluster, newer ones over older ones, people's word over all."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.ranking import NOT_WHEN, VALID_UNTIL, limits
from ctx_pipeline.memory.safety import REVIEWED, scan, strings_of
from ctx_pipeline.memory.scope import identity
from ctx_pipeline.memory.session_facts import MEASURED
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.memories import KINDS, MODEL_WRITTEN, RISKS, SCOPES, TEAM, TEAM_ID, Memory, MemoryCandidate, StoredCandidate
from ctx_pipeline.shell.command_risk import REASON, guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Check = Callable[[Iterable[str | None]], Sequence[str]]
    """texts of a memory -> what is wrong with them"""


# Wiki links between memories: [[id]], [[id|shown]], [[id#part]], and by the name of a note.


_LINK = re.compile(r"\[\[([^\]\[|#\n]{1,200})(?:[|#][^\]\[\n]{0,200})?\]\]")


def links_of(*texts: str | None) -> list[str]:
    """Return the ids that the texts name, each once, in order."""
    return list(dict.fromkeys(target.strip() for text in texts if text for target in _LINK.findall(text) if target.strip()))


def dangling(links: dict[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return memory id -> ids that it names and that do not exist."""
    found = {source: [t for t in targets if t not in links] for source, targets in links.items()}
    return {source: missing for source, missing in found.items() if missing}


def resolve(memories: dict[str, Memory]) -> None:
    """Replace in ``memories`` the links that name a note (its file, path, title or alias, in any case) by the id of its memory.

    A note in the folder of the one that names it comes first, then an id, then the note
    whose path is shortest; a name that nobody has stays as it is.
    """
    called: dict[str, list[tuple[str, str]]] = {}
    lies: dict[str, str] = {}
    for memory_id, memory in memories.items():
        if memory.source == "authored" and memory.structured:
            body = json.loads(memory.structured)
            lies[memory_id] = f"{body.get('folder', '')}/{body.get('note', '')}"
            for name in body.get("names", ()):
                called.setdefault(name.casefold(), []).append((lies[memory_id], memory_id))
    for memory_id, memory in memories.items():
        if memory.links:
            here = lies.get(memory_id, "").rpartition("/")[0]
            links = [_meant(target, called.get(_name(target), []), here, memories) for target in memory.links]
            memories[memory_id] = memory._replace(links=list(dict.fromkeys(links)))


def _name(target: str) -> str:
    return " ".join(target.split()).removesuffix(".md").casefold()


def _meant(target: str, notes: list[tuple[str, str]], folder: str, memories: dict[str, Memory]) -> str:
    near = [memory_id for path, memory_id in notes if folder and path.rpartition("/")[0] == folder]
    if near or target in memories:
        return min(near, default=target)
    return min(notes, key=lambda n: (len(n[0]), n), default=("", target))[1]


ALIKE = 88
"""rapidfuzz token-sort ratio from which two lessons about one subject are the same lesson."""

RATE = 0.2
"""Share of the way that utility moves towards a reward."""

DANGEROUS = "dangerous-command"
"""Flag of a mined memory that proposes what publishes, destroys or moves shared state: a person has to accept it first."""

BY_MODEL = "model-written"
"""Flag of a mined memory whose words a model chose, which had read what tools printed: a person has to accept it first."""

_SHOWN = 16
_JUDGED = {"memory.accepted": "accepted", "memory.rejected": "rejected", "memory.retired": "retired"}
REWARDED = "memory.rewarded"
AUTHORED = "memory.authored"
JOINED = "memory.joined"
"""Kind of the fact that a lesson of a model gives way to a later one, which says the same or the contrary."""


class Fact(NamedTuple):
    """What a person or tool said of a memory: kind as in the journal, and its payload."""

    kind: str
    payload: Mapping[str, Any]
    at: str = ""
    """when it was said, ISO 8601; empty where nobody knows"""


@dataclass
class _Cluster:
    members: list[StoredCandidate] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)

    def add(self, candidate: StoredCandidate, form: str) -> None:
        self.members.append(candidate)
        if form not in self.forms:
            self.forms.append(form)


def consolidate(
    candidates: Iterable[StoredCandidate],
    facts: Sequence[Fact] = (),
    check: Check = scan,
    *,
    former: Mapping[str, Sequence[str]] | None = None,
    guard: Callable[[StoredCandidate], StoredCandidate] = guarded,
) -> list[Memory]:
    """Return the memories of all candidates and of what people wrote, sorted by id.

    ``former`` has the names that a repository had before its remote was renamed, ``guard`` does what
    :func:`ctx_pipeline.shell.command_risk.guarded` does.

    The same candidates in any order and the same facts in order give the same memories.
    An id is made of the oldest member of a cluster; a fact that names a younger member's
    id, or the one it had before the repository of its folder was known, still reaches it.
    """
    memories: dict[str, Memory] = {}
    alias: dict[str, str] = {}
    for cluster in _clusters(candidates):
        memory = _memory(cluster, check, guard)
        memories[memory.memory_id] = memory
        oldest = cluster.members[0]
        folders = dict.fromkeys(identity(c.cwd) for c in cluster.members if c.cwd and _place(c))
        folders |= dict.fromkeys(map(identity, (former or {}).get(oldest.repository or "", ()))) if _place(oldest) else {}
        for form in cluster.forms:
            alias[_id_of(oldest, form)] = memory.memory_id
            for folder in folders:
                alias.setdefault(_id_of(oldest, form, folder), memory.memory_id)
    alias |= {memory_id: memory_id for memory_id in memories}
    _supersede(memories)
    for fact in _last_limits(last_measured(facts)):
        _apply(memories, alias, fact, check)
    for fact in facts:
        if fact.kind == JOINED:
            older, newer = (alias.get(str(fact.payload.get(name)), "") for name in ("memory_id", "into"))
            _join(memories, older, newer, str(fact.payload.get("why")))
    _supersede_twins(memories)
    resolve(memories)
    return [memories[key] for key in sorted(memories)]


def _place(candidate: StoredCandidate) -> str:
    where = candidate.repository or candidate.cwd
    return identity(where) if candidate.scope in ("repo", "task") and where else ""


def _form(candidate: StoredCandidate) -> str:
    """Return what is compared: the method's own signature of the lesson, else its text."""
    body = candidate.body
    if "signature" in body:
        # two cures of one error are two lessons, of which the newer may supersede the older
        cure = body.get("did") if body.get("resolution") != "edit" else ()
        return f"{body['signature']} {' '.join(cure or ())}".strip().lower()
    return " ".join(candidate.text.lower().split())


def _id_of(candidate: StoredCandidate, form: str, place: str | None = None) -> str:
    subject = candidate.subject if candidate.subject != candidate.text else ""
    return f"mem-{digest(candidate.kind, candidate.scope, _place(candidate) if place is None else place, subject, form, size=12)}"


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


def _memory(cluster: _Cluster, check: Check, guard: Callable[[StoredCandidate], StoredCandidate]) -> Memory:
    oldest = cluster.members[0]
    best = guard(max(cluster.members, key=lambda c: (not c.body.get(MODEL_WRITTEN), c.confidence, c.ts or 0, c.candidate_id)))
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
        structured=_without_review(best),
        methods=sorted({c.method for c in cluster.members}),
        scope=best.scope,
        repository=best.repository if best.scope in ("repo", "task") else None,
        cwd=best.cwd if best.scope in ("repo", "task") else None,
        risk=max((best.risk, *(c.risk for c in cluster.members)), key=RISKS.index),
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
    checked = _checked(memory, check)
    held = [flag for name, flag in ((REASON, DANGEROUS), (MODEL_WRITTEN, BY_MODEL)) if best.body.get(name)]
    return checked._replace(flags=[*checked.flags, *held], status="needs_review") if held else checked


def _without_review(candidate: StoredCandidate) -> str | None:
    """Return the body of a candidate; that a person has read it only the journal says."""
    if not candidate.structured or f'"{REVIEWED}"' not in candidate.structured:
        return candidate.structured
    body = {k: v for k, v in candidate.body.items() if k != REVIEWED}
    return json.dumps(body, ensure_ascii=False, sort_keys=True) if body else None


def words_hash(memory: Memory) -> str:
    """Return the hash of all that a reviewer read: a fact with ``reviewed`` carries it as ``words`` and covers no other text."""
    return digest("reviewed", *map(str, _words(memory)))


def _words(memory: Memory) -> list[Any]:
    return [memory.text, memory.when_to_use or "", *strings_of(json.loads(memory.structured) if memory.structured else None), *memory.links]


def _checked(memory: Memory, check: Check) -> Memory:
    """Return the memory with what the safety scan found in any of its texts; a finding holds it back for review."""
    flags = list(check([*_words(memory), memory.memory_id]))
    return memory._replace(flags=flags, status="needs_review" if flags else memory.status, links=list(memory.links))


def _supersede(memories: dict[str, Memory]) -> None:
    """Mark the older of two cures of one error in one repository, and a command advised against by a newer lesson."""
    cures: dict[tuple, list[Memory]] = {}
    for memory in memories.values():
        body = memory.body
        if memory.kind in ("tool_lesson", "failure_trigger") and body.get("resolution") in ("command", "setup"):
            cures.setdefault((memory.repository, body.get("subject"), body.get("signature")), []).append(memory)
    for rivals in cures.values():
        # what a method compared over several sessions holds the others' cures already; what is held back answers nobody
        newest = max(rivals, key=lambda m: (not m.flags, m.body.get("sessions") or 0, m.last_ts or 0, m.memory_id))
        for memory in rivals:
            if memory is not newest:
                memories[memory.memory_id] = memory._replace(superseded_by=newest.memory_id)
    compared = _compared(memories.values())
    for memory in list(memories.values()):
        if memory.superseded_by is None and (wider := _compared_over(compared, memory)) is not None:
            memories[memory.memory_id] = memory._replace(superseded_by=wider.memory_id)
    cures |= {
        (where, subject, memory.body["any_name"]): rivals  # sessions are compared by an error's form without the names that it quotes
        for (where, subject, form), rivals in cures.items()
        for memory in rivals
        if memory.body.get("any_name") not in (None, form)
    }
    for memory in list(memories.values()):
        body = memory.body
        cured = cures.get((memory.repository, body.get("subject"), body.get("signature")), []) if body.get("signature") else []
        if memory.kind == "failure_trigger" and not body.get("resolution") and cured and "cured" in body:
            last = next((m for m in cured if memories[m.memory_id].superseded_by is None), None)
            if last is not None:
                memories[memory.memory_id] = memory._replace(superseded_by=last.memory_id)
    rules = {(m.repository or m.cwd, str(m.body.get("signature") or "")): m for m in memories.values() if m.kind == "user_preference"}
    for (where, _), memory in rules.items():
        overruled = str(memory.body.get("overruled_by") or "")
        later = rules.get((where, overruled)) if overruled else None
        if later is not None:
            memories[memory.memory_id] = memory._replace(superseded_by=later.memory_id)
    advice = {(m.repository, m.body.get("passed")): m for m in memories.values() if m.body.get("resolution") == "command"}
    for memory in list(memories.values()):
        body = memory.body
        if body.get("resolution") == "command":
            older = advice.get((memory.repository, body.get("failed")))
            if older is not None and (older.last_ts or 0) < (memory.first_ts or 0) and older.body.get("failed") == body.get("passed"):
                memories[older.memory_id] = memories[older.memory_id]._replace(superseded_by=memory.memory_id)


def _supersede_twins(memories: dict[str, Memory]) -> None:
    """Mark one of a lesson of the team and the same one drawn here: the person's own, once accepted, else what waits for a judgment."""
    for theirs in list(memories.values()):
        own = memories.get(theirs.memory_id.removeprefix(TEAM_ID))
        if own is None or own is theirs or theirs.status != "accepted" or not theirs.body.get(TEAM):
            continue
        if own.status == "accepted":
            memories[theirs.memory_id] = theirs._replace(superseded_by=own.memory_id)
        elif own.status == "candidate" and own.superseded_by is None:
            memories[own.memory_id] = own._replace(superseded_by=theirs.memory_id)


def _join(memories: dict[str, Memory], older: str, newer: str, why: str) -> None:
    """Let a lesson of a model give way to a later one of the same place; what a person judged stays as the person left it."""
    one, other = memories.get(older), memories.get(newer)
    while other is not None and other.superseded_by in memories and other.memory_id != older:
        other = memories.get(str(other.superseded_by))
    if one is None or other is None or one.memory_id == other.memory_id or _where(one) != _where(other):
        return
    if one.status != "needs_review" or other.status in ("rejected", "retired") or one.superseded_by is not None:
        return
    if not (one.body.get(MODEL_WRITTEN) and other.body.get(MODEL_WRITTEN)):
        return
    memories[one.memory_id] = one._replace(superseded_by=other.memory_id)
    if why == "same":
        sessions = list(dict.fromkeys((*other.sessions, *one.sessions)))
        more = max(0, one.support - len(one.sessions)) + max(0, other.support - len(other.sessions))
        memories[other.memory_id] = other._replace(
            support=len(sessions) + more,
            sessions=sessions[:_SHOWN],
            evidence=list(dict.fromkeys((*other.evidence, *one.evidence)))[:_SHOWN],
            confidence=round(
                min(0.98, 1 - (1 - max(one.confidence, other.confidence)) * (1 - min(one.confidence, other.confidence) / 2)), 4
            ),
            first_ts=min((t for t in (one.first_ts, other.first_ts) if t is not None), default=None),
        )


def _compared(memories: Iterable[Memory]) -> dict[tuple, list[Memory]]:
    """Return place, subject and error -> the lessons that compare several sessions with it."""
    found: dict[tuple, list[Memory]] = {}
    for memory in memories:
        body = memory.body
        several = body.get("signature") and body.get("did") and int(body.get("sessions") or 0) > 1
        if several and not memory.flags and memory.superseded_by is None:
            found.setdefault((*_where(memory), body.get("subject"), body["signature"]), []).append(memory)
    return found


def _compared_over(compared: Mapping[tuple, Sequence[Memory]], memory: Memory) -> Memory | None:
    """Return the lesson that compares several sessions with one error, among them all that taught this other cure of it."""
    body = memory.body
    if body.get("resolution") in (None, "", "edit") or body.get("sessions"):
        return None
    forms = dict.fromkeys((body.get("signature"), body.get("any_name")))
    wider = (m for form in forms for m in compared.get((*_where(memory), body.get("subject"), form), ()))
    return next((m for m in wider if m is not memory and set(memory.sessions) <= set(m.sessions)), None)


def _where(memory: Memory) -> tuple[str | None, str | None]:
    return memory.repository, None if memory.repository else memory.cwd


def _apply(memories: dict[str, Memory], alias: Mapping[str, str], fact: Fact, check: Check) -> None:
    """Apply one fact; a fact about a memory that no longer exists is kept in the journal and changes nothing."""
    if fact.kind == AUTHORED:
        memory = authored(fact.payload)
        if memory is not None:
            before = memories.get(memory.memory_id)
            if before is not None:
                memory = memory._replace(utility=before.utility, uses=before.uses)
                if before.status in ("rejected", "retired") and "status" not in fact.payload:
                    memory = memory._replace(status=before.status)
            checked = _withheld(_checked(memory, check), fact.payload)
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
        if status == "accepted" and found.flags:
            body = found.body | {REVIEWED: list(found.flags)}
            found = found._replace(flags=[], structured=json.dumps(body, ensure_ascii=False, sort_keys=True))
        found = found._replace(status=status)
        memories[found.memory_id] = _limited(_followed(found, fact.at), fact.payload, check) if status == "accepted" else found
    elif fact.kind == REWARDED:
        memories[found.memory_id] = found._replace(utility=rewarded(found.utility, fact.payload.get("reward")), uses=found.uses + 1)


def _withheld(memory: Memory, payload: Mapping[str, Any]) -> Memory:
    """Return the memory of a note, held back where reading its front matter left in doubt what it is or where it holds."""
    held = payload.get("held")
    if not isinstance(held, list) or not held:
        return memory
    return memory._replace(flags=[*memory.flags, *map(str, held)], status="needs_review")


def _followed(memory: Memory, at: str) -> Memory:
    """Return an accepted rule with how often the person said it once more since then; all else as it is."""
    body = memory.body
    if not at or not isinstance(body.get("said"), list):
        return memory
    since = int(datetime.fromisoformat(at).timestamp() * 1_000_000)
    again = sum((s.get("ts") or 0) > since for s in body["said"] if isinstance(s, dict))
    body |= {"accepted_ts": since, "again_since_accepted": again}
    return memory._replace(structured=json.dumps(body, ensure_ascii=False, sort_keys=True))


def _limited(memory: Memory, payload: Mapping[str, Any], check: Check) -> Memory:
    """Return a memory with the end that the person gave it; words in which a check finds something are left out."""
    told = {k: v for k, v in limits(payload).items() if not check([v])}
    return memory._replace(structured=json.dumps(memory.body | told, ensure_ascii=False, sort_keys=True)) if told else memory


def _last_limits(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts in order; the end that an acceptance gave holds until the next acceptance, which may be for good."""
    last = {fact.payload.get("memory_id"): place for place, fact in enumerate(facts) if _JUDGED.get(fact.kind) == "accepted"}
    given = {VALID_UNTIL, NOT_WHEN}
    return [
        fact._replace(payload={k: v for k, v in fact.payload.items() if k not in given})
        if _JUDGED.get(fact.kind) == "accepted" and last[fact.payload.get("memory_id")] != place
        else fact
        for place, fact in enumerate(facts)
    ]


def last_measured(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts in order, of measured rewards only the last for each memory and session: one that grew is judged anew, once."""
    last = {_measured_in(f): place for place, f in enumerate(facts)}
    return [f for place, f in enumerate(facts) if _measured_in(f) is None or last[_measured_in(f)] == place]


def _measured_in(fact: Fact) -> tuple[str, ...] | None:
    if fact.kind != REWARDED or fact.payload.get("source") != MEASURED:
        return None
    return tuple(str(fact.payload.get(name)) for name in ("memory_id", "host", "session_id"))


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
        scope=_one_of(payload.get("scope"), SCOPES, "repo" if payload.get("repository") or payload.get("scope") else "user"),
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
    lists = {k: [str(v) for v in payload[k]] for k in ("names", "tags", TEAM) if isinstance(payload.get(k), list) and payload[k]}
    body = lists | {k: str(payload[k]) for k in ("note", "folder") if payload.get(k)} | limits(payload)
    return json.dumps(body, ensure_ascii=False, sort_keys=True) if body else None


def _one_of(value: Any, known: Sequence[str], otherwise: str) -> str:
    return str(value) if value in known else otherwise


def _number(value: Any, otherwise: float, least: float, most: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return otherwise
    return min(most, max(least, number)) if math.isfinite(number) else otherwise


# The stored row of a candidate that a mining method drew from a session.


def store_candidate(candidate: MemoryCandidate, *, session: Any, method: str, version: int) -> StoredCandidate:
    """Return the row of a candidate that ``method`` drew from ``session``.

    Unknown kinds, scopes and risks become case, repo and medium; confidence and priority
    are clamped, so that a plug-in cannot break the table contract. What proposes a command
    that publishes or destroys is of high risk, whatever its method says.
    """
    body = dict(candidate.structured or {})
    if candidate.subject:
        body["subject"] = candidate.subject
    if candidate.scope_reason:
        body["scope_reason"] = candidate.scope_reason
    kind = candidate.kind if candidate.kind in KINDS else "case"
    stored = StoredCandidate(
        digest(method, str(session.host), str(session.session_id), kind, candidate.text, size=24),
        str(session.host),
        str(session.session_id),
        method,
        version,
        kind,
        candidate.text,
        candidate.when_to_use,
        json.dumps(body, ensure_ascii=False, sort_keys=True) if body else None,
        [str(e) for e in candidate.evidence_refs],
        min(1.0, max(0.0, float(candidate.confidence))),
        min(5, max(1, int(candidate.priority))),
        candidate.scope if candidate.scope in SCOPES else "repo",
        candidate.risk if candidate.risk in RISKS else "medium",
        candidate.origin_repo or session.repository,
        session.cwd,
        candidate.ts if candidate.ts is not None else session.last_ts,
    )
    return guarded(stored)
