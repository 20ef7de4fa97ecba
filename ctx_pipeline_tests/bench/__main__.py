"""``python -m ctx_pipeline_tests.bench``: the numbers of the design, measured here and now.

Each ``bench_*.py`` beside this file offers functions named ``*_rows`` that return
:class:`Row` values. ``--home DIR`` names a folder with ``.claude`` and ``.codex`` (of any
size); ``--only WORD`` runs the rows whose file and function contain the word, as in
``search`` or ``ingest.sync``. ``--trial`` does little work over a small home of its own:
it shows that every row can be measured, and its figures mean nothing. ``--json`` prints
an object a row. What is above its budget is named at the end, and the process ends with 1.

``--size 5g --sessions 100000`` makes the home instead. Both may be given several times: the
rows, ``sizes`` where none are named, are then measured over each home and printed as a table of
cost against size, in Markdown, which ``--plot FILE`` also draws as SVG.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import pkgutil
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ctx_pipeline
from ctx_pipeline_tests.bench.budgets import BUDGETS
from ctx_pipeline_tests.bench.cost_plot import Size, plot, table
from ctx_pipeline_tests.bench.homes import make_home
from ctx_pipeline_tests.bench.rows import TRIAL, Row, floor

if TYPE_CHECKING:
    from collections.abc import Callable

_SAMPLES = Path(ctx_pipeline.__file__).parent / "samples"


def main() -> None:
    """Run the rows and print them with budgets and ratios to this machine's floor."""
    parser = argparse.ArgumentParser(prog="python -m ctx_pipeline_tests.bench", description=__doc__)
    parser.add_argument("--home", type=Path, help="folder with .claude and .codex")
    parser.add_argument("--size", type=megabytes, action="append", default=[], help="make a home of so many bytes, as in 500m or 5g")
    parser.add_argument(
        "--sessions", type=int, action="append", default=[], help="sessions of that home; one a megabyte where none are named"
    )
    parser.add_argument("--plot", type=Path, help="draw the cost against the size into this SVG file")
    parser.add_argument("--only", default="", help="part of FILE.FUNCTION")
    parser.add_argument("--embedder", help="package.module:function that the questions to memories are embedded with")
    parser.add_argument("--dialogues", type=Path, help="questions over long dialogues: a file in the form of LoCoMo")
    parser.add_argument("--members", type=int, help="how many members of a team have a home like that of --home each")
    parser.add_argument("--trial", action="store_true", help="little work over a small home: do all rows still work?")
    parser.add_argument("--json", action="store_true", help="an object a row")
    chosen = parser.parse_args()
    sizes = sizes_of(parser, chosen)
    with tempfile.TemporaryDirectory() as folder:
        # no row works in the store of the person who measures
        os.environ["CTX_HOME"] = str(Path(folder) / "store")
        # a person's Python compiles a module once, not once a command
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if chosen.trial:
            os.environ[TRIAL] = "1"
            chosen.home, chosen.members = Path(folder) / "home", 2
            for host in ("claude", "codex"):
                shutil.copytree(_SAMPLES / host, chosen.home / f".{host}")
        if len(sizes) > 1 or chosen.plot:
            _compare(chosen.only or "sizes.", sizes, Path(folder), chosen.plot)
            return
        if sizes:
            chosen.home = make_home(Path(folder) / "home", sessions=sizes[0].sessions, megabytes=sizes[0].megabytes)
        given = {"home": chosen.home, "embedder": chosen.embedder, "dialogues_file": chosen.dialogues, "members": chosen.members}
        above = _run(chosen.only, {name: value for name, value in given.items() if value}, as_json=chosen.json)
    if above and not chosen.trial:
        print(f"\n{len(above)} above {'its budget' if len(above) == 1 else 'their budgets'}:", *above, sep="\n  ", file=sys.stderr)
        raise SystemExit(1)


def _run(only: str, given: dict[str, Any], *, as_json: bool) -> list[str]:
    """Print the rows, and return those that are above their budgets."""
    base = floor(given["home"]) if "home" in given else None
    if base and not as_json:
        print(f"floor: read and decode {base.megabytes:.0f} MB in one process: {base.seconds:.2f} s\n")
    if not as_json:
        print(f"{'row':<64} {'measured':>12} {'budget':>12} {'of budget':>9} {'of floor':>9} {'of peer':>9}")
    above: list[str] = []
    for name, function in functions(only).items():
        wanted = inspect.signature(function).parameters
        if missing := [key for key in ("home", "members") if key in wanted and key not in given]:
            print(f"{name}: needs --{missing[0]}", file=sys.stderr)
            continue
        for row in function(**{key: value for key, value in given.items() if key in wanted}):
            found = shown(row, base.seconds if base else None)
            print(json.dumps(found) if as_json else _line(found), flush=True)
            above += excess(found)
    return above


