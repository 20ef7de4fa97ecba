"""Versions of code that follow its source: a hash over the syntax trees of a definition and of what it uses of this package.

The unit is the top-level definition of a module. A function's version covers its own
tree and, transitively, every definition that it names in its module and in modules of the
same package; so an edit of a shared module is new code for those that use the edited
definition, and for nobody else. Comments, docstrings, formatting and annotations of
functions do not count, and the hash is the same under every supported Python.
"""

from __future__ import annotations

import ast
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.process.gc_pause import without_collector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

PACKAGE = "ctx_pipeline"

NOT_FOLLOWED = frozenset(
    {
        "discovery",
        "errors",
        "settings",
        "model.codec",
        "model.declared",
        "model.gc_pause",
        "model.tables",
        "pipeline.code_versions",
        "pipeline.derived_partitions",
        "pipeline.reports",
    }
)
"""Modules of the package that make no value of a row: what declares, finds, configures and reports."""

_LENGTH = 16
_PLACE = lazy_pattern(rf"{PACKAGE}(?:\.\w+)+:\w+")
"""A function that is named in a text and imported when it is called."""

Symbol = tuple[str, str]
"""Module and name of a top-level definition; the name ``*`` stands for all of a module."""

_known: dict[str, str] = {}
"""What was asked for -> its version, worked out here or by another process over the same files."""


def version_of(*functions: Any, given: Iterable[str] = ()) -> str:
    """Return the version of functions, or of texts ``module:name``, with everything that they use of the package.

    What the functions ``given`` return is input and not code: they are not followed.
    """
    symbols = [_symbol_of(function) for function in functions]
    bounds = sorted(given)
    asked = " ".join([*map(":".join, symbols), *(f"-{place}" for place in bounds)])
    if asked not in _known:
        with without_collector():
            used = _used(symbols, {_symbol_of(place) for place in bounds})
            # the module name of a file outside of the package may hold its place on this machine
            texts = [(module if module.startswith(f"{PACKAGE}.") else "", name, found.digest) for (module, name), found in used.items()]
        _known[asked] = digest(sorted(texts), size=_LENGTH)
    return _known[asked]


def remember(versions: Mapping[str, str]) -> None:
    """Take over what :func:`worked_out` gave in another process; no file may have changed since."""
    _known.update(versions)


def worked_out() -> dict[str, str]:
    """Return every version that was asked for."""
    return dict(sorted(_known.items()))


def forget() -> None:
    """Forget versions and files, so that these are looked at again."""
    _known.clear()
    _module.cache_clear()
    _uses.cache_clear()


def keep() -> None:
    """Keep what was read of the package's files beside its compiled modules, where that can be written."""
    if _read_anew:
        from msgspec.msgpack import encode

        found = {name: kept for name, kept in _files().items() if name.startswith(f"{PACKAGE}.") or name == PACKAGE}
        with suppress(OSError):
            _CACHE.parent.mkdir(exist_ok=True)
            beside = _CACHE.with_name(f"{_CACHE.name}.{os.getpid()}")
            beside.write_bytes(encode(found))
            beside.replace(_CACHE)
        _read_anew.clear()


def _symbol_of(function: Any) -> Symbol:
    if isinstance(function, str):
        module, _, name = function.partition(":")
        return module, name or "*"
    if place := getattr(function, "place", ""):
        return _symbol_of(place)
    function = getattr(function, "func", function)
    return function.__module__, function.__qualname__.partition(".")[0]


def _used(start: Iterable[Symbol], bounds: Collection[Symbol]) -> dict[Symbol, _Definition]:
    """Return the definitions behind symbols and all that these use, but for the bounds."""
    found: dict[Symbol, _Definition] = {}
    waiting = [used for symbol in start for used in _resolved(*symbol)]
    while waiting:
        symbol = waiting.pop()
        module = _module(symbol[0])
        if module and symbol not in found and symbol not in bounds:
            found[symbol] = module.definitions[symbol[1]]
            waiting += _uses(*symbol)
    return found


def _resolved(module: str, name: str) -> Iterator[Symbol]:
    """Yield the definitions behind a symbol, through the imports of other modules; none for what is not followed."""
    found = _module(module)
    if found is None:
        return
    target = found.imports.get(name)
    if name in found.definitions:
        yield module, name
    elif target is not None and target != (module, name):
        yield from _resolved(*target)
    elif _file(f"{module}.{name}") is not None:
        yield from _resolved(f"{module}.{name}", "*")
    else:
        # all of it, also for a name that is bound in a way which the tree does not show
        yield from ((module, own) for own in found.definitions)


