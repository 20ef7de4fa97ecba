"""A database on a medium that takes no file is read as it lies there, and never without the rows of its log."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline_tests import processes

if TYPE_CHECKING:
    from pathlib import Path

_READS = "import sys; from pathlib import Path; from ctx_pipeline.storage.connections import reading; "
_READS += "print(reading(Path(sys.argv[1])).execute('SELECT v FROM t').fetchall())"


@pytest.mark.feature("faults.read-only")
@pytest.mark.parametrize("logged", [False, True])
def test_rows_of_a_log_that_cannot_be_read_are_not_left_out(tmp_path: Path, logged: bool) -> None:
    writer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE t (v)")
    writer.execute("INSERT INTO t VALUES (1)")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if logged:
        writer.execute("INSERT INTO t VALUES (2)")
    medium = tmp_path / "medium"
    medium.mkdir()
    for name in ("a.db", "a.db-wal"):
        shutil.copy(tmp_path / name, medium / name)
    medium.chmod(0o500)
    # whoever may do everything writes there all the same
    without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    try:
        done = processes.run([*without, sys.executable, "-c", _READS, str(medium / "a.db")], env=dict(os.environ), cwd=tmp_path)
    finally:
        medium.chmod(0o700)

    assert (done.returncode == 0) is not logged, done.stderr
    assert logged or done.stdout == "[(1,)]\n"
    assert not logged or "unable to open" in done.stderr
