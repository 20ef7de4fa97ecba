"""The journal: what people, tools and stages say through ``ctx`` itself, one row a fact, never rewritten."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ctx_pipeline.errors import StoreDamaged, StoreError, StoreFull, StoreLocked, scarce
from ctx_pipeline.storage import store_marker
from ctx_pipeline.storage.connections import is_full, is_locked, is_unwritable, readable_text, reading, row_digest, use_wal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

SCHEMA = 1
"""Version of the payloads written today; kept with every fact."""

OBSERVATION = "observation"
NAME = "journal.db"
LOST = "accepted lessons, findings, decisions, tombstones and observations are in it alone"
ANEW = "put a backup of it in its place, or go on without what it held: ctx doctor --new-journal"

_AT_ONCE = 500
_UNMISTAKABLE = 20
"""Characters from which on an id is known wherever it stands; a shorter one only as a whole value."""

Subject = TypeVar("Subject")

_TABLES = (
    """CREATE TABLE IF NOT EXISTS facts (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, actor TEXT NOT NULL, kind TEXT NOT NULL,
        schema INTEGER NOT NULL, payload TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS facts_by_kind ON facts(kind, id)",
    "CREATE TABLE IF NOT EXISTS digests (fact INTEGER PRIMARY KEY, digest INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS observed (key TEXT PRIMARY KEY, fact INTEGER NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS facts_stay BEFORE UPDATE ON facts BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",
    "CREATE TRIGGER IF NOT EXISTS facts_last BEFORE DELETE ON facts BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",
)


class Fact(NamedTuple):
    """One row of the journal; ``id`` grows with every fact."""

    id: int
    at: str
    actor: str
    kind: str
    schema: int
    payload: Mapping[str, Any]


