"""What a script declares under a condition, and what it exports by a call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures.parts import FUNCTIONS, Around

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from ctx_pipeline.compression.signatures.drawing import Drawing

BRANCHES = frozenset({"if_statement", "else_clause", "try_statement", "catch_clause", "finally_clause"})
_CALLABLE_OR_CLASS = frozenset({"function_declaration", "generator_function_declaration", "class_declaration"})
_MADE = FUNCTIONS | {"class", "call_expression"}


def under_conditions(drawing: Drawing, node: SgNode, *, shown: bool) -> None:
    """Look at the functions and classes that a script declares, or gives to a name, under a condition."""
    outside = drawing.under
    waiting = [(node, outside)]  # each else-if stands inside the one before, so a chain may be deeper than calls can go
    while waiting:
        one, drawing.under = waiting.pop()
        if one.kind() in BRANCHES or one.kind() == "statement_block":
            waiting += [(child, drawing.under + 1) for child in reversed(one.children())]
        elif one.kind() in _CALLABLE_OR_CLASS or (one.kind() == "expression_statement" and _given(one).kind() in _MADE):
            first = len(drawing.symbols)
            drawing.walk([one], 0, shown=shown)
            if one.kind() in _CALLABLE_OR_CLASS:
                drawing.once(first)
    drawing.under = outside


def exported_by_call(drawing: Drawing, node: SgNode) -> None:
    """Note what compilers export by a call, ``__export(all, { a: () => a })`` or ``Object.defineProperty(exports, "a", ...)``."""
    called, held = node.field("function"), node.field("arguments")
    given = [c for c in held.children() if c.is_named()] if called is not None and held is not None else []
    if len(given) == 2 and called is not None and called.text() == "__export" and given[1].kind() == "object":
        got = [(one.field("key"), one.field("value")) for one in given[1].children() if one.kind() == "pair"]
        bodies = [value.field("body") for _, value in got if value is not None and value.kind() == "arrow_function"]
        drawing.named_exports.update(body.text() for body in bodies if body is not None and body.kind() == "identifier")
    elif len(given) == 3 and called is not None and called.text() == "Object.defineProperty" and given[0].text() == "exports":
        name = given[1].text().strip("'\"")
        if name != "__esModule" and re.fullmatch(r"[\w$]{1,200}", name):
            first = len(drawing.symbols)
            drawing.only_exported(name)
            drawing.add(node, Around(0, node, shown=True), "value", name, exported=True)
            drawing.once(first)


def _given(statement: SgNode) -> SgNode:
    """Return what a statement gives to a name, at the end of a row of names, or what it calls; itself where it does neither."""
    found = next((c for c in statement.children() if c.kind() in {"assignment_expression", "call_expression"}), statement)
    while found.kind() == "assignment_expression" and (right := found.field("right")) is not None:
        found = right
    return found
