"""Which nodes of each language's grammar declare something, and how one sees that others may use it."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import lru_cache
from typing import NamedTuple


class Grammar(NamedTuple):
    """The declarations of one language, by the kinds of its syntax nodes."""

    declares: dict[str, str]
    """kind of node -> kind of symbol"""
    inside: frozenset[str]
    """nodes that hold declarations and are none themselves"""
    visible: str
    """how a symbol is told to be exported: ``word`` (export, pub or public stands before it), ``private`` (unless such a
    word does), ``capital``, ``underscore`` (unless one leads), ``static`` (unless it is), ``local`` (unless it is), ``always``"""
    order: str = "name"
    """in a parameter: ``name`` first, ``type`` first, or ``keyword`` for names alone, of which some end with a colon"""
    imports: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment", "line_comment", "block_comment", "multiline_comment", "haddock", "doc_comment"})
    fields: bool = False
    """values inside classes are symbols where they are constants"""


def _grammar(
    declares: dict[str, str], inside: str, visible: str, *, order: str = "name", imports: str = "", fields: bool = False
) -> Grammar:
    kinds = {node: kind for kind, nodes in declares.items() for node in nodes.split()}
    return Grammar(kinds, frozenset(inside.split()), visible, order, frozenset(imports.split()), fields=fields)


_SCRIPT = {
    "function": "function_declaration generator_function_declaration function_signature method_definition method_signature"
    " abstract_method_signature",
    "class": "class_declaration abstract_class_declaration class",
    "interface": "interface_declaration",
    "type": "type_alias_declaration",
    "enum": "enum_declaration",
    "value": "lexical_declaration variable_declaration public_field_definition field_definition assignment_expression",
    "field": "property_signature enum_assignment property_identifier index_signature construct_signature call_signature",
    "module": "internal_module module",
}
_SCRIPT_INSIDE = "export_statement ambient_declaration expression_statement class_body interface_body object_type statement_block enum_body"

_C = {
    "function": "function_definition preproc_function_def",
    "class": "struct_specifier union_specifier",
    "enum": "enum_specifier",
    "type": "type_definition",
    "value": "declaration preproc_def field_declaration",
    "field": "enumerator",
}
_C_INSIDE = (
    "preproc_ifdef preproc_if preproc_elif preproc_else linkage_specification declaration_list field_declaration_list enumerator_list"
)


def _and(declares: dict[str, str], **more: str) -> dict[str, str]:
    """Return the declarations of one language with those that another adds."""
    return {kind: f"{declares.get(kind, '')} {more.get(kind, '')}" for kind in (*declares, *more)}


GRAMMARS = {
    "bash": _grammar({"function": "function_definition", "value": "declaration_command variable_assignment"}, "", "always"),
    "c": _grammar(_C, _C_INSIDE, "static", order="type", imports="preproc_include"),
    "cpp": _grammar(
        _and(_C, **{"class": "class_specifier", "type": "alias_declaration", "module": "namespace_definition"}),
        f"{_C_INSIDE} template_declaration friend_declaration",
        "static",
        order="type",
        imports="preproc_include",
        fields=True,
    ),
    "csharp": _grammar(
        {
            "function": "method_declaration constructor_declaration destructor_declaration delegate_declaration local_function_statement"
            " operator_declaration conversion_operator_declaration indexer_declaration",
            "class": "class_declaration struct_declaration record_declaration",
            "interface": "interface_declaration",
            "enum": "enum_declaration",
            "value": "field_declaration",
            "field": "property_declaration event_field_declaration event_declaration enum_member_declaration",
            "module": "namespace_declaration",
        },
        "declaration_list file_scoped_namespace_declaration enum_member_declaration_list preproc_if preproc_else preproc_elif"
        " preproc_region",
        "word",
        order="type",
        imports="using_directive",
        fields=True,
    ),
    "css": _grammar(
        {"rule": "rule_set media_statement keyframes_statement supports_statement at_rule", "value": "declaration"},
        "block",
        "always",
        imports="import_statement",
    ),
    "dart": _grammar(
        {
            "function": "function_signature constructor_signature constant_constructor_signature factory_constructor_signature"
            " redirecting_factory_constructor_signature operator_signature",
            "property": "getter_signature setter_signature",
            "class": "class_declaration mixin_declaration extension_declaration extension_type_declaration class_definition",
            "enum": "enum_declaration",
            "type": "type_alias",
            "value": "static_final_declaration",
            "field": "initialized_identifier enum_constant",
        },
        "class_body class_member method_declaration method_signature declaration function_declaration enum_body extension_body"
        " top_level_variable_declaration static_final_declaration_list initialized_identifier_list getter_declaration setter_declaration",
        "underscore",
        order="type",
        imports="import_or_export import_specification",
        fields=True,
    ),
    "elixir": _grammar({"function": "call", "value": "unary_operator"}, "do_block", "always"),
    "go": _grammar(
        {
            "function": "function_declaration method_declaration method_elem method_spec",
            "type": "type_spec type_alias",
            "value": "const_spec var_spec",
            "field": "field_declaration type_elem",
        },
        "struct_type field_declaration_list const_declaration var_declaration var_spec_list type_declaration interface_type"
        " import_declaration import_spec_list",
        "capital",
        imports="import_spec",
    ),
    "haskell": _grammar(
        {
            "function": "signature",
            "class": "data_type newtype",
            "interface": "class",
            "type": "type_synonym type_synomym type_family",
            "field": "data_constructor newtype_constructor gadt_constructor",
            "implementation": "instance",
        },
        "declarations class_declarations imports data_constructors gadt_constructors",
        "always",
        imports="import",
    ),
    "hcl": _grammar({"block": "block"}, "body", "always"),
    "java": _grammar(
        {
            "function": "method_declaration constructor_declaration compact_constructor_declaration annotation_type_element_declaration",
            "class": "class_declaration record_declaration",
            "interface": "interface_declaration annotation_type_declaration",
            "enum": "enum_declaration",
            "value": "field_declaration constant_declaration",
            "field": "enum_constant",
        },
        "class_body interface_body enum_body enum_body_declarations annotation_type_body",
        "word",
        order="type",
        imports="import_declaration",
        fields=True,
    ),
    "javascript": _grammar(_SCRIPT, _SCRIPT_INSIDE, "word", imports="import_statement", fields=True),
    "kotlin": _grammar(
        {
            "function": "function_declaration secondary_constructor",
            "class": "class_declaration object_declaration companion_object",
            "type": "type_alias",
            "value": "property_declaration",
            "field": "enum_entry",
        },
        "class_body enum_class_body import_list ERROR",
        "private",
        imports="import_header",
        fields=True,
    ),
    "lua": _grammar(
        {"function": "function_declaration", "value": "variable_declaration assignment_statement return_statement"},
        "do_statement if_statement elseif_statement else_statement block",
        "local",
    ),
    "nix": _grammar(
        {"value": "binding", "function": "function_expression"},
        "binding_set let_expression with_expression attrset_expression rec_attrset_expression"
        " apply_expression parenthesized_expression binary_expression",
        "always",
        fields=True,
    ),
    "php": _grammar(
        {
            "function": "method_declaration function_definition",
            "class": "class_declaration trait_declaration",
            "interface": "interface_declaration",
            "enum": "enum_declaration",
            "value": "const_declaration",
            "field": "property_declaration enum_case",
        },
        "declaration_list enum_declaration_list namespace_definition compound_statement if_statement",
        "private",
        order="type",
        imports="namespace_use_declaration",
        fields=True,
    ),
    "python": _grammar(
        {"function": "function_definition", "class": "class_definition", "value": "assignment", "type": "type_alias_statement"},
        "decorated_definition block expression_statement if_statement try_statement",
        "underscore",
        imports="import_statement import_from_statement future_import_statement",
        fields=True,
    ),
    "ruby": _grammar(
        {"function": "method singleton_method", "class": "class", "module": "module", "value": "assignment"},
        "body_statement singleton_class if then else unless",
        "always",
        order="keyword",
        fields=True,
    ),
    "rust": _grammar(
        {
            "function": "function_item function_signature_item macro_definition",
            "class": "struct_item union_item",
            "interface": "trait_item",
            "type": "type_item associated_type",
            "enum": "enum_item",
            "value": "const_item static_item",
            "implementation": "impl_item",
            "field": "field_declaration enum_variant ordered_field_declaration_list",
            "module": "mod_item",
        },
        "declaration_list foreign_mod_item field_declaration_list enum_variant_list",
        "word",
        imports="use_declaration extern_crate_declaration",
        fields=True,
    ),
    "scala": _grammar(
        {
            "function": "function_definition function_declaration",
            "class": "class_definition object_definition",
            "interface": "trait_definition",
            "enum": "enum_definition",
            "type": "type_definition",
            "value": "val_definition given_definition",
            "implementation": "extension_definition",
            "module": "package_object",
            "field": "var_definition val_declaration var_declaration simple_enum_case full_enum_case",
        },
        "template_body enum_body enum_case_definitions package_clause ERROR",
        "private",
        imports="import_declaration",
        fields=True,
    ),
    "solidity": _grammar(
        {
            "function": "function_definition modifier_definition event_definition error_declaration constructor_definition"
            " fallback_receive_definition",
            "class": "contract_declaration library_declaration struct_declaration",
            "type": "user_defined_type_definition",
            "interface": "interface_declaration",
            "enum": "enum_declaration",
            "value": "state_variable_declaration constant_variable_declaration",
            "field": "struct_member enum_value",
        },
        "contract_body struct_body enum_body",
        "private",
        order="type",
        imports="import_directive",
        fields=True,
    ),
    "swift": _grammar(
        {
            "function": "function_declaration init_declaration deinit_declaration subscript_declaration protocol_function_declaration",
            "class": "class_declaration",
            "interface": "protocol_declaration",
            "type": "typealias_declaration associatedtype_declaration",
            "value": "property_declaration",
            "field": "protocol_property_declaration enum_entry",
        },
        "class_body enum_class_body protocol_body",
        "private",
        imports="import_declaration",
        fields=True,
    ),
    "typescript": _grammar(_SCRIPT, _SCRIPT_INSIDE, "word", imports="import_statement", fields=True),
    "zig": _grammar(
        {"function": "function_declaration", "value": "variable_declaration", "field": "container_field"},
        "struct_declaration enum_declaration union_declaration opaque_declaration error_set_declaration",
        "word",
        fields=True,
    ),
}
GRAMMARS["tsx"] = GRAMMARS["typescript"]


# Whether a text can be parsed in a bounded time: on text that is no code of its language a parser may look for errors
# for minutes.


SECONDS = 5.0
"""how long a parser may take over a text that looks like none of its language"""

WINDOW = 1024
"""characters of a window; the time of a parser that goes astray grows with their square"""

_MOST_WINDOWS = 64

_ASTRAY = 0.025
"""seconds of processor for a window: code and prose take a tenth of it, text that a parser despairs of three times as much"""

_PARSE = "import sys\nfrom ast_grep_py import SgRoot\nSgRoot(sys.stdin.buffer.read().decode('utf-8', 'replace'), sys.argv[1])\n"


@lru_cache(maxsize=8)
def ends_soon(text: str, language: str) -> bool:
    """Tell whether a text is parsed within bounds.

    A parser cannot be interrupted. Windows of the text are parsed first; where one of them
    takes long, another process tries the whole text and is ended after ``SECONDS``.
    """
    from ast_grep_py import SgRoot

    if len(text) <= WINDOW:
        return True
    step = max(WINDOW, len(text) // _MOST_WINDOWS)
    for start in range(0, len(text), step):
        began = time.process_time()
        SgRoot(text[start : start + WINDOW], language)
        if time.process_time() - began > _ASTRAY:
            return _parse(text, language)
    return True


def _parse(text: str, language: str) -> bool:
    command = [sys.executable, "-P", "-c", _PARSE, language]  # -P: nothing is imported from the folder one is in
    given = text.encode("utf-8", "replace")
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603 - this interpreter
    except (subprocess.TimeoutExpired, OSError):
        return False
    return done.returncode == 0
