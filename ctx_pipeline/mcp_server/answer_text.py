"""Answers and schemas in the fewest tokens: text without nulls, quotes and indentation; schemas without what a model does not read."""

from __future__ import annotations

import re
from typing import Any

_CELL = 200
"""Characters of a value that stands in a row; a longer one stands below its row."""

_FOR_A_PERSON = frozenset({"resume"})
"""Columns that repeat for each row what host and id say; a program gets them as values."""

_NOT_SAID = frozenset({"next_cursor", "action", "schema"})
"""Members that a program reads; the cursor stands last."""

_SAID_BY_TEXT = ("value", "files", "tokens", "raw_tokens")
"""Members that a program reads of an answer that has a text."""

_OF_ROWS = frozenset({"by", "level", "period"})
"""What is said of rows, and says nothing where there are none."""

_NANO = "_nano"
_COSTS = frozenset({"cost_nano", "cost_usd"})
"""Members that say "unpriced" where calls without a price are known, as the commands do."""

_OF_CALLS = ("unpriced_calls", "model_calls", "calls")
"""Members that tell of how many calls a cost is, the most exact one first."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::[\d.]+)?Z?")

_NOT_READ = ("title", "default", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems")
"""Keywords of a schema that the server checks and a model seldom reads."""


def as_text(answer: dict[str, Any]) -> str:
    """Return an answer as text for a model: its own ``text`` where it has one, else its values; the cursor last."""
    whole = {name: value for name, value in _priced(answer).items() if name not in _NOT_SAID}
    rest = {name: value for name, value in whole.items() if not _blank(value)}
    if set(rest) == {"value"} and isinstance(rest["value"], dict):
        whole = {name: value for name, value in rest["value"].items() if name not in _NOT_SAID}
        rest = whole.copy()
    said = rest.pop("text", None)
    if isinstance(said, str) and rest.get("saved_tokens") == 0:
        # what could not be shortened is not made longer by saying so, and stands as it is: an edit may follow
        lines = [said, *_lines({name: rest[name] for name in ("left_out", "session") if name in rest})]
    elif isinstance(said, str):
        rest = {n: v for n, v in rest.items() if n not in _SAID_BY_TEXT and (isinstance(v, bool) or v != 0)}
        lines = [said.rstrip("\n"), *_lines(rest)]
    elif (none := [name for name, value in whole.items() if value == []]) and not any(map(_rows, rest.values())):
        named = {name: value for name, value in rest.items() if isinstance(value, str) and name not in _OF_ROWS}
        lines = [*(f"no {name.replace('_', ' ')}" for name in none), *_lines(named)]
    else:
        lines = _lines(rest)
    if answer.get("next_cursor"):
        lines.append(f"more: cursor={answer['next_cursor']}")
    return "\n".join(lines) or "nothing"


_SELDOM = frozenset({"accepted_only", "at", "budget", "facets", "replaces"})
"""Arguments that a model is not told of; they count all the same."""


def slim_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an input schema with names, types, choices and descriptions alone; an optional value is one that is not required."""
    told = {name: _slim(value) for name, value in schema.get("properties", {}).items() if name not in _SELDOM}
    return {**{name: value for name, value in schema.items() if name != "title"}, "properties": told}


def _slim(value: Any) -> Any:
    if isinstance(value, list):
        return [_slim(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "anyOf" in value:
        shapes = [shape for shape in value["anyOf"] if shape.get("type") != "null"]
        value = {**{k: v for k, v in value.items() if k != "anyOf"}, **(shapes[0] if len(shapes) == 1 else {"anyOf": shapes})}
    kept = {name: one for name, one in value.items() if name not in _NOT_READ or isinstance(one, dict)}
    return {name: _slim(one) if isinstance(one, dict | list) and name != "enum" else one for name, one in kept.items()}


def _rows(value: Any) -> bool:
    """Tell whether a value holds anything but counts of nothing."""
    return any(map(_rows, value.values())) if isinstance(value, dict) else bool(value) and not isinstance(value, str)


def _blank(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, list | dict) and not value)


def _priced(values: dict[str, Any]) -> dict[str, Any]:
    """Return members with a word for a cost that is not known of calls that are."""
    calls = next((values[name] for name in _OF_CALLS if name in values), None)
    return {name: "unpriced" if calls and value is None and name in _COSTS else value for name, value in values.items()}


def _lines(values: dict[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in _priced(values).items():
        if _blank(value):
            continue
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            scalars = {n: v for n, v in _priced(value).items() if not isinstance(v, list | dict) and not _blank(v)}
            if scalars:
                unit = _NANO if key.endswith(_NANO) else ""
                found.append(f"{_label(key)}: {', '.join(_named(f'{n}{unit}', v) for n, v in scalars.items())}")
            found += _lines({n: v for n, v in value.items() if isinstance(v, list | dict)}, f"{key}.")
        elif isinstance(value, list) and all(isinstance(v, dict) for v in value):
            found += _table(key, value)
        elif isinstance(value, list):
            found.append(f"{key}: {', '.join(map(_written, value))}")
        else:
            found.append(_named(key, value, ": "))
    return found


def _named(name: str, value: Any, between: str = " ") -> str:
    return f"{_label(name)}{between}{_written(value, name)}"


def _label(name: str) -> str:
    return "dollars" if name == _NANO[1:] else name.removesuffix(_NANO)


def _table(key: str, rows: list[dict[str, Any]]) -> list[str]:
    """Return rows under one head; a value that all of them share stands in the head, a long or nested one below its row."""
    rows = [_priced(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    names = [n for n in names if n not in _FOR_A_PERSON and any(not _blank(row.get(n)) for row in rows)]
    same = {n: rows[0].get(n) for n in names if len(rows) > 1 and _short(rows[0].get(n)) and all(r.get(n) == rows[0].get(n) for r in rows)}
    below = [n for n in names if n not in same and not all(_short(row.get(n)) for row in rows)]
    columns = [n for n in names if n not in same and n not in below]
    told = ", ".join(_named(n, v) for n, v in same.items() if v not in (0, False))
    if same and not told and len(columns) < 2 and not below:
        return []  # of each of these there is nothing
    shared = f" (all: {told})" if told else ""
    found = [f"{key}{shared}: {' | '.join(map(_label, columns))}".rstrip(": ") + (":" if not columns else "")]
    for row in rows:
        cells = [_written(row.get(name), name) for name in columns]
        while cells and not cells[-1]:
            cells.pop()
        head = f"- {' | '.join(cells)}".rstrip()
        more = {name: row.get(name) for name in below if not _blank(row.get(name))}
        if len(more) == 1 and isinstance(words := next(iter(more.values())), str):
            found.append(f"{head}\n{words.rstrip()}")
        else:
            found.append("\n".join([head, *(f"  {line}" for line in _lines(more))]))
    return found


def _short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _CELL and "\n" not in value
    if isinstance(value, list):
        return all(not isinstance(v, list | dict) for v in value) and len(str(value)) <= _CELL
    return not isinstance(value, dict)


def _written(value: Any, name: str = "") -> str:
    if value is None:
        return ""
    if name.endswith((_NANO, _NANO[1:])) and isinstance(value, int):
        return f"${value / 1e9:.4g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(_written, value))
    if not isinstance(value, str):
        return str(value)
    at = _TIME.fullmatch(value)
    return f"{at[1]} {at[2]}" if at else value if "\n" in value else " ".join(value.split())
