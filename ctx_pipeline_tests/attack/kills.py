"""Commands are killed, or a call to the system fails, at the n-th call of a kind: is everything as it must be after the next run?

By ``strace`` where it exists and may trace; else commands are killed after a drawn time.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ctx_pipeline_tests.attack import damage
from ctx_pipeline_tests.attack.world import World

COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run",),
    "sync": ("sync",),
    "backfill": ("backfill", "--signal", "user_message_count", "--force"),
    "forget": ("forget", "claude", damage.SESSION, "--yes"),
}
CALLS = {
    "openat": 2500,
    "write": 400,
    "pwrite64": 600,
    "fsync": 40,
    "fdatasync": 60,
    "rename": 60,
    "unlink": 60,
    "fcntl": 900,
}
"""Call of the system -> the most calls of it that are waited for"""

FAULTS = {"pwrite64": "ENOSPC", "fdatasync": "EIO", "rename": "ENOSPC", "mkdir": "ENOSPC"}
"""Call of the system -> the error that one of its calls ends with"""

DRAWS = 3
SECONDS = 120.0
_PREFIX = "kill: "


def pairs(seed: int) -> list[tuple[str, str]]:
    """Return what is tried with a seed: (command, at which call, with what), drawn on a scale of orders of magnitude."""
    found = []
    for command in COMMANDS:
        for number in range(DRAWS):
            draw = random.Random(f"{seed} {command} {number}")
            found += [(f"{_PREFIX}{command}", f"{call} {_drawn(draw, most)}") for call, most in CALLS.items()]
            found += [(f"{_PREFIX}{command}", f"{call} {_drawn(draw, CALLS.get(call, 40))} {error}") for call, error in FAULTS.items()]
    return found


def is_one(kind: str) -> bool:
    """Tell whether a kind of trial is one of these."""
    return kind.startswith(_PREFIX)


def prepare(folder: Path) -> tuple[World, dict[str, Any]]:
    """Make a store whose homes have grown since; return it with what its readers say after the commands that nobody disturbs."""
    world = World(folder)
    world.make()
    told = folder / "expected.json"
    if not told.exists():
        _grow(world)
        found = {}
        for name, first in (("run", ()), ("forget", COMMANDS["forget"])):
            world.put_back()
            found[name] = world.apart(lambda first=first: _undisturbed(world, first))
        told.write_text(json.dumps(found))
    expected: dict[str, Any] = json.loads(told.read_text())
    return world, expected


def attack(world: World, expected: dict[str, Any], kind: str, how: str) -> damage.Outcome:
    """Disturb a command in a fresh copy of the store, run again, and compare."""
    world.put_back()
    command = kind.removeprefix(_PREFIX)
    ended, said = _disturbed(world, COMMANDS[command], how)
    wrong = ["a traceback"] if "Traceback (most recent call last)" in said else []
    fitting = [expected["run"], *([expected["forget"]] if command == "forget" else [])]
    try:
        found, told = world.apart(lambda: _trial(world, fitting))
    except AssertionError as error:
        found, told = ["crash"], str(error)
    return damage.Outcome(kind, how, f"ended with {ended}", wrong + found, "\n".join([said[-1500:] if wrong else "", told]).strip())


def _grow(world: World) -> None:
    """Append to a session and add one, so that every stage has something to do."""
    transcript = next((world.folder / "claude").rglob(f"{damage.SESSION}.jsonl"))
    lines = [json.loads(line) for line in transcript.read_text().splitlines()]
    prompt = next(line for line in lines if line.get("type") == "user" and isinstance(line["message"]["content"], str))
    with transcript.open("a") as file:
        for number in range(3):
            file.write(json.dumps({**prompt, "uuid": f"00000000-0000-4000-8000-{number:012}"}) + "\n")
    other = "0d3f0c1e-6a51-4a0e-9a55-2f6f1f6f0a01"
    transcript.with_name(f"{other}.jsonl").write_text(
        transcript.read_text().replace(damage.SESSION, other).replace('"uuid": "', '"uuid": "f')
    )


def _undisturbed(world: World, first: tuple[str, ...]) -> dict[str, Any]:
    told = [world.ctx(*words) for words in (first, ("run",), ("run",)) if words]
    if any(one.code for one in told):
        raise AssertionError(told)
    return damage.state(world)


def _trial(world: World, fitting: list[dict[str, Any]]) -> tuple[list[str], str]:
    from ctx_pipeline.pipeline import run

    run.graph_installed = lambda: False  # type: ignore[assignment] - the stages are those of Dagster, which takes seconds to import
    runs = [world.ctx("run"), world.ctx("run")]
    doctor = world.ctx("doctor")
    wrong = ["crash"] if any(one.crashed for one in (*runs, doctor)) else []
    if doctor.code:
        wrong.append("not sound")
    now = damage.state(world)
    differs = min((damage.differences(now, one) for one in fitting), key=len)
    if differs:
        wrong.append("other content")
    left = [path.relative_to(world.home).as_posix() for path in world.home.rglob(".tmp-*")]
    if left:
        wrong.append("temporary files")
    told = f"{differs[:5]} {left[:5]} doctor: {doctor.said[:600]} run: {runs[0].said[-600:]}"
    return wrong, told if wrong else ""


def _disturbed(world: World, words: tuple[str, ...], how: str) -> tuple[str, str]:
    """Run a command, disturb it, and end all that it started; return how it ended and what it printed."""
    call, number, *error = how.split()
    command = [sys.executable, "-m", "ctx_pipeline", *words]
    if _may_trace():
        what = f"error={error[0]}" if error else "signal=KILL"
        command = ["strace", "-f", "-qqq", "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={call}:{what}:when={number}", *command]
    said = world.folder / "said.txt"
    with said.open("w") as out:
        process = subprocess.Popen(
            command, env={**os.environ, **world.environ}, cwd=world.folder, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            if _may_trace():
                process.wait(SECONDS)
            else:
                time.sleep(random.Random(f"{words} {how}").uniform(0.05, 4.0))
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return str(process.returncode), said.read_text(errors="replace")


@cache
def _may_trace() -> bool:
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-f", "-qqq", "-o", os.devnull, "true"], capture_output=True, check=False).returncode == 0


def _drawn(draw: random.Random, most: int) -> int:
    return round(most ** draw.random())
