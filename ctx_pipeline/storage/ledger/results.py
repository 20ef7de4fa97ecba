"""What was made of sessions and cells: decoding results, ownership, asset records, totals."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage.ledger import owners
from ctx_pipeline.storage.ledger.connection import json_list
from ctx_pipeline.storage.ledger.rows import AssetCell, QuarantineRow, UnknownRow
from ctx_pipeline.storage.ledger.sessions import UNDECODABLE, Sessions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ctx_pipeline.storage.ledger.rows import NormalizedSession

_ASSET = "asset, host, month, input_fp, code_version, content_hash, rows, updated_at"


class Results(Sessions):
    """The part of the ledger that says what was made of what raw holds."""

    def record_normalized(self, results: Iterable[NormalizedSession], *, code_version: object) -> set[Cell]:
        """Record decoded sessions, settle who owns shared calls and told titles, and return the cells whose rows change by that.

        The sessions stay dirty until :meth:`record_asset` says that the manifest of
        their cell is on disk: a crash in between redoes the cell.
        """
        rows = list(results)
        with self.transaction() as connection:
            return owners.record(connection, rows, str(code_version))

    def copied_sessions(self) -> dict[tuple[str, str], str]:
        """Return (host, session_id) of each session that is a copy as a whole -> the session for which its model calls count."""
        return owners.copied_sessions(self.connection)

    def origins(self) -> dict[tuple[str, str], set[tuple[str, str]]]:
        """Return (host, session_id) of each session that holds calls of others, or was told a parent -> those sessions."""
        return owners.origins(self.connection)

    def copies(self, cell: Cell) -> dict[tuple[str, str], owners.Owner]:
        """Return (session_id, call_key) -> (owner session, rule) of the cell's calls that count in another session."""
        return owners.copies(self.connection, cell).get(cell, {})

    def sharing(self, host: str, sessions: Iterable[str]) -> set[str]:
        """Return the other sessions of a host whose records hold a model call or a line of these sessions."""
        return owners.sharing(self.connection, host, set(sessions))

    def cell_fingerprint(self, cell: Cell) -> str:
        """Return the hash of what a cell's tables are made of: its sessions, the ownership that touches it, and titles that others give."""
        return self.cell_fingerprints([cell])[cell]

    def cell_fingerprints(self, cells: Iterable[Cell] | None = None) -> dict[Cell, str]:
        """Return the fingerprint of every cell (of these cells); one without sessions has one as well."""
        wanted = None if cells is None else set(cells)
        sessions: dict[Cell, list[tuple[str, str]]] = {cell: [] for cell in wanted or ()}
        for host, month, session, fp in self.query("SELECT host, month, session_id, captured_fp FROM sessions ORDER BY host, session_id"):
            cell = Cell(host, month)
            if wanted is None or cell in wanted:
                sessions.setdefault(cell, []).append((session, fp))
        only = next(iter(wanted)) if wanted is not None and len(wanted) == 1 else None
        moved = owners.copies(self.connection, only)
        titles = owners.given(self.connection)
        return {
            cell: digest(rows, [(*key, *owner) for key, owner in moved.get(cell, {}).items()], *([titles[cell]] if cell in titles else ()))
            for cell, rows in sessions.items()
        }

    def unfinished_cells(self, asset: str = "normalized/events", versions: Mapping[str, str] = {}) -> set[Cell]:
        """Return the cells whose tables are not made of what the ledger says now.

        A cell is in it when it holds a dirty session, was never recorded, lost or gained
        calls, lost all its sessions to another cell, or was made by another version than
        ``versions`` has for its host.
        """
        made = self.asset_cells(asset)
        now = self.cell_fingerprints()
        behind = {cell for cell, fp in now.items() if cell not in made or made[cell].input_fp != fp}
        emptied = made.keys() - now.keys()
        old = {cell for cell, row in made.items() if row.code_version != versions.get(cell.host, row.code_version)}
        return behind | emptied | old | {row.partition for row in self.dirty_sessions()}

    def asset_cell(self, asset: str, cell: Cell) -> AssetCell | None:
        """Return what was last committed for an asset in a cell."""
        rows = self.query(f"SELECT {_ASSET} FROM asset_cells WHERE asset = ? AND host = ? AND month = ?", [asset, *cell])
        return AssetCell._make(rows[0]) if rows else None

    def asset_cells(self, asset: str) -> dict[Cell, AssetCell]:
        """Return cell -> what was last committed for an asset there."""
        rows = self.query(f"SELECT {_ASSET} FROM asset_cells WHERE asset = ? ORDER BY host, month", [asset])
        return {Cell(row[1], row[2]): AssetCell._make(row) for row in rows}

    def record_asset(  # noqa: PLR0917 - fields of one row, in its order
        self, asset: str, cell: Cell, input_fp: str, code_version: object, content_hash: str, rows: int, *, decoded: Collection[str] = ()
    ) -> None:
        """Record that an asset is committed for a cell; sessions in ``decoded`` lie there as they were last decoded: they become clean."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self.transaction() as connection:
            connection.execute(
                f"INSERT OR REPLACE INTO asset_cells ({_ASSET}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (asset, *cell, input_fp, str(code_version), content_hash, rows, at),
            )
            if decoded:
                connection.execute(
                    "UPDATE sessions SET normalized_fp = decoded_fp, code_version = decoded_version WHERE host = ? AND month = ?"
                    " AND session_id IN (SELECT value FROM json_each(?))"
                    " AND (normalized_fp IS NOT decoded_fp OR code_version IS NOT decoded_version)",
                    (*cell, json_list(decoded)),
                )

    def forget_asset(self, asset: str, cells: Iterable[Cell] | None = None) -> None:
        """Drop what is recorded of an asset, in all cells or these: it is made again."""
        with self.transaction() as connection:
            if cells is None:
                connection.execute("DELETE FROM asset_cells WHERE asset = ?", (asset,))
            else:
                connection.executemany(
                    "DELETE FROM asset_cells WHERE asset = ? AND host = ? AND month = ?", [(asset, *cell) for cell in cells]
                )

    def recorded(self) -> list[tuple[str, Cell]]:
        """Return every asset and cell that something is recorded of."""
        rows = self.query("SELECT asset, host, month FROM asset_cells ORDER BY asset, host, month")
        return [(asset, Cell(host, month)) for asset, host, month in rows]

    def forget_decoded(self, cells: Iterable[Cell]) -> None:
        """Call every session of these cells dirty: their tables are gone and are decoded from raw again."""
        with self.transaction() as connection:
            connection.executemany(
                f"UPDATE sessions SET normalized_fp = NULL, decoded_fp = NULL WHERE host = ? AND month = ? AND NOT {UNDECODABLE}",
                [tuple(cell) for cell in cells],
            )

    def forget_decoded_sessions(self, host: str, sessions: Iterable[str]) -> None:
        """Call some sessions dirty, like :meth:`forget_decoded`."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE sessions SET normalized_fp = NULL, decoded_fp = NULL"
                " WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))",
                (host, json_list(sorted(sessions))),
            )

    def set_parts(self, parts: Sequence[tuple[str, str, str]]) -> None:
        """Note (host, session_id, part): where the events of a session lie."""
        with self.transaction() as connection:
            connection.executemany("UPDATE sessions SET part = ? WHERE host = ? AND session_id = ?", [(p, h, s) for h, s, p in parts])

    def quarantined(self, host: str | None = None, session_id: str | None = None) -> list[QuarantineRow]:
        """Return the records that could not be decoded, of all sessions or one."""
        where, values = _of_session(host, session_id)
        rows = self.query(
            f'SELECT host, session_id, stream, generation, line, start, "end", reason FROM quarantine{where} ORDER BY 1, 2, 3, 4, 5',
            values,
        )
        return [QuarantineRow._make(row) for row in rows]

    def unknown_rows(self) -> list[UnknownRow]:
        """Return how often each session holds each unknown type."""
        return [UnknownRow._make(row) for row in self.query("SELECT host, session_id, label, count FROM unknowns ORDER BY 1, 2, 3")]

    def unknowns(self, host: str | None = None, session_id: str | None = None) -> dict[str, int]:
        """Return label of an unknown type -> how often it was seen, in all sessions or one."""
        where, values = _of_session(host, session_id)
        rows = self.query(f"SELECT label, sum(count) FROM unknowns{where} GROUP BY label ORDER BY label", values)
        return {label: int(count) for label, count in rows}

    def totals(self) -> dict[str, int]:
        """Return how many sessions, sources, segments and raw bytes there are, and the sums of the sessions' counts."""
        found: Counter[str] = Counter()
        for (text,) in self.query("SELECT rows FROM sessions"):
            found.update({name: count for name, count in json.loads(text).items() if isinstance(count, int)})
        sessions, sources, segments, size, stored, quarantined, unknown = self.query(
            'SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM sources), count(*), coalesce(sum("end" - start), 0),'
            " coalesce(sum(stored_bytes), 0), (SELECT count(*) FROM quarantine), (SELECT coalesce(sum(count), 0) FROM unknowns)"
            " FROM segments"
        )[0]
        return {
            **found,
            "sessions": sessions,
            "sources": sources,
            "segments": segments,
            "raw_bytes": size,
            "stored_bytes": stored,
            "quarantined": quarantined,
            "unknown_events": unknown,
        }


def _of_session(host: str | None, session_id: str | None) -> tuple[str, list[str]]:
    given = [(name, value) for name, value in (("host", host), ("session_id", session_id)) if value is not None]
    return (" WHERE " + " AND ".join(f"{name} = ?" for name, _ in given) if given else "", [value for _, value in given])
