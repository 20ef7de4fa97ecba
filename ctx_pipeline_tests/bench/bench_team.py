"""What a team costs: publishing one more session, a hub's refresh, a signal filled over all members by one and by two workers.

The bucket is an S3-shaped server in a process of its own on loopback. Each member has a store with some short sessions;
with ``--home DIR --members N`` N members have a whole home each, and the bucket is a folder, then the same behind the server.
Workers are processes that share nothing but the bucket; they do what a run of Dagster does, without its start.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import settings as settings_module
from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.team.hub import STATE, Hub
from ctx_pipeline.team.membership import demand, save
from ctx_pipeline_tests.bench.rows import Row, many
from ctx_pipeline_tests.factories.other_ids import with_other_ids
from ctx_pipeline_tests.factories.team_machines import TeamMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MEMBERS, SESSIONS, TURNS = 200, 5, 10
CHANGES = 5
PAIRS = 3
A_RUN = 25
FAMILY = "activity"

_WORKER = """
import os, sys, time
from ctx_pipeline import settings
from ctx_pipeline.team.hub import Hub, Part
from ctx_pipeline.team.hub_signals import measurable
home, url, family, core = sys.argv[1:]
if core and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {int(core)})
hub = Hub(settings.load({"HOME": home, "CTX_HOME": home, "TZ": "UTC"}), url)
hub.heads(), measurable()
before = time.process_time()
print(0.0, flush=True)
for line in sys.stdin:
    hub.measure([Part(*key.split("|", 1)) for key in line.split()], [family])
    print(time.process_time() - before, flush=True)
"""


def team_rows() -> list[Row]:
    """Return seconds of a publication, of refreshes, and of a signal filled over all members by one process and by two."""
    members = many(MEMBERS, least=2)
    with tempfile.TemporaryDirectory() as folder, _bucket() as url:
        home = Path(folder)
        machines = [TeamMachine(home / f"m{n:03}", f"m{n:03}") for n in range(members)]
        for number, machine in enumerate(machines):
            machine.join(url, share=("facts",))
            for session in range(many(SESSIONS)):
                machine.works(number * 100 + session, turns=many(TURNS))
            machine.publish()
        hub = _hub(home, url)
        first = _seconds(hub.refresh)
        figures = _figures(home, hub, machines[: many(CHANGES)])
    told = f"{MEMBERS:,} members"
    return [
        Row("team: publish one more session", figures.publish),
        Row(f"team: first refresh of a hub, {told}", first),
        Row(f"team: refresh, nothing new, {told}", figures.nothing),
        Row(f"team: refresh after one member's change, {told}", figures.change),
        Row(f"team: a signal family filled over {told}, one worker", figures.one.seconds),
        Row(f"team: a signal family filled over {told}, two workers", figures.two.seconds, peer=figures.one.seconds),
        Row(f"team: a signal family filled over {told}, the busier of two workers", figures.two.busiest, peer=figures.one.processor),
    ]


def team_homes_rows(home: Path, members: int) -> list[Row]:
    """Return the same over members who have a home like the one that is named, each with ids of its own.

    Homes are made, published and removed one after another by two processes, so that the disk holds few of them at a time.
    """
    size = sum(path.stat().st_size for path in home.rglob("*.jsonl")) * members / 1e6
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        place, shared = Path(folder), Path(folder) / "bucket"
        with ProcessPoolExecutor(2) as pool:
            wanted = [(home, place / f"m{n:05}", str(shared), n < many(CHANGES)) for n in range(members)]
            published = list(pool.map(_publishes_home, *zip(*wanted, strict=True)))
        machines = [_machine(one[1]) for one in wanted if one[3]]
        hub = _hub(place, str(shared))
        rows.append(Row("team: whole homes, read and published, each", statistics.median(published), megabytes=size))
        rows.append(Row("team: whole homes, first refresh of a hub, folder", _seconds(hub.refresh), megabytes=size))
        rows += _rows_of("folder", _figures(place, hub, machines), size)
        with _bucket() as url:
            there = Bucket(url)
            for path in shared.rglob("*"):
                if path.is_file():
                    there.write(path.relative_to(shared).as_posix(), path.read_bytes())
            for machine in machines:
                save(machine.settings, replace(demand(machine.settings), url=url))
            rows += _rows_of("server", _figures(place, _hub(place, url), machines), size)
    return rows


def _rows_of(where: str, figures: Figures, size: float) -> list[Row]:
    one, two = figures.one, figures.two
    rows = [
        Row(f"team: whole homes, publish one more session, {where}", figures.publish),
        Row(f"team: whole homes, refresh, nothing new, {where}", figures.nothing),
        Row(f"team: whole homes, refresh after one member's change, {where}", figures.change),
        Row(f"team: whole homes, a signal family filled, one worker, {where}", one.seconds),
        Row(f"team: whole homes, a signal family filled, two workers, {where}", two.seconds, peer=one.seconds),
        Row(f"team: whole homes, a signal family filled, one worker, processor, {where}", one.processor),
        Row(f"team: whole homes, a signal family filled, two workers, processor, {where}", two.processor, peer=one.processor),
        Row(f"team: whole homes, a signal family filled, the busier of two workers, {where}", two.busiest, peer=one.processor),
    ]
    return [row._replace(megabytes=size) for row in rows]


def _publishes_home(home: Path, folder: Path, url: str, kept: bool) -> float:
    """Make one member's home of another one, with other ids, publish it and return the seconds that reading and publishing took."""
    for path in home.rglob("*.jsonl"):
        to = folder / with_other_ids(path.relative_to(home).as_posix(), folder.name).removeprefix(".")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(with_other_ids(path.read_text("utf-8"), folder.name), "utf-8")
    machine = _machine(folder).join(url, share=("facts",))
    took = _seconds(machine.publish)
    if not kept:
        shutil.rmtree(folder)
    return took


