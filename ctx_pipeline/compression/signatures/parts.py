"""The parts of one declaration: its name, parameters, type and documentation, out of syntax nodes."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression.signatures.symbols import NEXT_LIST, Parameter
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ast_grep_py import SgNode

    from ctx_pipeline.compression.signatures.grammars import Grammar


class Around(NamedTuple):
    """Where a declaration stands."""

    level: int
    """how many declarations it stands in"""
    said: SgNode
    """what carries its documentation"""
    shown: bool
    """others can reach what it stands in"""


_NAMES = frozenset(
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
        "alias",
        "setter",
        "prefix_id",
        "module_id",
    ]
)
_NAMED_BY_WORDS = frozenset(
    [
        "constructor_signature",
        "constant_constructor_signature",
        "factory_constructor_signature",
        "redirecting_factory_constructor_signature",
    ]
)
"""Constructors whose name has parts: ``Reader.fromBytes``."""

_KEYWORDS = {
    "secondary_constructor": "constructor",
    "init_declaration": "init",
    "deinit_declaration": "deinit",
    "subscript_declaration": "subscript",
}
_LISTS = frozenset(
    [
        "parameters",
        "formal_parameters",
        "parameter_list",
        "function_value_parameters",
        "method_parameters",
        "class_parameters",
        "primary_constructor",
        "formal_parameter_list",
        "preproc_params",
        "bracketed_parameter_list",
    ]
)
_SEVERAL = frozenset({"parameters", "class_parameters"})
"""lists of which a callable may have several, in Scala"""
_LOOSE = frozenset({"parameter", "event_parameter", "error_parameter"})
_TYPES = frozenset(["user_type", "nullable_type", "function_type", "type", "type_annotation"])
_MARKS = re.compile(r"^\s*(?:/\*[*!]?|//[/!]?|\*/|\*(?!\*)|#+!?|--+\s?\|?|;+)?\s?|\s*\*/\s*$")
_TAGS = re.compile(r"</?[a-z]+[^<>]{0,80}>")
_STRING = re.compile(r"""^[a-zA-Z]{0,2}(?:\"\"\"|'''|"|')(.*?)(?:\"\"\"|'''|"|')$""", re.DOTALL)
_OPEN, _CLOSED = "([{<", ")]}>"
_LAST_NAME = re.compile(r"([$\w]+)((?:\s*\[[^\]]*\])*)$")
_CHAIN = ("declarator", "name")
LONGEST_DOC = 120
"""Characters of the first line of a documentation."""

_LONGEST = 300
_ANNOTATED, _MOST_ANNOTATED = "Annotated[", 20
_TEXTS = re.compile(r"\"[^\"]*\"|'[^']*'")
"""Characters of a type or a default: a written-out object type is as long as its body."""


def flat(text: str) -> str:
    """Return code as one line without blanks inside brackets' edges, and without what ``Annotated`` says beside a type."""
    joined = " ".join(text.split())
    if _ANNOTATED in joined:
        joined = _plain_types(joined)
    joined = re.sub(r"(?<=[(\[<]) | (?=[)\],;]|>(?![:=]))|,(?= ?[)\]])", "", joined)
    return truncate(joined, _LONGEST)


def _plain_types(text: str) -> str:
    """Return types of Python without what ``Annotated`` says beside them, the inner ones first; as they are where a bracket stays open."""
    for _ in range(_MOST_ANNOTATED):
        before, word, inside = text.rpartition(_ANNOTATED)
        if not word:
            break
        depth, comma = 0, -1
        for place, letter in enumerate(_TEXTS.sub(lambda match: " " * len(match[0]), inside)):
            if letter == "]" and not depth:
                text = before + inside[: comma if comma >= 0 else place] + inside[place + 1 :]
                break
            depth += (letter in "([{") - (letter in ")]}")
            if letter == "," and not depth and comma < 0:
                comma = place
        else:
            break
    return text


_AROUND = frozenset({"parenthesized_declarator", "reference_declarator"})
"""declarators that hold another without a name of its field"""


