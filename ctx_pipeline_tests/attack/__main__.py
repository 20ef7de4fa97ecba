"""``python -m ctx_pipeline_tests.attack``: seeded trials for so many minutes; prints tried and survived by kind, keeps what failed."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ctx_pipeline_tests.attack import damage, kills
from ctx_pipeline_tests.attack.world import World


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    told = argparse.ArgumentParser(prog="python -m ctx_pipeline_tests.attack", description=__doc__)
    told.add_argument("--minutes", type=float, default=10.0)
    told.add_argument("--seed", type=int, default=1)
    told.add_argument("--folder", type=Path, required=True, help="where the stores lie, what was tried, and what failed")
    told.add_argument("--only", default="", help="kinds of files whose name contains this")
    told.add_argument("--shuffle", action="store_true", help="in an order drawn from the seed, so that a short run tries something of all")
    told.add_argument("--kills", action="store_true", help="kill commands and fail calls of the system, in place of damaging files")
    return told


def main() -> int:
    """Attack until the time is over or every trial was made; return 1 where one did not survive."""
    asked = parser().parse_args()
    deadline = time.monotonic() + asked.minutes * 60
    asked.folder.mkdir(parents=True, exist_ok=True)
    world = World(asked.folder / "world")
    before = damage.prepare(world)
    killed: list[Any] = []
    log = asked.folder / f"tried-{asked.seed}.jsonl"
    tried = [damage.Outcome(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
    done = {(one.kind, one.how) for one in tried}
    pairs = kills.pairs(asked.seed) if asked.kills else [(kind, how) for kind in damage.kinds(world) for how in damage.WAYS]
    if asked.shuffle:
        random.Random(asked.seed).shuffle(pairs)
    for kind, how in pairs:
        if (kind, how) in done or asked.only not in kind or time.monotonic() > deadline:
            continue
        if kills.is_one(kind):
            killed = killed or [*kills.prepare(asked.folder / "killed")]
            outcome = kills.attack(*killed, kind, how)
        else:
            outcome = damage.attack(world, before, kind, how, asked.seed)
        tried.append(outcome)
        with log.open("a") as file:
            file.write(json.dumps(outcome._asdict()) + "\n")
        if not outcome.survived:
            sys.stdout.write(f"{kind}: {how} ({outcome.path}): {', '.join(outcome.wrong)}\n{outcome.told}\n")
            sys.stdout.flush()
    _tell(tried)
    return 0 if all(one.survived for one in tried) else 1


def _tell(tried: list[damage.Outcome]) -> None:
    counted = Counter(one.kind for one in tried)
    survived = Counter(one.kind for one in tried if one.survived)
    for kind, count in counted.items():
        sys.stdout.write(f"{kind:60} {survived[kind]:4} of {count}\n")
    sys.stdout.write(f"{'all':60} {survived.total():4} of {counted.total()}\n")


if __name__ == "__main__":
    raise SystemExit(main())
