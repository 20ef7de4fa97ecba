"""Finds what extension files declare: a folder scan plus entry points, no registry.

A file whose name begins with an underscore is not an extension. Entry-point groups are
``ctx_pipeline.hosts``, ``.signals``, ``.methods`` and ``.panels``; each entry names a
module that declares values in the same way.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ctx_pipeline.errors import DeclarationError, UnknownName
from ctx_pipeline.model.declared import Host, Method, Panel, Signal

if TYPE_CHECKING:
    from types import ModuleType

T = TypeVar("T", Host, Signal, Method, Panel)

_FOLDERS: dict[type, tuple[str, str]] = {
    Host: ("ctx_pipeline.hosts", "ctx_pipeline.hosts"),
    Signal: ("ctx_pipeline.signals", "ctx_pipeline.signals"),
    Method: ("ctx_pipeline.mining", "ctx_pipeline.methods"),
    Panel: ("ctx_pipeline.dashboard.panels", "ctx_pipeline.panels"),
}


@dataclass(frozen=True)
class Family:
    """All signals of one file: one asset key with its own code version."""

    name: str
    signals: tuple[Signal, ...]

    @property
    def code_version(self) -> str:
        """Text that changes when a signal of the file is added, removed or gets a new version."""
        return hashlib.sha256(",".join(f"{s.name}:{s.version}" for s in self.signals).encode()).hexdigest()[:12]

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


def reload() -> None:
    """Forget what was found, so that a file added since is seen."""
    _declared.cache_clear()


@lru_cache(maxsize=8)
def _declared(kind: type[T]) -> tuple[T, ...]:
    folder: str
    group: str
    folder, group = _FOLDERS[kind]
    found: dict[str, tuple[T, str]] = {}
    for module in (*_folder_modules(folder), *_plugin_modules(group)):
        values = [v for v in vars(module).values() if isinstance(v, kind)]
        if not values:
            raise DeclarationError(
                f"{module.__name__} declares no {kind.__name__.lower()}",
                hint="declare one, or begin the file's name with an underscore",
                module=module.__name__,
            )
        for value in values:
            name = value.key if isinstance(value, Host) else value.name
            if name in found and found[name][0] is not value:
                raise DeclarationError(
                    f"{kind.__name__.lower()} {name!r} is declared twice: {found[name][1]} and {module.__name__}",
                    hint="rename one of them",
                    name=name,
                )
            found[name] = (value, module.__name__)
    return tuple(value for _, (value, _) in sorted(found.items()))


def _folder_modules(folder: str) -> list[ModuleType]:
    package = importlib.import_module(folder)
    return [
        importlib.import_module(f"{folder}.{info.name}")
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name)
        if not info.name.startswith("_")
    ]


def _plugin_modules(group: str) -> list[ModuleType]:
    from importlib.metadata import entry_points

    modules = []
    for entry in sorted(entry_points(group=group), key=lambda e: e.name):
        try:
            modules.append(importlib.import_module(entry.value.partition(":")[0]))
        except ImportError as error:
            raise DeclarationError(
                f"the plug-in {entry.name!r} ({entry.value}) cannot be imported: {error}", hint="uninstall or mend it", plugin=entry.name
            ) from error
    return modules


def extension_files() -> dict[str, tuple[int, int]]:
    """Return path -> (size, mtime in nanoseconds) of every signal, method and panel file, without importing one."""
    root = Path(__file__).parent
    stamps = {}
    for folder in ("signals", "mining", "dashboard/panels", "hosts"):
        for path in sorted((root / folder).rglob("*.py")):
            status = path.stat()
            stamps[str(path)] = (status.st_size, status.st_mtime_ns)
    return stamps
