"""Regular expressions over the texts of the lake, in time that grows with the text alone, and never longer than was allowed.

The engine is RE2 inside DuckDB: it has no backreferences and no look-around, and no
pattern makes it go back.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from ctx_pipeline.storage.lake import Lake
    from ctx_pipeline.storage.search_index.shelf import Shelf

LONGEST = 1_000
"""Characters of a pattern."""

_SHOWN = 500
"""Characters of a match that are marked."""


class Coverage(NamedTuple):
    """How far a scan came: rows that were looked at, of how many, and whether time was the reason to stop."""

    rows: int
    of: int
    out_of_time: bool


def scan(
    lake: Lake | None, shelf: Shelf, mask: bytes | None, pattern: str, *, seconds: float, most: int | None
) -> tuple[dict[int, str], Coverage]:
    """Return the text that matched by row id, the newest parts first, until so many are found or the time is over.

    Raises UsageError for a pattern that RE2 does not take.
    """
    import duckdb

    pieces = [piece for piece in reversed(shelf.rows_of_parts()) if mask is None or 1 in mask[piece[0] : piece[0] + piece[1]]]
    total = sum(rows for _, rows, _, _ in pieces)
    if len(pattern) > LONGEST:
        raise UsageError(f"the pattern has {len(pattern)} characters", hint=f"at most {LONGEST:,} are taken", pattern=pattern[:80])
    found: dict[int, str] = {}
    if lake is None:
        return found, Coverage(0, total, out_of_time=False)
    deadline = time.monotonic() + seconds
    done = 0
    with closing(lake.connect()) as connection:
        try:
            connection.execute("SELECT regexp_matches('', ?)", [pattern])
        except duckdb.Error as error:
            said = str(error).split("\n")[0][:200]
            raise UsageError(f"not a regular expression: {said}", hint="the syntax is RE2's", pattern=pattern[:80]) from error
        for base, rows, part, first_row in pieces:
            left = deadline - time.monotonic()
            if left <= 0 or (most is not None and len(found) >= most):
                break
            matches = _matches(connection, lake, part, pattern, left)
            if matches is None:
                break
            done += rows
            for row, matched in matches:
                rowid = base + row - first_row
                if base <= rowid < base + rows and (mask[rowid] if mask is not None and rowid < len(mask) else mask is None):
                    found[rowid] = matched
    found = {row: text for row, text in found.items() if shelf.span_of(row) is not None}
    return found, Coverage(done, total, out_of_time=done < total and time.monotonic() >= deadline)


def _matches(connection: object, lake: Lake, part: str, pattern: str, seconds: float) -> list[tuple[int, str]] | None:
    """Return (row, matched text) of a part; nothing for one that is gone, None when the time was over."""
    import duckdb

    timer = threading.Timer(seconds, connection.interrupt)  # type: ignore[attr-defined]
    timer.start()
    try:
        found = connection.execute(  # type: ignore[attr-defined]
            f"SELECT file_row_number, left(regexp_extract(text, ?, 0), {_SHOWN})"
            " FROM read_parquet(?, file_row_number = true) WHERE regexp_matches(text, ?)",
            [pattern, str(lake.local(part)), pattern],
        ).fetchall()
    except duckdb.InterruptException:
        return None
    except duckdb.IOException:
        return []
    finally:
        timer.cancel()
    return found  # type: ignore[no-any-return]
