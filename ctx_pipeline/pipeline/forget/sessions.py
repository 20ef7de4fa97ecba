"""Sessions out of every layer for good: raw, tables, indexes, pages; a hash stays, so that they do not come back."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.errors import AmbiguousName, StoreDamaged, StoreError, UsageError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import capture, plan
from ctx_pipeline.pipeline.forget import rows as forgotten_rows
from ctx_pipeline.pipeline.forget.duplicates import copies_of
from ctx_pipeline.pipeline.forget.shared_files import Needles, blank_shared, keep_out, spellings
from ctx_pipeline.pipeline.reports import DONE, UNCHANGED, CellReport, StageReport
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage import FORGETTING, session_notes, store_marker, temporary
from ctx_pipeline.storage.byte_search import LEAST, Searched, Wanted, search
from ctx_pipeline.storage.ledger.forgotten import CONTENT, content_hash
from ctx_pipeline.storage.ledger.rows import RAW_LOST, Tombstone
from ctx_pipeline.storage.ledger.sessions import thread_hash
from ctx_pipeline.storage.raw import encryption
from ctx_pipeline.storage.raw.home_files import is_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger.rows import Source


# What is left of forgotten sessions beside the tables: ids in the journal and in logs, temporary files, and a last
# look at every file.


_LOGS = ("hooks.log", "hooks.log.1")
_HISTORY = "dagster"
"""Folder with the history of runs, which can do without."""

_SET_ASIDE = ".damaged"
"""In the name of every file that was set aside."""


def rename_in_journal(store: Store, ids: Collection[str]) -> int:
    """Put a digest in the place of these ids in all facts of the journal and return how many facts changed."""
    if not store.journal.path.exists():
        return 0
    return store.journal.rename({one: f"forgotten-{digest('forgotten', one, size=24)}" for one in ids})


def clean_logs(store: Store, ids: Collection[str]) -> None:
    """Remove the lines of the hooks' logs that name one of these ids."""
    wanted = [one.encode("utf-8", "surrogatepass") for one in ids if len(one) >= LEAST]
    for rel in _LOGS:
        if not store.files.exists(rel):
            continue
        lines = store.files.read(rel).splitlines(keepends=True)
        kept = [line for line in lines if not any(one in line for one in wanted)]
        if len(kept) < len(lines):
            store.files.write(rel, *kept)


def clear_temporaries(store: Store) -> None:
    """Remove the temporary files that processes left behind, and those of earlier versions, which nobody writes during a forgetting."""
    for found in list(temporary.everywhere(store.home)):
        if found.left or not found.named:
            temporary.remove(store.home, found)


def look_everywhere(store: Store, ids: Collection[str], paths: Collection[str], texts: Collection[bytes]) -> Searched:
    """Return what every file of the store was looked through for, and which still hold an id, a path or a text.

    A temporary file that does is removed, unless a living process of this machine writes
    it. So are the history of runs, which begins anew, and files that were set aside as damaged.
    """
    names = [one for one in ids if len(one) >= LEAST]
    paths = [path for path in paths if not any(one in path for one in names)]
    wanted = Wanted([*(one.encode("utf-8", "surrogatepass") for one in (*names, *paths)), *texts])
    report = search(store.home, wanted, leave_out={FORGETTING})
    if any(rel.startswith(f"{_HISTORY}/") for rel in report.found):
        shutil.rmtree(store.home / _HISTORY, ignore_errors=True)
    for rel in report.found:
        if _SET_ASIDE in rel.rpartition("/")[2]:
            store.files.remove(rel)
    if any(temporary.PREFIX in rel for rel in report.found):
        for found in list(temporary.everywhere(store.home)):
            if found.ended is not False and any(rel == found.rel or rel.startswith(f"{found.rel}/") for rel in report.found):
                temporary.remove(store.home, found)
    report.found = [rel for rel in report.found if store.files.exists(rel)]
    return report


_LEAST_COPY = 40
"""Characters; a shorter text ("run the tests again") may be anybody's."""
_SUMMARY = "summary_"


