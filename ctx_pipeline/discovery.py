"""Finds what extension files declare: a folder scan plus entry points, no registry.

A file whose name begins with an underscore is not an extension, nor are ``base.py`` and
``hosts/record_rows.py``, from which the documented examples import, nor ``mining/filters.py``. Entry-point
groups are ``ctx_pipeline.hosts``, ``.signals``, ``.methods`` and ``.panels``; each entry
names a module that declares values in the same way. Signals and methods are also looked for in a folder of the person's
own, see :func:`look_in`. A file there, or a plug-in, that cannot be used is left out and named by :func:`left_out`; the
others are as if it were not there.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.machinery import SourceFileLoader
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from ctx_pipeline.errors import DeclarationError, UnknownName
from ctx_pipeline.model import source_versions
from ctx_pipeline.model.declared import Host, Method, Panel, Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, ModuleType

T = TypeVar("T", Host, Signal, Method, Panel)
P = ParamSpec("P")
R = TypeVar("R")

_KEPT: list[Callable[[], None]] = []
"""What forgets the answers that rest on the hosts."""

_FOLDERS: dict[type, tuple[str, str]] = {
    Host: ("ctx_pipeline.hosts", "ctx_pipeline.hosts"),
    Signal: ("ctx_pipeline.signals", "ctx_pipeline.signals"),
    Method: ("ctx_pipeline.mining", "ctx_pipeline.methods"),
    Panel: ("ctx_pipeline.dashboard.panels", "ctx_pipeline.panels"),
}

_OWN: dict[type, str] = {Signal: "signals", Method: "methods"}
"""Kind -> its folder below the person's own."""

_NO_EXTENSIONS = frozenset({"base", "filters", "inputs", "lessons", "record_rows", "record_values"})
"""Modules beside extensions that are none: what examples import, the filters, and what files share."""

_METHOD_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
"""What can be a part of an asset key and of a file's name."""

_own_folder: Path | None = None


class _Found(NamedTuple):
    """What the files of one kind declare, and which of those that are no part of the package cannot be used and why."""

    values: tuple[Any, ...]
    left_out: dict[str, str]


_left_out: dict[Path | None, dict[str, str]] = {}
"""Folder of the person's own -> file or plug-in -> why it is left out, as far as anybody has looked."""


@dataclass(frozen=True, repr=False)
class Family:
    """All signals of one file: one asset key with its own code version."""

    name: str
    signals: tuple[Signal, ...]

    @property
    def code_version(self) -> str:
        """Text that changes when a signal of the file is added or removed, or what takes its readings is edited."""
        return hashlib.sha256(",".join(f"{s.name}:{s.code_version}" for s in self.signals).encode()).hexdigest()[:12]

    @property
    def reads(self) -> tuple[str, ...]:
        """Tables that the file's signals need."""
        return tuple(sorted({table for s in self.signals for table in s.reads}))


def hosts() -> dict[str, Host]:
    """Return every host by key."""
    return {h.key: h for h in _declared(Host)}


def host(name: str) -> Host:
    """Return the host of a key or alias; raises UnknownName."""
    known = hosts()
    for found in known.values():
        if name == found.key or name in found.aliases:
            return found
    raise UnknownName("host", name, known)