def _machine(folder: Path) -> TeamMachine:
    return TeamMachine(folder, folder.name)


def _hub(home: Path, url: str) -> Hub:
    return Hub(settings_module.load({"HOME": str(home), "CTX_HOME": str(home / "hub"), "TZ": "UTC"}), url)


class Filled(NamedTuple):
    """Seconds until all workers were done, and what all of them and the busiest one took of the processors."""

    seconds: float
    processor: float
    busiest: float


class Figures(NamedTuple):
    """Seconds over a hub that knows everything: of one more publication, of refreshes, and of a family filled by one and by two workers."""

    publish: float
    nothing: float
    change: float
    one: Filled
    two: Filled


def _figures(home: Path, hub: Hub, machines: Sequence[TeamMachine]) -> Figures:
    """Measure over a hub that has collected everything; each of the machines works and publishes once more."""
    hub.refresh()
    nothing = _seconds(hub.refresh)
    publish, change = [], []
    for number, machine in enumerate(machines):
        latest = max(part.month for part in hub.parts() if part.member == machine.member)
        before = len(list(machine.home.root.rglob("*.jsonl")))  # the session is another one each time that this is asked
        machine.works(100_000 * (number + 1) + before, turns=many(TURNS), started=datetime.fromisoformat(f"{latest}-01T09:00:00+00:00"))
        machine.capture()
        publish.append(_seconds(machine.publish))
        change.append(_seconds(hub.refresh))
    one, two = in_turns(home, hub, many(PAIRS))
    return Figures(statistics.median(publish), nothing, statistics.median(change), one, two)


def in_turns(home: Path, hub: Hub, pairs: int) -> tuple[Filled, Filled]:
    """Let one worker, then two, fill a family again and again, so that other work meets both; return the medians of each."""
    made = [(filled(home, hub, 1), filled(home, hub, 2)) for _ in range(pairs)]
    one, two = (Filled(*(statistics.median(figures) for figures in zip(*side, strict=True))) for side in zip(*made, strict=True))
    return one, two


def filled(home: Path, hub: Hub, workers: int) -> Filled:
    """Let workers take readings that nobody has taken yet, once all have started; each takes the next run of the queue when it is free."""
    hub.bucket.remove(e.path for e in hub.bucket.entries(STATE) if e.path.endswith("readings.json"))
    keys = [part.key for part in hub.parts()]
    queue = iter([keys[start : start + A_RUN] for start in range(0, len(keys), A_RUN)])
    with ExitStack() as ended, ThreadPoolExecutor(workers) as pool:
        started = [ended.enter_context(_worker(home / f"worker-{n}", hub.bucket.url, _core(n))) for n in range(workers)]
        if [_answer(worker) for worker in started] != [0.0] * workers:
            raise RuntimeError("a worker did not start")
        began = time.perf_counter()
        processor = list(pool.map(partial(_takes, queue), started))
        took = time.perf_counter() - began
    return Filled(took, sum(processor), max(processor))


def _worker(home: Path, url: str, core: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WORKER, str(home), url, FAMILY, core]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _takes(queue: Iterator[Sequence[str]], worker: subprocess.Popen[str]) -> float:
    """Give a worker one run of the queue after the other, and return the seconds that it took of its processor."""
    took = 0.0
    while (run := next(queue, None)) is not None:
        worker.stdin.write(" ".join(run) + "\n")
        worker.stdin.flush()
        took = _answer(worker)
    return took


def _answer(worker: subprocess.Popen[str]) -> float:
    """Return what a worker says: the seconds of its processor until now. Raises RuntimeError when it ended instead."""
    said = worker.stdout.readline()
    if not said:
        raise RuntimeError("a worker failed")
    return float(said)


def _core(number: int) -> str:
    """Return the processor of a worker: each has one of its own, as on machines of its own; empty where there are too few."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return str(cores[number]) if number < len(cores) else ""


def _seconds(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


@contextmanager
def _bucket() -> Iterator[str]:
    """Give the URL of an empty bucket of an S3-shaped server, which has a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "bench")
            os.environ |= {"AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", **keys}
            _made(f"{address}/bench")
            yield "s3://bench"
        finally:
            server.terminate()


def _made(address: str) -> None:
    for _ in range(100):
        with suppress(OSError), urllib.request.urlopen(urllib.request.Request(address, method="PUT")):
            return
        time.sleep(0.1)
    raise RuntimeError("the S3-shaped server does not answer")
