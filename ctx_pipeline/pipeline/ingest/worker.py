"""What is done with one task: capture, decode, redact, and the parts of the two large tables.

This runs in the calling process for little input and in forked workers for much; it
touches files only, never the ledger.
"""

from __future__ import annotations

import pickle
import time
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import ContractError, CtxError, StoreFull
from ctx_pipeline.model.raw import Quarantined, SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.pipeline.capture import attempt
from ctx_pipeline.pipeline.ingest.decoding import SessionRows, decode
from ctx_pipeline.storage.search_index.row_attributes import MarkWriter
from ctx_pipeline.storage.search_index.tokenize import documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Parsed
    from ctx_pipeline.pipeline.capture import Problem, Taken
    from ctx_pipeline.pipeline.ingest.tasks import SessionJob, Task
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.files import Files
    from ctx_pipeline.storage.lake import Lake, Part
    from ctx_pipeline.storage.ledger import Segment, Source

Document = tuple[int, str | None, str | None]

_KIND, _TEXT = EVENTS.names.index("kind"), EVENTS.names.index("text")
_COST = MODEL_CALLS.names.index("cost")


class PackedRows:
    """Rows that wait for all others of a pass, in a tenth of the memory; each look at them unpacks them."""

    __slots__ = ("_packed",)

    def __init__(self, rows: Sequence[tuple]) -> None:
        self._packed = zlib.compress(pickle.dumps(rows, 5), 1)

    def __iter__(self) -> Iterator[tuple]:
        rows: Sequence[tuple] = pickle.loads(zlib.decompress(self._packed))  # noqa: S301 - from our own worker
        return iter(rows)


@dataclass(slots=True)
class SessionDone:
    """One decoded session without its large rows."""

    host: str
    session_id: str
    streams: set[str]
    """what it was decoded from"""
    content_hash: str
    session: tuple
    threads: list[tuple]
    model_calls: PackedRows
    quarantined: list[Any]
    unknown: dict[str, int]
    parent_session: str | None
    line_ids: bytes
    branch_titles: dict[bytes, str]
    live_secrets: tuple[str, ...]


@dataclass(slots=True)
class TaskDone:
    """What became of a task."""

    number: int
    captured: list[Taken] = field(default_factory=list)
    """every source that was captured, without its bytes"""
    problems: list[Problem] = field(default_factory=list)
    """sources that could not be read"""
    sessions: list[SessionDone] = field(default_factory=list)
    events: Part | None = None
    tool_calls: Part | None = None
    documents: list[Document] = field(default_factory=list)
    spans: list[tuple[str, int, int]] = field(default_factory=list)
    marks: bytes = b""
    """kind, outcome, tool and time of each event, packed for the search index"""
    pages: bytes = b""
    """where the texts of the events lie in their part"""
    error: str = ""
    """why the cell is held back; the sources are captured all the same"""
    bytes: int = 0
    seconds: float = 0.0


class Tools:
    """What decoding needs; made once in each process."""

    def __init__(self, settings: Settings, files: Files, hosts: Mapping[str, Host] | None = None) -> None:
        self.settings = settings
        self.files = files
        self._given = hosts

    @cached_property
    def hosts(self) -> Mapping[str, Host]:
        """Every host by key."""
        return discovery.hosts() if self._given is None else self._given

    @cached_property
    def redactor(self) -> Redactor:
        """The person's own detectors beside the built-in ones."""
        from ctx_pipeline.redaction import Redactor

        return Redactor(self.settings.patterns)

    @cached_property
    def prices(self) -> PriceBook:
        """Dated prices, with the person's own."""
        from ctx_pipeline.pricing import PriceBook

        return PriceBook.of(self.settings)

    @cached_property
    def lake(self) -> Lake:
        """The lake's files."""
        from ctx_pipeline.storage.lake import Lake

        return Lake(self.files)


def work(tools: Tools, number: int, task: Task) -> TaskDone:
    """Capture the task's pending sources, decode its sessions and write the parts of events and tool calls.

    A session that cannot be decoded fails the task, after everything was captured. All
    files are on disk when this returns.
    """
    began = time.perf_counter()
    with tools.files.together():
        done = _worked(tools, TaskDone(number), task)
    if done.events is not None:
        done.pages = tools.lake.pages(done.events.path)
    done.seconds = time.perf_counter() - began
    return done


