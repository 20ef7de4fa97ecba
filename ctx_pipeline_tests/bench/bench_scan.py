"""How long a look at 100,000 sessions takes, and how long the ledger takes to write a first ingest."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from ctx_pipeline import discovery
from ctx_pipeline.pipeline import capture
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.ledger import NormalizedSession, Segment, Source
from ctx_pipeline_tests.bench.rows import Row, many

FILES = 100_000
FOLDERS = 200
SESSIONS = 700
CALLS = 80_000


def scan_rows() -> list[Row]:
    """Return the seconds of a first scan, and of one that finds nothing, ledger load included."""
    files, folders = many(FILES), many(FOLDERS, 2)
    host = discovery.hosts()["claude"]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        for number in range(folders):
            (home / "projects" / f"-home-dev-p{number}").mkdir(parents=True)
        for number in range(files):
            path = home / "projects" / f"-home-dev-p{number % folders}" / f"{number:08x}-0000-4000-8000-000000000000.jsonl"
            path.write_bytes(b'{"n": 1}\n')
        settings = Settings(home=Path(folder) / "store", demo_roots={"claude": (home,)})
        with open_store(settings) as store:
            first = capture.scan(store, settings)
            store.ledger.commit_capture(_captured(p, host.key) for p in first.pending)
        best = min(_again(settings, files) for _ in range(3))
    return [
        Row(f"scan: {FILES:,} files, all new", first.seconds),
        Row(f"scan: {FILES:,} files, nothing new, ledger opened and loaded", best),
    ]


def ledger_rows() -> list[Row]:
    """Return the seconds of one capture commit and one decoding commit of a first ingest."""
    sessions, calls = many(SESSIONS), many(CALLS)
    with tempfile.TemporaryDirectory() as folder, open_store(Settings(home=Path(folder) / "store")) as store:
        sources = [
            Source(f"{n:016x}", "claude", "/home", f"projects/p/{n}.jsonl", "transcript", 9, 1, n, captured=9, thread_id=f"thread-{n}")
            for n in range(sessions)
        ]
        segments = [Segment(s.stream, 0, 0, 9, "0" * 64, 5, f"raw/{s.stream}", "", 1) for s in sources]
        began = time.perf_counter()
        store.ledger.commit_capture(sources, segments)
        captured = time.perf_counter() - began
        each = calls // sessions
        results = [
            NormalizedSession(
                "claude", f"thread-{n}", "fp", "hash", calls=[(f"msg_{(n * each + k) * 7919 % 10**9:032x}", k) for k in range(each)]
            )
            for n in range(sessions)
        ]
        began = time.perf_counter()
        store.ledger.record_normalized(results, code_version=1)
        recorded = time.perf_counter() - began
    return [
        Row(f"ledger: commit of {SESSIONS} captured sources", captured),
        Row(f"ledger: commit of {SESSIONS} sessions with {CALLS:,} calls, owners settled", recorded),
    ]


def _captured(pending: capture.Pending, host: str) -> Source:
    return Source(
        pending.stream, host, pending.root, pending.rel, pending.kind, pending.size, pending.mtime_ns, pending.inode,
        captured=pending.size, thread_id=pending.rel.rpartition("/")[2].removesuffix(".jsonl"), relation="main",
    )  # fmt: skip


def _again(settings: Settings, files: int) -> float:
    began = time.perf_counter()
    with open_store(settings) as store:
        scan = capture.scan(store, settings)
    if scan.pending or scan.sources != files:
        raise AssertionError(f"{len(scan.pending)} pending of {scan.sources}")
    return time.perf_counter() - began
