"""Messages and their embeddings as one store."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.interactions import messages_of
from ctx_pipeline.context.retrieval.embedding import EmbedFn, embed
from ctx_pipeline.context.retrieval.store import retrieve_relevant
from ctx_pipeline.context.sync_adapter import HasSync
from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.context.backends.memory_backend import MemoryBackend
    from ctx_pipeline.context.retrieval.store import RetrievalBackend, RetrievedItem

_log = logging.getLogger(__name__)
_BATCH = 256


class NotConfigured(UsageError, ValueError):
    """A store was asked for something that it was made without."""


@dataclass
class SessionStoreConfig:
    """``auto_embed``: embed every message that is saved; ``embed_fn``: texts to vectors, sync or async."""

    auto_embed: bool = False
    embed_fn: EmbedFn | None = None


class SessionStore(HasSync):
    """Keeps conversations in a memory backend and makes them findable in a retrieval backend.

    What is deleted is no longer found, and a message whose text changed is embedded again.
    """

    def __init__(self, memory: MemoryBackend, retrieval: RetrievalBackend | None = None, config: SessionStoreConfig | None = None) -> None:
        self.memory = memory
        self.retrieval = retrieval
        self.config = config or SessionStoreConfig()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: deque[BaseException] = deque(maxlen=100)
        if self.config.auto_embed and self.config.embed_fn is None:
            raise NotConfigured("auto_embed requires embed_fn", hint="SessionStoreConfig(auto_embed=True, embed_fn=...)")
        if self.config.auto_embed and retrieval is None:
            raise NotConfigured("auto_embed requires a retrieval backend", hint="SessionStore(memory, InMemoryEmbeddingStore(), config)")

    async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
        """Return the messages of a session, oldest first; the last ``k`` of them when ``k`` is given."""
        return await self.memory.load_context(session_id, k)

    async def save_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Make or replace a session; embed what is new or changed, and forget the vectors of what is gone."""
        messages = messages_of(context)
        before = await self._ids(session_id)
        await self.memory.save_context(session_id, messages)
        await self._forget(session_id, before - {str(message["id"]) for message in messages})
        if self.config.auto_embed:
            await self._embed(session_id, messages)

    async def append_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Add messages at the end of a session and embed them. Raises ValueError when there is no such session."""
        messages = messages_of(context)
        await self.memory.append_context(session_id, messages)
        if self.config.auto_embed:
            await self._embed(session_id, messages)

    async def delete_session(self, session_id: str) -> None:
        """Remove a session and its vectors. Raises ValueError when there is no such session."""
        await self.memory.delete_session(session_id)
        delete = getattr(self.retrieval, "delete", None)
        if delete is not None:
            await delete(session_id)

    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        """Remove a message, every message after it, and their vectors. Raises ValueError when it is not there."""
        before = await self._ids(session_id)
        await self.memory.delete_interaction(session_id, interaction_id)
        await self._forget(session_id, before - await self._ids(session_id))

    async def add_message_embedding(self, session_id: str, message_id: str, text: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Embed a text for a message; a message that has this text embedded already costs nothing."""
        retrieval, embed_fn = self._both()
        if await self._is_embedded(session_id, message_id, text):
            return
        vector = (await embed(embed_fn, [text]))[0]
        await retrieval.add(session_id, message_id, vector, {"text": text, **(metadata or {})})

    def spawn_background_embedding(
        self, session_id: str, message_id: str, text: str, metadata: Mapping[str, Any] | None = None
    ) -> asyncio.Task[None]:
        """Start embedding and return its task; :meth:`wait_for_embeddings` waits for all of them."""
        self._both()
        task = asyncio.get_running_loop().create_task(self.add_message_embedding(session_id, message_id, text, metadata))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def wait_for_embeddings(self) -> list[BaseException]:
        """Wait for the embeddings in the background and return the errors of those that failed, which are also logged.

        Of failures that nobody waited for the last hundred are kept.
        """
        tasks = [*self._tasks]
        here = asyncio.get_running_loop()
        waiting = [
            task if task.get_loop() is here else asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_finished(task), task.get_loop()))
            for task in tasks
        ]
        await asyncio.gather(*waiting, return_exceptions=True)
        return [self._failures.popleft() for _ in range(len(self._failures))]

    async def retrieve_relevant(self, session_id: str, query: str, k: int = 5, **options: Any) -> list[RetrievedItem]:
        """Return the ``k`` messages that are nearest to a question, best first."""
        retrieval, embed_fn = self._both()
        return await retrieve_relevant(session_id, query, embed_fn, retrieval, k, **options)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            _log.error("an embedding in the background failed: %s", error)
            self._failures.append(error)

    def _both(self) -> tuple[RetrievalBackend, EmbedFn]:
        if self.retrieval is None:
            raise NotConfigured("No retrieval backend configured", hint="SessionStore(memory, InMemoryEmbeddingStore(), config)")
        if self.config.embed_fn is None:
            raise NotConfigured("No embed_fn configured", hint="SessionStoreConfig(embed_fn=...)")
        return self.retrieval, self.config.embed_fn

    async def _embed(self, session_id: str, messages: list[dict[str, Any]]) -> None:
        retrieval, embed_fn = self._both()
        latest = {str(message["id"]): (text_of(message), message.get("role")) for message in messages}
        await self._forget(session_id, {key for key, (text, _) in latest.items() if not text})
        fresh = [(key, *rest) for key, rest in latest.items() if rest[0] and not await self._is_embedded(session_id, key, rest[0])]
        for first in range(0, len(fresh), _BATCH):
            batch = fresh[first : first + _BATCH]
            vectors = await embed(embed_fn, [text for _, text, _ in batch])
            for (key, text, role), vector in zip(batch, vectors, strict=True):
                await retrieval.add(session_id, key, vector, {"text": text, "role": role} if role else {"text": text})

    async def _is_embedded(self, session_id: str, message_id: str, text: str) -> bool:
        retrieval, _ = self._both()
        if not await retrieval.has_embedding(session_id, message_id):
            return False
        metadata_of = getattr(retrieval, "metadata_of", None)
        kept = await metadata_of(session_id, message_id) if metadata_of is not None else None
        return kept is None or kept.get("text", text) == text

    async def _ids(self, session_id: str) -> set[str]:
        if self.retrieval is None:
            return set()
        return {str(message["id"]) for message in await self.memory.load_context(session_id) if message.get("id") is not None}

    async def _forget(self, session_id: str, message_ids: set[str]) -> None:
        delete = getattr(self.retrieval, "delete", None)
        if message_ids and delete is not None:
            await delete(session_id, message_ids)


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message that is embedded: its content, or the text parts of it."""
    content = message.get("content")
    match content:
        case None:
            return ""
        case str():
            return content
        case {"text": str(text)} | {"content": str(text)} | {"data": str(text)}:
            return text
        case list():
            return "\n".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
        case _:
            return str(content)


async def _finished(task: asyncio.Task[None]) -> None:
    await task
