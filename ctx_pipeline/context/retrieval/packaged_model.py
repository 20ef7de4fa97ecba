"""Real embeddings without a key or a network: a small model whose weights come with a package."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import CtxError

if TYPE_CHECKING:
    import numpy as np

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