# From a module's name to its definitions.


class _Definition(NamedTuple):
    """One top-level name of a module."""

    digest: str
    """hash of its normalized syntax trees"""
    names: list[tuple[str, str]]
    """names that it mentions, each with the attribute of it that is meant or an empty text"""
    imports: dict[str, Symbol]
    """name -> what an import inside of it binds it to"""
    places: list[str]
    """functions that it names in a text"""


class _Module(NamedTuple):
    """The top level of one file."""

    definitions: dict[str, _Definition]
    imports: dict[str, Symbol]
    """name -> what an import binds it to; the rest of a name ``*`` is the module itself"""


class _Kept(NamedTuple):
    """A file as it was read."""

    size: int
    time: int
    module: _Module


_CACHE = Path(__file__).parents[1] / "__pycache__" / "source_versions.msgpack"
_read_anew: set[str] = set()


@cache
def _files() -> dict[str, _Kept]:
    from msgspec import DecodeError
    from msgspec.msgpack import decode

    try:
        return decode(_CACHE.read_bytes(), type=dict[str, _Kept])
    except (OSError, DecodeError):
        return {}


@cache
def _module(name: str) -> _Module | None:
    """Return the top level of a module's file; None where it is not followed or has no source that can be read."""
    root, _, inner = name.partition(".")
    path = None if root == PACKAGE and inner in NOT_FOLLOWED else _file(name)
    if path is None:
        return None
    try:
        status = path.stat()
        kept = _files().get(name)
        if kept is None or (kept.size, kept.time) != (status.st_size, status.st_mtime_ns):
            read = _read(ast.parse(path.read_bytes()), name if path.name == "__init__.py" else name.rpartition(".")[0])
            kept = _files()[name] = _Kept(status.st_size, status.st_mtime_ns, read)
            _read_anew.add(name)
    except (OSError, SyntaxError, ValueError):
        return None
    return kept.module


def _file(name: str) -> Path | None:
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if loaded:
        return Path(loaded) if loaded.endswith(".py") else None
    root, *rest = name.split(".")
    top = getattr(sys.modules.get(root), "__file__", None)
    if top is None or not rest:
        return None
    base = Path(top).parent.joinpath(*rest)
    return next((p for p in (base.with_name(f"{base.name}.py"), base / "__init__.py") if p.is_file()), None)


