"""Who a model call is counted for, when more than one session recorded it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.usage_rules import (
    BEFORE_FORK,
    BY_ID,
    EARLIEST,
    SAME_CALLS,
    SAME_TOTALS,
    Owner,
    decide,
    replays,
    same_calls,
    with_replays,
)
from ctx_pipeline.storage.ledger import digests
from ctx_pipeline.storage.ledger.connection import json_list

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.storage.ledger.rows import NormalizedSession

__all__ = ["BEFORE_FORK", "BY_ID", "EARLIEST", "SAME_TOTALS", "Owner", "copied_sessions", "copies", "decide", "drop_sessions", "record"]


# Titles that one session's files give to a branch of another: who owns the branch, and what it is called there.


ID_BYTES = 8
"""Bytes of the hash that stands for a line's id."""

_FEW = 16
"""Lines that are looked for in the sessions one by one; of more all sessions are looked at."""

_GIVES_WAY = frozenset({"prompt", "none"})
"""Sources of a title that a told one is better than."""

_TOLD = "SELECT leaf, teller, title FROM branch_titles WHERE host = ?"


def record_titles(connection: sqlite3.Connection, host: str, group: Sequence[NormalizedSession], below: Iterable[str]) -> set[Cell]:
    """Write lines and told titles of decoded sessions; return the cells of sessions that are called otherwise now.

    ``below`` are the descendants of the sessions: a line that a fork copied names its origin only.
    """
    tellers = json_list(r.session_id for r in group)
    mine = f"{_TOLD} AND teller IN (SELECT value FROM json_each(?))"
    before = set(connection.execute(mine, (host, tellers)).fetchall())
    after = {(leaf, r.session_id, title) for r in group for leaf, title in r.branch_titles.items()}
    if before != after:
        connection.execute("DELETE FROM branch_titles WHERE host = ? AND teller IN (SELECT value FROM json_each(?))", (host, tellers))
        connection.executemany("INSERT INTO branch_titles (host, leaf, teller, title) VALUES (?, ?, ?, ?)", [(host, *row) for row in after])
    connection.executemany(
        "INSERT OR REPLACE INTO session_lines (host, session_id, ids) VALUES (?, ?, ?)", [(host, r.session_id, r.line_ids) for r in group]
    )
    holding = _holding(connection, host, {leaf for leaf, _, _ in before ^ after})
    return _owners_of_titles(connection, host, None if holding is None else {*holding, *below, *(r.session_id for r in group)})


def drop(connection: sqlite3.Connection, host: str, gone: Iterable[str], below: Iterable[str]) -> set[Cell]:
    """Remove what sessions told and held; return the cells of sessions that are called otherwise now."""
    ids = json_list(sorted(gone))
    connection.execute("DELETE FROM session_lines WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))", (host, ids))
    told = connection.execute(
        "DELETE FROM branch_titles WHERE host = ? AND teller IN (SELECT value FROM json_each(?))", (host, ids)
    ).rowcount
    return _owners_of_titles(connection, host, None if told else set(below))


def given(connection: sqlite3.Connection) -> dict[Cell, list[tuple[str, str]]]:
    """Return cell -> (session_id, title) of the sessions that another one's file gives their title."""
    found: dict[Cell, list[tuple[str, str]]] = {}
    for host, month, session, title in connection.execute(
        "SELECT host, month, session_id, given_title FROM sessions WHERE given_title IS NOT NULL ORDER BY host, session_id"
    ):
        found.setdefault(Cell(host, month), []).append((session, title))
    return found


def _holding(connection: sqlite3.Connection, host: str, leaves: set[bytes]) -> set[str] | None:
    """Return the sessions that hold one of these lines, and perhaps others; None for all where so many lines are asked for."""
    if len(leaves) > _FEW:
        return None
    held = "SELECT session_id FROM session_lines WHERE host = ? AND instr(ids, ?) > 0"
    return {session for leaf in leaves for (session,) in connection.execute(held, (host, leaf))}