def drop_saved(store: Store, sessions: Collection[tuple[str, str]], threads: Iterable[str], text: str | None) -> int:
    """Remove the messages of these sessions from the saved conversations, and those that contain a text; return how many.

    A message is one of theirs when it has the id of an event or of a summary that begins
    with one, when it or its conversation names the session or a thread of it, or when its
    whole content is the text of an event. Must run while the lake still has the sessions.
    """
    # every sync imports this module, few hold saved conversations
    from ctx_pipeline.context.backends.sqlite import OWN_STORE, SQLiteMemory

    path = store.home / OWN_STORE
    if not path.exists():
        return 0
    needles = Needles.of(sessions, threads, (), text)
    ids, texts = _events(store, sessions)

    def unwanted(session_id: str, message_id: str | None, body: bytes) -> bool:
        if needles.found(body) or needles.found(session_id.encode("utf-8", "surrogatepass")):
            return True
        if message_id is None:
            return any(one in body for one in map(str.encode, ids))
        return message_id.removeprefix(_SUMMARY) in ids or _content(body) in texts

    memory = SQLiteMemory(path, create_db=False)
    try:
        return int(memory.sync.discard(unwanted))
    finally:
        memory.close()


def _events(store: Store, sessions: Collection[tuple[str, str]]) -> tuple[set[str], set[str]]:
    """Return the ids of the sessions' events, and the texts of them that are long enough to be known again."""
    hosts = {host for host, _ in sessions}
    wanted = {session for _, session in sessions}
    ids: set[str] = set()
    texts: set[str] = set()
    for cell, manifest in store.lake.manifests("normalized").items():
        if cell.host in hosts and any(s in wanted for p in manifest.of_table("sessions") for s in p.live):
            for view in store.lake.read_sessions(cell, session_ids=wanted, tables=("events",)):
                ids |= {event.event_id for event in view.events}
                texts |= {event.text for event in view.events if event.text and len(event.text) >= _LEAST_COPY}
    return ids, texts


def _content(body: bytes) -> str:
    try:
        content = msgspec.json.decode(body).get("content")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return ""
    return content if isinstance(content, str) else ""


def forget_lost_raw(store: Store, chosen: Iterable[tuple[str, str]]) -> None:
    """Remove what raw and the ledger still hold of chosen sessions whose raw is lost, damaged objects too, and leave tombstones."""
    rows = [row for session in chosen if (row := store.ledger.session(*session)) is not None and row.raw_lost]
    if not rows:
        return
    stones = {(row.host, "thread", thread_hash(row.host, row.session_id)) for row in rows}
    streams = {(row.host, str(stream)) for row in rows for stream, _, _ in row.rows[RAW_LOST]}
    stones |= {(host, "stream", stream) for host, stream in streams}
    store.journal.append("tombstone", {"sessions": len(rows), "stones": [list(stone) for stone in sorted(stones)]})
    store.ledger.remember_forgotten(Tombstone(*stone, store_marker.now()) for stone in sorted(stones))
    for host, stream in sorted(streams):
        for rel in list(store.files.walk(f"raw/{host}/{stream[:2]}/{stream}")):
            store.files.remove(rel)
    store.ledger.forget_rows((row.host, row.session_id) for row in rows)
    store.ledger.compact()


LEASE = "forget"
_EXAMPLES = 20
TAKEN = "taken"
"""Homes that ``ctx adopt`` is taking over, copied: what it was interrupted in stays there until it is said again."""

_MADE = ("site", "serving", "signals", "outputs", "handoffs", "compactions", TAKEN)
"""Folders that hold text and are made anew, by the next run or by ``ctx adopt``."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What to forget: some sessions, a project, what ended before a day (``2026-01-31``, UTC), or all that contains a text."""

    host: str | None = None
    session_id: str | None = None
    project: str | None = None
    before: str | None = None
    text: str | None = None
    copies: bool = False
    """the forks and copies of what is meant as well"""
    others: tuple[tuple[str, str], ...] = ()
    """(host, session id) of more sessions beside the one"""


