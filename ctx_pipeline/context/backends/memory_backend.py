"""What every store of conversations can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.sync_adapter import HasSync

if TYPE_CHECKING:
    from collections.abc import Sequence


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