def _owners_of_titles(connection: sqlite3.Connection, host: str, sessions: set[str] | None) -> set[Cell]:
    """Give sessions (None: all of the host) the told title of their last branch that has one; return the cells that changed.

    Of several titles of one branch that of the last teller by id counts, whatever order they came in.
    """
    told = {leaf: title for leaf, _, title in connection.execute(f"{_TOLD} ORDER BY leaf, teller", (host,))}
    if not told and sessions is not None:
        return set()
    where, values = (
        ("", ()) if sessions is None else (" AND s.session_id IN (SELECT value FROM json_each(?))", (json_list(sorted(sessions)),))
    )
    changed: set[Cell] = set()
    for session, month, rows, old, ids, above in connection.execute(
        "SELECT s.session_id, s.month, s.rows, s.given_title, l.ids, p.ids FROM sessions s"
        " JOIN session_lines l ON l.host = s.host AND l.session_id = s.session_id"
        " LEFT JOIN session_lines p ON p.host = s.host AND p.session_id = coalesce(s.linked_parent, s.told_parent)"
        f" WHERE s.host = ?{where}",
        (host, *values),
    ).fetchall():
        title = _title(told, ids, above or b"") if json.loads(rows).get("title_source") in _GIVES_WAY else None
        if title != old:
            connection.execute("UPDATE sessions SET given_title = ? WHERE host = ? AND session_id = ?", (title, host, session))
            changed.add(Cell(host, month))
    return changed


def _title(told: Mapping[bytes, str], ids: bytes, above: bytes) -> str | None:
    found = [leaf for leaf in _split(ids) if leaf in told] if told else []
    copied = set(_split(above)) if found else set()
    return next((told[leaf] for leaf in reversed(found) if leaf not in copied), None)


def _split(ids: bytes) -> list[bytes]:
    return [ids[at : at + ID_BYTES] for at in range(0, len(ids), ID_BYTES)]


_MINE = "FROM callers WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))"
"""Sessions of a host by the number that their calls carry: a row of ``calls`` is half as long without their ids."""


def record(connection: sqlite3.Connection, results: Sequence[NormalizedSession], code_version: str) -> set[Cell]:
    """Write what decoding made of sessions, settle ownership and told titles, and return the cells whose rows change by that."""
    by_host: dict[str, list[NormalizedSession]] = {}
    for result in results:
        by_host.setdefault(result.host, []).append(result)
    changed: set[Cell] = set()
    for host, group in sorted(by_host.items()):
        ids = json_list(result.session_id for result in group)
        before = _sharing(connection, host, ids)
        connection.execute(f"DELETE FROM calls WHERE session IN (SELECT number {_MINE})", (host, ids))
        for table in ("quarantine", "unknowns"):
            connection.execute(f"DELETE FROM {table} WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))", (host, ids))
        _write(connection, host, group, code_version)
        mine = {result.session_id for result in group}
        below = _forks(connection, host, mine)
        changed |= _resolve_sessions(connection, host, before | mine | below)
        changed |= record_titles(connection, host, group, below)
        _remove_orphans(connection, host)
    return changed


def drop_sessions(connection: sqlite3.Connection, sessions: Iterable[tuple[str, str]]) -> set[Cell]:
    """Remove sessions and all that was made of them; return the cells whose calls changed owner or whose sessions changed title."""
    changed: set[Cell] = set()
    by_host: dict[str, set[str]] = {}
    for host, session in sessions:
        by_host.setdefault(host, set()).add(session)
    for host, gone in sorted(by_host.items()):
        ids = json_list(sorted(gone))
        below = _forks(connection, host, gone) - gone
        sharing = _sharing(connection, host, ids) - gone | below
        connection.execute(f"DELETE FROM calls WHERE session IN (SELECT number {_MINE})", (host, ids))
        for table in ("callers", "quarantine", "unknowns", "sessions"):
            connection.execute(f"DELETE FROM {table} WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))", (host, ids))
        changed |= _resolve_sessions(connection, host, sharing)
        changed |= drop(connection, host, gone, below)
        _remove_orphans(connection, host)
    return changed


def copies(connection: sqlite3.Connection, cell: Cell | None = None) -> dict[Cell, dict[tuple[str, str], Owner]]:
    """Return cell -> (session_id, call_key) -> owner, for the calls that count elsewhere."""
    where, values = ("WHERE s.host = ? AND s.month = ?", tuple(cell)) if cell is not None else ("", ())
    found: dict[Cell, dict[tuple[str, str], Owner]] = {}
    for host, month, session, key, owner, rule in connection.execute(
        "SELECT s.host, s.month, s.session_id, o.call_key, o.owner_session, o.rule FROM owners o"
        " CROSS JOIN calls c ON c.call_key = o.call_key"
        " CROSS JOIN callers n ON n.number = c.session AND n.host = o.host AND n.session_id <> o.owner_session"
        f" CROSS JOIN sessions s ON s.host = n.host AND s.session_id = n.session_id {where} ORDER BY 1, 2, 3, 4",
        values,
    ):
        found.setdefault(Cell(host, month), {})[session, key] = Owner(owner, rule)
    return found


