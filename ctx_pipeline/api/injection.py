"""Memories that reach a session unasked: chosen sparingly, logged, and withheld at random where an experiment is wanted.

Runs in a hook at every prompt: plain SQLite and the standard library.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.budget import estimate
from ctx_pipeline.memory.query import words_of
from ctx_pipeline.memory.ranking import WEIGHTS, Recalled, rank
from ctx_pipeline.memory.scope import place_of, visible
from ctx_pipeline.memory.weave import weave
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.memory_index import MemoryIndex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.memory.scope import Place
    from ctx_pipeline.model.memories import Scored
    from ctx_pipeline.settings import Settings

INJECTED = "hook.injected"
"""Kind of the facts in the journal; what is logged under ``hook.`` makes nothing stale."""

START = "SessionStart"
PROMPT = "UserPromptSubmit"

THRESHOLD = 0.4
"""Share of a prompt's weight, rare words weighing more, that a memory must hold to be injected; a search asks for less."""

LIMIT = 4
BUDGET = 500
"""Tokens of a note."""

_WORDS = 32
"""Words of a prompt that are looked for: each costs, and a long prompt says early what it is about."""

_LOOKED_BACK = 400
_PATIENCE = 0.05
_EMPTIED = ("clear", "compact")
"""Sources of a session start after which the window holds nothing of what was injected before."""


class Choice(NamedTuple):
    """How sparingly memories are injected."""

    threshold: float = THRESHOLD
    holdout: float = 0.0
    """Share of sessions from which everything is withheld, logged all the same."""
    limit: int = LIMIT
    budget: int = BUDGET
    accepted_only: bool = False


def inject(payload: Mapping[str, Any], *, host: str, choice: Choice, settings: Settings) -> str:
    """Return the note for a hook's payload; empty where nothing is relevant enough, known to the session already, or withheld.

    What is returned was logged: a journal that cannot be written gives an error and no
    note. Unknown fields of the payload are left alone, fields of a wrong kind count as missing.
    """
    event, session, prompt = (_text(payload, name) for name in ("hook_event_name", "session_id", "prompt"))
    path = settings.home / "memory.db"
    if event not in (START, PROMPT) or not session or not path.exists():
        return ""
    cwd = _text(payload, "cwd")
    place = place_of(cwd) if cwd.startswith("/") and "\0" not in cwd else None
    index = MemoryIndex(path)
    try:
        found = _at_start(index, place, choice) if event == START else _for_prompt(index, prompt, place, choice)
    finally:
        index.close()
    own = f"{host}/{session}"
    found = [s for s in found if set(s.memory.sessions) != {own}]
    if not found:
        return ""
    journal = Journal(settings.home / "journal.db", patience=_PATIENCE)
    try:
        if not (event == START and _text(payload, "source") in _EMPTIED):
            known = _known(journal, host, session)
            found = [s for s in found if s.memory.memory_id not in known]
        chosen = found[: choice.limit]
        note = weave(chosen, budget=choice.budget) if chosen else ""
        if not note:
            return ""
        told = [s for s in chosen if s.memory.memory_id in note]
        withheld = held_out(session, choice.holdout)
        journal.append(
            INJECTED,
            {
                "host": host,
                "session_id": session,
                "event": event,
                "memories": [{"memory_id": s.memory.memory_id, "score": s.score} for s in told],
                "tokens": estimate(note),
                "withheld": withheld,
                "holdout": choice.holdout,
                "threshold": choice.threshold,
            },
            actor="hook",
        )
    finally:
        journal.close()
    return "" if withheld else note


def held_out(session_id: str, share: float) -> bool:
    """Tell whether a session is one of those from which memories are withheld; always the same for one session and share."""
    drawn = int.from_bytes(hashlib.sha256(f"holdout {session_id}".encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return drawn < share * 2**64


def injections(*, limit: int = 20, settings: Settings) -> list[dict[str, Any]]:
    """Return what was injected, or withheld, newest first: at, host, session_id, event, memories, tokens, withheld, holdout."""
    journal = Journal(settings.home / "journal.db", read_only=True)
    try:
        return [{"at": fact.at, **fact.payload} for fact in journal.newest(INJECTED, limit)]
    finally:
        journal.close()


def _for_prompt(index: MemoryIndex, prompt: str, place: Place | None, choice: Choice) -> list[Scored]:
    words = words_of(prompt)[:_WORDS]
    if not words:
        return []
    hits = index.recall(
        words, allowed=lambda scope, repository, where: visible(scope, repository, where, place), accepted_only=choice.accepted_only
    )
    near = [Recalled(h.memory, h.score, h.covered) for h in hits if h.covered >= choice.threshold]
    return rank(near, place=place, limit=4 * choice.limit, now=_now(), accepted_only=choice.accepted_only)


def _at_start(index: MemoryIndex, place: Place | None, choice: Choice) -> list[Scored]:
    """Return what is worth knowing at a place whatever is asked: accepted, or learnt in more than one session."""
    held = index.of_places(
        allowed=lambda scope, repository, where: visible(scope, repository, where, place), accepted_only=choice.accepted_only
    )
    worth = [Recalled(m, 1.0, 1.0) for m in held if m.status == "accepted" or m.support > 1]
    ranked = rank(worth, place=place, limit=4 * choice.limit, now=_now(), accepted_only=choice.accepted_only)
    return [s for s in ranked if (s.score - WEIGHTS["match"]) / (1 - WEIGHTS["match"]) >= choice.threshold]


def _known(journal: Journal, host: str, session: str) -> set[str]:
    """Return the memories that were injected into a session before."""
    facts: Sequence[Any] = journal.newest(INJECTED, _LOOKED_BACK)
    mine = [f.payload for f in facts if (f.payload.get("host"), f.payload.get("session_id")) == (host, session)]
    return {m["memory_id"] for payload in mine for m in payload["memories"]}


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    return (value if name == "prompt" else value[:4_096]) if isinstance(value, str) else ""


def _now() -> int:
    return time.time_ns() // 1000
