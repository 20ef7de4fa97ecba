"""The outline of a file: its symbols, imports and exports, found by walking the tree of its grammar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.compression.signatures import brackets, scripts, wheels
from ctx_pipeline.compression.signatures.dialects import DIALECTS, receiver_name
from ctx_pipeline.compression.signatures.fields import fields_of
from ctx_pipeline.compression.signatures.grammars import GRAMMARS, ends_soon
from ctx_pipeline.compression.signatures.modifiers import decorators_of, modifiers_of
from ctx_pipeline.compression.signatures.parts import (
    FUNCTIONS,
    Around,
    around_function,
    bases_of,
    callbacks_of,
    documented,
    flat,
    function_of,
    generics_of,
    inferred,
    keys_of,
    meant,
    name_of,
    objects_of,
    parameters_of,
    returned_by,
    text_before,
    typed_by,
    wrapped_by,
)
from ctx_pipeline.compression.signatures.symbols import Outline, Parameter, Symbol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ast_grep_py import SgNode

MOST_SYMBOLS = 10_000
"""Symbols of a file that are drawn; a generated file may have any number."""

_MOST_LEVELS = 500_000
"""Branches and blocks around what is declared under conditions, summed, behind which no more of that is drawn: each takes time."""

_DEEPEST = 40
"""Scopes inside each other that are followed."""

_SCRIPTS = frozenset({"javascript", "typescript", "tsx"})

_WORDS = {
    "interface": "interface",
    "enum": "enum",
    "protocol": "interface",
    "extension": "implementation",
}
_CARRIERS = frozenset(
    ["export_statement", "decorated_definition", "template_declaration", "class_member", "top_level_variable_declaration"]
)
"""Nodes around a declaration above which its documentation stands."""

_ACCESSORS = frozenset((language, kind) for language in _SCRIPTS for kind in ("method_definition", "method_signature"))
_PROPERTY = re.compile(r"(?:functools\.)?(?:cached_)?property\b|\w+\.(?:setter|getter|deleter)$")

_STATIC = frozenset({"cpp", "csharp", "java", "javascript", "php", "swift", "tsx", "typescript"})
"""languages that say ``static`` of a field"""

_ZIG_TYPES = frozenset({"struct_declaration", "enum_declaration", "union_declaration", "opaque_declaration"})
_MOST_OBJECTS = 3
"""objects inside each other whose functions are told"""

_HIDING = frozenset({"private", "protected", "fileprivate", "internal", "local"})
_SHOWING = frozenset({"public", "export", "pub", "open", "external"})


def outline(text: str, language: str | None) -> Outline:
    """Return what a file declares; of a language without a grammar, of data, and of text that no parser gets through in time, nothing.

    Local functions are left out. The text is only parsed, never run.
    """
    if language in wheels.LANGUAGES:
        return wheels.outline(text, language)
    if language in brackets.LANGUAGES:
        return brackets.LANGUAGES[language](text, outline)
    grammar = GRAMMARS.get(language or "")
    if grammar is None or language is None or not text.strip():
        return Outline(language)
    if not ends_soon(text, language):
        return Outline(language, broken=1)
    from ast_grep_py import SgRoot

    root = SgRoot(text, language).root()
    drawn = Drawing(language)
    drawn.walk(root.children(), 0, shown=True)
    exported = drawn.named_exports
    left_out = drawn.replaced
    own = {s.name for n, s in enumerate(drawn.symbols) if not s.level and n not in drawn.again and n not in left_out}
    held = [
        s._replace(members=tuple(dict.fromkeys(drawn.fields[n]))) if n in drawn.fields else s
        for n, s in enumerate(drawn.symbols)
        if n not in left_out and (n not in drawn.again or s.name not in own)
    ]
    symbols = tuple(
        symbol._replace(exported=True) if symbol.name in exported and not symbol.level else symbol
        for symbol in sorted(held, key=lambda s: (s.first, s.level))
    )
    declared = {symbol.name for symbol in symbols}
    exports = tuple(name for name in dict.fromkeys(drawn.exports) if name not in declared)
    return Outline(language, symbols, tuple(dict.fromkeys(drawn.imports)), exports, len(root.find_all(kind="ERROR")))


class Drawing:
    """What was found so far."""

    def __init__(self, language: str) -> None:
        self._language = language
        self.grammar = GRAMMARS[language]
        self.symbols: list[Symbol] = []
        self.fields: dict[int, list[str]] = {}
        """place of a symbol -> its fields"""
        self.imports: list[str] = []
        self.exports: list[str] = []
        self.named_exports: set[str] = set()
        self.again: set[int] = set()
        """places of symbols that only say that a name is exported, which is declared elsewhere"""
        self.replaced: set[int] = set()
        """places of symbols whose name a script gave something else afterwards"""
        self.under = 0
        """branches and blocks of conditions around what is looked at"""
        self._levels = 0
        """those around what was added, summed"""
        self._assigned: dict[tuple[str, bool], range] = {}
        """name, exported -> places of what a script gave to it last"""
        self._depth = 0

    def walk(self, nodes: Iterable[SgNode], level: int, *, shown: bool, said: SgNode | None = None) -> None:
        """Look at the nodes of one scope; ``said`` is what stands around them and carries their documentation."""
        if self._depth > _DEEPEST:
            return
        self._depth += 1
        grammar, access = self.grammar, shown
        for node in nodes:
            if len(self.symbols) - len(self.replaced) >= MOST_SYMBOLS or (self.under and self._levels >= _MOST_LEVELS):
                break
            kind = node.kind()
            if kind == "access_specifier" or (kind == "identifier" and node.text() in {"private", "protected", "public"}):
                access = node.text().strip(" :") == "public"
            elif kind in grammar.imports:
                self._import(node)
            elif kind in grammar.declares:
                self.declare(node, grammar.declares[kind], Around(level, said or node, access))
            elif kind == "let_expression":  # what it binds is seen in it alone
                for child in node.children():
                    self.walk([child], level, shown=access and child.kind() != "binding_set")
            elif kind in grammar.inside:
                if kind == "if_statement" and self._language == "python" and "__name__" in node.text()[:60]:
                    continue  # what a script does, not what a module has
                if kind == "export_statement":
                    self._exporting(node)
                    for given in objects_of(node.field("value")):
                        self.object(given, shown=True)
                carries, first = node if kind in _CARRIERS else said, len(self.symbols)
                self.walk(node.children(), level, shown=access, said=carries)
                if kind == "singleton_class":
                    own = [s._replace(name=f"self.{s.name}") if s.kind == "function" else s for s in self.symbols[first:]]
                    self.symbols[first:] = own
            elif kind == "ERROR" and not level:
                self.walk(node.children(), level, shown=access)  # a part that the grammar could not read may hold parts that it can
            elif kind in {"call", "command"}:
                self.calls(node, level)
            elif kind == "binary_expression" and not level and self._language in _SCRIPTS and (right := node.field("right")) is not None:
                self.walk([right], level, shown=access)  # what is called where a condition holds
            elif kind in scripts.BRANCHES and not level and self._language in _SCRIPTS:
                scripts.under_conditions(self, node, shown=access)
            elif kind == "call_expression" and not level and self._language in _SCRIPTS:
                scripts.exported_by_call(self, node)
                # a module of tests, or one that is wrapped in a function, declares everything there
                for given in callbacks_of(node):
                    if given.field("name") is not None:
                        self.declare(given, "function", Around(level, given, shown=False))
                    if (body := given.field("body")) is not None and body.kind() == "statement_block":
                        self.walk(body.children(), level, shown=False)
        self._depth -= 1

    def only_exported(self, name: str) -> None:
        """Note that the next symbol only says of a name that it is exported."""
        self.again.add(len(self.symbols))
        self.named_exports.add(name)

    def once(self, first: int) -> None:
        """Let what was added from a place on hold for its name, in place of what a script gave to that before.

        What tells less, such as ``null`` or ``{}`` behind a function, is dropped. Of branches the first holds.
        """
        if len(self.symbols) <= first or self.symbols[first].level:
            return
        added, places = (self.symbols[first].name, self.symbols[first].exported), range(first, len(self.symbols))
        before = self._assigned.get(added, range(0))
        if before and self._weight(places) < self._weight(before) + bool(self.under):
            del self.symbols[first:]
            for place in places:
                self.fields.pop(place, None)
                self.again.discard(place)
            return
        self.replaced.update(before)
        self._assigned[added] = places

    def _weight(self, places: range) -> int:
        """Return how much is told of a name: 0 only that it is exported, 1 that it has a value of any sort, 2 what it is."""
        first = self.symbols[places[0]]
        known = first.kind != "value" or first.returns or places[0] in self.fields or len(places) > 1
        return 0 if places[0] in self.again else 2 if known else 1

    def declare(self, node: SgNode, kind: str, around: Around) -> None:
        """Add what a node declares, and the members of it."""
        level, said, shown = around
        special = DIALECTS.get((self._language, kind))
        if special is not None and special(self, node, around):
            return
        if kind == "field":
            self.field(node, around)
            return
        if kind == "value":
            self._values(node, around)
            return
        words, name = self.before_name(node, said), name_of(node)
        if kind == "class":
            kind = next((_WORDS[word] for word in re.findall(r"\w+", words) if word in _WORDS), kind)
        callable_ = kind == "function" or "record" in node.kind() or node.kind() == "class_definition"
        callable_ = callable_ or any(c.kind() in {"primary_constructor", "parameter_list"} for c in node.children())
        if self._language in {"c", "cpp"} and kind in {"class", "enum"} and node.field("body") is None:
            return
        if kind == "implementation":
            name = self._implemented(node, name)
        if not name:
            if kind == "module" and (body := node.field("body")) is not None:
                self.walk(body.children(), level, shown=shown)
            return
        target, returns = function_of(node), ""
        if kind in {"function", "property"}:
            returns = returned_by(node)
            if self._language in {"c", "cpp"} and (declared := node.field("declarator")) is not None:
                returns += around_function(declared, target)
        elif kind == "type":
            returns = meant(node, name)
        elif kind in {"class", "interface", "enum"} or (kind == "implementation" and self._language == "swift"):
            returns = bases_of(node)
        if kind == "function" and (self._language, node.kind()) in _ACCESSORS and re.search(r"\b[gs]et\s+$", words):
            kind, callable_ = "property", False
        parameters = parameters_of(target, self.grammar) if callable_ else None
        if callable_ and kind != "function" and not parameters:
            parameters = None
        if self._language == "python":
            parameters = tuple(p for p in parameters if p.name not in {"self", "cls"}) if parameters and level else parameters
            name = name.partition("[")[0]
            if kind == "function" and level and any(_PROPERTY.match(text) for text in decorators_of(node, said)):
                kind, parameters = "property", None
        exported = kind == "implementation" or self.is_exported(name, words, level, shown=shown)
        awaited = kind == "function" and self._is_async(node, words)
        self.add(node, around, kind, name, exported=exported, parameters=parameters, returns=returns, asynchronous=awaited)
        written_out = kind == "type" and not returns and node.field("value") is not None
        if kind not in {"function", "type", "property"} or node.kind() == "type_spec" or written_out:
            body = node.field("value") if written_out else node.field("body")
            bodies = [body] if body is not None else node.children()
            members_shown = kind in {"interface", "enum"} or "class_specifier" not in node.kind()
            inner = level + (self._language != "cpp" or kind != "module")
            self.members(bodies, inner, shown=exported and members_shown, always=kind in {"interface", "type"})

    def _implemented(self, node: SgNode, name: str) -> str:
        """Return what an implementation is of: ``Show for Cart<T>`` where it is one of a trait."""
        trait = node.field("trait")
        if trait is None and name:
            return name
        held = node.field("type") or next((c for c in node.children() if c.kind() == "user_type"), None)
        made = flat(held.text()) if held is not None else ""
        return f"{flat(trait.text())} for {made}" if trait is not None else made

    def field(self, node: SgNode, around: Around) -> None:
        """Add a field to what it stands in; outside of all it is a value."""
        marks = "".join(f"@{text} " for text in decorators_of(node, node)) if self._language in _SCRIPTS else ""
        marks += "static " if around.level and self._is_static(node, around.said) else ""
        told = [f"{marks}{one}" for one in fields_of(node, self._language)]
        if around.level and self.hold(told, around.level):
            self._methods_of_field(node, around)
            return
        for one in told:
            name, _, written = one.partition(":")
            exported = self.is_exported(name, self.before_name(node, around.said), 0, shown=around.shown)
            self.add(node, around, "value", name.rstrip("?"), exported=exported, returns=written)

    def _methods_of_field(self, node: SgNode, around: Around) -> None:
        """Add the methods of a field whose type is written out, named as they are called."""
        written = node.field("type") if node.kind() == "property_signature" else None
        made = next((c for c in written.children() if c.kind() == "object_type"), None) if written is not None else None
        for one in made.children() if made is not None else ():
            if one.kind() == "method_signature":
                before = len(self.symbols)
                self.declare(one, "function", around._replace(said=one))
                self.symbols[before:] = [s._replace(name=f"{name_of(node)}.{s.name}") for s in self.symbols[before:]]

    def _is_static(self, node: SgNode, said: SgNode) -> bool:
        """Tell whether a field is one of the class, not of its instances."""
        return self._language in _STATIC and re.search(r"\b(?:static|class)\b", self.before_name(node, said)) is not None

    def hold(self, fields: list[str], level: int) -> bool:
        """Give fields to what they stand in; False where there is nothing."""
        place = next((place for place in range(len(self.symbols) - 1, -1, -1) if self.symbols[place].level < level), None)
        if place is not None:
            self.fields.setdefault(place, []).extend(fields)
        return place is not None

    def members(self, held: Iterable[SgNode], level: int, *, shown: bool, always: bool) -> None:
        """Look at the bodies of a declaration; ``always``: all in them is seen where the declaration is."""
        if level > _DEEPEST:
            return
        first = len(self.symbols)
        for body in held:
            if body.kind() == "ordered_field_declaration_list":
                self.hold(fields_of(body, self._language), level)
            elif body.kind() in self.grammar.inside or body.kind() in {"block", "ERROR"}:
                self.walk(body.children(), level, shown=shown)
        if always:
            self.symbols[first:] = [symbol._replace(exported=shown) for symbol in self.symbols[first:]]

    def add(
        self,
        node: SgNode,
        around: Around,
        kind: str,
        name: str,
        *,
        exported: bool,
        parameters: tuple[Parameter, ...] | None = None,
        returns: str = "",
        asynchronous: bool = False,
    ) -> None:
        """Add a symbol with its lines, type parameters and documentation."""
        self._levels += self.under
        place = node.range()
        doc = documented(node, self.grammar) or documented(around.said, self.grammar)
        last = place.end.line + (0 if place.end.column == 0 and place.end.line > place.start.line else 1)
        first, generics = place.start.line + 1, generics_of(node)
        decorators = tuple(text for text in decorators_of(node, around.said) if text != "property")
        if kind not in {"value", "type"} or self._language == "scala":
            decorators += modifiers_of(node, self._language, inside=around.level > 0)
        if kind == "property" and re.search(r"\bset\s+\S+$", node.text().partition("(")[0]):
            decorators += ("set",)
        held = (kind, name, exported, around.level, first, last, parameters, returns, generics, asynchronous, doc, decorators)
        self.symbols.append(Symbol(*held))

    def _values(self, node: SgNode, around: Around) -> None:
        """Add the constants and variables of a declaration; a function that is given a name is a function."""
        level, said, shown = around
        words = self.before_name(node, said)
        wraps = {"variable_declarator", "const_element", "variable_assignment", "assignment_statement"}
        declarators = [c for c in node.children() if c.kind() in wraps]
        if node.kind() == "field_declaration" and not declarators:
            declarators = [
                d for c in node.children() if c.kind() == "variable_declaration" for d in c.children() if d.kind() == "variable_declarator"
            ]
        if level and not self._is_constant(node, words) and not self._holds_function(node):
            self.field(node, around)
            return
        receiver = next((c for c in node.children() if c.kind() == "receiver_type"), None)
        for one in declarators or [node]:
            self._patterns(one, around)
            name = name_of(one)
            if receiver is not None:
                name = f"{receiver_name(receiver)}.{name}"
            value = one.field("value") or one.field("right") or next((c for c in reversed(one.children()) if c.is_named()), None)
            if value is not None and value.kind() == "expression_list" and len(value.children()) == 1:
                value = value.children()[0]
            if not name or not re.fullmatch(r"[\w$.#@]{1,200}", name) or (self._language == "ruby" and not name[:1].isupper()):
                continue
            if value is not None and value.text().startswith(("require(", "@import(")):
                self.imports.append(re.sub(r"[^(]*\(\s*['\"]?|['\"]?\s*\).*", "", flat(value.text())))
                continue
            exported = self.is_exported(name, words, level, shown=shown)
            whole = value
            if self._language in _SCRIPTS:
                value = wrapped_by(value)
            if value is not None and value.kind() in FUNCTIONS and value.kind() != name:
                is_async = value.text().startswith("async")
                parameters = parameters_of(value, self.grammar)
                if value.field("parameter") is not None:
                    parameters = (Parameter(flat(value.field("parameter").text())),)  # type: ignore[union-attr]
                returns = returned_by(value)
                if whole is not None and whole.kind() == "call_expression":
                    parameters = typed_by(whole, parameters)
                self.add(one, around, "function", name, exported=exported, parameters=parameters, returns=returns, asynchronous=is_async)
                self.symbols[-1] = self.symbols[-1]._replace(generics=generics_of(value))
            elif value is not None and value.kind() in _ZIG_TYPES:
                self.add(one, around, "enum" if value.kind() == "enum_declaration" else "class", name, exported=exported)
                self.members([value], level + 1, shown=exported, always=False)
            elif value is not None and value.kind() == "class" and self._language in _SCRIPTS:
                self.named_class(one, value, around, name, exported=exported)
            else:
                written = returned_by(one) or returned_by(node)
                if not written and node.kind() == "field_declaration":
                    written = next(iter(fields_of(node, self._language)), "").partition(":")[2]
                self.add(one, around, "value", name, exported=exported, returns=written or inferred(value))
                self._members_of_value(value, name, around, shown=exported)

    def _members_of_value(self, value: SgNode | None, name: str, around: Around, *, shown: bool) -> None:
        """Add the functions and the keys of an object or a table that was given a name at the top of a file."""
        if value is None or around.level:
            return
        if value.kind() == "object":
            self.fields[len(self.symbols) - 1] = keys_of(value)
            self.object(value, shown=shown)
        elif value.kind() == "call_expression" and self._language in _SCRIPTS:
            self._called_at_once(value, shown=shown)
            for given in objects_of(value):
                self.object(given, shown=shown)
        elif value.kind() == "table_constructor":
            self.table(value, f"{name}.", around, shown=shown)

    def named_class(self, node: SgNode, made: SgNode, around: Around, name: str, *, exported: bool, with_members: bool = True) -> None:
        """Add a class without a declaration, to which a script gives a name or which it exports."""
        self.add(node, around, "class", name, exported=exported, returns=bases_of(made))
        if with_members:
            self.members(made.children(), around.level + 1, shown=exported, always=False)

    def _patterns(self, node: SgNode, around: Around) -> None:
        """Add the names that a script takes out of a value at once: ``const { a, b: c } = f()``."""
        taken, value = node.field("name") if self._language in _SCRIPTS and not around.level else None, node.field("value")
        if value is not None and (loaded := re.match(r"(?:await import|require)\(\s*[\"']([^\"']+)", value.text())):
            if taken is not None and taken.kind() != "identifier":
                self.imports.append(loaded[1])
            return
        for one in taken.children() if taken is not None and taken.kind() in {"array_pattern", "object_pattern"} else ():
            held = one.field("value") if one.kind() == "pair_pattern" else one
            if held is not None and held.kind() in {"identifier", "shorthand_property_identifier_pattern"}:
                exported = self.is_exported(held.text(), self.before_name(node, around.said), 0, shown=around.shown)
                self.add(node, around, "value", held.text(), exported=exported)

    def _called_at_once(self, value: SgNode, *, shown: bool) -> None:
        """Add what a function declares, and the functions of the object that it gives back, where it is called as it is written."""
        called = value.field("function")
        if called is None or called.kind() != "parenthesized_expression":
            return
        for given in called.children():
            body = given.field("body") if given.kind() in FUNCTIONS else None
            for one in body.children() if body is not None else ():
                if one.kind() in {"function_declaration", "class_declaration"}:
                    self.declare(one, self.grammar.declares[one.kind()], Around(1, one, shown=False))
                held = next((c for c in one.children() if c.kind() == "object"), None) if one.kind() == "return_statement" else None
                if held is not None:
                    back = {c.text() for c in held.children() if c.kind() == "shorthand_property_identifier"}
                    self.symbols[:] = [s._replace(exported=shown) if s.level == 1 and s.name in back else s for s in self.symbols]
                    self.object(held, shown=shown)

    def table(self, value: SgNode, before: str, around: Around, *, shown: bool) -> None:
        """Add the functions of a table of Lua, named as they are called."""
        for held in value.children():
            inner, key = held.field("value"), held.field("name")
            if held.kind() == "field" and inner is not None and inner.kind() == "function_definition" and key is not None:
                taken = parameters_of(inner, self.grammar)
                self.add(held, around, "function", f"{before}{key.text()}", exported=shown, parameters=taken)

    def object(self, value: SgNode, *, shown: bool, before: str = "") -> None:
        """Add the functions of an object that a script names or exports."""
        for held in value.children():
            inner = held.field("value") if held.kind() == "pair" else None
            if held.kind() == "method_definition":
                self.declare(held, "function", Around(1, held, shown))
                if before and self.symbols[-1].name == name_of(held):
                    self.symbols[-1] = self.symbols[-1]._replace(name=f"{before}{self.symbols[-1].name}")
            elif inner is not None and inner.kind() == "object" and before.count(".") < _MOST_OBJECTS:
                key = held.field("key")
                self.object(inner, shown=shown, before=f"{before}{key.text() if key is not None else ''}.")
            elif inner is not None and inner.kind() in FUNCTIONS and (key := held.field("key")) is not None:
                taken, given = parameters_of(inner, self.grammar), returned_by(inner)
                is_async = inner.text().startswith("async")
                name = before + key.text().strip("'\"")
                place = Around(1, held, shown)
                self.add(held, place, "function", name, exported=shown, parameters=taken, returns=given, asynchronous=is_async)
                self.symbols[-1] = self.symbols[-1]._replace(generics=generics_of(inner))

    def _holds_function(self, node: SgNode) -> bool:
        """Tell whether a property of a class is given a function as it is declared."""
        value = node.field("value") if self._language in _SCRIPTS else None
        return value is not None and value.kind() in FUNCTIONS

    def _is_constant(self, node: SgNode, words: str) -> bool:
        """Tell whether a value inside a class is one of the class, not of its instances."""
        held = set(re.findall(r"\w+", words))
        return self.grammar.fields and (
            bool(held & {"const", "constexpr", "constant"})
            or {"static", "readonly"} <= held
            or {"static", "final"} <= held
            or node.kind()
            in {"const_item", "static_item", "const_declaration", "static_final_declaration", "val_definition", "constant_declaration"}
            or (self._language in {"python", "ruby", "zig"} and name_of(node).isupper())
            or (self._language == "ruby" and name_of(node)[:1].isupper())
            or ("static" in held and "let" in held)
        )

    def before_name(self, node: SgNode, said: SgNode) -> str:
        """Return the words of a declaration before its name."""
        named = node.field("name") or node.field("declarator") or node.field("left") or node.field("pattern")
        if named is None:
            named = next((c for c in node.children() if c.kind().endswith(("identifier", "declarator", "variable_declaration"))), None)
        outer = said if said.kind() in {"export_statement", "template_declaration"} else node
        return text_before(named, outer) if named is not None else outer.text()[:80]

    def _is_async(self, node: SgNode, words: str) -> bool:
        if re.search(r"\b(async|suspend)\b", words):
            return True
        if self._language == "swift":
            return re.search(r"\)\s*async\b", node.text().partition("{")[0]) is not None
        above = node.parent()
        whole = above.parent() if above is not None and above.kind() == "method_signature" else above
        if self._language != "dart" or whole is None:
            return False
        behind = whole.text()[node.range().end.index - whole.range().start.index :]
        return behind.lstrip().startswith("async")

    def is_exported(self, name: str, words: str, level: int, *, shown: bool) -> bool:
        """Tell whether others may use a name, by the words before it and the rule of the language."""
        held, rule = set(re.findall(r"[a-z]+", words)), self.grammar.visible
        if rule == "capital":
            return name[:1].isupper()
        if rule == "underscore":
            return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))
        if rule == "static":
            return "static" not in held and shown if not level else shown
        if rule == "always":
            return shown
        if rule == "local":
            return "local" not in held
        if self._language == "swift":
            held.discard("internal")  # what is said of nothing else either
        if name.startswith("#") or held & _HIDING:
            return False
        if rule == "private" or held & _SHOWING:
            return True
        # a member of what is exported; in Rust, Java and C# each says so itself
        return bool(level) and shown and self._language in {"typescript", "tsx", "javascript"}

    def _import(self, node: SgNode) -> None:
        text = flat(node.text()).rstrip(";")
        quoted = re.findall(r"""["'<]([^"'<>]+)["'>]""", text)
        words = re.sub(r"^(?:from|import|use|using|#include|extern crate|pub use)\s+(?:static |qualified )?", "", text)
        if self._language == "python" and text.startswith("from "):
            words = words.partition(" import ")[0]
        self.imports.append(quoted[-1] if quoted and self._language not in {"rust", "haskell"} else words.split("\n")[0])
        if self._language == "rust" and text.startswith("pub use"):
            self.exports.append(text.removeprefix("pub use").strip())

    def _exporting(self, node: SgNode) -> None:
        """Note the names of ``export { a, b as c }`` and ``export * from``."""
        for clause in node.children():
            if clause.kind() == "export_clause":
                for one in clause.children():
                    if one.kind() == "export_specifier":
                        names = [c.text() for c in one.children() if c.is_named()]
                        self.named_exports.add(names[0])
                        self.exports.append(names[-1])
            elif clause.kind() in {"*", "namespace_export"}:
                self.exports.append(flat(node.text()).removeprefix("export ").rstrip(";"))

    def _mixed_in(self, said: str, level: int) -> None:
        """Note what a class of Ruby has from modules."""
        place = next((place for place in range(len(self.symbols) - 1, -1, -1) if self.symbols[place].level < level), None)
        if place is not None:
            owner = self.symbols[place]
            self.symbols[place] = owner._replace(returns=", ".join(filter(None, (owner.returns, said))))

    def calls(self, node: SgNode, level: int = 0) -> None:
        """Note what a script loads: ``require``, ``source`` of a shell, ``alias`` and ``use`` of Elixir; add attributes of Ruby."""
        if self._language == "ruby" and level and re.match(r"(?:attr_(?:accessor|reader|writer))\b", node.text()):
            self.hold(re.findall(r":(\w+[?!]?)", node.text()), level)
            return
        if (
            self._language == "ruby"
            and level
            and (mixed := re.match(r"(include|extend|prepend)\s+([A-Z][\w:]*(?:,\s*[A-Z][\w:]*)*)$", node.text()))
        ):
            self._mixed_in(f"{mixed[1]} {flat(mixed[2])}", level)
            return
        if self._language == "ruby" and re.match(r"(?:private|protected|public|module_function|private_class_method)\b", node.text()):
            arguments = node.field("arguments")
            self.walk(arguments.children() if arguments is not None else (), level, shown=node.text().startswith("public"))
            return
        words = flat(node.text()).split()
        if len(words) == 2 and words[0] in {"require", "require_relative", "source", "."}:
            self.imports.append(words[1].strip("\"'"))
