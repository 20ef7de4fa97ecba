"""Calls of a team that are one call under the ids of two sessions, by the rules of a single machine.

A host that names no call has running totals in place of an id, behind the id of the session. Copied under another id, to another
member or machine, such a session has all its calls again under keys of its own.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ctx_pipeline.model.usage_rules import replays, same_calls

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

_MOST = 1_000_000
"""Calls that are compared, sessions with fewest calls first: of more somebody made them up, and the rest count by themselves."""

_TABLES = """
CREATE OR REPLACE TABLE session_ancestors AS
WITH RECURSIVE parents AS (
  SELECT host, session_id, min(parent_session) AS parent FROM sessions WHERE parent_session IS NOT NULL GROUP BY ALL
), above AS (
  SELECT host, session_id, parent AS ancestor, 1 AS depth FROM parents
  UNION ALL SELECT a.host, a.session_id, p.parent, a.depth + 1 FROM above a
  JOIN parents p ON p.host = a.host AND p.session_id = a.ancestor WHERE a.depth < 16
)
SELECT host, session_id, list(ancestor ORDER BY depth) AS ancestors FROM above
GROUP BY ALL HAVING count(*) = count(DISTINCT ancestor) AND NOT bool_or(ancestor = session_id);

CREATE OR REPLACE TABLE same_calls (host VARCHAR, call_key VARCHAR, origin VARCHAR, replayed BOOLEAN);

CREATE OR REPLACE TEMP TABLE beginnings AS
SELECT host, session_id, count(DISTINCT call_key) AS calls, min(ts) AS began,
  arg_min(substr(call_key, length(session_id) + 2), (coalesce(epoch_us(ts), 0), call_key)) AS totals
FROM model_calls WHERE starts_with(call_key, session_id || ':') GROUP BY 1, 2 HAVING count(DISTINCT call_key) > 1;
"""
"""Declared ancestors of sessions, the nearest first (a circle is none); and sessions with calls under running totals, with the first."""

_ALIKE = "SELECT host, session_id FROM beginnings QUALIFY count(*) OVER (PARTITION BY host, began, totals) > 1 AND began IS NOT NULL"

_FORKS = (
    "SELECT DISTINCT host, session_id, ancestors FROM"
    " (SELECT b.host, b.session_id, a.ancestors, unnest(a.ancestors) || ':' || b.totals AS call_key"
    " FROM beginnings b JOIN session_ancestors a USING (host, session_id)) SEMI JOIN model_calls USING (host, call_key)"
)

_CALLS = (
    "SELECT host, session_id, call_key, epoch_us(min(ts)) FROM model_calls"
    " JOIN (SELECT host, session_id FROM beginnings"
    "  JOIN (SELECT DISTINCT unnest(?) AS host, unnest(?) AS session_id) USING (host, session_id)"
    "  QUALIFY sum(calls) OVER (ORDER BY calls, host, session_id ROWS UNBOUNDED PRECEDING) <= ?) USING (host, session_id)"
    " WHERE starts_with(call_key, session_id || ':') GROUP BY ALL"
)

_HELD_BY_SEVERAL = (
    "DELETE FROM same_calls WHERE NOT replayed AND (host, call_key) IN (SELECT (host, call_key) FROM model_calls"
    " SEMI JOIN same_calls USING (host, call_key) GROUP BY host, call_key HAVING min(session_id) <> max(session_id))"
)
"""A key that several sessions hold counts by that key, as on a machine."""


def write(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the table ``same_calls``: host, key of a call, and the key under which it counts.

    Looked at are sessions that begin with the totals of another one at the same moment, and those that begin with a call of an
    ancestor: of all others none can be a copy.
    """
    connection.execute(_TABLES)
    above = {(host, session): names for host, session, names in connection.execute(_FORKS).fetchall()}
    chosen = sorted({*connection.execute(_ALIKE).fetchall(), *above, *((host, one) for (host, _), names in above.items() for one in names)})
    calls: dict[str, dict[str, dict[str, int | None]]] = {}
    asked = [[host for host, _ in chosen], [session for _, session in chosen], _MOST]
    for host, session, key, ts in connection.execute(_CALLS, asked).fetchall() if chosen else ():
        calls.setdefault(host, {}).setdefault(session, {})[key] = ts
    for host, held in calls.items():
        repeated: dict[str, str] = {}
        for session in held:
            names = [session, *above.get((host, session), ())]
            made = replays({one: held[one] for one in names if one in held}, dict(pairwise(names)), session)
            repeated |= {key: origin for key, (_, origin) in made.items()}
        copied = {key: origin for key, (_, origin) in same_calls(held).items() if key not in repeated}
        ends = _ends(repeated)
        _insert(connection, host, {key: ends.get(origin, origin) for key, origin in _ends(copied).items()}, replayed=False)
        _insert(connection, host, ends, replayed=True)
    connection.execute(_HELD_BY_SEVERAL)
    connection.execute("DROP TABLE beginnings")


def _insert(connection: duckdb.DuckDBPyConnection, host: str, origins: Mapping[str, str], *, replayed: bool) -> None:
    if origins:
        connection.execute(
            "INSERT INTO same_calls SELECT ?, unnest(?), unnest(?), ?", [host, list(origins), list(origins.values()), replayed]
        )


def _ends(origins: Mapping[str, str]) -> dict[str, str]:
    """Return each key with the last origin of its chain; each link is followed once."""
    found: dict[str, str] = {}
    for key in origins:
        chain, at = [], key
        while at in origins and at not in found:
            chain.append(at)
            at = origins[at]
        found |= dict.fromkeys(chain, found.get(at, at))
    return found
