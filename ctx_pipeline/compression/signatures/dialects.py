"""What single languages declare in a way of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression.signatures.fields import fields_of
from ctx_pipeline.compression.signatures.parts import (
    FUNCTIONS,
    first_line,
    flat,
    inferred,
    name_of,
    parameters_of,
    returned_by,
)
from ctx_pipeline.compression.signatures.symbols import Parameter, Symbol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ast_grep_py import SgNode

    from ctx_pipeline.compression.signatures.drawing import Drawing


class Around(NamedTuple):
    """Where a declaration stands."""

    level: int
    """how many declarations it stands in"""
    said: SgNode
    """what carries its documentation"""
    shown: bool
    """others can reach what it stands in"""


_HOLDS = {"defmodule": "module", "defprotocol": "interface", "defimpl": "implementation"}
_DEFINES = {"def": True, "defmacro": True, "defp": False, "defmacrop": False, "defguard": True, "defguardp": False, "defdelegate": True}
_ATTRIBUTES_OF_CODE = frozenset(
    ["moduledoc", "doc", "typedoc", "spec", "type", "typep", "opaque", "callback", "impl", "behaviour", "derive"]
)


def _javascript_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """``module.exports`` and ``exports.name`` say what is exported; ``A.prototype.b`` may be given a function; others declare nothing."""
    if node.kind() != "assignment_expression":
        return False
    left, right = node.field("left"), node.field("right")
    if left is None or right is None or around.level:
        return True
    name = left.text()
    if right.kind() == "class" and re.fullmatch(r"[\w$]+(?:\.[\w$]+)*", name) and not name.startswith("this."):
        exported = name.startswith(("exports.", "module.exports"))
        short = name.rpartition(".")[2] if exported and name != "module.exports" else name
        drawing.named_class(node, right, around, name_of(right) or name if name == "module.exports" else short, exported=exported)
    elif name == "module.exports":
        found = [c.text() for c in right.children() if c.kind() == "shorthand_property_identifier"] or [right.text()]
        names = [one for one in found if re.fullmatch(r"[\w$]{1,100}", one)]
        if right.kind() == "object":
            drawing.object(right, shown=True)
        drawing.named_exports.update(names)
        drawing.exports += names
    elif name.startswith(("exports.", "module.exports.")):
        short, function = name.rpartition(".")[2], right.kind() in FUNCTIONS
        parameters = parameters_of(right, drawing.grammar) if function else None
        kind = "function" if function else "value"
        drawing.add(node, around, kind, short, exported=True, parameters=parameters, returns=inferred(right))
        if right.kind() == "object":
            drawing.object(right, shown=True)
    elif re.fullmatch(r"[\w$]+(?:\.[\w$]+)+", name) and not name.startswith("this."):
        if right.kind() in FUNCTIONS:
            drawing.add(node, around, "function", name, exported=False, parameters=parameters_of(right, drawing.grammar))
        elif right.kind() == "object" and any(
            c.kind() == "method_definition" or c.find(kind="function_expression") for c in right.children()
        ):
            drawing.add(node, around, "value", name, exported=False)
            drawing.object(right, shown=False)
    return True


def _c_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A declaration with a list of parameters is a function; a macro has a name and a value."""
    if node.kind() == "preproc_def":
        value = node.field("value")
        text = value.text().strip() if value is not None else ""
        kind = "number" if re.match(r"-?\d", text) else "string" if text.startswith('"') else ""
        drawing.add(node, around, "value", name_of(node), exported=True, returns=kind)
        return True
    if drawing.callable(node).kind() != "function_declarator" or _is_pointer(drawing.callable(node)):
        declarator = node.field("declarator")
        held = node.field("type")
        if held is not None and held.kind() in drawing.grammar.declares and held.field("body") is not None:
            drawing.declare(held, drawing.grammar.declares[held.kind()], around)
        if around.level and (declarator is None or "const" not in drawing.before_name(node, around.said)):
            drawing.field(node, around)
            return True
        return declarator is None
    drawing.declare(node, "function", around)
    return True


