"""Functions of a shell, which take by number what they read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures.parts import name_of
from ctx_pipeline.compression.signatures.symbols import Parameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ast_grep_py import SgNode

    from ctx_pipeline.compression.signatures.drawing import Drawing
    from ctx_pipeline.compression.signatures.parts import Around


def function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A function of a shell takes what it reads by number; the names are those that it gives."""
    taken: dict[int, Parameter] = {}
    passed, rest = 0, False
    body = node.field("body")
    for one in body.children() if body is not None else ():
        if by := _shifted(one):
            passed += by
            continue
        parts = list(_parts(one))
        if any(_shifted(part) for part in parts):  # how many are gone behind it is not known
            rest = True
            break
        for part in parts:
            name, default = _argument(part)
            rest = rest or name in {"@", "*"}
            if re.fullmatch("[1-9]", name):
                place, given = passed + int(name), _assigned(part)
                if place not in taken or (given and taken[place].name.startswith("$")):
                    taken[place] = Parameter(given or f"${place}", "", default)
    listed = [taken.get(place, Parameter(f"${place}")) for place in range(1, max(taken, default=0) + 1)]
    drawing.add(node, around, "function", name_of(node), exported=True, parameters=(*listed, *([Parameter("$@")] if rest else [])))
    return True


def _parts(node: SgNode) -> Iterator[SgNode]:
    """Yield a node and what is inside, but not what a function inside takes of its own."""
    if node.kind() != "function_definition":
        yield node
        for child in node.children():
            yield from _parts(child)


def _shifted(node: SgNode) -> int:
    """Return how many arguments a command drops."""
    found = re.fullmatch(r"shift(?:\s+(\d+))?", node.text()) if node.kind() == "command" else None
    return int(found[1] or 1) if found else 0


def _argument(node: SgNode) -> tuple[str, bool]:
    """Return which argument is read, empty where none is, and whether it may be left out."""
    if node.kind() not in {"simple_expansion", "expansion"}:
        return "", False
    kinds = {c.kind(): c.text() for c in node.children()}
    name = kinds.get("variable_name") or kinds.get("special_variable_name") or ""
    return name, bool(kinds.keys() & {":-", "-"})


def _assigned(node: SgNode) -> str:
    """Return the name that is given to an argument as it is."""
    held = next((a for a in list(node.ancestors())[:2] if a.kind() == "variable_assignment"), None)
    name, value = (held.field("name"), held.field("value")) if held is not None else (None, None)
    return name.text() if name is not None and value is not None and value.text().strip('"') == node.text() else ""
