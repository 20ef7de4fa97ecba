"""Writes the page: a folder that opens from disk, swapped in whole, with only new drill-downs written."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctx_pipeline.dashboard import page, session_chunk
from ctx_pipeline.dashboard.data import PAGE_VERSION, PageData
from ctx_pipeline.errors import StoreError, StoreFull
from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline import CellReport, StageReport, code_versions, reports
from ctx_pipeline.pipeline.forget.rows import clean_past
from ctx_pipeline.pipeline.page import page_records
from ctx_pipeline.pipeline.plan import SITE, WAREHOUSE, WHOLE
from ctx_pipeline.pipeline.repair.missing_outputs import PAGE_NOTE, page_made
from ctx_pipeline.pipeline.reports import DONE, UNCHANGED
from ctx_pipeline.pipeline.session_errors import SessionErrors
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage import temporary
from ctx_pipeline.storage.files import Made
from ctx_pipeline.storage.warehouse import dashboard_queries, database
from ctx_pipeline.storage.warehouse.days import local_day

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.dashboard.data import SessionLine
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

CODE_VERSION = str(PAGE_VERSION)

FULL_SESSIONS = 100
"""The newest sessions have long drill-downs; older ones keep prompts, failures and the ends."""

FULL = dashboard_queries.Limits(events=240, said=2_000, text=800, tool_calls=200, model_calls=300)
BRIEF = dashboard_queries.Limits(events=80, said=1_000, text=400, tool_calls=60, model_calls=100)

_BATCH = 500


def site_index(store: Store) -> Path:
    """Return the path of the page, whether or not it has been made."""
    return store.home / "site" / "index.html"


def render(store: Store, settings: Settings, *, force: bool = False, refresh: bool = True) -> StageReport:
    """Bring ``site/`` up to date: index, style, scripts, the list of sessions, one chunk a session.

    The warehouse is brought up to date first, unless ``refresh`` is false: the page is then
    drawn from the file as it is. A chunk whose session did not change is carried over from
    the former page. The folder is built beside the old one and swapped by renaming. Raises
    StoreFull or StoreError when it cannot be written; the old page is then still there.
    """
    began = time.perf_counter()
    if refresh:
        build_warehouse(store, settings)
    with store.ledger.lease(SITE.key):
        drawn_from = database.made(store.warehouse_path)
        made_of = reports.of_all({WAREHOUSE.key: {WHOLE: drawn_from.content_hash if drawn_from else ""}}, SITE.upstream)
        version = code_versions.shown(code_versions.site_version(CODE_VERSION, Redactor(settings.patterns)), settings)
        site = store.home / "site"
        made = page_made(store)
        status = UNCHANGED
        counts: dict[str, int] = {}
        if force or made is None or made[:2] != (made_of, version) or not _built_today(site_index(store), settings):
            made, counts = _write(store, settings, site, made_of, version)
            status = DONE
        store.ledger.record_asset(SITE.key, WHOLE, *made)
    if status == DONE:
        clean_past(store, settings)
    seconds = time.perf_counter() - began
    return StageReport("render", {"": CellReport(status, counts, made.content_hash, seconds)}, counts, seconds)


def _write(store: Store, settings: Settings, site: Path, input_fp: str, code_version: str) -> tuple[Made, dict[str, int]]:
    building = site.with_name(temporary.name())
    try:
        for folder in ("data", "panels"):
            (building / folder).mkdir(parents=True, mode=0o700)
        building.chmod(0o700)
        with database.connect(store.warehouse_path, read_only=True) as connection:
            data = page_records.collect(connection, store, settings)
            limits = {s: FULL if number < FULL_SESSIONS else BRIEF for number, s in enumerate(data.sessions)}
            names = {s: s.chunk(most) for s, most in limits.items()}
            errors = SessionErrors()
            due = [s for s, name in names.items() if not _carry(site, building, name)]
            for first in range(0, len(due), _BATCH):
                _write_chunks(connection, building, data, {s: limits[s] for s in due[first : first + _BATCH]}, errors)
        for name, content in page.files(data, names).items():
            _put(building / name, content)
        content_hash = digest(page.content_of(data), sorted(names.values()), size=64)
        made = Made(input_fp, code_version, content_hash, len(data.sessions))
        _put(building / PAGE_NOTE, json.dumps(made._asdict()).encode())
        _swap(building, site)
        errors.keep(store, SITE.key)
    except OSError as error:
        if error.errno == 28:
            raise StoreFull("the disk has no room for the page", hint="free some space and run: ctx run", path=str(site)) from error
        raise StoreError(f"the page could not be written: {error}", hint="see whether the folder may be written", path=str(site)) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    written, carried = len(due) - len(errors), len(data.sessions) - len(due)
    return made, {"sessions": len(data.sessions), "chunks_written": written, "chunks_kept": carried, "errors": len(errors)}


def _write_chunks(
    connection: DuckDBPyConnection,
    building: Path,
    data: PageData,
    some: Mapping[SessionLine, dashboard_queries.Limits],
    errors: SessionErrors,
) -> None:
    """Write the drill-downs of some sessions, each within its limits; one that cannot be drawn is noted and has none."""
    wanted = [(s.host, s.session_id, most) for s, most in some.items()]
    found = dashboard_queries.details(connection, wanted, cost_mode=data.cost_mode)
    for (line, most), detail in zip(some.items(), found, strict=True):
        name = line.chunk(most)
        script: bytes | None = None
        with errors.of(line.host, line.session_id):
            script = session_chunk.script(name, line, detail, data)
        if script is not None:
            _put(building / "data" / f"{name}.js", script)


def _carry(site: Path, building: Path, name: str) -> bool:
    """Take a chunk over from the former page by a second link; tell whether there was one."""
    former, target = site / "data" / f"{name}.js", building / "data" / f"{name}.js"
    try:
        os.link(former, target)
    except FileNotFoundError:
        return False
    except OSError:
        with suppress(OSError):
            shutil.copyfile(former, target)
            target.chmod(0o600)
            return True
        return False
    return True


def _put(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - the mode is set at birth
        file.write(content)


def _swap(building: Path, site: Path) -> None:
    """Put the new folder in the old one's place; a page that is open keeps its old files until it is loaded again."""
    former = site.with_name(temporary.name(former=site.name))
    if site.exists():
        site.rename(former)
    building.rename(site)
    shutil.rmtree(former, ignore_errors=True)


def _built_today(index: Path, settings: Settings) -> bool:
    """Tell whether the page was made on this day: some findings speak of days that are left."""
    try:
        made = datetime.fromtimestamp(index.stat().st_mtime, UTC)
    except OSError:
        return False
    return local_day(made, settings.timezone) == local_day(datetime.now(UTC), settings.timezone)
