"""Elixir: modules, functions and attributes are calls, and their types stand above them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures.parts import first_line, flat
from ctx_pipeline.compression.signatures.symbols import Parameter

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from ctx_pipeline.compression.signatures.drawing import Drawing
    from ctx_pipeline.compression.signatures.parts import Around

_HOLDS = {"defmodule": "module", "defprotocol": "interface", "defimpl": "implementation"}
_DEFINES = {"def": True, "defmacro": True, "defp": False, "defmacrop": False, "defguard": True, "defguardp": False, "defdelegate": True}
_ATTRIBUTES_OF_CODE = frozenset(
    ["moduledoc", "doc", "typedoc", "spec", "type", "typep", "opaque", "callback", "impl", "behaviour", "derive"]
)


def function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """``defmodule``, ``def`` and their kin are calls."""
    target = node.field("target") or next((c for c in node.children() if c.kind() == "identifier"), None)
    word = target.text() if target is not None else ""
    held = next((c for c in node.children() if c.kind() == "arguments"), None)
    if word in _HOLDS and held is not None:
        drawing.add(node, around, _HOLDS[word], flat(re.sub(r", for: *", " for ", held.text())), exported=True)
        bodies = [c for c in node.children() if c.kind() == "do_block"]
        drawing.members(bodies, around.level + 1, shown=True, always=False)
    elif word in {"defstruct", "defexception"} and held is not None and drawing.symbols and around.level:
        fields = re.findall(r"(?<![\w:]):(\w+)|\b(\w+):(?=\s)", flat(held.text()))
        drawing.hold([atom or key for atom, key in fields], around.level)
    elif word in _DEFINES and held is not None:
        name, taken = _head(held)
        typed, returns, doc = _above(node, name, len(taken))
        parameters = tuple(Parameter(c.partition("\\\\")[0].strip(), "", "\\\\" in c) for c in taken)
        if len(typed) == len(parameters):
            parameters = tuple(p._replace(type=kind) for p, kind in zip(parameters, typed, strict=True))
        drawing.add(node, around, "function", name, exported=_DEFINES[word], parameters=parameters, returns=returns)
        drawing.symbols[-1] = drawing.symbols[-1]._replace(doc=doc)
    elif word in {"alias", "import", "use", "require"} and held is not None:
        drawing.imports.append(re.sub(r", (?:only|except|as):.*", "", flat(held.text())))
    else:
        drawing.calls(node)
    return True


def _head(held: SgNode) -> tuple[str, list[str]]:
    """Return the name that a definition gives and its parameters as written."""
    head = next(c for c in held.children() if c.is_named())
    if head.kind() == "binary_operator" and any(c.kind() == "when" for c in head.children()):
        head = head.children()[0]
    if head.kind() == "binary_operator":
        left, operator, right = head.children()[0], head.children()[1], head.children()[-1]
        return operator.text(), [flat(left.text()), flat(right.text())]
    listed = next((c for c in head.children() if c.kind() == "arguments"), None)
    taken = [flat(c.text()) for c in listed.children() if c.is_named() and c.kind() != "comment"] if listed is not None else []
    return flat(head.text()[: listed.range().start.index - head.range().start.index] if listed is not None else head.text()), taken


_MOST_ABOVE = 60
"""clauses and attributes above one that are looked at for its specification"""


def _above(node: SgNode, name: str, count: int) -> tuple[list[str], str, str]:
    """Return the types and the result that a specification above gives a function, and what is said of it."""
    typed, returns, doc, above, alone = list[str](), "", "", node.prev(), True
    for _ in range(_MOST_ABOVE):
        if above is None or above.kind() not in {"unary_operator", "call", "comment"}:
            break
        text = above.text()
        if above.kind() == "call":
            alone = False
            if not re.match(rf"def\w*\s+{re.escape(name)}(?!\w)", text):
                break
        elif alone and not doc and (match := re.match(r"@doc\s+(?:~[sS])?(?:\"\"\"|\")(.*)", text, re.DOTALL)):
            doc = first_line(match[1].rstrip('"'))
        elif not returns and re.match(rf"@spec\s+{re.escape(name)}(?!\w)", text):
            listed, result = _spec(above)
            if len(listed) == count:
                typed, returns = listed, result
        above = above.prev()
    return typed, returns, doc


def _spec(node: SgNode) -> tuple[list[str], str]:
    """Return the types that a specification names for the parameters, and the one of the result."""
    said = next((n for n in node.find_all(kind="binary_operator") if any(c.kind() == "::" for c in n.children())), None)
    if said is None:
        return [], ""
    listed = next((c for c in said.children()[0].children() if c.kind() == "arguments"), None)
    given = [flat(c.text()) for c in listed.children() if c.is_named()] if listed is not None else []
    return given, flat(said.children()[-1].text())


def attribute(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """Attributes are constants; those of the language declare types and what a module must have."""
    match = re.match(r"@([a-z_]\w*) ", node.text())
    if match and match[1] in {"type", "typep", "opaque"}:
        name, _, written = flat(node.text()).partition(" ")[2].partition(" :: ")
        shown = "" if match[1] == "opaque" else f" {written}" if written.startswith(":") else written  # an atom is no scope
        drawing.add(node, around, "type", name.partition("(")[0], exported=match[1] != "typep", returns=shown)
    elif match and match[1] in {"callback", "macrocallback"}:
        typed, returns = _spec(node)
        name = re.split(r"[(\s]", flat(node.text()).partition(" ")[2])[0]
        parameters = tuple(Parameter(*(kind.partition(" :: ")[::2] if " :: " in kind else ("", kind))) for kind in typed)
        drawing.add(node, around, "function", name, exported=True, parameters=parameters, returns=returns)
        drawing.symbols[-1] = drawing.symbols[-1]._replace(decorators=(match[1],))
    elif match and match[1] not in _ATTRIBUTES_OF_CODE:
        drawing.add(node, around, "value", match[1], exported=False)
    return True