_MOVED = (
    " FROM owners o CROSS JOIN calls c ON c.call_key = o.call_key"
    " CROSS JOIN callers n ON n.number = c.session AND n.host = o.host AND n.session_id <> o.owner_session"
)
"""The model calls that sessions recorded and that count for another one."""


def origins(connection: sqlite3.Connection) -> dict[tuple[str, str], set[tuple[str, str]]]:
    """Return (host, session_id) of each session that holds calls of others, or was told a parent -> those sessions."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for host, session, owner in connection.execute(
        f"SELECT n.host, n.session_id, o.owner_session{_MOVED} UNION"
        " SELECT host, session_id, coalesce(linked_parent, told_parent) FROM sessions"
        " WHERE coalesce(linked_parent, told_parent) IS NOT NULL"
    ):
        found.setdefault((host, session), set()).add((host, owner))
    return found


def copied_sessions(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Return (host, session_id) of each session whose every model call counts elsewhere -> the session for which most of them count."""
    found: dict[tuple[str, str], str] = {}
    for host, session, owner in connection.execute(
        f"WITH moved AS (SELECT n.host, n.session_id, n.number, o.owner_session, count(*) AS times{_MOVED} GROUP BY 1, 2, 3, 4)"
        " SELECT host, session_id, owner_session FROM moved m"
        " WHERE (SELECT sum(times) FROM moved WHERE number = m.number) = (SELECT count(*) FROM calls WHERE session = m.number)"
        " ORDER BY host, session_id, times DESC, owner_session"
    ):
        found.setdefault((host, session), owner)
    return found


def _write(connection: sqlite3.Connection, host: str, group: Sequence[NormalizedSession], code_version: str) -> None:
    connection.executemany(
        "UPDATE sessions SET decoded_fp = ?, decoded_version = ?, content_hash = ?, rows = ?, told_parent = ?, part = coalesce(?, part)"
        " WHERE host = ? AND session_id = ?",
        [
            (r.fingerprint, code_version, r.content_hash, json.dumps(dict(r.counts)), r.parent_session, r.part, host, r.session_id)
            for r in group
        ],
    )
    connection.executemany(
        "INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(host, r.session_id, q.stream, q.generation, q.line, q.start, q.end, q.reason) for r in group for q in r.quarantine],
    )
    connection.executemany(
        "INSERT INTO unknowns VALUES (?, ?, ?, ?)",
        [(host, r.session_id, label, n) for r in group for label, n in sorted(r.unknowns.items())],
    )
    connection.executemany("INSERT OR IGNORE INTO callers (host, session_id) VALUES (?, ?)", [(host, r.session_id) for r in group])
    ids = json_list(r.session_id for r in group)
    numbers = dict(connection.execute(f"SELECT session_id, number {_MINE}", (host, ids)).fetchall())
    for result in sorted(group, key=lambda r: numbers[r.session_id]):
        number = numbers[result.session_id]
        calls = {str(key): ts for key, ts in result.calls}
        in_order = [(key, calls[key]) for key in sorted(calls)]
        connection.executemany("INSERT INTO calls VALUES (?, ?, ?)", [(number, *call) for call in in_order])
        connection.execute("UPDATE callers SET calls = ? WHERE number = ?", (digests.of_calls(in_order), number))


def _sharing(connection: sqlite3.Connection, host: str, ids: str) -> set[str]:
    """Return the sessions that hold a contested key of these sessions, or copied calls of them (as the owners table knows it)."""
    copied = connection.execute(
        "SELECT DISTINCT substr(call_key, 1, instr(call_key, ':') - 1), owner_session FROM owners WHERE host = ? AND rule = ?",
        (host, SAME_CALLS),
    )
    asked = set(json.loads(ids))
    return {one for pair in copied if not asked.isdisjoint(pair) for one in pair} | {
        row[0]
        for row in connection.execute(
            "SELECT DISTINCT m.session_id FROM callers n CROSS JOIN calls c ON c.session = n.number"
            " CROSS JOIN owners o ON o.host = n.host AND o.call_key = c.call_key"
            " CROSS JOIN calls d ON d.call_key = c.call_key CROSS JOIN callers m ON m.number = d.session AND m.host = n.host"
            " WHERE n.host = ? AND n.session_id IN (SELECT value FROM json_each(?))",
            (host, ids),
        )
    }


