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

from ctx_pipeline_tests.attack import damage, homes, kills
from ctx_pipeline_tests.attack.world import World


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    told = argparse.ArgumentParser(prog="python -m ctx_pipeline_tests.attack", description=__doc__)
    told.add_argument("--minutes", type=float, default=10.0)
    told.add_argument("--seed", type=int, default=1)
    told.add_argument("--folder", type=Path, required=True, help="where the stores lie, what was tried, and what failed")
    told.add_argument("--only", default="", help="kinds of files whose name contains this")
    told.add_argument("--shuffle", action="store_true", help="in an order drawn from the seed, so that a short run tries something of all")
    told.add_argument(
        "--matrix", action="store_true", help="every kind of file in every way once, without a limit of time, and the table of it"
    )
    told.add_argument("--kills", action="store_true", help="kill commands and fail calls of the system, in place of damaging files")
    told.add_argument("--homes", action="store_true", help="hostile files, secrets and clocks that jump, in place of damaging files")
    return told


def main() -> int:
    """Attack until the time is over or every trial was made; return 1 where one did not survive."""
    asked = parser().parse_args()
    deadline = time.monotonic() + asked.minutes * 60
    asked.folder.mkdir(parents=True, exist_ok=True)
    world = World(asked.folder / "world")
    prepared: dict[str, Any] = {}
    log = asked.folder / f"tried-{asked.seed}.jsonl"
    tried = [damage.Outcome(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
    done = {(one.kind, one.how) for one in tried}
    if asked.kills or asked.homes:
        pairs = kills.pairs(asked.seed) * asked.kills + homes.pairs(asked.seed) * asked.homes
    else:
        prepared["damage"] = damage.prepare(world)
        pairs = [(kind, how) for kind in damage.kinds(world) for how in damage.WAYS]
    if asked.shuffle:
        random.Random(asked.seed).shuffle(pairs)
    for kind, how in pairs:
        if (kind, how) in done or asked.only not in kind or (time.monotonic() > deadline and not asked.matrix):
            continue
        if kills.is_one(kind):
            prepared["killed"] = prepared.get("killed") or kills.prepare(asked.folder / "killed")
            outcome = kills.attack(*prepared["killed"], kind, how)
        elif homes.is_one(kind):
            prepared["homes"] = prepared.get("homes") or homes.prepare(asked.folder / "homes")
            outcome = homes.attack(*prepared["homes"], kind, how, asked.seed)
        else:
            outcome = damage.attack(world, prepared["damage"], kind, how, asked.seed)
        tried.append(outcome)
        with log.open("a") as file:
            file.write(json.dumps(outcome._asdict()) + "\n")
        if not outcome.survived:
            sys.stdout.write(f"{kind}: {how} ({outcome.path}): {', '.join(outcome.wrong)}\n{outcome.told}\n")
            sys.stdout.flush()
    if asked.matrix:
        sys.stdout.write(matrix(tried))
    else:
        _tell(tried)
    return 0 if all(one.survived for one in tried) else 1


def matrix(tried: list[damage.Outcome]) -> str:
    """Return the table of what became of damaged files, a row a way and one for all; a file is repaired, named as lost, or wrong."""
    rows = ["| way | tried | repaired | named as lost | wrong |", "|---|---|---|---|---|"]
    for name in (*dict.fromkeys(one.how for one in tried), ""):
        mine = [one for one in tried if name in {one.how, ""}]
        wrong = sum(not one.survived for one in mine)
        lost = sum(one.survived and one.lost for one in mine)
        rows.append(f"| {name or 'all'} | {len(mine)} | {len(mine) - wrong - lost} | {lost} | {wrong} |")
    kinds = len({one.kind for one in tried})
    return f"{kinds} kinds of files\n\n" + "\n".join(rows) + "\n"


def _tell(tried: list[damage.Outcome]) -> None:
    counted = Counter(one.kind for one in tried)
    survived = Counter(one.kind for one in tried if one.survived)
    for kind, count in counted.items():
        sys.stdout.write(f"{kind:60} {survived[kind]:4} of {count}\n")
    sys.stdout.write(f"{'all':60} {survived.total():4} of {counted.total()}\n")


if __name__ == "__main__":
    raise SystemExit(main())