def _is_pointer(declarator: SgNode) -> bool:
    """Tell whether a declarator makes a pointer to a function, such as ``(*read)(int)``."""
    inner = declarator.field("declarator")
    return inner is not None and inner.kind() == "parenthesized_declarator" and "*" in inner.text()


def _c_type(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A type that is defined together with its name has its fields."""
    held, name = node.field("type"), name_of(node)
    if node.kind() != "type_definition" or held is None or held.field("body") is None or held.kind() not in drawing.grammar.declares:
        return False
    kind = drawing.grammar.declares[held.kind()]
    own = name_of(held)
    if own and own != name:
        drawing.declare(held, kind, around)
        drawing.add(node, around, "type", name, exported=True, returns=own)
        return True
    drawing.add(node, around, kind, name, exported=True)
    body = held.field("body")
    drawing.members([body] if body is not None else [], around.level + 1, shown=True, always=False)
    return True


def _c_class(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A struct or an enum without a name gives its members to what it stands in."""
    body = node.field("body")
    if body is None or name_of(node):
        return body is None
    if node.kind() == "enum_specifier":
        drawing.add(node, around, "enum", "(unnamed)", exported=True)
        drawing.members([body], around.level + 1, shown=True, always=False)
    elif around.level:
        drawing.walk(body.children(), around.level, shown=around.shown)
    return True


def _css_rule(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A rule is named by its selectors or its condition; those inside a condition stand below it."""
    name = " ".join(node.text().partition("{")[0].rstrip(" ;").split())[:300]
    drawing.add(node, around, "rule", name, exported=True)
    drawing.members([c for c in node.children() if c.kind() == "block"], around.level + 1, shown=True, always=False)
    return True


def _css_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """Custom properties are the variables of a style sheet."""
    name, _, value = node.text().partition(":")
    if name.strip().startswith("--"):
        drawing.add(node, around, "value", name.strip(), exported=True, returns=flat(value.rstrip(";")).strip()[:60])
    return True


def _hcl_block(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A block of the top is named by its kind and its labels."""
    if not around.level:
        words = [c.text().strip('"') for c in node.children() if c.kind() in {"identifier", "string_lit"}]
        drawing.add(node, around, "block", flat(" ".join(words)), exported=True)
    return True


def _nix_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A name that is bound; one that is bound to a function is a function."""
    name, value = flat((node.field("attrpath") or node.children()[0]).text()), node.field("expression") or node.children()[-2]
    taken: list[Parameter] = []
    held: SgNode | None = value
    while held is not None and held.kind() == "function_expression":
        first = next((c for c in held.children() if c.is_named()), None)
        if first is not None and first.kind() == "formals":
            formals = [c for c in first.children() if c.kind() == "formal"]
            taken += [Parameter(flat(c.text().partition("?")[0]).strip(), "", "?" in c.text()) for c in formals]
        elif first is not None:
            taken.append(Parameter(flat(first.text())))
        held = held.field("body")
    kind = "function" if taken else "value"
    drawing.add(node, around, kind, name, exported=True, parameters=tuple(taken) or None, returns="" if taken else inferred(value))
    if around.level < _NIX_DEEPEST and not taken:
        drawing.walk(value.children(), around.level + 1, shown=True)
    return True


_NIX_DEEPEST = 2
"""Sets inside each other whose names are told."""


def _solidity_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """What creates a contract, and what answers without a name, are functions named by their words."""
    if node.kind() not in {"constructor_definition", "fallback_receive_definition"}:
        return False
    word = re.match(r"\w+", node.text())
    parameters = parameters_of(node, drawing.grammar)
    drawing.add(node, around, "function", word[0] if word else "fallback", exported=True, parameters=parameters)
    return True


def _python_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """What a class of constants holds are its members."""
    owner = next((s for s in reversed(drawing.symbols) if s.level < around.level), None) if around.level else None
    if owner is not None and re.search(r"Enum|Flag", owner.returns):
        drawing.hold([name_of(node)], around.level)
        return True
    return False


def _lua_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """Several names of one assignment are values each."""
    held = node if node.kind() == "assignment_statement" else next((c for c in node.children() if c.kind() == "assignment_statement"), None)
    names = next((c for c in held.children() if c.kind() == "variable_list"), None) if held is not None else None
    several = [c.text() for c in names.children() if c.kind() == "identifier"] if names is not None else []
    if len(several) > 1:
        for name in several:
            drawing.add(node, around, "value", name, exported=not node.text().startswith("local"))
    return len(several) > 1


def _zig_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A set of errors has its names as members."""
    value = next((c for c in reversed(node.children()) if c.is_named()), None)
    if value is None or value.kind() != "error_set_declaration":
        return False
    drawing.add(node, around, "enum", name_of(node), exported=node.text().startswith("pub"))
    drawing.fields[len(drawing.symbols) - 1] = [c.text() for c in value.children() if c.kind() == "identifier"]
    return True


def _haskell_field(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A constructor comes with what it takes."""
    drawing.fields.setdefault(len(drawing.symbols) - 1, []).extend(fields_of(node, "haskell"))
    return bool(around)


def _haskell_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A signature names the types that go in and the one that comes out."""
    declared = node.field("type")
    text = flat(declared.text()) if declared is not None else ""
    kinds = re.split(r"\s*->\s*(?![^(]*\))", text.rpartition("=>")[2].strip())
    parameters = tuple(Parameter("", kind) for kind in kinds[:-1])
    kind = "function" if parameters else "value"
    several = next((c for c in node.children() if c.kind() == "binding_list"), None)
    names = [flat(c.text()) for c in several.children() if c.is_named()] if several is not None else [name_of(node)]
    for name in names:
        drawing.add(node, around, kind, name, exported=True, parameters=parameters or None, returns=kinds[-1])
    return True


def _elixir_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """``defmodule``, ``def`` and their kin are calls."""
    target = node.field("target") or next((c for c in node.children() if c.kind() == "identifier"), None)
    word = target.text() if target is not None else ""
    held = next((c for c in node.children() if c.kind() == "arguments"), None)
    if word in _HOLDS and held is not None:
        drawing.add(node, around, _HOLDS[word], flat(re.sub(r", for: *", " for ", held.text())), exported=True)
        bodies = [c for c in node.children() if c.kind() == "do_block"]
        drawing.members(bodies, around.level + 1, shown=True, always=False)
    elif word == "defstruct" and held is not None and drawing.symbols and around.level:
        fields = re.findall(r"(?<![\w:]):(\w+)|\b(\w+):(?=\s)", flat(held.text()))
        drawing.hold([atom or key for atom, key in fields], around.level)
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
    if kind in {"interface", "class"} and held is not None:
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
    ("c", "class"): _c_class,
    ("c", "enum"): _c_class,
    ("c", "type"): _c_type,
    ("c", "value"): _c_value,
    ("cpp", "class"): _c_class,
    ("cpp", "enum"): _c_class,
    ("cpp", "type"): _c_type,
    ("cpp", "value"): _c_value,
    ("css", "rule"): _css_rule,
    ("css", "value"): _css_value,
    ("elixir", "function"): _elixir_function,
    ("elixir", "value"): _elixir_value,
    ("go", "function"): _go_function,
    ("go", "type"): _go_type,
    ("go", "value"): _go_value,
    ("haskell", "field"): _haskell_field,
    ("haskell", "function"): _haskell_function,
    ("hcl", "block"): _hcl_block,
    ("javascript", "value"): _javascript_value,
    ("lua", "value"): _lua_value,
    ("nix", "value"): _nix_value,
    ("python", "value"): _python_value,
    ("solidity", "function"): _solidity_function,
    ("tsx", "value"): _javascript_value,
    ("typescript", "value"): _javascript_value,
    ("zig", "value"): _zig_value,
}
"""(language, kind of symbol) -> what adds it; it answers False where the usual way will do."""
