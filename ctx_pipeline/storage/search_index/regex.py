"""Regular expressions over the texts of the lake, never longer than was allowed and never more than can be held.

The engine is RE2 inside DuckDB: it has no backreferences and no look-around, and no
pattern makes it go back. It runs in a process of its own, which is ended when the time is
over, see :mod:`ctx_pipeline.storage.search_index.regex_worker`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreError, UsageError
from ctx_pipeline.storage import temporary

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from ctx_pipeline.storage.lake import Lake
    from ctx_pipeline.storage.search_index.row_lookup import RowLookup

LONGEST = 1_000
"""Characters of a pattern."""

MOST_MATCHES = 20_000
"""Rows that a scan finds before it ends."""

_SHOWN = 500
"""Characters of a match that are marked."""

_STARTING = 10.0
"""Seconds for the process to be ready; they are not of the scan."""

_WORKER = Path(__file__).with_name("regex_worker.py")
_MARKS = bytes.maketrans(b"\0\1", b"01")


class Coverage(NamedTuple):
    """How far a scan came: rows that were looked at, of how many that are meant, and what ended it before the last of them."""

    rows: int
    of: int
    out_of_time: bool
    too_many: bool = False
    """:data:`MOST_MATCHES` were found"""


def scan(
    lake: Lake | None, shelf: RowLookup, mask: bytes | None, pattern: str, *, seconds: float, most: int | None
) -> tuple[dict[int, str], Coverage]:
    """Return the text that matched by row id, the newest parts first, until so many are found or the time is over.

    Raises UsageError for a pattern that RE2 does not take.
    """
    if len(pattern) > LONGEST:
        raise UsageError(f"the pattern has {len(pattern)} characters", hint=f"at most {LONGEST:,} are taken", pattern=pattern[:80])
    pieces = [_Piece(base, rows, part, first, _wanted(mask, base, rows)) for base, rows, part, first in reversed(shelf.rows_of_parts())]
    pieces = [piece for piece in pieces if piece.meant]
    total = sum(piece.meant for piece in pieces)
    found: dict[int, str] = {}
    if lake is None or not pieces or seconds <= 0:
        return found, Coverage(0, total, out_of_time=bool(total) and seconds <= 0)
    enough = MOST_MATCHES if most is None else min(most, MOST_MATCHES)
    told = [(str(lake.local(p.part)), p.first, p.rows, p.wanted) for p in pieces]
    done = 0
    places = {"reads": str(lake.local("lake")), "scratch": str(lake.local(temporary.shared_name()))}
    with _worker({"pattern": pattern, "seconds": seconds, "shown": _SHOWN, "pieces": told, **places}, seconds) as lines:
        for number, rows, matches in lines:
            piece = pieces[number]
            done += rows
            for row, matched in matches:
                found[piece.base + row - piece.first] = matched
            if len(found) >= enough:
                break
    late = done < total and len(found) < enough
    found = {row: text for row, text in found.items() if shelf.span_of(row) is not None}
    return found, Coverage(done, total, out_of_time=late, too_many=done < total and len(found) >= MOST_MATCHES)


class _Piece(NamedTuple):
    """Rows of a part: the first row id, how many, the part, its first row, and a 0 or 1 for each; None where all are meant."""

    base: int
    rows: int
    part: str
    first: int
    wanted: str | None

    @property
    def meant(self) -> int:
        return self.rows if self.wanted is None else self.wanted.count("1")


def _wanted(mask: bytes | None, base: int, rows: int) -> str | None:
    if mask is None:
        return None
    marks = mask[base : base + rows].ljust(rows, b"\0").translate(_MARKS).decode("ascii")
    return marks if "0" in marks else None


@contextmanager
def _worker(asked: dict[str, Any], seconds: float) -> Iterator[Iterator[tuple[int, int, list[tuple[int, str]]]]]:
    """Give what the process finds, slice by slice, until it has ended or the time is over; it is ended with the block."""
    process = subprocess.Popen(  # noqa: S603 - this interpreter and a file of the package
        [sys.executable, "-P", str(_WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    answers = _answers(process, asked, seconds)
    try:
        yield answers
    finally:
        process.kill()
        answers.close()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()


def _answers(process: subprocess.Popen[bytes], asked: dict[str, Any], seconds: float) -> Generator[tuple[int, int, list[tuple[int, str]]]]:
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    over = threading.Event()

    def end() -> None:
        over.set()
        process.kill()

    timer = threading.Timer(_STARTING + seconds, end)
    timer.start()
    try:
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.close()
        for line in process.stdout:
            told = json.loads(line) if line.endswith(b"\n") else {}
            if isinstance(told, list):
                yield told[0], told[1], told[2]
            elif "refused" in told:
                raise UsageError(f"not a regular expression: {told['refused']}", hint="the syntax is RE2's", pattern=asked["pattern"][:80])
            elif "end" in told:
                return
            elif "ready" in told:
                timer.cancel()
                timer = threading.Timer(seconds, end)
                timer.start()
    except OSError:
        pass  # it has ended while it was asked
    finally:
        timer.cancel()
    if not over.is_set():
        raise StoreError("the texts could not be searched: the process that does it ended", hint="once more, with a simpler pattern")
