"""Data, prose and code without what carries no meaning: JSON, YAML, tables, Markdown, comments."""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.compression.signatures.drawing import outline
from ctx_pipeline.compression.signatures.grammars import GRAMMARS, ends_soon
from ctx_pipeline.compression.signatures.symbols import Outline, Symbol

if TYPE_CHECKING:
    from ast_grep_py import SgNode


# YAML read without what a file can do to its reader.


DEEPEST = 200
"""Collections inside each other that are read: a loader in C ends the whole process at some ten thousand."""


def yaml_values(text: str) -> list[Any] | None:
    """Return the value of each document of a text, None where aliases repeat parts of it.

    Raises ValueError for what is no YAML, or nested deeper than :data:`DEEPEST`.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    opening = (yaml.BlockSequenceStartToken, yaml.BlockMappingStartToken, yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
    closing = (yaml.BlockEndToken, yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
    depth = 0
    try:
        for token in yaml.scan(text, Loader=loader):
            if isinstance(token, yaml.AliasToken):
                return None
            depth += isinstance(token, opening) - isinstance(token, closing)
            if depth > DEEPEST:
                raise ValueError(f"more than {DEEPEST} collections inside each other")
        return list(yaml.load_all(text, Loader=loader))
    except (yaml.YAMLError, LookupError, AttributeError, RecursionError) as error:
        # a tag that its value does not fit (!!bool x, !!timestamp x) is told by any of these
        raise ValueError(f"no YAML: {error}") from error


# Data and prose without what carries no meaning: JSON, YAML, tables and Markdown.


LEAST_OBJECTS = 3
_NAMES = ("columns", "rows")


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


class _Pairs(list):
    """An object with its pairs in order, repeated keys too."""


def columned(text: str) -> str:
    """Return JSON in which a list of three or more objects with the same keys in the same order is ``{"columns": [...], "rows": [[...]]}``.

    Numbers stay as they are written. JSON that has objects of just these two keys already,
    and one that does not get shorter, only loses its white space. :func:`spread` gives the
    value back. Raises ValueError for what is no JSON.
    """
    value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number, object_pairs_hook=_Pairs)
    taken: list[bool] = []
    made = _written(value, taken)
    return _written(value, None) if any(taken) else made


def _written(value: Any, taken: list[bool] | None) -> str:
    """Return a value as text; ``taken`` collects whether an object has the two keys, None writes no columns."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Pairs):
        if taken is not None:
            taken.append(tuple(key for key, _ in value) == _NAMES)
        return "{" + ",".join(f"{_text(key)}:{_written(inner, taken)}" for key, inner in value) + "}"
    if isinstance(value, list):
        keys = _keys(value)
        if taken is None or keys is None:
            return "[" + ",".join(_written(inner, taken) for inner in value) + "]"
        taken.append(tuple(keys) == _NAMES)
        rows = [[_written(inner, taken) for _, inner in one] for one in value]
        heads = list(map(_text, keys))
        short = f'{{"columns":[{",".join(heads)}],"rows":[{",".join("[" + ",".join(row) + "]" for row in rows)}]}}'
        objects = ("{" + ",".join(f"{head}:{cell}" for head, cell in zip(heads, row, strict=True)) + "}" for row in rows)
        plain = "[" + ",".join(objects) + "]"
        return short if len(short) < len(plain) else plain
    return _text(value)


def _keys(value: list[Any]) -> list[str] | None:
    """Return the keys that all objects of a list have, None where they differ, repeat or are none."""
    if len(value) < LEAST_OBJECTS or not all(isinstance(one, _Pairs) and one for one in value):
        return None
    keys = [key for key, _ in value[0]]
    same = len(set(keys)) == len(keys) and all([key for key, _ in one] == keys for one in value)
    return keys if same else None


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # half a pair of surrogates can only be written as an escape
    return text if text.isascii() or not re.search(r"[\ud800-\udfff]", text) else json.dumps(value)


def spread(value: Any) -> Any:
    """Return a value that was read from :func:`columned` text with its lists of objects again."""
    if isinstance(value, list):
        return [spread(one) for one in value]
    if isinstance(value, dict):
        if tuple(value) == _NAMES and isinstance(value["columns"], list):
            return [{key: spread(inner) for key, inner in zip(value["columns"], row, strict=True)} for row in value["rows"]]
        return {key: spread(inner) for key, inner in value.items()}
    return value


