"""Signatures as text: with symbols or in words, whichever costs fewer tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.tokens.signatures.short_types import PLAIN, short_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctx_pipeline.tokens.signatures.symbols import Parameter, Symbol

NOTATIONS = ("symbolic", "plain")

GLYPHS = {
    "function": "λ",
    "class": "§",
    "interface": "∂",
    "type": "τ",
    "enum": "ε",
    "value": "ν",  # noqa: RUF001 - the documented sign
    "implementation": "i",
    "module": "m",
    "section": "#",
}
"""kind of symbol -> its sign; a section's stands as often as the heading is deep"""

_WORDS = {
    "function": "fn",
    "class": "class",
    "interface": "interface",
    "type": "type",
    "enum": "enum",
    "value": "const",
    "implementation": "impl",
    "module": "module",
}
_MEANINGS = {
    "λ": "function",
    "§": "class or struct",
    "∂": "interface or trait",
    "τ": "type alias",
    "ε": "enum",
    "ν": "constant or variable",  # noqa: RUF001 - as above
    "i": "implementation",
    "m": "module",
    "+": "exported",
    "-": "not",
    "~": "async",
    ":s": "string",
    ":n": "number",
    ":b": "boolean",
    "∅": "nothing",
    "[T]": "list of T",
    "?T": "optional T",
    "→R": "result",
}
_SYMBOLIC = re.compile(r"^( *)(~?)([λ§∂τενim])([+-])(.+)$")  # noqa: RUF001 - as above
_PLAIN = re.compile(rf"^( *)({'|'.join(_WORDS.values())}) (async )?(pub )?(.+)$")
_HEADING = re.compile(r"^(#{1,6}) (.+)$")
_PLACE = re.compile(r" @L\d+(?:-\d+)?$")
_DOC = " — "


class Drawn(NamedTuple):
    """Signatures in the notation that was cheaper."""

    text: str
    notation: str
    tokens: int


def cheaper(symbols: Sequence[Symbol], count: Callable[[str], int], notation: str = "auto", *, located: bool = False) -> Drawn:
    """Return the signatures, each on a line of its own, in the notation that costs fewer tokens, its legend counted in.

    ``notation`` may name one of :data:`NOTATIONS` instead. Equal costs go to the plain one.
    """
    chosen = [notation] if notation in NOTATIONS else ["plain", "symbolic"]
    drawn = []
    for one in chosen:
        text = "\n".join(lines(symbols, one, located=located))
        said = f"{legend(text)}\n{text}" if one == "symbolic" and text and legend(text) else text
        drawn.append(Drawn(said, one, count(said)))
    return min(drawn, key=lambda d: d.tokens)


def lines(symbols: Iterable[Symbol], notation: str, *, located: bool = False, documented: bool = True) -> list[str]:
    """Return a line for each symbol; ``located`` adds its lines as ``@L3-9``, ``documented`` the first line of its documentation."""
    return [
        signature(symbol, notation)
        + (f" @L{symbol.first}-{symbol.last}" if located else "")
        + (f"{_DOC}{symbol.doc}" if documented and symbol.doc else "")
        for symbol in symbols
    ]


def signature(symbol: Symbol, notation: str) -> str:
    """Return one signature, indented by a blank for each declaration it stands in."""
    if symbol.kind == "section":
        return f"{'#' * (symbol.level + 1)} {symbol.name}"
    generics = f"<{symbol.generics}>" if symbol.generics else ""
    if notation == "symbolic":
        begins = f"{'~' if symbol.asynchronous else ''}{GLYPHS[symbol.kind]}{'+' if symbol.exported else '-'}{symbol.name}{generics}"
        held = ",".join(_parameter(p, short_type(p.type)) for p in symbol.parameters or ())
        arrow, returns = ("→", short_type(symbol.returns)) if symbol.kind == "function" else (":", short_type(symbol.returns))
    else:
        words = [_WORDS[symbol.kind], *(["async"] if symbol.asynchronous else []), *(["pub"] if symbol.exported else [])]
        begins = f"{' '.join(words)} {symbol.name}{generics}"
        held = ", ".join(_parameter(p, PLAIN.get(p.type, p.type)) for p in symbol.parameters or ())
        arrow, returns = (" → ", symbol.returns) if symbol.kind == "function" else (":", symbol.returns)
    taken = f"({held})" if symbol.parameters is not None else ""
    return f"{' ' * symbol.level}{begins}{taken}{arrow + returns if returns else ''}"


def _parameter(parameter: Parameter, kind: str) -> str:
    name = parameter.name + ("?" if parameter.optional else "")
    return f"{name}:{kind}" if name and kind else name or kind


def legend(text: str) -> str:
    """Return one line with the meaning of every sign that stands in a symbolic text, empty for none."""
    used = []
    for sign, meaning in _MEANINGS.items():
        if sign in {"i", "m", "+", "-", "~"} or sign in GLYPHS.values():
            stands = any(sign in match.group(2, 3, 4) for line in text.splitlines() if (match := _SYMBOLIC.match(line)))
        elif sign == "[T]":
            stands = re.search(r"[:→]\??\[\w", text) is not None
        elif sign == "?T":
            stands = re.search(r"[:→]\?\S", text) is not None
        else:
            stands = re.search(rf"{re.escape(sign)}(?!\w)", text) is not None
        if stands:
            used.append(f"{sign.strip(':→')} {meaning}")
    return f"({', '.join(used)})" if used else ""


def read(text: str) -> list[tuple[str, str]]:
    """Return (kind, name) of every symbol that a text in either notation tells, in its order."""
    kinds = {sign: kind for kind, sign in GLYPHS.items()} | {word: kind for kind, word in _WORDS.items()}
    found = []
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            found.append(("section", heading[2]))
        elif match := _SYMBOLIC.match(line):
            found.append((kinds[match[3]], _name(match[5], kinds[match[3]])))
        elif match := _PLAIN.match(line):
            found.append((kinds[match[2]], _name(match[5], kinds[match[2]])))
    return found


def _name(rest: str, kind: str) -> str:
    """Return the name at the start of what follows the kind: up to its type parameters, parameters or type."""
    said = _PLACE.sub("", rest.partition(_DOC)[0])
    if kind == "implementation":
        return said.partition("<")[0]
    match = re.match(r"(?:[\w:~]*::)?operator ?(?:\(\)|[^\w\s(]+)", said) or re.match(r"(?:::|[^(<:→])+", said)
    return match[0].strip() if match else said
