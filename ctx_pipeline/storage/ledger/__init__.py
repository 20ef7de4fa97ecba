"""The ledger: what was captured, which session and cell it belongs to, what was made of it, who writes now."""

from __future__ import annotations

from ctx_pipeline.storage.ledger.connection import Leases
from ctx_pipeline.storage.ledger.rebuilding import Rebuilding
from ctx_pipeline.storage.ledger.results import Results
from ctx_pipeline.storage.ledger.rows import (
    AssetCell,
    Hint,
    NormalizedSession,
    QuarantineRow,
    Segment,
    SessionRow,
    Source,
    Stamp,
    Tombstone,
    UnknownRow,
)
from ctx_pipeline.storage.ledger.sessions import Forgetting

__all__ = [
    "AssetCell",
    "Hint",
    "Ledger",
    "NormalizedSession",
    "QuarantineRow",
    "Segment",
    "SessionRow",
    "Source",
    "Stamp",
    "Tombstone",
    "UnknownRow",
]


class Ledger(Rebuilding, Forgetting, Results, Leases):
    """``ledger.db``: SQLite in WAL mode, short transactions, one connection a thread and process."""
