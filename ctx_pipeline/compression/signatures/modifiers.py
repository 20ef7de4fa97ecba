"""What stands at a declaration beside its name and its types: decorators, annotations, and words such as ``static``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures.parts import flat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ast_grep_py import SgNode

_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "cpp": "static",
        "csharp": "abstract static",
        "dart": "abstract sealed static",
        "java": "abstract sealed static",
        "javascript": "static",
        "kotlin": "abstract annotation data object sealed",
        "php": "abstract static trait",
        "scala": "abstract case implicit object sealed",
        "solidity": "abstract error event internal library modifier payable pure view",
        "swift": "rethrows static throws",
        "tsx": "abstract static",
        "typescript": "abstract static",
    }.items()
}
"""language -> the words of a declaration that change how it is called"""

_MODIFIERS = re.compile(r"modifiers?$|_modifier$|^(?:visibility|state_mutability|throws|storage_class_specifier)$")
_ANNOTATIONS = frozenset({"annotation", "marker_annotation", "attribute_list", "attribute"})
_CARRIES_WORDS = frozenset({"method_signature", "declaration"})
"""nodes of Dart around a signature, with its words"""

_TELLS_LITTLE = re.compile(
    r"(?i)(?:override|suppress\w*|not_?null|nonnull|nullable|safevarargs|discardableresult|inlin\w+|usablefrominline|available|objc\w*"
    r"|methodimpl|generated|generatedcode|debuggerdisplay|compilergenerated|editorbrowsable|pragma|jvm\w+|optin|visiblefortesting)\b"
)
"""annotations that say nothing to who calls"""

_LONGEST = 60
_MOST_ANNOTATIONS = 4


def modifiers_of(node: SgNode, language: str, *, inside: bool) -> tuple[str, ...]:
    """Return the annotations of a declaration and the words that change how it is called: ``static``, ``abstract``, ``throws``."""
    wanted, above = _WORDS.get(language, frozenset()), node.parent()
    held = list(node.children())
    if language == "dart" and above is not None and above.kind() in _CARRIES_WORDS:
        held += above.children()
    if language == "cpp" and not inside:
        return ()
    words = {word for child in held for word in _words(child)}
    if language == "swift" and node.kind() == "function_declaration" and "class" in words:
        words.add("static")
    found = sorted(words & wanted)
    if language == "cpp" and (end := re.search(r"=\s*(0|delete)\s*;$", node.text()[-60:])):
        found.append("abstract" if end[1] == "0" else "deleted")
    if language == "java":
        found += [flat(c.text()) for c in held if c.kind() == "throws"]
    if language == "solidity":
        found += [flat(c.text()) for c in held if c.kind() == "modifier_invocation" and len(c.text()) <= _LONGEST]
    return tuple(dict.fromkeys([*_annotations(held), *found]))


def _words(node: SgNode) -> Iterator[str]:
    """Yield the words of a modifier, or of a token."""
    if not node.children():
        yield node.text()
    elif _MODIFIERS.search(node.kind()):
        for child in node.children():
            yield from _words(child)


def _annotations(held: list[SgNode]) -> list[str]:
    found: list[str] = []
    for child in held:
        if child.kind() == "modifiers":
            found += _annotations(list(child.children()))
        elif child.kind() in _ANNOTATIONS:
            text = flat(child.text())
            bare = text[1:].removesuffix("]") if text[:1] == "[" else text.removeprefix("#[").removesuffix("]").removeprefix("@")
            if bare and not _TELLS_LITTLE.match(bare):
                found.append(bare if len(bare) <= _LONGEST else bare.partition("(")[0])
    return found[:_MOST_ANNOTATIONS]


def decorators_of(node: SgNode, said: SgNode) -> tuple[str, ...]:
    """Return the decorators and attributes of a declaration without their marks, long arguments left out."""
    found = [_bare_decorator(c) for held in (said, node) for c in held.children() if c.kind() == "decorator"]
    above, before = [], said.prev()
    while before is not None and before.kind() in _ABOVE:
        above.append(before)
        before = before.prev()
    found[:0] = [_bare_decorator(c) for c in reversed(above) if c.kind() in _DECORATORS]
    return tuple(dict.fromkeys(text if len(text) <= _LONGEST else text.partition("(")[0] for text in found))


_DECORATORS = frozenset({"decorator", "attribute_item"})
_ABOVE = _DECORATORS | {"comment", "line_comment", "block_comment"}
"""What stands between a declaration and the one before it, as a node of its own."""


def _bare_decorator(node: SgNode) -> str:
    return flat(node.text()).removeprefix("@").removeprefix("#[").removesuffix("]" if node.kind() == "attribute_item" else "")
