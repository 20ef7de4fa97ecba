"""Symbols of languages whose grammar is a package of its own: Julia, OCaml, Perl, PowerShell and SQL."""

from __future__ import annotations

import importlib
import re
import time
import warnings
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures import grammars
from ctx_pipeline.compression.signatures.parts import first_line, flat, parameter
from ctx_pipeline.compression.signatures.symbols import Outline, Parameter, Symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tree_sitter import Node

_PIECE = 1024
"""Bytes that the parser, and the text of each node, is given at once."""
_TALLEST = 100
"""Pieces of a comment that are looked at for its first line."""
_LONGEST_HEAD = 4000
_DEEPEST = 12
"""Scopes inside each other that are followed."""

_ASKED_OF = "mandatory"


class Sheet:
    """What was found of one file so far."""

    def __init__(self, ends: float) -> None:
        self._ends = ends
        self.symbols: list[Symbol] = []
        self.imports: list[str] = []
        self.exports: set[str] = set()

    def add(
        self,
        node: Node,
        kind: str,
        name: str,
        *,
        level: int = 0,
        exported: bool = True,
        parameters: Iterable[Parameter] | None = None,
        returns: str = "",
        generics: str = "",
        members: Iterable[str] = (),
        last: int = 0,
    ) -> None:
        """Add one symbol with its lines and its documentation; raises TimeoutError where it took too long up to here."""
        if time.thread_time() > self._ends:
            raise TimeoutError
        first, end = node.start_point[0] + 1, node.end_point[0] + (node.end_point[1] > 0)
        taken = tuple(parameters) if parameters is not None else None
        held = Symbol(kind, name, exported, level, first, max(first, last or end), taken, returns, generics, members=tuple(members))
        self.symbols.append(held._replace(doc=_documentation(node)))


def outline(text: str, language: str) -> Outline:
    """Return what a file declares; nothing where the grammar is not installed, or does not get through the text in time."""
    package, read = LANGUAGES[language]
    try:
        tree_sitter, grammar = importlib.import_module("tree_sitter"), importlib.import_module(package)
    except ImportError:
        return Outline(language)
    with warnings.catch_warnings():  # an older wheel hands its grammar over in a form that a newer one calls deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        parser = tree_sitter.Parser(tree_sitter.Language((getattr(grammar, "language", None) or grammar.language_ocaml)()))
    data, ends = text.encode("utf-8", "replace"), time.thread_time() + grammars.SECONDS
    try:
        tree = parser.parse(lambda at, _: data[at : at + _PIECE], encoding="utf8", progress_callback=lambda *_: time.thread_time() > ends)
    except ValueError:  # it was stopped
        return Outline(language, broken=1)
    sheet = Sheet(ends)
    try:
        read(sheet, tree.root_node)
    except (TimeoutError, RecursionError):
        return Outline(language, broken=1)
    symbols = tuple(s._replace(exported=True) if s.name in sheet.exports else s for s in sheet.symbols)
    return Outline(language, symbols, tuple(dict.fromkeys(sheet.imports)), broken=int(tree.root_node.has_error))


def _text(node: Node | None) -> str:
    return node.text.decode("utf-8", "replace") if node is not None and node.text is not None else ""


def _first(node: Node, *kinds: str) -> Node | None:
    return next((c for c in node.named_children if c.type in kinds), None)


def _below(node: Node, *kinds: str) -> Iterator[Node]:
    """Yield the nearest nodes of some kinds below one, in their order."""
    waiting = list(reversed(node.named_children))
    while waiting:
        one = waiting.pop()
        if one.type in kinds:
            yield one
        else:
            waiting += reversed(one.named_children)


def _documentation(node: Node) -> str:
    """Return the first line of the comment, or of the text, that stands right above."""
    above, line = node.prev_sibling, node.start_point[0]
    parent = node.parent
    if above is None and parent is not None and parent.start_byte == node.start_byte:
        above = parent.prev_sibling
    lines: list[str] = []
    while above is not None and len(lines) < _TALLEST and line - 1 <= above.end_point[0] - (above.end_point[1] == 0) <= line:
        if above.type not in {"comment", "marginalia", "pod", "string_literal"} or _text(above).startswith("#!"):
            break
        before = above.prev_sibling
        if before is not None and before.type != above.type and before.end_point[0] == above.start_point[0]:
            break  # it stands behind the code of its line
        text = _text(above)
        if above.type == "string_literal":  # of Julia: how it is called stands before what it does
            text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE) if re.search(r"^\w", text, re.MULTILINE) else text
        lines.append(re.sub(r'^(?:\(\*+|<#|"+)|(?:\*\)|#>|"+)$', "", text).strip())
        line, above = above.start_point[0], before
    said = re.sub(r"^=\w+.*$|^[ \t]*\.SYNOPSIS[ \t]*$", "", "\n".join(reversed(lines)), flags=re.MULTILINE)
    return first_line(said)


