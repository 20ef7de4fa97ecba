"""Signatures as text, in words: no sign costs fewer tokens (docs/decisions.md)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.compression.signatures.symbols import Parameter, Symbol

WORDS = {
    "function": "fn",
    "class": "class",
    "interface": "interface",
    "type": "type",
    "enum": "enum",
    "value": "const",
    "implementation": "impl",
    "module": "module",
}
"""kind of symbol -> its word; a section is written as a heading"""

_SHORT = {"str": "s", "string": "s", "String": "s", "&str": "s", "int": "n", "float": "n", "number": "n", "bool": "b", "boolean": "b"}
"""What is shortened, and only where it is the whole type of a parameter."""

_SIGNATURE = re.compile(rf"^( *)({'|'.join(WORDS.values())}) (async )?(pub )?(.+)$")
_HEADING = re.compile(r"^(#{1,6}) (.+)$")
_PLACE = re.compile(r" @L\d+(?:-\d+)?$")
_DOC = " — "


def lines(symbols: Iterable[Symbol], *, located: bool = False, documented: bool = True) -> list[str]:
    """Return a line for each symbol; ``located`` adds its lines as ``@L3-9``, ``documented`` the first line of its documentation."""
    return [
        signature(symbol)
        + (f" @L{symbol.first}-{symbol.last}" if located else "")
        + (f"{_DOC}{symbol.doc}" if documented and symbol.doc else "")
        for symbol in symbols
    ]


def signature(symbol: Symbol) -> str:
    """Return one signature, indented by a blank for each declaration it stands in."""
    if symbol.kind == "section":
        return f"{'#' * (symbol.level + 1)} {symbol.name}"
    generics = f"<{symbol.generics}>" if symbol.generics else ""
    words = [WORDS[symbol.kind], *(["async"] if symbol.asynchronous else []), *(["pub"] if symbol.exported else [])]
    begins = f"{' '.join(words)} {symbol.name}{generics}"
    held = ", ".join(_parameter(p, _SHORT.get(p.type, p.type)) for p in symbol.parameters or ())
    arrow = " → " if symbol.kind == "function" else ":"
    taken = f"({held})" if symbol.parameters is not None else ""
    return f"{' ' * symbol.level}{begins}{taken}{arrow + symbol.returns if symbol.returns else ''}"


def _parameter(parameter: Parameter, kind: str) -> str:
    name = parameter.name + ("?" if parameter.optional else "")
    return f"{name}:{kind}" if name and kind else name or kind


def read(text: str) -> list[tuple[str, str]]:
    """Return (kind, name) of every symbol in a text of signatures, in its order."""
    kinds = {word: kind for kind, word in WORDS.items()}
    found = []
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            found.append(("section", heading[2]))
        elif match := _SIGNATURE.match(line):
            found.append((kinds[match[2]], _name(match[5], kinds[match[2]])))
    return found


def _name(rest: str, kind: str) -> str:
    """Return the name at the start of what follows the kind: up to its type parameters, parameters or type."""
    said = _PLACE.sub("", rest.partition(_DOC)[0])
    if kind == "implementation":
        return said.partition("<")[0]
    match = re.match(r"(?:[\w:~]*::)?operator ?(?:\(\)|[^\w\s(]+)", said) or re.match(r"(?:::|[^(<:→])+", said)
    return match[0].strip() if match else said
