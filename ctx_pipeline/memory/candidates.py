"""The stored row of a candidate that a mining method drew from a session."""

from __future__ import annotations

import json
from typing import Any

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.memories import KINDS, RISKS, SCOPES, MemoryCandidate, StoredCandidate
from ctx_pipeline.shell.command_risk import guarded


def store_candidate(candidate: MemoryCandidate, *, session: Any, method: str, version: int) -> StoredCandidate:
    """Return the row of a candidate that ``method`` drew from ``session``.

    Unknown kinds, scopes and risks become case, repo and medium; confidence and priority
    are clamped, so that a plug-in cannot break the table contract. What proposes a command
    that publishes or destroys is of high risk, whatever its method says.
    """
    body = dict(candidate.structured or {})
    if candidate.subject:
        body["subject"] = candidate.subject
    if candidate.scope_reason:
        body["scope_reason"] = candidate.scope_reason
    kind = candidate.kind if candidate.kind in KINDS else "case"
    stored = StoredCandidate(
        digest(method, str(session.host), str(session.session_id), kind, candidate.text, size=24),
        str(session.host),
        str(session.session_id),
        method,
        version,
        kind,
        candidate.text,
        candidate.when_to_use,
        json.dumps(body, ensure_ascii=False, sort_keys=True) if body else None,
        [str(e) for e in candidate.evidence_refs],
        min(1.0, max(0.0, float(candidate.confidence))),
        min(5, max(1, int(candidate.priority))),
        candidate.scope if candidate.scope in SCOPES else "repo",
        candidate.risk if candidate.risk in RISKS else "medium",
        candidate.origin_repo or session.repository,
        session.cwd,
        candidate.ts if candidate.ts is not None else session.last_ts,
    )
    return guarded(stored)
