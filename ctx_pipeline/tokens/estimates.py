"""About how many tokens a text has, where there is no time to load an encoding."""

from __future__ import annotations

from ctx_pipeline.model.lazy_pattern import lazy_pattern

_PIECES = lazy_pattern(r"[^\r\n\w]?[^\W\d_]+|\d{1,3}| ?(?:[^\s\w]|_)+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
"""As o200k_base cuts a text before it looks for tokens in each piece: words with what stands before them, three digits, signs, blanks."""

_LETTERS, _SIGNS = 5, 2
"""Letters of a token in a long word, and different signs of one in a run of them: the nearest over 807 recorded outputs."""

_DENSE = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
"""A sign of Chinese, Japanese or Korean."""

_DENSE_LETTERS = 1.5
"""Such signs of a token: 1.4 in Chinese and Japanese, 1.6 in Korean."""

_PART = 32_768
"""Characters at either end that stand for a text longer than both."""


def near_count(text: str) -> int:
    """Return about how many tokens of o200k_base a text has, in a millisecond for ten thousand characters.

    Half of the recorded outputs of commands are within 8 %, nine of ten within 20 %; the
    encoding itself takes a quarter of a second to load.
    """
    if len(text) > 2 * _PART:
        return (near_count(text[:_PART]) + near_count(text[-_PART:])) * len(text) // (2 * _PART)
    return sum(map(_tokens, _PIECES.findall(text)))


def _tokens(piece: str) -> int:
    bare = piece.strip()
    if not bare or bare[0].isdigit():
        return 1
    if bare[-1].isalpha():
        dense = 0 if bare.isascii() else len(_DENSE.findall(bare))
        return max(1, round(dense / _DENSE_LETTERS + (len(bare) - dense) / _LETTERS))
    return 1 if len(set(bare)) == 1 else -(-len(bare) // _SIGNS)
