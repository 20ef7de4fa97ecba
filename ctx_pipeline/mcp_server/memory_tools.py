"""The tools that look up and judge memories; each a thin call of a feature with a limit on what it answers."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from ctx_pipeline.errors import NothingYet
from ctx_pipeline.integrations.agent_output import withheld
from ctx_pipeline.mcp_server.arguments import Cursor, Id, Own, Query, own_sessions, short
from ctx_pipeline.mcp_server.paging import LessonRefused, answering, cursor_at, place_of
from ctx_pipeline.mcp_server.schemas import Memories, MemoryEntry
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.settings import Settings

Judge = Callable[..., dict[str, Any]]
"""judge(verb, memory_id, **payload) writes what was said of a memory to the journal and returns the memory."""

LONGEST_TEXT = 2_000
MOST_EVIDENCE = 10
_BATCH = 30

Folder = Annotated[str | None, Field(max_length=4_096, description="Absolute path of the folder you work in: other projects' stay out.")]


class MemoryTools:
    """The tools over the memories of one store; ``judge`` writes what is said of them."""

    def __init__(self, settings: Settings, judge: Judge) -> None:
        self._settings = settings
        self._judge = judge

    @answering
    def retrieve_memories(
        self,
        query: Query,
        cwd: Folder = None,
        limit: Annotated[int, Field(ge=1, le=20, description="Memories of a page.")] = 6,
        accepted_only: Annotated[bool, Field(description="Only memories that the person accepted.")] = False,
        cursor: Cursor = None,
        own_session: Own = None,
    ) -> Memories:
        """Look up lessons from earlier sessions: how a failure was solved, what a person corrected, how this project is run.

        Use it before starting work and when a command fails. An empty list means that
        nothing is known. Without cwd the folder that the server runs in counts where it is a
        repository. Say afterwards with update_memory_utility whether one helped.
        """
        from ctx_pipeline.learning import injection
        from ctx_pipeline.learning import memories as memory_api
        from ctx_pipeline.sessions.session_choice import current_session

        own = own_sessions(self._settings, own_session)
        asked = ("memories", query, cwd, accepted_only)
        place = place_of(cursor, *asked)
        most = place + limit + 1 + (_BATCH if own else 0)
        found = memory_api.retrieve(query, cwd=cwd or memory_api.here(), limit=most, accepted_only=accepted_only, settings=self._settings)
        if not found and not memory_api.looked_for(self._settings):
            raise NothingYet("a sync alone draws no lessons", hint="ctx run")
        found = [s for s in found if not withheld(s.memory)]
        others = [s for s in found if not s.memory.sessions or {name.partition("/")[2] for name in s.memory.sessions} - own]
        told = others[place : place + limit]
        host, session = current_session(self._settings) or ("", "")
        if own_session and own_session != session:  # over HTTP the server's own environment says nothing of the caller
            host, session = "", own_session
        injection.log_injected(told, host=host, session_id=session, event="retrieve", settings=self._settings)
        following = cursor_at(place + limit, *asked) if len(others) > place + limit else None
        return Memories(memories=[_entry(s.memory._asdict(), s.score) for s in told], next_cursor=following)

    @answering
    def show_memory(self, memory_id: Id) -> MemoryEntry:
        """Show one memory with the sessions and events that it rests on."""
        return _entry(self._tellable(memory_id)._asdict(), evidence=MOST_EVIDENCE)

    @answering
    def accept_memory(self, memory_id: Id) -> MemoryEntry:
        """Accept a memory when the person says that it is right. One that a check held back is refused: a person reviews it."""
        return _entry(self._judge("memory.accepted", self._tellable(memory_id).memory_id, reviewed=False))

    @answering
    def update_memory_utility(
        self,
        memory_id: Id,
        reward: Annotated[float, Field(ge=0, le=1, description="1: it saved work; 0: it was wrong or useless here.")],
        reason: Annotated[str | None, Field(max_length=2_000, description="What happened, in a sentence.")] = None,
        session_id: Annotated[str | None, Field(max_length=200, description="The session in which it was used.")] = None,
    ) -> MemoryEntry:
        """Say whether a memory helped, so that better ones are shown first: utility += 0.2 * (reward - utility)."""
        session = session_id or next(iter(sorted(own_sessions(self._settings, None))), None)
        full = self._tellable(memory_id).memory_id
        return _entry(self._judge("memory.rewarded", full, reward=reward, session_id=session, reason=reason))

    def _tellable(self, memory_id: str) -> Memory:
        """Return a memory that may be told; raises UnknownName, and LessonRefused for one that a check held back."""
        from ctx_pipeline.learning import memories as memory_api

        found = memory_api.memory(memory_id, settings=self._settings)
        if withheld(found):
            raise LessonRefused(found)
        return found


def _entry(row: dict[str, Any], score: float | None = None, *, evidence: int = 2) -> MemoryEntry:
    if withheld(told := Memory(**row)):  # what was said of it, or a check that is newer, may have held it back just now
        raise LessonRefused(told)
    return MemoryEntry(
        **{name: row[name] for name in ("memory_id", "kind", "status", "scope", "risk", "confidence", "support", "utility")},
        text=row["text"][:LONGEST_TEXT],
        when_to_use=short(row["when_to_use"], LONGEST_TEXT),
        sessions=list(row["sessions"])[: min(evidence, 5)],
        evidence=list(row["evidence"])[:evidence],
        evidence_in_all=len(row["evidence"]),
        score=score,
    )
