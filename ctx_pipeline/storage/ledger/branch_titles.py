"""Titles that one session's files give to a branch of another: who owns the branch, and what it is called there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage.ledger.connection import json_list

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.storage.ledger.rows import NormalizedSession

ID_BYTES = 8
"""Bytes of the hash that stands for a line's id."""

_FEW = 16
"""Lines that are looked for in the sessions one by one; of more all sessions are looked at."""

_GIVES_WAY = frozenset({"prompt", "none"})
"""Sources of a title that a told one is better than."""

_TOLD = "SELECT leaf, teller, title FROM branch_titles WHERE host = ?"


def record(connection: sqlite3.Connection, host: str, group: Sequence[NormalizedSession], below: Iterable[str]) -> set[Cell]:
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
    return _resolve_sessions(connection, host, None if holding is None else {*holding, *below, *(r.session_id for r in group)})


def drop(connection: sqlite3.Connection, host: str, gone: Iterable[str], below: Iterable[str]) -> set[Cell]:
    """Remove what sessions told and held; return the cells of sessions that are called otherwise now."""
    ids = json_list(sorted(gone))
    connection.execute("DELETE FROM session_lines WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))", (host, ids))
    told = connection.execute(
        "DELETE FROM branch_titles WHERE host = ? AND teller IN (SELECT value FROM json_each(?))", (host, ids)
    ).rowcount
    return _resolve_sessions(connection, host, None if told else set(below))


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


def _resolve_sessions(connection: sqlite3.Connection, host: str, sessions: set[str] | None) -> set[Cell]:
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
