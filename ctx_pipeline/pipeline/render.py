"""Writes the page: a folder that opens from disk, swapped in whole, with only new drill-downs written."""

from __future__ import annotations

import heapq
import json
import os
import shutil
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.dashboard import page, session_chunk, words
from ctx_pipeline.dashboard.data import PAGE_VERSION, PageData
from ctx_pipeline.errors import StoreError, StoreFull
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.process.gc_pause import without_collector
from ctx_pipeline.pipeline import CellReport, StageReport, code_versions, reports, run_report
from ctx_pipeline.pipeline.forget.rows import clean_past
from ctx_pipeline.pipeline.page import page_records
from ctx_pipeline.pipeline.page.images import pictures
from ctx_pipeline.pipeline.plan import SITE, WAREHOUSE, WHOLE
from ctx_pipeline.pipeline.repair import page_digests
from ctx_pipeline.pipeline.repair.missing_outputs import PAGE_NOTE, page_made
from ctx_pipeline.pipeline.reports import DONE, UNCHANGED
from ctx_pipeline.pipeline.session_errors import SessionErrors
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage import temporary
from ctx_pipeline.storage.files import Made
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.resuming import resuming
from ctx_pipeline.storage.warehouse import dashboard_queries, database
from ctx_pipeline.storage.warehouse.days import local_day
from ctx_pipeline.storage.warehouse.transcript_queries import NO_ROWS, searched_texts, whole_sessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.dashboard.data import SessionLine
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.warehouse.dashboard_queries import Detail
    from ctx_pipeline.storage.warehouse.transcript_queries import WholeSession

    Documents = dict[tuple[str, str], list[words.Document]]
    """id of a searched session -> what is searched of it"""

CODE_VERSION = str(PAGE_VERSION)

LIMITS = dashboard_queries.Limits(tool_calls=400, model_calls=600)
BRIEF = dashboard_queries.Limits(tool_calls=0, model_calls=0)
"""Rows of a session whose transcript is not drawn yet."""

DRAWN_AT_FIRST, DRAWN_LATER, CAUGHT_UP, LEAST = 32_000_000, 4_000_000, 1_000_000, 60_000
"""Recorded bytes of the sessions whose transcripts are drawn with a new page, with each later one of what changed, and beside
these of what is left, the newest first; a session counts as LEAST at least.

What is left is drawn by ``ctx open``, by the served page when somebody opens the session, and by later runs.
"""

_COSTLY = 3
"""Sessions that cost most of which a new page draws the transcripts beside the newest, each an eighth of what is drawn at most."""

_AT_ONCE = 30_000_000
"""Recorded bytes of the sessions that are drawn between two looks at the list of those left."""

_BATCH = 2_000
"""Sessions whose figures are read together, with one scan of all events."""

_AHEAD = 3
"""Sessions that wait until they are packed and written, beside the one that is read."""

_TEXTS = 120_000_000
"""Recorded bytes of the sessions whose searched texts are read together."""


def site_index(store: Store) -> Path:
    """Return the path of the page, whether or not it has been made."""
    return store.home / "site" / "index.html"


