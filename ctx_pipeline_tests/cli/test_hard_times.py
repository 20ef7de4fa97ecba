"""A full disk, a store that somebody else has locked, and two runs at once: a clear error or an orderly wait."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import duckdb
import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import CtxError, StoreError, scarce
from ctx_pipeline.pipeline.ingest import LEASE
from ctx_pipeline.pipeline.sync import NEXT
from ctx_pipeline.sessions.states import handoff
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.waiting import eventually


def started(ctx: Ctx, *words: str, **more):
    command = [sys.executable, "-m", "ctx_pipeline", *words]
    # a process that may write no large file would leave halves of compiled modules in the checkout
    environ = {**ctx.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return processes.start(command, env=environ, cwd=ctx.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


@pytest.mark.feature("cli.full-disk")
@pytest.mark.parametrize("room", [4_096, 150_000])
def test_a_full_disk_is_a_clear_error_and_the_next_run_completes(ctx: Ctx, room: int):
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    full = started(ctx, "sync", preexec_fn=small)
    printed, said = full.communicate(timeout=250)

    assert full.returncode == 1, printed + said
    assert "Traceback" not in said
    assert said.startswith("ctx: ") or "failed partition: " in said
    assert "a file reached the largest size that this process may write" in said
    assert ctx.json("sync")["held"] == {}
    assert ctx.json("sql", "select count(*) as n from sessions")["rows"] == [{"n": 6}]
    assert ctx.json("doctor")["sound"]


@pytest.mark.feature("cli.full-disk")
def test_a_full_disk_is_no_damage_also_where_a_library_says_it_in_its_own_words(tmp_path):
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db:
        db.execute("PRAGMA max_page_count = 2")
        db.execute("CREATE TABLE runs (body)")
        with pytest.raises(sqlite3.OperationalError) as raised:
            db.execute("INSERT INTO runs VALUES (zeroblob(100000))")

    found = scarce(raised.value)
    assert found is not None
    assert found.message.startswith("the disk has no room left")


_WORDS = "no space left on device", "Too many open files", "database or disk is full", "cannot allocate memory", "out of memory"


@pytest.mark.feature("cli.full-disk")
@pytest.mark.parametrize("words", _WORDS)
def test_a_text_that_speaks_of_a_full_disk_is_not_one(words):
    def refused(sql: str) -> Exception:
        with pytest.raises(duckdb.Error) as raised:
            duckdb.connect().execute(sql)
        return raised.value

    with closing(sqlite3.connect(":memory:")) as db, pytest.raises(sqlite3.OperationalError) as raised:
        db.execute(f'SELECT "{words}" FROM nowhere WHERE "{words}" = 1')
    errors = [raised.value, refused(f"SELECT CAST('{words}' AS INTEGER)"), refused(f"SELECT error('{words}')")]
    errors += [ValueError(words), KeyError(words), RuntimeError(words), CtxError(words), StoreError(f"x: {words}")]
    errors[-1].__cause__ = ValueError(words)
    assert [scarce(error) for error in errors] == [None] * len(errors)


_WRITERS = {
    "sqlite3": (
        "import sqlite3; c = sqlite3.connect('x.db'); c.execute('PRAGMA journal_mode=WAL'); c.execute('CREATE TABLE t (a)');"
        " c.execute('INSERT INTO t VALUES (zeroblob(900000))'); c.commit()"
    ),
    "sqlalchemy": (
        "import sqlalchemy as s; c = s.create_engine('sqlite:///x.db').connect(); c.execute(s.text('CREATE TABLE t (a)'));"
        " c.execute(s.text('INSERT INTO t VALUES (zeroblob(900000))')); c.commit()"
    ),
    "duckdb": "import duckdb; c = duckdb.connect('x.duckdb'); c.execute('CREATE TABLE t AS SELECT uuid() u FROM range(90000)'); c.close()",
    "pyarrow": ("import os, pyarrow as p, pyarrow.parquet as q; q.write_table(p.table({'a': [os.urandom(900000)]}), 'x.parquet')"),
    "a file": "open('x', 'wb').write(bytes(900000))",
}
"""Library -> what writes more than is allowed with it."""


@pytest.mark.feature("cli.full-disk")
@pytest.mark.parametrize("library", sorted(_WRITERS))
def test_a_limit_of_the_size_of_files_is_known_behind_the_error_of_each_library(tmp_path, library):
    script = """