@dataclass(slots=True)
class Preview:
    """What would be forgotten; nothing has happened yet."""

    sessions: list[tuple[str, str]] = field(default_factory=list)
    """(host, session id), in order"""
    streams: int = 0
    """captured files of these sessions"""
    bytes: int = 0
    """bytes of these files that raw holds, before compression"""
    examples: list[str] = field(default_factory=list)
    """titles of some of the sessions, redacted; the id where there is none"""
    copies: list[tuple[str, str]] = field(default_factory=list)
    """(host, session id) of forks and of other sessions with the same calls, lines or texts that stay, each with its own copy"""


@dataclass(slots=True)
class ForgetReport(StageReport):
    """How a forgetting went."""

    searched: Searched = field(default_factory=Searched)
    """what was looked through at the end, and what still names the sessions"""


def select(store: Store, selection: Selection) -> Preview:
    """Return the sessions that a selection means, with their size and some titles.

    What an interrupted call began is among them. Raises UsageError for a selection that
    names nothing, a day that is no date or a name of several projects; StoreDamaged when
    a text has to be looked for in a raw object that is missing or damaged.
    """
    rows = {(row.host, row.session_id): row for row in _session_rows(store)}
    begun = _begun(store)
    left = begun.sessions if begun is not None else set()
    meant = left if begun is not None and selection == Selection() else _selected(store, selection, rows, left) | left
    # an interrupted call has said already which copies it takes
    copies = set() if selection == Selection() else copies_of(store, rows, meant)
    chosen = sorted(meant | copies if selection.copies else meant)
    preview = Preview(sessions=chosen, copies=[] if selection.copies else sorted(copies))
    redactor = Redactor()
    for host, session in chosen:
        streams = [s.stream for s in store.ledger.session_streams(host, session)]
        preview.streams += len(streams)
        preview.bytes += sum(s.end - s.start for segments in store.ledger.segments_of(streams).values() for s in segments)
        if len(preview.examples) < _EXAMPLES:
            row = rows.get((host, session))
            preview.examples.append(redactor.redact(row.title) if row is not None and row.title else f"{host} {session}")
    return preview


def forget(store: Store, settings: Settings, selection: Selection) -> ForgetReport:
    """Remove what the selection means from every layer and return how much that was.

    Raw objects, rows of every table, search documents and memories drawn from these
    sessions alone go; the warehouse and the page are removed and made anew by the next
    run. The journal keeps hashes only; notes and artifacts of the sessions go. Lines about the sessions in files they share with
    others are blanked in raw; copies of their messages in conversations that a person
    saved in the store go too. At the end every file of the store is looked through for
    what was forgotten. The homes stay as they are. What an earlier call began and did not
    end is ended by this one.
    """
    with store.ledger.lease(LEASE, wait=forgotten_rows.WAIT):
        return _forget(store, settings, selection)


def finish(store: Store, settings: Settings) -> ForgetReport | None:
    """End a forgetting that was interrupted; None when there is none."""
    if _begun(store) is None:
        return None
    with store.ledger.lease(LEASE, wait=forgotten_rows.WAIT):
        # the one that was at it may have ended while this one waited
        return _forget(store, settings, Selection()) if _begun(store) is not None else None


def repeat_tombstones(store: Store, settings: Settings, facts: Iterable[tuple[str, str, dict[str, Any]]]) -> int:
    """Take facts kept beside another journal into this one and forget the sessions that they name; return how many were there."""
    known = {
        (fact.kind, json.dumps(fact.payload, sort_keys=True)) for fact in store.journal.facts() if fact.kind in store_marker.KEPT_BESIDE
    }
    for _, kind, payload in facts:
        if (kind, json.dumps(payload, sort_keys=True)) not in known:
            store.journal.append(kind, payload)
    if not _noted(store).sessions:
        return 0
    store.files.write(FORGETTING, b"")
    ended = finish(store, settings)
    return ended.totals["sessions"] if ended is not None else 0


@contextmanager
def keep_forgotten_out(store: Store, settings: Settings) -> Iterator[None]:
    """Around whatever captures: end an interrupted forgetting first, and blank what the capture brought back."""
    finish(store, settings)
    yield
    keep_out(store)


