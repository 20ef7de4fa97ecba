"""``python -m ctx_pipeline_tests.bench``: the numbers of the design, measured here and now.

Each ``bench_*.py`` beside this file offers functions named ``*_rows`` that return
:class:`Row` values. ``--home DIR`` names a folder with ``.claude`` and ``.codex`` (of any
size); ``--only WORD`` runs the rows whose function name contains the word.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
from pathlib import Path

from ctx_pipeline_tests.bench.rows import Row, floor


def main() -> None:
    """Run the rows and print them with budgets and ratios to this machine's floor."""
    parser = argparse.ArgumentParser(prog="python -m ctx_pipeline_tests.bench", description=__doc__)
    parser.add_argument("--home", type=Path, help="folder with .claude and .codex")
    parser.add_argument("--only", default="", help="part of a function's name")
    parser.add_argument("--embedder", help="package.module:function that the questions to memories are embedded with")
    chosen = parser.parse_args()
    base = floor(chosen.home) if chosen.home else None
    if base:
        print(f"floor: read and decode {base.megabytes:.0f} MB in one process: {base.seconds:.2f} s\n")
    print(f"{'row':<58} {'measured':>12} {'budget':>12} {'of budget':>9} {'of floor':>9} {'of peer':>9}")
    for info in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not info.name.startswith("bench_"):
            continue
        module = importlib.import_module(f"ctx_pipeline_tests.bench.{info.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.endswith("_rows") and chosen.only in name and function.__module__ == module.__name__:
                wants_home = "home" in inspect.signature(function).parameters
                if wants_home and not chosen.home:
                    print(f"{name}: needs --home")
                    continue
                asked = {"embedder": chosen.embedder} if chosen.embedder and "embedder" in inspect.signature(function).parameters else {}
                for row in function(home=chosen.home, **asked) if wants_home else function():
                    _print(row, base.seconds if base else None)


def _print(row: Row, base: float | None) -> None:
    share = f"{row.value / row.budget:.2f}" if row.budget else ""
    ratio = f"{row.value / base:.2f}" if base and row.unit == "s" else ""
    budget = f"{row.budget:.3f} {row.unit}" if row.budget else ""
    peer = f"{row.value / row.peer:.4f}" if row.peer else ""
    print(f"{row.name:<58} {row.value:>9.3f} {row.unit:<2} {budget:>12} {share:>9} {ratio:>9} {peer:>9}")


if __name__ == "__main__":
    main()
