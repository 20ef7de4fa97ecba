"""What a model call asked for, and its equal shares: whole tokens and nano-dollars, the rest of a division to the first."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.groupings import Grouping
    from ctx_pipeline.usage.live_usage import Counted

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_E = {name: place for place, name in enumerate(EVENTS.names)}
_T = {name: place for place, name in enumerate(TOOL_CALLS.names)}
TOKENS = tuple(_C[n] for n in ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning"))

Use = tuple[str, str, list[str], "str | None"]
"""tool, action, argv, arguments as JSON where they name a skill"""

Uses = dict[tuple[str, str, str], list[Use]]
"""(host, session, call key) -> what the call asked for"""

SHARED = (*TOKENS, _C["cost"], _C["recorded_cost"])
"""Places of a row of ``model_calls`` that are shared out."""


def names_of(row: tuple, uses: Mapping[tuple[str, str, str], list[Use]], grouping: Grouping) -> list[str]:
    """Return the names that a call is shared among, one for each use; empty where it asked for nothing of the kind."""
    return [name for use in uses.get((row[_C["host"]], row[_C["session_id"]], row[_C["call_key"]]), ()) for name in grouping.of_use(use)]


def parts(row: tuple, names: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield each name with its share of the row's tokens and costs (in the order of ``SHARED``)."""
    for number, name in enumerate(names):
        yield name, [share_of(row[place] or 0, len(names), number) for place in SHARED]


def share_of(amount: int, among: int, number: int) -> int:
    """Return the share of the ``number``-th of so many: whole numbers, the rest of the division to the first."""
    each, rest = divmod(amount, among)
    return each + rest if number == 0 else each


def live_uses(counted: Counted) -> Uses:
    """Return what the calls of a session that was read with all its rows asked for."""
    parsed = counted.parsed
    if parsed is None:
        return {}
    asked = {e[_E["event_id"]]: e for e in parsed.events if e[_E["kind"]] == "tool_call"}
    found: Uses = {}
    for tool in parsed.tool_calls:
        event = asked.get(tool[_T["call_event"]])
        if event is not None and event[_E["call_key"]]:
            name = tool[_T["tool"]]
            text = event[_E["text"]] if name.lower() == "skill" else None
            use = (name, tool[_T["action"]], list(tool[_T["argv"]]), text)
            found.setdefault((counted.host, counted.session_id, event[_E["call_key"]]), []).append(use)
    return found


def stored_uses(settings: Settings) -> Uses:
    """Return what the calls of stored sessions asked for."""
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.warehouse.usage_sql import USES_SQL

    found: Uses = {}
    with reading(settings) as (store, _), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        for host, session, key, *use in connection.execute(USES_SQL).fetchall():
            found.setdefault((host, session, key), []).append((use[0], use[1], list(use[2] or ()), use[3]))
    return found
