"""Refuses banned names of modules, functions and classes, and sentences that the documentation says twice.

    python .ci/names.py [--shrink]

.ci/names.toml holds the banned names, each with the one to use; .ci/names_left.tsv the definitions that still have
one, with how often. A new one fails, and so does an entry that is no longer needed: --shrink lowers the entries to
what is there and never raises one.
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


def counted(root: Path) -> dict[tuple[str, str], int]:
    """Return how many definitions have each banned name."""
    rules = tomllib.loads((root / ".ci/names.toml").read_text("utf-8"))
    return dict(sorted(Counter(found for found in definitions(root / "ctx_pipeline") if banned(*found, rules)).items()))


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


def main(root: Path = ROOT) -> int:
    """Print what is wrong; return 1 where something is."""
    there, allowed = counted(root), left(root)
    if "--shrink" in sys.argv:
        kept = {found: min(count, allowed[found]) for found, count in there.items() if found in allowed}
        (root / LEFT).write_text("".join(f"{kind}\t{name}\t{count}\n" for (kind, name), count in kept.items()), "utf-8")
        allowed = kept
    rules = tomllib.loads((root / ".ci/names.toml").read_text("utf-8"))
    wrong = [
        f"{kind} {name}: {count} definitions, {allowed.get((kind, name), 0)} allowed; use: {banned(kind, name, rules)}"
        for (kind, name), count in there.items()
        if count > allowed.get((kind, name), 0)
    ]
    wrong += [
        f"{kind} {name}: {count} allowed, {there.get((kind, name), 0)} there; run: python .ci/names.py --shrink"
        for (kind, name), count in allowed.items()
        if count > there.get((kind, name), 0)
    ]
    wrong += [f"said more than once, in {', '.join(pages)}: {sentence}" for sentence, pages in repeated(root)]
    print("\n".join(wrong) or f"{sum(there.values())} banned names are left")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
