"""Fields, properties and members of enums: what a class or an enum holds that is neither called nor a constant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures.parts import flat, returned_by
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ast_grep_py import SgNode

LONGEST = 60
"""Characters of the type of a field, or of a member of an enum with what it carries."""

_WITH_A_PAYLOAD = frozenset({"enum_variant"})
"""Members that are written with the types that they carry."""

_DECLARATORS = frozenset({"variable_declarator", "property_element", "initialized_identifier", "variable_declaration", "field_name"})
_NAMED = frozenset(
    [
        "identifier",
        "simple_identifier",
        "property_identifier",
        "private_property_identifier",
        "field_identifier",
        "type_identifier",
        "variable_name",
        "pattern",
        "name",
        "string",
        "variable",
        "computed_property_name",
    ]
)
_LEFT_OUT = {"python": "=", "typescript": "?", "tsx": "?", "zig": "="}
"""language -> the token of a field that need not be given"""


def fields_of(node: SgNode, language: str) -> list[str]:
    """Return the fields that a node declares, each as ``name:type``; ``name?`` where it need not be given.

    A member of an enum comes with what it carries, as ``Circle(f64)``.
    """
    kind = node.kind()
    if language == "haskell":
        return _haskell(node)
    if kind == "type_elem":  # what an interface of Go is made from
        return [truncate(flat(node.text()), LONGEST)]
    if kind == "ordered_field_declaration_list":
        kinds = [flat(c.text()) for c in node.children() if c.is_named() and c.kind() not in {"visibility_modifier", "attribute_item"}]
        return [f"{place}:{truncate(kind, LONGEST)}" for place, kind in enumerate(kinds)]
    if kind in _WITH_A_PAYLOAD:
        return [truncate(flat(re.sub(r"^(?:#\[[^\]]*\]\s*)+|\s*=\s*[^({]*$", "", _without_comments(node))), LONGEST)]
    if kind in {"index_signature", "construct_signature", "call_signature"}:
        return [truncate(flat(node.text()).removeprefix("readonly "), LONGEST)]
    if kind == "full_enum_case":
        return [truncate(flat(node.text().partition(" extends ")[0]), LONGEST)]
    if kind == "enum_entry" and language == "swift":
        return _swift_cases(node)
    if language in {"c", "cpp"} and kind == "field_declaration":
        return _of_c(node)
    names = [flat(node.text())] if kind in _NAMED or not node.children() else list(dict.fromkeys(_names(node)))
    if kind == "field_declaration" and language == "go" and not node.field_children("name"):
        return [truncate(flat(node.text().partition("`")[0]), LONGEST)]
    written = "" if kind in _VALUES_ALONE else truncate(_type(node, language), LONGEST)
    above = node.parent()
    mark = "?" if any(c.kind() == _LEFT_OUT.get(language) for c in node.children()) else ""
    if language == "zig" and above is not None and above.kind() != "struct_declaration":
        mark = ""
    return [f"{name}{mark}:{written}" if written else f"{name}{mark}" for name in names]


_VALUES_ALONE = frozenset(
    {"enumerator", "enum_constant", "enum_member_declaration", "enum_assignment", "enum_entry", "enum_case", "enum_value"}
)


def _without_comments(node: SgNode) -> str:
    text = node.text()
    for child in node.find_all(any=[{"kind": kind} for kind in ("line_comment", "block_comment")]) if "//" in text or "/*" in text else []:
        text = text.replace(child.text(), " ")
    return text


def _names(node: SgNode) -> Iterator[str]:
    given = (
        node.field_children("name") or node.field_children("declarator") or node.field_children("pattern") or node.field_children("left")
    )
    for one in given:
        yield from _bare(one)
    if given:
        return
    held = [c for c in node.children() if c.kind() in _DECLARATORS]
    if not held and node.kind() not in _DECLARATORS and (own := [c for c in node.children() if c.kind() in _NAMED]):
        patterns = [c for c in own if c.kind() == "pattern"]
        typed = node.kind() in {"struct_member", "state_variable_declaration", "event_declaration", "property_declaration"}
        yield from (name for c in (patterns or (own[-1:] if typed else own[:1])) for name in _bare(c))
        return
    for one in held or [node]:
        deeper = [c for c in one.children() if c.kind() in _DECLARATORS]
        if deeper:
            yield from _names(one)
        elif (first := one.field("name") or next((c for c in one.children() if c.kind() in _NAMED), None)) is not None:
            yield from _bare(first)


def _bare(node: SgNode) -> Iterator[str]:
    """Yield the name inside a declarator, without its pointer marks and its length."""
    found = node
    for _ in range(8):
        deeper = found.field("declarator") or found.field("name")
        if deeper is None and found.kind() in {"pattern", "parenthesized_declarator", "reference_declarator"}:
            deeper = next((c for c in reversed(found.children()) if c.is_named()), None)
        if deeper is None:
            break
        found = deeper
    text = flat(found.text())
    if re.fullmatch(r"\[?[\w$#@\"'.\-]{1,200}\]?", text):
        yield text


def _type(node: SgNode, language: str) -> str:
    held = node.field("type")
    if held is None and language == "csharp":
        inner = next((c for c in node.children() if c.kind() == "variable_declaration"), None)
        held = inner.field("type") if inner is not None else None
    if held is None and language in {"dart", "solidity"}:
        place = node.parent() if node.kind() == "initialized_identifier" else node
        place = place.parent() if place is not None and place.kind() == "initialized_identifier_list" else place
        held = next((c for c in place.children() if c.kind() in {"type", "type_name"}), None) if place is not None else None
    if held is not None:
        text = flat(held.text()).removeprefix(":").strip()
        if held.kind() in {"struct_specifier", "union_specifier", "enum_specifier"} and "{" in text:
            return text.partition("{")[0].strip()
        return text
    return returned_by(node)


def _of_c(node: SgNode) -> list[str]:
    """Return fields with the marks of their declarators behind the type: ``char*``, ``int[3]``, ``int(*)(int)``."""
    written, found = _type(node, "c"), []
    for declarator in node.field_children("declarator"):
        text = flat(declarator.text())
        name = next(_bare(declarator), "") or next((c.text() for c in declarator.find_all(kind="field_identifier")), "")
        if name:
            marks = re.sub(rf"\b{re.escape(name)}\b", "", text, count=1).replace(" ", "")
            found.append(f"{name}:{truncate(f'{written}{marks}', LONGEST)}")
    return found


def _haskell(node: SgNode) -> list[str]:
    """Return a constructor with the types it takes; of a record its name, then its fields."""
    fields = [c for c in node.find_all(kind="field") if any(n.kind() == "field_name" for n in c.children())]
    if not fields:
        return [truncate(flat(re.sub(r"\{-#.*?#-\}", "", node.text())), LONGEST)]
    names = [
        (c.text(), flat(re.sub(r"\{-#.*?#-\}", "", one.text().partition("::")[2])))
        for one in fields
        for c in one.children()
        if c.kind() == "field_name"
    ]
    return [flat(node.text().partition("{")[0]).rstrip(": "), *(f"{name}:{truncate(kind, LONGEST)}" for name, kind in names)]


def _swift_cases(node: SgNode) -> list[str]:
    found: list[str] = []
    for child in node.children():
        if child.kind() == "simple_identifier":
            found.append(child.text())
        elif child.kind() == "enum_type_parameters" and found:
            found[-1] += truncate(flat(child.text()), LONGEST)
    return found
