"""The shape of data: which keys and columns it has, of which types, how often."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import islice
from typing import Any

from ctx_pipeline.model.display import truncate
from ctx_pipeline.tokens.shortening.yaml_values import yaml_values

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
            found = f"{len(rows):,} lines of {_of(rows[:_LOOKED_AT], 0)}"
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
    return f"{count:,} rows of ({','.join([*kinds, *more])})"
