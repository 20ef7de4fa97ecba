"""What a team costs: publishing one more session, a hub's refresh, a signal filled over all members by one and by two workers.

The bucket is an S3-shaped server in a process of its own on loopback. Each member has a store with some short sessions.
Workers are processes that share nothing but the bucket; they do what a run of Dagster does, without its start.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline import settings as settings_module
from ctx_pipeline.team.hub import STATE, Hub
from ctx_pipeline_tests.bench.rows import Row, many
from ctx_pipeline_tests.factories.team_machines import TeamMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MEMBERS, SESSIONS, TURNS = 200, 5, 10
FAMILY = "activity"

_WORKER = """
import sys
from ctx_pipeline import settings
from ctx_pipeline.team.hub import Hub, Part
home, url, family, *keys = sys.argv[1:]
hub = Hub(settings.load({"HOME": home, "CTX_HOME": home, "TZ": "UTC"}), url)
for key in keys:
    hub.measure(Part(*key.split("|", 1)), [family])
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
        hub = Hub(settings_module.load({"HOME": folder, "CTX_HOME": str(home / "hub"), "TZ": "UTC"}), url)
        first = _seconds(hub.refresh)
        nothing = _seconds(hub.refresh)
        one, again = [], []
        for number, machine in enumerate(machines[: many(5)]):
            machine.works(number * 100 + 90, turns=many(TURNS))
            machine.capture()
            one.append(_seconds(machine.publish))
            again.append(_seconds(hub.refresh))
        keys = [part.key for part in hub.parts()]
        alone = _filled(home, hub, [keys])
        both = _filled(home, hub, [keys[::2], keys[1::2]])
    told = f"{MEMBERS:,} members"
    return [
        Row("team: publish one more session", statistics.median(one)),
        Row(f"team: first refresh of a hub, {told}", first),
        Row(f"team: refresh, nothing new, {told}", nothing),
        Row(f"team: refresh after one member's change, {told}", statistics.median(again)),
        Row(f"team: a signal family filled over {told}, one worker", alone),
        Row(f"team: a signal family filled over {told}, two workers", both, peer=alone),
    ]


def _filled(home: Path, hub: Hub, shares: Sequence[Sequence[str]]) -> float:
    """Return the seconds in which workers, one a share of the partitions, take readings that nobody has taken yet."""
    hub.bucket.remove(e.path for e in hub.bucket.entries(STATE) if e.path.endswith("readings.json"))
    began = time.perf_counter()
    workers = [
        subprocess.Popen([sys.executable, "-c", _WORKER, str(home / f"worker-{n}"), hub.bucket.url, FAMILY, *share])
        for n, share in enumerate(shares)
    ]
    ends = [worker.wait() for worker in workers]
    if any(ends):
        raise RuntimeError("a worker failed")
    return time.perf_counter() - began


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