def name_of(node: SgNode) -> str:
    """Return the name that a declaration gives, empty where it has none."""
    if node.kind() in _NAMED_BY_WORDS:
        return flat(re.sub(r"^(?:const|factory|external|\s)*\s", "", f" {node.text().partition('(')[0].partition('=>')[0]}")).strip()
    if node.kind() == "operator_signature":
        return flat(node.text().partition("operator")[2].partition("(")[0].join(("operator ", "")))
    if node.kind() in {"operator_declaration", "conversion_operator_declaration"}:
        return flat(f"operator{node.text().partition('operator')[2].partition('(')[0]}")
    if node.kind() == "destructor_declaration":
        return "~" + next((c.text() for c in node.children() if c.kind() == "identifier"), "")
    if (explicit := next((c for c in node.children() if c.kind() == "explicit_interface_specifier"), None)) is not None:
        named = node.field("name")
        return flat(explicit.text()) + (named.text() if named is not None else "")
    if node.kind() == "singleton_method":
        return flat(re.split(r"[\s(;]", node.text().partition("def ")[2].strip())[0])
    if node.kind() == "indexer_declaration":
        return "this[]"
    if node.kind() == "companion_object":
        return next((c.text() for c in node.children() if c.kind() == "type_identifier"), "Companion")
    if node.kind() in _KEYWORDS:
        failing = any(c.kind() == "?" for c in node.children())
        return _KEYWORDS[node.kind()] + ("?" if failing else "")
    found = node.field("name") or node.field("left") or node.field("pattern") or node.field("declarator")
    for _ in range(8):
        if found is None:
            break
        if found.kind() in _AROUND and found.field("declarator") is None:
            found = next((c for c in reversed(found.children()) if c.is_named()), None)
            continue
        inner = next((deeper for field in _CHAIN if (deeper := found.field(field)) is not None and deeper.range() != found.range()), None)
        if inner is None or found.kind() in _NAMES:
            break
        if found.kind() in {"qualified_identifier", "operator_cast"}:
            return flat(found.text().partition("(")[0] if "operator()" not in found.text() else found.text())
        found = inner
    if found is None:
        held = next((child for child in node.children() if child.kind() in {"variable_declaration", "variable_list"}), node)
        found = next((child for child in held.children() if child.kind() in _NAMES or child.kind() == "dot_index_expression"), None)
    if found is None:
        return ""
    if found.kind() == "setter":
        return flat(found.text()).replace(" ", "")
    text = flat(found.text())
    return re.sub(r"[*&()]|\[[^\]]*\]", "", text).strip() if found.kind().endswith("declarator") else text


def function_of(node: SgNode) -> SgNode:
    """Return the node that holds the parameters of what is declared: in C the innermost, of a function that gives back a pointer to one."""
    found: SgNode | None = node
    function = node
    for _ in range(10):
        if found is None:
            break
        function = found if found.kind() == "function_declarator" else function
        deeper = found.field("declarator")
        if deeper is None and found.kind() in _AROUND:
            deeper = next((c for c in reversed(found.children()) if c.is_named()), None)
        found = deeper
    return function


def around_function(declared: SgNode, function: SgNode) -> str:
    """Return what a declarator in C says of what its function gives back: ``*``, or `` (*)(int)`` of a pointer to a function."""
    rest = flat(declared.text().replace(function.text(), "", 1))
    return f" {rest}" if re.match(r"[*&]*\([*&]", rest) else "".join(re.findall(r"^[*&]+", declared.text()))


def parameters_of(node: SgNode, grammar: Grammar) -> tuple[Parameter, ...] | None:
    """Return the parameters of a callable, None where it takes none by its form."""
    held = node.field("parameters")
    if held is None or (held.kind() not in _LISTS and held.kind() not in _NAMES):
        held = next((child for child in node.children() if child.kind() in _LISTS), None)
    if held is None:
        loose = [child for child in takewhile(lambda c: c.kind() != "returns", node.children()) if child.kind() in _LOOSE]
        texts = [flat(child.text()) + _default_behind(child) for child in loose]
    elif held.kind() in _NAMES:
        return (Parameter(flat(held.text())),)
    else:
        texts = list(_texts(held))
        for more in (child for child in node.children() if child.kind() in _SEVERAL and child.range() != held.range()):
            texts += [NEXT_LIST.name, *_texts(more)]
    if held is None and not texts:
        return ()
    return tuple(found for text in texts for found in parameter(text, grammar.order))


def _texts(held: SgNode) -> Iterator[str]:
    """Yield the entries of a list of parameters: what stands between its commas, so that those inside types part nothing."""
    whole, children = held.text(), held.children()
    group: list[tuple[int, int]] = []
    for child, place in zip([*children, None], [*places_in(held, children), (0, 0)], strict=True):
        if child is None or child.kind() in {",", ";"}:
            if group:
                yield flat(whole[group[0][0] : group[-1][1]])
            group = []
        elif child.kind() in {"optional_formal_parameters", "named_formal_parameters"}:
            if child.text().startswith("{"):
                yield "*"
            yield from (text if "=" in text or text.startswith("required ") else f"{text}=" for text in _texts(child))
        elif "comment" not in child.kind() and (child.is_named() or child.kind() not in {"(", ")", "{", "}", "[", "]", "|"}):
            group.append(place)


