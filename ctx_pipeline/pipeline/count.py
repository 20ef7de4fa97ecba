"""Exact token counts of what stands in the context windows, by the public encodings; off the critical path."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import TOKEN_COUNTS
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline.derived_partitions import Due, run_cells
from ctx_pipeline.pipeline.session_rows import SessionInputs, SessionRows, commit
from ctx_pipeline.tokens.tokenizers import encoding_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.pipeline.reports import StageReport
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

CODE_VERSION = "1"
ASSET = "tokens/exact"

KINDS = ("answer", "injected", "prompt", "reasoning", "tool_call", "tool_result")
"""Events whose text stands in a context window."""

DEFAULT = "o200k_base"
"""Encoding for models whose own is not public; their rows say that they are not exact."""

_COLUMNS = {"events": ("event_id", "session_id", "kind", "text")}
_PIECE = 2_000
_RUN = re.compile(r"\S{20000}")
_ROW = TOKEN_COUNTS.row


def count(
    store: Store,
    settings: Settings,  # noqa: ARG001 - every stage takes the same
    *,
    cells: Collection[Cell] | None = None,
    force: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> StageReport:
    """Bring ``token_counts`` up to date.

    Counts of a session stay while it does; of one that grew only new texts are counted.
    Nothing is downloaded. Totals: rows, texts that were encoded, and
    their characters.
    """
    due = Due(store, {ASSET: (code_versions.of_stage(ASSET), ("normalized/events", "normalized/sessions"))})

    def begin(cell: Cell, _assets: Collection[str], _before: Mapping[str, Any]) -> _Counting:
        return _Counting(store, cell, due.versions[ASSET], force=force)

    return run_cells(store, {"count": (due, begin)}, cells, progress=progress, force=force)[0]


class _Counting:
    """The counts of one cell."""

    assets = (ASSET,)
    tables = ("events",)
    kinds = KINDS

    def __init__(self, store: Store, cell: Cell, version: str, *, force: bool) -> None:
        self.columns: Mapping[str, Collection[str]] = _COLUMNS
        self._store, self._version = store, version
        self._rows = SessionRows(store, ASSET, cell, ("token_counts",))
        present = SessionInputs(store, cell).present
        self._keys = {session: digest(version, row.content_hash, _encoding(row)) for session, row in present.items()}
        self.sessions = {session for session, key in self._keys.items() if force or not self._rows.keep(session, key)}
        same = not force and self._rows.old is not None and self._rows.old.code_version == version
        former = self._rows.rows(self.sessions, "token_counts") if same else []
        self._known: dict[tuple[str, str], tuple[int, bool]] = {(r.content, r.encoding): (r.tokens, r.exact) for r in former}
        self._counts: Counter[str] = Counter({"rows": 0, "encoded": 0, "characters": 0})

    def see(self, view: SessionView) -> None:
        """Count the texts of a session."""
        own = _encoding(view.session)
        encoding = own or DEFAULT
        rows = []
        texts = {e.event_id: e.text for e in view.events if e.text}
        hashes = {event: hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32] for event, text in texts.items()}
        fresh = {hashes[event]: text for event, text in texts.items() if (hashes[event], encoding) not in self._known}
        for (content, text), (tokens, whole) in zip(fresh.items(), _counted(list(fresh.values()), encoding), strict=True):
            self._known[content, encoding] = (tokens, whole and own is not None)
            self._counts["encoded"] += 1
            self._counts["characters"] += len(text)
        for e in view.events:
            if e.text:
                tokens, exact = self._known[hashes[e.event_id], encoding]
                rows.append(_ROW(e.event_id, view.host, view.session_id, e.kind, hashes[e.event_id], encoding, tokens, len(e.text), exact))
        rows.sort(key=attrgetter("event_id"))
        self._rows.put(view.session_id, self._keys[view.session_id], {"token_counts": rows})

    @property
    def recomputed(self) -> dict[str, dict[str, int]]:
        """Asset -> why -> sessions whose rows were made, after the commit."""
        return {ASSET: self._rows.recomputed}

    def commit(self, made_of: Mapping[str, str]) -> Counter[str]:
        """Write the counts, by session and event."""
        (made,) = commit(self._store, [(self._rows, self._version, made_of[ASSET])])
        self._counts["rows"] = made.rows.get("token_counts", 0)
        return self._counts


def _encoding(session: Any) -> str | None:
    """Return the encoding of the first of a session's models whose own is public."""
    return next((name for model in session.models or () if (name := encoding_of(model))), None)


def _counted(texts: list[str], encoding: str) -> list[tuple[int, bool]]:
    """Return (tokens, whether exact) of each text.

    Time of an encoding grows with the square of the longest run without a blank; such a
    text is counted in pieces, and a token more or less at each seam.
    """
    if not texts:
        return []
    from ctx_pipeline.tokens.tokenizers import ModelTokenizer
    from ctx_pipeline.tokens.tokenizers import encoding as load

    tokenizer = ModelTokenizer(load(encoding), encoding)
    wild = {n for n, text in enumerate(texts) if _RUN.search(text)}
    tame = [text for n, text in enumerate(texts) if n not in wild]
    counts = iter(tokenizer.count_many([t.encode("utf-8", "replace").decode() for t in tame]))
    found = []
    for n, text in enumerate(texts):
        if n in wild:
            pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
            found.append((sum(tokenizer.count_many([p.encode("utf-8", "replace").decode() for p in pieces])), False))
        else:
            found.append((next(counts), True))
    return found