# Perl: a package holds what follows it.


def _perl(sheet: Sheet, root: Node) -> None:
    _perl_scope(sheet, root.named_children, 0)


def _perl_scope(sheet: Sheet, nodes: list[Node], level: int) -> None:
    owner, inside = -1, level
    for node in nodes:
        if node.type in {"package_statement", "class_statement", "role_statement"}:
            if owner >= 0:
                sheet.symbols[owner] = sheet.symbols[owner]._replace(last=node.start_point[0])
            block = _first(node, "block")
            name = _text(node.child_by_field_name("name")) or _text(_first(node, "package"))
            sheet.add(node, "module", name, level=level, last=0 if block else nodes[-1].end_point[0] + 1)
            if block is not None and level < _DEEPEST:
                _perl_scope(sheet, block.named_children, level + 1)
                owner, inside = -1, level
            else:
                owner, inside = len(sheet.symbols) - 1, level + 1
        elif node.type in {"subroutine_declaration_statement", "method_declaration_statement"}:
            name = _text(node.child_by_field_name("name"))
            sheet.add(node, "function", name, level=inside, exported=not name.startswith("_"), parameters=_perl_parameters(node, inside))
        elif node.type == "use_statement":
            _perl_use(sheet, node, inside, owner)
        elif node.type == "expression_statement":
            _perl_statement(sheet, node, inside, owner)
        elif node.type in {"block_statement", "phaser_statement", "conditional_statement"} and level < _DEEPEST:
            for block in _below(node, "block"):
                _perl_scope(sheet, block.named_children, inside)


def _perl_parameters(node: Node, level: int) -> list[Parameter]:
    listed = _first(node, "signature")
    found: list[Parameter] = []
    if listed is not None:
        for one in listed.named_children:
            name = re.split(r"\s|//?=|=", _text(one))[0]
            if name and "comment" not in one.type:
                found.append(Parameter(name, "", one.type == "optional_parameter"))
    body = node.child_by_field_name("body")
    rest: list[Node] = []
    for line in body.named_children if body is not None and listed is None else []:
        said = flat(_text(line))
        if rest:
            rest.append(line)
        elif match := re.fullmatch(r"my \(([^()]*)\) = (@_|\((?:shift|\$_\[0\])\b.*\));?", said):
            found += [Parameter(name.strip()) for name in match[1].split(",") if name.strip() not in {"", "undef"}]
            if match[2] == "@_":
                break
        elif match := re.match(r"my \(?(\$\w+)\)? = shift(?:\(\)|\(@_\)| @_)?(?: (//|\|\|) .*)?;?$", said):
            found.append(Parameter(match[1], "", bool(match[2])))
        elif "comment" not in line.type:
            rest.append(line)
    given_itself = bool(level and found and found[0].name in {"$self", "$class", "$this", "$proto"})
    if _PERL_TAKES.search(" ".join(map(_perl_own, rest))) and not any(p.name[:1] in "@%" for p in found):
        found.append(Parameter("@_"))  # it takes more, in a way that does not say how much
    return found[1:] if given_itself else found


_PERL_TAKES = re.compile(r"(?<![\w$@])@_\b|\$_\[[1-9]")


def _perl_own(node: Node) -> str:
    """Return the text of a statement without the functions inside, which take arguments of their own."""
    if node.type == "anonymous_subroutine_expression":
        return ""
    text = _text(node)
    if not node.children or "sub" not in text or not _PERL_TAKES.search(text):
        return text
    return " ".join(_perl_own(c) for c in node.children)