def _forget(store: Store, settings: Settings, selection: Selection) -> ForgetReport:
    from ctx_pipeline.pipeline.models import model_judge  # every sync imports this module, and forgets nothing

    began = time.perf_counter()
    store.journal.demand()  # the tombstones are in it alone: nothing is begun that could not be noted
    encryption.require(store.files)  # nor what could not be ended
    with ExitStack() as leases:
        for name in (capture.LEASE, forgotten_rows.LAKE):
            leases.enter_context(store.ledger.lease(name, wait=forgotten_rows.WAIT))
        again = _begun(store) is not None
        chosen = select(store, selection).sessions
        work = _begin(store, chosen, selection.text)
        sources = [s for host, session in chosen for s in store.ledger.session_streams(host, session)]
        _note(store, chosen, sources)
        prompts = _prompts(store, chosen)
        saved = model_judge.forget(store, chosen)
        lines, titled = 0, set[Cell]()
        for text in work.texts or [None]:
            saved += drop_saved(store, chosen, work.threads, text) + session_notes.forget(store, chosen, text)
            blanked = blank_shared(store, Needles.of(chosen, work.threads, prompts, text))
            lines, titled = lines + blanked.lines, titled | blanked.cells
        rename_in_journal(store, work.ids)
        size = _remove_raw(store, sources)
        cells = {*work.cells, *titled, *(store.ledger.forget({s.stream for s in sources}) if sources else ())}
        forget_lost_raw(store, chosen)
    if chosen or lines or again:
        _rederive(store, settings, chosen, cells)
    searched = _clean_up(store, work)
    store.files.remove(FORGETTING)
    totals = {"sessions": len(chosen), "streams": len(sources), "bytes": size, "lines": lines, "saved": saved}
    report = ForgetReport("forget", {}, totals, time.perf_counter() - began, searched)
    report.cells = {cell.key: CellReport(DONE if chosen else UNCHANGED) for cell in sorted(cells)}
    return report


def _clean_up(store: Store, work: _Begun) -> Searched:
    """Remove what names the sessions beside the tables, and look through every file of the store."""
    clean_logs(store, work.ids)
    clear_temporaries(store)
    texts = [spelling for text in work.texts if text for spelling in spellings(text)]
    return look_everywhere(store, work.ids, work.paths, texts)


# what was begun


@dataclass(frozen=True, slots=True)
class _Begun:
    """What a call set out to remove; it lies in the store until the call ends."""

    sessions: set[tuple[str, str]]
    threads: list[str]
    cells: list[Cell]
    paths: list[str]
    texts: list[str | None]

    @property
    def ids(self) -> set[str]:
        """Ids of the sessions and of their threads."""
        return {session for _, session in self.sessions} | set(self.threads)


def _begun(store: Store) -> _Begun | None:
    if not store.files.exists(FORGETTING):
        return None
    try:
        kept = json.loads(store.files.read(FORGETTING))
        return _Begun(
            {(str(host), str(session)) for host, session in kept["sessions"]},
            [str(thread) for thread in kept["threads"]],
            [Cell(*cell) for cell in kept["cells"]],
            [str(path) for path in kept.get("paths", ())],
            [str(text) for text in kept.get("texts", ())],
        )
    except (StoreError, ValueError, KeyError, TypeError, AttributeError):
        return _noted(store)


def _noted(store: Store) -> _Begun:
    """Return what the tombstones of the journal tell of a forgetting whose own words cannot be read."""
    stones = {(stone.host, stone.hash) for stone in remembered(store) if stone.kind == "stream"}
    sources = [s for s in store.ledger.sources().values() if (s.host, s.stream) in stones and s.session_id]
    cells = sorted(store.ledger.cells())
    return _Begun({(s.host, str(s.session_id)) for s in sources}, sorted({s.thread_id for s in sources if s.thread_id}), cells, [], [])


def _begin(store: Store, chosen: list[tuple[str, str]], text: str | None) -> _Begun:
    """Write down what is about to go, together with what an earlier call left, and return it."""
    before = _begun(store) or _Begun(set(), [], [], [], [])
    sources = [s for host, session in chosen for s in store.ledger.session_streams(host, session)]
    rows = [store.ledger.session(host, session) for host, session in chosen]
    cells = {row.partition for row in rows if row is not None} | forgotten_rows.holding(store, forgotten_rows.LAKE, _by_host(chosen))
    work = _Begun(
        set(chosen),
        sorted({*before.threads, *(s.thread_id for s in sources if s.thread_id)}),
        sorted({*before.cells, *cells}),
        sorted({*before.paths, *(s.rel for s in sources)}),
        [*before.texts, *([text] if text and text not in before.texts else [])],
    )
    kept = {**asdict(work), "sessions": sorted(work.sessions)}
    store.files.write(FORGETTING, json.dumps(kept).encode())
    return work