_JSON_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
_TABLE = re.compile(r"^( {0,3})\|(.*)\|\s*$")
_RULE = re.compile(r"^(:?)-{4,}(:?)$")
_CODE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)|`[^`\n]*`|(?P<comment><!--)", re.MULTILINE | re.DOTALL)
"""Code, which stays, or the beginning of a comment."""

_LEAST_ROWS = 3
_SAME = "# in every row: "


def compact(text: str, language: str | None) -> str | None:
    """Return the text of a data format with fewer tokens, None for a language without rules or a text that is not of its format."""
    try:
        if language == "json":
            return compact_json(text)
        if language == "jsonl":
            return "\n".join(compact_json(line) for line in text.split("\n") if line.strip()) + "\n"
        if language == "yaml":
            return compact_yaml(text)
        if language in {"csv", "tsv"}:
            return compact_table(text, "," if language == "csv" else "\t")
        if language == "markdown":
            return compact_markdown(text)
    except (ValueError, RecursionError, csv.Error):
        return None
    return None


def compact_json(text: str) -> str:
    """Return JSON without white space between its tokens; a list of alike objects says their keys once.

    Order, repeated keys and numbers stay as they are written. Raises ValueError for what is
    no JSON.
    """
    short = columned(text)
    if '"columns":' in short:
        return short
    return _JSON_SPACE.sub(lambda match: match[1] or "", text)


def compact_yaml(text: str) -> str:
    """Return YAML as JSON on one line, or without comments and blank lines, whichever is shorter and reads back as the same value.

    YAML with anchors stays as it is: what an alias repeats would be written out. Raises
    ValueError for what is no YAML.
    """
    value = yaml_values(text)
    if value is None:
        return text
    candidates = [re.sub(r"\n(?:[ \t]*\n)+", "\n", re.sub(r"^[ \t]*#.*\n", "", text, flags=re.MULTILINE))]
    if len(value) == 1:
        with suppress(TypeError):  # a date, or a key that JSON has not
            candidates.append(json.dumps(value[0], ensure_ascii=False, separators=(",", ":")) + "\n")
    said = repr(value)
    return min([text, *(c for c in candidates if _reads_as(c, said))], key=len)


def _reads_as(text: str, said: str) -> bool:
    try:
        return repr(yaml_values(text)) == said
    except ValueError:
        return False


def compact_table(text: str, delimiter: str) -> str:
    """Return a table whose columns that never change are said once, in a line of JSON above the rows.

    :func:`read_table` gives the cells back. A table of fewer than three rows, one without
    such a column and one whose rows differ in length stay as they are.
    """
    rows = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True))
    if len(rows) <= _LEAST_ROWS or len(set(map(len, rows))) > 1 or text.startswith(_SAME):
        return text
    same = {place: rows[1][place] for place in range(len(rows[0])) if len({row[place] for row in rows[1:]}) == 1}
    if not same or len(same) == len(rows[0]):
        return text
    made = io.StringIO()
    made.write(f"{_SAME}{json.dumps(same, ensure_ascii=False, separators=(',', ':'))}\n")
    writer = csv.writer(made, delimiter=delimiter, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([cell for place, cell in enumerate(row) if place not in same] for row in rows[1:])
    return made.getvalue() if len(made.getvalue()) < len(text) else text


def read_table(text: str, delimiter: str) -> list[list[str]]:
    """Return the rows of a table, of one that :func:`compact_table` made too."""
    first, _, rest = text.partition("\n")
    if not first.startswith(_SAME):
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    same = {int(place): cell for place, cell in json.loads(first.removeprefix(_SAME)).items()}
    head, *rows = csv.reader(io.StringIO(rest), delimiter=delimiter)
    full = [head]
    for row in rows:
        cells = iter(row)
        full.append([same[place] if place in same else next(cells) for place in range(len(head))])
    return full


def compact_markdown(text: str) -> str:
    """Return Markdown without trailing blanks, blank lines that follow another, padding of table cells and HTML comments."""
    made: list[str] = []
    fence = ""
    for line in _without_html_comments(text).split("\n"):
        opens = _FENCE.match(line)
        if opens and not fence:
            fence = opens[1]
        elif opens and fence and opens[1].startswith(fence):
            fence = ""
        elif fence:
            made.append(line)
            continue
        bare = line.rstrip()
        if table := _TABLE.match(bare):
            cells = (_RULE.sub(r"\1---\2", cell.strip()) for cell in re.split(r"(?<!\\)\|", table[2]))
            bare = f"{table[1]}|{'|'.join(cells)}|"
        elif line.endswith("  ") and bare and not _HEADING.match(bare):
            bare += "  "  # a line break that was meant
        if bare or (made and made[-1]):
            made.append(bare)
    return "\n".join(made).rstrip("\n") + ("\n" if text.endswith("\n") else "")


def _without_html_comments(text: str) -> str:
    """Return Markdown without comments that stand outside code; one that is never closed stays."""
    parts, at, last = [], 0, text.rfind("-->")
    while match := _CODE.search(text, at):
        opens, ends = match.span()
        closes = text.find("-->", ends) if match["comment"] and ends <= last else -1
        parts.append(text[at : opens if closes >= 0 else ends])
        at = closes + 3 if closes >= 0 else ends
    return "".join([*parts, text[at:]])


def headings(text: str) -> Outline:
    """Return the headings of Markdown as sections, each up to the next one of its depth or above."""
    found: list[tuple[int, int, str]] = []
    fence, lines = "", text.removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        opens = _FENCE.match(line)
        if opens:
            fence = "" if fence and opens[1].startswith(fence) else fence or opens[1]
        elif not fence and (match := _HEADING.match(line)):
            found.append((number, len(match[1]) - 1, " ".join(match[2].split())))
    symbols = []
    for place, (first, level, name) in enumerate(found):
        last = next((line - 1 for line, depth, _ in found[place + 1 :] if depth <= level), len(lines))
        symbols.append(Symbol("section", name, exported=True, level=level, first=first, last=last))
    return Outline("markdown", tuple(symbols))


# Code without what its reader can do without: comments, blank lines, closing brackets on lines of their own.


_STAYS = re.compile(
    r"#!|//go:|// \+build|#\s*(?:type:|noqa|pragma|fmt:|-\*-|frozen_string_literal|shellcheck)|//\s*(?:@ts-|eslint|prettier|nolint|SPDX)"
    r"|/\*\s*(?:eslint|global|istanbul)|///\s*<reference"
)
"""Comments that programs read."""

_CLOSERS = re.compile(r"[\])}]+[;,]?")
_COMMENTED = re.compile(r"^\s*(?:#|/\*|\*)|//")
_BRACED = frozenset(
    ["c", "cpp", "csharp", "dart", "go", "java", "javascript", "kotlin", "php", "rust", "scala", "solidity", "swift", "tsx", "typescript"]
)
_LONG_TEXTS = ("string", "template", "heredoc", "quoted", "raw_text", "char_literal", "regex", "text")


class _Found(NamedTuple):
    comments: list[tuple[int, int]]
    """first and last place, in characters"""
    kept: set[int]
    """lines, from 0, that are inside a literal of several lines and stay as they are"""


def stripped(text: str, language: str | None, declared: Outline | None = None) -> str:
    """Return code without comments and blank lines, closing brackets put behind the line before; every declaration is kept.

    What stands in literals stays as it is, and so do comments that programs read (``#!``,
    ``//go:build``, ``# type:``). Should the result declare anything else than the text did,
    the text itself is returned. Text of no known language, or that no parser gets through in
    time, only loses blanks at the ends of lines and blank lines that follow another.
    ``declared`` is the outline of the text, where it is known.
    """
    grammar = GRAMMARS.get(language or "")
    if grammar is None or language is None or not ends_soon(text, language):
        return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n")))
    from ast_grep_py import SgRoot

    found = _walk(SgRoot(text, language).root(), grammar.comments)
    places = [(a, b) for a, b in found.comments if not _STAYS.match(text, a)]
    cut, before = _cut(text, places), declared or outline(text, language)
    # the second try is for a grammar that wants a line end where the language does not (Go, before a bracket)
    for joined in (True, False) if language in _BRACED else (False,):
        made = "\n".join(_lines(cut, found.kept, joined=joined))
        made += "\n" if made and text.endswith("\n") else ""
        after = outline(made, language)
        if [(s.kind, s.name) for s in before.symbols] == [(s.kind, s.name) for s in after.symbols] and after.broken <= before.broken:
            return made
    return text


@cache
def _is_long_text(kind: str) -> bool:
    return any(part in kind for part in _LONG_TEXTS)


def _walk(root: SgNode, kinds: frozenset[str]) -> _Found:
    comments: list[tuple[int, int]] = []
    kept: set[int] = set()
    waiting = root.children()
    while waiting:
        node = waiting.pop()
        kind = node.kind()
        if kind in kinds:
            place = node.range()
            comments.append((place.start.index, place.end.index))
            continue
        if _is_long_text(kind):
            place = node.range()
            kept.update(range(place.start.line + 1, place.end.line + 1))
        waiting += node.children()
    return _Found(comments, kept)


def _cut(text: str, places: list[tuple[int, int]]) -> str:
    """Return the text without some places; the line ends in them stay, so that lines keep their numbers."""
    parts, at = [], 0
    for start, end in sorted(places):
        if start >= at:
            between = "\n" * text.count("\n", start, end)
            parts += [text[at:start], between or (" " if text[start - 1 : start].isalnum() and text[end : end + 1].isalnum() else "")]
            at = end
    return "".join([*parts, text[at:]])


def _lines(text: str, kept: set[int], *, joined: bool) -> list[str]:
    made: list[str] = []
    last_free = False
    for number, line in enumerate(text.split("\n")):
        if number in kept:
            made.append(line)
            last_free = False
            continue
        bare = line.rstrip()
        if not bare:
            continue
        above = made[-1] if made else ""
        if joined and last_free and _CLOSERS.fullmatch(bare.strip()) and not _COMMENTED.search(above):
            made[-1] += bare.strip()
            continue
        made.append(bare)
        last_free = True
    return made
