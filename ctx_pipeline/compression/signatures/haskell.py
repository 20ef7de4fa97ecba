"""Haskell: types of functions stand alone, and the head of a module says what it exports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures.fields import fields_of
from ctx_pipeline.compression.signatures.parts import flat, name_of
from ctx_pipeline.compression.signatures.symbols import Parameter

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from ctx_pipeline.compression.signatures.drawing import Drawing
    from ctx_pipeline.compression.signatures.parts import Around


def constructor(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A constructor comes with what it takes."""
    drawing.fields.setdefault(len(drawing.symbols) - 1, []).extend(fields_of(node, "haskell"))
    return bool(around)


def function(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A signature names the types that go in and the one that comes out."""
    declared = node.field("type")
    text = flat(_bare(declared)) if declared is not None else ""
    quantified = re.match(r"forall [^.]*\. ?", text)
    text = text[quantified.end() :] if quantified else text
    limits, arrow, rest = text.partition(" => ")
    limits, text = (limits, rest) if arrow and _closed(limits) else ("", text)
    kinds = re.split(r"\s*->\s*", text.strip())
    whole = [""]
    for kind in kinds:  # an arrow inside brackets parts nothing
        whole[-1] = f"{whole[-1]} -> {kind}" if whole[-1] else kind
        if _closed(whole[-1]):
            whole.append("")
    kinds = [kind for kind in whole if kind]
    parameters = tuple(Parameter("", kind) for kind in kinds[:-1])
    several = next((c for c in node.children() if c.kind() == "binding_list"), None)
    names = [flat(c.text()) for c in several.children() if c.is_named()] if several is not None else [name_of(node)]
    for name in names:
        exported = around.shown and (around.level > 0 or _exported(node, name))
        kind = "function" if parameters else "value"
        drawing.add(node, around, kind, name, exported=exported, parameters=parameters or None, returns=kinds[-1] if kinds else "")
        drawing.symbols[-1] = drawing.symbols[-1]._replace(generics=re.sub(r"^\((.*)\)$", r"\1", limits))
    return True


def type_(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """A type, an alias or a class, with what it is generic over and what a class asks of it."""
    name, kind = name_of(node), drawing.grammar.declares[node.kind()]
    variables = next((c for c in node.children() if c.kind() == "type_params"), None)
    context = next((c for c in node.children() if c.kind() == "context"), None)
    derived = [flat(c.text()) for c in node.children() if c.kind() == "deriving"]
    value = node.field("type") if kind == "type" else None
    returns = flat(value.text()) if value is not None else ""
    if kind == "interface" and context is not None:
        returns = re.sub(r"^\((.*)\)$", r"\1", flat(context.text()).removesuffix("=>").strip())
    exported = around.shown and (around.level > 0 or _exported(node, name))
    drawing.add(node, around, kind, name, exported=exported, returns=returns)
    place = len(drawing.symbols) - 1
    generics = ", ".join(flat(c.text()) for c in variables.children() if c.is_named()) if variables is not None else ""
    drawing.symbols[place] = drawing.symbols[place]._replace(generics=generics, decorators=tuple(derived[:1]))
    if kind == "class":
        for held in (c for c in node.children() if c.kind() == "newtype_constructor"):
            constructor(drawing, held, around)
    if kind != "type":
        drawing.members(node.children(), around.level + 1, shown=exported, always=False)
    return True


def instance(drawing: Drawing, node: SgNode, around: Around) -> bool:
    """An instance says what a type can do."""
    text = flat(node.text().partition("where")[0]).removeprefix("instance ")
    name = text.rpartition("=> ")[2].strip()
    drawing.add(node, around, "implementation", name, exported=True)
    return True


def _closed(text: str) -> bool:
    return all(text.count(opens) == text.count(closes) for opens, closes in ("()", "[]", "{}"))


def _bare(node: SgNode) -> str:
    """Return a type without the comments inside."""
    text = node.text()
    for kind in ("haddock", "comment"):
        for said in node.find_all(kind=kind):
            text = text.replace(said.text(), " ")
    return text


def _exported(node: SgNode, name: str) -> bool:
    """Tell whether the head of the module lets others use a name; without a list all of them are."""
    root = next((a for a in node.ancestors() if a.parent() is None), node)
    head = next((c for c in root.children() if c.kind() == "header"), None)
    listed = head.find(kind="exports") if head is not None else None
    if listed is None:
        return True
    own = re.search(r"module\s+([\w.]+)", head.text()) if head is not None else None
    text = listed.text()
    if own and re.search(rf"\bmodule\s+{re.escape(own[1])}(?![\w.])", text):
        return True
    return re.search(rf"(?<![\w'.]){re.escape(name)}(?![\w'.])", text) is not None or (name.startswith("(") and name in text)