def sharing(connection: sqlite3.Connection, host: str, sessions: set[str]) -> set[str]:
    """Return the other sessions of a host that hold a model call or a line of these, declared forks or not."""
    lines: set[bytes] = set()
    others: list[tuple[str, bytes]] = []
    for session, ids in connection.execute("SELECT session_id, ids FROM session_lines WHERE host = ?", (host,)):
        if session in sessions:
            lines.update(_split(ids))
        else:
            others.append((session, ids))
    found = {session for session, ids in others if not lines.isdisjoint(_split(ids))}
    return (found | _sharing(connection, host, json_list(sorted(sessions)))) - sessions


def _forks(connection: sqlite3.Connection, host: str, sessions: set[str]) -> set[str]:
    """Return all declared descendants of these sessions."""
    found: set[str] = set()
    frontier = sessions
    while frontier:
        ids = json_list(sorted(frontier))
        below = {
            row[0]
            for column in ("linked_parent", "told_parent")
            for row in connection.execute(
                f"SELECT session_id FROM sessions WHERE host = ? AND {column} IS NOT NULL AND {column} IN (SELECT value FROM json_each(?))",
                (host, ids),
            )
        }
        frontier = below - found
        found |= below
    return found


def _resolve_sessions(connection: sqlite3.Connection, host: str, touched: set[str]) -> set[Cell]:
    """Decide anew for the connected groups of these sessions; return the cells of sessions whose copies changed."""
    group, sharing = _group(connection, host, touched | _beginning_alike(connection, host, touched))
    calls = _calls(connection, host, sharing)
    holders: dict[str, list[str]] = {}
    for session, held in calls.items():
        for key in held:
            holders.setdefault(key, []).append(session)
    shared = {key: sessions for key, sessions in holders.items() if len(sessions) > 1}
    repeated = _replays(connection, host, group)
    own = {
        session: min((ts for key, ts in held.items() if ts is not None and key not in shared and key not in repeated), default=None)
        for session, held in calls.items()
    }
    after = with_replays(decide(shared, own, _parents(connection, host, sharing)), repeated)
    copied = {key: origin for key, origin in same_calls(_totals(connection, host, group)).items() if key not in after}
    after = with_replays(after, copied, SAME_CALLS)
    ids = json_list(sorted(group))
    before: dict[str, Owner] = {}
    seen: set[tuple[str, str]] = {(key, session) for key, sessions in shared.items() for session in sessions}
    seen |= {(key, key.partition(":")[0]) for key in (*repeated, *copied)}
    for key, session, owner, rule in connection.execute(
        "SELECT o.call_key, n.session_id, o.owner_session, o.rule FROM callers n CROSS JOIN calls c ON c.session = n.number"
        " CROSS JOIN owners o ON o.host = n.host AND o.call_key = c.call_key"
        " WHERE n.host = ? AND n.session_id IN (SELECT value FROM json_each(?))",
        (host, ids),
    ):
        before[key] = Owner(owner, rule)
        seen.add((key, session))
    connection.executemany("DELETE FROM owners WHERE host = ? AND call_key = ?", [(host, key) for key in before if key not in after])
    connection.executemany(
        "INSERT INTO owners VALUES (?, ?, ?, ?) ON CONFLICT(host, call_key) DO UPDATE SET"
        " owner_session = excluded.owner_session, rule = excluded.rule",
        [(host, key, *owner) for key, owner in sorted(after.items()) if before.get(key) != owner],
    )
    alone = connection.execute(
        "SELECT n.session_id, min(c.ts) FROM callers n CROSS JOIN calls c ON c.session = n.number"
        " WHERE n.host = ? AND n.session_id IN (SELECT value FROM json_each(?))"
        " AND c.call_key NOT IN (SELECT value FROM json_each(?)) GROUP BY n.number",
        (host, json_list(sorted(group - sharing)), json_list(sorted(repeated))),
    ).fetchall()
    connection.executemany(
        "UPDATE sessions SET first_own_ts = ? WHERE host = ? AND session_id = ? AND first_own_ts IS NOT ?",
        [(ts, host, session, ts) for session, ts in (*own.items(), *alone)],
    )
    affected = {session for key, session in seen if _copied(before.get(key), session) != _copied(after.get(key), session)}
    rows = connection.execute(
        "SELECT DISTINCT host, month FROM sessions WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))",
        (host, json_list(sorted(affected))),
    )
    return {Cell(*row) for row in rows}


