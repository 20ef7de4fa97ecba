"""What a file declares, whatever its language."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


KINDS = ("function", "class", "interface", "type", "enum", "value", "implementation", "module", "property", "rule", "block", "section")
"""What a symbol is. Structs and records are classes, traits and protocols interfaces, constants and variables
values; a property is read like a field and runs code; a rule is one of CSS, a block one of HCL
or what a statement of SQL creates; a section is a heading of a text."""


class Parameter(NamedTuple):
    """One parameter as declared: ``type`` is empty where none is written, ``optional`` where a call may leave it out."""

    name: str
    type: str = ""
    optional: bool = False


NEXT_LIST = Parameter(")(")
"""Stands between two lists of parameters, for what is called as ``f(a)(b)``."""


class Symbol(NamedTuple):
    """One declaration."""

    kind: str
    name: str
    exported: bool
    """others may use it: ``export``, ``pub``, ``public``, a capital in Go, no underscore in Python"""
    level: int
    """how many declarations it stands in"""
    first: int
    """its first line, from 1"""
    last: int
    parameters: tuple[Parameter, ...] | None = None
    """None for what takes none, such as a constant"""
    returns: str = ""
    """type that a function returns, that a value has or that an alias stands for; what a class is made from"""
    generics: str = ""
    """type parameters, without brackets"""
    asynchronous: bool = False
    doc: str = ""
    """first line of its documentation"""
    decorators: tuple[str, ...] = ()
    """without their mark"""
    members: tuple[str, ...] = ()
    """fields as ``name:type`` and members of an enum, in the order of the file"""


class Outline(NamedTuple):
    """A file's symbols in the order of its lines, what it imports, and what it exports without declaring it."""

    language: str | None
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    broken: int = 0
    """places that the grammar could not read"""


# Signatures as text, in words: no sign costs fewer tokens (docs/decisions.md).


WORDS = {
    "function": "fn",
    "class": "class",
    "interface": "interface",
    "type": "type",
    "enum": "enum",
    "value": "const",
    "implementation": "impl",
    "module": "module",
    "property": "prop",
    "rule": "rule",
    "block": "block",
}
"""kind of symbol -> its word; a section is written as a heading"""

_SHORT = {"str": "s", "string": "s", "String": "s", "&str": "s", "int": "n", "float": "n", "number": "n", "bool": "b", "boolean": "b"}
"""What is shortened, and only where it is the whole type of a parameter."""

MOST_MEMBERS = 60
"""Fields that are written behind a class; how many more there are is said."""

_SIGNATURE = re.compile(rf"^( *)({'|'.join(WORDS.values())})(?:<.+?(?<!-)>)? (async )?(pub )?(.+)$")
_HEADING = re.compile(r"^(#{1,6}) (.+)$")
_PLACE = re.compile(r" @L\d+(?:-\d+)?$")
_DOC = " — "