def _perl_use(sheet: Sheet, node: Node, level: int, owner: int) -> None:
    module, said = _text(node.child_by_field_name("module")), flat(_text(node))
    if module == "constant":
        keys = re.findall(r"(?:[{,]|constant)\s*(\w+)\s*(?==>|,)", said) if "{" in said else re.findall(r"constant\s+['\"]?(\w+)", said)[:1]
        for key in keys:
            sheet.add(node, "value", key, level=level)
    elif (module in {"parent", "base"} or (module == "Mojo::Base" and re.search(r"Base ['\"]", said))) and owner >= 0:
        _perl_bases(sheet, owner, said.partition(module)[2])
    elif module[:1].isupper():
        sheet.imports.append(module)


def _perl_bases(sheet: Sheet, owner: int, said: str) -> None:
    names = [n for n in re.findall(r"[\w:]+", re.sub(r"-\w+|\bqw\b", "", said)) if n]
    before = sheet.symbols[owner].returns
    sheet.symbols[owner] = sheet.symbols[owner]._replace(kind="class", returns=", ".join(filter(None, [before, *names])))


def _perl_statement(sheet: Sheet, node: Node, level: int, owner: int) -> None:
    said = flat(_text(node))
    if match := re.match(r"our (?:([$@%]\w+)|\(([^()]*)\))", said):
        for name in (match[1] or match[2]).split(","):
            sheet.add(node, "value", name.strip(), level=level, exported=not name.strip()[1:].startswith("_"))
    elif owner >= 0 and (
        match := re.match(r"has \(?\s*(?:\[?\s*qw[(/]\s*([\w ]+)[)/]\s*\]?|\[([^\]]*)\]|['\"]?\+?(\w+)['\"]?)\s*=>", said)
    ):
        names = re.findall(r"\w+", next(filter(None, match.groups()), ""))
        held = sheet.symbols[owner]
        sheet.symbols[owner] = held._replace(kind="class", members=held.members + tuple(names))
    elif owner >= 0 and (match := re.match(r"(?:extends|with)\b(.*)", said)):
        _perl_bases(sheet, owner, match[1].partition("=>")[0].partition("{")[0])


# SQL: what statements create.


def _sql(sheet: Sheet, root: Node) -> None:
    for node in _below(root, *_SQL_CREATES):
        named = _first(node, "object_reference")
        column = node.child_by_field_name("column")  # of an index: its name
        name = flat(_text(column if node.type == "create_index" and column is not None else named))
        kind, members = "block", []
        if not name:
            continue
        if node.type in {"create_function", "create_procedure"}:
            _sql_function(sheet, node, name)
            continue
        if node.type == "create_type":
            listed = _first(node, "enum_elements")
            kind = "enum" if listed is not None else "class"
            members = [_text(one).strip("'") for one in listed.named_children] if listed is not None else []
        members += [
            f"{_text(one.child_by_field_name('name')).strip(QUOTES)}:{flat(_text(one.child_by_field_name('type')))}".rstrip(":")
            for listed in _below(node, "column_definitions")
            for one in _below(listed, "column_definition")
        ]
        if node.type in {"create_view", "create_materialized_view"}:
            members = [_sql_alias(one) for select in _below(node, "select_expression") for one in select.named_children][:40]
        elif node.type == "create_index":
            name = f"{name} on {flat(_text(named))}{flat(_text(_first(node, 'index_fields')))}"
        elif node.type == "create_trigger":
            name = flat(re.sub(r"(?i)^create (?:or replace )?(?:constraint )?trigger | (?:execute|begin)\b.*", "", _head(node)))
        word = "" if kind != "block" else node.type.removeprefix("create_").replace("_", " ") + " "
        sheet.add(node.parent if node.parent is not None and node.parent.type == "statement" else node, kind, word + name, members=members)


QUOTES = '"`[]'

_SQL_CREATES = (
    "create_table",
    "create_view",
    "create_materialized_view",
    "create_index",
    "create_type",
    "create_function",
    "create_procedure",
    "create_trigger",
    "create_sequence",
)


def _sql_alias(node: Node) -> str:
    alias = node.child_by_field_name("alias")
    return flat(_text(alias) if alias is not None else _text(node).rpartition(".")[2])[:60]


def _head(node: Node) -> str:
    return " ".join(_text(node)[:_LONGEST_HEAD].split())