def _read(tree: ast.Module, package: str) -> _Module:
    """Return the top level of a file; a statement that binds nothing new belongs to every name that it mentions."""
    statements: dict[str, list[ast.stmt]] = {}
    loose: list[ast.stmt] = []
    imports: dict[str, Symbol] = {}
    waiting = list(reversed(tree.body))
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports |= _bound(statement, package)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            statements.setdefault(statement.name, []).append(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            for bound in _stored(statement):
                statements.setdefault(bound, []).append(statement)
            if any(not isinstance(target, ast.Name | ast.Tuple) for target in _targets(statement)):
                loose.append(statement)
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in {getattr(statement.test, "id", ""), getattr(statement.test, "attr", "")}:
            waiting += reversed(statement.orelse)
        elif not _is_text(statement):
            for bound in _stored(statement):
                statements.setdefault(bound, []).append(statement)
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    imports |= _bound(inner, package)
            loose.append(statement)
    for statement in loose:
        for mentioned in {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)} & statements.keys():
            if statement not in statements[mentioned]:
                statements[mentioned].append(statement)
    return _Module({name: _walked(some, package) for name, some in statements.items()}, imports)


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _stored(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of the top level binds."""
    found: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            waiting += ast.iter_child_nodes(node)
    return found


def _bound(statement: ast.Import | ast.ImportFrom, package: str) -> dict[str, Symbol]:
    """Return name -> what an import binds it to, of this package or the file's own."""
    roots = {PACKAGE, package.partition(".")[0]}
    if isinstance(statement, ast.Import):
        named = [alias for alias in statement.names if alias.name.partition(".")[0] in roots]
        return {alias.asname or alias.name.partition(".")[0]: (alias.name, "*") for alias in named}
    module = statement.module or ""
    if statement.level:
        parts = package.split(".")
        module = ".".join([*parts[: len(parts) - statement.level + 1], *([module] if module else [])])
    return {alias.asname or alias.name: (module, alias.name) for alias in statement.names} if module.partition(".")[0] in roots else {}


# From a definition to its text and what it uses.


def _walked(statements: Sequence[ast.stmt], package: str) -> _Definition:
    walk = _Walk()
    for statement in statements:
        walk.take(statement)
    imports = {name: target for statement in walk.imports for name, target in _bound(statement, package).items()}
    return _Definition(digest(b"\0".join(walk.text), size=_LENGTH), sorted(walk.names), imports, sorted(walk.places))


@cache
def _uses(module: str, name: str) -> list[Symbol]:
    """Return the definitions that one names."""
    found = _module(module)
    return list(dict.fromkeys(_named(module, found, found.definitions[name]))) if found else []


def _named(name_of_module: str, module: _Module, definition: _Definition) -> Iterator[Symbol]:
    for place in definition.places:
        yield from _resolved(*_symbol_of(place))
    for name, attribute in definition.names:
        if name not in definition.imports and name in module.definitions:
            yield name_of_module, name
        elif target := definition.imports.get(name) or module.imports.get(name):
            as_module = target[0] if target[1] == "*" else ".".join(target)
            # an attribute of an imported module is that definition alone
            if attribute and _is_module(*target) and _module(as_module) is not None:
                yield from _resolved(as_module, attribute)
            else:
                yield from _resolved(*target)


def _is_module(module: str, name: str) -> bool:
    found = None if name == "*" else _module(module)
    return found is None or (name not in found.definitions and found.imports.get(name, (module, name)) == (module, name))


class _Walk:
    """A walk over syntax trees: their normalized text, the names that they mention, and what they import themselves."""

    def __init__(self) -> None:
        self.text: list[bytes] = []
        self.names: set[tuple[str, str]] = set()
        """name, and the attribute of it that is meant or an empty text"""
        self.places: set[str] = set()
        self.imports: list[ast.Import | ast.ImportFrom] = []

    def take(self, node: Any) -> None:
        """Walk a tree."""
        text, kind = self.text, node.__class__
        label, fields = _shape(kind)
        text.append(label)
        if kind is ast.Constant:
            text.append(_constant(node.value))
            if node.value.__class__ is str and ":" in node.value and _PLACE.fullmatch(node.value):
                self.places.add(node.value)
            return
        if kind is ast.Name:
            self.names.add((node.id, ""))
        elif kind is ast.Attribute and node.value.__class__ is ast.Name:
            self.names.add((node.value.id, node.attr))
            text += (node.value.id.encode(), node.attr.encode())
            return
        elif kind is ast.Import or kind is ast.ImportFrom:
            self.imports.append(node)
        for field in fields:
            value = getattr(node, field, None)
            if value.__class__ is list:
                text.append(b"[")
                for item in value:
                    if isinstance(item, ast.AST):
                        if not (field == "body" and _is_text(item)) and not (kind is ast.JoinedStr and _is_nothing(item)):
                            self.take(item)
                    else:
                        text.append(_constant(item))
                text.append(b"]")
            elif isinstance(value, ast.AST):
                self.take(value)
            else:
                text.append(_constant(value))


_LEFT_OUT = frozenset({"ctx", "type_comment", "kind", "type_params", "returns", "type_ignores"})
"""Fields that change nothing of what code does, or that not every Python has."""


@cache
def _shape(kind: type[ast.AST]) -> tuple[bytes, tuple[str, ...]]:
    """Return the name of a kind of node and those of its fields that change what code does."""
    left_out = _LEFT_OUT | ({"annotation"} if kind is ast.arg else set())
    return kind.__name__.encode(), tuple(field for field in kind._fields if field not in left_out)


def _is_text(statement: ast.AST) -> bool:
    """Tell whether a statement is only a text: the docstring of a function, a class or an attribute."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_nothing(part: ast.AST) -> bool:
    """Tell whether a part of an f-string is an empty text, as Python 3.12.0 puts behind a nested format."""
    return isinstance(part, ast.Constant) and part.value == ""


def _constant(value: Any) -> bytes:
    return b"s" + value.encode("utf-8", "surrogatepass") if value.__class__ is str else repr(value).encode()