def lines(symbols: Iterable[Symbol], *, located: bool = False, documented: bool = True) -> list[str]:
    """Return a line for each symbol; ``located`` adds its lines (``@L3-9``), ``documented`` the first line of its documentation."""
    return [
        signature(symbol)
        + (f" @L{symbol.first}{f'-{symbol.last}' if symbol.last > symbol.first else ''}" if located else "")
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
    if symbol.kind == "implementation":  # it is seen where what it is of is seen, and declares what it is generic over before it
        begins = f"{WORDS[symbol.kind]}{generics} {symbol.name}"
    held = ", ".join(_parameter(p, _SHORT.get(p.type, p.type)) for p in symbol.parameters or ())
    held = re.sub(r"(?:, )?\)\((?:, )?", ")(", held)
    fields = f" {{{', '.join(symbol.members[:MOST_MEMBERS])}{_more(symbol)}}}" if symbol.members else ""
    arrow = " → " if symbol.kind == "function" else ":"
    taken = f"({held})" if symbol.parameters is not None else ""
    marks = "".join(f" @{text}" for text in symbol.decorators)
    return f"{' ' * symbol.level}{begins}{taken}{arrow + symbol.returns if symbol.returns else ''}{fields}{marks}"


def _more(symbol: Symbol) -> str:
    left = len(symbol.members) - MOST_MEMBERS
    return f", +{left}" if left > 0 else ""


def _parameter(parameter: Parameter, kind: str) -> str:
    name = parameter.name + ("?" if parameter.optional else "")
    return f"{name}:{kind}" if name and kind else name or kind


def read(text: str) -> list[tuple[str, str]]:
    """Return (kind, name) of every symbol in a text of signatures, in its order."""
    kinds = {word: kind for kind, word in WORDS.items()}
    found = []
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            found.append(("section", _PLACE.sub("", heading[2])))
        elif match := _SIGNATURE.match(line):
            found.append((kinds[match[2]], _name(match[5], kinds[match[2]])))
    return found


_OPERATOR = re.compile(r"\(\s*(?:[^\w\s()]+|[a-z]+[^\w\s()]*)\s*\)(?=[(:]|$)|\(\w*::[^()]*\)(?=\()|[-+*/<>=!|&^%~]+(?=\()")
"""Names that are signs, and objects of Julia that are called."""


_NAMED, _CALLED = r"(?:::|[^(<:→{])+", r"(?:::|:(?=\w+\()|[^(<:→{])+"
"""A name up to its type parameters, parameters or type; a method of Lua has a colon in it."""


def _name(rest: str, kind: str) -> str:
    """Return the name at the start of what follows the kind: up to its type parameters, parameters or type."""
    said = _PLACE.sub("", rest.partition(_DOC)[0]).partition(" @")[0]
    if kind == "implementation":
        return re.split(r"(?<!:):(?!:)", said.partition("<")[0].partition(" {")[0])[0]
    if kind in {"rule", "block"}:
        return said.partition(" {")[0].partition(":" if kind == "block" else " {")[0]
    if match := _OPERATOR.match(said):
        return match[0]
    match = re.match(r"(?:[\w:~]*::)?operator ?(?:\(\)|[^\w\s(]+)", said) or re.match(_CALLED if kind == "function" else _NAMED, said)
    return match[0].strip() if match else said


# The language of a file, by its name.


_EXTENSIONS = {
    "bash": "bash sh zsh",
    "c": "c h",
    "cpp": "cc cpp cxx hh hpp hxx",
    "csharp": "cs",
    "css": "css",
    "csv": "csv",
    "dart": "dart",
    "elisp": "el",
    "elixir": "ex exs",
    "go": "go",
    "haskell": "hs",
    "hcl": "hcl tf tfvars",
    "java": "java",
    "javascript": "cjs js jsx mjs",
    "json": "json",
    "jsonl": "jsonl ndjson",
    "julia": "jl",
    "kotlin": "kt kts",
    "lua": "lua",
    "markdown": "markdown md mdx",
    "nix": "nix",
    "ocaml": "ml mli",
    "perl": "pl pm t",
    "php": "php",
    "powershell": "ps1 psm1",
    "protobuf": "proto",
    "python": "py pyi pyw",
    "ruby": "rake rb",
    "rust": "rs",
    "scala": "sc scala",
    "solidity": "sol",
    "sql": "sql",
    "svelte": "svelte",
    "swift": "swift",
    "tsv": "tsv",
    "tsx": "tsx",
    "typescript": "cts mts ts",
    "vue": "vue",
    "yaml": "yaml yml",
    "zig": "zig",
}
_BY_EXTENSION = {extension: language for language, extensions in _EXTENSIONS.items() for extension in extensions.split()}
_BY_NAME = {"gemfile": "ruby", "rakefile": "ruby", ".bashrc": "bash", ".bash_profile": "bash", ".zshrc": "bash"}
_PROGRAMS = {
    "bash": "bash",
    "sh": "bash",
    "zsh": "bash",
    "python": "python",
    "python3": "python",
    "ruby": "ruby",
    "node": "javascript",
    "perl": "perl",
    "pwsh": "powershell",
    "julia": "julia",
}

DATA = frozenset({"csv", "json", "jsonl", "markdown", "tsv", "yaml"})
"""Formats of data and prose: they have no signatures, and rules of their own."""

CODE = tuple(sorted(set(_EXTENSIONS) - DATA))
"""Languages whose signatures are drawn."""


_CPP = re.compile(
    r"^\s*(?:class\s+\w|namespace\b|template\s*<|using\s+\w|#include\s*<\w+>)|\bstd::|^\s*(?:public|private|protected):", re.MULTILINE
)
_OBJECTIVE_C = re.compile(r"^\s*(?:@(?:interface|protocol|class|implementation|import)\b|#import\b)", re.MULTILINE)


def _header(text: str) -> str | None:
    """Return the language of a header: C and C++ share their names, as does Objective-C, which has no grammar here."""
    head = text[:20_000]
    return None if _OBJECTIVE_C.search(head) else "cpp" if _CPP.search(head) else "c"


def language_of(name: str, text: str = "") -> str | None:
    """Return the language of a file by the end of its name, else by the program that its first line names; None for another."""
    last = name.replace("\\", "/").rpartition("/")[2].lower()
    if last.endswith(".h") and text:
        return _header(text)
    known = _BY_NAME.get(last) or _BY_EXTENSION.get(last.rpartition(".")[2] if "." in last else "")
    if known or not text.startswith("#!"):
        return known
    words = text[2:200].partition("\n")[0].replace("/", " ").split()
    return next((_PROGRAMS[word] for word in words if word in _PROGRAMS), None)
