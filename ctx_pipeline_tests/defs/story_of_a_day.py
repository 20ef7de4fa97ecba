"""A day of appends while `ctx ui --watch` runs over a home, with real processes: what it costs and how old the page gets.

    python -m ctx_pipeline_tests.defs.story_of_a_day --home DIR --appends 200 --minutes 40

``DIR`` holds ``.claude`` and ``.codex``; it is changed, so give a copy. Without it the home is
twelve small sessions. Twelve sessions of their own grow by a prompt and its answer at times
that are the same for the same seed. Takes as long as it is told to; what it printed stands in
``docs/graph.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.months import session_id

SESSIONS = 12
EVERY_SECONDS = 2.0
"""How often processes and the ledger are looked at."""

PAGE = "dashboard/site"


@dataclass
class Grown:
    """A session that grows line by line, as its host writes it."""

    home: Path
    number: int
    turns: int = 0
    bytes: int = 0
    path: Path = Path()

    def append(self) -> int:
        """Write one more turn behind what is there; return how long the file is then, in bytes."""
        self.turns += 1
        transcript = ClaudeHome(self.home).session(
            session_id(9000 + self.number), mark=f"d{self.number}", started=datetime(2026, 11, 20, 9, tzinfo=UTC)
        )
        for turn in range(self.turns):
            transcript.prompt(f"mend the parser of part {self.number}, step {turn}")
            transcript.call(f"toolu_{self.number}_{turn}", "Bash", "3 passed in 0.1s", command=f"pytest -q part_{self.number}.py")
            transcript.answer(text(f"step {turn} is done"), message_id=f"msg_{self.number}_{turn}")
        lines = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in transcript.records)
        transcript.path.parent.mkdir(parents=True, exist_ok=True)
        with transcript.path.open("ab") as file:
            file.write(lines[self.bytes :])
        self.bytes, self.path = len(lines), transcript.path
        return self.bytes


@dataclass
class Seen:
    """What was seen of the processes of the watch: processor seconds of each, and the most memory of all at once."""

    processor: dict[int, float] = field(default_factory=dict)
    most_bytes: int = 0

    def look(self, group: int) -> None:
        """Read the processes of a session from ``/proc``."""
        memory = 0
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError):
                parts = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(parts[3]) != group:
                    continue
                self.processor[int(folder.name)] = (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
                pss = next(line for line in (folder / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
                memory += int(pss.split()[1]) * 1024
        self.most_bytes = max(self.most_bytes, memory)

    @property
    def processor_seconds(self) -> float:
        """Return the processor seconds of all processes that were seen, each as it was last."""
        return sum(self.processor.values())


class Day:
    """A store, its homes, and what waits to be shown on the page."""

    def __init__(self, home: Path, store: Path) -> None:
        self.store = store
        self.environment = {
            **os.environ,
            "CTX_HOME": str(store),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "CODEX_HOME": str(home / ".codex"),
        }
        self.grown = [Grown(home / ".claude", number) for number in range(SESSIONS)]
        self.waiting: list[tuple[float, Grown, int]] = []
        self.aged: list[float] = []

    def append(self, which: Grown) -> None:
        """Let a session grow."""
        self.waiting.append((time.time(), which, which.append()))

    def look(self) -> None:
        """Note which appends the page shows by now: it was made after all that was captured of them then."""
        with closing(sqlite3.connect(f"{(self.store / 'ledger.db').as_uri()}?mode=ro", uri=True)) as ledger:
            made = ledger.execute("SELECT updated_at FROM asset_cells WHERE asset = ?", (PAGE,)).fetchone()
            rows = ledger.execute(
                'SELECT path_of.rel, s."end", s.recorded_at FROM segments s JOIN sources path_of USING (stream)'
            ).fetchall()
        if made is None:
            return
        page = datetime.fromisoformat(made[0])
        told: dict[str, int] = {}
        for rel, end, at in rows:
            if datetime.fromisoformat(at) <= page:
                told[Path(rel).stem] = max(told.get(Path(rel).stem, 0), end)
        shown = [one for one in self.waiting if told.get(one[1].path.stem, 0) >= one[2]]
        self.aged += [page.timestamp() - at for at, _, _ in shown]
        self.waiting = [one for one in self.waiting if one not in shown]

    def figures(self) -> dict[str, Any]:
        """Return how much Dagster keeps: runs by status, events, and the bytes of its databases."""
        history = self.store / "dagster" / "history"
        with closing(sqlite3.connect(history / "runs.db")) as runs, closing(sqlite3.connect(history / "event_log.db")) as events:
            by = dict(runs.execute("SELECT status, count(*) FROM runs GROUP BY status").fetchall())
            count = events.execute("SELECT count(*) FROM event_logs").fetchone()[0]
        size = {
            name: sum(path.stat().st_size for path in (self.store / "dagster").rglob(f"{name}.db*"))
            for name in ("event_log", "runs", "schedules")
        }
        return {"runs": by, "events": count, **{f"{name}.db": size[name] for name in size}}


def play(day: Day, appends: int, minutes: float, seed: int) -> dict[str, Any]:
    """Start the watch, let the sessions grow, wait until the page shows all, and return the figures."""
    for grown in day.grown:
        grown.append()
        os.utime(grown.path, (time.time() - 3600,) * 2)
    subprocess.run([sys.executable, "-m", "ctx_pipeline", "run"], env=day.environment, check=True, stdout=subprocess.DEVNULL)
    before = day.figures()
    said = day.store.parent / "ui.out"
    with said.open("w") as out:
        command = [sys.executable, "-m", "ctx_pipeline", "ui", "--watch", "--port", "0"]
        watch = subprocess.Popen(command, env=day.environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    chance, seen, idle = random.Random(seed), Seen(), Seen()
    try:
        while "http://" not in said.read_text():
            if watch.poll() is not None:
                raise SystemExit(said.read_text())
            time.sleep(1)
        quiet = time.monotonic() + 60
        while time.monotonic() < quiet:
            idle.look(watch.pid)
            time.sleep(EVERY_SECONDS)
        started = idle.processor_seconds
        due = sorted(chance.uniform(0, minutes * 60) for _ in range(appends))
        began = time.monotonic()
        while due or (day.waiting and time.monotonic() < began + minutes * 60 + 900):
            while due and time.monotonic() - began >= due[0]:
                due.pop(0)
                day.append(chance.choice(day.grown))
            seen.look(watch.pid)
            day.look()
            time.sleep(EVERY_SECONDS)
        took = time.monotonic() - began
    finally:
        processes.end(watch)
    after = day.figures()
    aged = sorted(day.aged)
    runs = sum(after["runs"].values()) - sum(before["runs"].values())
    return {
        "appends": appends,
        "shown": len(aged),
        "runs": runs,
        "by status": after["runs"],
        "seconds": round(took),
        "age of the page: median, 95 of 100, most (s)": [round(aged[int(len(aged) * part)]) for part in (0.5, 0.95)] + [round(aged[-1])],
        "processor seconds": round(seen.processor_seconds - started),
        "processor seconds to start and of an idle minute": round(started),
        "most memory (MB)": round(seen.most_bytes / 1e6),
        "events": after["events"] - before["events"],
        **{f"{name}, growth (kB)": round((after[name] - before[name]) / 1e3) for name in ("event_log.db", "runs.db", "schedules.db")},
    }


def main() -> None:
    """Play a day as the command line says, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path)
    parser.add_argument("--store", type=Path, help="a store of this home, made before")
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home, store = given.home or Path(folder) / "home", given.store or Path(folder) / "store"
        sys.stdout.write(
            json.dumps(play(Day(home.absolute(), store.absolute()), given.appends, given.minutes, given.seed), indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
