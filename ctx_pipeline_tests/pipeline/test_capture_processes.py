"""Captures by several processes, one of them killed: nothing lost, nothing twice."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.pipeline import capture
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.raw import segments
from ctx_pipeline_tests.pipeline.toy_home import HOSTS, append, line, settings_of, write

if TYPE_CHECKING:
    from pathlib import Path

FORK = multiprocessing.get_context("fork")
FILES = 40


def run(tmp_path: Path, slow: float = 0.0) -> None:
    settings = settings_of(tmp_path)
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS, progress=lambda *_: time.sleep(slow))


def run_and_die(tmp_path: Path, after: int) -> None:
    """Capture, and be killed when so many files have been taken."""
    settings = settings_of(tmp_path)

    def die(_: str, done: int, __: int) -> None:
        if done == after:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS, progress=die)


def state(tmp_path: Path) -> tuple:
    settings = settings_of(tmp_path)
    with open_store(settings) as store:
        assert capture.scan(store, settings, hosts=HOSTS).nothing_new
        rows = store.ledger.segments_of(s.stream for s in store.ledger.sources().values())
        held = {
            s.rel: segments.read_stream(store.files, [g for g in rows[s.stream] if g.generation == s.generation])
            for s in store.ledger.sources().values()
        }
        assert store.ledger.live_leases() == {}
        return held, store.ledger.sessions(), len(store.ledger.segments())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for number in range(FILES):
        write(tmp_path / "toy", f"sessions/{number}.jsonl", line(id=str(number), ts="2026-06-03T10:00:00Z"), line(text="x" * 500))
    return tmp_path / "toy"


@pytest.mark.feature("capture.two-at-once")
def test_two_captures_at_once_take_every_byte_once(tmp_path, home):
    both = [FORK.Process(target=run, args=(tmp_path, 0.005)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(250)

    assert [process.exitcode for process in both] == [0, 0]
    held, sessions, count = state(tmp_path)
    assert held == {f"sessions/{n}.jsonl": (home / f"sessions/{n}.jsonl").read_bytes() for n in range(FILES)}
    assert (len(sessions), count) == (FILES, FILES)


@pytest.mark.feature("capture.killed")
@pytest.mark.parametrize("after", [1, FILES // 2, FILES])
def test_a_killed_capture_is_completed_by_the_next(tmp_path, home, after):
    process = FORK.Process(target=run_and_die, args=(tmp_path, after))
    process.start()
    process.join(250)
    assert process.exitcode == -signal.SIGKILL
    append(home / "sessions/0.jsonl", line(text="after the kill"))

    run(tmp_path)

    held, sessions, _ = state(tmp_path)
    assert held == {f"sessions/{n}.jsonl": (home / f"sessions/{n}.jsonl").read_bytes() for n in range(FILES)}
    assert len(sessions) == FILES


@pytest.mark.feature("capture.two-at-once")
def test_a_scan_that_another_process_overtook_is_looked_at_again(tmp_path, home):
    settings = settings_of(tmp_path)
    with open_store(settings) as store:
        scan = capture.scan(store, settings, hosts=HOSTS)
        other = FORK.Process(target=run, args=(tmp_path,))
        other.start()
        other.join(250)
        report = capture.capture(store, settings, scan=scan, hosts=HOSTS)

        assert report.totals["segments"] == 0
        assert len(store.ledger.segments()) == FILES
