"""Versions of all that makes an asset beside its input: code, and the settings that the code uses.

The answer is kept in ``plan.json`` of the store with the size and time of every file of
the package and of plug-ins and with the settings; as long as these are the same, nothing
is imported.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ctx_pipeline
from ctx_pipeline import discovery
from ctx_pipeline.errors import CtxError, DeclarationError
from ctx_pipeline.model import source_versions
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.process.gc_pause import without_collector
from ctx_pipeline.model.tables import FACTS_ASSET
from ctx_pipeline.pipeline import reports
from ctx_pipeline.pipeline.reports import placed, table_version
from ctx_pipeline.storage.warehouse.days import day_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.files import Files

CACHE = "plan.json"
_NAME = ctx_pipeline.__name__
_PACKAGE = Path(ctx_pipeline.__file__).parent
_STARTED = time.time_ns()

STAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "raw/segments": ("pipeline.capture", ()),
    "search/index": ("pipeline.index", ()),
    "signals": ("pipeline.measure", ()),
    "mined": ("pipeline.mine", ()),
    "tokens/exact": ("pipeline.count", ("pipeline.count:_Counting",)),
    "memory/used": ("pipeline.lessons.lesson_outcomes", ("pipeline.lessons.lesson_outcomes:_judge",)),
    "memory/consolidated": ("pipeline.consolidate", ("memory.consolidation:consolidate", "pipeline.consolidate:rebuild")),
    "memory/index": ("pipeline.index", ()),
    "memory/effect": ("learning.backtest.evaluation", ("learning.backtest.backtest:backtest", "memory.evaluation:compare")),
    "warehouse/duckdb": (
        "pipeline.warehouse",
        ("storage.warehouse.database:build", "pipeline.warehouse:write", "sessions.reports.kept_figures:KEPT"),
    ),
    "dashboard/site": ("pipeline.render", ()),
}
"""asset (or its first part) -> module with its declared CODE_VERSION, and the functions whose source counts

Raw bytes are never made anew, and files with a format of their own (the indexes, the page) declare its version."""

_PLACING = "raw/segments"
_SHOWING = ("warehouse/duckdb", "dashboard/site")


@dataclass(frozen=True)
class Versions:
    """What discovery and the stages say of their versions."""

    assets: dict[str, str]
    """asset key -> code version; families and methods have their own"""
    families: dict[str, tuple[tuple[str, ...], str]]
    """family -> (tables it reads, description)"""
    methods: dict[str, tuple[tuple[str, ...], str]]
    """method -> (signal families it reads, description)"""
    decoders: dict[str, str] = field(default_factory=dict)
    """host -> version of what decodes its sessions"""
    prices: str = ""
    """version of the prices of model calls"""
    left_out: dict[str, str] = field(default_factory=dict)
    """file of the person's own, or plug-in, that cannot be used -> why; its assets are not there"""

    def of(self, asset: str, host: str = "") -> str:
        """Return the code version of an asset key, for the cells of a host where that makes a difference.

        Empty for a normalized table of a host that is not installed: its rows stay as they are.
        """
        stage = asset.partition("/")[0]
        if stage != "normalized":
            return self.assets.get(asset) or self.assets.get(stage, "")
        decoder = self.decoders.get(host, "") if host else digest(sorted(self.decoders.items()), size=16)
        return table_version(asset, decoder, self.prices) if decoder else ""


def versions(files: Files, settings: Settings, *, keep: bool = True) -> Versions:
    """Return all versions; extension files are imported only when a file, a plug-in or a setting changed since the last call."""
    kept = _cached(files, settings)
    discovery.look_in(settings.home / "config")
    if kept is not None:
        discovery.remember_left_out(kept.left_out)
        return _with_settings(kept, settings)
    if keep and _edited_since_start(settings) and (elsewhere := _of_new_process(files, settings)) is not None:
        return _with_settings(elsewhere, settings)
    return _with_settings(work_out(files if keep else None, settings), settings)


def work_out(files: Files | None, settings: Settings) -> Versions:
    """Import every extension, keep what they and the stages say of their versions where files are given, and return it."""
    fresh, plugins = _imported(settings)
    if files is not None:
        source_versions.keep()
        stamp, sources = _stamp(plugins, settings), source_versions.worked_out()
        files.write(CACHE, json.dumps({"stamp": stamp, "plugins": plugins, "versions": asdict(fresh), "sources": sources}).encode())
    return fresh


