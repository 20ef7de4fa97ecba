"""Data and prose without what carries no meaning: JSON, YAML, tables and Markdown.

Nothing that matters is lost, which means: JSON and YAML parse to equal values with their keys
in the same order, numbers of JSON as they were written (a list of alike objects is spread out
again by :func:`ctx_pipeline.tokens.shortening.json_columns.spread`); a table gives back every cell; of
Markdown every heading, word, link, table cell and line of code stays. Comments of YAML and
Markdown go.
"""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import suppress
from typing import Any

from ctx_pipeline.tokens.shortening.json_columns import columned
from ctx_pipeline.tokens.signatures.symbols import Outline, Symbol

_JSON_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
_TABLE = re.compile(r"^\s*\|.*\|\s*$")
_LEAST_ROWS = 3
_SAME = "# in every row: "


def compact(text: str, language: str | None) -> str | None:
    """Return the text of a data format with fewer tokens, None for a language without rules or a text that is not of its format."""
    try:
        if language == "json":
            return compact_json(text)
        if language == "jsonl":
            return "\n".join(compact_json(line) for line in text.splitlines() if line.strip()) + "\n"
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
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=loader)):
            return text
        value = list(yaml.load_all(text, Loader=loader))
        candidates = [re.sub(r"\n(?:[ \t]*\n)+", "\n", re.sub(r"^[ \t]*#.*\n", "", text, flags=re.MULTILINE))]
        if len(value) == 1:
            with suppress(TypeError):  # a date, or a key that JSON has not
                candidates.append(json.dumps(value[0], ensure_ascii=False, separators=(",", ":")) + "\n")
        same = [c for c in candidates if _yaml(c, loader) == [repr(one) for one in value]]
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    return min([text, *same], key=len)


def _yaml(text: str, loader: Any) -> list[str]:
    import yaml

    try:
        return [repr(one) for one in yaml.load_all(text, Loader=loader)]
    except yaml.YAMLError:
        return []


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
    for line in _without_html_comments(text).splitlines():
        opens = _FENCE.match(line)
        if opens and not fence:
            fence = opens[1]
        elif opens and fence and opens[1].startswith(fence):
            fence = ""
        elif fence:
            made.append(line)
            continue
        bare = line.rstrip()
        if _TABLE.match(bare):
            cells = re.split(r"(?<!\\)\|", bare.strip()[1:-1])
            bare = f"|{'|'.join(re.sub(r'-{4,}', '---', cell.strip()) for cell in cells)}|"
        elif line.endswith("  ") and bare and not _HEADING.match(bare):
            bare += "  "  # a line break that was meant
        if bare or (made and made[-1]):
            made.append(bare)
    return "\n".join(made).rstrip("\n") + ("\n" if text.endswith("\n") else "")


def _without_html_comments(text: str) -> str:
    """Return Markdown without comments that stand outside code; one that is never closed stays."""
    parts = re.split(r"(^ {0,3}(?:```|~~~).*?^ {0,3}(?:```|~~~)[^\n]*$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else _uncommented(part) for number, part in enumerate(parts))


def _uncommented(text: str) -> str:
    parts, at = [], 0
    while (opens := text.find("<!--", at)) >= 0 and (closes := text.find("-->", opens)) >= 0:
        parts.append(text[at:opens])
        at = closes + 3
    return "".join([*parts, text[at:]])


def headings(text: str) -> Outline:
    """Return the headings of Markdown as sections, each up to the next one of its depth or above."""
    found: list[tuple[int, int, str]] = []
    fence, lines = "", text.splitlines()
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
