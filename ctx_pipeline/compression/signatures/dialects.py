"""What single languages declare in a way of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression.signatures.parts import first_line, flat, inferred, name_of, parameters_of, returned_by
from ctx_pipeline.compression.signatures.symbols import Parameter, Symbol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ast_grep_py import SgNode

    from ctx_pipeline.compression.signatures.drawing import Drawing

FUNCTIONS = frozenset({"arrow_function", "function_expression", "function", "function_definition", "generator_function"})
"""Values that are functions."""


class Around(NamedTuple):
    """Where a declaration stands."""

    level: int
    """how many declarations it stands in"""
    said: SgNode
    """what carries its documentation"""
    shown: bool
    """others can reach what it stands in"""


_DEFINES = {"def": True, "defmacro": True, "defp": False, "defmacrop": False, "defguard": True, "defdelegate": True}
_ATTRIBUTES_OF_CODE = frozenset(
    ["moduledoc", "doc", "typedoc", "spec", "type", "typep", "opaque", "callback", "impl", "behaviour", "derive"]
)


def _javascript_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """``module.exports`` and ``exports.name`` say what is exported; other assignments declare nothing."""
    if node.kind() != "assignment_expression":
        return False
    left, right = node.field("left"), node.field("right")
    if left is None or right is None or around.level:
        return True
    name = left.text()
    if name == "module.exports":
        found = [c.text() for c in right.children() if c.kind() == "shorthand_property_identifier"] or [right.text()]
        names = [one for one in found if re.fullmatch(r"[\w$]{1,100}", one)]
        drawing.named_exports.update(names)
        drawing.exports += names
    elif name.startswith(("exports.", "module.exports.")):
        short, function = name.rpartition(".")[2], right.kind() in FUNCTIONS
        parameters = parameters_of(right, drawing.grammar) if function else None
        kind = "function" if function else "value"
        drawing.add(node, around, kind, short, exported=True, parameters=parameters, returns=inferred(right))
    return True


def _c_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A declaration with a list of parameters is a function; a macro has a name and a value."""
    if node.kind() == "preproc_def":
        value = node.field("value")
        text = value.text().strip() if value is not None else ""
        kind = "number" if re.match(r"-?\d", text) else "string" if text.startswith('"') else ""
        drawing.add(node, around, "value", name_of(node), exported=True, returns=kind)
        return True
    if drawing.callable(node).kind() != "function_declarator":
        declarator = node.field("declarator")
        return declarator is None or (bool(around.level) and "const" not in drawing.before_name(node, around.said))
    drawing.declare(node, "function", around)
    return True


def _haskell_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A signature names the types that go in and the one that comes out."""
    declared = node.field("type")
    text = flat(declared.text()) if declared is not None else ""
    kinds = re.split(r"\s*->\s*(?![^(]*\))", text.rpartition("=>")[2].strip())
    parameters = tuple(Parameter("", kind) for kind in kinds[:-1])
    kind = "function" if parameters else "value"
    drawing.add(node, around, kind, name_of(node), exported=True, parameters=parameters or None, returns=kinds[-1])
    return True


def _elixir_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """``defmodule``, ``def`` and their kin are calls."""
    target = node.field("target") or next((c for c in node.children() if c.kind() == "identifier"), None)
    word = target.text() if target is not None else ""
    held = next((c for c in node.children() if c.kind() == "arguments"), None)
    if word == "defmodule" and held is not None:
        drawing.add(node, around, "module", flat(held.text()), exported=True)
        bodies = [c for c in node.children() if c.kind() == "do_block"]
        drawing.members(bodies, around.level + 1, shown=True, always=False)
    elif word in _DEFINES and held is not None:
        call = flat(held.text()).partition(" when ")[0].partition(", do:")[0]
        name, _, rest = call.partition("(")
        listed = [c for c in re.split(r",\s*(?![^(\[{]*[)\]}])", rest.rstrip(")")) if c]
        parameters = tuple(Parameter(c.partition("\\\\")[0].strip(), "", "\\\\" in c) for c in listed)
        doc, above = "", node.prev()
        while above is not None and above.kind() == "unary_operator":
            if match := re.match(r"@doc\s+(?:\"\"\"|\")(.*)", above.text(), re.DOTALL):
                doc = first_line(match[1].rstrip('"'))
            above = above.prev()
        place = node.range()
        drawing.symbols.append(
            Symbol("function", name, _DEFINES[word], around.level, place.start.line + 1, place.end.line + 1, parameters, doc=doc)
        )
    else:
        drawing.calls(node)
    return True


def _elixir_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    match = re.match(r"@([a-z_]\w*) ", node.text())
    if match and match[1] not in _ATTRIBUTES_OF_CODE:
        drawing.add(node, around, "value", match[1], exported=False)
    return True


def _go_type(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A struct is a class, and an interface has methods."""
    held, name = node.field("type"), name_of(node)
    form = held.kind() if held is not None else ""
    kind = {"struct_type": "class", "interface_type": "interface"}.get(form, "type")
    above = node.parent()
    outer = above if above is not None and above.kind() == "type_declaration" else around.said
    returns = flat(held.text()) if held is not None and kind == "type" else ""
    drawing.add(node, around._replace(said=outer), kind, name, exported=name[:1].isupper(), returns=returns)
    if kind == "interface" and held is not None:
        drawing.walk(held.children(), around.level + 1, shown=True)
    return True


def _go_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    above, value = node.parent(), node.field("value")
    outer = above if above is not None and above.kind().endswith("_declaration") else around.said
    written = node.field("type")
    for name in [c.text() for c in node.field_children("name")] or [name_of(node)]:
        if re.fullmatch(r"\w+", name) and name != "_":
            kind = flat(written.text()) if written else inferred(value)
            drawing.add(node, around._replace(said=outer), "value", name, exported=name[:1].isupper(), returns=kind)
    return True


def _go_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    receiver = node.field("receiver")
    if receiver is None:
        return False
    name = name_of(node)
    owner = re.sub(r"^\(\w+ |[()*]|\[.*\]", "", flat(receiver.text()))
    parameters = parameters_of(node, drawing.grammar)
    returns = returned_by(node)
    drawing.add(node, around, "function", f"{owner}.{name}", exported=name[:1].isupper(), parameters=parameters, returns=returns)
    return True


DIALECTS: dict[tuple[str, str], Callable[[Drawing, SgNode, Around], bool]] = {
    ("c", "value"): _c_value,
    ("cpp", "value"): _c_value,
    ("elixir", "function"): _elixir_function,
    ("elixir", "value"): _elixir_value,
    ("go", "function"): _go_function,
    ("go", "type"): _go_type,
    ("go", "value"): _go_value,
    ("haskell", "function"): _haskell_function,
    ("javascript", "value"): _javascript_value,
    ("tsx", "value"): _javascript_value,
    ("typescript", "value"): _javascript_value,
}
"""(language, kind of symbol) -> what adds it; it answers False where the usual way will do."""
