"""What single languages declare in a way of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures import bash, elixir, haskell
from ctx_pipeline.compression.signatures.fields import fields_of
from ctx_pipeline.compression.signatures.modifiers import decorators_of
from ctx_pipeline.compression.signatures.parts import (
    FUNCTIONS,
    first_line,
    flat,
    function_of,
    inferred,
    name_of,
    parameter,
    parameters_of,
    returned_by,
)
from ctx_pipeline.compression.signatures.symbols import NEXT_LIST, Parameter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ast_grep_py import SgNode

    from ctx_pipeline.compression.signatures.drawing import Drawing
    from ctx_pipeline.compression.signatures.parts import Around


_EXPORTS = frozenset({"module.exports", "exports"})
_EXPORTED = ("exports.", "module.exports")
_MOST_OF_A_ROW = 50
"""Names of ``exports.a = exports.b = ...`` that are told: compilers write so many in a row. Each takes time with its place in the row."""


def _javascript_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """``module.exports`` and ``exports.name`` say what is exported; ``A.prototype.b`` may be given a function; others declare nothing."""
    if node.kind() != "assignment_expression" or around.level:
        return node.kind() == "assignment_expression"
    row, right, length = [node], node.field("right"), 1
    while right is not None and right.kind() == "assignment_expression":
        length += 1
        if length <= _MOST_OF_A_ROW:
            row.append(right)
        right = right.field("right")
    named = {left.text(): one for one in row if (left := one.field("left")) is not None}
    if "module.exports" in named:
        named.pop("exports", None)  # the same object
    if right is None:
        return True
    names = [*reversed(named)]
    exported = {name for name in names if name.startswith(_EXPORTED)}
    members = length <= _MOST_OF_A_ROW
    for name in sorted(names, key=exported.__contains__):
        first, theirs = len(drawing.symbols), members and (name in exported or not exported)
        _given_a_name(drawing, named[name], name, right, around, with_members=theirs)
        members = members and not (theirs and len(drawing.symbols) > first)
        drawing.once(first)
    return True


def _given_a_name(drawing: Drawing, node: SgNode, name: str, right: SgNode, around: Around, *, with_members: bool) -> None:
    """Add what a script gives to a name, where that declares or exports something; the members of it for one name of a row."""
    if right.kind() == "class" and re.fullmatch(r"[\w$]+(?:\.[\w$]+)*", name) and not name.startswith("this."):
        exported = name.startswith(_EXPORTED)
        short = name.rpartition(".")[2] if exported and name != "module.exports" else name
        own = name_of(right) or name if name == "module.exports" else short
        drawing.named_class(node, right, around, own, exported=exported, with_members=with_members)
    elif name in _EXPORTS and right.kind() in FUNCTIONS:
        taken, is_async, named = parameters_of(right, drawing.grammar), right.text().startswith("async"), right.field("name")
        own = named.text() if named is not None else "module.exports"
        drawing.add(node, around, "function", own, exported=True, parameters=taken, asynchronous=is_async)
    elif name == "module.exports":
        found = [c.text() for c in right.children() if c.kind() == "shorthand_property_identifier"] or [right.text()]
        names = [one for one in found if re.fullmatch(r"[\w$]{1,100}", one)]
        if right.kind() == "object" and with_members:
            drawing.object(right, shown=True)
        drawing.named_exports.update(names)
        drawing.exports += names
    elif name.startswith(("exports.", "module.exports.")):
        short, function = name.rpartition(".")[2], right.kind() in FUNCTIONS
        if right.text() in {short, "void 0", "undefined"}:
            drawing.only_exported(short)
        parameters = parameters_of(right, drawing.grammar) if function else None
        kind = "function" if function else "value"
        drawing.add(node, around, kind, short, exported=True, parameters=parameters, returns=inferred(right))
        if right.kind() == "object" and with_members:
            drawing.object(right, shown=True)
    elif re.fullmatch(r"[\w$]+(?:\.[\w$]+)+", name) and not name.startswith("this."):
        if right.kind() in FUNCTIONS:
            drawing.add(node, around, "function", name, exported=False, parameters=parameters_of(right, drawing.grammar))
        elif right.kind() == "object" and any(
            c.kind() == "method_definition" or c.find(kind="function_expression") for c in right.children()
        ):
            drawing.add(node, around, "value", name, exported=False)
            if with_members:
                drawing.object(right, shown=False)


def _c_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A declaration with a list of parameters is a function; a macro has a name and a value."""
    if node.kind() == "preproc_def":
        value = node.field("value")
        text = value.text().strip() if value is not None else ""
        kind = "number" if re.match(r"-?\d", text) else "string" if text.startswith('"') else ""
        drawing.add(node, around, "value", name_of(node), exported=True, returns=kind)
        return True
    function = function_of(node)
    declarator = node.field("declarator")
    converts = declarator is not None and declarator.kind() == "operator_cast"
    if not converts and (function.kind() != "function_declarator" or _is_pointer(function)):
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
    held, name, made = node.field("type"), name_of(node), node.field("declarator")
    if node.kind() == "type_definition" and held is not None and made is not None and made.kind() == "function_declarator":
        taken = re.sub(rf"\b{re.escape(name)}\b", "", flat(made.text()), count=1)
        drawing.add(node, around, "type", name, exported=True, returns=f"{flat(held.text())} {taken}")
        return True
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
    """A block of the top is named by its kind and its labels, and comes with what tells how it is used."""
    if around.level:
        return True
    words = [c.text().strip('"') for c in node.children() if c.kind() in {"identifier", "string_lit"}]
    given = _hcl_attributes(node)
    returns = flat(given.get("source", "")).strip('"') if words[0] == "module" else ""
    if words[0] == "variable":
        kind, default = flat(given.get("type", "any")), flat(given.get("default", ""))
        told = len(default) <= _LONGEST_DEFAULT and given.get("sensitive", "false") == "false"
        returns = f"{kind} = {default if told else '...'}" if default else kind
    drawing.add(node, around, "block", flat(" ".join(words)), exported=True, returns=returns)
    if words[0] == "locals":
        drawing.fields[len(drawing.symbols) - 1] = list(given)
    last, said = drawing.symbols[-1], given.get("description", "")
    marks = tuple(mark for mark in ("count", "for_each", "sensitive") if given.get(mark, "false") != "false")
    drawing.symbols[-1] = last._replace(doc=first_line(said.strip('"')) or last.doc, decorators=marks)
    return True


