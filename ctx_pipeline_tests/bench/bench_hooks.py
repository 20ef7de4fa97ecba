"""What the hooks and ``ctx memory weave`` take as processes, over 100,000 memories and over a captured home."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.bench.bench_ingest import add_session, ingested
from ctx_pipeline_tests.bench.bench_memory import queries, synthetic
from ctx_pipeline_tests.bench.rows import Row, many
from ctx_pipeline_tests.factories.claude import ClaudeHome, Transcript

RUNS = 25
CAPTURES = 5

_CTX = [sys.executable, "-P", "-m", "ctx_pipeline"]
_HOOK = [*_CTX, "hook", "weave", "claude"]
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux: what a child leaves behind becomes ours to wait for."""


def hook_rows() -> list[Row]:
    """Return wall and CPU seconds of whole processes; the floor is a Python that does nothing."""
    _adopt()
    memories = synthetic()
    runs = many(RUNS)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "store"
        MemoryIndex(home / "memory.db").rebuild(memories)
        (home / "ledger.db").touch()
        project = Path(folder) / "project"
        (project / ".git").mkdir(parents=True)
        (project / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/project-7.git\n', "utf-8")
        live = _long_session(Path(folder) / "claude", str(project))
        env = {"PATH": os.environ["PATH"], "HOME": folder, "CTX_HOME": str(home), "CLAUDE_CONFIG_DIR": f"{folder}/claude"}
        asked = queries(memories, runs)
        start: dict[str, Any] = {"hook_event_name": "SessionStart", "source": "startup"}
        compacted = start | {"source": "compact", "transcript_path": str(live.path)}
        plain = [_HOOK] * runs
        kinds = {
            "hook: at a prompt": (plain, [{"hook_event_name": "UserPromptSubmit", "prompt": q} for q in asked]),
            "hook: at a session's start": (plain, [start] * runs),
            "hook: after a compaction that was seen to begin": (plain, [compacted] * runs),
            "hook: after a compaction": (plain, [compacted] * runs),
            "memory weave": ([[*_CTX, "memory", "weave", "--query", q, "--cwd", str(project)] for q in asked], [{}] * runs),
            "floor: python that does nothing": ([[sys.executable, "-c", ""]] * runs, [{}] * runs),
        }
        rows = []
        for name, (commands, payloads) in kinds.items():
            walls, cpus = [], []
            for number, (command, payload) in enumerate(zip(commands, payloads, strict=True)):
                about = {"session_id": f"{name} {number}", "cwd": str(project), **payload}
                if name.endswith("seen to begin"):
                    about["session_id"] = live.session_id
                    if not number:
                        _timed([*_CTX, "sync"], b"", env)  # of what was not captured nothing is made ahead
                    with live.path.open("ab") as file:
                        file.write(b"\n")  # another compaction
                    _timed([*_CTX, "hook", "prepare", "claude"], json.dumps(about | {"hook_event_name": "PreCompact"}).encode(), env)
                    _wait_for_children()  # an agent compacts for seconds, in which what was begun here ends
                data = json.dumps(about).encode()
                wall, cpu = _timed(command, data, env)
                walls.append(wall)
                cpus.append(cpu)
            rows += _spread(name, walls)
            rows.append(Row(f"{name}, CPU, median", statistics.median(cpus), "s"))
    return rows


def capture_rows(home: Path) -> list[Row]:
    """Return how long an agent waits for the hook that captures, when the new session is found, and when what the hook began has ended.

    After the session is in, what a next chat is told of it is made, and then the figures that reports add up: nobody waits for these.
    """
    found = ingested(home)
    _adopt()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(found.home),
        "CTX_HOME": str(found.store),
        "CLAUDE_CONFIG_DIR": str(found.home / ".claude"),
        "CODEX_HOME": str(found.home / ".codex"),
    }
    answered, captured, ended = [], [], []
    for _ in range(many(CAPTURES) + 1):
        session = add_session(found.home / ".claude" / "projects")
        began = time.perf_counter()
        _timed([*_CTX, "hook", "capture", "claude"], b'{"hook_event_name": "Stop"}', env)
        answered.append(time.perf_counter() - began)
        _wait_until_found(found.store, session)
        captured.append(time.perf_counter() - began)
        _wait_for_children()
        ended.append(time.perf_counter() - began)
    # the first one finds the files of the store cold
    return [
        *_spread("hook: capture, until it answers", answered[1:]),
        *_spread("hook: capture, until one new session is in", captured[1:]),
        *_spread("hook: capture, until nothing of it runs", ended[1:]),
    ]


def _adopt() -> None:
    """Become the parent of what hooks leave behind, so that its end can be waited for."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def _wait_for_children() -> None:
    """Wait for what hooks left behind. Raises RuntimeError where it failed."""
    while True:
        try:
            _, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if status:
            raise RuntimeError(f"what a hook left behind ended with {status}")


def _wait_until_found(store: Path, session: str) -> None:
    """Wait until a search finds a session, which is the last that a sync makes of it. Raises RuntimeError after a minute."""
    late = time.monotonic() + 60
    with closing(sqlite3.connect(f"{(store / 'search.db').as_uri()}?mode=ro", uri=True)) as index:
        while not index.execute("SELECT 1 FROM spans WHERE session_id = ? LIMIT 1", (session,)).fetchone():
            if time.monotonic() > late:
                raise RuntimeError(f"{session} is not in the index")
            time.sleep(0.002)


def _spread(name: str, times: list[float]) -> list[Row]:
    ordered = sorted(times)
    return [
        Row(f"{name}, wall, median", statistics.median(ordered), "s"),
        Row(f"{name}, wall, 95th percentile", ordered[int(len(ordered) * 0.95)], "s"),
        Row(f"{name}, wall, longest", ordered[-1], "s"),
    ]


def _long_session(home: Path, cwd: str) -> Transcript:
    """Write a session of about 2.5 MB that was compacted at its end."""
    made = ClaudeHome(home).session(cwd=cwd)
    for n in range(400):
        if n % 20 == 0:
            made.prompt(f"make step {n} of the basket work, and check it")
        made.call(
            f"r{n}", "Read", "def price(basket):\n    return sum(item.price for item in basket)\n" * 70, file_path=f"{cwd}/src/f{n}.py"
        )
        made.call(f"e{n}", "Edit", "ok", file_path=f"{cwd}/src/f{n % 30}.py", old_string="a", new_string="b")
        made.call(f"b{n}", "Bash", "12 passed in 0.3s", command=f"pytest -q tests/test_{n % 30}.py")
    return made.compact(150_000, "so far").save()


def _timed(command: list[str], data: bytes, env: dict[str, str]) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, input=data, env=env, capture_output=True, check=True, timeout=60)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    for row in hook_rows():
        print(f"{row.name:60} {row.value:10.3f} {row.unit}")