def _worked(tools: Tools, done: TaskDone, task: Task) -> TaskDone:
    events: list[list[Any]] = [[] for _ in EVENTS.columns]
    tool_calls: list[list[Any]] = [[] for _ in TOOL_CALLS.columns]
    marks = MarkWriter()
    for job in task.jobs:
        taken = [
            one for source in job.pending if (one := attempt(tools.files, source, tools.hosts[source.host], done.problems)) is not None
        ]
        done.captured += [one._replace(data=b"") for one in taken]
        done.bytes += job.bytes
        if done.error:
            continue
        try:
            rows = _decoded(tools, job, taken)
        except StoreFull:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a parser raises holds back its own cell alone
            done.error = _reason(job, error)
            continue
        first = len(events[0])
        done.spans += [(job.session_id, first, first + len(rows.events) - 1)] if rows.events else []
        done.documents += documents(rows.event_columns[_KIND], rows.event_columns[_TEXT], first)
        marks.add(rows.event_columns, rows.tool_columns)
        for table, columns in ((events, rows.event_columns), (tool_calls, rows.tool_columns)):
            for whole, piece in zip(table, columns, strict=True):
                whole.extend(piece)
        done.sessions.append(_small(tools, job, taken, rows))
    if not done.error:
        try:
            done.events = tools.lake.write_part("normalized", task.partition, "events", events) if events[0] else None
            done.tool_calls = tools.lake.write_part("normalized", task.partition, "tool_calls", tool_calls) if tool_calls[0] else None
            done.marks = marks.packed()
        except ContractError as error:
            done.error = error.message
    if done.error:
        done.sessions, done.spans, done.documents, done.events, done.tool_calls = [], [], [], None, None
    return done


def _decoded(tools: Tools, job: SessionJob, taken: Sequence[Taken]) -> SessionRows:
    streams: list[StreamBytes] = []
    sizes: dict[tuple[str, int, int], int] = {}
    cut: list[Quarantined] = []
    sources = [(t.source, {(s.generation, s.start): t.data for s in t.segments[-1:]}, t.segments) for t in taken]
    for source, fresh, new in (*sources, *((s, {}, ()) for s in job.known)):
        segments = [*job.segments.get(source.stream, ()), *new]
        sizes.update({(s.stream, s.generation, s.start): s.end - s.start for s in segments})
        streams += _generations(tools, source, segments, fresh, cut)
    streams.sort(key=lambda s: (s.thread_id != job.session_id, s.thread_id, s.stream, s.generation))
    given = SessionInput(job.host, job.session_id, tuple(streams), job.hints)

    def parse(given: SessionInput) -> Parsed:
        parsed = tools.hosts[job.host].records.parse(given)
        parsed.quarantined += cut
        return parsed

    shell, size = tools.hosts[job.host].shell, sum(sizes.values())
    return decode(given, parse, tools.redactor, month=job.month, size=size, shell=shell, parent_session=job.parent_session)


def _generations(
    tools: Tools, source: Source, segments: Iterable[Segment], fresh: dict[tuple[int, int], bytes], cut: list[Quarantined]
) -> list[StreamBytes]:
    """Return the bytes of each generation of a stream; ``fresh`` are segments at hand, ``cut`` gets what was too long to unpack."""
    from ctx_pipeline.storage.raw.segments import read_pieces, unpack

    pieces: dict[int, dict[int, Segment]] = {}
    for segment in segments:
        pieces.setdefault(segment.generation, {})[segment.start] = segment
    found = []
    for generation, parts in sorted(pieces.items()):
        kept = read_pieces(tools.files, (segment for start, segment in sorted(parts.items()) if (generation, start) not in fresh))
        texts = [fresh[generation, start] if (generation, start) in fresh else next(kept) for start in sorted(parts)]
        data = texts[0] if len(texts) == 1 else b"".join(texts)
        if source.rel.endswith(".zst"):
            most = tools.settings.whole_file_bytes
            data = unpack(data, most + 1)
            if len(data) > most:
                data = data[: data.rfind(b"\n", 0, most) + 1]
                reason = f"more text than whole_file_bytes = {most}"
                cut.append(Quarantined(source.stream, generation, data.count(b"\n"), len(data), len(data), reason))
        found.append(
            StreamBytes(
                source.stream,
                source.kind,
                source.rel,
                generation,
                data,
                source.thread_id or "",
                source.parent_thread_id,
                current=generation == source.generation,
            )
        )
    return found


def _small(tools: Tools, job: SessionJob, taken: Sequence[Taken], rows: SessionRows) -> SessionDone:
    costs = tools.prices.cost_rows(rows.model_calls)
    calls = [row[:_COST] + cost + row[_COST + 2 :] for row, cost in zip(rows.model_calls, costs, strict=True)]
    streams = {s.stream for s in (*(t.source for t in taken), *job.known) if s.captured or s.generation}
    return SessionDone(
        job.host,
        job.session_id,
        streams,
        rows.content_hash,
        rows.session,
        rows.threads,
        PackedRows(calls),
        rows.quarantined,
        rows.unknown,
        rows.parent_session,
        rows.line_ids,
        rows.branch_titles,
        rows.live_secrets,
    )


def _reason(job: SessionJob, error: Exception) -> str:
    """Return why a session holds back its cell; a parser's own message may quote content, so only its class is told."""
    if isinstance(error, CtxError):
        return f"{job.session_id}: {error.message}"
    return f"{job.session_id}: {type(error).__name__} in the parser of {job.host}"