def _sql_function(sheet: Sheet, node: Node, name: str) -> None:
    listed, parameters = _first(node, "function_arguments"), []
    for one in listed.named_children if listed is not None else []:
        said = flat(_text(one))
        given, _, default = re.sub(r"(?i)^(?:in|inout|out|variadic)\s+(?=\w+\s)", "", said).partition(" ")
        written, optional = re.subn(r"(?i)\s*(?:\bdefault\b|:?=).*", "", default)
        parameters.append(Parameter(given, written, bool(optional)))
    head = _head(node).partition("$$")[0]
    match = re.search(r"(?i)\breturns (.+?) (?:as|language|begin|return|immutable|stable|volatile|deterministic|security|strict)\b", head)
    at = node.parent if node.parent is not None and node.parent.type == "statement" else node
    sheet.add(at, "function", name, parameters=parameters, returns=flat(match[1]) if match else "")


# PowerShell


def _powershell(sheet: Sheet, root: Node) -> None:
    for node in _below(root, "function_statement", "class_statement", "enum_statement", "command"):
        if node.type == "command":
            if match := re.match(r"(?i)import-module\s+(\S+)", _text(node)):
                sheet.imports.append(match[1].strip("'\""))
            continue
        name = _text(_first(node, "function_name", "simple_name"))
        if node.type == "function_statement":
            block = _first(node, "script_block")
            given = _first(node, "function_parameter_declaration") or (_first(block, "param_block") if block is not None else None)
            listed = next(_below(given, "parameter_list"), None) if given is not None else None
            sheet.add(node, "function", name, parameters=map(_powershell_parameter, listed.named_children if listed is not None else []))
        elif node.type == "enum_statement":
            sheet.add(node, "enum", name, members=[_text(_first(c, "simple_name")) for c in _below(node, "enum_member")])
        else:
            _powershell_class(sheet, node, name)


def _powershell_class(sheet: Sheet, node: Node, name: str) -> None:
    names = [_text(c) for c in node.named_children if c.type == "simple_name"]
    fields = [
        f"{_text(_first(c, 'variable')).lstrip('$')}:{_text(_first(c, 'type_literal')).strip('[]')}".rstrip(":")
        for c in node.named_children
        if c.type == "class_property_definition"
    ]
    sheet.add(node, "class", name, returns=", ".join(names[1:]), members=fields)
    for method in (c for c in node.named_children if c.type == "class_method_definition"):
        listed = _first(method, "class_method_parameter_list")
        taken = [_powershell_parameter(c)._replace(optional=False) for c in listed.named_children] if listed is not None else []
        returns = re.sub(r"^\[|\]$", "", _text(_first(method, "type_literal")))
        sheet.add(method, "function", _text(_first(method, "simple_name")), level=1, parameters=taken, returns=returns)


def _powershell_parameter(node: Node) -> Parameter:
    listed = _text(_first(node, "attribute_list", "type_literal"))
    kinds = list(re.findall(r"\[((?:[^\[\]()]|\[\w*\])+)\]", listed))
    return Parameter(_text(_first(node, "variable")), kinds[-1] if kinds else "", _ASKED_OF not in listed.lower())


# OCaml


def _ocaml(sheet: Sheet, root: Node) -> None:
    _ocaml_scope(sheet, root.named_children, 0)


def _ocaml_scope(sheet: Sheet, nodes: list[Node], level: int) -> None:
    for node in nodes:
        if node.type == "value_definition":
            for number, one in enumerate(node.named_children):
                if one.type == "let_binding":
                    _ocaml_value(sheet, one, one if number else node, level)
        elif node.type in {"value_specification", "external"}:
            kinds = re.split(r"\s*->\s*(?![^(]*\))", flat(_text(node.child_by_field_name("type"))))
            taken = [Parameter("", kind) for kind in kinds[:-1]]
            kind = "function" if taken else "value"
            name = _text(_first(node, "value_name", "parenthesized_operator"))
            sheet.add(node, kind, name, level=level, parameters=taken or None, returns=kinds[-1])
        elif node.type == "type_definition":
            for number, one in enumerate(node.named_children):
                if one.type == "type_binding":
                    _ocaml_type(sheet, one, one if number else node, level)
        elif node.type == "exception_definition":
            said = flat(_text(node).removeprefix("exception").strip())
            sheet.add(node, "type", said.partition(" ")[0], level=level, returns=("exception " + said.partition(" ")[2]).strip())
        elif node.type in {"module_definition", "module_type_definition", "class_definition"}:
            _ocaml_holder(sheet, node, level)
        elif node.type == "open_module":
            sheet.imports.append(_text(node.child_by_field_name("module")))


