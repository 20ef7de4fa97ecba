"""Refuses banned names, sentences that the documentation says twice, and hosts named outside of their room.

    python .ci/names.py [--shrink]

.ci/names.toml holds the banned names, each with the one to use, and the names and phrases of hosts.
.ci/names_left.tsv holds the definitions that still have a banned name and the texts of code outside of ``hosts/``
that name a host, with how often. A new one fails, and so does an entry that is no longer needed: --shrink lowers
the entries to what is there and never raises one.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT = ".ci/names_left.tsv"


def definitions(package: Path) -> list[tuple[str, str]]:
    """Return (kind, name) of every module, folder, function and class below a package."""
    found = []
    for path in sorted(package.rglob("*.py")):
        found.append(("module", path.parent.name if path.stem == "__init__" else path.stem))
        found += [
            ("class" if isinstance(node, ast.ClassDef) else "function", node.name)
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
    return found


def banned(kind: str, name: str, rules: dict[str, dict[str, str]]) -> str | None:
    """Return what to use in place of a definition's name, or None where the name may stay."""
    bare = name.strip("_")
    if better := rules["modules" if kind == "module" else "names"].get(bare):
        return better
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", bare)
    return next((rules["words"][part.lower()] for part in parts if part.lower() in rules["words"]), None)


def host_texts(package: Path, phrases: list[str]) -> list[tuple[str, str]]:
    """Return ("text", beginning) of every string outside of ``hosts/`` that names a host or holds its phrase; docstrings are none."""
    wanted = re.compile("|".join(phrases), re.IGNORECASE)
    found = []
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] in {"hosts", "samples"}:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            ("text", ascii(node.value[:60]))
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documentation
            and wanted.search(node.value)
        ]
    return found


def counted(root: Path) -> dict[tuple[str, str], int]:
    """Return how many definitions have each banned name, and how many texts name a host."""
    rules = tomllib.loads((root / ".ci/names.toml").read_text("utf-8"))
    package = root / "ctx_pipeline"
    names = [found for found in definitions(package) if banned(*found, rules)]
    return dict(sorted(Counter([*names, *host_texts(package, rules["hosts"]["phrases"])]).items()))


def left(root: Path) -> dict[tuple[str, str], int]:
    """Return how many definitions of each banned name are allowed to remain."""
    lines = (root / LEFT).read_text("utf-8").splitlines()
    return {(kind, name): int(count) for kind, name, count in (line.split("\t") for line in lines)}


def repeated(root: Path) -> list[tuple[str, list[str]]]:
    """Return each sentence of eight words or more that stands more than once in the documentation, with its pages."""
    places: dict[str, list[str]] = {}
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        page = path.relative_to(root).as_posix()
        text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
        lines = [line for line in text.splitlines() if not (page.startswith("docs/reference/") and line.startswith("|"))]
        for line in lines:
            for cell in line.split(" | ") if line.startswith("|") else [line]:
                for sentence in re.split(r"(?<=[.:;?!])\s+", cell.strip("|#-* ")):
                    words = re.findall(r"[\w']+", sentence.lower())
                    if len(words) >= 8:
                        places.setdefault(" ".join(words), []).append(page)
    return [(sentence, pages) for sentence, pages in places.items() if len(pages) > 1]


def _advice(kind: str, name: str, rules: dict[str, dict[str, str]]) -> str:
    return "let the host declare it" if kind == "text" else f"use: {banned(kind, name, rules)}"


def main(root: Path = ROOT) -> int:
    """Print what is wrong; return 1 where something is."""
    there, allowed = counted(root), left(root)
    if "--shrink" in sys.argv:
        kept = {found: min(count, allowed[found]) for found, count in there.items() if found in allowed}
        (root / LEFT).write_text("".join(f"{kind}\t{name}\t{count}\n" for (kind, name), count in kept.items()), "utf-8")
        allowed = kept
    rules = tomllib.loads((root / ".ci/names.toml").read_text("utf-8"))
    wrong = [
        f"{kind} {name}: {count} there, {allowed.get((kind, name), 0)} allowed; {_advice(kind, name, rules)}"
        for (kind, name), count in there.items()
        if count > allowed.get((kind, name), 0)
    ]
    wrong += [
        f"{kind} {name}: {count} allowed, {there.get((kind, name), 0)} there; run: python .ci/names.py --shrink"
        for (kind, name), count in allowed.items()
        if count > there.get((kind, name), 0)
    ]
    wrong += [f"said more than once, in {', '.join(pages)}: {sentence}" for sentence, pages in repeated(root)]
    print("\n".join(wrong) or f"{sum(there.values())} banned names and names of hosts are left")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