def until_reload(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with its answers kept, as what rests on the hosts may be, until :func:`reload`."""
    kept = lru_cache(maxsize=None)(function)
    _KEPT.append(kept.cache_clear)
    return kept  # type: ignore[return-value]


@until_reload
def declared_texts(place: str) -> tuple[str, ...]:
    """Return the texts that hosts declare in one place, such as ``records.approval_tools``, each once."""
    return tuple(dict.fromkeys(text for h in hosts().values() for text in sorted(attrgetter(place)(h))))


@until_reload
def declared_pattern(place: str) -> re.Pattern[str]:
    """Return one pattern for those that hosts declare in one place, such as ``shell.embedded``; matches nothing where there is none."""
    return re.compile("|".join(p for h in hosts().values() if (p := attrgetter(place)(h))) or r"(?!)")


@until_reload
def project_folder_pattern(place: str = "") -> re.Pattern[str]:
    """Return a pattern for what lies in a host's folder of a project, or in those of its folders that a place names."""
    parts = []
    for found in hosts().values():
        below = sorted(attrgetter(place)(found)) if place else [""]
        if found.files.project_folder and below:
            inside = "|".join(map(re.escape, below))
            parts.append(rf"{re.escape(found.files.project_folder)}{f'/(?:{inside})' if place else ''}")
    return re.compile(rf"(?:^|/)(?:{'|'.join(parts) or '(?!)'})(?:/|$)")


@until_reload
def _worktree_pattern() -> re.Pattern[str]:
    folders = [f"{h.files.project_folder}/{name}" for h in hosts().values() for name in h.files.worktree_folders]
    either = "|".join(re.escape(folder).replace("/", r"[/\\]") for folder in (".worktrees", *folders))
    return re.compile(rf"^(.+?)[/\\](?:{either})[/\\][^/\\]+(?:[/\\].*)?$")


def checkout_of(folder: str) -> str:
    """Return the checkout that a worktree inside of it belongs to; any other folder as it is."""
    inside = _worktree_pattern().match(folder)
    return inside[1] if inside else folder


def signals() -> dict[str, Signal]:
    """Return every signal by name."""
    return {s.name: s for s in _declared(Signal)}


def families() -> dict[str, Family]:
    """Return signals by the file that declares them."""
    grouped: dict[str, list[Signal]] = {}
    for s in _declared(Signal):
        grouped.setdefault(s.family, []).append(s)
    return {name: Family(name, tuple(members)) for name, members in sorted(grouped.items())}


def methods() -> dict[str, Method]:
    """Return every mining method by name."""
    return {m.name: m for m in _declared(Method)}


def panels() -> list[Panel]:
    """Return the panels of the page in their order."""
    return sorted(_declared(Panel), key=lambda p: (p.order, p.name))


def left_out() -> dict[str, str]:
    """Return the person's files and the plug-ins that cannot be used, with the reason and its line.

    Known are those of the kinds that were asked for, or that an earlier process found and
    :func:`remember_left_out` was told of.
    """
    return dict(sorted({**_left_out.get(None, {}), **_left_out.get(_own_folder, {})}.items()))


def remember_left_out(found: Mapping[str, str]) -> None:
    """Take over what another process left out, as long as no file changed."""
    _left_out.setdefault(_own_folder, {}).update(found)


def reload() -> None:
    """Forget what was found, so that a file added since is seen."""
    _scanned.cache_clear()
    _left_out.clear()
    source_versions.forget()
    for forget in _KEPT:
        forget()
    for name in [n for n in sys.modules if n.startswith(f"{_OWN_PACKAGE}.")]:
        del sys.modules[name]


def look_in(folder: Path | None) -> None:
    """Look for signals in ``folder/signals`` and methods in ``folder/methods`` from now on: files of the person's own."""
    global _own_folder  # noqa: PLW0603 - one folder a process, told by whoever has read the settings
    _own_folder = folder


def own_files() -> list[Path]:
    """Return the extension files in the person's own folder, sorted; none where there is no such folder."""
    if _own_folder is None:
        return []
    return sorted(p for name in _OWN.values() for p in (_own_folder / name).glob("*.py") if _is_extension(p.stem))


def _is_extension(name: str) -> bool:
    return not name.startswith("_") and name not in _NO_EXTENSIONS


def _declared(kind: type[T]) -> tuple[T, ...]:
    # the cache's type asks for a hashable class, which the classes of frozen values do not look like to it
    own = _own_folder if kind in _OWN else None
    found = _scanned(kind.__name__, own)
    if found.left_out:
        _left_out.setdefault(own, {}).update(found.left_out)
    return found.values


@lru_cache(maxsize=16)
def _scanned(name_of_kind: str, own: Path | None) -> _Found:
    kind: Any = next(k for k in _FOLDERS if k.__name__ == name_of_kind)
    folder, group = _FOLDERS[kind]
    found: dict[str, tuple[Any, str]] = {}
    places: dict[str, str] = {}
    broken: dict[str, str] = {}
    for place, name in _folder_modules(folder):
        try:
            module = _package_module(name, place)
        except DeclarationError as error:
            broken[str(place)] = error.message
        else:
            _take(kind, module, found, places)
    for place, bring in (*(_own_modules(own / _OWN[kind]) if own else ()), *_plugin_modules(group)):
        here, there = dict(found), dict(places)
        try:
            _take(kind, bring(), here, there)
        except DeclarationError as error:
            broken[place] = error.message
        else:
            found, places = here, there
    return _Found(tuple(value for _, (value, _) in sorted(found.items())), broken)


def _take(kind: type[T], module: ModuleType, found: dict[str, tuple[Any, str]], places: dict[str, str]) -> None:
    """Add what a module declares; raises DeclarationError for nothing, for a name that is taken, and for one that is none."""
    values = [v for v in vars(module).values() if isinstance(v, kind)]
    if not values:
        raise DeclarationError(
            f"{module.__name__} declares no {kind.__name__.lower()}",
            hint="declare one, or begin the file's name with an underscore",
            module=module.__name__,
        )
    for value in values:
        name = value.key if isinstance(value, Host) else value.name
        if isinstance(value, Method) and not _METHOD_NAME.fullmatch(str(name)):
            raise DeclarationError(f"{name!r} cannot be the name of a method", hint="use lower-case letters, digits and underscores")
        if isinstance(value, Signal) and places.setdefault(value.family, value.function.__module__) != value.function.__module__:
            raise DeclarationError(
                f"two files of signals are named {value.family!r}: {places[value.family]} and {value.function.__module__}",
                hint="rename one of them: its name is the asset key of its signals",
                name=value.family,
            )
        if name in found and found[name][0] is not value:
            raise DeclarationError(
                f"{kind.__name__.lower()} {name!r} is declared twice: {found[name][1]} and {module.__name__}",
                hint="rename one of them",
                name=name,
            )
        found[name] = (value, module.__name__)


def _folder_modules(folder: str) -> Iterator[tuple[Path, str]]:
    """Yield the extension files of a package, each with the name it is imported by."""
    package = importlib.import_module(folder)
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name):
        if _is_extension(info.name):
            yield Path(info.module_finder.path) / f"{info.name}.py", f"{folder}.{info.name}"  # type: ignore[union-attr]


