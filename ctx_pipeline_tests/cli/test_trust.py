"""What a person is promised: no socket, no word of a forgotten session in any byte, a sentence where the system gives no more."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ctx_pipeline
from ctx_pipeline.storage.byte_search import Wanted, search
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories.other_ids import ID, with_other_ids

if TYPE_CHECKING:
    from collections.abc import Iterable

SESSION = "c823d9cd-f224-448f-a457-16b4882b2710"

DEFAULT = [
    "run",
    "sync",
    "",
    "list",
    "usage daily",
    "search export",
    f"show claude {SESSION}",
    "status",
    "doctor",
    "hints",
    "verify --deep",
    "memory list",
]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.feature("privacy.no-socket")
def test_no_default_command_opens_a_socket_of_a_network(ctx: Ctx):
    log = ctx.folder / "calls"
    for line in DEFAULT:
        command = [sys.executable, "-m", "ctx_pipeline", *line.split()]
        traced = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=socket,execve", "-o", str(log), *command]
        done = subprocess.run(traced, env=ctx.environ, cwd=ctx.folder, capture_output=True, text=True, check=False, timeout=280)
        assert done.returncode == 0, done.stderr
        calls = log.read_text()
        assert "execve(" in calls
        assert re.findall(r"socket\((?!AF_UNIX).*", calls) == [], line


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z][A-Za-z0-9_]{6,}", text))


def bytes_of(store: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file())


def unique_words(own: Path, others: Iterable[Path]) -> list[str]:
    """Return the words that a file alone has, and no file of the program."""
    known = set().union(*(words_of(path.read_text(errors="replace")) for path in others))
    program = b"\0".join(
        path.read_bytes() for path in Path(ctx_pipeline.__file__).parent.rglob("*") if path.suffix in {".js", ".py", ".html", ".script"}
    )
    return [word for word in sorted(words_of(own.read_text()) - known) if word.encode() not in program]


@pytest.mark.feature("forget.every-word")
def test_no_word_that_only_a_forgotten_session_had_is_in_any_byte_also_after_journal_and_ledger_are_lost(after_run: Ctx):
    ctx = after_run
    (own,) = (ctx.folder / "claude").rglob(f"{SESSION}.jsonl")
    ctx("memory", "list")
    others = [
        path for host in ("claude", "codex") for path in (ctx.folder / host).rglob("*") if path.is_file() and SESSION not in path.name
    ]
    unique = unique_words(own, others)
    assert len(unique) > 30
    before = bytes_of(ctx.store)
    assert any(word.encode() in before for word in unique)

    ctx("forget", SESSION, "--yes")
    for _ in range(2):
        left = bytes_of(ctx.store)
        assert [word for word in unique if word.encode() in left] == []
        assert search(ctx.store, Wanted([word.encode() for word in unique])).found == []
        for name in ("journal.db", "ledger.db"):
            for suffix in ("", "-wal", "-shm"):
                (ctx.store / f"{name}{suffix}").unlink(missing_ok=True)
        ctx("doctor", "--new-journal", "--yes", ok=False)
        ctx("run")
        assert ctx.json("list")["total"] == 5
        assert ctx.json("sql", "select count(*) as n from sessions")["rows"] == [{"n": 5}]


_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def under_other_ids(path: Path, *, later: bool) -> tuple[Path, str]:
    """Copy a transcript with every id replaced, at the same moments or two days later; return the copy and its session."""

    def moved(match: re.Match[str]) -> str:
        moment = datetime.fromisoformat(match[0]) + timedelta(days=2 if later else 0)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    copy = path.with_name(with_other_ids(path.name))
    copy.write_text(_MOMENT.sub(moved, with_other_ids(path.read_text())))
    found = ID.search(copy.name)
    assert found
    return copy, found[0]


@pytest.mark.feature("forget.copies-under-other-ids")
@pytest.mark.parametrize("later", [False, True], ids=["same moments", "later"])
@pytest.mark.parametrize(("host", "session"), [("claude", SESSION), ("codex", "019a72be-d7ad-4054-a5be-4022a0f8b2f2")])
def test_copies_in_which_every_id_is_another_are_named_and_one_option_or_the_command_told_removes_them(
    ctx: Ctx, host: str, session: str, later: bool
):
    (own,) = (ctx.folder / host).rglob(f"*{session}.jsonl")
    copy, name = under_other_ids(own, later=later)
    others = [
        path
        for home in ("claude", "codex")
        for path in (ctx.folder / home).rglob("*")
        if path.is_file() and session not in str(path) and path != copy
    ]
    unique = unique_words(own, others)
    assert len(unique) > 10
    ctx("run")
    assert ctx.json("list")["total"] == 7

    if later:
        assert ctx.json("forget", session, "--copies", "--yes")["sessions"] == sorted([[host, session], [host, name]])
    else:
        told = ctx("forget", session, "--yes").stdout
        assert f"  {host} {name}\n" in told
        assert told.endswith(f"  ctx forget --copies {host} {name}\n")
        assert search(ctx.store, Wanted([word.encode() for word in unique])).found
        assert ctx.json("forget", "--copies", host, name, "--yes")["copies"] == []
    assert search(ctx.store, Wanted([word.encode() for word in unique])).found == []
    ctx("run")
    assert search(ctx.store, Wanted([word.encode() for word in unique])).found == []
    assert ctx.json("list")["total"] == 5


def limited(ctx: Ctx, words: list[str], limit: int, most: int) -> subprocess.CompletedProcess[str]:
    """Run a command to which the system gives no more than so much of a resource."""
    return subprocess.run(
        [sys.executable, "-m", "ctx_pipeline", *words],
        env=ctx.environ,
        cwd=ctx.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        preexec_fn=lambda: resource.setrlimit(limit, (most, most)),
    )


@pytest.mark.feature("faults.resources")
@pytest.mark.parametrize(("limit", "most"), [(resource.RLIMIT_NOFILE, 9), (resource.RLIMIT_NOFILE, 14)], ids=["9 files", "14 files"])
def test_too_few_files_are_said_as_such_and_nothing_is_called_damaged(after_run: Ctx, limit: int, most: int):
    ctx = after_run
    for words in (["list"], ["status"], ["sync"], ["run"]):
        done = limited(ctx, words, limit, most)
        assert done.returncode in {0, 1}
        assert "Traceback" not in done.stderr
        assert "damaged" not in done.stderr.replace("nothing that is stored was damaged", "")
        assert done.returncode == 0 or "this process may open no more files" in done.stderr, done.stderr
    assert ctx.json("doctor")["sound"]


@pytest.mark.feature("faults.little-memory")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold a process to its address space")
@pytest.mark.parametrize("captured", [True, False], ids=["a store", "no store"])
def test_too_little_memory_is_said_in_one_sentence_and_what_was_begun_is_completed_by_the_next_run(
    request: pytest.FixtureRequest, captured: bool
):
    ctx: Ctx = request.getfixturevalue("after_run" if captured else "ctx")
    refused = 0
    for megabytes in (450, 300, 200):
        for words in (["usage", "daily"], ["list"], ["search", "export"], ["sync"], ["run"]):
            done = limited(ctx, words, resource.RLIMIT_AS, megabytes << 20)
            said = [line for line in done.stderr.splitlines() if line.startswith("ctx: ")]
            assert done.returncode in {0, 1}, (megabytes, words, done)
            assert not re.search("Traceback|MemoryError|ABORT|terminate called", done.stderr), (megabytes, words, done)
            assert done.returncode == 0 or len(said) == 1, (megabytes, words, done)
            refused += any("there is not enough memory" in line for line in said)
    assert refused
    ctx("run")
    assert ctx.json("doctor")["sound"]
    assert ctx.json("usage", "daily")["totals"]["calls"] == 46


@pytest.mark.feature("faults.little-memory")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not end a child with its parent")
def test_a_child_that_works_with_little_memory_ends_with_its_parent(ctx: Ctx):
    most = 900 << 20
    parent = processes.start(
        [sys.executable, "-m", "ctx_pipeline", "mcp"],
        env=ctx.environ,
        cwd=ctx.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    ask = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    parent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ask}).encode() + b"\n")
    parent.stdin.flush()
    assert json.loads(parent.stdout.readline())["result"]["serverInfo"]
    (child,) = map(int, Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split())

    parent.kill()

    assert processes.gone(child)


@pytest.mark.feature("faults.read-only")
def test_readers_answer_in_a_store_that_nobody_may_write_while_another_process_writes(ctx: Ctx):
    ctx("run")
    wanted = {line: ctx(*line.split()).stdout for line in ("list", "usage daily", "search export", f"show claude {SESSION}")}
    with closing(sqlite3.connect(ctx.store / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert {line: ctx(*line.split()).stdout for line in wanted} == wanted
        other.execute("ROLLBACK")


@pytest.mark.feature("faults.read-only")
@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="nothing takes from this user the right to write")
def test_readers_answer_in_a_folder_that_takes_no_file_and_writers_say_so(ctx: Ctx):
    ctx("run")
    told = {line: ctx(*line.split()).stdout for line in ("list", "usage daily", "search export", f"show claude {SESSION}", "wrapped all")}
    for path in [*ctx.store.rglob("*-shm"), *(log for log in ctx.store.rglob("*-wal") if not log.stat().st_size)]:
        path.unlink()  # of readers before; a run leaves none
    for path in [ctx.store, *ctx.store.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    # whoever may do everything writes there all the same
    without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return processes.run([*without, sys.executable, "-m", "ctx_pipeline", *line.split()], env=ctx.environ, cwd=ctx.folder)

    try:
        assert {line: run(line).stdout for line in told} == told
        for line in ("doctor", "status"):
            assert run(line).returncode == 0
        (grown,) = (ctx.folder / "claude").rglob(f"{SESSION}.jsonl")
        with grown.open("a") as file:
            file.write(json.dumps({"type": "summary", "summary": "grown", "leafUuid": SESSION}) + "\n")
        for line in ("sync", "run"):
            refused = run(line)
            assert refused.returncode == 1
            assert refused.stderr.endswith("hint: check CTX_HOME and its permissions\n")
    finally:
        for path in [ctx.store, *ctx.store.rglob("*")]:
            path.chmod(0o700 if path.is_dir() else 0o600)
    assert ctx.json("doctor")["sound"]
