"""Signatures beside the tree of the parser: what real files declare, and how much of it the signatures tell.

``python -m ctx_pipeline_tests.bench.signature_recall FOLDER`` draws ten files of each language out of a folder (what
packages ship) and prints recall and precision by language. A declaration is told where a signature, or the list of
fields behind one, has its name, its kind and its line. What counts as a declaration is written here from the grammars
alone, by kinds of nodes and the path that leads to a name, and shares no code with the walk that draws signatures.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression.signatures.drawing import outline
from ctx_pipeline.compression.signatures.symbols import language_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ast_grep_py import SgNode

NIX_DEEPEST = 2
"""sets inside each other whose names count"""

SMALLEST, LARGEST, LONGEST_LINE = 800, 60_000, 400
"""bytes of a file that is drawn; a longer line stands in generated or packed ones"""


class View(NamedTuple):
    """Kinds of nodes that declare something, as ``parent>kind``, by what they declare; and those below which all is local."""

    calls: str
    types: str
    values: str = ""
    members: str = ""
    local: str = ""


_AT_THE_TOP = ("program>lexical_declaration", "export_statement>lexical_declaration", "program>variable_declaration")
_OBJECTS = ("object", "as_expression>object", "satisfies_expression>object", "as_expression>satisfies_expression>object")
_KEYS = ("pair", "shorthand_property_identifier")
_SCRIPT = View(
    "function_declaration generator_function_declaration function_signature method_definition method_signature abstract_method_signature"
    " variable_declarator=arrow_function variable_declarator=function_expression pair=arrow_function pair=function_expression"
    " program>expression_statement>assignment_expression=function_expression"
    " program>expression_statement>assignment_expression=arrow_function"
    " program>expression_statement>assignment_expression>assignment_expression=function_expression",
    "class_declaration abstract_class_declaration class interface_declaration type_alias_declaration enum_declaration internal_module",
    "program>lexical_declaration>variable_declarator program>variable_declaration>variable_declarator"
    " program>expression_statement>assignment_expression=~(module\\.)?exports\\.\\w"
    " ambient_declaration>variable_declaration>variable_declarator ambient_declaration>lexical_declaration>variable_declarator"
    " export_statement>lexical_declaration>variable_declarator internal_module>statement_block>lexical_declaration>variable_declarator",
    "public_field_definition field_definition interface_body>property_signature"
    " type_alias_declaration>object_type>property_signature enum_body>property_identifier enum_assignment"
    + "".join(f" {above}>variable_declarator>{held}>{key}" for above in _AT_THE_TOP for held in _OBJECTS for key in _KEYS),
    "arrow_function function_expression generator_function",
)

_SCRIPTS = frozenset({"javascript", "typescript", "tsx"})
_SAID_AGAIN = re.compile(r"^\s*(?:module\.)?exports\.([\w$]+) = (?:\1;?\s*$|(?:exports\.[\w$]+ = )*void 0;)")
"""Lines that say of names that they are exported, which are declared elsewhere."""

VIEWS = {
    "bash": View("function_definition", "", "declaration_command>variable_assignment program>variable_assignment"),
    "c": View(
        "function_definition preproc_function_def declaration=function_declarator",
        "struct_specifier=field_declaration_list union_specifier=field_declaration_list enum_specifier=enumerator_list type_definition",
        "preproc_def declaration",
        "field_declaration enumerator",
    ),
    "cpp": View(
        "function_definition preproc_function_def declaration=function_declarator field_declaration=function_declarator",
        "class_specifier=field_declaration_list struct_specifier=field_declaration_list union_specifier=field_declaration_list"
        " enum_specifier=enumerator_list type_definition alias_declaration namespace_definition",
        "preproc_def declaration",
        "field_declaration enumerator",
        "lambda_expression",
    ),
    "csharp": View(
        "method_declaration constructor_declaration delegate_declaration operator_declaration destructor_declaration indexer_declaration"
        " conversion_operator_declaration",
        "class_declaration struct_declaration record_declaration interface_declaration enum_declaration namespace_declaration",
        "",
        "field_declaration>variable_declaration>variable_declarator event_field_declaration>variable_declaration>variable_declarator"
        " property_declaration enum_member_declaration",
        "lambda_expression",
    ),
    "css": View("", "rule_set media_statement keyframes_statement supports_statement at_rule", "declaration=~--"),
    "dart": View(
        "function_signature constructor_signature constant_constructor_signature factory_constructor_signature operator_signature",
        "class_declaration mixin_declaration extension_declaration extension_type_declaration enum_declaration type_alias",
        "top_level_variable_declaration>static_final_declaration_list>static_final_declaration"
        " top_level_variable_declaration>initialized_identifier_list>initialized_identifier",
        "enum_constant declaration>initialized_identifier_list>initialized_identifier"
        " declaration>static_final_declaration_list>static_final_declaration getter_signature setter_signature",
        "function_body function_expression",
    ),
    "elixir": View(
        "call=~def(p|macro|macrop|guard|guardp|delegate)?\\s unary_operator=~@(macro)?callback\\s",
        "call=~def(module|protocol|impl)\\s unary_operator=~@(type|typep|opaque)\\s",
        "unary_operator=~@(?!(?:moduledoc|doc|typedoc|spec|type|typep|opaque|callback|impl|behaviour|derive)\\b)\\w+\\s",
        "call=~def(struct|exception)",
    ),
    "go": View(
        "function_declaration method_declaration method_elem method_spec",
        "type_spec type_alias",
        "const_spec var_spec",
        "type_spec>struct_type>field_declaration_list>field_declaration",
        "func_literal",
    ),
    "haskell": View(
        "signature",
        "data_type newtype class type_synonym type_family instance",
        "",
        "data_constructor newtype_constructor field_name gadt_constructor",
        "local_binds function bind instance_declarations",
    ),
    "hcl": View("", "config_file>body>block", members="config_file>body>block>body>attribute"),
    "java": View(
        "method_declaration constructor_declaration annotation_type_element_declaration compact_constructor_declaration",
        "class_declaration record_declaration interface_declaration annotation_type_declaration enum_declaration",
        "",
        "field_declaration>variable_declarator constant_declaration>variable_declarator enum_constant",
        "lambda_expression object_creation_expression",
    ),
    "javascript": _SCRIPT,
    "kotlin": View(
        "function_declaration secondary_constructor",
        "class_declaration object_declaration type_alias companion_object",
        "source_file>property_declaration",
        "property_declaration enum_entry",
        "lambda_literal anonymous_function object_literal enum_entry getter setter property_delegate anonymous_initializer",
    ),
    "lua": View(
        "function_declaration chunk>assignment_statement>expression_list>table_constructor>field=function_definition"
        " chunk>variable_declaration>assignment_statement>expression_list>table_constructor>field=function_definition"
        " chunk>return_statement>expression_list>table_constructor>field=function_definition",
        "",
        "chunk>variable_declaration>assignment_statement>variable_list chunk>assignment_statement>variable_list",
        local="function_definition",
    ),
    "nix": View("binding=function_expression source_code>function_expression=~.", "", "binding"),
    "php": View(
        "method_declaration function_definition",
        "class_declaration trait_declaration interface_declaration enum_declaration",
        "const_element",
        "property_element enum_case property_promotion_parameter=~(readonly\\s)?public",
        "anonymous_function arrow_function anonymous_class object_creation_expression",
    ),
    "python": View(
        "function_definition",
        "class_definition type_alias_statement",
        "module>expression_statement>assignment",
        "class_definition>block>expression_statement>assignment",
        "lambda",
    ),
    "ruby": View("method singleton_method", "class module", "assignment=~[A-Z]", "call=~attr_", "block do_block"),
    "rust": View(
        "function_item function_signature_item macro_definition",
        "struct_item union_item trait_item type_item associated_type enum_item impl_item mod_item",
        "const_item static_item",
        "struct_item>field_declaration_list>field_declaration struct_item>ordered_field_declaration_list"
        " union_item>field_declaration_list>field_declaration enum_variant",
        "closure_expression macro_invocation",
    ),
    "scala": View(
        "function_definition function_declaration",
        "class_definition object_definition trait_definition enum_definition type_definition package_object extension_definition",
        "given_definition",
        "val_definition var_definition val_declaration var_declaration simple_enum_case full_enum_case",
        "lambda_expression block case_block indented_block instance_expression",
    ),
    "solidity": View(
        "function_definition modifier_definition event_definition error_declaration constructor_definition fallback_receive_definition",
        "contract_declaration library_declaration struct_declaration interface_declaration enum_declaration user_defined_type_definition",
        "constant_variable_declaration",
        "state_variable_declaration struct_member enum_value",
    ),
    "swift": View(
        "function_declaration init_declaration protocol_function_declaration deinit_declaration subscript_declaration",
        "class_declaration protocol_declaration typealias_declaration associatedtype_declaration",
        "source_file>property_declaration",
        "property_declaration protocol_property_declaration enum_entry",
        "lambda_literal computed_property computed_getter statements",
    ),
    "typescript": _SCRIPT,
    "zig": View(
        "function_declaration",
        "variable_declaration=struct_declaration variable_declaration=enum_declaration variable_declaration=union_declaration"
        " variable_declaration=opaque_declaration variable_declaration=error_set_declaration",
        "variable_declaration",
        "variable_declaration>struct_declaration>container_field variable_declaration>enum_declaration>container_field"
        " variable_declaration>union_declaration>container_field source_file>container_field"
        " variable_declaration>error_set_declaration>identifier"
        " return_expression>struct_declaration>container_field",
        "test_declaration block comptime_declaration",
    ),
}
VIEWS["tsx"] = VIEWS["typescript"]

_BY_NAME = frozenset(
    [
        "identifier",
        "type_identifier",
        "field_identifier",
        "property_identifier",
        "private_property_identifier",
        "simple_identifier",
        "constant",
        "name",
        "word",
        "variable_name",
        "variable",
        "variable_list",
        "alias",
        "constructor",
        "operator_name",
        "destructor_name",
        "qualified_identifier",
        "module_id",
        "pattern",
        "attrpath",
        "dot_index_expression",
        "method_index_expression",
        "setter",
        "operator",
        "string",
        "namespace_identifier",
        "qualified_name",
        "nested_namespace_specifier",
    ]
)
_CHAIN = ("declarator", "name", "key", "left", "pattern")
_BY_KEYWORD = frozenset(
    ["init_declaration", "deinit_declaration", "subscript_declaration", "constructor_definition", "fallback_receive_definition"]
)
_PARAMETERS = frozenset(
    ["parameters", "formal_parameters", "parameter_list", "function_value_parameters", "method_parameters", "formal_parameter_list"]
)
_OWN = frozenset({"lua", "rust", "zig"})
"""languages in which a method takes its object as a parameter that is told"""
_COUNTED = frozenset(["python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp", "csharp", "php", "ruby", "lua", "zig"])
"""languages in which each entry of a list of parameters is one node"""


class Declared(NamedTuple):
    """One declaration of the tree."""

    group: str
    name: str
    line: int
    parameters: int | None


class Score(NamedTuple):
    """What was found in the files of a language."""

    files: int
    declared: int
    told: int
    drawn: int
    right: int
    calls: int
    calls_right: int
    missing: Counter[str]
    extra: Counter[str]


def _names(node: SgNode) -> list[SgNode]:
    """Return the nodes that hold the names that a declaration gives."""
    for field in _CHAIN:
        if held := node.field_children(field):
            return [deepest for one in held for deepest in ([one] if one.kind() in _BY_NAME else _names(one) or [one])]
    return [c for c in node.children() if c.kind() in _BY_NAME][:1]


def short(name: str) -> str:
    """Return the last part of a name, without type arguments."""
    if not re.search(r"\w", name):
        return name.strip("(*) ") or name
    if re.fullmatch(r"\[[\w$.]+\]", name):
        name = name[1:-1]
    if "operator" in name:
        return "".join(name.rpartition("::")[2].split())
    if gives_back_a_function := re.match(r"\([*&]+\s*(\w+)\s*\(", name):
        return gives_back_a_function[1]
    bare = name.rpartition(" for ")[2].partition("<")[0].partition("(")[0].strip("&*@#?!:\"' ")
    if re.fullmatch(r"\([^\w\s]+\)|\(\*\s*\w+\)", name):
        return name.strip("(*) ")
    bare = bare.removeprefix("var ").removeprefix("let ")
    return re.split(r"\.|::|:", bare)[-1].strip() or name.strip()


def _has(node: SgNode, kind: str) -> bool:
    below = node.field("declarator") or node.field("value") or node.field("right")
    if any(c.kind() == kind for c in node.children()):
        return True
    return below is not None and (below.kind() == kind or _has(below, kind))


def _fits(node: SgNode, rule: str) -> bool:
    path, _, inner = rule.partition("=")
    kinds = path.split(">")
    place: SgNode | None = node
    for kind in reversed(kinds):
        if place is None or place.kind() != kind:
            return False
        place = place.parent()
    if inner.startswith("~"):
        return re.match(inner[1:], node.text()) is not None
    return not inner or _has(node, inner)


def declarations(text: str, language: str) -> list[Declared]:
    """Return what a text declares outside of callables, by the tree alone."""
    from ast_grep_py import SgRoot

    view = VIEWS[language]
    groups = {"call": view.calls, "type": view.types, "value": view.values, "member": view.members}
    rules = [(group, rule) for group, told in groups.items() for rule in told.split()]
    local = ({rule.rpartition(">")[2] for rule in view.calls.split() if "=" not in rule} | set(view.local.split())) - {"signature"}
    found: list[Declared] = []
    held = [SgRoot(text, language).root()]
    imported = re.compile(r"[^=]*=\s*(?:require|@import)\s*\(")
    while held:
        node = held.pop()
        kind, above = node.kind(), node.parent()
        group = next((group for group, rule in rules if _fits(node, rule)), "") if node.is_named() else ""
        if language == "nix" and group and (sum(a.kind() == "binding" for a in node.ancestors()) > NIX_DEEPEST):
            group = ""
        if group and not (
            group == "value"
            and "assignment" not in kind
            and imported.match(above.text() if kind == "variable_list" and above is not None else node.text())
        ):
            found += _declared(node, group, language)
        inner = node.kind() in local or (language in {"elixir", "nix"} and group == "call" and kind != "function_expression")
        given = above is not None and above.kind() in {"arguments", "parenthesized_expression"} and language in _SCRIPTS
        if not inner or given:
            held.extend(reversed(node.children()))
        elif language == "zig" and kind == "function_declaration":
            held.extend(_made_by(node))
        elif kind == "method_declaration" and language == "php" and (taken := node.field("parameters")) is not None:
            held.extend(reversed(taken.children()))
    if language in _SCRIPTS:
        again = {one for one in found if one.group == "value" and _SAID_AGAIN.search(text.split("\n")[one.line - 1])}
        own = {one.name for one in found if one not in again}
        found = [one for one in found if one not in again or one.name not in own]
    return found


def _of_a_compiler(pair: SgNode) -> list[str] | None:
    """Return what a function of an object exports that a compiler wrote, none for a helper of its own; None for any other function."""
    calls = [a for a in pair.ancestors() if a.kind() == "call_expression"]
    called = calls[0].field("function") if calls else None
    if any(a.kind() == "variable_declarator" and re.match(r"__\w+ = \(?this && ", a.text()) for a in pair.ancestors()):
        return []
    if called is not None and called.text() == "__export":
        return []
    told = re.match(r"Object\.defineProperty\(exports, [\"']([\w$]+)[\"'],", calls[0].text()) if calls else None
    return [told[1]] if told else None


def _made_by(node: SgNode) -> list[SgNode]:
    """Return what a type declares that a function of Zig gives back."""
    back = node.find(kind="return_expression", inside={"kind": "expression_statement", "inside": {"kind": "block"}})
    made = [c for c in back.children() if c.kind() in {"struct_declaration", "union_declaration", "enum_declaration"}] if back else []
    return [c for one in made for c in reversed(one.children())]


def _declared(node: SgNode, group: str, language: str) -> list[Declared]:
    if language == "css":
        names = [c for c in node.children() if c.kind() in {"selectors", "keyframes_name", "property_name"}] or [node]
        return [Declared(group, _flat(names[0].text().partition("{")[0]), node.range().start.line + 1, None)]
    if language == "hcl" and node.kind() == "attribute":
        block = node.parent() and node.parent().parent()
        named = block is not None and block.text().startswith("locals")
        return [Declared(group, node.text().partition("=")[0].strip(), node.range().start.line + 1, None)] if named else []
    if language == "hcl":
        said = [c.text().strip('"') for c in node.children() if c.kind() in {"identifier", "string_lit"}]
        return [Declared(group, " ".join(said), node.range().start.line + 1, None)]
    if language == "ruby" and node.kind() == "call":
        arguments = node.field("arguments")
        symbols = [c for c in arguments.children() if c.kind() == "simple_symbol"] if arguments else []
        return [Declared(group, c.text()[1:], c.range().start.line + 1, None) for c in symbols]
    if node.kind() == "pair" and language in _SCRIPTS and (said := _of_a_compiler(node)) is not None:
        return [Declared("value", name, node.range().start.line + 1, None) for name in said]
    if node.kind() == "assignment_expression" and (left := node.field("left")) is not None and "." in left.text() and language in _SCRIPTS:
        right = node.field("right")
        if left.text() == "module.exports" and right is not None and (own := right.field("name")) is not None:
            return [Declared(group, own.text(), node.range().start.line + 1, None)]
        return [Declared(group, short(left.text()), node.range().start.line + 1, None)]
    if (language == "dart" and "constructor" in node.kind()) or node.kind() == "operator_signature":
        head = (
            re.sub(r"\(.*|^(?:const|factory)\s+", "", node.text(), flags=re.DOTALL)
            if node.kind() != "operator_signature"
            else "operator" + node.text().partition("operator")[2].partition("(")[0]
        )
        return [Declared(group, short(head), node.range().start.line + 1, None)]
    if language == "elixir" and node.text().startswith(("defstruct", "defexception")):
        fields = {c.text().strip(": ") for kind in ("atom", "keyword") for c in node.find_all(kind=kind)}
        return [Declared(group, name, node.range().start.line + 1, None) for name in sorted(fields)]
    if language == "elixir" and node.kind() == "unary_operator":
        return [Declared(group, _attribute_name(node.text()), node.range().start.line + 1, None)]
    if language == "elixir":
        arguments = next((c for c in node.children() if c.kind() == "arguments"), None)
        head = arguments.text() if arguments else ""
        if node.text().startswith("defimpl") and (whose := re.search(r"for: *([\w.]+)", head)):
            return [Declared(group, short(whose[1]), node.range().start.line + 1, None)]
        name = re.match(r"\w+\s+([-+*/<>=!|&^%~]+)\s+\w+,", head) or re.match(r"([\w.!?]+)", head)
        return [Declared(group, short(name[1]), node.range().start.line + 1, None)] if name else []
    if language == "haskell" and group == "member" and node.kind() != "field_name":
        names = node.find_all(kind="constructor")[:1]
        return [Declared(group, c.text(), node.range().start.line + 1, None) for c in names]
    if (named := _named_otherwise(node, language)) is not None:
        return [Declared(group, name, node.range().start.line + 1, None) for name in named]
    if node.kind() in {"enum_value", "property_identifier"}:
        return [Declared(group, node.text(), node.range().start.line + 1, None)]
    if node.kind() == "impl_item":
        held = node.field("type")
        return [Declared(group, short(held.text()), node.range().start.line + 1, None)] if held else []
    if language == "haskell" and node.kind() == "signature" and (several := node.field("names")) is not None:
        return [Declared(group, c.text(), node.range().start.line + 1, None) for c in several.children() if c.is_named()]
    if language in {"c", "cpp"} and group == "type" and (field := node.field("name")):
        return [Declared(group, short(field.text()), node.range().start.line + 1, None)]
    taken = None
    if group == "call" and language in _COUNTED:
        own = node.field("parameters")
        lists = [own] if own is not None and own.kind() in _PARAMETERS else [c for c in _below(node) if c.kind() in _PARAMETERS]
        taken = sum(map(_entries, lists[0].children())) if lists else None
    word = re.search(r"\b(init|deinit|subscript|constructor|receive|fallback)\b", node.text())
    if word and node.kind() in _BY_KEYWORD:
        return [Declared(group, word[1], node.range().start.line + 1, None)]
    names = [c for c in _names(node) if c.text().strip()]
    if language == "swift" and group in {"call", "type"}:
        names = names[:1]
    if language == "kotlin" and node.kind() == "property_declaration":
        names = [c for v in node.children() if v.kind() == "variable_declaration" for c in v.children() if c.kind() == "simple_identifier"]
    every = [part for c in names for part in (c.text().split(",") if c.kind() == "variable_list" else [c.text()])]
    return [
        Declared(group, short(part), node.range().start.line + 1, taken)
        for part in every
        if short(part) not in {"", "_"} and "[" not in part and not (node.kind() == "variable_list" and "[" in node.text())
    ]


def _attribute_name(text: str) -> str:
    """Return the name of an attribute of Elixir, or the one that it declares."""
    match = re.match(r"@(?:typep?|opaque|(?:macro)?callback)\s+([\w?!]+)|@(\w+)", text)
    return (match[1] or match[2]) if match else ""


def _named_otherwise(node: SgNode, language: str) -> list[str] | None:
    """Return the names of what is not named by one node of its own; None for all other nodes."""
    kind, text = node.kind(), node.text()
    pattern = node.field("name") if kind == "variable_declarator" else None
    if pattern is not None and pattern.kind() in {"array_pattern", "object_pattern"}:
        held = [c.field("value") if c.kind() == "pair_pattern" else c for c in pattern.children()]
        return [c.text() for c in held if c is not None and c.kind() in {"identifier", "shorthand_property_identifier_pattern"}]
    if kind == "ordered_field_declaration_list":
        every = [c for c in node.children() if c.is_named() and c.kind() not in {"visibility_modifier", "attribute_item"}]
        return [str(place) for place in range(len(every))]
    if kind in {"indexer_declaration", "shorthand_property_identifier"}:
        return ["this[]" if kind[0] == "i" else text]
    made = node.field("declarator") if kind == "declaration" else None
    if kind in {"operator_declaration", "conversion_operator_declaration"} or (made is not None and made.kind() == "operator_cast"):
        return ["operator" + "".join(text.partition("operator")[2].partition("(")[0].split())]
    if kind == "destructor_declaration":
        return ["~" + next(c.text() for c in node.children() if c.kind() == "identifier")]
    if kind == "companion_object":
        return [next((n.text() for n in _names(node)), "Companion")]
    if language == "nix" and kind == "function_expression":
        return ["import"]
    if kind == "instance":
        return [short(_flat(re.split(r"\bwhere\b", text)[0].removeprefix("instance ").rpartition("=>")[2]))]
    if kind == "extension_definition":
        return [_flat(text.partition(":")[2].partition(")")[0])]
    return None


def _below(node: SgNode) -> Iterator[SgNode]:
    yield from node.children()
    for field in ("declarator", "value"):
        if (deeper := node.field(field)) is not None:
            yield from _below(deeper)


_NO_ENTRY = frozenset({"array_type", "attribute_item", "keyword_separator", "positional_separator"})
"""nodes of a list of parameters that declare none; C# has the type of its last ones outside of a parameter"""