def render(store: Store, settings: Settings, *, force: bool = False, refresh: bool = True, complete: bool = False) -> StageReport:
    """Bring ``site/`` up to date: its pages, style, scripts, the list of sessions, a chunk and a transcript for each session.

    The warehouse is brought up to date first, unless ``refresh`` is false: the page is then
    drawn from the file as it is. A chunk whose session did not change is carried over from
    the former page. Of a history larger than DRAWN_AT_FIRST the newest transcripts are drawn
    and those of the few sessions that cost most, all of them with ``complete``. The folder is built beside the old one and swapped by
    renaming. Raises StoreFull or StoreError when it cannot be written; the old page is then
    still there.
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
        asked = force or complete
        if asked or made is None or made[:2] != (made_of, version) or not _built_today(site_index(store), settings):
            made, counts, data = _write(store, settings, site, made_of, version, complete=complete)
            if drawn_from:
                run_report.keep(store, data, [drawn_from.content_hash, made.content_hash])
            status = DONE
        store.ledger.record_asset(SITE.key, WHOLE, *made)
    if status == DONE:
        clean_past(store, settings)
    seconds = time.perf_counter() - began
    return StageReport("render", {"": CellReport(status, counts, made.content_hash, seconds)}, counts, seconds)


def _write(
    store: Store, settings: Settings, site: Path, input_fp: str, code_version: str, *, complete: bool
) -> tuple[Made, dict[str, int], PageData]:
    building = site.with_name(temporary.name())
    folder = _Building(building)
    try:
        for name in ("data", "panels", "words"):
            (building / name).mkdir(parents=True, mode=0o700)
        building.chmod(0o700)
        with (
            without_collector(),
            ThreadPoolExecutor(1) as beside,
            database.connect(store.warehouse_path, read_only=True) as connection,
        ):
            judged = beside.submit(page_records.judged, connection.cursor(), settings)
            data = page_records.recorded(connection, store, settings)
            former = _former(site)
            names, due, left = _named(data, former, site, building, complete=complete)
            errors = SessionErrors()
            known: Documents = {}
            # a new page reads the texts of all sessions, whatever is drawn of them: a second core does it meanwhile, and after
            # what is judged, since both hold much
            pieces = words.pieces(data.sessions)
            searching = None if former else beside.submit(_words_of_all, settings, site, folder, data, pieces)
            wanted = {} if searching else {one.line: one for piece in pieces for one in piece.sessions}
            for alike in ([one for one in due if one.whole], [one for one in due if not one.whole]):
                for first in range(0, len(alike), _BATCH):
                    some = alike[first : first + _BATCH]
                    _write_sessions(connection, store, folder, data, some, errors=errors, known=known, searched=wanted)
            searched = (
                searching.result() if searching else _write_words(connection, store, site, folder, data=data, pieces=pieces, known=known)
            )
            data = replace(data, **judged.result())
        for name, content in page.files(data, names, searched).items():
            folder.put(name, content)
        content_hash = digest(page.content_of(data), size=64)
        made = Made(input_fp, code_version, content_hash, len(data.sessions))
        folder.put(PAGE_NOTE, json.dumps(made._asdict()).encode())
        folder.put(page_digests.UNDRAWN, json.dumps(left).encode())
        page_digests.write(building, site, folder.digests)
        _swap(building, site)
        errors.keep(store, SITE.key)
    except OSError as error:
        if error.errno == 28:
            raise StoreFull("the disk has no room for the page", hint="free some space and run: ctx run", path=str(site)) from error
        raise StoreError(f"the page could not be written: {error}", hint="see whether the folder may be written", path=str(site)) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    written, carried = len(due) - len(errors), len(data.sessions) - len(due)
    return made, {"sessions": len(data.sessions), "chunks_written": written, "chunks_kept": carried, "errors": len(errors)}, data


def _reading(
    connection: DuckDBPyConnection, store: Store, shown: PageData | Settings, sessions: Iterable[SessionLine]
) -> AbstractContextManager[None]:
    """Let a connection to the warehouse read only the parts of some sessions."""
    wanted = {s.session_id for s in sessions}
    return database.of_sessions(connection, store.lake, wanted, timezone=shown.timezone, cost_mode=shown.cost_mode)


class _Due(NamedTuple):
    """A session to draw: the name of its chunk, and whether its transcript is drawn with it."""

    line: SessionLine
    name: str
    whole: bool


def _former(site: Path) -> dict[str, list[str]]:
    """Return name of a chunk -> names of the files of the former page that belong to it."""
    found: dict[str, list[str]] = {}
    with suppress(OSError):
        for path in (site / "data").iterdir():
            found.setdefault(path.stem.partition("-")[0], []).append(path.name)
    return found


def _named(
    data: PageData, former: Mapping[str, list[str]], site: Path, building: Path, *, complete: bool
) -> tuple[dict[SessionLine, str], list[_Due], list[str]]:
    """Return the name of every session's chunk, those that are not carried over from the former page, and those without a transcript."""
    names = {line: line.chunk(LIMITS) for line in data.sessions}
    due: list[_Due] = []
    later: list[str] = []
    waiting = set(undrawn(site))
    known = not former.keys().isdisjoint(names.values())
    most = sys.maxsize if complete else DRAWN_LATER if known else DRAWN_AT_FIRST
    left, left_of_waiting = most, sys.maxsize if complete else CAUGHT_UP
    # the first page lists what cost most: a click on it shows it
    costly = (
        [] if known else heapq.nlargest(_COSTLY, (n for n in names if max(n.bytes, LEAST) <= most // 8), key=lambda n: n.usage.cost_nano)
    )
    newest = next(iter(names), None)
    for line in dict.fromkeys([*costly, *names]):
        name = names[line]
        held = name in former
        if held and name not in waiting and _carry(site, building, former[name]):
            continue
        size = max(line.bytes, LEAST)
        if held:
            drawn = size <= left_of_waiting
            left_of_waiting -= size if drawn else 0
        else:
            # one session larger than all that is allowed is drawn when it is the newest, or the first that is new
            drawn = size <= left or (most > 0 and (left == most or line is newest))
            left -= size if drawn else 0
        if not drawn:
            later.append(name)
        if drawn or not (held and _carry(site, building, former[name])):
            due.append(_Due(line, name, drawn))
    return names, due, later


def undrawn(site: Path) -> list[str]:
    """Return the names of a page's chunks that have no transcript yet, newest first."""
    with suppress(OSError, ValueError):
        return [str(name) for name in json.loads((site / page_digests.UNDRAWN).read_bytes())]
    return []


def draw(store: Store, settings: Settings, name: str | None = None) -> Iterator[int]:
    """Draw the transcripts that the page does not have yet, in their places, newest first; yield how many are left after some.

    With ``name`` only that of the chunk so named. The page may be open meanwhile: the
    names of its files stay. What the warehouse no longer knows under its name is left to
    the next page, and so is all where the warehouse is an older program's or of a store
    that was moved.
    """
    if not database.is_current(store.warehouse_path):
        return
    site = site_index(store).parent
    done: set[str] = set()
    while True:
        with store.ledger.lease(SITE.key):
            waiting = [one for one in undrawn(site) if one not in done]
            wanted = {one for one in waiting if name in {None, one}}
            if not wanted:
                return
            with without_collector(), database.connect(store.warehouse_path, read_only=True) as connection:
                named = {line.chunk(LIMITS): line for line in page_records.session_lines(connection)}
                some = _first_of([named[one] for one in waiting if one in wanted and one in named])
                finished = _draw_in_place(connection, store, settings, site, some)
            done |= {line.chunk(LIMITS) for line in some} or wanted
            left = [one for one in undrawn(site) if one not in finished]
            content = json.dumps(left).encode()
            page_digests.replace(site / page_digests.UNDRAWN, content)
            page_digests.renew(site, {page_digests.UNDRAWN: page_digests.of(content)})
        yield len(left)


def _first_of(lines: Sequence[SessionLine]) -> list[SessionLine]:
    """Return the first sessions that are drawn at once."""
    some: list[SessionLine] = []
    for line in lines[:_BATCH]:
        if some and sum(max(one.bytes, LEAST) for one in some) + line.bytes > _AT_ONCE:
            break
        some.append(line)
    return some


def _draw_in_place(connection: DuckDBPyConnection, store: Store, settings: Settings, site: Path, some: Sequence[SessionLine]) -> set[str]:
    """Draw some transcripts into a page that may be open; return the names of the chunks."""
    scratch = _Building(site.with_name(temporary.name()))
    (scratch.path / "data").mkdir(parents=True, mode=0o700)
    try:
        drawn = [_Due(line, line.chunk(LIMITS), whole=True) for line in some]
        errors = SessionErrors()
        _write_sessions(connection, store, scratch, settings, drawn, errors=errors, known={}, searched={})
        # the chunk that names the other files of a session goes last
        drawn_files = sorted((scratch.path / "data").iterdir(), key=lambda path: "-" not in path.stem)
        for path in drawn_files:
            path.replace(site / "data" / path.name)
        page_digests.renew(site, scratch.digests)
        errors.keep(store, SITE.key, others=True)
        return {path.stem for path in drawn_files}
    finally:
        shutil.rmtree(scratch.path, ignore_errors=True)


def _write_sessions(
    connection: DuckDBPyConnection,
    store: Store,
    folder: _Building,
    shown: PageData | Settings,
    some: Sequence[_Due],
    *,
    errors: SessionErrors,
    known: Documents,
    searched: Mapping[SessionLine, words.Searched],
) -> None:
    """Write the files of some sessions, all of them with a transcript or none; one that cannot be drawn is noted and has none.

    A thread packs and writes a session while the next one is read. ``known`` gets what is searched of those in ``searched``.
    """
    asked = [(s.line.host, s.line.session_id, LIMITS if s.whole else BRIEF) for s in some]
    details: dict[tuple[str, str], Detail] = {}
    lines = {(one.line.host, one.line.session_id): one for one in some}
    commands = {place: resuming(store, *place, one.line.cwd) for place, one in lines.items()}

    def write(line: SessionLine, name: str, rows: WholeSession | None, images: session_chunk.Images) -> None:
        files: dict[str, bytes] = {}
        with errors.of(line.host, line.session_id):
            detail = details.pop((line.host, line.session_id))
            files = session_chunk.scripts(name, line, detail, rows, resume=commands[line.host, line.session_id], images=images)
            if rows and (one := searched.get(line)):
                known[one.id] = words.documents_of_rows(one, rows)
        for file, script in files.items():
            folder.put(f"data/{file}.js", script)

    wanted = {key: one.line.events for key, one in lines.items() if one.whole}
    with _reading(connection, store, shown, (one.line for one in some)), ThreadPoolExecutor(1) as writer:
        found = dashboard_queries.details(connection, asked, cost_mode=shown.cost_mode)
        details |= {(detail.host, detail.session_id): detail for detail in found}
        waiting: deque[Future[None]] = deque()
        for key, rows in whole_sessions(connection, wanted, cost_mode=shown.cost_mode) if wanted else ():
            one = lines.pop(key)
            with errors.of(*key):
                images = pictures(store, rows.images) if rows.images else {}
                waiting.append(writer.submit(write, one.line, one.name, rows, images))
            while len(waiting) > _AHEAD:
                waiting.popleft().result()
        for future in waiting:
            future.result()
    for one in lines.values():
        write(one.line, one.name, NO_ROWS if one.whole else None, {})


def _words_of_all(settings: Settings, site: Path, folder: _Building, data: PageData, pieces: Sequence[words.Piece]) -> list[str]:
    """Do :func:`_write_words` in a thread of its own, with its own store and connection."""
    with reading(settings) as (store, _), database.connect(store.warehouse_path, read_only=True) as connection:
        return _write_words(connection, store, site, folder, data=data, pieces=pieces, known={})


def _write_words(
    connection: DuckDBPyConnection,
    store: Store,
    site: Path,
    folder: _Building,
    *,
    data: PageData,
    pieces: Sequence[words.Piece],
    known: Documents,
) -> list[str]:
    """Write the pieces that are searched from disk, or take them over; return their names, the newest first.

    In a piece that changed, only sessions that changed are read, and those that are not ``known`` already.
    """
    former: dict[str, Path] = {}
    with suppress(OSError):
        former = {path.name[: words.PLACE]: path for path in (site / "words").iterdir()}
    due: list[words.Piece] = []
    fresh: list[words.Searched] = []

    def write() -> None:
        wanted = {(s.line.host, s.line.session_id): s.whole for s in fresh}
        known.update({one.id: [] for one in fresh})
        if fresh:
            with _reading(connection, store, data, (s.line for s in fresh)):
                for n, rows in searched_texts(connection, wanted, words.BRIEF, (words.LONGEST_WHOLE, words.LONGEST)):
                    known[fresh[n].id] = words.documents(fresh[n], rows)
        with ThreadPoolExecutor(2) as packing:
            made = packing.map(lambda piece: words.script(piece, [known[s.id] for s in piece.sessions]), due)
            for piece, script in zip(due, made, strict=True):
                folder.put(f"words/{piece.name}.js", script)
        for held in (due, known, fresh):
            held.clear()

    for piece in pieces:
        file = f"{piece.name}.js"
        if _link(site / "words" / file, folder.path / "words" / file):
            continue
        due.append(piece)
        before = former.get(piece.name[: words.PLACE])
        known |= words.documents_of(before.read_bytes()) if before else {}
        fresh += [s for s in piece.sessions if s.id not in known]
        if sum(s.line.bytes for s in fresh) > _TEXTS:
            write()
    write()
    with suppress(StoreError):
        rows = store.search.rows_of_index
        place, script = words.places(rows.places(), rows.live)
        if not _link(site / "words" / f"{place}.js", folder.path / "words" / f"{place}.js"):
            folder.put(f"words/{place}.js", script)
        return [place, *(piece.name for piece in pieces)]
    return [piece.name for piece in pieces]


def _carry(site: Path, building: Path, names: Sequence[str]) -> bool:
    """Take the files of a chunk over from the former page by second links; tell whether all of them were there."""
    return all(_link(f"{site}/data/{name}", f"{building}/data/{name}") for name in names)


def _link(former: str | Path, target: str | Path) -> bool:
    """Give a file of the former page a second name; tell whether it was there."""
    try:
        os.link(former, target)
    except FileNotFoundError:
        return False
    except OSError:
        try:
            shutil.copyfile(former, target)
            os.chmod(target, 0o600)  # noqa: PTH101 - as text: two files a session
        except OSError:
            return False
    return True


class _Building:
    """The folder of a page that is being made, and the digests of what was written into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digests: dict[str, str] = {}

    def put(self, rel: str, content: bytes) -> None:
        """Write a file of the page, named relative to it."""
        path = self.path / rel
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - the mode is set at birth
            file.write(content)
        self.digests[rel] = page_digests.of(content)


def _swap(building: Path, site: Path) -> None:
    """Put the new folder in the old one's place; an open page that asks for a file of the old one is loaded again."""
    former = site.with_name(temporary.name(former=site.name))
    if site.exists():
        site.rename(former)
    building.rename(site)
    shutil.rmtree(former, ignore_errors=True)


def _built_today(index: Path, settings: Settings) -> bool:
    """Tell whether the page is there and was made on this day: some findings speak of days that are left."""
    if not index.is_file():
        return False
    try:
        made = datetime.fromtimestamp(index.stat().st_mtime, UTC)
    except OSError:
        return False
    return local_day(made, settings.timezone) == local_day(datetime.now(UTC), settings.timezone)
