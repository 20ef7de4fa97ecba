"""What a file declares, whatever its language."""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("function", "class", "interface", "type", "enum", "value", "implementation", "module", "section")
"""What a symbol is. Structs and records are classes, traits and protocols interfaces, constants and variables
values; a section is a heading of a text."""


class Parameter(NamedTuple):
    """One parameter as declared: ``type`` is empty where none is written, ``optional`` where a call may leave it out."""

    name: str
    type: str = ""
    optional: bool = False


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
    """type that a function returns, that a value has or that an alias stands for"""
    generics: str = ""
    """type parameters, without brackets"""
    asynchronous: bool = False
    doc: str = ""
    """first line of its documentation"""


class Outline(NamedTuple):
    """A file's symbols in the order of its lines, what it imports, and what it exports without declaring it."""

    language: str | None
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    broken: int = 0
    """places that the grammar could not read"""
