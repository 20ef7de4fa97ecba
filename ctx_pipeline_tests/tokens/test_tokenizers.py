"""Counting tokens without a network."""

from __future__ import annotations

import socket

import pytest

from ctx_pipeline import FallbackWordCountTokenizer, ModelTokenizer, tokenizer_from_name
from ctx_pipeline.tokens.model_tokens import calibrate
from ctx_pipeline.tokens.tokenizers import encoding_of


@pytest.fixture
def _no_network(monkeypatch):
    def refuse(*_args, **_named):
        raise AssertionError("a tokenizer opened a socket")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.feature("tokens.offline")
@pytest.mark.usefixtures("_no_network")
@pytest.mark.parametrize(("model", "tokens"), [("gpt-4", [15339, 1917]), ("gpt-4o", [24912, 2375])])
def test_models_are_counted_exactly_without_a_network(model, tokens):
    tokenizer = tokenizer_from_name(model)

    assert tokenizer.tokenize("hello world") == tokens
    assert tokenizer.count_tokens("hello world").count == 2
    assert tokenizer.approximate is False
    assert tokenizer.count_many(["hello world", "", "hello"]) == [2, 0, 1]


@pytest.mark.feature("tokens.offline")
def test_special_words_count_as_text():
    assert tokenizer_from_name("gpt-4").count_tokens("<|endoftext|>").count > 1


@pytest.mark.feature("tokens.models")
@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("openai/gpt-4o-mini", "o200k_base"),
        ("openai:gpt-4", "cl100k_base"),
        ("gpt-4.1-nano", "o200k_base"),
        ("ft:gpt-3.5-turbo:acme::x1", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
        ("o200k_base", "o200k_base"),
        ("gpt-2", None),
        ("o10-something", None),
        ("claude-opus-4", None),
    ],
)
def test_a_model_names_its_encoding(model, encoding):
    assert encoding_of(model) == encoding


@pytest.mark.feature("tokens.calibrated")
def test_a_family_without_a_public_tokenizer_is_scaled_and_says_so():
    tokenizer = tokenizer_from_name("claude-sonnet-4")
    counted = tokenizer.count_tokens("one two three four five six seven eight nine ten")

    assert counted.approximate is True
    assert counted.count == 12
    assert tokenizer.calibration.pairs > 0
    assert tokenizer_from_name("claude-opus-4-7").count_tokens("one two three four five six seven eight nine ten").count == 16


@pytest.mark.feature("tokens.calibrated")
def test_calibration_is_the_weighted_median_and_ignores_an_outlier():
    found = calibrate([(100, 120), (200, 240), (10, 900), (0, 5)])

    assert found.factor == pytest.approx(1.2)
    assert found.pairs == 3


@pytest.mark.feature("tokens.fallback")
def test_words_are_counted_and_say_so(caplog):
    assert FallbackWordCountTokenizer().count_tokens("a b c d").count == 5
    assert FallbackWordCountTokenizer(tokens_per_word=1.0).count_tokens("a b  c\n").count == 3
    assert FallbackWordCountTokenizer().count_tokens("").count == 0
    assert FallbackWordCountTokenizer().tokenize("a") is None
    assert tokenizer_from_name("nobody-knows-this").approximate is True
    assert "nobody-knows-this" in caplog.text


@pytest.mark.feature("tokens.fallback")
def test_text_without_blanks_is_not_one_word():
    counter = FallbackWordCountTokenizer()

    assert counter.count_tokens("字" * 1000).count > 900
    assert counter.count_tokens("a=b;" * 500).count > 400
    assert counter.count_many(["字" * 1000]) == [counter.count_tokens("字" * 1000).count]


@pytest.mark.feature("tokens.fallback")
def test_only_text_is_counted():
    with pytest.raises(TypeError, match="a text is counted, not dict"):
        FallbackWordCountTokenizer().count_tokens({"a": 1})


@pytest.mark.feature("tokens.own")
def test_anything_with_encode_makes_a_tokenizer():
    class Letters:
        def encode(self, text):
            return [ord(letter) for letter in text]

    tokenizer = ModelTokenizer(Letters(), "letters")

    assert (tokenizer.name, tokenizer.tokenize("ab"), tokenizer.count_many(["abc", ""])) == ("letters", [97, 98], [3, 0])