def places_in(held: SgNode, children: Iterable[SgNode]) -> Iterator[tuple[int, int]]:
    """Yield where each child of a node, in their order, begins and ends in its text.

    A parser counts the characters of the line up to a node each time that it is asked: it is where more than white space
    lies between two.
    """
    whole, done = held.text(), 0
    for child in children:
        text = child.text()
        start = whole.find(text, done) if text else -1
        if start < 0 or whole[done:start].strip():
            start = child.range().start.index - held.range().start.index
        done = start + len(text)
        yield start, done


def text_before(part: SgNode, outer: SgNode) -> str:
    """Return the text of a node up to one inside it."""
    children = outer.children()
    if part in children:
        *_, (start, _) = places_in(outer, children[: children.index(part) + 1])
    else:
        start = part.range().start.index - outer.range().start.index
    return outer.text()[:start]


def _default_behind(child: SgNode) -> str:
    behind = child.next()
    return "=" if behind is not None and behind.kind() == "=" else ""


def parameter(text: str, order: str) -> Iterator[Parameter]:
    """Yield the parameters that one entry of a list declares; ``a, b int`` of Go declares two."""
    text = _FIELD_GIVEN.sub(r"\1", text)
    text = _ANNOTATED_PARAMETER.sub("", text) if order != "keyword" else text
    place = _top_level(text, "=")
    optional, text = place >= 0, text[:place].rstrip() if place >= 0 else text
    if text == "void":
        return
    colon = _top_level(text, ":")
    if order == "keyword":
        yield Parameter(text[: colon + 1] or text, "", optional or bool(colon >= 0 and text[colon + 1 :].strip()))
    elif colon > 0 and text[colon : colon + 2] != "::":
        name, kind = text[:colon].strip(), text[colon + 1 :].strip()
        hidden = re.match(r"(?:private|protected)\b", name)
        name = re.sub(r"^(?:(?:private|public|protected|readonly|override|internal|final) )+", "", name)
        name = re.sub(r"\b(?:val|var) ", "", name) if hidden else name
        yield Parameter(name.rstrip("?"), kind, optional or name.endswith("?"))
    elif order == "type" and (match := _LAST_NAME.search(text)) and match.start():
        before, mark = text[: match.start()].strip(), ""
        if match[1].startswith("$") and (marked := re.search(r"[.&]+$", before)):
            before, mark = before[: marked.start()], marked[0]
        words = [word for word in before.split() if word not in _NO_TYPE and (match[1][:1] != "$" or word not in _PROMOTES)]
        yield Parameter(mark + match[1], " ".join(words) + match[2], optional)
    elif order == "name" and " " in text and re.match(r"\w+(?:, \w+)* ", text):
        names, kind = _go(text)
        yield from (Parameter(name, kind, optional) for name in names)
    else:
        yield Parameter(text, "", optional)


_NO_TYPE = frozenset({"final", "memory", "calldata", "storage", "required"})
_PROMOTES = frozenset({"public", "private", "protected", "readonly"})
"""words by which a constructor of PHP makes a property of its parameter"""
_ANNOTATED_PARAMETER = re.compile(r"^(?:(?:@[\w.]+(?:\([^()]*\))?|\[[A-Z][^\[\]]*\]|#\[[^\[\]]*\]) ?)+")
_FIELD_GIVEN = re.compile(r"^((?:(?:required|covariant|final) )*)(?:this|super)\.")
"""a parameter of Dart that is named by the field it fills"""


def _go(text: str) -> tuple[list[str], str]:
    """Return the names and the type of ``a, b int``."""
    match = re.match(r"((?:\w+, )*\w+) (.+)", text)
    return (match[1].split(", "), match[2]) if match else ([text], "")


def _top_level(text: str, mark: str) -> int:
    """Return where a mark stands outside all brackets, -1 for nowhere; ``=>``, ``==``, ``->`` and ``<=`` are no marks."""
    depth = 0
    for place, letter in enumerate(text):
        around = text[max(0, place - 1) : place + 2]
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSED:
            if not (letter == ">" and around[:1] in "-="):
                depth = max(0, depth - 1)
        elif letter == mark and not depth and around[1:] not in {"=>", "=="} and around[:2] not in {"==", "<=", ">=", "!="}:
            return place
    return -1


