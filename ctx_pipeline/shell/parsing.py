"""A recorded command line as a shell reads it: its simple commands, their words, and what they write to."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

_LONGEST = 4000
_TOKEN = lazy_pattern(
    r"""(?P<space>[^\S\n]+)|(?P<comment>(?<![^\s;&|])\#[^\n]*)|(?P<break>&&|\|\||;;|[;\n|&])|(?P<redirect>\d*>{1,2}(?:&\d)?|<{1,3})|(?P<word>(?:\$'(?:\\.|[^'\\])*'|'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\;|&<>])+)|."""
)
_DOCUMENT = lazy_pattern(r"(?<!<)<<-?\s{0,4}(['\"]?)([A-Za-z_]\w{0,60})\1")
_MOST_DOCUMENTS = 20
_QUOTED = lazy_pattern(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_PART = lazy_pattern(
    r"""\$'(?P<ansi>(?:\\.|[^'\\])*)'|'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|\\(?P<escaped>\W)|(?P<bare>(?:(?!\$')[^'"\\])+|.)""",
    re.DOTALL,
)
_ANSI_SIGNS = {"n": "\n", "t": "\t", "r": "\r"}
_ESCAPED = lazy_pattern(r'\\([$`"\\])')
_OPENED = lazy_pattern(r"(?:[A-Za-z_]\w*=)?\$?\(+|`")
_KEYWORDS = frozenset({"if", "then", "elif", "else", "do", "while", "until", "!", "{", "}", "(", ")"})
"""Words of the shell before which, or behind which, a command stands."""
_LISTS = frozenset({"for", "case", "select", "function"})
"""Words of the shell that open a list of words, which is no command."""


class Piece(NamedTuple):
    """One simple command of a line, also those that are no program of interest (``cd``, ``echo``)."""

    words: tuple[str, ...]
    """Words unquoted, wrappers and assignments included."""
    writes: tuple[str, ...]
    """Files that its output is redirected to."""
    text: str
    piped: bool = False
    """Its input is what the command before it prints."""
    behind: str = ""
    """What separates it from the command before it: ``&&``, ``||``, ``;``, ``|``, ``&`` or a line break; empty for the first one."""


@lru_cache(maxsize=8192)
def pieces(command: str) -> tuple[Piece, ...]:
    """Return the simple commands of a command line in order, also those in loops, conditions and subshells.

    Here-documents, comments and the shell's own words (``if``, ``do``, parentheses) are
    left out; the first 4,000 characters are read.
    """
    command = _without_documents(command).replace("\\\n", " ")[:_LONGEST]
    found: list[Piece] = []
    words: list[str] = []
    writes: list[str] = []
    first = depth = 0
    redirect = ""
    behind = ""

    def end(last: int) -> None:
        while words and words[0] in _KEYWORDS:
            del words[0]
        if (words or writes) and not (words and words[0] in _LISTS):
            text = _unwrapped(" ".join(command[first:last].split()), words)
            found.append(Piece(tuple(words), tuple(writes), text, behind == "|", behind if found else ""))

    for match in _TOKEN.finditer(command):
        kind = match.lastgroup
        if kind == "break":
            end(match.start())
            # a line break behind `&&` or `|` goes on with the same list
            if match.group() != "\n" or words or writes or not behind:
                behind = match.group()
            words, writes, first, redirect = [], [], match.end(), ""
        elif kind == "redirect":
            redirect = "" if match.group().endswith(("&1", "&2")) else match.group()
        elif kind == "word":
            raw = match.group()
            if "(" in raw or ")" in raw or "`" in raw:
                raw, depth = _unbracketed(raw, depth, begins=not words or words[-1] in _KEYWORDS)
            word = _unquoted(raw)
            if not raw:
                continue
            if not redirect:
                words.append(word)
            elif ">" in redirect:
                writes.append(word)
            redirect = ""
    end(len(command))
    return tuple(found)


def _unquoted(raw: str) -> str:
    """Return a word as the program gets it: without quotes, and without the backslash of an escaped sign."""
    if "'" not in raw and '"' not in raw and "\\" not in raw:
        return raw
    return "".join(map(_part, _PART.finditer(raw)))


def _part(match: re.Match[str]) -> str:
    if match["double"]:
        return _ESCAPED.sub(r"\1", match["double"])
    if match["ansi"]:
        return re.sub(r"\\(.)", lambda sign: _ANSI_SIGNS.get(sign[1], sign[1]), match["ansi"], flags=re.DOTALL)
    return match["single"] or match["escaped"] or match["bare"] or ""


def _unwrapped(text: str, words: list[str]) -> str:
    """Return a command as typed without the brackets of the subshell that it begins or ends."""
    if words and text.startswith("(") and not words[0].startswith("("):
        text = text.lstrip("( ")
    while words and text.endswith(")") and text.count(")") > text.count("(") and not words[-1].endswith(")"):
        text = text[:-1].rstrip()
    return text


def _without_documents(command: str) -> str:
    """Return a command without the lines of its here-documents; what stands on the first line of one, and behind it, stays."""
    if "<<" not in command:
        return command
    command = command[: 16 * _LONGEST]
    at = 0
    for _ in range(_MOST_DOCUMENTS):
        begin = _DOCUMENT.search(command, at)
        line = command.find("\n", begin.end()) if begin else -1
        if begin is None or line < 0:
            break
        close = re.compile(rf"^[ \t]*{begin[2]}[ \t]*$", re.MULTILINE).search(command, line + 1)
        command = command[:line] + (command[close.end() :] if close else "")
        at = begin.end()
    return command


def _unbracketed(raw: str, depth: int, *, begins: bool) -> tuple[str, int]:
    """Return a word without the brackets of a subshell around it, and how many are open behind it.

    A pattern of ``case`` (a first word that closes what nothing opened) becomes empty.
    """
    bare = _QUOTED.sub("", raw)
    opened, closed = bare.count("("), bare.count(")")
    if begins and (mark := _OPENED.match(raw)):
        raw = raw[mark.end() :]
    if closed > opened and raw.endswith(")"):
        own = min(closed - opened, len(raw) - len(raw.rstrip(")")))
        if begins and not depth:
            return "", 0
        raw = raw[: len(raw) - own]
    elif begins and mark and closed and raw.endswith(")"):
        raw = raw[:-1]
    if begins and mark and "`" in mark[0]:
        raw = raw.removesuffix("`")
    return raw, max(0, depth + opened - closed)
