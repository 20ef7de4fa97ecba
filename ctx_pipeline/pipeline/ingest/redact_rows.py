"""Rows of a session without secrets: one pass over all their texts, full patterns only where it points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.redaction.liveness import is_live, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.model.tables import Table
    from ctx_pipeline.redaction import Redactor

    Columns = Sequence[Sequence[Any]]

_TEXT, _KIND, _CALL = (EVENTS.names.index(name) for name in ("text", "kind", "call_id"))
_CALL_CHARS = 600
"""Characters of a call that say where its output comes from."""


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


class Secrets(NamedTuple):
    """Every value that holds a secret with what stands in its place, and the secrets that may open something, each once."""

    places: dict[str, str]
    live: tuple[str, ...]
    """as :func:`ctx_pipeline.redaction.liveness.named` names them"""


def secrets_in(redactor: Redactor, events: Columns, calls: Columns, tools: Columns) -> Secrets:
    """Return what holds a secret in the columns of a session."""
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
    return Secrets(secrets, _live(redactor, secrets, events) if secrets else ())


def _live(redactor: Redactor, secrets: Mapping[str, str], events: Columns) -> tuple[str, ...]:
    """Return the secrets that may open something, each once, however often and in how many texts it stands."""
    asked = {
        call: text for kind, call, text in zip(events[_KIND], events[_CALL], events[_TEXT], strict=True) if kind == "tool_call" and text
    }
    where: dict[str, str] = {}
    for call, text in zip(events[_CALL], events[_TEXT], strict=True):
        if text in secrets:
            where.setdefault(text, (asked.get(call) or "")[:_CALL_CHARS])
    shown: dict[str, bool] = {}
    for text in secrets:
        for detector, start, end in redactor.find(text):
            name = named(detector, text[start:end])
            # shown as an example anywhere it is one everywhere
            shown[name] = shown.get(name, True) and is_live(detector, text, start, end, where.get(text, ""))
    return tuple(sorted(name for name, live in shown.items() if live))


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