def _entries(child: SgNode) -> int:
    if (
        not child.is_named()
        or "comment" in child.kind()
        or re.match(r"(?:self|cls|void)\b(?!\s*\*)", child.text())
        or child.kind() in _NO_ENTRY
    ):
        return 0
    return max(1, len(child.field_children("name"))) if child.kind() in {"parameter_declaration", "parameter"} else 1


def _flat(text: str) -> str:
    return " ".join(text.split())


_UNMARKED = re.compile(r"^(?:@\S+ |static )+|['\"]")
_NAMELESS = re.compile(r"_$|\[\w+: |new[ (<]|\(|<")
"""members without a name: how an object is indexed, called or made, and the rest of an open enum"""

_GROUPS = {"function": "call", "value": "value", "property": "member"}


def compare(texts: list[str], language: str) -> Score:
    """Return how much of what some texts declare is told, how much of what is told they declare, and what is wrong."""
    declared = told = drawn = right = calls = calls_right = 0
    missing: Counter[str] = Counter()
    extra: Counter[str] = Counter()
    for text in texts:
        wanted = list(dict.fromkeys(declarations(text, language)))
        found = outline(text, language).symbols
        given: list[tuple[str, str, int, int, int | None]] = []
        for symbol in found:
            name = _flat(symbol.name) if language in {"css", "hcl"} else short(symbol.name)
            taken = len([p for p in symbol.parameters if p.name not in {"/", "*"}]) if symbol.parameters is not None else None
            given.append((_GROUPS.get(symbol.kind, "type"), name, symbol.first, symbol.last, taken))
            given += [
                ("member", short(re.match(r"[^:(\s{]*", _UNMARKED.sub("", member))[0]), symbol.first, symbol.last, None)
                for member in getattr(symbol, "members", ())
                if not _NAMELESS.match(member)
            ]
        for one in wanted:
            declared += 1
            fits = [g for g in given if g[1] == one.name and g[2] <= one.line <= g[3] and _alike(g[0], one.group)]
            told += bool(fits)
            if not fits:
                missing[f"{one.group} {one.name} L{one.line}"] += 1
            elif one.parameters is not None and any(g[4] is not None for g in fits):
                calls += 1
                calls_right += any(g[4] in {one.parameters, one.parameters + 1 if language in _OWN else one.parameters} for g in fits)
        given = [g for g in given if g[1] and g[1] != "(unnamed)"]
        for group, name, first, last, _ in given:
            fits_one = any(w.name == name and first <= w.line <= last and _alike(group, w.group) for w in wanted)
            drawn += 1
            right += fits_one
            if not fits_one:
                extra[f"{group} {name} L{first}"] += 1
    return Score(len(texts), declared, told, drawn, right, calls, calls_right, missing, extra)