def _edited_since_start(settings: Settings) -> bool:
    """Tell whether a file of the package, or of the person's own, is newer than this process, which may hold it as it was."""
    folders = [settings.home / "config" / kind for kind in ("signals", "methods")]
    # a folder is as new as the last file that was removed from it
    own = [_status(str(path))[2] for folder in folders for path in (folder, *folder.glob("*.py"))]
    return max((*(changed for _, _, changed in _package_files()), *own)) > _STARTED


_NEW_PROCESS = """
from ctx_pipeline import discovery, settings
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.storage.files import Files
found = settings.load()
discovery.look_in(found.home / "config")
code_versions.work_out(Files(found.home), found)
"""


def _of_new_process(files: Files, settings: Settings) -> Versions | None:
    """Return the versions as a process sees them that begins now; None where it fails, as it does for a file that cannot be imported.

    A daemon that watches for days neither answers with modules that were edited or upgraded
    meanwhile nor writes their versions.
    """
    import subprocess

    command = [sys.executable, "-c", _NEW_PROCESS]
    done = subprocess.run(command, env={**os.environ, **settings.environ}, capture_output=True, check=False)  # noqa: S603 - our own
    kept = _read(files) if done.returncode == 0 else None
    return _versions(kept) if kept else None


def decoders(files: Files, settings: Settings, *, later: bool = False) -> dict[str, str]:
    """Return host -> version of what decodes its sessions, also while a file of a signal or a method cannot be imported.

    With ``later`` nothing but the hosts is imported, and what is kept stays as it is:
    the caller calls :func:`versions` when there is time.
    """
    if later:
        kept = _cached(files, settings)
        if kept is not None:
            return kept.decoders
    else:
        with suppress(DeclarationError):
            return versions(files, settings).decoders
    from ctx_pipeline.redaction import Redactor

    return reports.decoders(discovery.hosts(), Redactor(settings.patterns), settings.whole_file_bytes)


def collect(settings: Settings) -> Versions:
    """Import every extension, the person's own files too, and every stage, and return the versions."""
    discovery.look_in(settings.home / "config")
    return _with_settings(_imported(settings)[0], settings)


def shown(version: str, settings: Settings) -> str:
    """Return the version of what shows days and costs: another zone or cost mode makes it anew."""
    return digest(version, day_sql("ts", settings.timezone), settings.cost_mode, size=16)


def _with_settings(found: Versions, settings: Settings) -> Versions:
    """Fold in the settings that need no code to be understood."""
    assets = {asset: shown(found.assets[asset], settings) for asset in _SHOWING}
    assets[_PLACING] = placed(found.assets[_PLACING], settings)
    if settings.embedder:
        from ctx_pipeline.pipeline.index import MEMORY, memory_version

        assets[MEMORY] = memory_version(found.assets[MEMORY], settings)
    return replace(found, assets=found.assets | assets)


@without_collector()
def _imported(settings: Settings) -> tuple[Versions, list[str]]:
    """Return the versions before the other settings are folded in, and the files of extensions that lie outside the package."""
    from ctx_pipeline.pipeline import facts, index
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.redaction import Redactor

    redactor = Redactor(settings.patterns)
    hosts = discovery.hosts()
    families = discovery.families()
    # a method that asks a model runs only when a person says so, and is nobody's missing work
    methods = {name: method for name, method in discovery.methods().items() if method.deterministic}
    assets = {asset: of_stage(asset) for asset in STAGES}
    assets["dashboard/site"] = site_version(assets["dashboard/site"], redactor)
    assets["memory/consolidated"] = consolidated_version(redactor)
    assets["memory/index"] = index.code_version()
    assets[FACTS_ASSET] = facts.code_version()
    assets |= {f"signals/{name}": family.code_version for name, family in families.items()}
    assets |= {f"mined/{name}": method.code_version for name, method in methods.items()}
    functions: list[Callable[..., object]] = [s.function for f in families.values() for s in f.signals]
    functions += [m.extract for m in methods.values()] + [h.records.parse for h in hosts.values()]
    found = {str(getattr(sys.modules.get(f.__module__), "__file__", "")) for f in functions}
    outside = sorted(path for path in found if path and not path.startswith(f"{_PACKAGE}{os.sep}"))
    return (
        Versions(
            assets=assets,
            families={
                name: (family.reads, "\n\n".join(_titled(s.name, s.describe) for s in family.signals)) for name, family in families.items()
            },
            methods={name: (method.families, method.describe) for name, method in methods.items()},
            decoders=reports.decoders(hosts, redactor, settings.whole_file_bytes),
            prices=PriceBook.of(settings).version,
            left_out=discovery.left_out(),
        ),
        outside,
    )


