"""Rows of this machine's lake as they are published: by session, with the machine's place in front."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.storage.connections import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pyarrow as pa

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store

_PATH = r"^(/|~|[A-Za-z]:[\\/])"


class LocalSession(NamedTuple):
    """A session that may be published, and a hash of its rows in each table."""

    host: str
    session_id: str
    month: str
    project: str
    repository: str | None
    hashes: Mapping[str, str]


def local_sessions(store: Store, cells: Collection[Cell], tables: Mapping[str, Collection[str]]) -> list[LocalSession]:
    """Return the sessions of some cells with a hash of what each of the tables (name -> columns) holds of them."""
    hashes: dict[tuple[str, str], dict[str, str]] = {}
    with closing(store.lake.connect()) as connection:
        for name, columns in tables.items():
            sql = (
                f"SELECT host, session_id, CAST(sum(CAST(hash(t) AS HUGEINT)) AS VARCHAR) FROM"
                f" (SELECT {_listed(columns)} FROM ({store.lake.relation_sql(name, cells)})) t GROUP BY ALL"
            )
            for host, session, found in connection.execute(sql).fetchall():
                hashes.setdefault((host, session), {})[name] = found
        sql = f"SELECT host, session_id, month, project, repository FROM ({store.lake.relation_sql('sessions', cells)}) ORDER BY ALL"
        rows = connection.execute(sql).fetchall()
    return [LocalSession(h, s, m, project, repo, hashes.get((h, s), {})) for h, s, m, project, repo in rows]


def published_rows(
    store: Store, table: str, columns: Collection[str], sessions: Collection[tuple[str, str, str]], *, member: str, machine: str
) -> pa.Table:
    """Return the rows of these sessions (host, id, month) with member, machine and month in front; a path is no name of a repository."""
    from ctx_pipeline.model.raw import Cell

    cells = {Cell(host, month) for host, _, month in sessions}
    ids = {session for _, session, _ in sessions}
    relation = store.lake.relation_sql(table, cells, sessions=ids)
    chosen = ", ".join(_selected(name) for name in columns)
    wanted = _values(sessions)
    sql = (
        f"SELECT {quoted(member)} AS member, {quoted(machine)} AS machine, w.month AS month, {chosen}"
        f" FROM ({relation}) r JOIN ({wanted}) w ON w.host = r.host AND w.session_id = r.session_id"
    )
    with closing(store.lake.connect()) as connection:
        return _arrow(connection, sql)


def _values(sessions: Iterable[tuple[str, str, str]]) -> str:
    rows = ", ".join(f"({quoted(h)}, {quoted(s)}, {quoted(m)})" for h, s, m in sorted(sessions))
    return f"SELECT * FROM (VALUES {rows}) AS v(host, session_id, month)"


def _selected(name: str) -> str:
    if name == "repository":
        return f"CASE WHEN regexp_matches(r.repository, {quoted(_PATH)}) THEN NULL ELSE r.repository END AS repository"
    return f'r."{name}"'


def _listed(columns: Collection[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _arrow(connection: Any, sql: str) -> pa.Table:
    found: pa.Table = connection.sql(sql).to_arrow_table()
    return found
