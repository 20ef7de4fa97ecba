"""Matches a regular expression against the texts of parts, for a process that ends this one when the time is over.

Run by its file name: one JSON request on standard input, then a line for each slice of rows
on standard output. RE2 goes back for no pattern, but there are patterns of which a single
text takes it minutes, and nothing interrupts it inside of one.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

_SLICE, _LARGEST = 32, 8_192
"""Rows of the first slice, and of the largest."""

_QUICK, _SLOW = 0.05, 0.2
"""Seconds of a slice below which the next one is larger, and above which it is smaller."""


def _say(told: object) -> None:
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()


def main() -> None:
    """Answer the request."""
    asked = json.loads(sys.stdin.readline())
    if hasattr(signal, "setitimer"):
        # whoever asked may be gone: the system ends this process, whatever it is doing
        signal.setitimer(signal.ITIMER_REAL, asked["seconds"] + 30)
    # found where this file is, whatever the path of whoever asked
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    import duckdb

    from ctx_pipeline.storage import connections

    connection = connections.connect(":memory:", reads=Path(asked["reads"]), scratch=Path(asked["scratch"]), memory="400MB")
    pattern = asked["pattern"]
    try:
        connection.execute("SELECT regexp_matches('', ?)", [pattern])
    except duckdb.Error as error:
        _say({"refused": str(error).split("\n")[0].rpartition("Error: ")[2][:200]})
        return
    _say({"ready": True})
    matching = (
        f"SELECT row, left(regexp_extract(text, ?, 0), {int(asked['shown'])}) FROM piece"
        " WHERE rowid >= ? AND rowid < ? AND regexp_matches(text, ?)"
    )
    size = _SLICE
    for number, (path, first, rows, wanted) in enumerate(asked["pieces"]):
        chosen = None if wanted is None else [first + n for n, mark in enumerate(wanted) if mark == "1"]
        try:
            connection.execute(
                "CREATE OR REPLACE TEMP TABLE piece AS SELECT file_row_number AS row, text FROM read_parquet(?, file_row_number = true)"
                " WHERE file_row_number >= ? AND file_row_number < ?"
                + ("" if chosen is None else " AND file_row_number IN (SELECT unnest(?::BIGINT[]))")
                + " ORDER BY row",
                [path, first, first + rows, *([] if chosen is None else [chosen])],
            )
        except duckdb.IOException:  # the part was replaced meanwhile
            _say([number, rows if chosen is None else len(chosen), []])
            continue
        count = rows if chosen is None else len(chosen)
        start = 0
        while start < count:
            end = min(start + size, count)
            began = time.monotonic()
            found = connection.execute(matching, [pattern, start, end, pattern]).fetchall()
            _say([number, end - start, found])
            took, start = time.monotonic() - began, end
            size = min(size * 2, _LARGEST) if took < _QUICK else max(_SLICE, size // 2) if took > _SLOW else size
    _say({"end": True})


if __name__ == "__main__":
    main()
