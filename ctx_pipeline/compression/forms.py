"""The forms of a file: what each way to shorten it makes of it."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.compression.reductions import compact, yaml_values
from ctx_pipeline.compression.signatures.symbols import CODE, DATA, lines
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from ctx_pipeline.compression.source import Source


# Blocks of a text that repeat an earlier one, exactly or nearly.


LIKE = 0.7
"""Jaccard similarity of word pairs from which a block counts as a copy of another."""

LEAST_LINES = 3
"""Lines of the shortest block that is looked at; shorter ones are alike by chance."""

_HOLDERS = 50
"""Earlier blocks with a pair of words that are looked at; else time would grow with the square of the blocks."""

_WORD = re.compile(r"\w+|[^\w\s]")


class Block(NamedTuple):
    """Lines between blank ones."""

    first: int
    """from 1"""
    last: int
    lines: tuple[str, ...]


class Repeat(NamedTuple):
    """A block that says again what an earlier one said."""

    block: Block
    of: Block
    likeness: float
    """Jaccard similarity of their word pairs, 1.0 for the same words in the same order"""


def blocks(text: str) -> list[Block]:
    """Return the blocks of a text: runs of lines that are not blank."""
    found: list[Block] = []
    held: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            held.append(line)
        elif held:
            found.append(Block(number - len(held), number - 1, tuple(held)))
            held = []
    return found


def repeats(text: str, like: float = LIKE) -> list[Repeat]:
    """Return the blocks that are like an earlier one, in their order, each with the earlier block that it is most like.

    Compared is what stands in the blocks (pairs of words), never where they stand; an
    original is never itself a copy, and of equally like ones the first counts.
    """
    originals: list[tuple[Block, frozenset[tuple[str, str]]]] = []
    holders: dict[tuple[str, str], list[int]] = {}
    found: list[Repeat] = []
    same: dict[tuple[str, ...], Block] = {}
    for block in blocks(text):
        if len(block.lines) < LEAST_LINES:
            continue
        stripped = tuple(line.strip() for line in block.lines)
        if stripped in same:
            found.append(Repeat(block, same[stripped], 1.0))
            continue
        words = _WORD.findall("\n".join(block.lines))
        pairs = frozenset(pairwise(words))
        shared: Counter[int] = Counter()
        for pair in pairs:
            shared.update(holders.get(pair, ()))
        best, of = 0.0, None
        for place, common in sorted(shared.items()):
            alike = common / (len(pairs) + len(originals[place][1]) - common)
            if alike > best:
                best, of = alike, originals[place][0]
        if of is not None and best >= like:
            found.append(Repeat(block, of, best))
            continue
        for pair in pairs:
            known = holders.setdefault(pair, [])
            if len(known) < _HOLDERS:
                known.append(len(originals))
        same[stripped] = block
        originals.append((block, pairs))
    return found


def without_repeats(text: str, mark: str = "") -> str:
    """Return the text with a pointer in place of each repeated block; a line that its original does not have stays behind it.

    ``mark`` stands before each pointer: what opens a comment in the language of the text.
    So every line of the text is still there at least once. A copy stays whole where the
    pointer would be longer than what it replaces.
    """
    lines = text.split("\n")
    for repeat in reversed(repeats(text)):
        known = {line.strip() for line in repeat.of.lines}
        own = [line for line in repeat.block.lines if line.strip() not in known]
        indent = re.match(r"\s*", repeat.block.lines[0])
        pointer = f"{indent[0] if indent else ''}{mark}… as lines {repeat.of.first}-{repeat.of.last}{' but:' if own else ''}"
        if len(pointer) + sum(map(len, own)) < sum(map(len, repeat.block.lines)):
            lines[repeat.block.first - 1 : repeat.block.last] = [pointer, *own]
    return "\n".join(lines)


_DEEPEST = 6
_MOST_KEYS = 40
_LOOKED_AT = 500
"""Members of a list that are looked at."""

LONGEST = 4_000
"""Characters of a shape."""


def shape(text: str, language: str | None) -> str | None:
    """Return the shape of JSON, YAML or a table, None for another language and for what is not of its format.

    An object is ``{key:type}``, a list ``[12*type]``; ``s`` is a string, ``n`` a number,
    ``b`` a boolean, ``∅`` null; a key that some members of a list lack has a ``?``.
    """
    try:
        if language == "json":
            found = _of([json.loads(text)], 0)
        elif language == "jsonl":
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
            found = f"{len(rows):,} line{'s' * (len(rows) != 1)} of {_of(rows[:_LOOKED_AT], 0)}"
        elif language == "yaml":
            values = yaml_values(text)
            if values is None:
                return None
            found = _of(values, 0)
        elif language in {"csv", "tsv"}:
            found = _table(text, "," if language == "csv" else "\t")
        else:
            return None
    except (ValueError, RecursionError, csv.Error):
        return None
    return truncate(found, LONGEST)


def _of(values: list[Any], depth: int) -> str:
    """Return the shape that some values have together, the alternatives joined by a bar."""
    parts: dict[str, None] = {}
    objects = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    for value in values:
        if value is None:
            parts["∅"] = None
        elif isinstance(value, bool):
            parts["b"] = None
        elif isinstance(value, int | float):
            parts["n"] = None
        elif not isinstance(value, dict | list):
            parts["s"] = None
    if lists:
        inner = [one for held in lists for one in held[:_LOOKED_AT]][:_LOOKED_AT]
        size = f"{len(lists[0]):,}*" if len(lists) == 1 else ""
        parts[f"[{size}{_of(inner, depth + 1)}]" if inner and depth < _DEEPEST else "[]" if not inner else "[…]"] = None
    if objects:
        parts[_object(objects, depth)] = None
    return "|".join(parts)


def _object(objects: list[dict[Any, Any]], depth: int) -> str:
    if depth >= _DEEPEST:
        return "{…}"
    keys = list(dict.fromkeys(key for one in objects for key in one))
    cells = []
    for key in keys[:_MOST_KEYS]:
        held = [one[key] for one in objects if key in one]
        cells.append(f"{key}{'?' if len(held) < len(objects) else ''}:{_of(held, depth + 1)}")
    more = [f"+{len(keys) - _MOST_KEYS}"] if len(keys) > _MOST_KEYS else []
    return "{" + ",".join([*cells, *more]) + "}"


def _table(text: str, delimiter: str) -> str:
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    heads = next(rows, [])
    looked = list(islice(rows, _LOOKED_AT))
    count = len(looked) + sum(1 for _ in rows)
    kinds = []
    for place, head in enumerate(heads[:_MOST_KEYS]):
        cells = [row[place] for row in looked if place < len(row) and row[place]]
        number = bool(cells) and all(re.fullmatch(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", cell) for cell in cells)
        kinds.append(f"{head}:{'n' if number else 's'}")
    more = [f"+{len(heads) - _MOST_KEYS}"] if len(heads) > _MOST_KEYS else []
    return f"{count:,} row{'s' * (count != 1)} of ({','.join([*kinds, *more])})"


FORMS = {
    "raw": "the text as it is",
    "aggressive": "code without comments and blank lines; JSON, YAML, tables and Markdown by rules of their own",
    "entropy": "copies of blocks become pointers, opaque runs are cut",
    "signatures": "every declaration with its signature, its lines and the first line of its documentation",
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
        return "\n".join(lines(symbols, located=True)) or None
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
