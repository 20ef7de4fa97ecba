"""Symbols of Protocol Buffers and Emacs Lisp, whose brackets tell enough, and of scripts inside components."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.compression.signatures.parts import LONGEST_DOC, first_line, flat
from ctx_pipeline.compression.signatures.symbols import Outline, Parameter, Symbol
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Iterator


class Form(NamedTuple):
    """What stands between two brackets, a quoted form, or a statement of Protocol Buffers; what is no form is a text."""

    data: str
    children: list[Any]
    line: int
    end_line: int = 0


_PROTO = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<opens>[{\[])|(?P<closes>[}\]])|(?P<ends>;)"""
    r"""|(?P<word>[^\s;{}\[\]"'/]+|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)
_LISP = re.compile(
    r"""(?P<space>\s+|;[^\n]*)"""
    r"""|(?P<char>\?(?:\\(?:[CMSHAs]-(?:\\?.)|\^.|x[0-9a-fA-F]+|N\{[^}]*\}|.)|.)(?=[\s()\[\]"';]|\Z))"""
    r"""|(?P<quote>\#'|'|`|,@|,|\#s(?=\()|\#(?=[\[(&]))|(?P<opens>[(\[])|(?P<closes>[)\]])"""
    r"""|(?P<word>"(?:\\.|[^"\\])*"|(?:\\.|[^\s()\[\]"';`,])+)""",
    re.DOTALL,
)


def _tokens(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield the kind, the text, the first and the last line of each token; of what is none, an empty kind, and no more."""
    at, line = 0, 1
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            yield "", "", line, line
            return
        last = line + match[0].count("\n")
        if match.lastgroup != "space":
            yield match.lastgroup or "", match[0], line, last
        at, line = match.end(), last


def _lisp_forms(text: str) -> list[Any] | None:
    """Return the forms of a file; None where its brackets do not fit. Nothing here calls itself: a file nests as deep as it likes."""
    root = Form("root", [], 1)
    open_ = [root]
    for kind, said, line, last in _tokens(_LISP, text):
        if kind in {"opens", "quote"}:
            open_.append(Form({"(": "list", "[": "vector"}.get(said, "quoted"), [], line))
            continue
        one: Any = said
        if kind == "closes":
            one = open_.pop()._replace(end_line=last)
            if one.data != {")": "list", "]": "vector"}[said]:
                return None
        elif not kind:
            return None
        while open_[-1].data == "quoted":
            one = Form("quoted", [one], open_.pop().line, last)
        open_[-1].children.append(one)
    return root.children if len(open_) == 1 else None


def _proto_statements(text: str) -> list[Form] | None:
    """Return the statements of a file with the blocks inside them, without options; None where its brackets do not fit."""
    root = Form("block", [], 1)
    open_, options = [root], list[str]()
    for kind, said, line, last in _tokens(_PROTO, text):
        top = open_[-1]
        if not kind:
            return None
        if options or said == "[":
            if kind == "opens" and said == "[":
                options.append("]")
            elif said == "]":
                options.pop()
        elif kind == "word":
            if top.data == "block":
                open_.append(Form("statement", [said], line))
            else:
                top.children.append(said)
        elif kind == "opens":
            if top.data == "block":
                return None
            open_.append(Form("block", [], line))
        else:  # a statement ends: by its sign, by its block, or with the block around it
            if top.data == "statement":
                open_.pop()
                open_[-1].children.append(top._replace(end_line=last))
            if kind == "closes":
                if said == "]" or len(open_) < 3:
                    return None
                block, held = open_.pop(), open_.pop()
                held.children.append(block)
                open_[-1].children.append(held._replace(end_line=last))
    return root.children if len(open_) == 1 and not options else None


_TALLEST = 100
"""Lines of a comment that are looked at for its first one."""
_DEEPEST = 12
"""Blocks inside each other that are followed."""
_MOST_SCRIPTS = 20


def _comment_above(lines: list[str], line: int, mark: str) -> str:
    """Return the first line of the comment that ends right above a line, from 1."""
    first = line - 1
    least = max(0, first - _TALLEST)
    while first > least and lines[first - 1].lstrip().startswith(mark):
        first -= 1
    if first == line - 1 and first and lines[first - 1].rstrip().endswith("*/"):
        while first > least and not lines[first].lstrip().startswith("/*"):
            first -= 1
    return first_line("\n".join(lines[first : line - 1]))


def _protobuf(text: str) -> Outline:
    statements = _proto_statements(text)
    if statements is None:
        return Outline("protobuf", broken=1)
    lines, symbols, imports = text.split("\n"), list[Symbol](), list[str]()

    def words(node: Form) -> str:
        return flat(" ".join(c for c in node.children if isinstance(c, str)))

    def block_of(node: Form) -> Form | None:
        return next((c for c in node.children if not isinstance(c, str)), None)

    def add(node: Form, kind: str, name: str, level: int, **more: Any) -> None:
        doc = _comment_above(lines, node.line, "//")
        symbols.append(Symbol(kind, name, True, level, node.line, node.end_line, doc=doc)._replace(**more))

    def members(block: Form, deep: int = 2) -> list[str]:
        found = list[str]()
        for node in block.children:
            text = words(node)
            if match := re.match(r"oneof (\w+)$", text):
                inner = block_of(node)
                found += [one.replace(":", "?:", 1) for one in members(inner, deep - 1)] if inner is not None and deep else []
            elif match := re.match(r"((?:optional |repeated |required )?)((?:map ?<[^>]*>|[\w.]+)) (\w+) ?=", text):
                kind = f"[{match[2]}]" if match[1].startswith("repeated") else match[2].replace(" ", "")
                found.append(f"{match[3]}{'?' if match[1].startswith('optional') else ''}:{kind}")
        return found

    def walk(nodes: list[Form], level: int) -> None:
        for node in nodes:
            text, block = words(node), block_of(node)
            if match := re.match(r"import (?:public |weak )?[\"'](.+)[\"']", text):
                imports.append(match[1])
            elif match := re.match(r"rpc (\w+) ?\(([^)]*)\) ?returns ?\(([^)]*)\)", text):
                add(node, "function", match[1], level, parameters=(Parameter("", match[2]),), returns=match[3])
            elif block is not None and (match := re.match(r"(message|service|enum|extend) ([\w.]+)$", text)):
                kind = {"message": "class", "service": "interface", "enum": "enum", "extend": "implementation"}[match[1]]
                held = members(block)
                if kind == "enum":
                    held = [m[1] for c in block.children if (m := re.match(r"(\w+) ?=", words(c))) and not words(c).startswith("option ")]
                add(node, kind, match[2], level, members=tuple(held))
                if level < _DEEPEST:
                    walk(block.children, level + 1)

    walk(statements, 0)
    return Outline("protobuf", tuple(symbols), tuple(imports))


_FUNCTIONS = frozenset(
    [
        "defun",
        "defmacro",
        "defsubst",
        "cl-defun",
        "cl-defmacro",
        "cl-defsubst",
        "cl-defmethod",
        "cl-defgeneric",
        "defalias",
        "define-inline",
        "ert-deftest",
        "define-minor-mode",
        "define-derived-mode",
        "define-globalized-minor-mode",
        "defadvice",
        "iter-defun",
        "transient-define-prefix",
    ]
)
_VALUES = frozenset(["defvar", "defconst", "defcustom", "defvar-local", "defface", "defgroup", "defvar-keymap", "define-error"])
_CLASSES = frozenset(["cl-defstruct", "defclass"])
_AROUND = frozenset(
    ["progn", "eval-and-compile", "eval-when-compile", "when", "unless", "if", "with-eval-after-load", "let", "let*", "cl-eval-when"]
)


def _elisp(text: str) -> Outline:
    forms = _lisp_forms(text)
    if forms is None:
        return Outline("elisp", broken=1)
    symbols, imports, lines = list[Symbol](), list[str](), text.split("\n")

    def walk(nodes: list[Any], deep: int) -> None:
        for node in nodes:
            if isinstance(node, str) or node.data != "list" or not node.children:
                continue
            inner = node.children
            head = inner[0] if isinstance(inner[0], str) else ""
            if head in _AROUND and deep:
                walk(inner[1:], deep - 1)
            elif head == "require" and len(inner) > 1:
                imports.append(_plain(inner[1]))
            elif len(inner) > 1 and head in _FUNCTIONS | _VALUES | _CLASSES:
                symbols.append(_lisp_symbol(head, inner, node, lines))

    walk(forms, 4)
    return Outline("elisp", tuple(symbols), tuple(imports))


def _plain(node: Any) -> str:
    """Return a form as text: an atom, one that is quoted, or the first of a list."""
    while not isinstance(node, str):
        node = node.children[0] if node.children else ""
    return node


def _lisp_symbol(head: str, inner: list[Any], node: Form, lines: list[str]) -> Symbol:
    name, lists = _plain(inner[1]), [c for c in inner[2:] if getattr(c, "data", "") == "list"]
    texts = [c[1:-1].replace("\\", "") for c in inner[2:] if isinstance(c, str) and c.startswith('"')]
    kind = "function" if head in _FUNCTIONS else "value" if head in _VALUES else "class"
    taken: tuple[Parameter, ...] | None = None
    fields: tuple[str, ...] = ()
    returns = ""
    if kind == "function":
        taken = _lisp_parameters(lists[0]) if lists and not head.startswith(("define", "ert", "defalias")) else ()
    elif head == "cl-defstruct":
        fields = tuple(_plain(c) for c in inner[2:] if not (isinstance(c, str) and c.startswith('"')))
    elif head == "defclass" and len(lists) > 1:
        returns = ", ".join(map(_plain, lists[0].children))
        fields = tuple(map(_plain, lists[1].children))
    if head in {"defvar", "defconst", "define-derived-mode"} and len(texts) > 1:
        texts = texts[1:]  # the first one is a value, or the name that a mode shows
    elif kind == "value" and head in {"defvar", "defconst"} and len(inner) == 3:  # (defvar name "value")
        texts = []
    marks = (head,) if head in {"defmacro", "cl-defmacro", "cl-defmethod", "cl-defgeneric", "defcustom", "defface", "ert-deftest"} else ()
    doc = truncate(first_line(texts[0]), LONGEST_DOC) if texts else _comment_above(lines, node.line, ";")
    exported = "--" not in name
    return Symbol(kind, name, exported, 0, node.line, node.end_line, taken, returns, doc=doc, decorators=marks, members=fields)


def _lisp_parameters(listed: Form) -> tuple[Parameter, ...]:
    found, mode = [], ""
    for one in listed.children:
        if isinstance(one, str) and one in {"&optional", "&rest", "&key", "&body", "&aux", "&allow-other-keys"}:
            mode = one
        else:
            name = _plain(one)
            typed = not mode and getattr(one, "data", "") == "list" and len(one.children) > 1
            written = _plain(one.children[1]) if typed else ""
            found.append(Parameter(f"{mode} {name}" if mode in {"&rest", "&body", "&key"} else name, written, mode == "&optional"))
    return tuple(found)


_SCRIPT = re.compile(r"<script\b([^>]{0,1000}+)>(.*?)(?:</script\s*>|\Z)", re.IGNORECASE | re.DOTALL)


def _component(text: str, language: str, outline: Outliner) -> Outline:
    """Return what the scripts of a component declare, with the lines of the file."""
    symbols, imports, exports, broken = list[Symbol](), list[str](), list[str](), 0
    for script in islice(_SCRIPT.finditer(text), _MOST_SCRIPTS):
        above = text.count("\n", 0, script.start(2))
        found = outline(script[2], "typescript" if re.search(r"lang\s*=\s*[\"']?ts", script[1]) else "javascript")
        symbols += [s._replace(first=s.first + above, last=s.last + above) for s in found.symbols]
        imports += found.imports
        exports += found.exports
        broken += found.broken
    return Outline(language, tuple(symbols), tuple(dict.fromkeys(imports)), tuple(exports), broken)


Outliner = Callable[[str, str | None], Outline]
"""What outlines a part that is written in another language."""

LANGUAGES: dict[str, Callable[[str, Outliner], Outline]] = {
    "elisp": lambda text, _: _elisp(text),
    "protobuf": lambda text, _: _protobuf(text),
    "svelte": lambda text, outline: _component(text, "svelte", outline),
    "vue": lambda text, outline: _component(text, "vue", outline),
}
"""language -> what reads it"""