def _package_module(name: str, path: Path) -> ModuleType:
    """Import a file of a package; raises DeclarationError, with the line, where it cannot be: somebody may be writing it."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise DeclarationError(f"{path} cannot be imported: {_place(error, path)}", hint="mend the file or move it away") from error


_OWN_PACKAGE = "ctx_pipeline_own"


def _own_modules(folder: Path) -> Iterator[tuple[str, Callable[[], ModuleType]]]:
    """Yield the files of a folder that is no package, each with what imports it."""
    for path in sorted(p for p in folder.glob("*.py") if _is_extension(p.stem)):
        yield str(path), partial(_own_module, folder, path)


class _Fresh(SourceFileLoader):
    """Compiles a file whenever it is imported: a kept compilation outlives an edit of the same size in the same second."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - the name that Python asks by
        return self.source_to_code(self.get_data(self.path), self.path)


def _own_module(folder: Path, path: Path) -> ModuleType:
    """Import one of the person's files; raises DeclarationError, with the line, where it cannot be."""
    name = f"{_OWN_PACKAGE}.{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}.{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path, loader=_Fresh(name, str(path)))
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)  # type: ignore[union-attr]
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise DeclarationError(f"{path} cannot be imported: {_place(error, path)}", hint="mend the file or move it away") from error
    return sys.modules[name]


def _place(error: BaseException, path: Path) -> str:
    """Return what went wrong, and in which line of the file."""
    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    where = f", line {lines[-1]}" if lines and lines[-1] else ""
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}{where}"


@lru_cache(maxsize=4)
def _plugins_in(path: tuple[str, ...]) -> bool:
    """Tell whether a package on the path may declare a plug-in.

    A look into the files: ``importlib.metadata`` alone takes a tenth of a short command.
    """
    for folder in path:
        try:
            names = [entry.path for entry in os.scandir(folder or os.curdir) if entry.name.endswith((".dist-info", ".egg-info"))]
        except NotADirectoryError:
            return True
        except OSError:
            continue
        for name in names:
            try:
                with open(f"{name}/entry_points.txt", "rb") as file:  # noqa: PTH123 - two hundred of them at every start
                    if b"[ctx_pipeline." in file.read():
                        return True
            except OSError:
                continue
    return False


def _plugin_modules(group: str) -> Iterator[tuple[str, Callable[[], ModuleType]]]:
    """Yield the plug-ins of a group, each with what imports it."""
    if not _plugins_in(tuple(sys.path)):
        return
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group=group), key=lambda e: e.name):
        yield f"plug-in {entry.name}", partial(_plugin_module, entry.name, entry.value)


def _plugin_module(name: str, value: str) -> ModuleType:
    """Import a plug-in; raises DeclarationError where it cannot be."""
    try:
        return importlib.import_module(value.partition(":")[0])
    except (Exception, SystemExit) as error:
        raise DeclarationError(
            f"the plug-in {name!r} ({value}) cannot be imported: {type(error).__name__}: {error}", hint="uninstall or mend it", plugin=name
        ) from error
