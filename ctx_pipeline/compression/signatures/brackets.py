"""Symbols of Protocol Buffers and Emacs Lisp, whose grammars are short enough to stand here, and of scripts inside components."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ctx_pipeline.compression.signatures.parts import LONGEST_DOC, first_line, flat
from ctx_pipeline.compression.signatures.symbols import Outline, Parameter, Symbol
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Callable

    from lark import Lark

Form = Any
"""A tree of lark, or a token of one: it has no types of its own that tell them apart."""

_PROTO = r"""
start: (statement | ";")*
statement: part+ (";" | block ";"?)
block: "{" (statement | ";")* part* "}"
part: WORD | STRING | option
option: "[" (WORD | STRING | option | "{" | "}" | ";")* "]"
WORD: /[^\s;{}\[\]"'\/]+/
STRING: /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/
COMMENT: /\/\/[^\n]*|\/\*.*?\*\//s
%ignore /\s+/
%ignore COMMENT
"""

_LISP = r"""
start: form*
?form: list | vector | quoted | CHAR | STRING | ATOM
list: "(" form* ")"
vector: "[" form* "]"
quoted: QUOTE form
QUOTE.2: /#'|'|`|,@|,|#s(?=\()|#(?=[\[(&])/
CHAR.3: /\?(?:\\(?:[CMSHAs]-(?:\\?.)|\^.|x[0-9a-fA-F]+|N\{[^}]*\}|.)|.)(?=[\s()\[\]"';]|$)/s
STRING: /"(?:\\.|[^"\\])*"/s
ATOM: /(?:\\.|[^\s()\[\]"';`,])(?:\\.|[^\s()\[\]"';`,])*/s
COMMENT: /;[^\n]*/
%ignore /\s+/
%ignore COMMENT
"""


@lru_cache(maxsize=2)
def _parser(grammar: str) -> Lark:
    from lark import Lark

    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _parsed(grammar: str, text: str) -> Form | None:
    from lark.exceptions import LarkError

    try:
        return _parser(grammar).parse(text)
    except LarkError:
        return None


def _comment_above(lines: list[str], line: int, mark: str) -> str:
    """Return the first line of the comment that ends right above a line, from 1."""
    first = line - 1
    while first and lines[first - 1].lstrip().startswith(mark):
        first -= 1
    if first == line - 1 and first and lines[first - 1].rstrip().endswith("*/"):
        while first and not lines[first].lstrip().startswith("/*"):
            first -= 1
    return first_line("\n".join(lines[first : line - 1]))


def _protobuf(text: str) -> Outline:
    tree = _parsed(_PROTO, text)
    if tree is None:
        return Outline("protobuf", broken=1)
    lines, symbols, imports = text.split("\n"), list[Symbol](), list[str]()

    def words(node: Form) -> str:
        held = [str(p.children[0]) for p in node.children if p.data == "part" and getattr(p.children[0], "type", "")]
        return flat(" ".join(held))

    def add(node: Form, kind: str, name: str, level: int, **more: Any) -> None:
        doc = _comment_above(lines, node.meta.line, "//")
        symbols.append(Symbol(kind, name, True, level, node.meta.line, node.meta.end_line, doc=doc)._replace(**more))

    def members(block: Form) -> list[str]:
        found = []
        for node in block.children:
            text = words(node)
            if match := re.match(r"oneof (\w+)$", text):
                found += [one.replace(":", "?:", 1) for inner in node.children if inner.data == "block" for one in members(inner)]
            elif match := re.match(r"((?:optional |repeated |required )?)((?:map ?<[^>]*>|[\w.]+)) (\w+) ?=", text):
                kind = f"[{match[2]}]" if match[1].startswith("repeated") else match[2].replace(" ", "")
                found.append(f"{match[3]}{'?' if match[1].startswith('optional') else ''}:{kind}")
        return found

    def walk(nodes: list[Form], level: int) -> None:
        for node in nodes:
            text, block = words(node), next((c for c in node.children if c.data == "block"), None)
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
                walk(list(block.children), level + 1)

    walk(list(tree.children), 0)
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
    tree = _parsed(_LISP, text)
    if tree is None:
        return Outline("elisp", broken=1)
    symbols, imports, lines = list[Symbol](), list[str](), text.split("\n")

    def walk(nodes: list[Form], deep: int) -> None:
        for node in nodes:
            if getattr(node, "data", "") != "list" or not node.children:
                continue
            inner = list(node.children)
            head = str(inner[0])
            if head in _AROUND and deep:
                walk(inner[1:], deep - 1)
            elif head == "require" and len(inner) > 1:
                imports.append(_plain(inner[1]))
            elif len(inner) > 1 and head in _FUNCTIONS | _VALUES | _CLASSES:
                symbols.append(_lisp_symbol(head, inner, node, lines))

    walk(list(tree.children), 4)
    return Outline("elisp", tuple(symbols), tuple(imports))


def _plain(node: Form) -> str:
    """Return a form as text: an atom, one that is quoted, or the first of a list."""
    while not isinstance(node, str):
        node = node.children[-1 if node.data == "quoted" else 0] if node.children else ""
    return str(node)


def _lisp_symbol(head: str, inner: list[Form], node: Form, lines: list[str]) -> Symbol:
    name, lists = _plain(inner[1]), [c for c in inner[2:] if getattr(c, "data", "") == "list"]
    texts = [str(c)[1:-1].replace("\\", "") for c in inner[2:] if isinstance(c, str) and c.startswith('"')]
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
    doc = truncate(first_line(texts[0]), LONGEST_DOC) if texts else _comment_above(lines, node.meta.line, ";")
    exported = "--" not in name
    return Symbol(kind, name, exported, 0, node.meta.line, node.meta.end_line, taken, returns, doc=doc, decorators=marks, members=fields)


def _lisp_parameters(listed: Form) -> tuple[Parameter, ...]:
    found, mode = [], ""
    for one in listed.children:
        if str(one) in {"&optional", "&rest", "&key", "&body", "&aux", "&allow-other-keys"}:
            mode = str(one)
        else:
            name = _plain(one)
            typed = not mode and getattr(one, "data", "") == "list" and len(one.children) > 1
            written = _plain(one.children[1]) if typed else ""
            found.append(Parameter(f"{mode} {name}" if mode in {"&rest", "&body", "&key"} else name, written, mode == "&optional"))
    return tuple(found)


_SCRIPT_OPENS = re.compile(r"<script\b([^>]*)>", re.IGNORECASE)


def _component(text: str, language: str) -> Outline:
    """Return what the scripts of a component declare, with the lines of the file."""
    from ctx_pipeline.compression.signatures.drawing import outline

    symbols, imports, exports, broken = list[Symbol](), list[str](), list[str](), 0
    for opened in _SCRIPT_OPENS.finditer(text):
        ends = re.compile(r"</script\s*>", re.IGNORECASE).search(text, opened.end())
        body = text[opened.end() : ends.start() if ends else len(text)]
        above = text.count("\n", 0, opened.end())
        found = outline(body, "typescript" if re.search(r"lang\s*=\s*[\"']?ts", opened[1]) else "javascript")
        symbols += [s._replace(first=s.first + above, last=s.last + above) for s in found.symbols]
        imports += found.imports
        exports += found.exports
        broken += found.broken
    return Outline(language, tuple(symbols), tuple(dict.fromkeys(imports)), tuple(exports), broken)


LANGUAGES: dict[str, Callable[[str], Outline]] = {
    "elisp": _elisp,
    "protobuf": _protobuf,
    "svelte": lambda text: _component(text, "svelte"),
    "vue": lambda text: _component(text, "vue"),
}
"""language -> what reads it"""
