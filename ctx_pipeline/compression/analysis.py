"""A file measured: how much its lines say, what every form of it costs and keeps, and which one to read."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression.forms import FORMS, Repeat, repeats, risk, shortened
from ctx_pipeline.compression.reductions import headings
from ctx_pipeline.compression.signatures.drawing import outline
from ctx_pipeline.compression.signatures.symbols import DATA, read
from ctx_pipeline.compression.source import NOTICE_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctx_pipeline.compression.source import Source
    from ctx_pipeline.tokens.tokenizers import Tokenizer

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


LOW_CHARS, HIGH_CHARS = 2.0, 4.0
"""Bits per character below which a line says little (a row of dashes), and above which it is dense (a hash, a data URL)."""

LOW_TOKENS, HIGH_TOKENS = 1.0, 3.0
"""The same in bits per token."""


class Spread(NamedTuple):
    """Entropy over the lines of a text that are not blank, in bits per unit."""

    unit: str
    """char or token"""
    mean: float
    low: int
    """lines below ``low_below``"""
    high: int
    """lines above ``high_above``"""
    lines: int
    """lines that are not blank"""
    low_below: float
    high_above: float


def entropy(units: Iterable[object]) -> float:
    """Return the Shannon entropy of a sequence in bits per unit: -sum(p log2 p); 0.0 for an empty one."""
    counts = Counter(units)
    total = sum(counts.values())
    if not total:
        return 0.0
    return max(0.0, math.log2(total) - sum(n * math.log2(n) for n in counts.values()) / total)


def char_spread(text: str) -> Spread:
    """Return the entropy of each line over its characters."""
    return _spread("char", [entropy(line) for line in _lines(text)], LOW_CHARS, HIGH_CHARS)


def token_spread(text: str, tokenize: Callable[[str], Sequence[int]]) -> Spread:
    """Return the entropy of each line over its tokens."""
    return _spread("token", [entropy(tokenize(line)) for line in _lines(text)], LOW_TOKENS, HIGH_TOKENS)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _spread(unit: str, found: list[float], low: float, high: float) -> Spread:
    mean = sum(found) / len(found) if found else 0.0
    return Spread(unit, mean, sum(h < low for h in found), sum(h > high for h in found), len(found), low, high)


WORTH = 0.9
"""Share of the raw tokens above which a form is not worth what it leaves out."""

AGAIN = "cache hit"
"""The row of a file that is in the context already: it costs :data:`NOTICE_TOKENS`, or the file where that is less."""


class Row(NamedTuple):
    """One form of a file. ``tokens`` and ``quality`` are None where the form has nothing to say of it."""

    form: str
    tokens: int | None
    saved: float
    """share of the raw tokens, 0 where nothing is saved"""
    quality: Quality | None
    risk: str


class Analysis(NamedTuple):
    """What was measured of one file."""

    lines: int
    tokens: int
    language: str | None
    chars: Spread
    by_token: Spread
    ratio: float
    """zlib-compressed bytes as a share of the bytes, 1.0 for an empty file"""
    compressibility: str
    """high below 0.3, medium below 0.6, else low"""
    repeats: list[Repeat]
    rows: list[Row]
    recommended: str
    reason: str


def analyzed(source: Source, tokenizer: Tokenizer) -> Analysis:
    """Return the measurements of a file and the form that fits best."""

    def count(text: str) -> int:
        return tokenizer.count_tokens(text).count

    rows = rows_of(source, tokenizer)
    recommended, reason = recommendation(rows)
    data = source.text.encode("utf-8", "replace")
    ratio = min(1.0, len(zlib.compress(data, 9)) / len(data)) if data else 1.0
    return Analysis(
        source.lines,
        rows[0].tokens or 0,
        source.language,
        char_spread(source.text),
        token_spread(source.text, lambda line: tokenizer.tokenize(line) or ()),
        ratio,
        "high" if ratio < 0.3 else "medium" if ratio < 0.6 else "low",
        repeats(source.text),
        [*rows, cached_row(count(source.text))],
        recommended,
        reason,
    )


def rows_of(source: Source, tokenizer: Tokenizer) -> list[Row]:
    """Return a row for each form, the raw text first."""

    def count(text: str) -> int:
        return tokenizer.count_tokens(text).count

    raw, rows = count(source.text), []
    for form in FORMS:
        text = shortened(source, form)
        if text is None:
            rows.append(Row(form, None, 0.0, None, risk(source, form)))
        else:
            rows.append(row(form, raw, count(text), quality(source, form, text), risk(source, form)))
    return rows


def row(form: str, raw: int, tokens: int, kept: Quality | None, lost: str) -> Row:
    """Return a row with what it saves."""
    return Row(form, tokens, max(0.0, 1 - tokens / raw) if raw else 0.0, kept, lost)


def cached_row(raw: int) -> Row:
    """Return the row of a file that is in the context already; its quality is not measured, since nothing is delivered."""
    return row(AGAIN, raw, min(NOTICE_TOKENS, raw), None, "none")


def recommendation(rows: list[Row]) -> tuple[str, str]:
    """Return the form to read and why: the fewest tokens of those that keep enough, are not empty and save a tenth; else the raw text."""
    raw = rows[0].tokens or 0
    fit = [r for r in rows[1:] if r.tokens and r.quality is not None and r.quality.score >= FLOOR and r.tokens <= WORTH * raw]
    if not raw:
        return "raw", "the file is empty"
    if not fit:
        return "raw", f"no form keeps a quality of {FLOOR:.0%} and saves {1 - WORTH:.0%} of the tokens"
    best = min(fit, key=lambda r: r.tokens or 0)
    score = best.quality.score if best.quality else 0.0
    warning = "; bodies are gone, so read the file before an edit" if best.risk == "high" else ""
    return best.form, f"the fewest tokens with a quality of {FLOOR:.0%} or more ({score:.0%}){warning}"
