"""The hub's database: what members published, by member and month, and the team's figures as SQL over it.

A call counts once over members and machines by its key; a session that several machines have is one.
Everything in it can be made again from the bucket.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import READINGS, TABLES
from ctx_pipeline.model.usage_rules import COST_RULE
from ctx_pipeline.storage import connections
from ctx_pipeline.storage.lake.columns import SQL_TYPES
from ctx_pipeline.storage.team_tables import same_calls

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb
    import pyarrow as pa

    from ctx_pipeline.model.tables import Column

_MEMORY = "1GB"

_DERIVED = """
CREATE OR REPLACE TABLE team_sessions AS
SELECT *, list_sort(list(DISTINCT member || '/' || machine) OVER (PARTITION BY host, session_id)) AS seen_on FROM sessions
QUALIFY row_number() OVER (PARTITION BY host, session_id ORDER BY lines DESC, bytes DESC,
  len(string_split(shared, ',')) DESC, member, machine) = 1;

CREATE OR REPLACE TABLE other_copies AS
SELECT DISTINCT member, machine, host, session_id FROM sessions ANTI JOIN team_sessions USING (member, machine, host, session_id);

CREATE OR REPLACE TABLE session_projects AS
SELECT member, machine, host, session_id, min(project) AS project, min(repository) AS repository, min(first_ts) AS first_ts
FROM sessions GROUP BY ALL;

CREATE OR REPLACE VIEW keyed_calls AS
SELECT c.*, coalesce(r.origin, c.call_key) AS counted_as FROM model_calls c LEFT JOIN same_calls r USING (host, call_key) WHERE c.owner;

CREATE OR REPLACE TEMP TABLE contested AS
SELECT DISTINCT host, session_id, counted_as FROM keyed_calls
SEMI JOIN (SELECT host, counted_as FROM keyed_calls GROUP BY ALL HAVING min(session_id) <> max(session_id)) k USING (host, counted_as);

CREATE OR REPLACE TEMP TABLE own_calls AS
WITH held AS (SELECT host, session_id, call_key, ts FROM model_calls SEMI JOIN contested USING (host, session_id))
SELECT host, session_id, min(ts) AS own_ts FROM held
ANTI JOIN (SELECT host, call_key FROM model_calls SEMI JOIN held USING (host, call_key)
  GROUP BY ALL HAVING min(session_id) <> max(session_id)) USING (host, call_key)
ANTI JOIN (SELECT host, call_key FROM same_calls WHERE replayed) USING (host, call_key) GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE forked_calls AS
SELECT DISTINCT f.host, f.session_id, f.counted_as
FROM (SELECT c.*, unnest(a.ancestors) AS ancestor FROM contested c JOIN session_ancestors a USING (host, session_id)) f
SEMI JOIN contested o ON o.host = f.host AND o.counted_as = f.counted_as AND o.session_id = f.ancestor;

CREATE OR REPLACE TABLE copied_calls AS
SELECT c.*, s.project, s.repository FROM keyed_calls c
JOIN (SELECT host, counted_as FROM keyed_calls GROUP BY ALL HAVING count(*) > 1) k USING (host, counted_as)
LEFT JOIN session_projects s USING (member, machine, host, session_id)
LEFT JOIN own_calls w USING (host, session_id)
LEFT JOIN forked_calls f USING (host, session_id, counted_as)
QUALIFY row_number() OVER (PARTITION BY c.host, c.counted_as ORDER BY c.call_key = c.counted_as DESC,
  f.session_id IS NOT NULL, w.own_ts NULLS LAST, c.session_id, c.context_tokens + c.output DESC, c.member, c.machine) = 1;

CREATE OR REPLACE VIEW team_calls AS
SELECT c.*, s.project, s.repository FROM keyed_calls c
LEFT JOIN session_projects s USING (member, machine, host, session_id)
ANTI JOIN copied_calls k ON k.host = c.host AND k.counted_as = c.counted_as
ANTI JOIN other_copies o ON o.member = c.member AND o.machine = c.machine AND o.host = c.host AND o.session_id = c.session_id
  AND regexp_matches(c.call_key, '^[0-9a-f]{16}(\\.[0-9]+){3}$')
UNION ALL BY NAME SELECT * FROM copied_calls;

CREATE OR REPLACE VIEW session_checks AS
SELECT k.* FROM check_runs k JOIN team_sessions s USING (member, machine, host, session_id);

DROP TABLE IF EXISTS counted_calls;
DROP TABLE IF EXISTS team_checks;
"""
"""What the reports read, of what members published.