import resource, sys
from ctx_pipeline.errors import scarce
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
try:
    exec(sys.argv[1])
except Exception as error:
    print(scarce(error))
"""
    environ = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, _WRITERS[library]],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.startswith("a file reached the largest size that this process may write; nothing that is stored"), done.stderr


@pytest.mark.feature("cli.full-disk")
def test_a_limit_of_the_size_of_files_is_no_damage(after_run: Ctx):
    ctx = after_run
    begun = started(
        ctx,
        "backfill",
        "--asset",
        "normalized/events",
        "--force",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16,) * 2),
    )
    said = begun.communicate(timeout=250)[1]

    assert begun.returncode == 1
    assert "cannot be read" not in said
    assert "a file reached the largest size that this process may write; nothing that is stored was damaged" in said
    assert "ulimit -f unlimited" in said
    ctx("run")
    assert ctx.json("doctor")["sound"]


@pytest.mark.feature("cli.full-disk")
def test_a_locked_store_is_waited_for(ctx: Ctx):
    ctx("status", "--json")
    other = sqlite3.connect(ctx.store / "ledger.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    waiting = started(ctx, "sync", "--json")
    time.sleep(2)
    assert waiting.poll() is None
    other.execute("ROLLBACK")
    other.close()
    printed, said = waiting.communicate(timeout=250)

    assert waiting.returncode == 0, said
    assert json.loads(printed)["sessions_parsed"] == 6


@pytest.mark.feature("cli.full-disk")
def test_of_two_at_once_each_ends_well_and_each_session_is_read_once(ctx: Ctx):
    both = [started(ctx, "sync", "--json") for _ in range(2)]
    told = [json.loads(process.communicate(timeout=250)[0]) for process in both]

    assert [process.returncode for process in both] == [0, 0]
    assert sorted(one["sessions_parsed"] for one in told) == [0, 6]
    (row,) = ctx.json("sql", "select count(*) as n, count(distinct event_id) as ids from events")["rows"]
    assert row["n"] == row["ids"] > 0


@pytest.mark.feature("hooks.queued-syncs")
def test_of_the_syncs_that_hooks_start_while_another_process_writes_one_waits_and_takes_what_all_were_started_for(ctx: Ctx):
    ctx("run")
    (path,) = (ctx.folder / "claude").rglob("51b369cc*.jsonl")
    line = path.read_text().splitlines()[-1]
    settings = settings_module.load(ctx.environ)
    with open_store(settings) as store:
        with store.ledger.lease(LEASE):
            first = started(ctx, "sync", "--figures", "--json")
            eventually(lambda: NEXT in store.ledger.live_leases())
            others = []
            for number in range(4):
                with path.open("a") as file:
                    file.write(re.sub(r'"uuid": ?"[0-9a-f]{8}', f'"uuid":"fffffff{number}', line) + "\n")
                others.append(started(ctx, "sync", "--figures", "--json"))
            told = [json.loads(process.communicate(timeout=250)[0]) for process in others]
            assert first.poll() is None, "it waits"
        assert [one["sessions_parsed"] for one in told] == [0, 0, 0, 0]
        assert json.loads(first.communicate(timeout=250)[0])["sessions_parsed"] == 1
    assert json.loads(ctx("sync", "--json").stdout)["sessions_parsed"] == 0
    assert ctx.json("doctor")["sound"]


CAPTURING = """
import sys
from ctx_pipeline import settings
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.sessions.states import handoff
from ctx_pipeline.storage import open_store
found = settings.load()
with open_store(found) as store:
    assert sync(store, found)
