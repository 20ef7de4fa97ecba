"""What a benchmark returns, how much work it does, and the floor that its seconds are compared with."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

TRIAL = "CTX_BENCH_TRIAL"
"""Environment variable under which every row does a thousandth of its work: whether it works, not how fast."""


class Row(NamedTuple):
    """One measured figure and what the best peer took; ``megabytes`` is the size of the home that it was measured over.

    What it may be at most stands in :mod:`.budgets`, under its name.
    """

    name: str
    value: float
    unit: str = "s"
    peer: float | None = None
    megabytes: float | None = None


class Floor(NamedTuple):
    """What reading and decoding every byte costs in one process, without making a row."""

    seconds: float
    megabytes: float


def many(count: int, least: int = 1) -> int:
    """Return how often something is done, or how large it is made; in a trial a thousandth of it, but so many at least."""
    return max(least, count // 1000) if os.environ.get(TRIAL) else count


def copied(home: Path, to: Path) -> Path:
    """Copy the homes of the agents below a folder, and nothing else that lies there, and return where the copy lies."""
    for folder in _homes(home):
        shutil.copytree(folder, to / folder.name)
    return to


def _homes(home: Path) -> list[Path]:
    return [folder for name in (".claude", ".codex", "claude", "codex") if (folder := home / name).is_dir()]


class _Record(msgspec.Struct, gc=False):
    type: str = ""
    timestamp: str = ""


def floor(home: Path) -> Floor:
    """Return the seconds that reading and decoding every transcript below a folder takes, the better of two."""
    files = [p for folder in _homes(home) for p in folder.rglob("*.jsonl") if p.is_file()]
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