def _ocaml_value(sheet: Sheet, node: Node, place: Node, level: int) -> None:
    pattern, body = node.child_by_field_name("pattern"), node.child_by_field_name("body")
    if pattern is None or pattern.type not in {"value_name", "parenthesized_operator"}:
        return
    taken = [c for c in node.named_children if c.type == "parameter"]
    if not taken and body is not None and body.type == "fun_expression":
        taken = [c for c in body.named_children if c.type == "parameter"]
    called = bool(taken) or (body is not None and body.type in {"fun_expression", "function_expression"})
    parameters = [_ocaml_parameter(flat(_text(c))) for c in taken] or [Parameter("_")]
    returns = flat(_text(node.child_by_field_name("type")))
    exported = not _text(pattern).startswith("_")
    kind = "function" if called else "value"
    sheet.add(place, kind, _text(pattern), level=level, exported=exported, parameters=parameters if called else None, returns=returns)


def _ocaml_parameter(said: str) -> Parameter:
    if match := re.fullmatch(r"\?\(?(\w+)(?: ?: ?([^=]+?))?(?: = .*)?\)?", said):
        return Parameter(f"~{match[1]}", match[2] or "", optional=True)
    if match := re.fullmatch(r"(~?)\(([\w']+) ?: ?(.*)\)", said):
        return Parameter(match[1] + match[2], match[3])
    return Parameter(said)


def _ocaml_type(sheet: Sheet, node: Node, place: Node, level: int) -> None:
    body, name = node.child_by_field_name("body"), _text(node.child_by_field_name("name"))
    generics = ", ".join(_text(c) for c in node.named_children if c.type == "type_variable")
    kind, returns, members = "type", "", list[str]()
    if body is not None and body.type == "record_declaration":
        kind = "class"
        members = [re.sub(r"^mutable |\s*;$", "", flat(_text(c))).replace(" : ", ":", 1) for c in _below(body, "field_declaration")]
    elif body is not None and body.type == "variant_declaration":
        kind, members = "enum", [flat(_text(c)) for c in _below(body, "constructor_declaration")]
    elif body is not None:
        returns = flat(_text(body))
    sheet.add(place, kind, name, level=level, generics=generics, returns=returns, members=members)


def _ocaml_holder(sheet: Sheet, node: Node, level: int) -> None:
    held = _first(node, "module_binding", "class_binding") or node
    name = _text(_first(held, "module_name", "module_type_name", "class_name"))
    kind = {"module_definition": "module", "module_type_definition": "interface"}.get(node.type, "class")
    taken = [_ocaml_parameter(flat(_text(c))) for c in held.named_children if c.type == "parameter"] if kind == "class" else []
    for one in (c for c in held.named_children if c.type == "module_parameter"):
        given, _, asked = flat(_text(one)).strip("()").partition(" : ")
        taken.append(Parameter(given, asked))
    inherited = [_text(c).partition("inherit")[2].strip() for c in _below(held, "inheritance_definition")] if kind == "class" else []
    sheet.add(node, kind, name, level=level, parameters=taken or None, returns=flat(", ".join(inherited)))
    body = held.child_by_field_name("body") or held.child_by_field_name("module_type")
    if body is None or level >= _DEEPEST:
        return
    for one in _below(body, "method_definition") if kind == "class" else []:
        parameters = [_ocaml_parameter(flat(_text(c))) for c in one.named_children if c.type == "parameter"]
        hidden = re.match(r"method!?\s+(?:virtual\s+)?private\b", _text(one)) is not None
        sheet.add(one, "function", _text(_first(one, "method_name")), level=level + 1, exported=not hidden, parameters=parameters)
    if kind != "class":
        _ocaml_scope(sheet, body.named_children, level + 1)


# Julia


def _julia(sheet: Sheet, root: Node) -> None:
    _julia_scope(sheet, root.named_children, 0)


