"""Search over the whole history."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.api.reader import reading
from ctx_pipeline.model.codec import iso

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings


@dataclass(frozen=True)
class SearchHit:
    """One event that fits, with the text around the match and the command that resumes its session."""

    host: str
    session_id: str
    thread_id: str
    event_id: str
    ts: str | None
    kind: str
    title: str | None
    project: str | None
    snippet: str
    resume: str


@dataclass(frozen=True)
class SearchResult:
    """Hits, best first."""

    query: str
    hits: list[SearchHit]

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self)


def search(query: str, *, host: str | None = None, limit: int = 10, offset: int = 0, settings: Settings | None = None) -> SearchResult:
    """Return events that fit a question as typed: the phrase first, then all its words, then any of them.

    Raises StoreError when nothing was indexed yet, UnknownName for an unknown host.
    """
    key = discovery.host(host).key if host else None
    with reading(settings) as (store, _):
        found = store.search.search(store.lake, query, host=key, limit=limit, offset=offset)
        sessions = {place: store.ledger.session(*place) for place in {(hit.event.host, hit.event.session_id) for hit in found}}
    hits = []
    for hit in found:
        event = hit.event
        row = sessions[event.host, event.session_id]
        counts = row.rows if row else {}
        hits.append(
            SearchHit(
                host=event.host,
                session_id=event.session_id,
                thread_id=event.thread_id,
                event_id=event.event_id,
                ts=iso(event.ts),
                kind=event.kind,
                title=counts.get("title"),
                project=counts.get("project"),
                snippet=hit.snippet,
                resume=discovery.hosts()[event.host].resume.format(session_id=event.session_id),
            )
        )
    return SearchResult(query, hits)