_LONGEST_DEFAULT = 40
"""characters of the default of a variable that is told"""


def _hcl_attributes(node: SgNode) -> dict[str, str]:
    """Return what a block sets at its top, as written."""
    body = next((c for c in node.children() if c.kind() == "body"), None)
    set_ = [c.text().partition("=") for c in body.children() if c.kind() == "attribute"] if body is not None else []
    return {name.strip(): value.strip() for name, _, value in set_}


def _nix_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A name that is bound; one that is bound to a function is a function."""
    name, value = flat((node.field("attrpath") or node.children()[0]).text()), node.field("expression") or node.children()[-2]
    taken = _nix_taken(value)
    kind = "function" if taken else "value"
    shown, returns = around.shown, "" if taken else inferred(value)
    drawing.add(node, around, kind, name, exported=shown, parameters=tuple(taken) or None, returns=returns)
    if around.level < _NIX_DEEPEST and not taken:
        drawing.walk(value.children(), around.level + 1, shown=shown)
    return True


def _nix_taken(value: SgNode) -> list[Parameter]:
    """Return what a function takes, and those that it gives back; what is taken out of a set is given by name."""
    taken: list[Parameter] = []
    held: SgNode | None = value
    while held is not None and held.kind() == "function_expression":
        named = [c for c in held.children() if c.is_named()]
        first = next((c for c in named[:2] if c.kind() == "formals"), named[0] if named else None)
        if taken and first is not None and (first.kind() == "formals" or Parameter("*") in taken):
            taken.append(NEXT_LIST)
        if first is not None and first.kind() == "formals":
            taken.append(Parameter("*"))
            formals = [c for c in first.children() if c.kind() in {"formal", "ellipses"}]
            taken += [Parameter(flat(c.text().partition("?")[0]).strip(), "", "?" in c.text()) for c in formals]
        elif first is not None:
            taken.append(Parameter(flat(first.text())))
        held = held.field("body")
    return taken


def _nix_file(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A file that is a function is called by who imports it."""
    above = node.parent()
    if above is not None and above.kind() == "source_code":
        drawing.add(node, around, "function", "import", exported=True, parameters=tuple(_nix_taken(node)))
    drawing.walk(node.children(), around.level, shown=around.shown)
    return True


