"""Calling embedding functions of any kind, and checking what they give back."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import EmbeddingFailed, InvalidVector
from ctx_pipeline.errors import CtxError, SettingsError

if TYPE_CHECKING:
    import numpy as np


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
        said, hint = (error.message, error.hint) if isinstance(error, CtxError) else (str(error), "")
        raise EmbeddingFailed(f"the embedding function failed for {len(asked)} texts: {said}", hint=hint, texts=len(asked)) from error
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


# The embedding function that a person named in the settings.


def load_embedding(name: str) -> Callable[[Sequence[str]], np.ndarray]:
    """Return what turns texts into an array of vectors of length one, from a name such as ``package.module:function``.

    Raises SettingsError where there is no such function; what is returned raises
    EmbeddingFailed where the function fails or gives something else than one vector a text.
    """
    module, _, attribute = name.partition(":")
    try:
        found: EmbedFn = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"memory.embedder {name!r} cannot be loaded: {error}", hint="take it out of config.toml, or install it"
        ) from error
    if not callable(found):
        raise SettingsError(f"memory.embedder {name!r} is no function", hint='write it as embedder = "package.module:function"')

    def vectors(texts: Sequence[str]) -> np.ndarray:
        import numpy as np

        made = np.asarray(asyncio.run(embed(found, texts)), dtype=np.float32)
        if made.ndim != 2:
            raise EmbeddingFailed(f"{name} gave no vectors", texts=len(texts))
        length = np.linalg.norm(made, axis=1, keepdims=True)
        unit: np.ndarray = np.divide(made, length, out=np.zeros_like(made), where=length > 0)
        return unit

    return vectors


# Real embeddings without a key or a network: a small model whose weights come with a package.


DIMENSIONS = 256


class ModelMissing(CtxError, ImportError):
    """The package with the model is not installed."""


def packaged_embed_fn(texts: list[str]) -> np.ndarray:
    """Return one vector of 256 dimensions for each text, unit length, from static word vectors.

    Needs the extra ``embeddings`` (18 MB). It is good enough to tell subjects apart and
    weaker than a sentence transformer; texts of unknown words give zeros. Raises
    ModelMissing without the extra.
    """
    import numpy as np

    tokenizer, weights = _model()
    out = np.zeros((len(texts), weights.shape[1]), dtype=np.float32)
    for place, found in enumerate(tokenizer.encode_batch(list(texts), add_special_tokens=False)):
        if found.ids:
            mean = weights[found.ids].astype(np.float32).mean(axis=0)
            size = float(np.linalg.norm(mean))
            out[place] = mean / size if size else mean
    return out


@lru_cache(maxsize=1)
def _model() -> tuple[Any, np.ndarray]:
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        found = find_spec("wordllama")
    except ImportError:
        found = None
    if found is None or not found.submodule_search_locations:
        raise ModelMissing("the packaged embedding model is not installed", hint="pip install 'ctx-pipeline[embeddings]'")
    # the package's own loader (0.4.0) looks outside its folder for the tokenizer and then downloads it
    folder = Path(found.submodule_search_locations[0])
    weights = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    return Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")), weights
