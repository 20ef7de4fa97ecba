"""What keeps vectors, and the store that keeps them in memory."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ctx_pipeline.context.errors import InvalidVector
from ctx_pipeline.context.interactions import check_count
from ctx_pipeline.context.retrieval.embedding import EmbedFn, embed, vector_of
from ctx_pipeline.context.sync_adapter import HasSync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np


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