def excess(found: dict[str, Any]) -> list[str]:
    """Return what is to be said of a row that is above its budget; nothing of any other."""
    if found["budget"] is None or found["measured"] <= found["budget"]:
        return []
    return [f"{found['row']}: {found['measured']:.3f} {found['unit']}, of {found['budget']:.3f} at most"]


def megabytes(text: str) -> float:
    """Return what a size such as ``500m`` or ``5g`` says; raises ValueError for other words."""
    number, unit = text[:-1], text[-1:].lower()
    if unit not in "mg" or not unit:
        raise ValueError(f"{text!r} is no size: 500m, 5g")
    return float(number) * (1000 if unit == "g" else 1)


def sizes_of(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> list[Size]:
    """Return the homes that are to be made; ends with an error where what was typed cannot be done."""
    if chosen.sessions and len(chosen.sessions) != len(chosen.size):
        parser.error("--sessions is given as often as --size, or not at all")
    if chosen.size and (chosen.home or chosen.trial):
        parser.error("--size makes a home: it is not given with --home or --trial")
    if chosen.plot and (not chosen.size or "sizes.size_rows".find(chosen.only or "sizes.") < 0):
        parser.error("--plot draws the rows of sizes: give --size, and no other --only")
    if len(chosen.size) > 1 and chosen.json:
        parser.error("several sizes are printed as a table, not as --json")
    return [Size(n, size) for size, n in zip(chosen.size, chosen.sessions or [max(1, round(size)) for size in chosen.size], strict=True)]


def _compare(only: str, sizes: list[Size], folder: Path, picture: Path | None) -> None:
    """Measure rows over homes of several sizes, one home at a time, and print the cost against the size."""
    costs: dict[str, dict[Size, tuple[float, str]]] = {}
    for size in sorted(sizes, key=lambda one: (one.megabytes, one.sessions)):
        home = make_home(folder / "home", sessions=size.sessions, megabytes=size.megabytes)
        for function in functions(only).values():
            if "home" in inspect.signature(function).parameters:
                for row in function(home=home):
                    costs.setdefault(row.name, {})[size] = (row.value, row.unit)
        shutil.rmtree(home)
        print(f"measured: {size}", file=sys.stderr, flush=True)
    print(table(costs))
    if picture:
        picture.write_text(plot(costs), "utf-8")


def functions(only: str) -> dict[str, Callable[..., list[Row]]]:
    """Return ``file.function`` -> what measures some rows, of those whose name holds a word; other files are not imported."""
    found = {}
    of_file, dot, _ = only.partition(".")
    for info in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if info.name.startswith("bench_") and (not dot or info.name.endswith(of_file)):
            module = importlib.import_module(f"ctx_pipeline_tests.bench.{info.name}")
            for name, function in inspect.getmembers(module, inspect.isfunction):
                if name.endswith("_rows") and function.__module__ == module.__name__:
                    found[f"{info.name.removeprefix('bench_')}.{name}"] = function
    return {name: function for name, function in found.items() if only in name}


_SECONDS = {"s": 1.0, "ms": 0.001}


def shown(row: Row, base: float | None) -> dict[str, Any]:
    """Return a row with its budget and its ratios to the budget, to this machine's floor and to the best peer; None where there is none."""
    declared = BUDGETS.get(row.name)
    most = declared.over(row.megabytes) if declared else None
    return {
        "row": row.name,
        "measured": row.value,
        "unit": row.unit,
        "budget": most,
        "of_budget": row.value / most if most else None,
        "of_floor": row.value * _SECONDS[row.unit] / base if base and row.unit in _SECONDS else None,
        "of_peer": row.value / row.peer if row.peer else None,
    }


def _line(found: dict[str, Any]) -> str:
    budget = "" if found["budget"] is None else f"{found['budget']:.3f} {found['unit']}"
    shares = (("of_budget", 2), ("of_floor", 2), ("of_peer", 4))
    ratios = " ".join(f"{'' if found[key] is None else format(found[key], f'.{digits}f'):>9}" for key, digits in shares)
    return f"{found['row']:<64} {found['measured']:>9.3f} {found['unit']:<2} {budget:>12} {ratios}".rstrip()


if __name__ == "__main__":
    main()
