"""Sentence vectors in numpy: the encoder against plain loops, and the real weights where they are installed."""

from __future__ import annotations

import math
from importlib import metadata

import numpy as np
import pytest

from ctx_pipeline.context.errors import EmbeddingFailed
from ctx_pipeline.context.retrieval import minilm
from ctx_pipeline.context.retrieval.embedding import ModelMissing, load_embedding

pytestmark = pytest.mark.feature("context.retrieval.sentence-model")
WIDTH, WIDE, HEADS, LAYERS, WORDS, PLACES = 8, 12, 2, 2, 11, 6


def installed():
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    try:
        metadata.distribution(minilm.PACKAGE)
    except metadata.PackageNotFoundError:
        pytest.skip(f"the weights are not installed: {minilm.INSTALL}")


def made_weights():
    random = np.random.default_rng(7)
    shapes = {
        "embeddings.word_embeddings.weight": (WORDS, WIDTH),
        "embeddings.position_embeddings.weight": (PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        for part, out, into in (
            ("attention.self.query", WIDTH, WIDTH),
            ("attention.self.key", WIDTH, WIDTH),
            ("attention.self.value", WIDTH, WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", WIDE, WIDTH),
            ("output.dense", WIDTH, WIDE),
        ):
            shapes |= {f"{name}{part}.weight": (out, into), f"{name}{part}.bias": (out,)}
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{name}{part}.weight": (WIDTH,), f"{name}{part}.bias": (WIDTH,)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def by_loops(weights, ids):
    """One text, one number at a time, in double precision, with the exact erf and no padding."""
    w = {name: value.astype(float).tolist() for name, value in weights.items()}

    def linear(x, name):
        return [sum(a * b for a, b in zip(x, row, strict=True)) + c for row, c in zip(w[name + ".weight"], w[name + ".bias"], strict=True)]

    def norm(x, name):
        mean = sum(x) / len(x)
        spread = math.sqrt(sum((a - mean) ** 2 for a in x) / len(x) + 1e-12)
        return [(a - mean) / spread * g + b for a, g, b in zip(x, w[name + ".weight"], w[name + ".bias"], strict=True)]

    def plus(x, y):
        return [a + b for a, b in zip(x, y, strict=True)]

    e = "embeddings."
    kind = w[e + "token_type_embeddings.weight"][0]
    words, places = w[e + "word_embeddings.weight"], w[e + "position_embeddings.weight"]
    states = [norm(plus(plus(words[one], places[at]), kind), e + "LayerNorm") for at, one in enumerate(ids)]
    for layer in range(LAYERS):
        n = f"encoder.layer.{layer}."
        query, key, value = ([linear(s, f"{n}attention.self.{part}") for s in states] for part in ("query", "key", "value"))
        size = WIDTH // HEADS
        after = []
        for at, state in enumerate(states):
            joined = []
            for head in range(HEADS):
                part = range(head * size, (head + 1) * size)
                shares = [math.exp(sum(query[at][d] * k[d] for d in part) / math.sqrt(size)) for k in key]
                joined += [sum(s * v[d] for s, v in zip(shares, value, strict=True)) / sum(shares) for d in part]
            mixed = norm(plus(state, linear(joined, n + "attention.output.dense")), n + "attention.output.LayerNorm")
            wide = [a * (1 + math.erf(a / math.sqrt(2))) / 2 for a in linear(mixed, n + "intermediate.dense")]
            after.append(norm(plus(mixed, linear(wide, n + "output.dense")), n + "output.LayerNorm"))
        states = after
    mean = [sum(s[d] for s in states) / len(states) for d in range(WIDTH)]
    length = math.sqrt(sum(a * a for a in mean))
    return [a / length for a in mean]


def test_the_encoder_gives_what_plain_loops_give_for_texts_of_any_length_in_one_batch():
    weights = made_weights()
    texts = [[1, 4, 2], [1, 9, 3, 10, 5, 2], [7]]

    vectors = minilm.sentence_vectors(weights, texts, heads=HEADS)

    assert vectors == pytest.approx(np.array([by_loops(weights, one) for one in texts]), abs=1e-5)


def test_without_the_weights_the_error_names_the_command_that_brings_them(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "a-package-that-nobody-installed")
    minilm._model.cache_clear()

    with pytest.raises(ModelMissing) as direct:
        minilm.embed(["a text"])
    with pytest.raises(EmbeddingFailed) as by_setting:
        load_embedding("ctx_pipeline.context.retrieval.minilm:embed")(["a text"])

    assert direct.value.hint == by_setting.value.hint == minilm.INSTALL
    assert minilm.embed([]).shape == (0, minilm.DIMENSIONS)


def test_the_real_weights_know_what_sentences_mean():
    installed()
    minilm._model.cache_clear()
    questions = ["the build fails because memory runs out", "who signs the release"]
    texts = ["", "Binaries are notarized before we publish them.", "The compiler was killed: not enough RAM.", "word " * 2_000]

    asked, found = minilm.embed(questions), minilm.embed(texts)

    assert (asked @ found.T).argmax(axis=1).tolist() == [2, 1]
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)


def test_a_vector_does_not_depend_on_the_texts_around_it():
    installed()
    minilm._model.cache_clear()
    texts = [f"{'a longer text of the same kind, ' * (n % 9)} number {n}" for n in range(80)]

    together = minilm.embed(texts)

    assert together == pytest.approx(np.concatenate([minilm.embed([one]) for one in texts]), abs=1e-5)