_NIX_DEEPEST = 2
"""Sets inside each other whose names are told."""


def _solidity_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """What creates a contract, and what answers without a name, are functions named by their words; who sees one stands behind its name."""
    nameless = node.kind() in {"constructor_definition", "fallback_receive_definition"}
    word = re.match(r"\w+", node.text())
    name = (word[0] if word else "fallback") if nameless else name_of(node)
    shown, parameters = _solidity_shown(node), parameters_of(node, drawing.grammar)
    drawing.add(node, around, "function", name, exported=shown, parameters=parameters, returns=returned_by(node))
    return True


def _solidity_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A public variable of a contract is read by a call of its name."""
    if not around.level or "constant" in drawing.before_name(node, around.said).split():
        return False
    fields = fields_of(node, "solidity")
    if not any(c.kind() == "visibility" and c.text() == "public" for c in node.children()):
        return drawing.hold(fields, around.level)
    for one in fields:
        name, _, written = one.partition(":")
        drawing.add(node, around, "property", name, exported=True, returns=written)
    return True


def _solidity_shown(node: SgNode) -> bool:
    """Tell whether others may call a function: an internal one is called by the contracts that use its library."""
    said = next((c.text() for c in node.children() if c.kind() == "visibility"), "public")
    library = any(a.kind() == "library_declaration" for a in node.ancestors())
    return said != "private" and (said != "internal" or library)


def _python_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """What a class of constants holds are its members."""
    owner = next((s for s in reversed(drawing.symbols) if s.level < around.level), None) if around.level else None
    if owner is not None and re.search(r"Enum|Flag", owner.returns):
        drawing.hold([name_of(node)], around.level)
        return True
    return False


def _php_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A constructor makes public properties of some of its parameters."""
    listed = node.field("parameters")
    for one in listed.children() if listed is not None else ():
        if one.kind() == "property_promotion_parameter" and re.match(r"(?:readonly )?public\b", one.text()):
            drawing.hold([f"{p.name}:{p.type}" if p.type else p.name for p in parameter(flat(one.text()), "type")], around.level)
    return False


def _lua_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """Several names of one assignment are values each; in a block those alone are told that are given a function."""
    if (block := node.parent()) is not None and block.kind() == "block" and node.find(kind="function_definition") is None:
        return True
    held = node if node.kind() == "assignment_statement" else next((c for c in node.children() if c.kind() == "assignment_statement"), None)
    names = next((c for c in held.children() if c.kind() == "variable_list"), None) if held is not None else None
    several = [c.text() for c in names.children() if c.kind() == "identifier"] if names is not None else []
    if len(several) > 1:
        for name in several:
            drawing.add(node, around, "value", name, exported=not node.text().startswith("local"))
    if node.kind() == "return_statement":
        tables = [t for c in node.children() for t in c.children() if t.kind() == "table_constructor"]
        for one in tables:
            drawing.table(one, "", around, shown=True)
    return len(several) > 1 or node.kind() == "return_statement"


def _zig_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A function that gives back a type has the members of that type."""
    body = next((c for c in node.children() if c.kind() == "block"), None)
    back = [c for s in body.children() for c in s.children() if c.kind() == "return_expression"] if body is not None else []
    made = next(
        (t for c in back for t in c.children() if t.kind() in {"struct_declaration", "union_declaration", "enum_declaration"}), None
    )
    if made is None:
        return False
    name, words = name_of(node), drawing.before_name(node, around.said)
    exported, parameters = drawing.is_exported(name, words, around.level, shown=around.shown), parameters_of(node, drawing.grammar)
    drawing.add(node, around, "function", name, exported=exported, parameters=parameters, returns="type")
    drawing.members([made], around.level + 1, shown=exported, always=False)
    return True


def _zig_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A set of errors has its names as members."""
    value = next((c for c in reversed(node.children()) if c.is_named()), None)
    if value is None or value.kind() != "error_set_declaration":
        return False
    drawing.add(node, around, "enum", name_of(node), exported=node.text().startswith("pub"))
    drawing.fields[len(drawing.symbols) - 1] = [c.text() for c in value.children() if c.kind() == "identifier"]
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


