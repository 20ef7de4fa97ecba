"""Temporary files: whose they are, which of them the next writer removes, and that a living writer loses none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ctx_pipeline.maintenance import doctor
from ctx_pipeline.model.process import process_identity
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store, temporary
from ctx_pipeline.storage.files import Files
from ctx_pipeline_tests import processes

ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import os, signal, sys
from pathlib import Path
from ctx_pipeline.storage.files import Files
files = Files(Path(sys.argv[1]))
def stop(*_): os.write(1, b"ready\\n"); signal.pause()
os.fsync = stop
files.write("raw/claude/ab/abcdef/one.jsonl.zst", b"every word of a session")
"""


@pytest.fixture
def settings(tmp_path):
    chosen = Settings(home=tmp_path / "store", demo_roots={})
    with open_store(chosen) as store:
        assert store.ledger.sessions() == []
    with open_store(chosen):
        pass
    return chosen


def left(home: Path) -> list[str]:
    return [found.rel for found in temporary.everywhere(home)]


def stray(home: Path, rel: str, *, hours: float) -> Path:
    path = home / rel
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"a copy")
    moment = path.stat().st_mtime - hours * 3600
    for each in (path, *(p for p in path.parents if p != home and p.is_relative_to(home))):
        os.utime(each, (moment, moment))
    return path


@pytest.mark.feature("store.temporaries")
def test_what_a_killed_writer_left_goes_at_the_next_start_and_what_a_living_one_writes_stays(settings):
    writer = processes.start([sys.executable, "-c", WRITER, str(settings.home)], cwd=ROOT, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    with open_store(settings) as store:
        assert len(left(settings.home)) == 1
        (found,) = doctor.examine(store, settings, hosts={}).temporaries
        assert (found.ended, found.left, found.bytes) == (False, False, len(b"every word of a session"))
    writer.send_signal(signal.SIGKILL)
    writer.wait(60)
    with open_store(settings, read_only=True) as store:
        report = doctor.examine(store, settings, hosts={})
    assert [t.left for t in report.temporaries] == [True]
    assert any("1 temporary file (23 B), 1 of them left behind" in line for line in report.lines())
    with open_store(settings):
        assert left(settings.home) == []


@pytest.mark.feature("store.temporaries")
def test_a_file_of_another_machine_goes_by_its_age_alone(settings):
    place, _, rest = process_identity.label(os.getpid()).partition(".")
    other = ".".join(("0" * len(place), rest))
    young = stray(settings.home, f".tmp-{other}-00000001", hours=23)
    old = stray(settings.home, f".tmp-{other}-00000002", hours=25)
    mine = stray(settings.home, temporary.name(), hours=500)
    earlier = process_identity.label(os.getpid()).split(".")
    earlier[3] = "0" * 8
    reused = stray(settings.home, f".tmp-{'.'.join(earlier)}-00000003", hours=0)
    with open_store(settings):
        pass
    assert (young.exists(), old.exists(), mine.exists(), reused.exists()) == (True, False, True, False)


@pytest.mark.feature("store.temporaries-of-earlier-versions")
def test_what_earlier_versions_left_anywhere_is_removed_once(settings):
    home = settings.home
    names = [
        "raw/claude/bd/bd1fa197c516c3e3/.tmp-99999-deadbeef",
        "lake/events/host=claude/month=2026-03/.tmp-99999-cafe0123",
        ".memory.db.99999",
        "search.db.building-99999",
        "serving/.ctx.duckdb.99999.tmp",
        "serving/ctx.duckdb.tmp/duckdb_temp_storage-0.tmp",
        ".site.99999.new/data/one.js",
        "ledger.new.db",
        "ledger.new.db-wal",
        "dagster/.dagster.yaml.99999",
    ]
    kept = [stray(home, name, hours=100) for name in ("raw/claude/bd/bd1fa197c516c3e3/0.jsonl.zst", "contexts.db", "session/a.json")]
    (home / "swept.txt").unlink()
    strays = [stray(home, name, hours=2) for name in names]
    young = stray(home, "raw/claude/bd/.tmp-99998-deadbeef", hours=0.1)
    with open_store(settings):
        pass
    assert [path.name for path in strays if path.exists()] == []
    assert young.exists()
    assert all(path.exists() for path in kept)
    assert not (home / "swept.txt").exists()
    os.utime(young, (0, 0))
    with open_store(settings):
        pass
    assert not young.exists()
    assert (home / "swept.txt").exists()


@pytest.mark.feature("store.temporaries")
def test_a_store_that_was_walked_is_not_walked_again(settings, monkeypatch):
    def walked(*_):
        raise AssertionError("the whole store was walked")

    monkeypatch.setattr(temporary, "everywhere", walked)
    with open_store(settings):
        pass
    (settings.home / "swept.txt").unlink()
    with pytest.raises(AssertionError, match="walked"):
        open_store(settings)


@pytest.mark.feature("store.temporaries")
def test_a_folder_on_another_disk_has_its_temporary_files_there(tmp_path):
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system")
    away = shared / f"ctx-{os.getpid()}"
    away.mkdir(mode=0o700)
    try:
        home = tmp_path / "store"
        home.mkdir()
        (home / "raw").symlink_to(away)
        files = Files(home)
        files.write("raw/claude/one", b"1")
        assert files.read("raw/claude/one") == b"1"
        dead = process_identity.label(os.getpid()).split(".")
        dead[3] = "0" * 8
        gone = stray(home, f"raw/.tmp-{'.'.join(dead)}-00000003", hours=0)
        (home / "swept.txt").write_text("1\n")
        assert temporary.remove_orphans(home) == 1
        assert not gone.exists()
    finally:
        import shutil

        shutil.rmtree(away)
