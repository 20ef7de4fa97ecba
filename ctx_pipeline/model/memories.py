"""Carriers of mining and memory: candidates, memories and what a retrieval gives back.

Standard library only, since ``ctx memory weave`` runs in a hook at every prompt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

KINDS = ("procedure", "skill", "failure_trigger", "user_preference", "repo_convention", "tool_lesson", "risk_rule", "case")
RULE_KINDS = frozenset({"user_preference", "risk_rule"})
"""Kinds in which the person says how to work."""

SCOPES = ("user", "repo", "task", "global")
RISKS = ("low", "medium", "high")
STATUSES = ("candidate", "accepted", "needs_review", "rejected", "retired")
CASE = "case-"
"""Begins the id of a task that was solved, which lies in ``cases.db``."""

NOTE_TAG = "ctx-memories"
"""Name of the element around a woven note; what stands inside one is never mined again."""

BLOCK_TAG = "ctx"
"""Name of the element around mined candidates to paste; what stands inside one is never mined again."""

MODEL_WRITTEN = "model_written"
"""Name in a structured body that says that a model worded the lesson: it may repeat what a tool printed, so a person accepts it first."""

TEAM = "team"
"""Name in the structured body of a lesson that came from the person's team: the members who proposed it."""

TEAM_ID = "team-"
"""Begins the id that a lesson of the team has on a member's machine; what follows is the id that its members' own had."""

WOVEN = ("candidate", "accepted")
"""Statuses that may reach a prompt; ``accepted_only`` narrows them."""


@dataclass(slots=True)
class MemoryCandidate:
    """One lesson that a mining method drew from one session, with the events that it rests on.

    ``subject`` names what the lesson is about in a canonical form ("go test"): candidates
    of one kind and repository with one subject can be merged or can supersede each other.
    Left out fields of place (session, host, repository, cwd) are filled by the stage.
    """

    kind: str
    text: str
    when_to_use: str | None = None
    evidence_refs: tuple[str, ...] | list[str] = ()
    confidence: float = 0.5
    priority: int = 3
    scope: str = "repo"
    risk: str = "medium"
    structured: dict[str, Any] | None = None
    scope_reason: str | None = None
    origin_repo: str | None = None
    method: str = ""
    id: str = ""
    subject: str = ""
    ts: int | None = None


@lru_cache(maxsize=8_192)
def _parsed(structured: str) -> Any:
    """Return the value of a structured body; merging asks for one dozens of times."""
    return json.loads(structured)


class StoredCandidate(NamedTuple):
    """A row of the table ``candidates``, in the order of its columns."""

    candidate_id: str
    host: str
    session_id: str
    method: str
    version: int
    kind: str
    text: str
    when_to_use: str | None
    structured: str | None
    evidence: list[str]
    confidence: float
    priority: int
    scope: str
    risk: str
    repository: str | None
    cwd: str | None
    ts: int | None

    @property
    def body(self) -> dict[str, Any]:
        """The structured body; empty when there is none."""
        return dict(_parsed(self.structured)) if self.structured else {}

    @property
    def subject(self) -> str:
        """What the lesson is about; its text where the method named no subject."""
        return str((_parsed(self.structured).get("subject") if self.structured else "") or self.text)

    @property
    def place(self) -> str:
        """The repository that it was seen in, else the folder; empty where neither is known."""
        return self.repository or self.cwd or ""


class Memory(NamedTuple):
    """A row of the table ``memories``, in the order of its columns."""

    memory_id: str
    kind: str
    text: str
    when_to_use: str | None = None
    structured: str | None = None
    status: str = "candidate"
    flags: list[str] | tuple[str, ...] = ()
    source: str = "mined"
    methods: list[str] | tuple[str, ...] = ()
    scope: str = "repo"
    repository: str | None = None
    cwd: str | None = None
    risk: str = "medium"
    confidence: float = 0.5
    priority: int = 3
    support: int = 1
    sessions: list[str] | tuple[str, ...] = ()
    evidence: list[str] | tuple[str, ...] = ()
    candidates: list[str] | tuple[str, ...] = ()
    links: list[str] | tuple[str, ...] = ()
    superseded_by: str | None = None
    utility: float = 0.5
    uses: int = 0
    first_ts: int | None = None
    last_ts: int | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The structured body; empty when there is none."""
        found = _parsed(self.structured) if self.structured else {}
        return dict(found) if isinstance(found, dict) else {}


class Scored(NamedTuple):
    """A memory that answers a query: its score, the parts of the score and how it was reached."""

    memory: Memory
    score: float
    parts: dict[str, float]
    linked_from: str | None = None