print({"ctx_pipeline.pipeline.models.model_judge", "ctx_pipeline.redaction.sharing"} & set(sys.modules))
"""


def add_a_record(ctx: Ctx) -> None:
    (path,) = (ctx.folder / "claude").rglob("51b369cc*.jsonl")
    line = path.read_text().splitlines()[-1]
    with path.open("a") as file:
        file.write(re.sub(r'"uuid": ?"[0-9a-f]{8}', '"uuid":"ffffffff', line) + "\n")


@pytest.mark.feature("hooks.light")
def test_a_capture_loads_nothing_that_asks_a_model_or_shares_a_text(ctx: Ctx):
    ctx("sync")
    add_a_record(ctx)
    done = subprocess.run([sys.executable, "-c", CAPTURING], env=ctx.environ, capture_output=True, text=True, timeout=200, check=True)

    assert done.stdout.strip() == "set()"


@pytest.mark.feature("hooks.late-handoff")
def test_what_a_next_chat_is_told_is_there_before_the_figures_of_reports(ctx: Ctx):
    ctx("run")
    settings = settings_module.load(ctx.environ)
    handoff.begin(settings)
    add_a_record(ctx)
    ctx("sync", "--figures")

    told = max(file.stat().st_mtime_ns for file in (ctx.store / handoff.FOLDER).iterdir())
    assert told < max(file.stat().st_mtime_ns for file in (ctx.store / "serving").glob("sessions.db*"))


REBUILD = """
import resource, sys
from ctx_pipeline import settings
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.sessions.states import handoff
from ctx_pipeline.storage import open_store

chosen = settings.load()
with open_store(chosen) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
    build_warehouse(store, chosen, force=True)
"""


@pytest.mark.feature("cli.full-disk")
def test_a_warehouse_that_the_disk_has_no_room_for_does_not_take_the_place_of_the_last_one(after_run: Ctx):
    ctx = after_run
    made = ctx.store / "serving" / "ctx.duckdb"
    before = made.stat()
    small = processes.run([sys.executable, "-c", REBUILD], env={**ctx.environ, "PYTHONDONTWRITEBYTECODE": "1"}, cwd=ctx.folder)

    assert small.returncode != 0, "its log has room, the file that it is carried into has not"
    assert "File too large" in small.stderr
    assert made.stat() == before
    with closing(duckdb.connect(str(made), read_only=True)) as warehouse:
        assert warehouse.execute("SELECT count(*) FROM session_overview").fetchall() == [(6,)]
    assert [one.name for one in (ctx.store / "serving").iterdir() if "duckdb" in one.name] == ["ctx.duckdb"]


FULL = """
mount -t tmpfs -o size=24m none "$CTX_HOME" || exit 77
echo 'least_free_bytes = 0' > "$CTX_HOME/config.toml"
"$0" -m ctx_pipeline sync > /dev/null
dd if=/dev/zero of="$CTX_HOME/ballast" bs=4k 2> /dev/null
for grown in $(find "$CLAUDE_CONFIG_DIR/" -name '*.jsonl'); do tail -n 1 "$grown" >> "$grown"; done
for words in "search upload" status doctor list "show latest" "usage daily" sync; do
  "$0" -m ctx_pipeline $words; echo "ended $? $words"
done
"$0" -c "$HOLDS"
"$0" -m ctx_pipeline doctor; echo "ended $? doctor"
"""

HOLDS = """
import os
from ctx_pipeline.errors import StoreFull
from ctx_pipeline.storage.ledger.connection import Database

held = Database(__import__("pathlib").Path(os.environ["CTX_HOME"]) / "ledger.db")
for _ in range(2):
    try:
        with held.transaction():
            print("there is room")
    except StoreFull:
        print("there is none")
    if os.path.exists(ballast := os.environ["CTX_HOME"] + "/ballast"):
        os.remove(ballast)
"""


@pytest.mark.feature("cli.full-disk")
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounting a small disk takes root")
def test_readers_answer_on_a_disk_without_room_and_a_writer_says_so(ctx: Ctx):
    ctx.store.mkdir(parents=True, exist_ok=True)
    done = processes.run(["unshare", "-m", "sh", "-c", FULL, sys.executable], env={**ctx.environ, "HOLDS": HOLDS}, cwd=ctx.folder)
    if done.returncode == 77:
        pytest.skip("no file system may be mounted here")

    ended = [line for line in done.stdout.splitlines() if line.startswith("ended ")]
    assert len(ended) == 8, done.stdout + done.stderr
    assert all(line.startswith("ended 0 ") != (line == "ended 1 sync") for line in ended), done.stdout + done.stderr
    assert "there is none\nthere is room\n" in done.stdout  # a program that runs on writes as soon as it can
    assert "no room left for" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "disk I/O error" not in done.stdout + done.stderr
