"""The tables, and sessions, as plain files that other programs and people read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreError
from ctx_pipeline.integrations.private_files import PrivateFolder, unwritable
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import TABLES
from ctx_pipeline.redaction import harmless
from ctx_pipeline.sessions.details import resolve
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.periods import day
from ctx_pipeline.usage.rollup import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")


class Chosen(NamedTuple):
    """Which sessions an export is of: all that fit what is named."""

    host: str | None = None
    session_id: str | None = None
    """of ``host``; its first characters will do"""
    project: str | None = None
    since: str | None = None
    """first day on which sessions began, 2026-03-01"""
    until: str | None = None


def _views(store: Store, settings: Settings, chosen: Chosen, tables: tuple[str, ...]) -> Iterator[SessionView]:
    """Yield the chosen sessions with their rows, cell by cell; raises UnknownName and UsageError."""
    key, wanted = discovery.host(chosen.host).key if chosen.host else None, None
    if chosen.session_id is not None:
        key, full = resolve(store, chosen.host or "", chosen.session_id)
        wanted = {full}
    first = moment(day(chosen.since, "--since", settings.timezone), settings.timezone)
    last = moment(day(chosen.until, "--until", settings.timezone), settings.timezone, after=True)
    for cell in store.ledger.cells():
        if key not in {None, cell.host}:
            continue
        for view in store.lake.read_sessions(cell, wanted, tables):
            began, names = view.session.first_ts, {None, view.session.project, view.session.repository}
            bounded = first is not None or last is not None
            if bounded and (began is None or (first is not None and began < first) or (last is not None and began >= last)):
                continue
            if chosen.project in names:
                yield view


def markdown(folder: Path | str, chosen: Chosen = Chosen(), *, settings: Settings | None = None) -> list[str]:  # noqa: B008 - immutable
    """Write each chosen session as ``folder/<host>/<day>-<project>-<session>.md`` and return these names.

    Files are replaced whole (0600, folders 0700) and redacted as the tables are. Raises
    StoreError when the folder lies in the store or cannot be written.
    """
    from ctx_pipeline.model.codec import iso
    from ctx_pipeline.sessions.markdown import markdown as rendered

    target, names = Path(folder).absolute(), []
    with reading(settings) as (store, load):
        _outside(target, load)
        write = PrivateFolder(target)
        for view in _views(store, load, chosen, ("events", "tool_calls", "threads")):
            s = view.session
            began = (iso(s.first_ts) or "undated")[:10]
            name = f"{_file(s.host)}/{began}-{_file(s.project or 'none')}-{_file(s.session_id)}.md"
            write.text(name, rendered(view))
            names.append(name)
    return names


def opentraces(file: Path | str, chosen: Chosen = Chosen(), *, settings: Settings | None = None) -> tuple[int, int]:  # noqa: B008 - immutable
    """Write the chosen sessions as JSON lines of opentraces-schema and return how many sessions and traces they are.

    A session has a trace for each of its context windows. The file is replaced whole
    (0600). Raises StoreError when it lies in the store or cannot be written.
    """
    from ctx_pipeline.integrations.traces import traces
    from ctx_pipeline.rot.export import line

    target = Path(file).absolute()
    sessions = count = 0
    with reading(settings) as (store, load):
        _outside(target, load)
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8") as out:
                for view in _views(store, load, chosen, ("events", "tool_calls", "model_calls", "threads")):
                    sessions += 1
                    for trace in traces(view, load.cost_mode):
                        out.write(line(trace).encode("utf-8", "replace").decode() + "\n")
                        count += 1
            partial.replace(target)
        except OSError as error:
            raise unwritable(target, error) from error
        finally:
            partial.unlink(missing_ok=True)
    return sessions, count


def _file(text: str) -> str:
    """Return a name that is one plain file name; any other becomes a digest."""
    return text if _PLAIN.fullmatch(text) and harmless(text) else digest(text, size=12)


def _outside(target: Path, settings: Settings) -> None:
    if target.resolve().is_relative_to(settings.home.resolve()):
        raise StoreError(f"{target} lies in the store", hint="name a folder outside it", path=str(target))


def parquet(folder: Path | str, *, settings: Settings | None = None) -> dict[str, int]:
    """Write the live rows of every table to ``folder/<table>.parquet`` and return table -> rows.

    Files are replaced whole (0600); a table without rows is not written. Raises
    StoreError when the folder lies in the store or cannot be written.
    """
    import pyarrow.parquet as pq

    target = Path(folder).absolute()
    counts: dict[str, int] = {}
    with reading(settings) as (store, chosen):
        _outside(target, chosen)
        try:
            target.mkdir(parents=True, exist_ok=True, mode=0o700)
            for table in TABLES:
                counts[table] = 0
                writer = None
                path = target / f"{table}.parquet"
                partial = target / f".{table}.parquet.{os.getpid()}"
                for part in store.lake.parts(table):
                    rows = store.lake.read_arrow(part)
                    if writer is None:
                        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
                        writer = pq.ParquetWriter(partial, rows.schema, compression="zstd")
                    writer.write_table(rows.cast(writer.schema))
                    counts[table] += rows.num_rows
                if writer is not None:
                    writer.close()
                    partial.replace(path)
        except OSError as error:
            raise unwritable(target, error) from error
    return counts
