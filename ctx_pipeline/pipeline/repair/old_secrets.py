"""What older detectors left in clear, out of the files that nothing names any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreLocked
from ctx_pipeline.pipeline.forget import rows
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage import session_notes

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

KEPT = "redaction.txt"
"""File of the store that names the detectors by which all of it was last written."""

_WAIT = 10.0
"""Seconds for which a writer is waited for."""


def clean_past(store: Store, settings: Settings) -> int:
    """Remove what other detectors than today's have written and nothing names any more; return how many parts of the lake.

    Tables, warehouse and page are made anew where their text changed. The parts before them
    would stay for an hour, and their words in the index of the history for ever: both go at
    once, and words that were said of sessions are redacted where they lie, so that a secret
    that was overlooked is in raw alone. Nothing is done while
    another process writes; the next page that is drawn sees to it.
    """
    redactor = Redactor(settings.patterns)
    version = redactor.version.encode()
    if store.files.exists(KEPT) and store.files.read(KEPT) == version:
        return 0
    session_notes.rewrite(store, redactor.redact_values)
    left = rows.unnamed(store)
    if left:
        cells = store.ledger.cells()
        try:
            with rows.alone(store, cells, wait=_WAIT):
                rows.remove_unnamed_parts(store, cells, {})
                store.search.rebuild(store.lake)
            store.ledger.compact()
        except StoreLocked:
            return 0
    store.files.write(KEPT, version)
    return len(left)
