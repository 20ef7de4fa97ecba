"""What a benchmark returns, and the floor that its seconds are compared with."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import msgspec


class Row(NamedTuple):
    """One measured figure: seconds, megabytes or a share, what it may be at most, and what the best peer took."""

    name: str
    value: float
    unit: str = "s"
    budget: float | None = None
    peer: float | None = None


class Floor(NamedTuple):
    """What reading and decoding every byte costs in one process, without making a row."""

    seconds: float
    megabytes: float


class _Record(msgspec.Struct, gc=False):
    type: str = ""
    timestamp: str = ""


def floor(home: Path) -> Floor:
    """Return the seconds that reading and decoding every transcript below a folder takes, the better of two."""
    files = [p for p in (*home.rglob("*.jsonl"),) if p.is_file()]
    decoder = msgspec.json.Decoder(_Record)
    best, size = float("inf"), 0
    for _ in range(2):
        began, size = time.perf_counter(), 0
        for path in files:
            data = path.read_bytes()
            size += len(data)
            try:
                decoder.decode_lines(data)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
        best = min(best, time.perf_counter() - began)
    return Floor(best, size / 1e6)