class Journal:
    """The facts of one store; many small writers, in any process."""

    def __init__(self, path: Path, *, read_only: bool = False, patience: float = 30, durable: bool = True, anew: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._patience = patience
        """Seconds that another writer is waited for."""
        self._durable = durable
        """A fact outlives a power cut; without it only the end of the process, which spares a hook the wait for the disk."""
        self._anew = anew
        """The journal of a marked store may be begun again."""
        self._open = threading.local()
        self._inherited: list[sqlite3.Connection] = []

    def append(self, kind: str, payload: Mapping[str, Any], actor: str = "ctx") -> int:
        """Add a fact and return its id."""
        with self._writing() as connection:
            return self._append(connection, kind, payload, actor)

    def append_all(self, kind: str, payloads: Sequence[Mapping[str, Any]], actor: str = "ctx") -> None:
        """Add facts of one kind, all or none of them."""
        if payloads:
            with self._writing() as connection:
                for payload in payloads:
                    self._append(connection, kind, payload, actor)

    def facts(self, kind: str | None = None, after: int = 0) -> list[Fact]:
        """Return the facts with an id above ``after``, oldest first; of one kind if given."""
        where, values = ("id > ?", [after]) if kind is None else ("id > ? AND kind = ?", [after, kind])
        rows = self._read(f"SELECT id, at, actor, kind, schema, payload FROM facts WHERE {where} ORDER BY id", values)
        return [Fact._make((*row[:5], json.loads(row[5]))) for row in rows]

    def head(self) -> int:
        """Return the id of the last fact that something is made of, 0 when there is none.

        What hooks log, figures that were measured and what is said of sessions make nothing stale.
        """
        kinds = "kind NOT GLOB 'hook.*' AND kind NOT GLOB 'measured.*' AND kind NOT GLOB 'session.*'"
        sql = f"SELECT coalesce(max(id), 0) FROM (SELECT id FROM facts WHERE {kinds} ORDER BY id DESC LIMIT 1)"
        return int(self._read(sql, [])[0][0]) if self.is_there() else 0

    def newest(self, kind: str, limit: int) -> list[Fact]:
        """Return the last facts of a kind, newest first; none where there is no journal."""
        if not self.is_there():
            return []
        rows = self._read("SELECT id, at, actor, kind, schema, payload FROM facts WHERE kind = ? ORDER BY id DESC LIMIT ?", [kind, limit])
        return [Fact._make((*row[:5], json.loads(row[5]))) for row in rows]

    def observe(self, key: str, ask: Callable[[], Mapping[str, Any]], *, refresh: bool = False) -> Mapping[str, Any]:
        """Return what was seen of something outside: asked once, recorded, replayed ever after.

        With ``refresh`` the world is asked again and the newer answer counts from then on.
        """
        if not refresh:
            rows = self._read("SELECT f.payload FROM observed o JOIN facts f ON f.id = o.fact WHERE o.key = ?", [key])
            if rows:
                return dict(json.loads(rows[0][0])["answer"])
        answer = dict(ask())
        with self._writing() as connection:
            fact = self._append(connection, OBSERVATION, {"key": key, "answer": answer}, "ctx")
            connection.execute("INSERT INTO observed VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET fact = excluded.fact", (key, fact))
        return answer

    def observed(self, keys: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Return key -> the answer that counts, of those keys that were ever observed."""
        wanted = list(keys)
        found: dict[str, Mapping[str, Any]] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT o.key, f.payload FROM observed o JOIN facts f ON f.id = o.fact WHERE o.key IN ({marks})"
            found.update({key: json.loads(payload)["answer"] for key, payload in self._read(sql, some) if key})
        return found

    def observed_under(self, beginning: str) -> dict[str, Mapping[str, Any]]:
        """Return key -> the answer that counts, of all observations whose key begins so, oldest first; none without a journal."""
        if not self.is_there():
            return {}
        sql = "SELECT o.key, f.payload FROM observed o JOIN facts f ON f.id = o.fact WHERE o.key >= ? AND o.key < ? ORDER BY o.fact"
        rows = self._read(sql, [beginning, f"{beginning}\U0010ffff"])
        return {key: json.loads(payload)["answer"] for key, payload in rows}

    def observations(self, beginning: str) -> list[Mapping[str, Any]]:
        """Return every answer whose key begins so, oldest first, also those that a newer one replaced."""
        if not self.is_there():
            return []
        rows = self._read(
            "SELECT payload FROM facts WHERE kind = ? AND instr(payload, ?) ORDER BY id", [OBSERVATION, f'"key":"{beginning}']
        )
        found = [json.loads(payload) for (payload,) in rows]
        return [fact["answer"] for fact in found if str(fact.get("key")).startswith(beginning)]

    def observe_all(
        self, asked: Mapping[str, Subject], ask: Callable[[list[Subject]], Iterable[Mapping[str, Any]]], *, refresh: bool = False
    ) -> dict[str, Mapping[str, Any]]:
        """Return key -> what was seen of its subject, as :meth:`observe` for many at once.

        ``ask`` takes the subjects without an answer (all of them with ``refresh``) and gives
        one answer each, in order; they are recorded in one transaction.
        """
        known = {} if refresh or not asked else self.observed(asked)
        missing = [key for key in asked if key not in known]
        if not missing:
            return known
        answers = [dict(answer) for answer in ask([asked[key] for key in missing])]
        with self._writing() as connection:
            for key, answer in zip(missing, answers, strict=True):
                fact = self._append(connection, OBSERVATION, {"key": key, "answer": answer}, "ctx")
                connection.execute("INSERT INTO observed VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET fact = excluded.fact", (key, fact))
        return known | dict(zip(missing, answers, strict=True))

    def rename(self, names: Mapping[str, str]) -> int:
        """Write other names in place of these in all facts, with no trace of the old ones in the file; return how many facts changed.

        This is what forgetting does to ids of sessions, and the one change of what was
        written. What a fact gives as evidence, places in a session, goes with its name.
        """
        quoted = {json.dumps(old)[1:-1]: json.dumps(new)[1:-1] for old, new in names.items()}
        with self._writing() as connection:
            changed = []
            for fact, payload in connection.execute("SELECT id, payload FROM facts"):
                text = payload
                for old, new in quoted.items():
                    text = text.replace(old, new) if len(old) >= _UNMISTAKABLE else text.replace(f'"{old}"', f'"{new}"')
                if text != payload:
                    told = json.loads(text)
                    told.pop("evidence", None)
                    changed.append((json.dumps(told, ensure_ascii=True, sort_keys=True, separators=(",", ":")), fact))
            if changed:
                connection.execute("DROP TRIGGER facts_stay")
                connection.executemany("UPDATE facts SET payload = ? WHERE id = ?", changed)
                for statement in _TABLES:
                    connection.execute(statement)
                connection.executemany("DELETE FROM digests WHERE fact = ?", [(fact,) for _, fact in changed])
                _digest_all(connection)
        with self._translated():
            if changed:
                self._connection().execute("VACUUM")
            self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return len(changed)

    def is_there(self) -> bool:
        """Tell whether the journal was begun; raises StoreDamaged where it was and is missing or empty now."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = None
        # another process that begins a store makes its marker last
        if not size and self._marked():
            raise self._lost("missing" if size is None else "empty")
        return size is not None

    def demand(self) -> None:
        """Raise StoreDamaged where the journal is lost or cannot be read at all."""
        if self.is_there():
            self._read("SELECT 1 FROM facts LIMIT 1", [])

    def contradicting(self) -> list[tuple[int, str]]:
        """Return (id, kind) of the facts that are not as they were written, or gone; what an older version wrote since has no digest."""
        if not self.is_there():
            return []
        with self._translated(), closing(reading(self.path, self._patience)) as connection:
            connection.text_factory = readable_text
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'digests'").fetchone():
                return []
            rows = connection.execute(
                "SELECT d.fact, d.digest, f.id, f.at, f.actor, f.kind, f.schema, f.payload"
                " FROM digests d LEFT JOIN facts f ON f.id = d.fact"
            )
            return [(fact, row[3] or "gone") for fact, told, *row in rows if row_digest(row) != told]

    def _marked(self) -> bool:
        return not self._anew and self.path.name == NAME and store_marker.marked(self.path.parent)

    def _lost(self, what: str) -> StoreDamaged:
        return StoreDamaged(f"{self.path} is {what}: {LOST}", hint=ANEW, path=str(self.path))

    def close(self) -> None:
        """Close this thread's connection."""
        found = getattr(self._open, "pair", None)
        if found and found[0] == os.getpid():
            found[1].close()
        self._open.pair = None

    def _read(self, sql: str, values: list[Any]) -> list[tuple]:
        if not self.is_there() and self.read_only:
            return [(0,)] if "max(id)" in sql else []
        with self._translated():
            try:
                return self._connection().execute(sql, values).fetchall()
            except sqlite3.OperationalError as error:
                if not is_full(error):
                    raise
            with closing(reading(self.path, self._patience)) as connection:
                return connection.execute(sql, values).fetchall()

    def restore(self, facts: Iterable[tuple[str, str, str, int, str]]) -> int:
        """Add facts of an earlier journal as they were (time, actor, kind, schema, JSON of the payload), in order; return how many."""
        count = 0
        with self._writing() as connection:
            for at, actor, kind, schema, text in facts:
                row = (at, actor, kind, schema, text)
                fact = _insert(connection, row)
                if kind == OBSERVATION and (key := json.loads(text).get("key")):
                    connection.execute(
                        "INSERT INTO observed VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET fact = excluded.fact", (key, fact)
                    )
                count += 1
        return count

    def _append(self, connection: sqlite3.Connection, kind: str, payload: Mapping[str, Any], actor: str) -> int:
        at = store_marker.now()
        if kind in store_marker.KEPT_BESIDE and self.path.name == NAME:
            store_marker.keep_beside(self.path.parent, kind, payload, at)
        text = json.dumps(payload, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
        return _insert(connection, (at, actor, kind, SCHEMA, text))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._translated():
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _connection(self) -> sqlite3.Connection:
        found: tuple[int, sqlite3.Connection] | None = getattr(self._open, "pair", None)
        if found and found[0] == os.getpid():
            return found[1]
        if found:
            self._inherited.append(found[1])
        if self.read_only:
            made = reading(self.path, self._patience)
        else:
            fresh, marked = not self.is_there(), self._marked()
            with suppress(FileExistsError):
                # O_EXCL: closing a descriptor of a database that is there drops the locks of this process's other connections
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            made = sqlite3.connect(self.path, timeout=self._patience, isolation_level=None)
            there = set() if fresh else {name for (name,) in made.execute("SELECT name FROM sqlite_master")}
            if not there >= {"facts_last", "digests"}:
                if not fresh and marked and "facts_last" not in there:
                    made.close()
                    raise self._lost("without its tables")
                use_wal(made)
                for statement in _TABLES:
                    made.execute(statement)
                _digest_all(made)
        made.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'NORMAL'}")
        self._open.pair = (os.getpid(), made)
        return made

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            text = str(error)
            if is_locked(error):
                raise StoreLocked(f"{self.path} is locked by another process", hint="wait for the other ctx process to end") from error
            if is_full(error):
                raise StoreFull(f"no room left for {self.path}", hint="free some disk space and run again") from error
            if any(word in text for word in ("malformed", "not a database", "no such table")):
                raise StoreDamaged(f"{self.path} is damaged ({text}): {LOST}", hint=ANEW, path=str(self.path)) from error
            if (refused := scarce(error)) is not None:
                raise refused from error
            raise StoreError(
                f"{self.path} cannot be used: {text}", hint="check CTX_HOME and its permissions" if is_unwritable(error) else "ctx doctor"
            ) from error


def _insert(connection: sqlite3.Connection, row: tuple[str, str, str, int, str]) -> int:
    """Add a fact (time, actor, kind, schema, JSON of the payload) with its digest, and return its id."""
    fact = int(connection.execute("INSERT INTO facts (at, actor, kind, schema, payload) VALUES (?, ?, ?, ?, ?)", row).lastrowid or 0)
    connection.execute("INSERT OR REPLACE INTO digests VALUES (?, ?)", (fact, row_digest([fact, *row])))
    return fact


def _digest_all(connection: sqlite3.Connection) -> None:
    """Give every fact without a digest one: those of an older version, and those that were renamed."""
    rows = connection.execute(
        "SELECT id, at, actor, kind, schema, payload FROM facts WHERE id NOT IN (SELECT fact FROM digests)"
    ).fetchall()
    connection.executemany("INSERT OR IGNORE INTO digests VALUES (?, ?)", [(row[0], row_digest([*row])) for row in rows])
