"""Capture: one stat pass over all homes, then byte-exact copies of what is new."""

from ctx_pipeline.pipeline.capture.capturing import (
    CODE_VERSION,
    LEASE,
    attempt,
    capture,
    commit,
    commit_without_bytes,
    drop_forgotten,
    redactor_of,
    still_true,
)
from ctx_pipeline.pipeline.capture.identify import identity_of
from ctx_pipeline.pipeline.capture.packing import pack
from ctx_pipeline.pipeline.capture.read_source import Taken, read_new_bytes, take
from ctx_pipeline.pipeline.capture.scanning import scan
from ctx_pipeline.pipeline.capture.selecting import as_new_generations, select
from ctx_pipeline.pipeline.capture.types import Moved, Pending, Problem, Retention, Scan
from ctx_pipeline.storage.ledger.host_answers import identify, read_hints

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
    "pack",
    "read_hints",
    "read_new_bytes",
    "redactor_of",
    "scan",
    "select",
    "still_true",
    "take",
]
