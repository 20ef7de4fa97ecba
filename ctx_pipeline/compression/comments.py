"""Code without what its reader can do without: comments, blank lines, closing brackets on lines of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression.signatures.bounded import ends_soon
from ctx_pipeline.compression.signatures.drawing import outline
from ctx_pipeline.compression.signatures.grammars import GRAMMARS

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from ctx_pipeline.compression.signatures.symbols import Outline

_STAYS = re.compile(
    r"#!|//go:|// \+build|#\s*(?:type:|noqa|pragma|fmt:|-\*-|frozen_string_literal|shellcheck)|//\s*(?:@ts-|eslint|prettier|nolint|SPDX)"
    r"|/\*\s*(?:eslint|global|istanbul)|///\s*<reference"
)
"""Comments that programs read."""

_CLOSERS = re.compile(r"[\])}]+[;,]?")
_COMMENTED = re.compile(r"^\s*(?:#|/\*|\*)|//")
_BRACED = frozenset(
    ["c", "cpp", "csharp", "dart", "go", "java", "javascript", "kotlin", "php", "rust", "scala", "solidity", "swift", "tsx", "typescript"]
)
_LONG_TEXTS = ("string", "template", "heredoc", "quoted", "raw_text", "char_literal", "regex", "text")


class _Found(NamedTuple):
    comments: list[tuple[int, int]]
    """first and last place, in characters"""
    kept: set[int]
    """lines, from 0, that are inside a literal of several lines and stay as they are"""


def stripped(text: str, language: str | None, declared: Outline | None = None) -> str:
    """Return code without comments and blank lines, closing brackets put behind the line before; every declaration is kept.

    What stands in literals stays as it is, and so do comments that programs read (``#!``,
    ``//go:build``, ``# type:``). Should the result declare anything else than the text did,
    the text itself is returned. Text of no known language, or that no parser gets through in
    time, only loses blanks at the ends of lines and blank lines that follow another.
    ``declared`` is the outline of the text, where it is known.
    """
    grammar = GRAMMARS.get(language or "")
    if grammar is None or language is None or not ends_soon(text, language):
        return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n")))
    from ast_grep_py import SgRoot

    found = _walk(SgRoot(text, language).root(), grammar.comments)
    places = [(a, b) for a, b in found.comments if not _STAYS.match(text, a)]
    cut, before = _cut(text, places), declared or outline(text, language)
    # the second try is for a grammar that wants a line end where the language does not (Go, before a bracket)
    for joined in (True, False) if language in _BRACED else (False,):
        made = "\n".join(_lines(cut, found.kept, joined=joined))
        made += "\n" if made and text.endswith("\n") else ""
        after = outline(made, language)
        if [(s.kind, s.name) for s in before.symbols] == [(s.kind, s.name) for s in after.symbols] and after.broken <= before.broken:
            return made
    return text


def _walk(root: SgNode, kinds: frozenset[str]) -> _Found:
    comments: list[tuple[int, int]] = []
    kept: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        kind = node.kind()
        if kind in kinds:
            place = node.range()
            comments.append((place.start.index, place.end.index))
        elif any(part in kind for part in _LONG_TEXTS) and node is not root:
            place = node.range()
            kept.update(range(place.start.line + 1, place.end.line + 1))
            waiting += node.children()
        else:
            waiting += node.children()
    return _Found(comments, kept)


def _cut(text: str, places: list[tuple[int, int]]) -> str:
    """Return the text without some places; the line ends in them stay, so that lines keep their numbers."""
    parts, at = [], 0
    for start, end in sorted(places):
        if start >= at:
            between = "\n" * text.count("\n", start, end)
            parts += [text[at:start], between or (" " if text[start - 1 : start].isalnum() and text[end : end + 1].isalnum() else "")]
            at = end
    return "".join([*parts, text[at:]])


def _lines(text: str, kept: set[int], *, joined: bool) -> list[str]:
    made: list[str] = []
    last_free = False
    for number, line in enumerate(text.split("\n")):
        if number in kept:
            made.append(line)
            last_free = False
            continue
        bare = line.rstrip()
        if not bare:
            continue
        above = made[-1] if made else ""
        if joined and last_free and _CLOSERS.fullmatch(bare.strip()) and not _COMMENTED.search(above):
            made[-1] += bare.strip()
            continue
        made.append(bare)
        last_free = True
    return made
