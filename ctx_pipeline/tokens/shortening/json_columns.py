"""JSON whose lists of alike objects say their keys once."""

from __future__ import annotations

import json
import re
from typing import Any

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