def _by_host(chosen: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for host, session in chosen:
        found.setdefault(host, set()).add(session)
    return found


# what is meant


def _session_rows(store: Store) -> Iterator[Any]:
    for cell in sorted(store.lake.manifests(forgotten_rows.LAKE)):
        yield from store.lake.read_rows("sessions", cell, forgotten_rows.LAKE)


def _selected(store: Store, selection: Selection, rows: dict[tuple[str, str], Any], left: set[tuple[str, str]]) -> set[tuple[str, str]]:
    if selection.host and selection.session_id:
        named = {(selection.host, selection.session_id), *selection.others}
        return {key for key in named if store.ledger.session_streams(*key) or key in rows}
    if selection.project:
        return _of_project(selection.project, rows)
    if selection.before:
        return _ended_before(store, selection.before, rows)
    if selection.text:
        return _containing(store, selection.text, left)
    raise UsageError("say what to forget", hint="a session, a project, a day or a text")


def _of_project(project: str, rows: dict[tuple[str, str], Any]) -> set[tuple[str, str]]:
    """Return the sessions of a repository, a folder, or the one repository that has this short name."""
    placed = {key for key, row in rows.items() if project in {row.repository, row.cwd}}
    if placed:
        return placed
    named = {key: row.repository or row.cwd or "" for key, row in rows.items() if row.project == project}
    if len(set(named.values())) > 1:
        raise AmbiguousName("project", project, named.values())
    return set(named)


def _ended_before(store: Store, day: str, rows: dict[tuple[str, str], Any]) -> set[tuple[str, str]]:
    try:
        limit = datetime.fromisoformat(day).replace(tzinfo=UTC)
    except ValueError as error:
        raise UsageError(f"{day!r} is not a day", hint="write it as 2026-01-31") from error
    found = set()
    for row in store.ledger.sessions():
        known = rows.get((row.host, row.session_id))
        last = known.last_ts if known is not None else None
        if last is None:
            times = [s.mtime_ns // 1_000 for s in store.ledger.session_streams(row.host, row.session_id)]
            last = max(times, default=0)
        if _micros(last) < limit.timestamp() * 1_000_000:
            found.add((row.host, row.session_id))
    return found


def _micros(value: Any) -> float:
    return value.replace(tzinfo=UTC).timestamp() * 1_000_000 if isinstance(value, datetime) else float(value)


def _containing(store: Store, text: str, left: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the sessions, but those left by an earlier call, with the text in a file as captured, plain or in a JSON spelling."""
    wanted = spellings(text)
    found: set[tuple[str, str]] = set()
    for source in store.ledger.sources().values():
        key = (source.host, source.session_id or "")
        if source.session_id and key not in found | left and any(s in data for data in _generations(store, source) for s in wanted):
            found.add(key)
    return found


def _generations(store: Store, source: Source) -> Iterator[bytes]:
    """Yield the lines of every captured generation of a source; raises StoreDamaged where an object is missing."""
    from ctx_pipeline.storage.raw.segments import stream_text

    segments = store.ledger.segments_of([source.stream]).get(source.stream, [])
    for generation in sorted({s.generation for s in segments}):
        chosen = [s for s in segments if s.generation == generation]
        for segment in chosen:
            if not store.files.exists(segment.path):
                raise StoreDamaged(f"{segment.path} is missing: nobody can tell whether the text is in it", hint="forget its session by id")
        yield stream_text(store.files, chosen, source.rel)


def _prompts(store: Store, chosen: Iterable[tuple[str, str]]) -> list[str]:
    """Return what was typed in these sessions, which a history of prompts repeats without naming the session."""
    wanted = set(chosen)
    hosts = {host for host, _ in wanted}
    ids = {session for _, session in wanted}
    found = []
    for cell, manifest in store.lake.manifests(forgotten_rows.LAKE).items():
        if cell.host in hosts and any(s in ids for p in manifest.of_table("sessions") for s in p.live):
            for view in store.lake.read_sessions(cell, session_ids=ids, tables=("sessions", "events")):
                found += [event.text for event in view.prompts if event.text]
    return found


# raw and the ledger


def _note(store: Store, chosen: list[tuple[str, str]], sources: list[Source]) -> None:
    """Write the tombstones into the journal, from which a rebuilt ledger takes them again."""
    from ctx_pipeline.storage.ledger.sessions import thread_hash

    stones = {(s.host, "stream", s.stream) for s in sources}
    stones |= {(s.host, "thread", thread_hash(s.host, s.thread_id)) for s in sources if s.thread_id}
    stones |= {(s.host, CONTENT, content) for s in sources if (content := _own_content(store, s)) is not None}
    stones -= {(stone.host, stone.kind, stone.hash) for stone in remembered(store)}
    if stones:
        store.journal.append("tombstone", {"sessions": len(chosen), "stones": [list(stone) for stone in sorted(stones)]})
        store.ledger.remember_forgotten(Tombstone(*stone, store_marker.now()) for stone in sorted(stones) if stone[1] == CONTENT)


def _own_content(store: Store, source: Source) -> str | None:
    """Return what a copy of a transcript under another name is known by; None for other files, and where raw is lost.

    A file that does not name its thread, such as a few summaries, may be the beginning of another.
    """
    from ctx_pipeline.storage.raw.segments import read_stream, unpack

    if source.marker or not is_lines(source.rel) or not source.thread_id:
        return None
    segments = store.ledger.segments_of([source.stream]).get(source.stream, [])
    try:
        data = read_stream(store.files, [s for s in segments if s.generation == source.generation])
        named = source.thread_id.encode() in (unpack(data) if source.rel.endswith(".zst") else data)
    except StoreError:
        return None
    return content_hash(data) if named else None


def _remove_raw(store: Store, sources: list[Source]) -> int:
    size = 0
    for source in sources:
        for segment in store.ledger.segments_of([source.stream]).get(source.stream, []):
            size += segment.end - segment.start
        for rel in list(store.files.walk(f"raw/{source.host}/{source.stream[:2]}/{source.stream}")):
            store.files.remove(rel)
    return size


# what was derived


def _rederive(store: Store, settings: Settings, chosen: list[tuple[str, str]], cells: set[Cell]) -> None:
    from ctx_pipeline.pipeline import consolidate, facts, index, ingest, measure, mine, run_report

    ingest.ingest(store, settings, cells=cells, capture=False)
    gone = _by_host(chosen)
    touched = cells.union(*(forgotten_rows.holding(store, asset, gone) for asset in forgotten_rows.assets(store)))
    with forgotten_rows.alone(store, touched):
        forgotten_rows.drop_derived(store, touched)
        for cell in sorted(store.lake.manifests(forgotten_rows.LAKE)):
            forgotten_rows.purge(store, cell, gone.get(cell.host, set()))
        store.search.rebuild(store.lake)
    live = sorted(touched & set(store.ledger.cells()))
    facts.make_facts(store, settings, cells=live)
    measure.measure(store, settings, cells=live)
    mine.mine(store, settings, cells=live)
    store.files.remove(consolidate.COMBINED)
    consolidate.consolidate(store, settings)
    index.index_memory(store, settings, force=True)
    with forgotten_rows.alone(store, touched):
        for folder in _MADE:
            shutil.rmtree(store.home / folder, ignore_errors=True)
        for asset in (plan.WAREHOUSE.key, plan.SITE.key):
            store.ledger.forget_asset(asset)
        store.files.remove(run_report.KEPT)
        forgotten_rows.remove_unnamed_parts(store, touched, gone)
    store.ledger.compact()


def remembered(store: Store) -> list[Tombstone]:
    """Return the tombstones that the journal keeps, for a ledger that is rebuilt."""
    from ctx_pipeline.storage.ledger.rows import Tombstone

    return [
        Tombstone(str(host), str(kind), str(name), fact.at)
        for fact in store.journal.facts("tombstone")
        for host, kind, name in fact.payload["stones"]
    ]
