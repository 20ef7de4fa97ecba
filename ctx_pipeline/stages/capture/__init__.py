"""Capture: one stat pass over all homes, then byte-exact copies of what is new."""

from ctx_pipeline.stages.capture.asking import identity_of
from ctx_pipeline.stages.capture.capturing import (
    CODE_VERSION,
    LEASE,
    attempt,
    capture,
    commit,
    drop_forgotten,
    redactor_of,
    settle,
    still_true,
)
from ctx_pipeline.stages.capture.found import Moved, Pending, Problem, Retention, Scan
from ctx_pipeline.stages.capture.packing import pack
from ctx_pipeline.stages.capture.scanning import scan
from ctx_pipeline.stages.capture.selecting import again, select
from ctx_pipeline.stages.capture.taking import Taken, read_new_bytes, take
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
    "again",
    "attempt",
    "capture",
    "commit",
    "drop_forgotten",
    "identify",
    "identity_of",
    "pack",
    "read_hints",
    "read_new_bytes",
    "redactor_of",
    "scan",
    "select",
    "settle",
    "still_true",
    "take",
]
