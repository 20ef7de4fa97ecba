"""How long a first ingest, a sync after one new session, and a search take over a generated home.

The home is ``.claude`` and ``.codex`` below a folder; ``floor`` of :mod:`.rows` gives
what this machine needs to read and decode the same bytes.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.bench.rows import Floor, Row, copied, floor

QUERIES = (
    "database is locked",
    "UnicodeDecodeError",
    "why does the parser fail",
    "foo_bar",
    "pytest -q",
    "def main",
    "how did we fix the failing test",
    "Traceback most recent call",
    "git diff --stat",
    "return self._value",
)

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CALL = re.compile(rb"\b(?:msg|req)_\w+")
"""Ids by which a call is known to its host, in whatever copy of it."""

_SYNC = """
import sys
from pathlib import Path
from ctx_pipeline.settings import Settings
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.storage import open_store
home, store = Path(sys.argv[1]), Path(sys.argv[2])
if sys.argv[3:]:
    import os, time
    from ctx_pipeline.pipeline.ingest import decoding
    spent = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    def measured(*given, do=decoding.secrets_in):
        began = time.process_time()
        try:
            return do(*given)
        finally:
            os.write(spent, f"{time.process_time() - began}\\n".encode())
    decoding.secrets_in = measured
settings = Settings(home=store, demo_roots={"claude": (home / ".claude",), "codex": (home / ".codex",)})
with open_store(settings) as opened:
    sync(opened, settings)
"""


def ingest_rows(home: Path) -> list[Row]:
    """Return what a first ingest of a home into a fresh store takes, in a process of its own."""
    found = ingested(home)
    return [
        Row("ingest: first time", found.seconds, megabytes=found.floor.megabytes),
        Row("ingest: memory of all processes", found.memory / 1e6, "MB"),
        Row("ingest: store / raw", found.stored / 1e6 / found.floor.megabytes, ""),
    ]


def redaction_rows(home: Path) -> list[Row]:
    """Return the processor time of a first ingest over that of what it does beside looking for secrets, both of the same processes."""
    with tempfile.TemporaryDirectory() as folder:
        spent = Path(folder) / "spent.txt"
        _, status, used = os.wait4(_syncing(copied(home, Path(folder) / "home"), Path(folder) / "store", str(spent)).pid, 0)
        if status:
            raise RuntimeError(f"the ingest ended with {status}")
        looking = sum(map(float, spent.read_text().split()))
    whole = used.ru_utime + used.ru_stime
    return [Row("ingest: processor time with redaction / without", whole / (whole - looking), "")]


def sync_rows(home: Path) -> list[Row]:
    """Return what a sync takes as a process: after a new session of each host, and with nothing new."""
    found = ingested(home)
    add_session(found.home / ".claude" / "projects")
    add_session(found.home / ".codex" / "sessions")
    first = _timed(found.home, found.store)
    best = min(_timed(found.home, found.store) for _ in range(3))
    return [
        Row("sync: one new session of each host, whole process", first),
        Row("sync: nothing new, whole process", best),
    ]


def search_rows(home: Path) -> list[Row]:
    """Return the median seconds of a query, alone and with its twenty rows read from the lake."""
    found = ingested(home)
    with open_store(_settings(found), read_only=True) as opened:
        alone, whole = [], []
        for text in QUERIES * 2:
            began = time.perf_counter()
            opened.search.query(text)
            alone.append(time.perf_counter() - began)
            began = time.perf_counter()
            opened.search.search(opened.lake, text)
            whole.append(time.perf_counter() - began)
    half = len(QUERIES)
    return [
        Row("search: query, median", 1000 * statistics.median(alone[half:]), "ms"),
        Row("search: query and twenty rows, median", 1000 * statistics.median(whole[half:]), "ms"),
    ]


def read_rows(home: Path) -> list[Row]:
    """Return what reading every session for a signal takes: all columns of tool calls, events without and with text."""
    found = ingested(home)
    without = ("event_id", "thread_id", "seq", "ts", "kind", "actor", "call_id")
    rows = []
    with open_store(_settings(found), read_only=True) as opened:
        for name, names in (("without text", without), ("with text", (*without, "text"))):
            began = time.perf_counter()
            for cell in opened.lake.manifests("normalized"):
                for _ in opened.lake.read_sessions(cell, columns={"events": names}):
                    pass
            rows.append(Row(f"read: every session, {name}", time.perf_counter() - began, megabytes=found.floor.megabytes))
    return rows


class _Ingested(NamedTuple):
    folder: tempfile.TemporaryDirectory[str]
    home: Path
    store: Path
    floor: Floor
    seconds: float
    memory: int
    stored: int


@cache
def ingested(home: Path) -> _Ingested:
    """Copy a home, ingest the copy and return what that took; the folder goes when the process ends."""
    folder = tempfile.TemporaryDirectory()
    copy, store = Path(folder.name) / "home", Path(folder.name) / "store"
    copied(home, copy)
    least = floor(copy)
    watcher = _Memory()
    began = time.perf_counter()
    process = _syncing(copy, store)
    watcher.watch(process.pid)
    status = process.wait()
    seconds = time.perf_counter() - began
    if status:
        raise RuntimeError(f"the ingest ended with {status}")
    stored = sum(p.stat().st_size for p in store.rglob("*") if p.is_file())
    return _Ingested(folder, copy, store, least, seconds, watcher.peak, stored)


def _settings(found: _Ingested) -> Settings:
    return Settings(home=found.store, demo_roots={"claude": (found.home / ".claude",), "codex": (found.home / ".codex",)})


def add_session(folder: Path) -> str:
    """Write a middling transcript once more as a session of its own, under a new id, which is returned, with calls that no other one has.

    A copy under the ids of its calls would be a fork, and each more of those changes whose calls all the others hold.
    """
    paths = sorted((p for p in folder.rglob("*.jsonl") if _ID.search(p.name)), key=lambda p: p.stat().st_size)
    path = paths[len(paths) // 2]
    old = _ID.search(path.name)
    new = str(uuid.uuid4())
    if old:
        data = _CALL.sub(rb"\g<0>" + new[:8].encode(), path.read_bytes())
        path.with_name(path.name.replace(old.group(), new)).write_bytes(data.replace(old.group().encode(), new.encode()))
    return new


class _Memory:
    """Highest sum of proportional set sizes of a process and its children, sampled 20 times a second; 0 off Linux."""

    def __init__(self) -> None:
        self.peak = 0

    def watch(self, pid: int) -> None:
        threading.Thread(target=self._sample, args=(pid,), daemon=True).start()

    def _sample(self, pid: int) -> None:
        while Path(f"/proc/{pid}").exists():
            self.peak = max(self.peak, sum(map(_pss, (pid, *_children(pid)))))
            time.sleep(0.05)


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _syncing(home: Path, store: Path, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _SYNC, str(home), str(store), *more], env={**os.environ, "CTX_HOME": str(store)})


def _timed(home: Path, store: Path) -> float:
    began = time.perf_counter()
    if status := _syncing(home, store).wait():
        raise RuntimeError(f"sync ended with {status}")
    return time.perf_counter() - began
