"""The forms of a file: what each way to shorten it makes of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.model.display import truncate
from ctx_pipeline.tokens.shortening.data_forms import compact
from ctx_pipeline.tokens.shortening.data_shape import shape
from ctx_pipeline.tokens.shortening.repeats import without_repeats
from ctx_pipeline.tokens.signatures.languages import CODE, DATA
from ctx_pipeline.tokens.signatures.notation import lines

if TYPE_CHECKING:
    from ctx_pipeline.tokens.shortening.source import Source

FORMS = {
    "raw": "the text as it is",
    "aggressive": "code without comments and blank lines; JSON, YAML, tables and Markdown by rules of their own",
    "entropy": "copies of blocks become pointers, opaque runs are cut",
    "signatures": "every declaration with its signature and the first line of its documentation",
    "map": "imports, exports, and the signatures that others see; of data its keys, columns and types",
}
"""form -> what it keeps"""

RISKS = {"raw": "none", "aggressive": "low", "entropy": "low", "signatures": "high", "map": "high"}
"""form -> how much a reader may miss: ``none``; ``low``: comments or copies; ``high``: bodies are gone, read the file before an edit"""

_OPAQUE = re.compile(r"[A-Za-z0-9+/=_-]{240,}")
_MARKS = dict.fromkeys(("bash", "elixir", "python", "ruby", "yaml"), "# ") | dict.fromkeys(("haskell", "lua"), "-- ")
_MARKS |= dict.fromkeys(set(CODE) - set(_MARKS), "// ")
"""language -> what opens a comment, so that a pointer is none of its code"""

_SHOWN = 24
_WIDEST = 100


def shortened(source: Source, form: str) -> str | None:
    """Return a file in a form, None where the form has nothing to say of it (signatures of a table, say)."""
    if form == "raw":
        return source.text
    if form == "aggressive":
        if source.language in DATA:
            return compact(source.text, source.language)
        return source.bare
    if form == "entropy":
        return _OPAQUE.sub(_cut, without_repeats(source.text, _MARKS.get(source.language or "", "")))
    if form == "map" and source.language in DATA and source.language != "markdown":
        return shape(source.text, source.language)
    symbols = source.outline.symbols
    if form == "signatures":
        return "\n".join(lines(symbols)) or None
    seen = [symbol._replace(doc="") for symbol in symbols if symbol.exported or not symbol.level]
    found = source.outline
    parts = [
        f"deps: {', '.join(map(_name, found.imports))}" if found.imports else "",
        f"exports: {', '.join(map(_name, found.exports))}" if found.exports else "",
        "\n".join(lines(seen)),
    ]
    return "\n".join(filter(None, parts)) or None


def risk(source: Source, form: str) -> str:
    """Return how much a reader of a form may miss; data in its shortened form loses nothing."""
    lossless = form == "aggressive" and source.language in {"json", "jsonl", "csv", "tsv"}
    return "none" if lossless else RISKS[form]


def _cut(match: re.Match[str]) -> str:
    """Return the ends of a run that nobody reads (base64, a hash list), and how long it is."""
    text = match[0]
    return f"{text[:_SHOWN]}…({len(text):,} characters)…{text[-8:]}"


def _name(text: str) -> str:
    return truncate(text, _WIDEST)