def returned_by(node: SgNode) -> str:
    """Return the type that a declaration is written with, empty where none is."""
    found = next((held for field in ("return_type", "result", "returns", "type") if (held := node.field(field)) is not None), None)
    if found is None:
        seen = False
        for child in node.children():
            seen = seen or child.kind() in _LISTS or child.kind() in {"variable_declaration", "pattern"}
            if child.kind() == "variable_declaration":
                found = next((inner for inner in child.children() if inner.kind() in _TYPES), None)
            elif seen and child.kind() in _TYPES and found is None:
                found = child
    if found is None:
        return ""
    text = flat(found.text()).removeprefix(":").removeprefix("->").strip()
    if match := re.match(r"returns ?\((.*)\)$", text):
        return re.sub(r" (?:memory|calldata|storage)\b", "", match[1])
    return text


_HERITAGE = frozenset(
    [
        "argument_list",
        "superclass",
        "super_interfaces",
        "extends_interfaces",
        "class_heritage",
        "extends_type_clause",
        "base_class_clause",
        "base_list",
        "delegation_specifiers",
        "inheritance_specifier",
        "base_clause",
        "class_interface_clause",
        "extends_clause",
        "interfaces",
        "delegation_specifier",
        "trait_bounds",
    ]
)
"""Nodes that hold what a class is made from."""


def bases_of(node: SgNode) -> str:
    """Return what a class or an interface is made from, as written, without the words before it; empty for what is made from nothing."""
    held = [flat(child.text().partition("{")[0]) for child in node.children() if child.kind() in _HERITAGE]
    mixed = [c for c in node.children() if c.kind() == "type"] if node.kind() == "mixin_declaration" else []
    held += [f"on {flat(child.text())}" for child in mixed]
    bodies = [c for c in node.children() if c.kind() == "declaration_list"]
    held += [flat(c.text()).rstrip(";").partition("{")[0] for body in bodies for c in body.children() if c.kind() == "use_declaration"]
    bare = [re.sub(r"^(?:\(|:|<|extends\b|implements\b|with\b)\s*", "", text).rstrip(")" if text.startswith("(") else "") for text in held]
    return ", ".join(text.strip() for text in bare if text.strip())


def callbacks_of(node: SgNode) -> list[SgNode]:
    """Return the functions that a call is given, or that it calls at once."""
    held = node.field("arguments")
    given = list(held.children()) if held is not None else []
    if (called := node.field("function")) is not None:
        given.append(called)
    given += [inner for c in given if c.kind() == "parenthesized_expression" for inner in c.children()]
    return [c for c in given if c.kind() in FUNCTIONS]


_WRAPS = re.compile(r"(?:\w+\.)?(?:forwardRef|memo|observer|useCallback)$")


def wrapped_by(value: SgNode | None) -> SgNode | None:
    """Return the function or the object inside what a script wraps: ``memo(forwardRef((props) => ...))``, ``{} as const``."""
    for _ in range(4):
        if value is None:
            break
        called, inner = value.field("function"), None
        if value.kind() in {"as_expression", "satisfies_expression"}:
            inner = value.children()[0]
        elif value.kind() == "call_expression" and called is not None and _WRAPS.fullmatch(called.text()):
            held = value.field("arguments")
            wrapped = FUNCTIONS | {"call_expression"}
            inner = next((c for c in held.children() if c.kind() in wrapped), None) if held is not None else None
        if inner is None:
            break
        value = inner
    return value


_EXTENDS = re.compile(r"(?:[\w$]+\.)*(?:extend|freeze|assign|createSlice|define[A-Z]\w*)$")


def objects_of(value: SgNode | None) -> list[SgNode]:
    """Return an object, or those from which a call makes one that has their functions: ``Component.extend({...})``."""
    if value is None or value.kind() == "object":
        return [value] if value is not None else []
    called, held = value.field("function"), value.field("arguments")
    if value.kind() != "call_expression" or called is None or held is None or not _EXTENDS.fullmatch(called.text()):
        return []
    return [c for c in held.children() if c.kind() == "object"]


def typed_by(call: SgNode, parameters: tuple[Parameter, ...] | None) -> tuple[Parameter, ...] | None:
    """Return the parameters of a component with the types that its wrapper was given: ``forwardRef<Element, Props>``."""
    given, called = next((c for c in call.children() if c.kind() == "type_arguments"), None), call.field("function")
    kinds = [flat(c.text()) for c in given.children() if c.is_named()] if given is not None else []
    if called is not None and called.text().endswith("forwardRef") and len(kinds) == 2:
        kinds = [kinds[1], f"ForwardedRef<{kinds[0]}>"]
    elif len(kinds) != 1:
        return parameters
    untyped = [p if p.type else p._replace(type=kind) for p, kind in zip(parameters or (), kinds, strict=False)]
    return (*untyped, *(parameters or ())[len(untyped) :])


