"""The embedding function that a person named in the settings."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from ctx_pipeline.context.errors import EmbeddingFailed
from ctx_pipeline.context.retrieval.embedding import embed
from ctx_pipeline.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from ctx_pipeline.context.retrieval.embedding import EmbedFn


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
