"""Which files of a home hold sessions, and whose each is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.hosts.record_values import when
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

if TYPE_CHECKING:
    import re

SESSION, MESSAGE, PART, DATABASE = "session", "message", "part", "database"
SESSION_KINDS = frozenset({SESSION, MESSAGE, PART, DATABASE})

_STORAGE = r"(?:project/[^/]+/)?storage/"
_KINDS = (
    (SESSION, lazy_pattern(_STORAGE + r"session/(?!message/|part/|share/)[^/]+/[^/]+\.json")),
    (MESSAGE, lazy_pattern(_STORAGE + r"(?:session/)?message/[^/]+/[^/]+\.json")),
    (PART, lazy_pattern(_STORAGE + r"(?:session/)?part/(?:[^/]+/)?[^/]+/[^/]+\.json")),
    (DATABASE, lazy_pattern(r"opencode(?:-[\w.-]+)?\.db")),
)
_FOLDER = lazy_pattern(r"project(?:/[^/]+(?:/storage(?:/session(?:/.*)?)?)?)?|storage(?:/(?:session|message|part)(?:/.*)?)?")

_OWN = lazy_pattern(rb'"sessionID"\s*:\s*"([^"\\]{1,256})"')
_ID = lazy_pattern(rb'"id"\s*:\s*"([^"\\]{1,256})"')
_PARENT = lazy_pattern(rb'"parent(?:ID|_id)"\s*:\s*"([^"\\]{1,256})"')
_CREATED = lazy_pattern(rb'"(?:created|time_created)"\s*:\s*(\d{1,16})')


def classify(rel: str) -> str | None:
    """Return the kind of a file of the home."""
    path = rel.partition("#")[0]
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(path)), None)


def enter(rel: str) -> bool:
    """Tell whether a folder holds sessions."""
    return rel in {"", "."} or _FOLDER.fullmatch(rel) is not None


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a document or the rows of a session are; a session that another one started is a part of it."""
    if kind not in SESSION_KINDS or not head.strip():
        return None
    if kind == DATABASE:
        thread = safe_id(rel.rpartition("#")[2]) if "#" in rel else None
        head = head.partition(b"\n")[0]
    else:
        thread = _found(_ID if kind == SESSION else _OWN, head)
        if thread is None and kind == MESSAGE:
            thread = safe_id(rel.rpartition("/")[0].rpartition("/")[2])
    if thread is None:
        return None
    began = _CREATED.search(head)
    first = when(int(began.group(1))) if began else None
    parent = _found(_PARENT, head) if kind in {SESSION, DATABASE} else None
    if parent and parent != thread:
        return Identity(thread, parent, "part", None, first)
    return Identity(thread, first_ts=first)


def _found(pattern: re.Pattern[bytes], head: bytes) -> str | None:
    match = pattern.search(head)
    return safe_id(match.group(1).decode("utf-8", "replace")) if match else None
