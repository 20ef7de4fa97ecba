"""What a form of a file still tells, measured by reading what it produced."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.tokens.shortening.data_forms import headings
from ctx_pipeline.tokens.signatures.drawing import outline
from ctx_pipeline.tokens.signatures.languages import DATA
from ctx_pipeline.tokens.signatures.notation import read

if TYPE_CHECKING:
    from ctx_pipeline.tokens.shortening.source import Source

FLOOR = 0.7
"""Score below which a form is not recommended."""

_IDENTIFIER = re.compile(r"[^\W\d]\w{2,}")
_WORD = re.compile(r"\w+")
_DRAWN = frozenset({"signatures", "map"})


class Quality(NamedTuple):
    """Shares from 0 to 1."""

    structure: float
    """declarations found again with kind and name; of data and text without any: lines that are still there"""
    identifiers: float
    """code: distinct names of three letters or more, comments left out, found again as whole words; else all distinct words"""
    score: float
    """code: 0.7 structure + 0.3 identifiers; prose and data: 0.3 structure + 0.7 words"""


def quality(source: Source, form: str, text: str | None) -> Quality:
    """Return what a form kept: declarations by parsing the form, names by looking for them; nothing is kept by an empty one."""
    if text is None or (not text.strip() and source.text.strip()):
        return Quality(0.0, 0.0, 0.0)
    if form == "raw":
        return Quality(1.0, 1.0, 1.0)
    code = source.language not in DATA and bool(source.outline.symbols)
    word = _IDENTIFIER if code else _WORD
    names = set(word.findall(source.bare if code else source.text))
    identifiers = len(names & set(word.findall(text))) / len(names) if names else 1.0
    structure = _structure(source, form, text)
    return Quality(structure, identifiers, 0.7 * structure + 0.3 * identifiers if code else 0.3 * structure + 0.7 * identifiers)


def _structure(source: Source, form: str, text: str) -> float:
    wanted = Counter((symbol.kind, _plain(symbol.kind, symbol.name)) for symbol in source.outline.symbols)
    if not wanted:
        lines = {line.strip() for line in source.text.splitlines() if line.strip()}
        kept = {line.strip() for line in text.splitlines()}
        return 1.0 if source.language in DATA and form == "aggressive" else len(lines & kept) / len(lines) if lines else 1.0
    if form in _DRAWN:
        found = Counter((kind, _plain(kind, name)) for kind, name in read(text))
    else:
        again = headings(text) if source.language == "markdown" else outline(text, source.language)
        found = Counter((symbol.kind, _plain(symbol.kind, symbol.name)) for symbol in again.symbols)
    return (wanted & found).total() / wanted.total()


def _plain(kind: str, name: str) -> str:
    """Return a name as a signature gives it back: an implementation without its type parameters."""
    return name.partition("<")[0] if kind == "implementation" else name