def _julia_scope(sheet: Sheet, nodes: list[Node], level: int) -> None:
    for node in nodes:
        if node.type in {"export_statement", "public_statement"}:
            sheet.exports |= set(re.findall(r"[@\w!]+", _text(node))[1:])
        elif node.type in {"using_statement", "import_statement"}:
            sheet.imports.append(flat(_text(node).partition(" ")[2].partition(":")[0]))
        elif node.type == "module_definition":
            sheet.add(node, "module", _text(node.child_by_field_name("name")), level=level)
            if level < _DEEPEST:
                _julia_scope(sheet, node.named_children, level + 1)
        elif node.type in {"function_definition", "macro_definition"}:
            said = flat(_text(_first(node, "signature")))
            _julia_function(sheet, node, ("@" if node.type.startswith("macro") else "") + said, level)
        elif node.type == "assignment" and node.named_children[0].type in {"call_expression", "typed_expression", "where_expression"}:
            if re.match(r"\(\w*::[^()]*\)\(|[\w.!]+(?:\{[^}]*\})?\(", said := flat(_text(node.named_children[0]))):
                _julia_function(sheet, node, said, level)
        elif node.type == "const_statement":
            sheet.add(node, "value", flat(_text(node)[5:].partition("=")[0]).partition("::")[0].strip(), level=level, exported=False)
        elif node.type in {"struct_definition", "abstract_definition"}:
            head = flat(_text(_first(node, "type_head")))
            name, _, base = head.partition(" <: ")
            fields = [_julia_field(c) for c in node.named_children if c.type in _JULIA_FIELDS and "(" not in _text(c).partition("=")[0]]
            kind, plain, generics = "class" if node.type[0] == "s" else "interface", name.partition("{")[0], name.partition("{")[2][:-1]
            sheet.add(node, kind, plain, level=level, exported=False, returns=base, generics=generics, members=fields)
        elif node.type == "macrocall_expression" and (match := re.match(r"@enum\s+(\w+)(?:::\w+)?\s+(?:begin\s+)?(.*)", flat(_text(node)))):
            members = re.findall(r"([A-Za-z_]\w*)(?:\s*=\s*\S+)?", re.sub(r"\bend$", "", match[2]))
            sheet.add(node, "enum", match[1], level=level, exported=False, members=members)
        elif node.type == "macrocall_expression" and level < _DEEPEST:  # what a macro is put before: @inline function f() end
            _julia_scope(sheet, [c for part in node.named_children if "argument" in part.type for c in part.named_children], level)


_JULIA_FIELDS = frozenset({"identifier", "typed_expression", "assignment"})


def _julia_field(node: Node) -> str:
    """Return a field as ``name:type``; one that has a default may be left out."""
    said, _, default = flat(_text(node)).partition(" = ")
    name, _, written = said.partition("::")
    return f"{name}{'?' if default else ''}{f':{written}' if written else ''}"


def _julia_function(sheet: Sheet, node: Node, said: str, level: int) -> None:
    called = re.match(r"\(\w*::[^()]*\)(?=\()", said)  # an object that is called
    name, _, rest = (called[0], "(", said[called.end() + 1 :]) if called else said.partition("(")
    depth, end = 1, len(rest)
    for place, letter in enumerate(rest):
        depth += (letter in "([{") - (letter in ")]}")
        if not depth:
            end = place
            break
    taken: list[Parameter] = []
    listed = re.split(r"([,;])\s*(?![^(\[{]*[)\]}])", rest[:end])
    for part in listed:
        if part == ";":
            taken.append(Parameter("*"))
        elif part != "," and part.strip():
            (one,) = list(parameter(re.sub(r"(?<=\w)::", ":", part.strip(), count=1), "name"))[:1] or [Parameter(part.strip())]
            taken.append(one)
    plain, _, generics = (name, "", "") if called else name.strip().partition("{")
    returns = re.match(r"::([^ ]+)", rest[end + 1 :])
    made = returns[1] if returns else ""
    sheet.add(node, "function", plain, level=level, exported=False, parameters=taken, returns=made, generics=generics.rstrip("}"))


LANGUAGES: dict[str, tuple[str, Callable[[Sheet, Node], None]]] = {
    "julia": ("tree_sitter_julia", _julia),
    "ocaml": ("tree_sitter_ocaml", _ocaml),
    "perl": ("tree_sitter_perl", _perl),
    "powershell": ("tree_sitter_powershell", _powershell),
    "sql": ("tree_sitter_sql", _sql),
}
"""language -> the package that carries its grammar, and what reads its tree"""
