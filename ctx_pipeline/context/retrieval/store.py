"""What keeps vectors, and the store that keeps them in memory."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ctx_pipeline.context.errors import InvalidVector
from ctx_pipeline.context.interactions import check_count, messages_of
from ctx_pipeline.context.retrieval.embedding import EmbedFn, embed, vector_of
from ctx_pipeline.context.sync_adapter import HasSync
from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np

    from ctx_pipeline.context.backends.memory_backend import MemoryBackend


@dataclass(frozen=True)
class RetrievedItem:
    """A message that was found: its id, its cosine similarity (-1 to 1), what was kept with its vector."""

    message_id: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class RetrievalBackend(Protocol):
    """Keeps vectors of messages by session; any class with these methods will do.

    ``delete(session_id, message_ids=None)`` and ``metadata_of(session_id, message_id)``
    are used where a backend has them: without the first, deleted messages stay findable.
    """

    async def add(self, session_id: str, message_id: str, vector: Any, metadata: dict[str, Any] | None = None) -> None:
        """Keep the vector of a message, in place of an older one."""

    async def search(self, session_id: str, query_vector: Any, k: int) -> list[RetrievedItem]:
        """Return the ``k`` nearest messages, best first."""

    async def has_embedding(self, session_id: str, message_id: str) -> bool:
        """Return whether a message has a vector."""


class InMemoryEmbeddingStore(HasSync):
    """Keeps vectors in this process and searches them exactly, by cosine similarity."""

    def __init__(self) -> None:
        self._sessions: dict[str, _VectorRows] = {}
        self._lock = threading.Lock()

    async def add(self, session_id: str, message_id: str, vector: Any, metadata: dict[str, Any] | None = None) -> None:
        """Keep the vector of a message, in place of an older one.

        Raises InvalidVector for NaN, for other dimensions than the session's first vector
        has, and for anything that is no vector.
        """
        self.put(session_id, message_id, vector_of(vector), copy.deepcopy(metadata or {}))

    def put(self, session_id: str, message_id: str, values: list[float], metadata: dict[str, Any]) -> None:
        """Keep a vector that was checked, and the metadata itself, without a copy."""
        with self._lock:
            shelf = self._sessions.get(session_id)
            if shelf is None:
                shelf = self._sessions[session_id] = _VectorRows(len(values))
            shelf.put(message_id, values, metadata)

    def take(self, session_id: str, other: InMemoryEmbeddingStore) -> None:
        """Have of a session what another store has, at once; the other one is not used any more."""
        with self._lock:
            shelf = other._sessions.get(session_id)
            if shelf is None:
                self._sessions.pop(session_id, None)
            else:
                self._sessions[session_id] = shelf

    async def search(
        self,
        session_id: str,
        query_vector: Any,
        k: int = 5,
        *,
        threshold: float | None = None,
        where: Mapping[str, Any] | Callable[[dict[str, Any]], bool] | None = None,
    ) -> list[RetrievedItem]:
        """Return up to ``k`` messages, most similar first, ties in the order they were added.

        ``threshold`` is the least similarity; ``where`` names values of the metadata, or is
        a function of it. A query without direction (all zeros), an unknown session and
        ``k`` below one find nothing. Raises InvalidVector for other dimensions.
        """
        check_count(k)
        query = vector_of(query_vector)
        with self._lock:
            shelf = self._sessions.get(session_id)
            return shelf.nearest(query, k, threshold, _filter(where)) if shelf and k > 0 else []

    async def has_embedding(self, session_id: str, message_id: str) -> bool:
        """Return whether a message has a vector."""
        with self._lock:
            return session_id in self._sessions and message_id in self._sessions[session_id].rows

    async def metadata_of(self, session_id: str, message_id: str) -> dict[str, Any] | None:
        """Return what was kept with a vector, or None when there is none."""
        with self._lock:
            shelf = self._sessions.get(session_id)
            row = shelf.rows.get(message_id) if shelf else None
            return copy.deepcopy(shelf.metadata[row]) if shelf and row is not None else None

    async def delete(self, session_id: str, message_ids: Iterable[str] | None = None) -> int:
        """Forget vectors: of these messages, or of the whole session. Return how many there were."""
        with self._lock:
            shelf = self._sessions.get(session_id)
            if shelf is None:
                return 0
            gone = set(shelf.rows) if message_ids is None else set(message_ids) & set(shelf.rows)
            if len(gone) == len(shelf.rows):
                del self._sessions[session_id]
            elif gone:
                shelf.drop(gone)
            return len(gone)


class _VectorRows:
    """The vectors of a session: unit length, float32, in a matrix that doubles when it is full."""

    def __init__(self, dim: int) -> None:
        import numpy as np

        self.dim = dim
        self.rows: dict[str, int] = {}
        self.ids: list[str] = []
        self.metadata: list[dict[str, Any]] = []
        self.matrix = np.zeros((64, dim), dtype=np.float32)

    def put(self, message_id: str, values: list[float], metadata: dict[str, Any]) -> None:
        import numpy as np

        if len(values) != self.dim:
            raise InvalidVector(
                f"Expected embedding dimension {self.dim}, {message_id!r} has {len(values)}",
                hint="embed a whole session with one model; delete its vectors before you change it",
            )
        row = self.rows.get(message_id)
        if row is None:
            row = len(self.ids)
            if row == len(self.matrix):
                self.matrix = np.concatenate([self.matrix, np.zeros_like(self.matrix)])
            self.rows[message_id] = row
            self.ids.append(message_id)
            self.metadata.append(metadata)
        else:
            self.metadata[row] = metadata
        self.matrix[row] = unit(values)

    def drop(self, gone: set[str]) -> None:
        kept = [row for row, key in enumerate(self.ids) if key not in gone]
        self.matrix = self.matrix[kept].copy()
        self.ids = [self.ids[row] for row in kept]
        self.metadata = [self.metadata[row] for row in kept]
        self.rows = {key: row for row, key in enumerate(self.ids)}

    def nearest(
        self, query: list[float], k: int, threshold: float | None, wanted: Callable[[dict[str, Any]], bool] | None
    ) -> list[RetrievedItem]:
        import numpy as np

        if len(query) != self.dim:
            raise InvalidVector(f"Expected embedding dimension {self.dim}, the query has {len(query)}")
        direction = unit(query)
        if not direction.any():
            return []
        # a product of the linear algebra library sums rows in different orders, so that equal vectors would not tie,
        # and waits for its threads on a busy machine
        scores = np.einsum("ij,j->i", self.matrix[: len(self.ids)], direction)
        rows = np.arange(len(scores))
        if wanted is not None:
            rows = np.fromiter((row for row in rows if wanted(self.metadata[row])), dtype=np.int64)
        if threshold is not None:
            rows = rows[scores[rows] >= threshold]
        if k < len(rows):
            # everything as good as the k-th stays until ties are settled by insertion
            least = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
            rows = rows[scores[rows] >= least]
        best = rows[np.argsort(-scores[rows], kind="stable")][:k]
        return [RetrievedItem(self.ids[row], float(scores[row]), copy.deepcopy(self.metadata[row])) for row in best]


def unit(values: list[float]) -> np.ndarray:
    """Return a vector of unit length in float32, of whatever size the values are; zeros stay zeros."""
    import numpy as np

    vector = np.asarray(values, dtype=np.float64)
    largest = np.abs(vector).max()
    if not largest:
        return vector.astype(np.float32)
    vector = vector / largest  # squares of very large or small values would leave the range
    unit: np.ndarray = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def _filter(where: Mapping[str, Any] | Callable[[dict[str, Any]], bool] | None) -> Callable[[dict[str, Any]], bool] | None:
    if where is None or callable(where):
        return where
    wanted = dict(where)
    return lambda metadata: all(metadata.get(name) == value for name, value in wanted.items())


async def retrieve_relevant(
    session_id: str, query: str, embed_fn: EmbedFn, store: RetrievalBackend, k: int = 5, **options: Any
) -> list[RetrievedItem]:
    """Return the ``k`` messages of a session that are nearest to a question, best first.

    Options such as ``threshold`` and ``where`` go to the store's search. Raises
    EmbeddingFailed when the question cannot be embedded.
    """
    check_count(k)
    vector = (await embed(embed_fn, [query]))[0]
    return await store.search(session_id, vector, k, **options)


# Messages and their embeddings as one store.


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