def _alike(ours: str, theirs: str) -> bool:
    """A constant of a class is a value or one of its members, an accessor a property, a value may be a function or a class."""
    return (
        ours == theirs
        or {ours, theirs} <= {"type", "value"}
        or {ours, theirs} <= {"call", "value"}
        or {ours, theirs} <= {"value", "member"}
        or {ours, theirs} <= {"call", "member"}
    )


def drawn_files(folders: list[Path], language: str, count: int, seed: int) -> list[Path]:
    """Return files of a language, each of another folder as far as there are some."""
    every = [
        p
        for folder in folders
        for p in folder.rglob("*.*")
        if (language_of(p.name) == language or (language == "cpp" and p.suffix == ".h")) and p.is_file() and not p.is_symlink()
    ]
    every = sorted(p for p in every if SMALLEST <= p.stat().st_size <= LARGEST and "/test" not in p.as_posix())
    random.Random(seed).shuffle(every)
    chosen: list[Path] = []
    for once in (True, False):
        for path in every:
            if len(chosen) < count and path not in chosen and not (once and path.parent in {c.parent for c in chosen}):
                text = path.read_text("utf-8", "replace")
                if language_of(path.name, text) == language and max(map(len, text.split("\n"))) <= LONGEST_LINE:
                    chosen.append(path)
    return chosen


def main() -> None:
    """Print recall and precision by language."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--language", action="append", choices=sorted(VIEWS))
    parser.add_argument("--show", type=int, default=0, help="misses and extras to print")
    options = parser.parse_args()
    print("| language | files | declared | told | recall | drawn | precision | parameters right |\n|---|---|---|---|---|---|---|---|")
    for language in options.language or sorted(VIEWS):
        paths = drawn_files(options.folders, language, options.files, options.seed)
        score = compare([p.read_text("utf-8", "replace").replace("\r\n", "\n") for p in paths], language)
        shares = [f"{100 * a / b:.1f} %" if b else "-" for a, b in ((score.told, score.declared), (score.right, score.drawn))]
        parameters = f"{score.calls_right} of {score.calls}" if score.calls else "-"
        print(
            f"| {language} | {score.files} | {score.declared} | {score.told} | {shares[0]} | {score.drawn} | {shares[1]} | {parameters} |"
        )
        for title, counted in (("missing", score.missing), ("extra", score.extra)):
            if options.show and counted:
                print(f"  {title}: " + ", ".join(name for name, _ in counted.most_common(options.show)))


if __name__ == "__main__":
    main()
