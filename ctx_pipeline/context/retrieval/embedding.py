"""Calling embedding functions of any kind, and checking what they give back."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ctx_pipeline.context.errors import EmbeddingFailed, InvalidVector

EmbedFn = Callable[[list[str]], Any | Awaitable[Any]]
"""Texts in, one vector each out: sync or async, lists or numpy arrays."""


async def embed(embed_fn: EmbedFn, texts: Sequence[str]) -> list[list[float]]:
    """Return one checked vector for each text; a sync function runs in a thread, so that the event loop goes on.

    Raises EmbeddingFailed, with the cause, when the function raises or gives back
    something else.
    """
    asked = list(texts)
    if not asked:
        return []
    try:
        asynchronous = inspect.iscoroutinefunction(embed_fn) or inspect.iscoroutinefunction(getattr(embed_fn, "__call__", None))  # noqa: B004
        made = embed_fn(asked) if asynchronous else await asyncio.to_thread(embed_fn, asked)
        if inspect.isawaitable(made):
            made = await made
        vectors = validate_vectors(made)
    except Exception as error:
        raise EmbeddingFailed(f"the embedding function failed for {len(asked)} texts: {error}", texts=len(asked)) from error
    if len(vectors) != len(asked):
        raise EmbeddingFailed(
            f"the embedding function gave {len(vectors)} vectors for {len(asked)} texts", hint="return one vector for each text, in order"
        )
    return vectors


def validate_vectors(vectors: Any, expected_dim: int | None = None) -> list[list[float]]:
    """Return vectors as lists of floats, all of one length.

    Takes lists, tuples and numpy arrays. Raises InvalidVector (a ValueError) for anything
    else, for different lengths, and for values that are no finite numbers.
    """
    if hasattr(vectors, "tolist"):
        vectors = vectors.tolist()
    if not isinstance(vectors, (list, tuple)):
        raise InvalidVector(f"embeddings must be a list of vectors, not {type(vectors).__name__}")
    return [vector_of(vector, expected_dim if expected_dim or not place else None, place, vectors) for place, vector in enumerate(vectors)]


def vector_of(vector: Any, expected_dim: int | None = None, place: int = 0, others: Sequence[Any] = ()) -> list[float]:
    """Return one vector as floats. Raises InvalidVector like :func:`validate_vectors`."""
    if hasattr(vector, "tolist"):
        vector = vector.tolist()
    if not isinstance(vector, (list, tuple)):
        raise InvalidVector(f"vector {place} is not a list: {type(vector).__name__}")
    if not vector:
        raise InvalidVector(f"vector {place} is empty")
    size = len(vector)
    if others and expected_dim is None and size != len(others[0]):
        raise InvalidVector(f"vector {place} has {size} dimensions, expected {len(others[0])}")
    if expected_dim is not None and size != expected_dim:
        raise InvalidVector(f"Expected embedding dimension {expected_dim}, vector {place} has {size}")
    try:
        total = math.fsum(vector)
    except (TypeError, OverflowError, ValueError) as error:
        raise InvalidVector(f"vector {place} holds non-numeric values") from error
    if not math.isfinite(total):
        raise InvalidVector(f"vector {place} holds NaN or infinity")
    return [float(value) for value in vector]


def infer_embedding_dim(vectors: Any) -> int:
    """Return the length of the vectors. Raises InvalidVector for an empty list or what is no list."""
    if hasattr(vectors, "tolist"):
        vectors = vectors.tolist()
    if not isinstance(vectors, (list, tuple)):
        raise InvalidVector("embeddings: not a list")
    if not vectors:
        raise InvalidVector("embeddings: empty list")
    return len(vector_of(vectors[0]))
