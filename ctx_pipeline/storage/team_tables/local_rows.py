"""Rows of this machine's lake as they are published: by session, with the machine's place in front."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.storage.connections import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.lake.queries import LakeConnection

_PATH = r"^(/|~|[A-Za-z]:[\\/])"


class LocalSession(NamedTuple):
    """A session that may be published, and a hash and the number of its rows in each table."""

    host: str
    session_id: str
    month: str
    project: str
    repository: str | None
    hashes: Mapping[str, str]
    rows: Mapping[str, int]


def local_sessions(store: Store, cells: Collection[Cell], tables: Mapping[str, Collection[str]]) -> list[LocalSession]:
    """Return the sessions of some cells with a hash and the number of the rows that each of the tables (name -> columns) has of them."""
    hashes: dict[tuple[str, str], dict[str, str]] = {}
    counts: dict[tuple[str, str], dict[str, int]] = {}
    with closing(store.lake.connect()) as connection:
        for name, columns in tables.items():
            sql = (
                f"SELECT host, session_id, CAST(sum(CAST(hash(t) AS HUGEINT)) AS VARCHAR), count(*) FROM"
                f" (SELECT {_listed(columns)} FROM ({store.lake.relation_sql(name, cells)})) t GROUP BY ALL"
            )
            for host, session, found, count in connection.execute(sql).fetchall():
                hashes.setdefault((host, session), {})[name] = found
                counts.setdefault((host, session), {})[name] = count
        sql = f"SELECT host, session_id, month, project, repository FROM ({store.lake.relation_sql('sessions', cells)}) ORDER BY ALL"
        rows = connection.execute(sql).fetchall()
    return [LocalSession(h, s, m, project, repo, hashes.get((h, s), {}), counts.get((h, s), {})) for h, s, m, project, repo in rows]


def local_names(store: Store) -> set[str]:
    """Return the names of all projects and repositories of this machine's sessions."""
    cells = set(store.lake.manifests("normalized"))
    if not cells:
        return set()
    with closing(store.lake.connect()) as connection:
        sql = f"SELECT DISTINCT unnest([project, repository]) FROM ({store.lake.relation_sql('sessions', cells)})"
        return {name for (name,) in connection.execute(sql).fetchall() if name}


class SentSession(NamedTuple):
    """A session whose rows are asked for, with the policies under which they go."""

    host: str
    session_id: str
    month: str
    shared: str


def published_rows(
    store: Store,
    table: str,
    columns: Collection[str],
    withheld: Mapping[str, str],
    sessions: Collection[SentSession],
    *,
    place: tuple[str, str],
    connection: LakeConnection,
) -> pa.Table:
    """Return the rows of these sessions with member, machine, month and policies in front.

    ``withheld`` maps a column to the policy without which it is null; a path is no name of a repository.
    """
    from ctx_pipeline.model.raw import Cell

    cells = {Cell(s.host, s.month) for s in sessions}
    relation = store.lake.relation_sql(table, cells, sessions={s.session_id for s in sessions})
    chosen = ", ".join(_selected(name, withheld.get(name)) for name in columns)
    rows = ", ".join(f"({', '.join(map(quoted, s))})" for s in sorted(sessions))
    sql = (
        f"SELECT {quoted(place[0])} AS member, {quoted(place[1])} AS machine, w.month AS month, w.shared AS shared, {chosen}"
        f" FROM ({relation}) r JOIN (SELECT * FROM (VALUES {rows}) AS v(host, session_id, month, shared)) w"
        " ON w.host = r.host AND w.session_id = r.session_id"
    )
    found: pa.Table = connection.sql(sql).to_arrow_table()
    return found


def _selected(name: str, policy: str | None) -> str:
    value = f'r."{name}"'
    if name == "repository":
        value = f"CASE WHEN regexp_matches({value}, {quoted(_PATH)}) THEN NULL ELSE {value} END"
    if policy:
        value = f"CASE WHEN contains(',' || w.shared || ',', {quoted(f',{policy},')}) THEN {value} END"
    return f'{value} AS "{name}"'


def _listed(columns: Collection[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)
