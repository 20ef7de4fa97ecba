"""What every store of conversations can do."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.context.errors import NoSuchInteraction, NoSuchSession
from ctx_pipeline.context.interactions import check_session, encoded, last
from ctx_pipeline.context.sync_adapter import HasSync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.interactions import Message


class MemoryBackend(HasSync, ABC):
    """Keeps the messages of sessions; subclass it for a storage of your own. ``sync`` has the same methods without await."""

    @abstractmethod
    async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
        """Return the messages of a session, oldest first; the last ``k`` of them when ``k`` is given.

        An unknown session has none, and so has ``k`` of zero or less. The messages are
        copies: changing them changes nothing that is stored.
        """

    @abstractmethod
    async def save_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Make a session, or replace all of its messages."""

    @abstractmethod
    async def append_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Add messages at the end of a session. Raises ValueError when there is no such session."""

    @abstractmethod
    async def delete_session(self, session_id: str) -> None:
        """Remove a session. Raises ValueError when there is no such session."""

    @abstractmethod
    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        """Remove the first message of that id and every message after it.

        Raises ValueError when there is no such session or no such message in it.
        """


# Conversations that live as long as the process.


class InMemoryMemory(MemoryBackend):
    """Keeps sessions in this process; safe for threads and for several event loops."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[Message]] = {}
        self._lock = threading.Lock()

    async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
        """Return copies of the messages, oldest first."""
        check_session(session_id)
        with self._lock:
            return copy.deepcopy(last(self._sessions.get(session_id, []), k))

    async def save_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Make a session, or replace all of its messages."""
        check_session(session_id)
        messages = _as_json(context)
        with self._lock:
            self._sessions[session_id] = messages

    async def append_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Add messages at the end of a session."""
        messages = _as_json(context)
        with self._lock:
            self._existing(session_id, " Use save_context to create a new session.").extend(messages)

    async def delete_session(self, session_id: str) -> None:
        """Remove a session."""
        with self._lock:
            self._existing(session_id)
            del self._sessions[session_id]

    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        """Remove a message and every message after it."""
        with self._lock:
            messages = self._existing(session_id)
            for place, message in enumerate(messages):
                if str(message["id"]) == str(interaction_id):
                    del messages[place:]
                    return
        raise NoSuchInteraction(session_id, interaction_id)

    def _existing(self, session_id: str, advice: str = "") -> list[Message]:
        check_session(session_id)
        if session_id not in self._sessions:
            raise NoSuchSession(session_id, advice)
        return self._sessions[session_id]


def _as_json(context: Sequence[Any]) -> list[Message]:
    """Return the messages as they would come back from JSON, so that every store gives back the same."""
    return [msgspec.json.decode(body, type=dict) for _, body in encoded(context)]