def _replays(connection: sqlite3.Connection, host: str, sessions: set[str]) -> dict[str, tuple[str, str]]:
    """Return the calls of these sessions that repeat one of a declared ancestor under the session's own id."""
    forks = connection.execute(
        "SELECT s.session_id FROM sessions s CROSS JOIN callers n ON n.host = s.host AND n.session_id = s.session_id"
        " WHERE s.host = ? AND coalesce(s.linked_parent, s.told_parent) IS NOT NULL AND s.session_id IN (SELECT value FROM json_each(?))"
        " AND EXISTS (SELECT 1 FROM calls c WHERE c.session = n.number"
        " AND c.call_key > s.session_id || ':' AND c.call_key < s.session_id || ';')",
        (host, json_list(sorted(sessions))),
    ).fetchall()
    if not forks:
        return {}
    below = {session for (session,) in forks}
    parents = _parents(connection, host, below)
    found = replays(_calls(connection, host, below | parents.keys()), parents)
    return {key: origin for key, origin in found.items() if key.partition(":")[0] in below}


_TOTALS = (
    " FROM callers n CROSS JOIN calls c ON c.session = n.number WHERE n.host = ? AND n.session_id IN (SELECT value FROM json_each(?))"
    " AND c.call_key > n.session_id || ':' AND c.call_key < n.session_id || ';'"
)
"""Calls of sessions whose keys are their own id and running totals."""


def _beginning_alike(connection: sqlite3.Connection, host: str, sessions: set[str]) -> set[str]:
    """Return the sessions whose own calls begin at the moment of such a call of these."""
    found = connection.execute(
        f"SELECT session_id FROM sessions WHERE host = ? AND first_own_ts IN (SELECT c.ts{_TOTALS})",
        (host, host, json_list(sorted(sessions))),
    )
    return {session for (session,) in found}


def _totals(connection: sqlite3.Connection, host: str, sessions: set[str]) -> dict[str, dict[str, int | None]]:
    """Return session -> call key -> time of the calls whose keys are running totals."""
    calls: dict[str, dict[str, int | None]] = {}
    for session, key, ts in connection.execute(f"SELECT n.session_id, c.call_key, c.ts{_TOTALS}", (host, json_list(sorted(sessions)))):
        calls.setdefault(session, {})[key] = ts
    return calls


def _remove_orphans(connection: sqlite3.Connection, host: str) -> None:
    """Remove the owners of calls that no session holds any more."""
    connection.execute(
        "DELETE FROM owners WHERE host = ?"
        " AND NOT EXISTS (SELECT 1 FROM calls c CROSS JOIN callers n ON n.number = c.session"
        " WHERE c.call_key = owners.call_key AND n.host = owners.host)",
        (host,),
    )


def _copied(owner: Owner | None, session: str) -> Owner | None:
    return owner if owner is not None and owner.session_id != session else None


def _group(connection: sqlite3.Connection, host: str, touched: set[str]) -> tuple[set[str], set[str]]:
    """Return these sessions with all that share a call with them, however far, and those that share one."""
    group, sharing = set(touched), set()
    frontier = group
    while frontier:
        pairs = connection.execute(
            "SELECT DISTINCT n.session_id, m.session_id FROM callers n CROSS JOIN calls c ON c.session = n.number"
            " CROSS JOIN calls d ON d.call_key = c.call_key AND d.session <> c.session"
            " CROSS JOIN callers m ON m.number = d.session AND m.host = n.host"
            " WHERE n.host = ? AND n.session_id IN (SELECT value FROM json_each(?))",
            (host, json_list(sorted(frontier))),
        ).fetchall()
        found = {session for pair in pairs for session in pair}
        sharing |= found
        frontier = found - group
        group = group | frontier
    return group, sharing


def _calls(connection: sqlite3.Connection, host: str, sessions: set[str]) -> dict[str, dict[str, int | None]]:
    """Return session -> call key -> time."""
    calls: dict[str, dict[str, int | None]] = {session: {} for session in sessions}
    for session, key, ts in connection.execute(
        "SELECT n.session_id, c.call_key, c.ts FROM callers n CROSS JOIN calls c ON c.session = n.number"
        " WHERE n.host = ? AND n.session_id IN (SELECT value FROM json_each(?))",
        (host, json_list(sorted(sessions))),
    ):
        calls[session][key] = ts
    return calls


def _parents(connection: sqlite3.Connection, host: str, sessions: set[str]) -> dict[str, str | None]:
    """Return session -> declared parent, for the sessions and all their ancestors."""
    found: dict[str, str | None] = {}
    frontier = sessions
    while frontier:
        rows = connection.execute(
            "SELECT session_id, coalesce(linked_parent, told_parent) FROM sessions"
            " WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))",
            (host, json_list(sorted(frontier))),
        ).fetchall()
        found.update(rows)
        frontier = {parent for _, parent in rows if parent} - found.keys() - {session for session, _ in rows}
        if not rows:
            break
    return found