def site_version(code_version: object, redactor: Redactor) -> str:
    """Return the version of the page: the stage's own, the detectors, and the content of every file it is made of."""
    folder = _PACKAGE / "dashboard"
    texts = [
        (str(p.relative_to(folder)), p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts
    ]
    return digest(str(code_version), redactor.version, texts, size=16)


def of_stage(asset: str) -> str:
    """Return the version of a stage's code: as its module declares it, and of the source that makes its rows."""
    module, functions = STAGES[asset]
    declared = importlib.import_module(f"{_NAME}.{module}").CODE_VERSION
    return f"{declared}.{source_versions.version_of(*(f'{_NAME}.{place}' for place in functions))}" if functions else str(declared)


def consolidated_version(redactor: Redactor) -> str:
    """Return the version of merging: the stage's, that of methods that compare sessions, of the file of cases and of the detectors."""
    from ctx_pipeline.storage.memory_index import VERSION

    combining = [m.combine for _, m in sorted(discovery.methods().items()) if m.deterministic and m.combine]
    return f"{of_stage('memory/consolidated')}.{source_versions.version_of(*combining)}.{VERSION}.{redactor.version}"


def _titled(name: str, text: str) -> str:
    return f"**{name}**: {text}"


def _cached(files: Files, settings: Settings) -> Versions | None:
    """Return the answer that was kept, before the other settings are folded in; None where it holds no more."""
    kept = _read(files)
    if not kept or kept["stamp"] != _stamp(kept["plugins"], settings):
        return None
    source_versions.remember(kept["sources"])
    return _versions(kept)


def _versions(kept: Mapping[str, Any]) -> Versions:
    found = kept["versions"]
    return Versions(
        assets=found["assets"],
        families={name: (tuple(reads), text) for name, (reads, text) in found["families"].items()},
        methods={name: (tuple(reads), text) for name, (reads, text) in found["methods"].items()},
        decoders=found["decoders"],
        prices=found["prices"],
        left_out=found.get("left_out", {}),
    )


def _read(files: Files) -> dict | None:
    try:
        kept = json.loads(files.read(CACHE))
    except (OSError, ValueError, CtxError):
        return None
    return kept if isinstance(kept, dict) and {"stamp", "plugins", "versions", "sources"} <= kept.keys() else None


def _stamp(plugins: Iterable[str], settings: Settings) -> str:
    """Return a hash over all that can change a version.

    That is the package's version, size and time of its files and of plug-ins, the folders
    these are installed in, the person's own files of signals and methods, their prices and patterns, and where archives are cut.
    """
    named = {os.path.abspath(p) for p in settings.environ.get("PYTHONPATH", "").split(os.pathsep) if p}  # noqa: PTH100 - as sys.path has it
    sites = [p for p in sys.path if p.endswith(("site-packages", "dist-packages")) or p in named]
    sites += sorted(str(p) for kind in ("signals", "methods") for p in (settings.home / "config" / kind).glob("*.py"))
    refreshed = [_status(str(path)) for path in sorted((settings.home / "prices").glob("*.json"))]
    chosen = repr((settings.config.get("prices"), refreshed, settings.patterns, settings.whole_file_bytes))
    return digest(ctx_pipeline.__version__, _package_files(), [_status(p) for p in (*plugins, *sites)], chosen)


def _package_files() -> tuple[tuple[str, int, int], ...]:
    """Return the files of the package with size and time; one run asks fifteen times, and gets what it saw in the last seconds."""
    now, known = time.monotonic(), _seen.get(_PACKAGE)
    if known is None or now - known[0] > _SECONDS:
        known = _seen[_PACKAGE] = (now, tuple(_listed(_PACKAGE)))
    return known[1]


_SECONDS = 2.0
_seen: dict[Path, tuple[float, tuple[tuple[str, int, int], ...]]] = {}


def _listed(package: Path) -> Iterable[tuple[str, int, int]]:
    folders = [str(package)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                else:
                    status = entry.stat()
                    yield entry.path, status.st_size, status.st_mtime_ns


def _status(path: str) -> tuple[str, int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116 - a plain text path, hundreds of times
    except OSError:
        return path, -1, -1
    return path, status.st_size, status.st_mtime_ns
