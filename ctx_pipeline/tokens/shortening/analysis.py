"""A file measured: how much its lines say, what every form of it costs and keeps, and which one to read."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.tokens.shortening.entropy import Spread, char_spread, token_spread
from ctx_pipeline.tokens.shortening.forms import FORMS, risk, shortened
from ctx_pipeline.tokens.shortening.hits import NOTICE_TOKENS
from ctx_pipeline.tokens.shortening.quality import FLOOR, Quality, quality
from ctx_pipeline.tokens.shortening.repeats import Repeat, repeats

if TYPE_CHECKING:
    from ctx_pipeline.tokens.shortening.source import Source
    from ctx_pipeline.tokens.tokenizers import Tokenizer

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
        [*rows, again(count(source.text))],
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


def again(raw: int) -> Row:
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