Each session is there once, as the machine with most of it has it, of several the one that shares most of it, since checks and
signals are those of that machine; and on which machines it is. Each call is there once, for the session that it counts for on one
machine with all of them: the original of one that another id has too, then a declared parent, then the session with the earlier
call of its own; and of copies of that session the fullest. Only calls that there are several of are
sorted, and none is written again; of earlier versions two tables go. A call that its host gave no id is known by its place in a file,
which each home has its own of: it counts where its session does.
"""
_READ = ("team_sessions", "team_calls", "session_checks")

_TOKENS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning")
_COST = f"coalesce({', '.join(COST_RULE['auto'])})"
"""What a call cost, by the rule of a single machine."""


def _summed(what: str) -> str:
    # of figures that a member made up a sum can be larger than what holds it
    return f"CAST(least(coalesce(sum({what}), 0), {2**63 - 1}) AS BIGINT)"


_SUMS = (
    ", ".join(f"{_summed(name)} AS {name}_tokens" for name in _TOKENS) + f", count(*) AS calls, {_summed(_COST)} AS cost_nano"
    f", count(*) FILTER (WHERE {_COST} IS NULL) AS unpriced_calls"
)

REPORTS: Mapping[str, str] = {
    "total": f"SELECT {_SUMS} FROM team_calls",
    "members": (
        f"SELECT m.member, coalesce(o.sessions, 0) AS sessions, m.published - coalesce(o.sessions, 0) AS counted_elsewhere,"
        " u.* EXCLUDE (member), k.checks, k.failed_checks, m.last_ts FROM"
        " (SELECT member, count(*) AS published, epoch_us(max(last_ts)) AS last_ts FROM sessions GROUP BY 1) m"
        " LEFT JOIN (SELECT member, count(*) AS sessions FROM team_sessions GROUP BY 1) o USING (member)"
        f" LEFT JOIN (SELECT member, {_SUMS} FROM team_calls GROUP BY 1) u USING (member)"
        " LEFT JOIN (SELECT member, count(*) AS checks, count(*) FILTER (WHERE result = 'failed') AS failed_checks"
        " FROM session_checks GROUP BY 1) k USING (member) ORDER BY u.cost_nano DESC NULLS LAST, 1"
    ),
    "projects": (
        f"SELECT u.*, s.sessions, s.members FROM"
        f" (SELECT coalesce(repository, project, '') AS project, {_SUMS} FROM team_calls GROUP BY 1) u"
        " LEFT JOIN (SELECT coalesce(repository, project, '') AS project, count(*) AS sessions, count(DISTINCT member) AS members"
        " FROM team_sessions GROUP BY 1) s USING (project) ORDER BY cost_nano DESC, 1 LIMIT 500"
    ),
    "days": f"SELECT strftime(ts, '%Y-%m-%d') AS day, {_SUMS} FROM team_calls WHERE ts IS NOT NULL GROUP BY 1 ORDER BY 1 DESC LIMIT 400",
    "models": f"SELECT model, {_SUMS} FROM team_calls GROUP BY 1 ORDER BY cost_nano DESC, 1 LIMIT 100",
    "checks": (
        "SELECT kind, runner, result, count(*) AS runs, count(DISTINCT member) AS members FROM session_checks GROUP BY ALL ORDER BY 1, 2, 3"
    ),
    "turns": (
        "SELECT t.ended, count(*) AS turns FROM turns t"
        " JOIN team_sessions s USING (member, machine, host, session_id) GROUP BY 1 ORDER BY 1"
    ),
    "signals": (
        "SELECT r.family, r.signal, r.unit, count(r.value) AS sessions, round(avg(r.value), 4) AS mean,"
        " round(quantile_cont(r.value, 0.5), 4) AS median, count(DISTINCT r.member) AS members FROM readings r"
        " JOIN team_sessions s USING (member, machine, host, session_id) GROUP BY ALL ORDER BY 1, 2"
    ),
    "shared_sessions": "SELECT host, session_id, seen_on FROM team_sessions WHERE len(seen_on) > 1 ORDER BY 1, 2 LIMIT 500",
    "lessons": (
        "SELECT memory_id, arg_max(kind, rank) AS kind, arg_max(text, rank) AS text, arg_max(when_to_use, rank) AS when_to_use,"
        " arg_max(scope, rank) AS scope, arg_max(repository, rank) AS repository, arg_max(risk, rank) AS risk,"
        " max(confidence) AS confidence, max(priority) AS priority, max(last_ts) AS last_ts,"
        " list_sort(list(DISTINCT member) FILTER (WHERE status = 'accepted')) AS accepted_by,"
        " list_sort(list(DISTINCT member) FILTER (WHERE status = 'rejected')) AS rejected_by,"
        " CAST(least(sum(support) FILTER (WHERE status = 'accepted'), 9007199254740992) AS BIGINT) AS support,"
        " list_distinct(flatten(list(evidence) FILTER (WHERE status = 'accepted')))[:16] AS evidence,"
        " round(avg(utility), 4) AS utility, CAST(least(sum(uses), 9007199254740992) AS BIGINT) AS uses"
        " FROM (SELECT * EXCLUDE (first_ts, last_ts), epoch_us(last_ts) AS last_ts,"
        " (status = 'accepted', confidence, member, machine) AS rank FROM lessons) GROUP BY 1 ORDER BY 1"
    ),
}
"""Name of each report of the team -> its query."""


class HubDatabase:
    """The file ``team.duckdb`` of a hub."""

    def __init__(self, folder: Path, tables: Mapping[str, Sequence[Column]]) -> None:
        self._folder = folder
        self._tables = tables
        """name -> columns of what is loaded"""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = folder / "team.duckdb"

    @contextmanager
    def _connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        import os

        connection = connections.connect(str(self.path), reads=self._folder, scratch=self._folder / "scratch", memory=_MEMORY)
        try:
            os.chmod(self.path, 0o600)  # noqa: PTH101 - beside its write-ahead log
            for name, columns in self._tables.items():
                typed = ", ".join(f'"{c.name}" {SQL_TYPES[c.type]}' for c in columns)
                connection.execute(f'CREATE TABLE IF NOT EXISTS "{name}" ({typed})')
            connection.execute("CREATE TABLE IF NOT EXISTS loaded (part VARCHAR, digest VARCHAR)")
            connection.execute("CREATE TABLE IF NOT EXISTS derived (code VARCHAR)")
            yield connection
        finally:
            connection.close()

    def loaded(self) -> dict[str, str]:
        """Return part (member|month) -> digest of what of it is in the database."""
        with self._connected() as connection:
            return dict(connection.execute("SELECT part, digest FROM loaded").fetchall())

    def load(self, parts: Mapping[tuple[str, str], tuple[Mapping[str, pa.Table | None], str | None]]) -> None:
        """Put the rows of parts (member and month -> tables and a digest) in the place of those before, all at once.

        A part whose digest is None is forgotten.
        """
        with self._connected() as connection:
            connection.execute("BEGIN")
            connection.execute("DELETE FROM derived")
            for (member, month), (tables, made_of) in parts.items():
                for name, rows in tables.items():
                    connection.execute(f'DELETE FROM "{name}" WHERE member = ? AND month = ?', [member, month])
                    if rows is not None and rows.num_rows:
                        known = {c.name for c in self._tables[name]}
                        chosen = rows.select([c for c in rows.column_names if c in known])
                        connection.register("incoming", chosen)
                        connection.execute(f'INSERT INTO "{name}" BY NAME SELECT * FROM incoming')
                        connection.unregister("incoming")
                part = f"{member}|{month}"
                connection.execute("DELETE FROM loaded WHERE part = ?", [part])
                if made_of is not None:
                    connection.execute("INSERT INTO loaded VALUES (?, ?)", [part, made_of])
            connection.execute("COMMIT")

    def forget(self) -> None:
        """Write the file anew without what was deleted from it: a database keeps the bytes of deleted rows until it needs the room."""
        fresh = self.path.with_name(f"{self.path.name}.new")
        fresh.unlink(missing_ok=True)
        with self._connected() as connection:
            names = [*self._tables, "loaded"]
            connection.execute(f"ATTACH {connections.quoted(str(fresh))} AS fresh")
            for name in names:
                connection.execute(f'CREATE TABLE fresh."{name}" AS SELECT * FROM main."{name}"')
            connection.execute("CHECKPOINT fresh")  # what closes it keeps to itself that the disk had no room
            connection.execute("DETACH fresh")
        fresh.chmod(0o600)
        fresh.replace(self.path)

    @staticmethod
    def _derive(connection: duckdb.DuckDBPyConnection) -> None:
        """Make what reports read, unless nothing was loaded since."""
        code = digest(_DERIVED)
        if connection.execute("SELECT code FROM derived").fetchall() == [(code,)]:
            return
        connection.execute("BEGIN")
        same_calls.write(connection)
        connection.execute(_DERIVED)
        connection.execute("DELETE FROM derived")
        connection.execute("INSERT INTO derived VALUES (?)", [code])
        connection.execute("COMMIT")

    def reports(self, names: Collection[str] = tuple(REPORTS)) -> dict[str, list[dict[str, Any]]]:
        """Return the team's figures: report -> rows."""
        found: dict[str, list[dict[str, Any]]] = {}
        with self._connected() as connection:
            if any(table in REPORTS[name] for table in _READ for name in names):
                self._derive(connection)
            for name in names:
                cursor = connection.execute(REPORTS[name])
                columns = [str(c[0]) for c in cursor.description or ()]
                found[name] = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        return found


def declared(name: str) -> tuple[Column, ...]:
    """Return the columns of a table of the lake, or of the readings."""
    return (READINGS if name == "readings" else TABLES[name]).columns
