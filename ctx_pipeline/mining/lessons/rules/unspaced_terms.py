"""Words of Korean, Japanese and Chinese that say what a rule is about, without particles, endings and words of order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGN = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_RUN = lazy_pattern(
    r"[\uac00-\ud7af]+|[\u30a0-\u30ff]+|[\u3400-\u9fff\uf900-\ufaff\u3005]+|[^\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
"""Hangul, katakana, Han signs, and what is written in other letters; hiragana are endings and particles."""

_HANGUL, _KATAKANA, _KANA = lazy_pattern(r"[\uac00-\ud7af]"), lazy_pattern(r"[\u30a0-\u30ff]"), lazy_pattern(r"[\u3040-\u30ff]")
_KOREAN_ENDING = lazy_pattern(
    r"(?<=[\uac00-\ud7af])(?:(?:해|하여)\s?(?:주세요|주십시오|줘요?|라|야\s?\S*|요)|하(?:세요|십시오|지|기|고|자|면|라|는|도록|였\S*)|합(?:니다|시다)"
    r"|한다|할|해|되지|됩니다|된다|되어\S*|에서는|에서도|에서|에게|에는|에도|으로는|으로|로는|까지|부터|보다|마다|이나|은|는|이|가|을|를|에|로|의|와|과|도|만)$"
)
"""Particles behind a noun and endings of "to do" behind a Korean verb's noun."""

_KOREAN_ORDER_TEXT = """
    마 마라 마세요 마십시오 말 말고 말아 말아줘 주세요 주십시오 줘 것 꼭 항상 절대 절대로 반드시 하지 해 하세요 대신
"""
_KOREAN_ORDER = frozenset(_KOREAN_ORDER_TEXT.split())
_JAPANESE_ORDER = frozenset(["必", "決", "常", "絶対", "下", "事", "時"])
_CHINESE_ORDER = lazy_pattern(
    r"永远|千万|绝对|绝不|不要|不用|不得|不能|禁止|必须|务必|始终|一律|总是|总要|以后|今后|记得|直接|之前|之后|都要|使用|请|勿|别|先|要|再|都|的|了|到|在|把|被|对|用|前|后|时|就|之"
)
"""Words that order something, or join the words that say what."""


def unspaced_terms(token: str, *, japanese: bool) -> Iterator[str]:
    """Yield the words of a token with signs of these scripts; Chinese, which has no blanks, as every two signs that follow on each other.

    ``japanese`` says that the sentence has kana: a run of Han signs is one word there.
    """
    for run in _RUN.findall(token):
        if SIGN.search(run) is None or _KATAKANA.match(run):
            yield run
        elif _HANGUL.match(run):
            word = _KOREAN_ENDING.sub("", run)
            if run not in _KOREAN_ORDER and word not in _KOREAN_ORDER:
                yield word
        elif japanese:
            yield from (run,) if run not in _JAPANESE_ORDER else ()
        else:
            for part in _CHINESE_ORDER.split(run):
                yield from map("".join, pairwise(part)) if len(part) > 1 else filter(None, (part,))


def has_kana(text: str) -> bool:
    """Tell whether a text has signs that Japanese alone is written with."""
    return _KANA.search(text) is not None
