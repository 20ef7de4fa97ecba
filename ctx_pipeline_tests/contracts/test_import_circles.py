"""No module of the package imports another one in a circle, not even when a function runs."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import ctx_pipeline

PACKAGE = Path(ctx_pipeline.__file__).parent
MODULES = {
    ".".join(("ctx_pipeline", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imported(node: ast.AST):
    """Yield the modules that a part of a file imports when it runs: what only a type checker reads is left out."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.module:
        yield from (full if (full := f"{node.module}.{alias.name}") in MODULES else node.module for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


def circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.feature("package.no-circles")
def test_no_module_imports_itself_in_a_circle():
    # the package's own file names modules as texts: it is the lazy list of what is public
    graph = {
        name: {other for other in imported(ast.parse(path.read_bytes())) if other in MODULES} - {name, "ctx_pipeline"}
        for name, path in MODULES.items()
    }
    assert sum(map(len, graph.values())) > len(MODULES)
    assert circle(graph) == []


@pytest.mark.feature("package.no-circles")
def test_a_circle_through_a_function_is_found():
    code = "def f():\n    from ctx_pipeline.facts import turns\n"
    found = {"ctx_pipeline.facts.turns": {"a"}, "a": set(imported(ast.parse(code)))}
    assert set(circle(found)) == {"a", "ctx_pipeline.facts.turns"}