def _kotlin_function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A function that stands outside of the type that it extends is named with it."""
    receiver = next((c for c in node.children() if c.kind() == "receiver_type"), None)
    if receiver is None:
        return False
    name = f"{receiver_name(receiver)}.{name_of(node)}"
    words = drawing.before_name(node, around.said)
    drawing.add(
        node,
        around,
        "function",
        name,
        exported=drawing.is_exported(name, words, around.level, shown=around.shown),
        parameters=parameters_of(node, drawing.grammar),
        returns=returned_by(node),
        asynchronous="suspend" in words.split(),
    )
    return True


def receiver_name(node: SgNode) -> str:
    """Return the type that a function is added to, without what it is generic over."""
    return flat(re.sub(r"<.*>", "", node.text())).strip("().? ")


def _rust_macro(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A macro is called by its name with a mark, and takes what it matches."""
    if node.kind() != "macro_definition":
        return False
    drawing.add(node, around, "function", f"{name_of(node)}!", exported="macro_export" in "".join(decorators_of(node, node)))
    return True


def _scala_value(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A given has a name or is known by its type alone."""
    if node.kind() != "given_definition":
        return False
    head = flat(re.split(r"\bwith\b|=|\n", node.text(), maxsplit=1)[0]).removeprefix("given ").rstrip(": ")
    name, _, written = head.rpartition(": ")
    drawing.add(node, around, "value", name or f"given {written}", exported=True, returns=written if name else "")
    return True


def _scala_extension(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """What is added to a type stands below it."""
    taken = parameters_of(node, drawing.grammar) or (Parameter(""),)
    drawing.add(node, around, "implementation", taken[0].type, exported=True)
    drawing.walk((c for c in node.children() if c.kind() == "function_definition"), around.level + 1, shown=True)
    return True


def _dart_class(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A type around another one is made from what it holds."""
    if node.kind() != "extension_type_declaration":
        return False
    held = {c.kind(): c for c in node.children()}
    name = flat(held["extension_type_name"].text()) if "extension_type_name" in held else ""
    represented = held.get("extension_type_representation")
    kind, _, field = flat(represented.text()).strip("()").rpartition(" ") if represented is not None else ("", "", "")
    drawing.add(node, around, "class", name.partition(".")[0], exported=not name.startswith("_"), parameters=(Parameter(field, kind),))
    drawing.members([held["class_body"]] if "class_body" in held else [], around.level + 1, shown=True, always=False)
    return True


def _dart_type(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """An alias of the older form has the name inside the type."""
    listed = next((c for c in node.children() if c.kind() == "formal_parameter_list"), None)
    if listed is None:
        return False
    result = next((flat(c.text()) for c in node.children() if c.kind() in {"type", "void_type"}), "void")
    name = name_of(node)
    drawing.add(node, around, "type", name, exported=not name.startswith("_"), returns=f"{result} Function{flat(listed.text())}")
    return True


DIALECTS: dict[tuple[str, str], Callable[[Drawing, SgNode, Around], bool]] = {
    ("bash", "function"): bash.function,
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
    ("dart", "class"): _dart_class,
    ("dart", "type"): _dart_type,
    ("elixir", "function"): elixir.function,
    ("elixir", "value"): elixir.attribute,
    ("go", "function"): _go_function,
    ("go", "type"): _go_type,
    ("go", "value"): _go_value,
    ("haskell", "class"): haskell.type_,
    ("haskell", "field"): haskell.constructor,
    ("haskell", "function"): haskell.function,
    ("haskell", "implementation"): haskell.instance,
    ("haskell", "interface"): haskell.type_,
    ("haskell", "type"): haskell.type_,
    ("hcl", "block"): _hcl_block,
    ("javascript", "value"): _javascript_value,
    ("kotlin", "function"): _kotlin_function,
    ("lua", "value"): _lua_value,
    ("nix", "function"): _nix_file,
    ("nix", "value"): _nix_value,
    ("php", "function"): _php_function,
    ("python", "value"): _python_value,
    ("rust", "function"): _rust_macro,
    ("scala", "implementation"): _scala_extension,
    ("scala", "value"): _scala_value,
    ("solidity", "function"): _solidity_function,
    ("solidity", "value"): _solidity_value,
    ("tsx", "value"): _javascript_value,
    ("typescript", "value"): _javascript_value,
    ("zig", "function"): _zig_function,
    ("zig", "value"): _zig_value,
}
"""(language, kind of symbol) -> what adds it; it answers False where the usual way will do."""
