"""Files that many sessions share: forgotten lines are blanked in raw, stay out, and do not make the file look rewritten."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import SourceError
from ctx_pipeline.pipeline import capture
from ctx_pipeline.pipeline.capture.read_source import BLANKED, blank
from ctx_pipeline.pipeline.forget.rows import WAIT
from ctx_pipeline.storage.ledger.sessions import thread_hash
from ctx_pipeline.storage.raw.home_files import EDGE, edge_hash, is_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import Ledger
    from ctx_pipeline.storage.ledger.rows import Hint, Segment, Source

    Span = tuple[int, int]


# Lines of shared files (prompt histories, indexes) that speak of forgotten sessions, found and blanked.


_LEAST_PROMPT = 12
"""A shorter prompt ("yes", "go on") says nothing of whose it is."""
_PROMPT_HEAD = 80


@dataclass(frozen=True, slots=True)
class Needles:
    """What a line must contain to be about a forgotten session."""

    ids: frozenset[str]
    texts: tuple[bytes, ...]

    @classmethod
    def of(cls, sessions: Iterable[tuple[str, str]], threads: Iterable[str], prompts: Iterable[str], text: str | None) -> Needles:
        """Return the ids, the typed prompts and the text to look for."""
        ids = frozenset({session for _, session in sessions} | set(threads))
        texts: dict[bytes, None] = {}
        for spelling in (*(i for i in sorted(ids) if len(i) >= 8), *(p[:_PROMPT_HEAD] for p in prompts if len(p) >= _LEAST_PROMPT)):
            texts.update(dict.fromkeys(spellings(spelling)))
        if text:
            texts.update(dict.fromkeys(spellings(text)))
        return cls(ids, tuple(texts))

    def about(self, thread_id: str, value: str) -> bool:
        """Tell whether a fact is one of a forgotten thread, or says what was forgotten."""
        return thread_id in self.ids or self.found(value.encode("utf-8", "surrogatepass"))

    def found(self, data: bytes) -> bool:
        """Tell whether bytes contain one of the texts."""
        return any(text in data for text in self.texts)


def spellings(text: str) -> tuple[bytes, ...]:
    """Return the bytes of a text as it stands, and as JSON writes it with and without ASCII escapes."""
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return tuple(dict.fromkeys(form.encode("utf-8", "surrogatepass") for form in forms if form))


def lines_about(data: bytes, needles: Needles) -> list[Span]:
    """Return the lines that contain a needle, without their breaks; all of the data for a needle that spans lines."""
    if not needles.found(data):
        return []
    return [span for span in _lines(data) if needles.found(data[slice(*span)])] or [(0, len(data))]


def lines_like(data: bytes, hashes: Collection[str]) -> list[Span]:
    """Return the lines whose hash is one of these, without their breaks."""
    return [span for span in _lines(data) if line_hash(data[slice(*span)]) in hashes]


def line_hash(line: bytes) -> str:
    """Return the name of a line in the journal: it cannot be read back."""
    return hashlib.sha256(line).hexdigest()


def _lines(data: bytes) -> Iterator[Span]:
    at = 0
    for line in data.splitlines(keepends=True):
        body = len(line.rstrip(b"\r\n"))
        if body:
            yield at, at + body
        at += len(line)


class _Blanked(NamedTuple):
    at: str
    generation: int
    start: int
    end: int
    sha256: str


class Blanking(NamedTuple):
    """How many lines were blanked, and the cells of sessions that lost a title or another fact by it."""

    lines: int
    cells: set[Cell]


def blank_shared(store: Store, needles: Needles) -> Blanking:
    """Blank the lines about forgotten sessions in the streams of no session."""
    sources = [s for s in store.ledger.sources().values() if not s.session_id]
    return _blank(store, sources, lambda _, data: lines_about(data, needles), lambda hint: needles.about(hint.thread_id, hint.value))


def keep_out(store: Store, *, copies: Collection[str] = ()) -> int:
    """Blank what a capture has brought back: lines of shared files that were forgotten before; return how many.

    A file that was rewritten, or a database whose rows were read again, holds them still.
    ``copies`` are streams that may hold lines of any other, such as files of an older
    store. A line is known by its hash, so one that was changed is a new line.
    """
    facts = _facts(store)
    if not facts:
        return 0
    with store.ledger.lease(capture.LEASE, wait=WAIT):
        sources = [s for s in store.ledger.sources().values() if s.stream in facts or (s.stream in copies and not s.session_id)]
        everywhere = {one.sha256 for known in facts.values() for one in known} if copies else set()
        forgotten = {(stone.host, stone.hash) for stone in store.ledger.tombstones("thread")}

        def returned(segment: Segment, data: bytes) -> list[Span]:
            if segment.stream in copies:
                return lines_like(data, everywhere)
            known = facts[segment.stream]
            if segment.recorded_at < min(one.at for one in known):
                return []
            return lines_like(data, {one.sha256 for one in known})

        return _blank(store, sources, returned, lambda hint: (hint.host, thread_hash(hint.host, hint.thread_id)) in forgotten).lines


def recognize(store: Store, ledger: Ledger, hosts: Mapping[str, Host] | None = None) -> None:
    """Give blanked streams of a rebuilt ledger the hashes of their files, which still hold what was blanked.

    Only where the file is what was captured, blanked lines included; any other is taken for rewritten.
    """
    facts = _facts(store)
    known = discovery.hosts() if hosts is None else hosts
    ledger.save_sources(
        found
        for source in ledger.sources().values()
        if source.stream in facts and (found := _recognized(store, ledger, source, facts[source.stream], known)) is not None
    )


def _blank(
    store: Store, sources: Iterable[Source], find: Callable[[Segment, bytes], list[Span]], dropped: Callable[[Hint], bool]
) -> Blanking:
    """Blank the lines that are found: an object is replaced in one rename, then the ledger's rows in one transaction.

    Who is ended between the two leaves an object that is not what the ledger says of it: the next call takes it for a blanked one.
    """
    from ctx_pipeline.storage.raw.segments import read_origins, read_pieces, replace_segment

    count = 0
    cells: set[Cell] = set()
    for source in sources:
        segments = store.ledger.segments_of([source.stream]).get(source.stream, [])
        origins = {(path, o.start, o.end): o for path in {s.path for s in segments} for o in read_origins(store.files, path)}
        kept: list[bytes] = []
        changed: set[str] = set()
        lines: list[tuple[int, int, int, str]] = []
        gone: list[bytes] = []
        for segment, data in zip(segments, read_pieces(store.files, segments), strict=True):
            spans = find(segment, data)
            kept.append(blank(data, spans) if spans else data)
            held = origins.get((segment.path, segment.start, segment.end))
            if spans or (held is not None and held.sha256 != segment.sha256):
                changed.add(segment.path)
                gone += [data[a:b] for a, b in spans]
                lines += [(segment.generation, segment.start + a, segment.start + b, line_hash(data[a:b])) for a, b in spans]
        if not changed:
            continue
        if lines:
            store.journal.append(BLANKED, {"stream": source.stream, "lines": lines})
        count += len(lines)
        hints = [h for h in store.ledger.hints() if h.stream == source.stream and not (dropped(h) or _said_by(gone, h))]
        fresh = [
            replace_segment(store.files, origin, data)
            if segment.path in changed and (origin := origins.get((segment.path, segment.start, segment.end))) is not None
            else segment
            for segment, data in zip(segments, kept, strict=True)
        ]
        for path in changed - {segment.path for segment in fresh}:
            store.files.remove(path)
        cells |= store.ledger.commit_capture([source], fresh, hints, anew=True)
        store.ledger.compact()
    return Blanking(count, cells)


def _said_by(lines: Iterable[bytes], hint: Hint) -> bool:
    name, values = hint.thread_id.encode("utf-8", "surrogatepass"), spellings(hint.value)
    return any(name in line and any(value in line for value in values) for line in lines)


def _facts(store: Store) -> dict[str, list[_Blanked]]:
    found: dict[str, list[_Blanked]] = {}
    for fact in store.journal.facts(BLANKED):
        found.setdefault(str(fact.payload["stream"]), []).extend(_Blanked(fact.at, *line) for line in fact.payload["lines"])
    return found


def _recognized(store: Store, ledger: Ledger, source: Source, lines: list[_Blanked], hosts: Mapping[str, Host]) -> Source | None:
    from ctx_pipeline.storage.raw.segments import read_stream

    mine = [line for line in lines if line.generation == source.generation]
    if not mine:
        return None
    segments = ledger.segments_of([source.stream]).get(source.stream, [])
    held = read_stream(store.files, [s for s in segments if s.generation == source.generation])
    data = _of_the_host(source, hosts)[: len(held)]
    if blank(data, [(line.start, line.end) for line in mine]) != held or any(line_hash(data[m.start : m.end]) != m.sha256 for m in mine):
        return None
    whole = bool(source.marker) or not is_lines(source.rel)
    tail = hashlib.sha256(data).hexdigest() if whole else edge_hash(data[-EDGE:])
    return source._replace(head_hash=edge_hash(data[:EDGE]), tail_hash=tail)


def _of_the_host(source: Source, hosts: Mapping[str, Host]) -> bytes:
    """Return what the host's file holds now, nothing when it cannot be read."""
    from ctx_pipeline.pipeline.capture.read_source import opened

    try:
        if source.marker:
            from ctx_pipeline.storage.raw import databases

            return databases.read(source.path, hosts[source.host].files.databases[source.kind], source.rel.rpartition("#")[2])
        with opened(source.path) as handle, open(handle, "rb", closefd=False) as file:
            return file.read()
    except (SourceError, OSError, KeyError):
        return b""
