"""What shorter forms of files would have saved in real sessions, replayed read by read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.compression.analysis import recommendation, rows_of
from ctx_pipeline.compression.captured_files import captured_files
from ctx_pipeline.compression.compress import ENCODING, SCHEMA, counting
from ctx_pipeline.compression.source import NOTICE_TOKENS, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.compression.captured_files import Shown
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.tokens.tokenizers import Tokenizer

BOUNDS = {
    "certain": "reads whose every line was in the context already, unchanged: a notice in place of them",
    "likely": "... and files that were read once and not changed later, in the form that is recommended for them",
    "upper": "... and all other reads in that form, though an edit or a second look wanted the text",
}
"""bound -> what it counts; each holds the one before it"""


class Bound(NamedTuple):
    """One bound of what could have been saved, in tokens of o200k_base."""

    bound: str
    reads: int
    """reads that would have been shorter"""
    tokens: int
    """tokens that these would have been shorter, each counted once"""
    carried: int
    """the same, counted for every model call that was sent them; never above what was billed"""


class Replay(NamedTuple):
    """One session, or several added up."""

    host: str
    session_id: str
    reads: int
    """reads of files that a model call was sent"""
    delivered: int
    """tokens of what they brought"""
    billed: int
    """prompt tokens that the session's calls were billed"""
    bounds: list[Bound]


def replay(host: str, session_id: str, *, settings: Settings | None = None) -> Replay:
    """Return what a session's reads of files brought, and what shorter forms would have saved, in three bounds.

    Only reads are counted that were sent to a model at least once. Raises UnknownName.
    """
    told = captured_files(host, session_id, settings=settings)
    tokenizer = counting()
    sent = [d for d in told.shown if d.calls_after]
    shown = tokenizer.count_many([d.printed for d in sent])
    saved: dict[str, list[tuple[int, int]]] = {name: [] for name in BOUNDS}
    forms: dict[tuple[str, str], int] = {}
    last_look = {(one.thread_id, one.path): place for place, one in enumerate(sent)}
    for place, (one, tokens) in enumerate(zip(sent, shown, strict=True)):
        if one.already_delivered:
            kind, cost = "certain", NOTICE_TOKENS
        else:
            wanted = one.changed_after or last_look[one.thread_id, one.path] > place
            kind, cost = "upper" if wanted else "likely", _best(one, tokenizer, forms)
        if cost < tokens:
            saved[kind].append((tokens - cost, one.calls_after))
    bounds, so_far = [], []
    for name in BOUNDS:
        so_far += saved[name]
        carried = min(told.billed, sum(less * calls for less, calls in so_far))
        bounds.append(Bound(name, len(so_far), sum(less for less, _ in so_far), carried))
    return Replay(told.host, told.session_id, len(sent), sum(shown), told.billed, bounds)


def _best(one: Shown, tokenizer: Tokenizer, known: dict[tuple[str, str], int]) -> int:
    """Return the tokens of what was read in the form that is recommended for it."""
    key = one.path, one.text
    if key not in known:
        rows = rows_of(Source(one.path, one.text, fragment=True), tokenizer)
        chosen, _ = recommendation(rows)
        known[key] = next(row.tokens or 0 for row in rows if row.form == chosen)
    return known[key]


def newest(count: int, *, settings: Settings | None = None) -> list[tuple[str, str]]:
    """Return host and id of the newest captured sessions. Raises StoreError when nothing was captured yet."""
    from ctx_pipeline.sessions.pages import newest as lines

    return [(line.host, line.session_id) for line in lines(limit=count, settings=settings)[0]]


def added(replays: Iterable[Replay]) -> Replay:
    """Return the sums of several sessions."""
    rows = list(replays)
    bounds = [
        Bound(name, *(sum(one.bounds[place][field] for one in rows) for field in (1, 2, 3)))  # type: ignore[misc]
        for place, name in enumerate(BOUNDS)
    ]
    return Replay("", "", sum(r.reads for r in rows), sum(r.delivered for r in rows), sum(r.billed for r in rows), bounds)


def replay_row(rows: Sequence[Replay]) -> dict[str, Any]:
    """Return replays as plain values: the sums, and each session."""
    total = added(rows)
    sessions = [{"host": one.host, "session_id": one.session_id, **_figures(one)} for one in rows]
    return {"schema": SCHEMA, "encoding": ENCODING, **_figures(total), "sessions": sessions}


def _figures(one: Replay) -> dict[str, Any]:
    return {
        "reads": one.reads,
        "delivered_tokens": one.delivered,
        "billed_tokens": one.billed,
        "bounds": [
            {
                "bound": b.bound,
                "reads": b.reads,
                "tokens": b.tokens,
                "carried_tokens": b.carried,
                "of_billed": round(b.carried / one.billed, 4) if one.billed else None,
            }
            for b in one.bounds
        ],
    }
