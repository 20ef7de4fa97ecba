"""Rows of a session without secrets: one pass over all their texts, full patterns only where it points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.model.tables import Table
    from ctx_pipeline.redaction import Redactor

    Columns = Sequence[Sequence[Any]]

_TEXT = EVENTS.names.index("text")


class _Where(NamedTuple):
    """Places of a table's columns that can hold words of a transcript."""

    texts: tuple[int, ...]
    lists: tuple[int, ...]
    ids: tuple[int, ...]


def _where(table: Table, texts: Iterable[str], lists: Iterable[str], ids: Iterable[str]) -> _Where:
    return _Where(*(tuple(map(table.names.index, names)) for names in (texts, lists, ids)))


_EVENTS = _where(EVENTS, ("subtype",), (), ("call_id", "call_key"))
_CALLS = _where(MODEL_CALLS, ("model", "tier", "speed", "rule"), (), ("call_key",))
_TOOLS = _where(TOOL_CALLS, ("tool",), ("paths", "ranges", "argv"), ("call_id",))


def secrets_in(redactor: Redactor, events: Columns, calls: Columns, tools: Columns) -> dict[str, str]:
    """Return every value of the columns that holds a secret, with what stands in its place."""
    words: set[Any] = set()
    for columns, where in ((events, _EVENTS), (calls, _CALLS), (tools, _TOOLS)):
        words.update(*(columns[place] for place in (*where.texts, *where.ids)))
        for place in where.lists:
            words.update(*columns[place])
    words -= {None, ""}
    values = [*filter(None, events[_TEXT]), *words]
    secrets = {}
    for place in redactor.suspects(values):
        value = values[place]
        clean = redactor.redact(value)
        if clean != value:
            secrets[value] = clean
    return secrets


def cleaned(
    secrets: Mapping[str, str], events: list[tuple], calls: list[tuple], tools: list[tuple]
) -> tuple[list[tuple], list[tuple], list[tuple]]:
    """Return events, model calls and tool calls with every secret replaced; rows without one are the same objects."""
    said = _Where((_TEXT, *_EVENTS.texts), (), _EVENTS.ids)
    return _rows(events, said, secrets), _rows(calls, _CALLS, secrets), _rows(tools, _TOOLS, secrets)


def _rows(rows: Iterable[tuple], where: _Where, secrets: Mapping[str, str]) -> list[tuple]:
    found = []
    for row in rows:
        changed: dict[int, Any] = {place: secrets[row[place]] for place in where.texts if row[place] in secrets}
        changed |= {place: [secrets.get(v, v) for v in row[place]] for place in where.lists if not secrets.keys().isdisjoint(row[place])}
        changed |= {place: f"redacted-{digest(row[place], size=24)}" for place in where.ids if row[place] in secrets}
        found.append(tuple(changed.get(place, value) for place, value in enumerate(row)) if changed else row)
    return found
