"""Capture: one stat pass over all homes, then byte-exact copies of what is new."""

from ctx_pipeline.pipeline.capture.capturing import (
    CODE_VERSION,
    LEASE,
    attempt,
    capture,
    commit,
    commit_without_bytes,
    drop_forgotten,
    note_times,
    pack,
    redactor_of,
    still_true,
)
from ctx_pipeline.pipeline.capture.read_source import Taken, read_new_bytes, take
from ctx_pipeline.pipeline.capture.scanning import Moved, Pending, Problem, Retention, Scan, scan
from ctx_pipeline.pipeline.capture.selecting import as_new_generations, identity_of, select
from ctx_pipeline.storage.ledger.links import identify, read_hints

__all__ = [
    "CODE_VERSION",
    "LEASE",
    "Moved",
    "Pending",
    "Problem",
    "Retention",
    "Scan",
    "Taken",
    "as_new_generations",
    "attempt",
    "capture",
    "commit",
    "commit_without_bytes",
    "drop_forgotten",
    "identify",
    "identity_of",
    "note_times",
    "pack",
    "read_hints",
    "read_new_bytes",
    "redactor_of",
    "scan",
    "select",
    "still_true",
    "take",
]