def keys_of(value: SgNode) -> list[str]:
    """Return the keys of an object that hold no functions, with the types of what is written out."""
    found = list[str]()
    for held in value.children():
        inner, key = held.field("value"), held.field("key")
        if held.kind() == "pair" and key is not None and inner is not None and inner.kind() not in FUNCTIONS:
            name, kind = key.text().strip("'\""), inferred(inner)
            if re.fullmatch(r"[^\s\"'`\\:(){},\[\]]{1,100}", name):
                name = name if re.fullmatch(r"[\w$]+", name) else f'"{name}"'
                found.append(f"{name}:{kind}" if kind else name)
        elif held.kind() == "shorthand_property_identifier":
            found.append(held.text())
    return found


def generics_of(node: SgNode) -> str:
    """Return the type parameters of a declaration without their brackets."""
    kinds = ("type_parameters", "type_parameter_list", "type_parameter")
    found = node.field("type_parameters") or next((child for child in node.children() if child.kind() in kinds), None)
    return flat(found.text())[1:-1] if found is not None else ""


def inferred(value: SgNode | None) -> str:
    """Return the type of a literal: string, number or boolean; empty for everything else."""
    for _ in range(4):
        if value is None or value.kind() not in {"expression_list", "expression"} or len(value.children()) != 1:
            break
        value = value.children()[0]
    kind = value.kind() if value is not None else ""
    if "string" in kind and "interpol" not in kind.replace("interpreted", ""):
        return "string"
    if kind in {"true", "false", "boolean", "boolean_literal", "bool_literal"}:
        return "boolean"
    if kind in {"integer", "float", "number"} or kind.endswith(("int_literal", "integer_literal", "number_literal", "float_literal")):
        return "number"
    return ""


def documented(node: SgNode, grammar: Grammar) -> str:
    """Return the first line of a declaration's documentation: of its docstring, else of the comment that stands right above it."""
    body = node.field("body")
    first = next((child for child in body.children() if child.is_named()), None) if body is not None and body.kind() == "block" else None
    if first is not None and first.kind() == "expression_statement" and (match := _STRING.match(first.text().strip())):
        return first_line(match[1])
    lines: list[str] = []
    above, around = node.prev(), node.parent()
    if above is None and around is not None and around.kind() == "declarations":
        above = around.prev()
    line = None
    while above is not None and (above.kind() in grammar.comments or above.kind() in _BETWEEN):
        line = node.range().start.line if line is None else line
        place = above.range()
        ends = _last_line(above)
        if ends < line - 1 or ends > line:
            break
        if above.kind() in grammar.comments and not above.text().startswith("#!"):
            before = above.prev()
            if before is not None and before.kind() not in grammar.comments and _last_line(before) == place.start.line:
                break  # it stands behind the code of its line
            lines.insert(0, above.text())
        elif above.kind() not in _BETWEEN:
            break
        line, above = place.start.line, above.prev()
    return first_line("\n".join(lines))


_BETWEEN = frozenset({"attribute_item", "decorator", "annotation", "marker_annotation"})
"""What stands between a declaration and the comment above it."""


def _last_line(node: SgNode) -> int:
    """Return the last line of a node, from 0; some grammars count the line end in."""
    place = node.range()
    return place.end.line - (1 if place.end.column == 0 and place.end.line > place.start.line else 0)


def first_line(text: str) -> str:
    """Return the first line of a documentation that says something, without marks of comments and markup."""
    for line in text.splitlines():
        said = _TAGS.sub("", _MARKS.sub("", _MARKS.sub("", line))).strip()
        said = re.sub(r"^@(?:notice|title|brief|summary|dev)\s+", "", said)
        if re.search(r"\w", said) and not said.startswith("@"):
            return truncate(said, LONGEST_DOC)
    return ""


FUNCTIONS = frozenset({"arrow_function", "function_expression", "function", "function_definition", "generator_function"})
"""Values that are functions."""


def meant(node: SgNode, name: str) -> str:
    """Return what an alias stands for; empty for an object, whose members are told below it."""
    value = node.field("value") or node.field("right") or node.field("type")
    value = value or next((c for c in reversed(node.children()) if c.is_named() and c.text() != name), None)
    if value is None or (value.kind() == "object_type" and value.find(kind="mapped_type_clause") is None):
        return ""
    return flat(value.text()).removeprefix(": ")
